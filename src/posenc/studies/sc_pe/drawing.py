"""The spherical study as panels: accuracies and their differences, the sweep of the head, the transformer."""

from __future__ import annotations

import math
from collections.abc import Sequence

from posenc.measure.statistics import mean, paired_difference, t_interval
from posenc.report.lines import lines
from posenc.report.page import Panel, Table
from posenc.report.rows import BySeed, interval, number, signed
from posenc.report.scores import Score, scores
from posenc.store import Unit
from posenc.studies.classified_panels import (
    LEARNED,
    METRICS,
    accuracies,
    convergence,
    empty,
    named,
    of,
    scheme_text,
    there,
    what_rows_are,
)
from posenc.studies.found import Found
from posenc.studies.sc_pe import rows
from posenc.studies.sc_pe.presets import CIFAR, TRANSFORMER

TITLES = {"main": "", CIFAR: ", CIFAR-10"}
ALL_TITLES = {**TITLES, TRANSFORMER: ": the transformer"}
NAMED = ("as-published", "constant-padded", "plain-padded", "code", "constant", "plain")
DECIDES = (
    ("as-published", "plain", "what the note compared"),
    ("plain-padded", "plain", "the padding alone"),
    ("as-published", "plain-padded", "the rows, both padded"),
    ("as-published", "constant-padded", "rows against a vector, both padded"),
    ("code", "plain", "the rows, neither padded"),
    ("code", "constant", "rows against a vector, neither padded"),
    ("constant", "plain", "a trained vector, which is a bias"),
)
CROSSED = (
    ("code-slow", "plain", "what the released code compares on CIFAR-10"),
    ("code-slow", "plain-slow", "the rows, both at the slow rate"),
    ("code", "plain", "the rows, both at the usual rate"),
    ("plain-slow", "plain", "the rate alone"),
)
CLOSE = {name: Score(METRICS[name], "accuracy", bounds=(0, 1)) for name in LEARNED}
"""Accuracies that differ by less than an axis from chance to 1 would show."""
LEVEL = 0.9
"""Of intervals that say whether two rows are alike: two one-sided tests at 5%."""


def beside(found: Found) -> list[Panel]:
    """Figs. 2 and 3."""
    panels = []
    caption = (
        "Rows beside the features are the same for every picture: the next layer makes a bias of them and nothing "
        "else. A constant is that bias said plainly."
    )
    for setting in there(found, list(TITLES)):
        panel = scores(
            named(found.rows, setting, rows.BESIDE), metrics=CLOSE, setting=setting,
            title=f"Beside the features{TITLES[setting]}", caption=caption,
        )  # fmt: skip
        panels.append(Panel(panel.title, (*panel.blocks, *_differences(found, setting, DECIDES)), panel.caption))
        panels.append(convergence(found, rows.BESIDE, setting, f"As they learn{TITLES[setting]}"))
    return panels or empty("Beside the features")


def _differences(found: Found, setting: str, pairs: Sequence[tuple[str, str, str]]) -> list[Table]:
    """Differences of held-out accuracy between rows, each of one cause."""
    by_label, body = of(found, "accuracy", setting), []
    for a, b, why in pairs:
        if by_label.get(a, {}).keys() & by_label.get(b, {}).keys():
            told = paired_difference(by_label[a], by_label[b], LEVEL)
            body.append(
                (why, f"{a} − {b}", signed(told.mean, 4), interval(told, 4) if told.known else "–", str(told.n))
            )
    columns = ("Difference", "Rows", "Mean", f"{LEVEL:.0%} interval", "Seeds")
    note = (
        "Of held-out accuracy, paired by seed. By two one-sided tests at 5%, rows are alike within any range that "
        "holds their interval."
    )
    return [Table("What decides", columns, tuple(body), note)] if body else []


