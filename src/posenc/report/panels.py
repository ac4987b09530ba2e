"""Panels from rows of results: pictures with the numbers behind them, and tables. No panel knows its study."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from posenc.measure.statistics import Estimate, paired_difference, t_interval
from posenc.report.figures import curves, dots, thinned
from posenc.report.ink import Colour, name_for_ids
from posenc.report.page import Block, Panel, Picture, Pictures, Table, Text
from posenc.report.published import against_published
from posenc.report.rows import BySeed, Row, best_first, finite, interval, number, signed, values

__all__ = ["accuracy_by_class", "accuracy_by_scheme", "against_published", "contrast", "learning_curves"]

ACCURACY = (0.0, 1.0)
T_INTERVAL = "t-interval of the mean over seeds"
BOOTSTRAP = "interval of the hierarchical bootstrap over seeds and items"
DOTS_KEY = (
    "Each ring is one seed, the heavy tick their mean (also printed at the right), the pale bar the {bar}, cut at "
    "0 and 1."
)
CHOSEN = (
    "The main setting was chosen, among those tried, because it shows the gap between encodings; the size of the gap "
    "is therefore selected. This panel shows a setting chosen because the gap closes there."
)


def accuracy_by_scheme(
    rows: Sequence[Row],
    *,
    metrics: Mapping[str, str],
    chance: float,
    baselines: Mapping[str, Mapping[str, float]] | None = None,
    setting: str = "main",
    level: float = 0.95,
    intervals: Mapping[str, Mapping[str, Estimate]] | None = None,
    interval_name: str = BOOTSTRAP,
    title: str = "Accuracy by encoding",
    caption: str = "",
) -> Panel:
    """Every seed, the mean and its interval, one picture per metric, sorted by the mean of the first metric.

    Args:
        metrics: metric -> title of its picture, for example out of distribution beside in distribution.
        chance: the score of guessing, a line in every picture.
        baselines: metric -> name -> score of rules worth a line of their own.
        intervals: metric -> scheme -> an interval to show in place of the t-interval; the key and the table say which.
        interval_name: what those intervals are, as the key says it.
    """
    columns = {metric: values(rows, metric, setting) for metric in metrics}
    order = _order(columns)
    if not order:
        return _empty(title, "No unit of this setting has finished.")
    lines = {metric: {"chance": chance, **(baselines or {}).get(metric, {})} for metric in metrics}
    colours: dict[str, Colour] = {metric: "second" if place == 1 else "first" for place, metric in enumerate(metrics)}
    picture = _dot_pictures(title, columns, metrics, order, lines, colours, level, intervals or {}, interval_name)
    return Panel(title, (picture,), caption)


def accuracy_by_class(
    rows: Sequence[Row],
    *,
    metrics: Mapping[str, str],
    chance: float,
    order_by: str,
    setting: str = "main",
    level: float = 0.95,
    title: str = "Accuracy by class",
    caption: str = "",
) -> Panel:
    """One picture per class of item, all in one colour and in one order: that of `order_by`'s mean."""
    order = best_first(values(rows, order_by, setting))
    columns = {metric: values(rows, metric, setting) for metric in metrics}
    if not order or not any(columns.values()):
        return _empty(title, "No accuracies by class were stored.")
    lines = {metric: {"chance": chance} for metric in metrics}
    return Panel(title, (_dot_pictures(title, columns, metrics, order, lines, {}, level),), caption)


def learning_curves(
    rows: Sequence[Row],
    *,
    metrics: Mapping[str, str],
    chance: float | None = None,
    setting: str = "main",
    title: str = "Learning curves",
    caption: str = "",
) -> Panel:
    """One small picture per scheme, best last value of the first metric first.

    Args:
        rows: the store's curves, with an `epoch` in each row.
        metrics: metric -> how the key names it; the first is drawn solid, the second dashed.
    """
    stored = _curves(rows, list(metrics), setting)
    if not stored:
        return _empty(title, "No learning curves were stored.")
    lead = next(iter(metrics))
    last = {scheme: {s: p[max(p)] for s, p in by_metric.get(lead, {}).items()} for scheme, by_metric in stored.items()}
    order = best_first({scheme: seeds for scheme, seeds in last.items() if seeds})
    epochs = sorted(
        {e for by_metric in stored.values() for seeds in by_metric.values() for p in seeds.values() for e in p}
    )
    colours: dict[str, Colour] = {metric: "first" if metric == lead else "quiet" for metric in metrics}
    pictures = tuple(
        Picture(
            curves(
                {metric: stored[scheme].get(metric, {}) for metric in metrics},
                prefix=name_for_ids(title, scheme),
                colours=colours,
                chance=chance,
                epochs=epochs[-1],
            ),
            scheme,
            _curve_alt(scheme, stored[scheme], metrics),
        )
        for scheme in order
    )
    solid, *dashed = metrics.values()
    most = max(len(seeds) for by_metric in stored.values() for seeds in by_metric.values())
    spread = "each seed thin" if most <= 5 else "the band from the lowest to the highest seed"
    key = f"Accuracy against epoch, 0 to {epochs[-1]}. Solid: {solid}."
    key += f" Dashed grey: {', '.join(dashed)}." if dashed else ""
    key += f" Heavy: the mean over seeds; {spread}."
    key += f" Dotted: chance, {number(chance)}." if chance is not None else ""
    return Panel(
        title, (Pictures(pictures, key, _curve_table(title, stored, order, metrics, epochs), "small"),), caption
    )


