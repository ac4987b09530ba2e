"""Plots and tables of the places study: scores by split, the gap, learning curves, times, the variants."""

from __future__ import annotations

import msgspec

from posenc.measure.held_out_interval import HeldOut
from posenc.measure.statistics import mean
from posenc.workbench.report.line_plot import line_plot
from posenc.workbench.report.number_format import interval, number, signed_number
from posenc.workbench.report.page import Panel, Table
from posenc.workbench.report.result_rows import BySeed
from posenc.workbench.report.score_plot import Score, score_plots
from posenc.workbench.report.seed_interval import seed_interval
from posenc.workbench.studies.places.answer import ACCURACY, NAMES, R2, estimate, held_out, metric_of
from posenc.workbench.studies.places.conditions import SPLITS, finished
from posenc.workbench.studies.places.variants import PROCESS, VARIANTS, PlaceVariant, is_baseline
from posenc.workbench.studies.shared.classification_panels import empty_panel, scheme_text, seeds_by_label
from posenc.workbench.studies.shared.page_data import PageData
from posenc.workbench.studies.shared.validation_curves import validation_curves
from posenc.workbench.tables.metric_bounds import SHARE, metric_bounds
from posenc.workbench.tasks.places import LEVELS

SCORES = {
    R2: Score("R2", "R2, held-out rows"),
    ACCURACY: Score("Accuracy", "accuracy, held-out rows"),
}
ERRORS = {R2: {"rmse": Score("RMSE", "RMSE, held-out rows", False)}, ACCURACY: {}}
TIMES = {
    "train_seconds": Score("Training time", "processor time (s)", False, log=True),
    "predict_seconds": Score("Prediction time", "processor time for the test part (s)", False, log=True),
}
CAPTION = (
    "none: a network without coordinates; coordinates: bare ones. Baselines of scikit-learn: knn (15 nearest training "
    "places), gp (regression kriging on 1,000 training rows), ridge, boosting (300 trees, raw coordinates); NAME + "
    "ENCODING reads the rows of an encoding too, NAME + none reads no coordinates. Baselines train on the training and "
    "the validation part; networks choose their step on the validation part. Intervals are those of Nadeau and Bengio "
    "(2003) for dependent folds."
)


def scores(data: PageData) -> list[Panel]:
    """Scores with each split."""
    panels = []
    for each in finished(data):
        metric = metric_of(data, each.label)
        panels.append(
            score_plots(
                data.rows,
                metrics={metric: SCORES[metric], **ERRORS[metric]},
                condition=each.label,
                held_out=held_out(data, each.label),
                lines={metric: {"mean": 0.0}} if metric == R2 else {},
                title=f"{SCORES[metric].title}: {each.title}",
                caption=CAPTION,
                over="fold",
            )
        )
    return panels or empty_panel("Scores")


def split_gaps(data: PageData) -> list[Panel]:
    """Score of each variant by each split, and the difference."""
    conditions = finished(data)
    if len(conditions) < 2:
        return []
    metric = metric_of(data, conditions[0].label)
    by_split = {each.label: seeds_by_label(data, metric, each.label) for each in conditions}
    start, *others = (each.label for each in conditions)
    labels = [label for label in by_split[start] if all(label in by_split[other] for other in others)]
    order = sorted(labels, key=lambda label: -mean(list(by_split[others[0]][label].values())))
    body = []
    for label in order:
        cells = []
        for each in conditions:
            found = estimate(data, each.label, by_split[each.label][label])
            cells.append(f"{number(found.mean, 3)} {interval(found, 3) if found.known else ''}".strip())
        means = [mean(list(by_split[each.label][label].values())) for each in conditions]
        body.append((label, *cells, *(signed_number(other - means[0], 3) for other in means[1:])))
    columns = ["Variant", *(f"{NAMES[metric]}, {SPLITS[each.split]}" for each in conditions)]
    columns += [f"Difference: {SPLITS[each.split]} − random split" for each in conditions[1:]]
    note = (
        "A random split has training rows beside each test row, so it tells how well a model fills gaps between known "
        "places. A split by blocks has none within a block, so it tells how well a model works at new places. Choose "
        "by the question that you have."
    )
    table = Table(f"{NAMES[metric]} by split, the best by blocks first", tuple(columns), tuple(body), note)
    return [Panel("Gap between the splits", (table,))]


