"""Results of the runs on a page of the language study: trained variants, training length, context lengths."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import msgspec

from posenc.measure.statistics import Estimate, mean
from posenc.workbench.report.number_format import interval, signed_number
from posenc.workbench.report.result_rows import values_by_scheme
from posenc.workbench.studies.language.ngram_baselines import ngram_loss
from posenc.workbench.studies.language.stored_text import text_of_run
from posenc.workbench.studies.language.variants import NGRAMS, LanguageVariant
from posenc.workbench.studies.shared.declarations import MAIN
from posenc.workbench.studies.shared.page_data import PageData

LOSS = "loss"
"""Stored name of the loss at the training length."""
LOSS_DIGITS = 3
"""Decimals of losses in nats."""


def trained_variants(data: PageData) -> list[str]:
    """Variants on the text, without the n-gram baselines."""
    return [label for label in data.labels(MAIN) if label not in NGRAMS]


def variant_of(data: PageData, label: str) -> LanguageVariant:
    """The model and schemes of a variant on the text."""
    spec = next(spec for spec in data.specs if spec.condition == MAIN and spec.variant == label)
    return msgspec.convert(spec.settings["row"], LanguageVariant)


def text_settings(data: PageData) -> Mapping[str, Any]:
    """Settings of a run on the text."""
    return next(spec for spec in data.specs if spec.condition == MAIN).settings


def vocabulary_size(data: PageData) -> float:
    """Number of different tokens of the models on the text, the mean over seeds.

    The vocabulary of words is that of the training part of a seed, and can be smaller than its limit, which the
    settings state. A store that came from a pack has no text: then it is the limit.
    """
    settings = text_settings(data)["text"]
    if settings["unit"] != "words":
        return settings["vocabulary"]
    by_seed = {spec.seed: spec for spec in data.done if spec.condition == MAIN and "text" in spec.settings}
    try:
        sizes = [len(text_of_run(spec, data.store.root).text.vocabulary) for spec in by_seed.values()]
    except ValueError:
        sizes = []
    return mean(sizes or [settings["vocabulary"]])


def training_length(data: PageData) -> int:
    """Training length on the text, in tokens."""
    return int(text_settings(data)["window"])


def unigram_losses(data: PageData) -> dict[int, float]:
    """Loss of the unigram at the training length by seed: of a model that has learned the frequencies of tokens alone.

    It is that of the runs of the baseline. For seeds without such a run it is counted on the text of the store.
    """
    stored = values_by_scheme(data.rows, LOSS, MAIN).get("unigram", {})
    by_seed = {spec.seed: spec for spec in data.done if spec.condition == MAIN and "text" in spec.settings}
    try:
        counted = {
            seed: ngram_loss(text_of_run(spec, data.store.root), spec.settings["window"], 1)
            for seed, spec in by_seed.items()
            if seed not in stored
        }
    except ValueError:  # a store that came from a pack has no text
        counted = {}
    return stored | counted


def context_multiples(data: PageData) -> list[int]:
    """Longest contexts in testing, in multiples of the training length: 1, 2, 4 and so on."""
    return [2**power for power in range(int(math.log2(text_settings(data)["text"]["multiple"])) + 1)]


def times_training_length(multiple: int) -> str:
    """Return the phrase for a multiple of the training length: "the training length", "twice the training length"."""
    factor = {1: "", 2: "twice "}.get(multiple, f"{multiple} times ")
    return f"{factor}the training length"


def difference_text(estimate: Estimate, digits: int = LOSS_DIGITS) -> str:
    """Format a difference with its interval: "+0.148 [0.100, 0.197]"; without an interval for a single seed."""
    size = signed_number(estimate.mean, digits)
    return f"{size} {interval(estimate, digits)}" if estimate.known else size
