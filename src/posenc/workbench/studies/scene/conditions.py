"""The conditions of the scene study: a scene, and a change of its highlights, of the color network or of the sampling.

The stored label of a condition is the name of its scene, followed by the ending of its change.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection
from dataclasses import dataclass

import msgspec
from typing_extensions import override

from posenc.models.radiance import RadianceConfig
from posenc.workbench.studies.shared.declarations import Condition

SPOT, TORUS = "spot", "torus"
"""The reported rendered solid, and the solid on which sigma and the learning rates were chosen."""


@dataclass(frozen=True, kw_only=True)
class SceneCondition(Condition):
    """A scene, with a change of the scene or of the radiance field.

    Attributes:
        scene: Name of the scene.
        ending: Ending of the stored label.
        highlights: True if the rendered solid has highlights.
        directions: True if the color depends on the view direction.
        importance: True if half of the samples are placed by importance, from the weights of a first pass.
        occupancy: True if an occupancy grid leaves out empty cells.
    """

    label: str = ""
    scene: str = ""
    ending: str = ""
    highlights: bool = True
    directions: bool = True
    importance: bool = False
    occupancy: bool = True

    @override
    def varies(self, preset: str) -> Collection[str]:
        """The cells of the occupancy grid, for a condition without it."""
        return () if self.occupancy else ("cells",)

    def for_scene(self, scene: str) -> SceneCondition:
        """The condition of a scene with this change."""
        label = scene + self.ending
        return dataclasses.replace(self, scene=scene, label=label, title=label, takes_file=scene != TORUS)

    def radiance(self, config: RadianceConfig) -> RadianceConfig:
        """The configuration of a radiance field with this change; the number of samples per ray stays."""
        if not self.directions:
            config = msgspec.structs.replace(config, views=False)
        if self.importance:
            coarse = config.samples // 2
            config = msgspec.structs.replace(config, samples=coarse, fine=config.samples - coarse)
        return config if self.occupancy else msgspec.structs.replace(config, cells=0)


UNCHANGED = SceneCondition()
NO_DIRECTIONS = SceneCondition(
    ending=" without directions", directions=False, changes={"input of the color network": "no view direction"}
)
NO_HIGHLIGHTS = SceneCondition(
    ending=" without highlights", highlights=False, changes={"scene": "rendered without highlights"}
)
NO_HIGHLIGHTS_OR_DIRECTIONS = SceneCondition(
    ending=" without highlights or directions",
    highlights=False,
    directions=False,
    changes={**NO_HIGHLIGHTS.changes, **NO_DIRECTIONS.changes},
)
NO_OCCUPANCY = SceneCondition(
    ending=" without cells", occupancy=False, changes={"samples on a ray": "evenly spaced, no occupancy grid"}
)
IMPORTANCE = SceneCondition(
    ending=" with importance samples",
    importance=True,
    changes={"samples on a ray": "half by importance, in occupied cells"},
)
IMPORTANCE_NO_OCCUPANCY = SceneCondition(
    ending=" with importance samples without cells",
    importance=True,
    occupancy=False,
    changes={"samples on a ray": "half by importance, no occupancy grid"},
)
DIRECTION_CHANGES = (UNCHANGED, NO_DIRECTIONS, NO_HIGHLIGHTS, NO_HIGHLIGHTS_OR_DIRECTIONS)
SAMPLING_CHANGES = (UNCHANGED, NO_OCCUPANCY, IMPORTANCE, IMPORTANCE_NO_OCCUPANCY)


def condition(label: str) -> SceneCondition:
    """The condition with a stored label."""
    every = (*DIRECTION_CHANGES, *SAMPLING_CHANGES)
    change = max((each for each in every if label.endswith(each.ending)), key=lambda each: len(each.ending))
    return change.for_scene(label.removesuffix(change.ending))
