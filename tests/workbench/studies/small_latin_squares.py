"""The quick preset of the Latin-square study with runs of a few seconds."""

from __future__ import annotations

import dataclasses

import msgspec
import pytest

from posenc.workbench.studies.latin_squares import conditions, presets


def new_preset() -> presets.Preset:
    """Return a copy of the preset with 300 puzzles and two epochs."""
    preset = presets.PRESETS["quick"]
    data = msgspec.structs.replace(preset.main.data, train=300, iid=60, ood=30)
    training = msgspec.structs.replace(preset.main.training, epochs=2, evaluate_every=1)
    main = msgspec.structs.replace(preset.main, data=data, train_size=256, training=training)
    return dataclasses.replace(preset, main=main, sigmas=(0.1, 0.2, 0.6, 1.0, 2.0))


def shrink(patch: pytest.MonkeyPatch) -> presets.Preset:
    """Make the quick preset and its conditions small."""
    small = new_preset()
    patch.setitem(presets.PRESETS, "quick", small)
    for label, condition in conditions.CONDITIONS.items():
        change = condition.change_at("quick") if isinstance(condition, conditions.ChangedTraining) else None
        if change is not None:
            short = msgspec.structs.replace(
                change,
                train_size=256 if change.train_size else None,
                training={**change.training, **({"epochs": 2} if "epochs" in change.training else {})},
            )
            patch.setitem(conditions.CONDITIONS, label, dataclasses.replace(condition, by_preset={"quick": short}))
    return small
