"""Learning rates chosen by a sweep: one seed at half the budget for each rate and variant, compared on validation data.

The runs of the sweep are stored in conditions such as "lr 0.003". The other runs of the variant have the chosen rate.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from math import isnan
from typing import TYPE_CHECKING, Any

import msgspec

from posenc.workbench.report.number_format import number
from posenc.workbench.report.page import Panel, Table
from posenc.workbench.runs import RunSpec
from posenc.workbench.storage.store import Store
from posenc.workbench.studies import Request
from posenc.workbench.studies.shared.changes import preset_label
from posenc.workbench.studies.shared.declarations import MAIN, full_budget_of
from posenc.workbench.studies.shared.own_data import with_half_budget
from posenc.workbench.training.config import Best

if TYPE_CHECKING:
    from posenc.workbench.studies.shared.study import Study

DIGITS = 3
"""Decimals of validation scores."""
_LABEL = re.compile(r"(?:(?P<condition>.+), )?lr (?P<rate>\d\S*)")


def sweep_label(rate: float, condition: str) -> str:
    """Label of the condition of a sweep that trains another condition with a rate: "lr 0.003" for the main one."""
    return f"lr {rate:g}" if condition == MAIN else f"{condition}, lr {rate:g}"


def swept_condition(label: str) -> str | None:
    """Condition that a condition of a sweep belongs to; None for other conditions."""
    match = _LABEL.fullmatch(label)
    return None if match is None else match["condition"] or MAIN


def study_condition(label: str) -> str:
    """Condition of the study that a condition belongs to which repeats it with half the budget or with another rate."""
    return full_budget_of(label) or swept_condition(label) or label


def with_rate(settings: Mapping[str, Any], rate: float) -> dict[str, Any]:
    """Settings of a run with another learning rate."""
    return {**settings, "training": {**settings["training"], "lr": rate}}


def refuse_sweep(study: Study, request: Request) -> None:
    """Raise ValueError for a sweep without validation data, because test data choose no rate.

    Args:
        study: The study.
        request: The request, which names learning rates.
    """
    preset = study.presets[request.preset]
    if any(each.own is not None and each.own.parts for each in study.presets.values()):
        if request.source is None:
            raise ValueError(
                f"--lr-sweep chooses learning rates on validation data, and {study.name} holds some out of your own "
                f"data alone. Name your data: posenc run {study.name} PATH --lr-sweep {_words(request)}"
            )
        if preset.own is None:
            possible = " or ".join(name for name, each in study.presets.items() if each.own is not None)
            raise ValueError(
                f"--lr-sweep chooses learning rates on validation data, which the preset {request.preset} does not "
                f"hold out. Use --preset {possible}."
            )
        return
    raise ValueError(
        f"--lr-sweep chooses learning rates on validation data, and {study.name} holds none out. Change the rate of "
        f"all variants instead: --set lr={(request.lr_sweep or (0,))[0]:g}"
    )


def sweep_specs(
    study: Study, request: Request, condition: str, variant: str, settings: Mapping[str, Any], seed: int
) -> dict[float, RunSpec]:
    """Runs of the sweep of a variant, by rate; none for a variant without a training on the user's data."""
    if not request.lr_sweep or "best" not in settings.get("training", {}):
        return {}
    halved, preset = with_half_budget(settings), preset_label(study.presets, request)
    assert halved is not None
    return {
        rate: study.procedure.spec(
            study=study.name,
            preset=preset,
            condition=sweep_label(rate, condition),
            variant=variant,
            seed=seed,
            settings=with_rate(halved, rate),
        )
        for rate in request.lr_sweep
    }


def swept_seeds(store: Store, study: str, preset: str) -> dict[tuple[str, str], list[int]]:
    """Condition and variant to the seeds that have runs of a sweep in a store, rising."""
    found: dict[tuple[str, str], set[int]] = {}
    for spec in store.specs(study, preset):
        if (condition := swept_condition(spec.condition)) is not None:
            found.setdefault((condition, spec.variant), set()).add(spec.seed)
    return {cell: sorted(seeds) for cell, seeds in found.items()}


def validation_score(store: Store, spec: RunSpec) -> float | None:
    """Best score of a run on its validation part; None for a run that is not finished."""
    if not store.finished(spec.identity):
        return None
    best, curve = best_of(spec), store.read(spec.identity).curves
    at = best.epoch(curve)
    return next(row["value"] for row in curve if (row["epoch"], row["metric"]) == (at, best.metric))


def best_of(spec: RunSpec) -> Best:
    """Score that chooses the step, and the rate, of a run on the user's data."""
    return msgspec.convert(spec.settings["training"]["best"], Best)


def chosen_rate(store: Store, by_rate: Mapping[float, RunSpec]) -> float | None:
    """Rate with the best validation score; of equal scores the smallest. None if no run of the sweep is finished.

    A score that is nan is worse than any other.
    """
    scores = {rate: score for rate, spec in by_rate.items() if (score := validation_score(store, spec)) is not None}
    if not scores:
        return None
    sign = 1 if best_of(next(iter(by_rate.values()))).mode == "max" else -1
    return max(scores, key=lambda rate: (not isnan(scores[rate]), sign * scores[rate], -rate))


def sweep_panel(store: Store, specs: Sequence[RunSpec]) -> Panel | None:
    """Table of validation scores by variant and rate, with the chosen rate; None without a sweep.

    Args:
        store: The store.
        specs: All runs of a page.

    Returns:
        The panel.
    """
    tables = tuple(_tables(store, [spec for spec in specs if swept_condition(spec.condition) is not None]))
    caption = (
        "Each rate was tried with one seed and half of the steps. The rate with the best score on the validation part "
        "was chosen for each variant; the test part had no influence."
    )
    return Panel("Learning rates", tables, caption) if tables else None


def _tables(store: Store, specs: Sequence[RunSpec]) -> Iterator[Table]:
    for condition in dict.fromkeys(swept_condition(spec.condition) for spec in specs):
        sweeps: dict[tuple[str, int], dict[float, RunSpec]] = {}
        for spec in specs:
            if swept_condition(spec.condition) == condition:
                sweeps.setdefault((spec.variant, spec.seed), {})[spec.settings["training"]["lr"]] = spec
        rates = sorted({rate for by_rate in sweeps.values() for rate in by_rate})
        times = Counter(variant for variant, _ in sweeps)
        body = tuple(
            (
                f"{variant} (seed {seed})" if times[variant] > 1 else variant,
                *(_score(store, by_rate.get(rate)) for rate in rates),
                _chosen(store, by_rate),
            )
            for (variant, seed), by_rate in sweeps.items()
        )
        metric = best_of(specs[0]).metric
        where = "" if condition == MAIN else f", {condition}"
        columns = ("variant", *(f"rate {rate:g}" for rate in rates), "chosen rate")
        yield Table(f"Validation {metric.replace('_', ' ')}{where}", columns, body)


def _score(store: Store, spec: RunSpec | None) -> str:
    score = None if spec is None else validation_score(store, spec)
    return "not finished" if score is None else number(score, DIGITS)


def _chosen(store: Store, by_rate: Mapping[float, RunSpec]) -> str:
    chosen = chosen_rate(store, by_rate)
    return "none finished: rate of the preset" if chosen is None else f"{chosen:g}"


def _words(request: Request) -> str:
    return " ".join(f"{rate:g}" for rate in request.lr_sweep or ())