def scores_by_rows(data: PageData) -> list[Panel]:
    """Scores by number of training rows, with the random split."""
    conditions = [each for each in finished(data, whole=False) if each.split == "random"]
    if not any(each.divisor > 1 for each in conditions):
        return empty_panel("Learning curve by number of rows")
    metric, curves = metric_of(data, conditions[0].label), dict[str, dict[float, BySeed]]()
    items = dict[float, HeldOut | None]()
    few = {label for each in conditions if each.divisor > 1 for label in data.labels(each.label)}
    for each in conditions:
        spec = next(spec for spec in data.specs if spec.condition == each.label)
        record = data.store.record_of(spec)
        rows = 0 if record is None else next(part.counts["rows"] for part in record.parts if part.name == "training")
        items[float(rows)] = held_out(data, each.label)
        for label, seeds in seeds_by_label(data, metric, each.label).items():
            if label in few:
                curves.setdefault(label, {})[float(rows)] = seeds
    return [
        line_plot(
            curves,
            title="Learning curve by number of rows: random split",
            x_label="training rows",
            y_label=SCORES[metric].unit,
            bounds=metric_bounds(metric),
            limits=None if metric == ACCURACY else "values",
            log_x=True,
            held_out=items,
        )
    ]


def interval_coverage(data: PageData) -> list[Panel]:
    """Coverage and width of the prediction intervals of kriging, the only model that gives any."""
    title, body = "Calibration of prediction intervals", []
    for each in finished(data):
        shares = [seeds_by_label(data, f"covered_{100 * level:.0f}", each.label).get(PROCESS, {}) for level in LEVELS]
        if not all(shares):
            continue
        counted = [seed_interval(list(by_seed.values()), bounds=SHARE, held_out=held_out(data, each.label))
                   for by_seed in shares]  # fmt: skip
        cells = [f"{number(found.mean, 3)} {interval(found, 3) if found.known else ''}".strip() for found in counted]
        width = mean(list(seeds_by_label(data, "width_95", each.label)[PROCESS].values()))
        body.append((PROCESS, each.title, *cells, number(width, 3)))
    if not body:
        return []
    columns = ("Model", "Split", *(f"Share in the {level:.0%} interval" for level in LEVELS), "Width, 95% interval")
    note = (
        "The share of held-out rows whose target is in the interval; a calibrated model has the share of its name. A "
        "smaller share: the intervals are too narrow. Normal intervals of the Gaussian process with its noise, around "
        "the prediction of gp; the width is in units of the target (of its logarithm, if models learn that). The other "
        "models give no intervals. Brackets: intervals over the folds."
    )
    return [Panel(title, (Table("Coverage of prediction intervals", columns, tuple(body), note),))]


def times(data: PageData) -> list[Panel]:
    """Processor time of training and of prediction."""
    chosen = finished(data)[:1]
    return [
        score_plots(
            data.rows,
            metrics=TIMES,
            condition=each.label,
            title=f"Time to train and to predict: {each.title}",
            caption="Processor time on one core. A baseline has both in its training time. Training times include the "
            "evaluations on the validation part.",
            over="fold",
        )
        for each in chosen
    ] or empty_panel("Time to train and to predict")


def learning_curves(data: PageData) -> list[Panel]:
    """Main metric on the validation part by step."""
    panels = []
    for each in finished(data):
        metric = metric_of(data, each.label)
        panels.append(
            validation_curves(
                data,
                each.label,
                metric,
                title=f"Learning curves: {each.title}",
                y_label=SCORES[metric].unit.replace("held-out rows", "validation part"),
                order=VARIANTS,
                bounds=SHARE if metric == ACCURACY else metric_bounds(metric),
                note="Validation part, drawn as the test part is. The step with the lowest error is chosen.",
            )
        )
    return panels or empty_panel("Learning curves")


def variant_tables(data: PageData, title: str = "Variants") -> list[Panel]:
    """Scheme, view and parameter count of each network."""
    chosen = finished(data)[:1]
    if not chosen:
        return empty_panel(title)
    (each,) = chosen
    counts, body = seeds_by_label(data, "parameters", each.label), []
    specs = {spec.variant: spec for spec in data.specs if spec.condition == each.label}
    for label in sorted((label for label in specs if not is_baseline(label)), key=(*VARIANTS, *specs).index):
        settings = specs[label].settings
        made = msgspec.convert(settings["row"], PlaceVariant)
        call = scheme_text({"scheme": made.scheme, "options": made.options}) if made.scheme else "none"
        trained = sorted({round(value) for value in counts.get(label, {}).values()})
        size = " to ".join(f"{value:,}" for value in trained) or "not run"
        view = made.view if made.scheme else "none"
        body.append((label, call, view, f"{settings['model']['width']} x {settings['model']['depth']}", size))
    columns = ("Variant", "Scheme", "View of a place", "Hidden units x layers", "Parameters")
    return [Panel(title, (Table("Variants", columns, tuple(body), prose=True),))]