def contrast(
    rows: Sequence[Row],
    *,
    metric: str,
    settings: Mapping[str, str],
    pairs: Sequence[tuple[str, str]],
    chance: float,
    chosen: str = CHOSEN,
    level: float = 0.95,
    title: str = "Where the gap closes",
    caption: str = "",
) -> Panel:
    """The same schemes in the main setting and in others, with what becomes of the differences.

    Args:
        settings: setting -> its title, the main one first.
        pairs: (higher, lower) differences to follow.
        chosen: the sentence that says how the settings were chosen.
    """
    columns = {setting: values(rows, metric, setting) for setting in settings}
    main, *others = settings
    shared = {scheme: columns[main][scheme] for scheme in columns[main] if any(scheme in columns[o] for o in others)}
    order = best_first(shared)
    if not order:
        return Panel(title, (Text((chosen, "The second setting was not run, so this page cannot show it.")),), caption)
    told = tuple(
        _change(columns[main], columns[other], settings[other], pair, level) for other in others for pair in pairs
    )
    lines = {setting: {"chance": chance} for setting in settings}
    blocks: tuple[Block, ...] = (
        Text((chosen, *told)),
        _dot_pictures(title, columns, settings, order, lines, {}, level),
    )
    return Panel(title, blocks, caption)


def _change(
    main: Mapping[str, BySeed], other: Mapping[str, BySeed], label: str, pair: tuple[str, str], level: float
) -> str:
    higher, lower = pair
    found: list[Estimate] = []
    for side in (main, other):
        if not side.get(higher, {}).keys() & side.get(lower, {}).keys():
            return f"{higher} − {lower} was not measured in both settings."
        found.append(paired_difference(side[higher], side[lower], level))
    before, after = found
    told = f"{higher} − {lower}: {signed(before.mean)} {interval(before)} in the main setting, "
    told += f"{signed(after.mean)} {interval(after)} in “{label}”"
    if after.mean >= before.mean:
        return f"{told}: the gap does not shrink."
    if after.below(0):
        return f"{told}: the order turns round."
    return (
        f"{told}: the gap is smaller, and remains."
        if after.above(0)
        else f"{told}: the gap is smaller, and cannot be told from none."
    )


def _dot_pictures(
    title: str,
    columns: Mapping[str, Mapping[str, BySeed]],
    labels: Mapping[str, str],
    order: Sequence[str],
    lines: Mapping[str, Mapping[str, float]],
    colours: Mapping[str, Colour],
    level: float,
    intervals: Mapping[str, Mapping[str, Estimate]] | None = None,
    interval_name: str = "",
) -> Pictures:
    """One dot plot per column, rows level with each other, and the table of all their numbers."""
    other = intervals or {}
    headroom = max(map(len, lines.values()))
    pictures = tuple(
        Picture(
            dots(
                columns[key],
                order,
                prefix=name_for_ids(title, key),
                lines=lines[key],
                headroom=headroom,
                colour=colours.get(key, "first"),
                intervals=other.get(key),
                level=level,
            ),
            label,
            _dots_alt(label, columns[key], order, lines[key]),
        )
        for key, label in labels.items()
    )
    chosen = {(scheme, labels[key]): found for key in labels for scheme, found in other.get(key, {}).items()}
    shown = [(scheme, label) for key, label in labels.items() for scheme in order if columns[key].get(scheme)]
    bar = _bar_name(shown, chosen, interval_name, level)
    named = {label: columns[key] for key, label in labels.items()}
    return Pictures(pictures, DOTS_KEY.format(bar=bar), _numbers(f"{title}: the numbers", named, order, level, chosen))


