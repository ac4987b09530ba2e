"""Panels of a page on a user's own data: differences between variants, learning curves, and what was trained."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from posenc.measure.held_out_interval import HeldOut
from posenc.measure.statistics import Estimate
from posenc.workbench.dataset_record import SPLITS
from posenc.workbench.report.line_plot import line_plot
from posenc.workbench.report.number_format import NO_BREAK, capitalize, interval, number, signed_number
from posenc.workbench.report.page import Panel, Table, Text
from posenc.workbench.report.result_rows import BySeed, is_finite
from posenc.workbench.runs import TRAINED
from posenc.workbench.studies.shared.compared_score import ComparedScore, ComparedVariants, compared
from posenc.workbench.studies.shared.declarations import MAIN
from posenc.workbench.studies.shared.own_data_answer import pairs_of
from posenc.workbench.studies.shared.page_data import PageData
from posenc.workbench.tables.metric_bounds import metric_bounds

DIFFERENCES_TITLE = "Differences between variants"
RULE = (
    "Each variant was trained with the full number of steps and again with half of it. The sign of a difference is "
    "stated if four things hold. The 95% interval at the full budget excludes 0. Twice the difference at the full "
    "budget minus the difference at half the budget has the same sign (column: projected). Both variants are above "
    "chance at half the budget; a control that stays at chance counts as finished, and its own change is 0 in the "
    "projected difference. The difference is at least a third of the smaller of the two gains from half to the full "
    "budget. The intervals are not corrected for multiple comparisons."
)
SPLIT_BY_SEED = (
    "Every seed has other held-out items, so the interval is that of Nadeau and Bengio (2003): the variance of the "
    "seeds times 1/seeds + held-out items/other items."
)
FIXED_ITEMS = (
    "All seeds have the same held-out items. The variance over items is added to that over seeds where it is known, as "
    "for an accuracy."
)
SEEDS_ALONE = "The interval covers seeds alone."
COLUMNS = ("difference", "full budget", "half budget", "projected", "smallest seen", "statement")


def difference_panel(data: PageData, scores: Sequence[ComparedScore]) -> Panel:
    """Table of the differences between variants at both budgets, with the statement that follows.

    Args:
        data: Data of the page.
        scores: Scores by which the variants are compared.

    Returns:
        The panel.
    """
    groups = [variants for score in scores if (variants := compared(data, score)).ranked]
    tables = tuple(table for variants in groups for table in _tables(data, variants))
    if not tables:
        return Panel(DIFFERENCES_TITLE, (Text(("This needs two variants with a common seed.",)),))
    return Panel(DIFFERENCES_TITLE, tables, RULE)


def _tables(data: PageData, variants: ComparedVariants) -> list[Table]:
    score, held_out, pairs = variants.score, variants.scale.held_out, pairs_of(variants)
    if not pairs:
        return []
    rows = tuple(
        (
            f"{pair.a} − {pair.b}",
            _difference(pair.comparison.difference, score),
            _difference(pair.comparison.half, score),
            signed_number(pair.comparison.projected, score.digits),
            number(pair.comparison.smallest, score.digits) if pair.comparison.smallest <= score.width else "none",
            pair.verdict,
        )
        for pair in pairs
    )
    covers = SEEDS_ALONE if held_out is None else SPLIT_BY_SEED if held_out.split_by_seed else FIXED_ITEMS
    note = f"{covers} Smallest seen: the smallest difference that would be seen in four of five repetitions."
    unit = f" ({score.unit})" if score.unit else ""
    caption = f"{capitalize(score.title)}{unit} {data.budget(score.condition)}".rstrip()
    return [Table(caption, COLUMNS, rows, note, prose=True)]


def _difference(estimate: Estimate | None, score: ComparedScore) -> str:
    if estimate is None:
        return "not run"
    return f"{signed_number(estimate.mean, score.digits)}{NO_BREAK}{interval(estimate, score.digits)}"


def curve_panels(data: PageData, scores: Sequence[ComparedScore]) -> list[Panel]:
    """Learning curves of every variant, one panel for each condition and metric of the curves.

    Args:
        data: Data of the page.
        scores: Scores by which the variants are compared.

    Returns:
        The panels.
    """
    distinct = {(score.condition, score.curve or score.metric): score for score in reversed(scores)}
    return [_curves(data, score, metric) for (_, metric), score in reversed(distinct.items())]


def _curves(data: PageData, score: ComparedScore, metric: str) -> Panel:
    series: dict[str, dict[float, BySeed]] = {}
    for row in data.curves:
        if (row["setting"], row["metric"]) == (score.condition, metric) and row["epoch"] and is_finite(row["value"]):
            points = series.setdefault(str(row["scheme"]), {})
            points.setdefault(float(row["epoch"]), {})[row["seed"]] = float(row["value"])
    return line_plot(
        series,
        title=f"Learning curves: {score.title}",
        x_label="step",
        y_label=f"{score.name}{f' ({score.unit})' if score.unit else ''} during training",
        bounds=metric_bounds(metric),
        held_out=_validation_items(data, score.condition),
        limits="values",
        chance=score.mean_chance,
        caption="Full budget. Scores during training are of the validation part, or of a part of the held-out items "
        "where there is none; the other panels show the scores after training.",
    )


def _validation_items(data: PageData, condition: str) -> HeldOut | None:
    """Items that choose the step of the training; None for a study without any."""
    specs = (spec for spec in data.specs if spec.condition == condition and "items" in spec.settings)
    spec = next(specs, None)
    if spec is None or not spec.settings["items"]["validation"]:
        return None
    items, record = spec.settings["items"], data.store.record_of(spec)
    fixed = record is not None and record.options.get("split") == SPLITS["all given"]
    return HeldOut(items["validation"], items["train"], split_by_seed=not fixed)


def training_panel(data: PageData) -> Panel:
    """Table of what was trained: steps, examples and seconds of the runs of each variant, as the runs stored them.

    Args:
        data: Data of the page.

    Returns:
        The panel.
    """
    rows = []
    for condition in sorted(data.conditions, key=lambda each: (each != MAIN, each)):
        for label in sorted(data.labels(condition)):
            cell = [spec for spec in data.specs if (spec.condition, spec.variant) == (condition, label)]
            runs = [spec.identity for spec in cell if "training" in spec.settings]
            timings = [data.timings[each] for each in runs if each in data.timings]
            if timings:
                name = label if condition == MAIN else f"{label}, {condition}"
                rows.append((name, str(len(timings)), *(_range(timings, key) for key in TRAINED), _range(timings)))
    columns = ("variant", "runs", "steps", "examples", "time in steps (s)", "step of the weights", "time of a run (s)")
    note = "As the runs stored it, at the full budget; the lowest and the highest value over seeds."
    title = "Amount of training"
    if not rows:
        return Panel(title, (Text(("No run of a model has finished.",)),))
    return Panel(title, (Table("Training of each variant", columns, tuple(rows), note),))


def _range(timings: Sequence[Mapping[str, object]], key: str = "seconds") -> str:
    """Lowest and highest stored value: "350" or "112 to 350"."""
    values = sorted(float(value) for each in timings if isinstance(value := each.get(key), (int, float)))
    if not values:
        return "not recorded"
    ends = [
        f"{value:,.0f}" if value >= 10 or value.is_integer() else f"{value:.1f}" for value in (values[0], values[-1])
    ]
    return " to ".join(dict.fromkeys(ends))
