"""Training on a user's own data: a number of steps, a validation part that chooses the step, and half the budget.

Built-in data has a known size, so presets train on it for epochs. An epoch of a folder may be one step or thousands.
A run on own data therefore has a number of steps. Its settings have two more entries:

    split   "seed": the parts are drawn by the seed of the run; "given": the user's test part, the same for every seed
    items   number of items of each part, and their unit
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from typing import Any, Literal

from msgspec.structs import replace

from posenc.workbench.studies import Request
from posenc.workbench.studies.shared.declarations import OwnDataPlan, Preset
from posenc.workbench.training.config import Best, TrainingConfig

Split = Literal["seed", "given"]
TEST_SHARE, VALIDATION_SHARE = 0.2, 0.15
"""Shares of the items of a class for testing and for validation, where the user gives no test part."""
GIVEN_VALIDATION_SHARE = 0.2
"""Share of the training items of a class for validation, where the user gives a test part alone."""
EVALUATIONS = 10
"""Evaluations on the validation part, one of which chooses the step."""
SCHEDULE = ("epochs", "warmup_steps", "decay_steps", "evaluate_every")
"""Fields of a training that are numbers of steps where an epoch is one step."""


def own_plan(preset: Preset, request: Request) -> OwnDataPlan | None:
    """Return the plan of a request for the user's own data.

    Args:
        preset: The preset of the request.
        request: The request.

    Returns:
        The plan; None for built-in data, or for a preset that trains own data as built-in data.
    """
    return None if request.source is None else preset.own


def refuse_generated(request: Request, names: Collection[str]) -> None:
    """Check that a request on a user's data changes no setting of other data, which would have no effect.

    Args:
        request: The request.
        names: Settings of the generated or built-in data.

    Raises:
        ValueError: It changes one.
    """
    for name in request.changes or {}:
        if name in names:
            raise ValueError(
                f"--set {name} is a setting of generated or built-in data, and yours are read whole. Leave it out."
            )


def parts_settings(
    split: Split, counts: Mapping[str, int], unit: str, untested: Collection[str] = ()
) -> dict[str, Any]:
    """Return the entries of a run's settings on the parts of its data.

    Args:
        split: "seed" or "given".
        counts: Items of the parts "train", "validation" and "test".
        unit: Plural noun for the items.
        untested: Names of classes without test items.

    Returns:
        Entries "split" and "items".
    """
    without = {"untested": list(untested)} if untested else {}
    return {"split": split, "items": {**counts, "unit": unit, **without}}


def training_in_steps(
    training: TrainingConfig, steps: int, best: Best, explicit: Mapping[str, Any], items: int
) -> TrainingConfig:
    """Return a training for a number of steps; an epoch is then one step.

    Args:
        training: The training of the preset.
        steps: Number of steps.
        best: Choice of the step on validation data.
        explicit: Fields that the request changes. A number of epochs counts passes over the user's training items.
        items: Number of training items.

    Returns:
        The training, with evaluations at equal distances, without a schedule of the learning rate. A batch is no
        larger than the items.
    """
    training = replace(training, batch=min(training.batch, items))
    if "epochs" in explicit:
        steps = explicit["epochs"] * math.ceil(items / training.batch)
    return replace(training, epochs=steps, evaluate_every=max(1, steps // EVALUATIONS), best=best)


def with_half_budget(settings: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the settings of a run with half its steps and its whole schedule; None for a run without a training.

    A time limit is halved, too.
    """
    training = settings.get("training")
    if training is None:
        return None
    halved = {name: max(1, training[name] // 2) for name in SCHEDULE if training.get(name)}
    halved |= {"seconds": training["seconds"] / 2} if training.get("seconds") else {}
    return {**settings, "training": {**training, **halved}}
