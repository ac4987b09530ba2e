"""Declarations of a study: presets, conditions and panels.

A variant is an encoding under its label. A condition is a way of training every variant (data, protocol, training). A
panel is a table or figure of the page, with the variants that it needs in each condition.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Self

from posenc.workbench.report.page import Panel
from posenc.workbench.runs import RunSpec
from posenc.workbench.storage.store import Store

if TYPE_CHECKING:
    from posenc.workbench.studies import Request
    from posenc.workbench.studies.shared.page_data import PageData

MAIN = "main"
"""Label of the main condition of every study."""

HALF = "half budget"
"""Label of the condition that trains each variant again with half its steps (a whole schedule, not a run cut short)."""


def half_budget_of(label: str) -> str:
    """Label of the condition that is another one with half the steps: "half budget" for the main condition."""
    return HALF if label == MAIN else f"{label}, {HALF}"


def full_budget_of(label: str) -> str | None:
    """Label of the condition that a condition with half the steps repeats; None for other conditions."""
    return MAIN if label == HALF else label.removesuffix(f", {HALF}") if label.endswith(f", {HALF}") else None


Needs = Mapping[str, Sequence[str]]
"""Label of a condition to the labels of its variants."""


@dataclass(frozen=True, kw_only=True)
class OwnDataPlan:
    """Plan of the runs on a user's own data, in place of the built-in data of a preset.

    Attributes:
        seeds: Seeds of every variant. Where the user gives no test part, each seed has another one.
        parts: True if the data are divided into training, validation and test parts, and the settings of a run say so.
        half: True to train each variant with half its steps too, so that a page can tell if it still learns.

    Example:
        >>> from posenc.workbench import OwnDataPlan
        >>> OwnDataPlan().seeds, OwnDataPlan(half=False).half
        ((0, 1, 2, 3, 4), False)
    """

    seeds: Sequence[int] = (0, 1, 2, 3, 4)
    parts: bool = True
    half: bool = True


@dataclass(frozen=True, kw_only=True)
class Preset:
    """Scale of a study. A study may subclass it with sizes of its own.

    The class attribute ``aliases`` maps the dotted path of a field that another setting decides to the name of that
    setting.

    Attributes:
        about: The models that it trains, and the time that they take.
        seeds: Seeds of every variant.
        panels: Names of the panels that it draws by default.
        asks: True to ask for confirmation before it starts, because it is long.
        own: Plan of the runs on a user's own data; None to train them as the built-in data.
        decided: Sentences on settings that the document of this preset leaves open, with the values chosen here.

    Example:
        >>> from posenc.workbench import Preset
        >>> quick = Preset(about="11 models, 3 minutes", seeds=(0,), panels=("curves",), asks=False)
        >>> quick.seeds
        (0,)
    """

    about: str
    seeds: Sequence[int]
    panels: Sequence[str]
    asks: bool = True
    own: OwnDataPlan | None = None
    decided: Sequence[str] = ()
    aliases: ClassVar[Mapping[str, str]] = MappingProxyType({})

    @property
    def computed(self) -> Collection[str]:
        """Dotted paths of the settings that the study computes, unless a request changes them."""
        return ()

    @property
    def computed_on_own_data(self) -> Collection[str]:
        """Dotted paths of the settings that the study computes for a user's own data, unless a request names them."""
        return ()

    @property
    def names(self) -> Mapping[str, Sequence[str]]:
        """Texts that a setting may have, by its dotted path, where it names something, such as a model's size."""
        return {}

    def with_dependent_values(self, changed: Collection[str]) -> Self:
        """Return the preset with the values that follow from changed ones. A subclass with such values overrides it.

        Args:
            changed: Dotted paths of the settings that a request changes, without keys of mappings.

        Returns:
            The preset.
        """
        return self


@dataclass(frozen=True, kw_only=True)
class Condition:
    """Condition of a study: one way of training every variant.

    Attributes:
        label: Name of the condition in the store.
        title: Phrase for the page.
        changes: Setting to value, for the settings that differ from the main condition, as the page prints them.
        has_variant: Returns True for the label of a variant that is trained in this condition.
        takes_file: True if the models learn the user's file, when one is given.
        needs: What it needs beside its panel, such as "Caltech-100 in the folder of data (--data DIR)"; "" for nothing.

    Example:
        >>> from posenc.workbench import Condition
        >>> decay = Condition(label="decay", title="weight decay 0.1", changes={"weight decay": "0.1"})
        >>> decay.has_variant("rope")
        True
    """

    label: str
    title: str = ""
    changes: Mapping[str, str] = field(default_factory=dict)
    has_variant: Callable[[str], bool] = lambda variant: True
    takes_file: bool = True
    needs: str = ""

    def changes_in(self, data: PageData) -> Mapping[str, str]:
        """Return the changes for the runs of a page. A subclass may read them from stored settings.

        Args:
            data: The data of the page.

        Returns:
            Setting to value, as in ``changes``.
        """
        return self.changes

    def varies(self, preset: str) -> Collection[str]:
        """Return the settings of the preset that this condition fixes itself. A subclass overrides it.

        Args:
            preset: Name of the preset.

        Returns:
            Dotted paths of the settings, which a request for this condition cannot change.
        """
        return ()


def _nothing(request: Request, preset: Any, store: Store, specs: Sequence[RunSpec]) -> Sequence[RunSpec]:
    return ()


def _varies_nothing(request: Request, preset: Any) -> Collection[str]:
    return ()


@dataclass(frozen=True, kw_only=True)
class PanelSpec:
    """Specification of a panel: the runs that it needs, and the function that draws it.

    Attributes:
        about: Subject of the panel.
        shows: Figure or table of a publication that it redraws, or "none".
        needs: Maps the request and the preset to the variants that the panel needs in each condition.
        draw: Maps the data of the page to finished panels.
        measured: Maps the request, the preset, the store and the finished runs to the runs that measure them.
        shows_condition: Returns True for the label of a stored condition that the panel shows, if its conditions depend
            on data that a report does not read; None if ``needs`` decides.
        varies: Maps the request and the preset to the dotted paths of settings that the panel varies in addition to its
            conditions, such as the sizes of a sweep. A request for the panel cannot change them.

    Example:
        >>> from posenc.workbench import MAIN, Panel, PanelSpec, Table
        >>> def draw(data):
        ...     rows = tuple((row["scheme"], f"{row['value']:.3f}") for row in data.rows)
        ...     return [Panel("Accuracy by encoding", (Table("Each run", ("encoding", "accuracy"), rows),))]
        >>> spec = PanelSpec(
        ...     about="accuracy of each encoding",
        ...     shows="Table 1",
        ...     needs=lambda request, preset: {MAIN: ("rope", "alibi")},
        ...     draw=draw,
        ... )
        >>> spec.description
        'accuracy of each encoding (Table 1)'
    """

    about: str
    shows: str
    needs: Callable[[Request, Any], Needs]
    draw: Callable[[PageData], list[Panel]]
    measured: Callable[[Request, Any, Store, Sequence[RunSpec]], Sequence[RunSpec]] = _nothing
    shows_condition: Callable[[str], bool] | None = None
    varies: Callable[[Request, Any], Collection[str]] = _varies_nothing

    @property
    def description(self) -> str:
        """Subject and source in one line, for lists of panels."""
        return f"{self.about} ({self.shows})"
