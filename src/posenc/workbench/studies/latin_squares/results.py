"""Results of the runs on a page: selected rows, baselines, intervals over puzzles, arrays of measurements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np

from posenc.measure.inference import FEWEST_SEEDS_FOR_BOOTSTRAP, accuracy_interval
from posenc.measure.statistics import Estimate
from posenc.workbench.report.result_rows import BySeed, Row, values_by_scheme
from posenc.workbench.runs import RunSpec
from posenc.workbench.studies.latin_squares.execute import IID, OOD, dataset_path
from posenc.workbench.studies.latin_squares.presets import Preset
from posenc.workbench.studies.latin_squares.variants import ACCURACY, AS_RELEASED, SMALL_SIGMAS, learned, sigma_of
from posenc.workbench.studies.shared.declarations import MAIN
from posenc.workbench.studies.shared.page_data import PageData
from posenc.workbench.tasks import latin_squares as task

COMMONEST = "commonest symbol of the cell"
RAREST = "rarest symbol of the clues"
STORED_BASELINES = {
    "latin-squares-729e713f9c8906f7": {OOD: (0.09, 0.355556), IID: (0.303, 0.368333)},  # quick
    "latin-squares-891aa9c84b9212ff": {OOD: (0.157407, 0.342593), IID: (0.323333, 0.377222)},  # the authors'
    "latin-squares-73609a74585884e7": {
        OOD: (0.240741, 0.432870),
        IID: (0.341111, 0.414259),
    },  # generated in place of the authors'
}
"""Accuracies of the commonest and the rarest symbol on the presets' own puzzles, for stores without these puzzles."""
PAPERS_MODEL = {"dim": 160, "depth": 4, "hidden": 640}


def rows_of(data: PageData, labels: Sequence[str], *conditions: str) -> list[Row]:
    """Result rows of these variants in these conditions, by default in all."""
    return [row for row in data.rows if row["scheme"] in labels and (not conditions or row["setting"] in conditions)]


def by_sigma(data: PageData, metric: str, sigmas: Sequence[float], condition: str = MAIN) -> dict[float, BySeed]:
    """Values of learned tables: standard deviation -> seed -> value."""
    values = values_by_scheme(rows_of(data, [learned(sigma) for sigma in sigmas]), metric, condition)
    return {sigma: values[learned(sigma)] for sigma in sigmas if learned(sigma) in values}


def preset_of(data: PageData) -> Preset:
    """The preset of the page with its own fields."""
    return cast(Preset, data.preset)


def sigmas_of(data: PageData) -> tuple[float, ...]:
    """Standard deviations of the preset, and further ones that were asked for by name."""
    further = (sigma_of(label) for label in further_variants(data) if label.startswith("learned-"))
    return tuple(sorted({*preset_of(data).sigmas, *further}))


def further_variants(data: PageData) -> list[str]:
    """Variants of the main condition that no panel of the preset needs: they were asked for by name."""
    needed = {*ACCURACY, *AS_RELEASED, *map(learned, (*SMALL_SIGMAS, *preset_of(data).sigmas))}
    return [label for label in data.labels(MAIN) if label not in needed]


def settings_of(data: PageData, condition: str = MAIN) -> Mapping[str, Any]:
    """Stored settings of a run of a condition; empty where the page has none."""
    return next((spec.settings for spec in data.specs if spec.condition == condition), {})


def is_papers_model(data: PageData) -> bool:
    """Return True if the runs trained a model of the paper's size."""
    model = settings_of(data).get("model", {})
    return all(model.get(name) == value for name, value in PAPERS_MODEL.items())


def has_authors_puzzles(data: PageData) -> bool:
    """Return True if the runs were trained on the authors' puzzles."""
    return "authors" in settings_of(data).get("data", {})


def difference_from_paper(data: PageData) -> str:
    """Phrase for the difference between the paper's model and training and those of the page."""
    return "the paper's model, fewer epochs" if is_papers_model(data) else "another model, another scale"


def table_name(data: PageData, table: str) -> str:
    """Name of a published table, with a note if its model differs from that of the page."""
    return table if is_papers_model(data) else f"{table} (another model)"


def baselines(data: PageData) -> dict[str, dict[str, float]]:
    """Accuracy of two rules that ignore positions, by metric; empty if the store lacks the puzzles of the user.

    The rules answer the commonest symbol of a cell among the training answers, or the rarest symbol of the clues.
    """
    settings = settings_of(data)
    if not settings:
        return {}
    path = dataset_path(data.store.root, settings["data"])
    if not path.exists():  # as in a store that was merged from packs
        known = STORED_BASELINES.get(path.stem, {})
        return {metric: dict(zip((COMMONEST, RAREST), scores, strict=True)) for metric, scores in known.items()}
    dataset = task.load_dataset(path)
    return {
        metric: {
            COMMONEST: task.cell_prior_accuracy(dataset.train, puzzles),
            RAREST: task.least_frequent_symbol_accuracy(puzzles),
        }
        for metric, puzzles in ((OOD, dataset.ood), (IID, dataset.iid))
    }


def bootstrap_intervals(data: PageData, labels: Sequence[str]) -> dict[str, dict[str, Estimate]]:
    """Bootstrap intervals over seeds and puzzles, for ten seeds or more: metric -> label -> estimate."""
    intervals: dict[str, dict[str, Estimate]] = {}
    for metric, array in ((OOD, "right_ood"), (IID, "right_iid")):
        right: dict[str, dict[int, np.ndarray]] = {}
        for spec in data.done:
            arrays = data.store.arrays(spec.identity) if spec.condition == MAIN and spec.variant in labels else {}
            if array in arrays:  # of some early runs the metrics alone are kept
                right.setdefault(spec.variant, {})[spec.seed] = arrays[array]
        enough = {label: seeds for label, seeds in right.items() if len(seeds) >= FEWEST_SEEDS_FOR_BOOTSTRAP}
        intervals[metric] = {label: accuracy_interval(seeds) for label, seeds in enough.items()}
    return {metric: estimates for metric, estimates in intervals.items() if estimates}


def measured_arrays(data: PageData, label: str, needed: str) -> dict[str, np.ndarray]:
    """Arrays of a variant's first seed that has the needed one, of all its measurements; empty if no seed has it."""
    stored = [data.store.arrays(spec.identity) for spec in _first_measurements(data, label, needed)]
    return {name: array for arrays in stored for name, array in arrays.items()}


def measured_metrics(data: PageData, label: str, needed: str) -> dict[str, float]:
    """Metrics of the measurements whose arrays ``measured_arrays`` returns; empty if it returns none."""
    stored = [data.store.read(spec.identity).metrics for spec in _first_measurements(data, label, needed)]
    return {name: value for metrics in stored for name, value in metrics.items()}


def _first_measurements(data: PageData, label: str, needed: str) -> list[RunSpec]:
    """Finished measurements of a variant's first seed that has the needed array."""
    runs = [spec for spec in data.measured if spec.variant == label and data.store.finished(spec.identity)]
    first = min((spec.seed for spec in runs if needed in data.store.arrays(spec.identity)), default=None)
    return [spec for spec in runs if spec.seed == first]
