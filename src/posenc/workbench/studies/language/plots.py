"""Plots and tables of the language study: loss by encoding, generated text, learning curves, the variants."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from posenc.measure.statistics import mean, paired_difference
from posenc.workbench.report.line_plot import line_plot
from posenc.workbench.report.number_format import capitalize, interval, number
from posenc.workbench.report.page import Panel, Preformatted, Table
from posenc.workbench.report.result_rows import BySeed
from posenc.workbench.report.score_plot import Score, score_plots
from posenc.workbench.report.seed_interval import interval_name, seed_interval
from posenc.workbench.studies.language.bits_per_byte import NAME as BITS_PER_BYTE
from posenc.workbench.studies.language.conditions import CONDITIONS, TEXT
from posenc.workbench.studies.language.results import (
    LOSS_DIGITS,
    context_multiples,
    difference_text,
    text_settings,
    times_training_length,
    trained_variants,
)
from posenc.workbench.studies.language.rope_scaling import ramp_text
from posenc.workbench.studies.language.stored_text import text_of_run
from posenc.workbench.studies.language.variants import DESCRIPTIONS, NGRAMS, SCALED
from posenc.workbench.studies.shared.classification_panels import (
    empty_panel,
    finished_conditions,
    rows_labeled,
    scheme_text,
    seeds_by_label,
)
from posenc.workbench.studies.shared.compared_score import held_out_items
from posenc.workbench.studies.shared.declarations import MAIN
from posenc.workbench.studies.shared.page_data import PageData

LOSS = "loss"
SPEEDS = {
    "tokens_a_second": Score("Speed after the training length", "tokens per second"),
    "tokens_a_second_far": Score("Speed after the longest context that the encoding can read", "tokens per second"),
}


def loss_at(multiple: int) -> Score:
    """Title and unit of the loss at a multiple of the training length."""
    return Score(f"Loss at {times_training_length(multiple)}", "nats", higher=False)


def loss_by_encoding(data: PageData) -> list[Panel]:
    """Loss at the training length and at the longest context, with the n-gram baselines."""
    title, variants = "Loss by encoding", trained_variants(data)
    if not variants:
        return empty_panel(title)
    longest = context_multiples(data)[-1]
    scores = {LOSS: loss_at(1), **({f"loss_at_x{longest}": loss_at(longest)} if longest > 1 else {})}
    bigram = {metric: seeds_by_label(data, metric, MAIN).get("bigram") for metric in scores}
    lines = {metric: {"bigram": mean(list(seeds.values()))} for metric, seeds in bigram.items() if seeds}
    caption = "The loss is the mean of −ln p of the next token on the test part of the text."
    if longest > 1:
        caption += (
            f" At {times_training_length(longest)}, each token is predicted from more than half as many and at most as "
            "many tokens before it. Encodings that cannot read such contexts are left out there."
        )
    panel = score_plots(
        rows_labeled(data.rows, MAIN, variants), metrics=scores, lines=lines, title=title, caption=caption,
        held_out=held_out_items(data, MAIN),
    )  # fmt: skip
    return [Panel(panel.title, (*panel.blocks, _baseline_table(data, variants)), panel.caption)]


def _baseline_table(data: PageData, variants: Sequence[str]) -> Table:
    """Loss of every model, and its difference from each n-gram baseline."""
    by_label, by_bits, body = seeds_by_label(data, LOSS, MAIN), seeds_by_label(data, BITS_PER_BYTE, MAIN), []
    finished, held_out = [label for label in (*variants, *NGRAMS) if label in by_label], held_out_items(data, MAIN)
    for label in sorted(finished, key=lambda label: mean(list(by_label[label].values()))):
        estimate, differences = seed_interval(list(by_label[label].values()), held_out=held_out), []
        for baseline in NGRAMS:
            shared = by_label.get(baseline, {}).keys() & by_label[label].keys()
            if label in NGRAMS or not shared:
                differences.append("–")
            else:
                differences.append(difference_text(paired_difference(by_label[label], by_label[baseline])))
        reach = interval(estimate, LOSS_DIGITS) if estimate.known and label not in NGRAMS else "–"
        bits = list(by_bits.get(label, {}).values())
        shown = number(mean(bits), LOSS_DIGITS) if bits else "–"
        body.append((label, number(estimate.mean, LOSS_DIGITS), reach, shown, *differences))
    columns = (
        "Model",
        "Loss (nats)",
        "95% interval",
        "Bits per byte",
        *(f"Difference from {name} (nats)" for name in NGRAMS),
    )
    note = (
        f"Loss at the training length; mean and 95% {interval_name(held_out)}. Unigram and bigram probabilities are "
        "counted on the training split. The bigram is interpolated with the unigram (Witten and Bell 1991, method C). "
        f"All models predict the same tokens. {_bits_note(data, bool(by_bits))}"
    )
    return Table("Loss of encodings and n-gram baselines", columns, tuple(body), note)


def _bits_note(data: PageData, known: bool) -> str:
    """Sentence on the bits per byte: their definition, or the reason why they are missing."""
    unit = text_settings(data)["text"]["unit"]
    if unit == "tokens":
        return "Bits per byte are unknown for token ids, because the text that an id stands for is not known."
    if not known:
        return "These runs were stored before bits per byte were."
    unknown = " A token for unknown text counts as 8 bits for each byte of its text, and 8 for its end."
    return (
        "Bits per byte are the loss in bits, divided by the UTF-8 bytes of the predicted tokens. They compare "
        f"different tokenizers of one text.{unknown if unit in ('words', 'subwords') else ''}"
    )


def generated_text(data: PageData) -> list[Panel]:
    """Speed of generation, and a generated text of each encoding."""
    variants = [label for label in trained_variants(data) if label not in SCALED]
    title, texts = "Generated text and its speed", []
    for label in variants:
        spec = data.first(MAIN, label)
        if spec is not None and "written" in (arrays := data.arrays(MAIN, label)):
            text = text_of_run(spec, data.store.root).text
            texts.append(f"{label}\n{text.decode(torch.from_numpy(arrays['written']))}")
    if not texts:
        return empty_panel(title)
    caption = (
        "Speed of one text at a time on this machine, with cached keys and values. The fastest token counts, so that "
        "other processes change the result little. The texts below are of the first seed of each encoding and continue "
        "the same prompt."
    )
    panel = score_plots(rows_labeled(data.rows, MAIN, variants), metrics=SPEEDS, title=title, caption=caption)
    return [Panel(panel.title, (*panel.blocks, Preformatted("\n\n".join(texts))), caption)]


def learning_curves(data: PageData) -> list[Panel]:
    """Loss on the validation split by training step."""
    title, series = "Learning curves", dict[str, dict[float, BySeed]]()
    for row in rows_labeled(data.curves, MAIN, trained_variants(data)):
        # Step 0 is left out: its losses are far above the others and would flatten the curves.
        if row["metric"] == LOSS and row["epoch"] and row["scheme"] not in SCALED:
            series.setdefault(row["scheme"], {}).setdefault(float(row["epoch"]), {})[row["seed"]] = row["value"]
    if not series:
        return empty_panel(title)
    return [line_plot(series, title=title, x_label="training step", y_label="validation loss (nats)", bounds=None)]


def variant_tables(data: PageData) -> list[Panel]:
    """Description, schemes and parameters of each variant, by condition."""
    panels = []
    for condition in finished_conditions(data, list(CONDITIONS)):
        counts, body = seeds_by_label(data, "parameters", condition), []
        for label in data.labels(condition):
            spec = next(spec for spec in data.specs if spec.condition == condition and spec.variant == label)
            parameters = sorted({round(value) for value in counts.get(label, {}).values()})
            schemes = spec.settings["row"]["turns"] if "row" in spec.settings else []
            body.append(
                (
                    label,
                    capitalize(DESCRIPTIONS.get(label, "as given by name")),
                    "; ".join(filter(None, (", ".join(map(scheme_text, schemes)), ramp_text(spec.settings)))) or "–",
                    " to ".join(f"{count:,}" for count in parameters) or "–",
                )
            )
        columns = ("Variant", "Description", "Schemes by layer", "Parameters")
        title = "Variants" if condition == TEXT.label else f"Variants: {CONDITIONS[condition].title}"
        panels.append(Panel(title, (Table("Schemes and parameters", columns, tuple(body), prose=True),)))
    return panels or empty_panel("Variants")
