"""Panels of classification accuracy: dot plots by encoding and by class, learning curves, comparison of conditions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from posenc.measure.statistics import Estimate, paired_difference, t_interval
from posenc.workbench.report.curve_overlay import curve_overlay
from posenc.workbench.report.dot_plot import dot_plot
from posenc.workbench.report.learning_curve_plot import evenly_spaced, learning_curve_plot
from posenc.workbench.report.number_format import interval, number, signed_number
from posenc.workbench.report.page import Block, Figure, FigureGroup, Panel, Table, Text
from posenc.workbench.report.result_rows import BySeed, Row, is_finite, order_by_mean, values_by_scheme
from posenc.workbench.report.seed_interval import FEWEST_DRAWN, T_INTERVAL, two_seeds_note
from posenc.workbench.report.svg_style import Color, id_prefix
from posenc.workbench.tables.metric_bounds import SHARE

BOOTSTRAP = "interval of the hierarchical bootstrap over seeds and items"
DOT_PLOT_KEY = "Circle: one seed. Vertical tick: mean over seeds, also printed at the right."
SELECTION_NOTE = (
    "The main condition was selected from those tried because it shows a gap between encodings, so the size of that "
    "gap is biased by the selection. The other condition was selected because the gap closes there."
)


def accuracy_by_scheme(
    rows: Sequence[Row],
    *,
    metrics: Mapping[str, str],
    chance: float,
    baselines: Mapping[str, Mapping[str, float]] | None = None,
    condition: str = "main",
    level: float = 0.95,
    intervals: Mapping[str, Mapping[str, Estimate]] | None = None,
    interval_name: str = BOOTSTRAP,
    title: str = "Accuracy by encoding",
    caption: str = "",
) -> Panel:
    """Dot plots of accuracy, one per metric, sorted by the mean of the first metric.

    Args:
        rows: Result rows of one study and one preset.
        metrics: metric -> title of its plot, such as "Out of distribution".
        chance: Accuracy at chance level, drawn as a line.
        baselines: metric -> name -> accuracy of a baseline, drawn as a line.
        condition: Condition of the rows.
        level: Coverage of the t-intervals.
        intervals: metric -> scheme -> interval shown in place of the t-interval.
        interval_name: Name of those intervals, for the key.
        title: Title of the panel.
        caption: Text below the title.

    Returns:
        The panel.
    """
    columns = {metric: values_by_scheme(rows, metric, condition) for metric in metrics}
    order = _order_schemes(columns)
    if not order:
        return _empty_panel(title, "No run in this condition has finished.")
    lines = {metric: {"chance": chance, **(baselines or {}).get(metric, {})} for metric in metrics}
    colors: dict[str, Color] = {metric: "second" if place == 1 else "first" for place, metric in enumerate(metrics)}
    figure = _dot_plots(title, columns, metrics, order, lines, colors, level, intervals or {}, interval_name)
    return Panel(title, (figure,), caption)


def accuracy_by_class(
    rows: Sequence[Row],
    *,
    metrics: Mapping[str, str],
    chance: float,
    order_by: str,
    condition: str = "main",
    level: float = 0.95,
    title: str = "Accuracy by class",
    caption: str = "",
) -> Panel:
    """Dot plots of accuracy, one per class of item, with all schemes in one order.

    Args:
        rows: Result rows of one study and one preset.
        metrics: metric -> title of its plot, one per class.
        chance: Accuracy at chance level, drawn as a line.
        order_by: Metric whose mean orders the schemes.
        condition: Condition of the rows.
        level: Coverage of the t-intervals.
        title: Title of the panel.
        caption: Text below the title.

    Returns:
        The panel.
    """
    order = order_by_mean(values_by_scheme(rows, order_by, condition))
    columns = {metric: values_by_scheme(rows, metric, condition) for metric in metrics}
    if not order or not any(columns.values()):
        return _empty_panel(title, "No accuracy by class is stored.")
    lines = {metric: {"chance": chance} for metric in metrics}
    return Panel(title, (_dot_plots(title, columns, metrics, order, lines, {}, level),), caption)


def learning_curves(
    rows: Sequence[Row],
    *,
    metrics: Mapping[str, str],
    chance: float | None = None,
    condition: str = "main",
    title: str = "Learning curves",
    caption: str = "",
) -> Panel:
    """Learning curves: the means of all schemes on one axis, then one small plot per scheme.

    Schemes are ordered by the last value of the first metric.

    Args:
        rows: Stored curves: result rows with a column "epoch".
        metrics: metric -> name for the key; the first is a solid line, the others are dashed.
        chance: Accuracy at chance level, drawn as a dotted line.
        condition: Condition of the rows.
        title: Title of the panel.
        caption: Text below the title.

    Returns:
        The panel.
    """
    curves = _group_curves(rows, list(metrics), condition)
    if not curves:
        return _empty_panel(title, "No learning curve is stored.")
    lead = next(iter(metrics))
    last = {scheme: {s: p[max(p)] for s, p in by_metric.get(lead, {}).items()} for scheme, by_metric in curves.items()}
    order = order_by_mean({scheme: seeds for scheme, seeds in last.items() if seeds})
    epochs = sorted(
        {e for by_metric in curves.values() for seeds in by_metric.values() for p in seeds.values() for e in p}
    )
    colors: dict[str, Color] = {metric: "first" if metric == lead else "muted" for metric in metrics}
    figures = tuple(
        Figure(
            learning_curve_plot(
                {metric: curves[scheme].get(metric, {}) for metric in metrics},
                prefix=id_prefix(title, scheme),
                colors=colors,
                chance=chance,
                epochs=epochs[-1],
            ),
            scheme,
            _learning_curve_alt(scheme, curves[scheme], metrics),
        )
        for scheme in order
    )
    solid, *dashed = metrics.values()
    most = max(len(seeds) for by_metric in curves.values() for seeds in by_metric.values())
    spread = "Thin lines: single seeds." if most <= 5 else "Band: minimum to maximum over seeds."
    key = f"Horizontal: epoch, 0 to {epochs[-1]}. Vertical: accuracy. Solid line: {solid}."
    key += f" Dashed gray line: {', '.join(dashed)}." if dashed else ""
    key += f" Thick line: mean over seeds. {spread}"
    key += f" Dotted line: chance, {number(chance)}." if chance is not None else ""
    table = _curve_table(title, curves, order, metrics, epochs)
    together = curve_overlay(
        {scheme: curves[scheme][lead] for scheme in order}, title=title, x_label="epoch", chance=chance,
        y_label=solid if solid.lower() == "accuracy" else f"accuracy, {solid}",
    )  # fmt: skip
    blocks = (*together, FigureGroup(figures, key, table, "small"))
    return Panel(title, blocks, caption)


def condition_contrast(
    rows: Sequence[Row],
    *,
    metric: str,
    conditions: Mapping[str, str],
    pairs: Sequence[tuple[str, str]],
    chance: float,
    selection_note: str = SELECTION_NOTE,
    level: float = 0.95,
    title: str = "Accuracy gap between encodings, by condition",
    caption: str = "",
) -> Panel:
    """Accuracy of the same schemes in the main condition and in others, with the change of selected differences.

    Args:
        rows: Result rows of one study and one preset.
        metric: Name of the accuracy metric.
        conditions: condition -> title of its plot, the main one first.
        pairs: (higher, lower) pairs of schemes whose difference is compared.
        chance: Accuracy at chance level, drawn as a line.
        selection_note: Sentence that states how the conditions were selected.
        level: Coverage of the intervals.
        title: Title of the panel.
        caption: Text below the title.

    Returns:
        The panel.
    """
    columns = {name: values_by_scheme(rows, metric, name) for name in conditions}
    main, *others = conditions
    shared = {scheme: columns[main][scheme] for scheme in columns[main] if any(scheme in columns[o] for o in others)}
    order = order_by_mean(shared)
    if not order:
        return Panel(title, (Text((selection_note, "The second condition was not run.")),), caption)
    sentences = tuple(
        _change_sentence(columns[main], columns[other], conditions[other], pair, level)
        for other in others
        for pair in pairs
    )
    lines = {name: {"chance": chance} for name in conditions}
    blocks: tuple[Block, ...] = (
        Text((selection_note, *sentences)),
        _dot_plots(title, columns, conditions, order, lines, {}, level),
    )
    return Panel(title, blocks, caption)


def _change_sentence(
    main: Mapping[str, BySeed], other: Mapping[str, BySeed], label: str, pair: tuple[str, str], level: float
) -> str:
    higher, lower = pair
    estimates: list[Estimate] = []
    for side in (main, other):
        if not side.get(higher, {}).keys() & side.get(lower, {}).keys():
            return f"{higher} − {lower} was not measured in both conditions."
        estimates.append(paired_difference(side[higher], side[lower], level, SHARE))
    before, after = estimates
    gaps = [
        {s: side[higher][s] - side[lower][s] for s in side[higher].keys() & side[lower].keys()}
        for side in (main, other)
    ]
    if not gaps[0].keys() & gaps[1].keys():
        return f"{higher} − {lower} was measured with other seeds in each condition."
    change = paired_difference(gaps[1], gaps[0], level)
    sentence = f"{higher} − {lower}: {signed_number(before.mean)} {interval(before)} in the main condition, "
    sentence += f"{signed_number(after.mean)} {interval(after)} in “{label}”"
    if (before.above(0) and after.below(0)) or (before.below(0) and after.above(0)):
        return f"{sentence}: the order is reversed."
    size = f"{signed_number(change.mean)} {interval(change)}"
    if not (change.above(0) or change.below(0)):
        return f"{sentence}: a change is not shown ({size})."
    if abs(after.mean) >= abs(before.mean):
        return f"{sentence}: the gap is larger, by {size}."
    end = "but remains" if after.above(0) or after.below(0) else "and its interval contains 0"
    return f"{sentence}: the gap is smaller {end}; it changes by {size}."


def _dot_plots(
    title: str,
    columns: Mapping[str, Mapping[str, BySeed]],
    labels: Mapping[str, str],
    order: Sequence[str],
    lines: Mapping[str, Mapping[str, float]],
    colors: Mapping[str, Color],
    level: float,
    intervals: Mapping[str, Mapping[str, Estimate]] | None = None,
    interval_name: str = "",
) -> FigureGroup:
    """One dot plot per column with aligned rows, and the table of all values."""
    interval_by_metric = intervals or {}
    headroom = max(map(len, lines.values()))
    figures = tuple(
        Figure(
            dot_plot(
                columns[key],
                order,
                prefix=id_prefix(title, key),
                lines=lines[key],
                headroom=headroom,
                color=colors.get(key, "first"),
                intervals=interval_by_metric.get(key),
                level=level,
            ),
            label,
            _dot_plot_alt(label, columns[key], order, lines[key]),
        )
        for key, label in labels.items()
    )
    own_intervals = {
        (scheme, labels[key]): estimate
        for key in labels
        for scheme, estimate in interval_by_metric.get(key, {}).items()
    }
    cells = [(scheme, label) for key, label in labels.items() for scheme in order if columns[key].get(scheme)]
    bar = _interval_name(cells, own_intervals, interval_name, level)
    by_label = {label: columns[key] for key, label in labels.items()}
    numbers = {len(seeds) for key in labels for seeds in columns[key].values()}
    key = DOT_PLOT_KEY + (f" Bar: {bar}, clipped to [0, 1]." if max(numbers, default=0) >= FEWEST_DRAWN else "")
    return FigureGroup(
        figures,
        key + two_seeds_note(numbers, "bar"),
        _value_table(f"{title}: values", by_label, order, level, own_intervals),
    )


def _interval_name(
    cells: Sequence[tuple[str, str]], own_intervals: Mapping[tuple[str, str], Estimate], name: str, level: float
) -> str:
    """Name of the intervals that the bars show; if there are two kinds, the table marks t-intervals."""
    with_t_interval = [cell for cell in cells if cell not in own_intervals]
    if len(with_t_interval) == len(cells):
        return f"{level:.0%} {T_INTERVAL}"
    levels = sorted({own_intervals[cell].level for cell in cells if cell in own_intervals})
    name_with_level = f"{' or '.join(f'{each:.0%}' for each in levels)} {name}"
    return (
        f"{name_with_level} (marked t in the table: {level:.0%} {T_INTERVAL})" if with_t_interval else name_with_level
    )


def _order_schemes(columns: Mapping[str, Mapping[str, BySeed]]) -> list[str]:
    order: list[str] = []
    for by_scheme in columns.values():
        order += [scheme for scheme in order_by_mean(by_scheme) if scheme not in order]
    return order


def _value_table(
    caption: str,
    columns: Mapping[str, Mapping[str, BySeed]],
    order: Sequence[str],
    level: float,
    own_intervals: Mapping[tuple[str, str], Estimate],
) -> Table:
    body = []
    for scheme in order:
        for label, by_scheme in columns.items():
            seeds = by_scheme.get(scheme)
            if not seeds:
                body.append((scheme, label, "–", "–", "–", "no finished run"))
                continue
            estimate = t_interval(list(seeds.values()), level, SHARE)
            bar = own_intervals.get((scheme, label), estimate)
            kind = " t" if own_intervals and bar is estimate else ""
            each = ", ".join(f"{seed}: {number(seeds[seed], 3)}" for seed in sorted(seeds))
            body.append(
                (
                    scheme,
                    label,
                    number(estimate.mean, 3),
                    number(estimate.sd, 3),
                    interval(bar, 3) + kind if bar.known else "–",
                    each,
                )
            )
    head = f"{level:.0%} interval" if not own_intervals else "Interval"
    return Table(caption, ("Encoding", "Score", "Mean", "SD", head, "Seed: value"), tuple(body))


def _group_curves(
    rows: Sequence[Row], metrics: Sequence[str], condition: str
) -> dict[str, dict[str, dict[int, BySeed]]]:
    """Group finite values: scheme -> metric -> seed -> epoch -> value."""
    curves: dict[str, dict[str, dict[int, BySeed]]] = {}
    for row in rows:
        value = row["value"]
        if row["metric"] not in metrics or row.get("setting", "main") != condition:
            continue
        if not is_finite(value):
            continue
        by_metric = curves.setdefault(str(row["scheme"]), {})
        by_metric.setdefault(row["metric"], {}).setdefault(int(row["seed"]), {})[int(row["epoch"])] = float(value)
    return curves


def _curve_table(
    title: str,
    curves: Mapping[str, Mapping[str, Mapping[int, BySeed]]],
    order: Sequence[str],
    metrics: Mapping[str, str],
    epochs: Sequence[int],
) -> Table:
    columns = evenly_spaced(epochs, 10)
    body = []
    for scheme in order:
        for metric, label in metrics.items():
            seeds = curves[scheme].get(metric, {}).values()
            values = [[points[epoch] for points in seeds if epoch in points] for epoch in columns]
            body.append((scheme, label, *(number(t_interval(column).mean) if column else "–" for column in values)))
    return Table(
        f"{title}: mean over seeds by epoch",
        ("Encoding", "Score", *(f"Epoch {epoch}" for epoch in columns)),
        tuple(body),
    )


def _dot_plot_alt(label: str, by_scheme: Mapping[str, BySeed], order: Sequence[str], lines: Mapping[str, float]) -> str:
    means = [f"{s} {number(t_interval(list(by_scheme[s].values())).mean)}" for s in order if by_scheme.get(s)]
    reference = ", ".join(f"{name} {number(value)}" for name, value in lines.items())
    alt = f"{label}: accuracy by encoding. Means: {', '.join(means)}. Lines: {reference}."
    return f"{alt} The table below lists every seed."


def _learning_curve_alt(scheme: str, by_metric: Mapping[str, Mapping[int, BySeed]], metrics: Mapping[str, str]) -> str:
    ends = []
    for metric, label in metrics.items():
        last = [points[max(points)] for points in by_metric.get(metric, {}).values()]
        if last:
            ends.append(f"{label} ends at {number(t_interval(last).mean)}")
    return f"{scheme}: accuracy by epoch. {'; '.join(ends)}."


def _empty_panel(title: str, reason: str) -> Panel:
    return Panel(title, (Text((reason,)),))