def _bar_name(
    shown: Sequence[tuple[str, str]], chosen: Mapping[tuple[str, str], Estimate], name: str, level: float
) -> str:
    """What the pale bars are: one kind of interval, or which cells have the other."""
    plain = [cell for cell in shown if cell not in chosen]
    if len(plain) == len(shown):
        return f"{level:.0%} {T_INTERVAL}"
    levels = sorted({chosen[cell].level for cell in shown if cell in chosen})
    told = f"{' or '.join(f'{each:.0%}' for each in levels)} {name}"
    return f"{told} (where the table says t, the {level:.0%} {T_INTERVAL})" if plain else told


def _order(columns: Mapping[str, Mapping[str, BySeed]]) -> list[str]:
    order: list[str] = []
    for by_scheme in columns.values():
        order += [scheme for scheme in best_first(by_scheme) if scheme not in order]
    return order


def _numbers(
    caption: str,
    columns: Mapping[str, Mapping[str, BySeed]],
    order: Sequence[str],
    level: float,
    chosen: Mapping[tuple[str, str], Estimate],
) -> Table:
    body = []
    for scheme in order:
        for label, by_scheme in columns.items():
            seeds = by_scheme.get(scheme)
            if not seeds:
                body.append((scheme, label, "–", "–", "–", "no finished seed"))
                continue
            estimate = t_interval(list(seeds.values()), level)
            bar = chosen.get((scheme, label), estimate)
            kind = " t" if chosen and bar is estimate else ""
            each = ", ".join(f"{seed}: {number(seeds[seed], 3)}" for seed in sorted(seeds))
            body.append(
                (
                    scheme,
                    label,
                    number(estimate.mean, 3),
                    number(estimate.sd, 3),
                    interval(bar, 3, ACCURACY) + kind if bar.known else "–",
                    each,
                )
            )
    head = f"{level:.0%} interval" if not chosen else "Interval"
    return Table(caption, ("Encoding", "Score", "Mean", "Sd", head, "Each seed"), tuple(body))


def _curves(rows: Sequence[Row], metrics: Sequence[str], setting: str) -> dict[str, dict[str, dict[int, BySeed]]]:
    """scheme -> metric -> seed -> epoch -> value, finite values only."""
    found: dict[str, dict[str, dict[int, BySeed]]] = {}
    for row in rows:
        value = row["value"]
        if row["metric"] not in metrics or row.get("setting", "main") != setting:
            continue
        if not finite(value):
            continue
        by_metric = found.setdefault(str(row["scheme"]), {})
        by_metric.setdefault(row["metric"], {}).setdefault(int(row["seed"]), {})[int(row["epoch"])] = float(value)
    return found


def _curve_table(
    title: str,
    stored: Mapping[str, Mapping[str, Mapping[int, BySeed]]],
    order: Sequence[str],
    metrics: Mapping[str, str],
    epochs: Sequence[int],
) -> Table:
    shown = thinned(epochs, 10)
    body = []
    for scheme in order:
        for metric, label in metrics.items():
            seeds = stored[scheme].get(metric, {}).values()
            at = [[points[epoch] for points in seeds if epoch in points] for epoch in shown]
            body.append((scheme, label, *(number(t_interval(column).mean) if column else "–" for column in at)))
    return Table(f"{title}: means over seeds by epoch", ("Encoding", "Score", *map(str, shown)), tuple(body))


def _dots_alt(label: str, by_scheme: Mapping[str, BySeed], order: Sequence[str], lines: Mapping[str, float]) -> str:
    told = [f"{s} {number(t_interval(list(by_scheme[s].values())).mean)}" for s in order if by_scheme.get(s)]
    marks = ", ".join(f"{name} {number(value)}" for name, value in lines.items())
    return f"{label}: accuracy by encoding. Means: {', '.join(told)}. Lines: {marks}. The table below has every seed."


def _curve_alt(scheme: str, by_metric: Mapping[str, Mapping[int, BySeed]], metrics: Mapping[str, str]) -> str:
    ends = []
    for metric, label in metrics.items():
        last = [points[max(points)] for points in by_metric.get(metric, {}).values()]
        if last:
            ends.append(f"{label} ends at {number(t_interval(last).mean)}")
    return f"{scheme}: accuracy against epoch. {'; '.join(ends)}."


def _empty(title: str, why: str) -> Panel:
    return Panel(title, (Text((why,)),))
