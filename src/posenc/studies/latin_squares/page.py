"""What the Latin-square study shows: its panels, the published numbers beside it, and what it did not run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from posenc.report.page import Panel, write_page
from posenc.report.panels import accuracy_by_class, accuracy_by_scheme, against_published, contrast, learning_curves
from posenc.report.provenance import what_was_run
from posenc.report.verdict import Verdict, judge, verdict
from posenc.store import Store, Unit
from posenc.studies.latin_squares import rows as plan
from posenc.studies.latin_squares import work
from posenc.tasks import latin_squares as task

OOD, IID = "accuracy_ood", "accuracy_iid"
EXPECTED = (("2d-fixed", "1d-fixed"), ("learned-0.2", "learned-2"), ("learned-0.2", "1d-fixed"))

PUBLISHED = {
    "2d-fixed": (0.977, 0.073),
    "learned-0.1": (0.925, 0.083),
    "learned-0.2": (0.956, 0.039),
    "learned-1": (0.894, 0.043),
    "learned-2": (0.377, 0.171),
    "relative": (0.920, 0.042),
    "random": (0.888, 0.046),
    "rope": (0.805, 0.115),
    "1d-fixed": (0.781, 0.185),
    "nope": (0.334, 0.020),
    "causal-nope": (0.314, 0.042),
}
"""Validation accuracy on the 108 human items, mean and SD of 15 seeds after 4,000 epochs: Tables 1 and A2 of the ICLR
2025 submission of arXiv 2406.08272. Their relative, causal-nope and fixed rows ran other code: see ``rows.AS_RUN``."""

SOURCE = "arXiv 2406.08272 (ICLR 2025 submission), Tables 1 and A2: 15 seeds, 4,000 epochs, 108 human puzzles"

CHOSEN = (
    "The main setting was chosen, among about twenty, to show the gap between small and large initial tables: its size "
    "is therefore selected; its sign was the same in every three-seed run. Here the same encodings train in a setting "
    "chosen because the gap closes in it: 8,000 puzzles, a learning rate three times as large, layer norm before "
    "attention, tokens as large as the positions (standard deviation 1), the encoding added once, at the input."
)
LIMITS = {
    "quick": (
        "A two-layer model of width 32 on 3,000 generated puzzles. Its setting was chosen to show the gap (below: "
        "where it closes), and the puzzles' seed after another had left a run of 2d-fixed unfinished at 80 epochs.",
        "Held-out puzzles were drawn first and training puzzles kept away from them (Jaccard distance above 0.8), "
        "which makes rules that ignore positions score differently on the two sets: their scores are the dashed lines.",
    ),
}


def judgement(name: str, store: Store, units: Sequence[Unit]) -> Verdict:
    """The verdict in words, for a terminal."""
    results = store.results(study=name, keys={unit.key for unit in units})
    return judge(results, expected=EXPECTED, **_bar(store, units[0].preset))


def write(name: str, question: str, store: Store, units: Sequence[Unit], failures: Mapping[str, str]) -> Path:
    """The page of one preset; units: all that were planned."""
    preset = units[0].preset
    keys = {unit.key for unit in units}
    results = store.results(study=name, keys=keys)
    curves = store.curves(study=name, keys=keys)
    stored = [store.read(key) for key in sorted(keys) if store.finished(key)]
    timings = [{**unit.provenance, **unit.timing, "unit": unit.key} for unit in stored]
    path = store.root / "pages" / f"{name}-{preset}.html"
    path.parent.mkdir(parents=True, exist_ok=True)
    return write_page(
        path,
        title=question,
        lead=(
            "Each puzzle is a half-empty 4 x 4 Latin square of 16 tokens; the network names the symbol of one marked "
            "cell. Nothing but the positional encoding tells it which cells share a row or a column."
        ),
        panels=_panels(store, units, results, curves, timings, failures),
        footer=f"posenc run {name} --preset {preset}. Every number is in the store beside this page: posenc results.",
    )


def _panels(
    store: Store,
    units: Sequence[Unit],
    results: list[dict[str, Any]],
    curves: list[dict[str, Any]],
    timings: list[dict[str, Any]],
    failures: Mapping[str, str],
) -> list[Panel]:
    preset = units[0].preset
    baselines = _baselines(store, preset)
    settings = {"main": "The main setting", **dict.fromkeys(plan.PRESETS[preset].other, "Where the gap closes")}
    panels = [
        verdict(results, expected=EXPECTED, limits=LIMITS.get(preset, ()), **_bar(store, preset)),
        accuracy_by_scheme(
            results,
            metrics={OOD: "Out of distribution", IID: "In distribution"},
            chance=0.25,
            baselines=baselines,
        ),
        accuracy_by_class(
            results,
            metrics={f"{OOD}_{kind}": f"{kind}-vector puzzles" for kind in (1, 2, 3)},
            chance=0.25,
            order_by=OOD,
            caption="How many rows and columns must be combined to know the symbol. Out of distribution.",
        ),
        learning_curves(curves, metrics={OOD: "out of distribution", "accuracy_train": "training"}, chance=0.25),
    ]
    if len(settings) > 1:
        # in the store a scheme of another setting carries its setting, so that nobody averages over both unawares
        alike = [{**row, "scheme": row["scheme"].removesuffix(f", {row['setting']}")} for row in results]
        panels.append(contrast(alike, metric=OOD, settings=settings, pairs=EXPECTED[1:2], chance=0.25, chosen=CHOSEN))
    same = preset != "quick"
    panels += [
        against_published(
            results,
            metric=OOD,
            published=PUBLISHED,
            source=SOURCE,
            label="the paper's model, fewer epochs" if same else "another model, another scale",
        ),
        what_was_run(
            timings,
            planned=len({unit.key for unit in units}),
            missing=[
                {"unit": f"{unit.scheme}, seed {unit.seed}", "reason": failures[unit.key]}
                for unit in units
                if unit.key in failures
            ],
            not_run=_not_run(preset, units),
        ),
    ]
    return panels


def _not_run(preset: str, units: Sequence[Unit]) -> tuple[str, ...]:
    told = []
    run = {unit.scheme for unit in units}
    left_out = [label for label in plan.PRESETS[preset].rows if label not in run]
    if left_out:
        told.append(f"The rows {', '.join(left_out)} of this preset.")
    if preset == "quick":
        told.append("The paper's model (width 160, four layers, 8,100 puzzles): presets standard and paper.")
        told.append("What the authors' code ran under the same names: rows such as 2d-fixed-literal, in those presets.")
    return tuple(told)


def _dataset(store: Store, preset: str) -> task.Dataset | None:
    """The puzzles that this preset's units were trained on."""
    for unit in store.units():
        if unit.study == "latin-squares" and unit.preset == preset and unit.setting == "main":
            path = work.dataset_path(store.root, unit.settings["data"])
            return task.load(path) if path.exists() else None
    return None


def _baselines(store: Store, preset: str) -> dict[str, dict[str, float]]:
    """What can be scored without seeing the grid: the commonest symbol of a cell, and the rarest clue."""
    data = _dataset(store, preset)
    if data is None:
        return {}
    return {
        metric: {
            "commonest at the cell": task.cell_prior(data.train, held),
            "rarest symbol": task.least_frequent_symbol(held),
        }
        for metric, held in ((OOD, data.ood), (IID, data.iid))
    }


def _bar(store: Store, preset: str) -> dict[str, Any]:
    scores = _baselines(store, preset).get(OOD, {})
    rule = max(scores, key=lambda name: scores[name], default="")
    if not rule or scores[rule] < 0.25:
        return {"metric": OOD, "bar": 0.25, "bar_name": "guessing"}
    named = {"rarest symbol": "answering the rarest clue, the best rule that ignores positions",
             "commonest at the cell": "answering the commonest symbol of the cell"}  # fmt: skip
    return {"metric": OOD, "bar": scores[rule], "bar_name": named[rule]}
