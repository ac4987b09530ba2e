"""The language study as panels: losses beside what counting tells, losses by context, how the models learn."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import torch

from posenc.measure.statistics import mean, paired_difference, t_interval
from posenc.workbench.report.estimators import rank_correlation_by_seed
from posenc.workbench.report.line_plot import line_plot
from posenc.workbench.report.number_format import interval, join_words, number, signed_number
from posenc.workbench.report.page import Panel, Preformatted, Table
from posenc.workbench.report.result_rows import BySeed
from posenc.workbench.report.score_plot import Score, score_plots
from posenc.workbench.studies.language import rows
from posenc.workbench.studies.language.recalling import MULTIPLES
from posenc.workbench.studies.language.rows import COUNTED, LanguageRow, stops
from posenc.workbench.studies.language.texts import KeptText, kept
from posenc.workbench.studies.shared.classification_panels import empty, named, of, scheme_text, there
from posenc.workbench.studies.shared.page_data import PageData

MAIN = "main"
LOSS = Score("At the trained length", "loss in nats", higher=False)
TITLES = {MAIN: "", "copy": ": copying", "needle": ": needles"}
SAID = 3
"""Decimals of a loss."""


def losses(found: PageData) -> list[Panel]:
    """Every row at the trained length and at the longest, and what counting tells beside them."""
    labels = _trained(found)
    if not labels:
        return empty("Loss by encoding")
    multiple = _multiples(found)[-1]
    beyond = Score(f"At {multiple} times the trained length", "loss in nats", higher=False)
    metrics = {"loss": LOSS} if multiple == 1 else {"loss": LOSS, f"loss_at_x{multiple}": beyond}
    bigram = {m: of(found, m, MAIN).get("bigram") for m in metrics}
    marks = {m: {"bigram": mean(list(seeds.values()))} for m, seeds in bigram.items() if seeds}
    caption = (
        "The loss is the mean of −ln p of the next token, over the end of the text, which nothing was learned from. "
        f"At {multiple} times the trained length each token is told from more than half as many and up to as many "
        "tokens before it. An encoding that stops before has no number there."
    )
    panel = score_plots(
        named(found.rows, MAIN, labels), metrics=metrics, lines=marks, title="Loss by encoding", caption=caption
    )
    return [Panel(panel.title, (*panel.blocks, _beside_counting(found, labels)), panel.caption)]


def _beside_counting(found: PageData, labels: Sequence[str]) -> Table:
    by_label, body = of(found, "loss", MAIN), []
    for label in sorted((x for x in (*labels, *COUNTED) if x in by_label), key=lambda x: mean([*by_label[x].values()])):
        told = t_interval(list(by_label[label].values()))
        below = []
        for count in COUNTED:
            shared = by_label.get(count, {}).keys() & by_label[label].keys()
            if not shared or label in COUNTED:
                below.append("–")
                continue
            less = paired_difference(by_label[label], by_label[count])
            below.append(f"{signed_number(less.mean, SAID)}{' ' + interval(less, SAID) if less.known else ''}")
        size = interval(told, SAID) if told.known and label not in COUNTED else "–"
        body.append((label, number(told.mean, SAID), size, *below))
    columns = ("Row", "Loss", "95% interval", *(f"Minus {name}" for name in COUNTED))
    note = (
        "Unigram and bigram are counted in the part that is learned from, pairs interpolated with single tokens as by "
        "Witten and Bell, and asked about the same tokens."
    )
    return Table("Beside what counting tells", columns, tuple(body), note)


def extrapolation(found: PageData) -> list[Panel]:
    """Loss against context, to many times the trained one, and what each row says of reading on."""
    labels, title = _trained(found), "Longer contexts than trained"
    if not labels:
        return empty(title)
    window, series = _window(found), {label: _by_context(found, label) for label in labels}
    counted = {x: (mean(list(seeds.values())), 0.0) for x, seeds in _by_context(found, "bigram").items()}
    panel = line_plot(
        series,
        title=title,
        x_label="tokens of context",
        y_label="loss in nats",
        bounds=None,
        log_x=True,
        reference={"bigram": counted},
        note=f"Trained on windows of {window} tokens. Each point is of contexts of more than half as many "
        f"tokens, and up to as many, and all are of the same tokens told.",
    )
    table = _reaching(found, labels, window)
    caption = (
        "Whoever reads on keeps the loss of the trained length or falls below it, for more context makes no token "
        "harder to tell; where a line rises, what the model never met in training confuses it."
    )
    return [Panel(panel.title, (*panel.blocks, table), caption)]


def _by_context(found: PageData, label: str) -> dict[float, BySeed]:
    """Contexts up to -> seed -> loss, by octaves from the trained length on: shorter contexts are of fewer tokens."""
    points: dict[float, BySeed] = {}
    for spec in found.done:
        if spec.condition == MAIN and spec.variant == label:
            told = found.store.arrays(spec.identity)["loss_by_context"]
            upper = int(spec.settings["window"])
            while upper <= len(told):
                points.setdefault(float(upper), {})[spec.seed] = float(told[upper // 2 : upper].mean())
                upper *= 2
    return points


def _reaching(found: PageData, labels: Sequence[str], window: int) -> Table:
    """Loss at each multiple of the trained length, what it has risen by, and in which words a row stops."""
    multiples = _multiples(found)
    by = {m: of(found, f"loss_at_x{m}", MAIN) for m in multiples}
    body = []
    for label in labels:
        if not by[1].get(label):
            continue
        cells = []
        for m in multiples:
            seeds = by[m].get(label)
            cells.append(number(mean(list(seeds.values())), SAID) if seeds else "–")
        last = by[multiples[-1]].get(label)
        rise = paired_difference(last, by[1][label]) if last else None
        said = (
            "–"
            if rise is None
            else f"{signed_number(rise.mean, SAID)}{' ' + interval(rise, SAID) if rise.known else ''}"
        )
        body.append((label, *cells, *([said] if multiples[1:] else [])))
    columns = ("Row", *(f"{m} x" for m in multiples))
    columns += (f"Rise from 1 x to {multiples[-1]} x",) if multiples[1:] else ()
    note = (
        "Means over seeds. A sinusoid has a row for every position, and none of those beyond the trained window was "
        "ever met in training; a learned table has no row there, and refuses. Rows with linear, ntk and yarn are the "
        "trained models of rope with other frequencies, those for the longest context of this page."
    )
    refused = [f"{x}: {why}" for x in labels if (why := stops(_row(found, x), window, multiples[-1] * window))]
    return Table("How far each reads on", columns, tuple(body), " ".join([note, *refused]))


def rotary(found: PageData) -> list[Panel]:
    """The nine settings beside the published losses."""
    title, by_label = "Nine ways to turn", of(found, "loss", MAIN)
    here = [label for label in rows.PUBLISHED if by_label.get(label)]
    if not here:
        return empty(title)
    panel = score_plots(named(found.rows, MAIN, here), metrics={"loss": LOSS}, title=title)
    size = {label: mean(list(by_label[label].values())) for label in here}
    moved, body = of(found, "moved", MAIN), []
    for label in sorted(here, key=lambda x: size[x]):
        told = t_interval(list(by_label[label].values()))
        body.append(
            (
                label,
                "yes" if label in rows.RELATIVE else "no",
                f"{mean(list(moved[label].values())):.1e}" if moved.get(label) else "–",
                f"{number(told.mean, SAID)}{' ' + interval(told, SAID) if told.known else ''}",
                number(rows.PUBLISHED[label], SAID),
                str(sorted(here, key=lambda x: size[x]).index(label) + 1),
                str(sorted(here, key=lambda x: rows.PUBLISHED[x]).index(label) + 1),
            )
        )
    agreed = rank_correlation_by_seed("loss", rows.ORDER)(found.rows)
    told = (
        ""
        if agreed is None
        else (
            f" Spearman's ρ with the published order, mean over seeds: {number(agreed.mean)} "
            f"{interval(agreed, within=(-1.0, 1.0))}."
        )
    )
    columns = ("Row", "Relative", "Predictions moved by", "Loss here", "Published", "Rank here", "Rank published")
    note = (
        "Published: Su 2025, kexue.fm/archives/10862, one run each of a model with 10^9 parameters: compare the order, "
        "not the size. Predictions moved by: the mean total variation when all positions move by half a window."
        f"{told}"
    )
    return [Panel(title, (*panel.blocks, Table("Beside the published losses", columns, tuple(body), note)))]


def recall(found: PageData) -> list[Panel]:
    """Answers that are right, at the trained length and beyond."""
    panels = []
    for task, (title, about) in RECALLED.items():
        specs = [spec for spec in found.done if spec.condition == task]
        if not specs:
            continue
        by = {m: of(found, f"accuracy_at_x{m}", task) for m in MULTIPLES}
        first, labels = specs[0].settings, dict.fromkeys(spec.variant for spec in specs)
        window, symbols = first["window"], first["task"]["symbols"]
        series = {x: {float(m * window): by[m][x] for m in MULTIPLES if x in by[m]} for x in labels}
        whole = [_whole(found, task, label) for label in labels]
        bags = {m: of(found, f"bag_at_x{m}", task) for m in MULTIPLES}
        bag = {
            float(m * window): (mean([x for seeds in bags[m].values() for x in seeds.values()]), 0.0)
            for m in MULTIPLES
            if bags[m]
        }
        columns = ("Row", *(f"{m} x" for m in MULTIPLES))
        table = Table("Samples with every answer right", columns, tuple(whole), "Means over seeds.")
        panel = line_plot(
            series, title=title, x_label="tokens of a sample", y_label="answers that are right", log_x=True,
            chance=1 / symbols, reference={"a bag of the answers": bag},
            note=f"Trained on samples of up to {window} tokens. A bag knows which answers a sample has and not in what "
            "order, and names the commonest of those that are left.",
        )  # fmt: skip
        panels.append(Panel(panel.title, (*panel.blocks, table), about))
    return panels or empty("Recall")


RECALLED = {
    "copy": ("Copying", "Symbols, a bar, and the same symbols again: the answers are all symbols after the bar."),
    "needle": (
        "Needles",
        "Pairs of a key and a value stand among fillers; after a bar each key is asked for, and the answer is its "
        "value. Longer samples have as many needles and more fillers.",
    ),
}


def _whole(found: PageData, task: str, label: str) -> tuple[str, ...]:
    by = [of(found, f"whole_at_x{m}", task).get(label, {}) for m in MULTIPLES]
    return (label, *(number(mean(list(seeds.values())), 3) if seeds else "–" for seeds in by))


SPEED = {
    "tokens_a_second": Score("After the trained length", "tokens a second"),
    "tokens_a_second_far": Score("After the longest that it reads", "tokens a second"),
}


def writes(found: PageData) -> list[Panel]:
    """How fast the models write, and what."""
    labels = [label for label in _trained(found) if label not in rows.STRETCHED]
    title, told = "How they write", []
    for label in labels:
        spec = found.first(MAIN, label)
        if spec is not None and "written" in (arrays := found.arrays(MAIN, label)):
            text = kept(found.store.root, msgspec.convert(spec.settings["text"], KeptText))
            told.append(f"{label}\n{text.decode(torch.from_numpy(arrays['written']))}")
    if not told:
        return empty(title)
    caption = (
        "One text at a time on this machine, keys in a cache; of some tokens the fastest, so that what else the "
        "machine did counts for little. Below, what the first seed of each row goes on with after the same beginning."
    )
    panel = score_plots(named(found.rows, MAIN, labels), metrics=SPEED, title=title, caption=caption)
    return [Panel(panel.title, (*panel.blocks, Preformatted("\n\n".join(told))), caption)]


def learning(found: PageData) -> list[Panel]:
    """The loss of the validation part while the models learn."""
    told: dict[str, dict[float, BySeed]] = {}
    for row in named(found.curves, MAIN, _trained(found)):
        # before the first step all are far above, and would flatten what follows
        if row["metric"] == "loss" and row["epoch"] and row["scheme"] not in rows.STRETCHED:
            told.setdefault(row["scheme"], {}).setdefault(float(row["epoch"]), {})[row["seed"]] = row["value"]
    if not told:
        return empty("As they learn")
    return [line_plot(told, title="As they learn", x_label="step", y_label="loss in nats", bounds=None)]


def what(found: PageData) -> list[Panel]:
    """What each row is, and what was read."""
    panels = []
    for setting in there(found, list(TITLES)):
        counts, body = of(found, "parameters", setting), []
        for label in found.labels(setting):
            spec = next(u for u in found.specs if u.condition == setting and u.variant == label)
            numbers = sorted({round(value) for value in counts.get(label, {}).values()})
            told = " to ".join(f"{count:,}" for count in numbers) or "–"
            turns = spec.settings["row"]["turns"] if "row" in spec.settings else []
            schemes = ", ".join(map(scheme_text, turns)) or "none"
            body.append((label, rows.ABOUT.get(label, "by name"), schemes, told))
        columns = ("Row", "What it is", "Schemes by layer", "Trained numbers")
        table = Table("What each row is", columns, tuple(body), _read(found) if setting == MAIN else "", prose=True)
        panels.append(Panel(f"The rows{TITLES[setting]}", (table,)))
    return panels or empty("The rows")


def _read(found: PageData) -> str:
    of_text = next(spec for spec in found.specs if spec.condition == MAIN).settings["text"]
    return (
        f"The text: {of_text['vocabulary']} different {of_text['unit']}. The first 90 in a hundred are learned from, 5 "
        "are looked at on the way, the last 5 are reported."
    )


def headline(found: PageData) -> str:
    """The best rows at the trained length and at the longest, beside counted pairs."""
    told = []
    metrics = {"loss": "at the trained length"}
    if there(found, [MAIN]) and (multiple := _multiples(found)[-1]) > 1:
        metrics[f"loss_at_x{multiple}"] = f"at {multiple} times it"
    for metric, where in metrics.items():
        by_label = of(found, metric, MAIN)
        means = {label: mean(list(seeds.values())) for label, seeds in by_label.items()}
        trained = {label: size for label, size in means.items() if label not in COUNTED}
        if trained:
            best = min(trained, key=lambda label: (trained[label], label))
            counted = f", bigram {number(means['bigram'], 2)}" if "bigram" in means else ""
            tied = [x for x in trained if x != best and _tied(by_label[x], by_label[best])]
            with_ = (
                f", not told apart from {join_words(tied) if len(tied) < 4 else f'{len(tied)} others'}" if tied else ""
            )
            told.append(
                f"{where.capitalize()}: {best} has the lowest loss, {number(trained[best], 3)}{with_}{counted}."
            )
    for task in there(found, list(RECALLED)):
        right = {x: mean(list(seeds.values())) for x, seeds in of(found, "accuracy_at_x2", task).items()}
        best = max(right, key=lambda label: (right[label], label), default="")
        if best:
            bag = of(found, "bag_at_x2", task).get(best)
            beside = f", a bag of the answers {number(mean(list(bag.values())))}" if bag else ""
            told.append(
                f"{RECALLED[task][0]} at twice the trained length: {best} is right most, {number(right[best])}{beside}."
            )
    return " ".join(told) or "Nothing can be said yet: no unit has finished."


def _tied(a: BySeed, b: BySeed) -> bool:
    if not a.keys() & b.keys():
        return False
    apart = paired_difference(a, b)
    return not (apart.above(0) or apart.below(0))


def _trained(found: PageData) -> list[str]:
    return [label for label in found.labels(MAIN) if label not in COUNTED]


def _row(found: PageData, label: str) -> LanguageRow:
    spec = next(u for u in found.specs if u.condition == MAIN and u.variant == label)
    return msgspec.convert(spec.settings["row"], LanguageRow)


def _settings(found: PageData) -> Mapping[str, Any]:
    return next(spec for spec in found.specs if spec.condition == MAIN).settings


def _window(found: PageData) -> int:
    return int(_settings(found)["window"])


def _multiples(found: PageData) -> list[int]:
    """Powers of two up to how many times the trained length this text was asked about."""
    return [2**power for power in range(int(math.log2(_settings(found)["text"]["multiple"])) + 1)]
