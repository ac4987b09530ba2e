"""Plot and table of length extrapolation: loss by context length, beyond the training length."""

from __future__ import annotations

from collections.abc import Sequence

from posenc.measure.statistics import mean, paired_difference
from posenc.workbench.report.line_plot import line_plot
from posenc.workbench.report.number_format import number
from posenc.workbench.report.page import Panel, Table
from posenc.workbench.report.result_rows import BySeed
from posenc.workbench.studies.language.results import (
    LOSS_DIGITS,
    context_multiples,
    difference_text,
    trained_variants,
    training_length,
    variant_of,
)
from posenc.workbench.studies.language.rope_scaling import ramp_text
from posenc.workbench.studies.language.variants import RECENT, RECENT_BESIDE, SCALED
from posenc.workbench.studies.shared.classification_panels import empty_panel, seeds_by_label
from posenc.workbench.studies.shared.compared_score import held_out_items
from posenc.workbench.studies.shared.declarations import MAIN
from posenc.workbench.studies.shared.page_data import PageData


def loss_by_context_length(data: PageData) -> list[Panel]:
    """Loss by context length, and its difference between the longest and the shortest contexts."""
    return _loss_by_context(data, "Loss by context length", trained_variants(data))


def loss_of_recent_encodings(data: PageData) -> list[Panel]:
    """The same for encodings since 2024, with their differences from none, RoPE and ALiBi."""
    asked = (*RECENT_BESIDE, *RECENT)
    labels = [label for label in trained_variants(data) if label in asked]
    panels = _loss_by_context(data, "Loss by context length, encodings since 2024", labels)
    return [*panels, *_differences_from_others(data, [label for label in labels if label in RECENT])]


def _differences_from_others(data: PageData, labels: Sequence[str]) -> list[Panel]:
    """Difference of the loss of each encoding from those of RECENT_BESIDE, at the shortest and longest contexts."""
    multiples = sorted({1, context_multiples(data)[-1]}) if labels else []
    losses = {multiple: seeds_by_label(data, f"loss_at_x{multiple}", MAIN) for multiple in multiples}
    body, columns = [], ["Encoding"]
    for multiple in multiples:
        tokens = f"{multiple * training_length(data):,} tokens"
        columns += [f"Loss − loss of {other}, {tokens} (nats)" for other in RECENT_BESIDE]
    for label in labels:
        cells = []
        for by_label in losses.values():
            own = by_label.get(label)
            for other in RECENT_BESIDE:
                both = own and by_label.get(other)
                cells.append(difference_text(paired_difference(own, both)) if own and both else "–")
        body.append((label, *cells))
    if not any(cell != "–" for _, *cells in body for cell in cells):
        return []
    title = "Differences from no encoding, RoPE and ALiBi"
    note = "In brackets: 95% t-intervals over seeds, paired by seed, each by itself. Below 0 the encoding is better."
    return [Panel(title, (Table(title, tuple(columns), tuple(body), note),))]


def _loss_by_context(data: PageData, title: str, variants: Sequence[str]) -> list[Panel]:
    if not variants:
        return empty_panel(title)
    window, series = training_length(data), {label: _by_context(data, label) for label in variants}
    bigram = {context: (mean(list(seeds.values())), 0.0) for context, seeds in _by_context(data, "bigram").items()}
    panel = line_plot(
        series,
        title=title,
        x_label="context length (tokens)",
        y_label="loss (nats)",
        bounds=None,
        log_x=True,
        held_out=held_out_items(data, MAIN),
        reference={"bigram": bigram},
        note=f"The training length is {window} tokens. A point is the mean over contexts of more than half as many "
        "and at most as many tokens. All points are of the same predicted tokens.",
    )
    caption = (
        "More context does not make a token harder to predict, so an encoding that extrapolates keeps the loss of the "
        "training length or lowers it. A rising line shows an encoding that fails on positions beyond that length."
    )
    return [Panel(panel.title, (*panel.blocks, _extrapolation_table(data, variants, window)), caption)]


def _by_context(data: PageData, label: str) -> dict[float, BySeed]:
    """Context length to seed to loss, by octaves from the training length on."""
    points: dict[float, BySeed] = {}
    for spec in data.done:
        if spec.condition == MAIN and spec.variant == label:
            losses = data.store.arrays(spec.identity)["loss_by_context"]
            longest = int(spec.settings["window"])
            while longest <= len(losses):
                points.setdefault(float(longest), {})[spec.seed] = float(losses[longest // 2 : longest].mean())
                longest *= 2
    return points


def _extrapolation_table(data: PageData, variants: Sequence[str], window: int) -> Table:
    """Loss at each multiple of the training length, its rise, and the errors of encodings with a limited length."""
    multiples = context_multiples(data)
    losses = {multiple: seeds_by_label(data, f"loss_at_x{multiple}", MAIN) for multiple in multiples}
    first, last = losses[1], losses[multiples[-1]]
    body = []
    for label in variants:
        if not first.get(label):
            continue
        cells = [
            number(mean(list(seeds.values())), LOSS_DIGITS) if (seeds := losses[multiple].get(label)) else "–"
            for multiple in multiples
        ]
        if len(multiples) > 1:
            rise = paired_difference(last[label], first[label]) if last.get(label) else None
            cells.append("–" if rise is None else difference_text(rise))
        body.append((label, *cells))
    columns = ["Encoding", *(f"Loss at {multiple * window:,} tokens (nats)" for multiple in multiples)]
    if len(multiples) > 1:
        columns.append(f"Difference, {multiples[-1] * window:,} − {window:,} tokens (nats)")
    sentences = ["Means over seeds; differences with 95% t-intervals, paired by seed."]
    if any(label in SCALED for label in variants):
        sentences.append(
            "Variants with scaled frequencies are the trained models of rope; frequencies are scaled for the longest "
            "context: kept, divided by the factor (slowed), or between the two (blended)."
        )
    for label in variants:
        ramp = ramp_text(next(spec.settings for spec in data.specs if (spec.condition, spec.variant) == (MAIN, label)))
        sentences += [f"{label}: {ramp}."] if ramp else []
    for label in variants:
        error = variant_of(data, label).length_error(window, multiples[-1] * window)
        sentences += [f"{label}: {error}"] if error else []
    return Table("Loss at multiples of the training length", tuple(columns), tuple(body), " ".join(sentences))