def starts(found: Found) -> list[Panel]:
    """The author's suspicion: that the head's first weights decide."""
    panels = []
    for setting in there(found, list(TITLES)):
        by_label = of(found, "accuracy", setting)
        scales = {1.0: "code", **{scale: f"code x {scale:g}" for scale in rows.SCALES if scale}}
        points = {scale: by_label[label] for scale, label in sorted(scales.items()) if label in by_label}
        others = {"a head that starts at nothing": "code x 0", "LeNet alone": "plain"}
        told = [f"{name}: {_size(by_label[label])}" for name, label in others.items() if label in by_label]
        panels.append(
            lines(
                {"rows of the code's sphere": points},
                title=f"How large the head starts{TITLES[setting]}",
                x_label="times the first weights of the head's last layer",
                y_label="accuracy on held-out pictures",
                bounds=None,
                log_x=True,
                note=f"Beside it, {'; '.join(told)}." if told else "",
            )
        )
    return panels or empty("How large the head starts")


def _size(seeds: dict[int, float]) -> str:
    found = t_interval(list(seeds.values()))
    return f"{number(found.mean, 3)} {interval(found, 3)}"


def rates(found: Found) -> list[Panel]:
    """The rates that the author's two networks had on CIFAR-10, each given to both."""
    settings = [name for name in (CIFAR, "main") if set(rows.RATES) <= set(found.labels(name))]
    if not there(found, settings):
        return empty("Rates crossed")
    panel = accuracies(found, rows.RATES, settings[0], f"Rates crossed{TITLES[settings[0]]}")
    return [Panel(panel.title, (*panel.blocks, *_differences(found, settings[0], CROSSED)), panel.caption)]


def tokens(found: Found) -> list[Panel]:
    """Fig. 5."""
    if not there(found, [TRANSFORMER]):
        return empty("In a transformer")
    caption = (
        "A vision transformer of width 64 and four layers on the same pictures; the note names neither model nor task."
    )
    labels = tuple(rows.TOKENS)
    panel = accuracies(found, labels, TRANSFORMER, "In a transformer", caption)
    body = []
    for label, seeds in of(found, "roughness", TRANSFORMER).items():
        known = [value for value in seeds.values() if math.isfinite(value)]
        if known:
            told = t_interval(known)
            body.append((label, f"{told.mean:.4f}", interval(told, 4) if told.known else "–", str(told.n)))
    columns = ("Encoding", "Mean bend of the training loss", "95% interval", "Seeds")
    note = "The mean size of the second differences of the training loss from epoch to epoch; 0 is a straight line."
    table = Table("How smooth the curves are", columns, tuple(sorted(body, key=lambda row: row[1])), note)
    losses: dict[str, dict[float, BySeed]] = {}
    for row in named(found.curves, TRANSFORMER, labels):
        if row["metric"] == "loss_train":
            losses.setdefault(row["scheme"], {}).setdefault(float(row["epoch"]), {})[row["seed"]] = row["value"]
    falling = lines(
        losses, title="Training losses in the transformer", x_label="epoch", y_label="loss in training", bounds=None
    )
    return [Panel(panel.title, (*panel.blocks, table), panel.caption), falling]


def what(found: Found) -> list[Panel]:
    """What each row is."""

    def about(setting: str, label: str) -> str:
        return rows.TOKENS[label][1] if setting == TRANSFORMER else rows.kind_of(label).about

    def told(unit: Unit) -> str:
        row, training = unit.settings["row"], unit.settings["training"]
        scheme = scheme_text(row["scheme"])
        if row["type"] != "lenet":
            return scheme
        return f"{scheme}; padding {row['config']['padding']}, rate {training['lr']:g}"

    return what_rows_are(found, ALL_TITLES, about, told)


def headline(found: Found) -> str:
    """What stands in the first sentence: rows beside the features, their bias, and nothing."""
    told = []
    for setting in there(found, list(TITLES)):
        by_label = of(found, "accuracy", setting)
        means = {name: mean(list(by_label[name].values())) for name in NAMED if name in by_label}
        means = means or {name: mean(list(seeds.values())) for name, seeds in by_label.items()}
        if means:
            sizes = ", ".join(f"{name} {number(size, 3)}" for name, size in means.items())
            told.append(f"Accuracy on held-out pictures{TITLES[setting]}: {sizes}.")
    return " ".join(told) or "Nothing can be said yet: no unit has finished."
