"""The answer of the language study, its predictions, and published claims with the controls that could refute them."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

from posenc.measure.statistics import mean
from posenc.workbench.report.claims_table import Claim, Quantity
from posenc.workbench.report.estimators import (
    PairedDifference,
    PairedValues,
    difference,
    equivalence,
    mean_over_seeds,
    rank_correlation_by_seed,
    rank_correlation_with,
)
from posenc.workbench.report.preregistered import Prediction
from posenc.workbench.report.result_rows import Row, values_by_scheme
from posenc.workbench.studies.language import published
from posenc.workbench.studies.language.conditions import COPY, RECALL_TASKS, RecallCondition
from posenc.workbench.studies.language.results import (
    LOSS,
    LOSS_DIGITS,
    context_multiples,
    times_training_length,
    trained_variants,
    unigram_losses,
    vocabulary_size,
)
from posenc.workbench.studies.language.text_model import SHIFT_TOLERANCE
from posenc.workbench.studies.language.variants import COMPARED, NGRAMS
from posenc.workbench.studies.shared.best_variant import best_variant, no_answer
from posenc.workbench.studies.shared.classification_panels import finished_conditions, seeds_by_label
from posenc.workbench.studies.shared.compared_score import ComparedScore
from posenc.workbench.studies.shared.declarations import MAIN
from posenc.workbench.studies.shared.page_data import PageData
from posenc.workbench.tables.metric_bounds import SHARE, metric_bounds

LOSS_X8, LOSS_X1, SHIFT_DISTANCE = "loss_at_x8", "loss_at_x1", "moved"
ACCURACY_X2, ORDER_FREE_X2 = "accuracy_at_x2", "bag_at_x2"
METRIC_NAMES = {LOSS: "loss at the training length", LOSS_X8: "loss at 8 times the training length"}
LONGER_CONTEXTS = (("alibi", "rope"), ("t5", "rope"), ("fire", "rope"))
"""(better, worse): predicted at 8 times the training length, before the first run."""

PRINTED = "QK 2.712, QKVO 2.719, K 2.769, VO 2.770, QKV 2.783, NoPE 2.795, O 2.841, Q 2.851, V 2.856"
MARGIN = 0.02
"""Losses within this many nats of each other count as equivalent; the nine published losses span 0.144."""
OTHER_TOKENS = (
    "These two losses are of different tokens of the test text; the table of losses at multiples of the training "
    "length compares lengths on the same tokens."
)
EXPLICIT = ("sinusoid", "rope", "alibi", "t5")


def headline(data: PageData) -> str:
    """The best encoding at the training length and at the longest context, and on each recall task."""
    sentences = []
    if finished_conditions(data, [MAIN]):
        longest = context_multiples(data)[-1]
        near = _best_loss(data, LOSS, 1)
        far = _best_loss(data, f"loss_at_x{longest}", longest) if longest > 1 else ""
        sentences += [near, far, OTHER_TOKENS if near and far else ""]
    sentences += [_best_recall(data, task) for task in RECALL_TASKS]
    return " ".join(filter(None, sentences)) or no_answer(bool(data.done))


def compared(data: PageData) -> list[ComparedScore]:
    """The loss at the training length and at the longest context, compared with that of no encoding."""
    if not finished_conditions(data, [MAIN]):
        return []
    longest, unigram = context_multiples(data)[-1], unigram_losses(data)
    first = ComparedScore(
        metric=LOSS,
        name="loss",
        where=f"at {times_training_length(1)}",
        unit="nats",
        higher=False,
        digits=LOSS_DIGITS,
        chance=unigram or math.log(vocabulary_size(data)),
        chance_name="the unigram" if unigram else "",
        references=("nope", "bigram"),
        controls=("nope",),
    )
    where = f"at {times_training_length(longest)}"
    last = dataclasses.replace(
        first, metric=f"{LOSS}_at_x{longest}", where=where, chance=None, curve=LOSS, learned_by=first
    )
    return [first, last] if longest > 1 else [first]


def _best_loss(data: PageData, metric: str, multiple: int) -> str:
    """The encoding with the lowest loss, against the others and the n-grams, which are counted and not trained."""
    by_label = seeds_by_label(data, metric, MAIN)
    counted = [label for label in NGRAMS if label in by_label]
    return best_variant(
        {label: seeds for label, seeds in by_label.items() if label not in NGRAMS},
        metric="loss",
        unit="nats",
        where=f"at {times_training_length(multiple)}",
        higher=False,
        digits=LOSS_DIGITS,
        bounds=metric_bounds(metric),
        references={f"the {label}": by_label[label] for label in counted[-1:] or ()},
    )


def _best_recall(data: PageData, task: RecallCondition) -> str:
    """The encoding with the highest accuracy at twice the training length, also against the order-free predictor."""
    by_seed: dict[int, list[float]] = {}
    for seeds in seeds_by_label(data, ORDER_FREE_X2, task.label).values():
        for seed, value in seeds.items():
            by_seed.setdefault(seed, []).append(value)
    return best_variant(
        seeds_by_label(data, ACCURACY_X2, task.label),
        metric="accuracy",
        unit="",
        where=f"for {task.title} at {times_training_length(2)}",
        digits=3,
        bounds=SHARE,
        references={"the order-free predictor": {seed: mean(values) for seed, values in by_seed.items()}},
    )


def predictions(data: PageData) -> Sequence[Prediction]:
    """Differences in loss that were predicted before the first run, between variants that were run."""
    run = set(trained_variants(data))
    pairs = [(LOSS, label, "nope") for label in COMPARED if label != "nope"]
    pairs += [(LOSS_X8, better, worse) for better, worse in LONGER_CONTEXTS]
    return [
        Prediction(metric, better, worse, higher=False, unit="nats", metric_name=METRIC_NAMES[metric])
        for metric, better, worse in pairs
        if {better, worse} <= run
    ]


def _higher(a: str, b: str, metric: str = LOSS, low: float = 0.0) -> Quantity:
    """The loss of a is higher than that of b by more than ``low``."""
    return Quantity(f"{a} − {b}, {METRIC_NAMES[metric]} (nats)", difference(metric, a, b), low=low)


def metric_difference(label: str, first: str, second: str, condition: str = MAIN) -> PairedDifference:
    """First metric − second metric of one variant, paired by seed."""

    def sides(rows: Sequence[Row]) -> PairedValues | None:
        a, b = (values_by_scheme(rows, metric, condition).get(label, {}) for metric in (first, second))
        return (a, b) if a.keys() & b.keys() else None

    return PairedDifference(sides)


def _rise(label: str, *, low: float = -math.inf, high: float = math.inf) -> Quantity:
    """Rise of the loss from the training length to eight times that."""
    text = f"{label}, loss at 8 times the training length − loss at the training length (nats)"
    return Quantity(text, metric_difference(label, LOSS_X8, LOSS_X1), low=low, high=high)


def _shift_distance(label: str, *, low: float = -math.inf, high: float = math.inf) -> Quantity:
    text = f"{label}, total variation distance under a shift of all positions"
    return Quantity(text, mean_over_seeds(SHIFT_DISTANCE, label), low=low, high=high)


def _copies_better(a: str, b: str) -> Quantity:
    text = f"{a} − {b}, copying accuracy at twice the training length"
    return Quantity(text, difference(ACCURACY_X2, a, b, COPY.label), low=0.0)


def _command(panel: str) -> str:
    return f"posenc run language --data DIR --panels {panel}"


CLAIMS = (
    Claim(
        name="rotation of values and outputs is relative",
        source="seed note 002 on positional encodings, VO-RoPE",
        quote="o_i = R_i^T (sum_j a_ij R_j v_j) = sum_j a_ij R_{j-i} v_j",
        about="The predictions of a trained model do not change when all positions are shifted.",
        quantities=(
            _shift_distance("vo-rope", high=SHIFT_TOLERANCE),
            _shift_distance("qkvo-rope", high=SHIFT_TOLERANCE),
        ),
        control="Values that are rotated without the inverse rotation of outputs are not relative: their predictions "
        "have to change.",
        controls=(_shift_distance("v-rope", low=SHIFT_TOLERANCE),),
        panel="rotary",
        command=_command("rotary"),
    ),
    Claim(
        name="rotation of values and outputs is better than no encoding",
        source=published.SOURCE,
        quote=PRINTED,
        about="VO has a lower loss than no encoding (2.770 against 2.795).",
        published="loss: VO 2.770, none 2.795 (nats)",
        quantities=(_higher("nope", "vo-rope"),),
        control="The relative position has to be the reason: rotation of values only, with the same number of "
        "parameters, has to have a higher loss than VO.",
        controls=(_higher("v-rope", "vo-rope"),),
        panel="rotary",
        command=_command("rotary"),
    ),
    Claim(
        name="rotation of queries and keys is better than of values and outputs",
        source=published.SOURCE,
        quote=PRINTED,
        about="QK has a lower loss than VO (2.712 against 2.770).",
        published="loss: QK 2.712, VO 2.770 (nats)",
        quantities=(_higher("vo-rope", "rope"),),
        control="The task has to depend on position: no encoding has to have a higher loss than QK.",
        controls=(_higher("nope", "rope"),),
        panel="rotary",
        command=_command("rotary"),
    ),
    Claim(
        name="rotation of all four is equivalent to that of queries and keys",
        source=published.SOURCE,
        quote=PRINTED,
        about=f"The losses of QKVO and QK differ by less than {MARGIN} nats (2.719 against 2.712).",
        published="loss: QKVO 2.719, QK 2.712 (nats)",
        quantities=(
            Quantity(
                f"qkvo-rope − rope, {METRIC_NAMES[LOSS]} (nats)",
                equivalence(LOSS, "qkvo-rope", "rope"),
                low=-MARGIN,
                high=MARGIN,
            ),
        ),
        control="The margin has to separate encodings: VO has to differ from QK by more.",
        controls=(_higher("vo-rope", "rope", low=MARGIN),),
        panel="rotary",
        command=_command("rotary"),
    ),
    Claim(
        name="rotation of queries, values or outputs alone is worse than no encoding",
        source=published.SOURCE,
        quote=PRINTED,
        about="Each of the three has a higher loss than no encoding (2.851, 2.856 and 2.841 against 2.795).",
        published="loss: Q 2.851, V 2.856, O 2.841, none 2.795 (nats)",
        quantities=tuple(_higher(f"{site}-rope", "nope") for site in "qvo"),
        control="A single rotated part must not be the reason: keys alone have to have a lower loss than no encoding "
        "(2.769).",
        controls=(_higher("nope", "k-rope"),),
        panel="rotary",
        command=_command("rotary"),
    ),
    Claim(
        name="the published order of nine rotary encodings",
        source=published.SOURCE,
        quote=PRINTED,
        about="The nine losses correlate in rank with the published ones, of models with 10^9 parameters: seed by "
        "seed, and in their means.",
        published="loss: nine values from 2.712 to 2.856 (nats)",
        quantities=(
            Quantity(
                "Spearman of the loss with the published loss, by seed",
                rank_correlation_by_seed(LOSS, published.TIED_LOSSES),
                low=0.0,
            ),
            Quantity(
                "Spearman of the mean loss with the published loss",
                rank_correlation_with(LOSS, published.TIED_LOSSES),
                low=0.0,
            ),
        ),
        control="More than one difference: the rank correlation has to remain when it is controlled for which "
        "encodings are relative.",
        controls=(
            Quantity(
                "partial Spearman by seed, controlled for relative encodings",
                rank_correlation_by_seed(LOSS, published.TIED_LOSSES, "relative"),
                low=0.0,
            ),
        ),
        panel="rotary",
        command=_command("rotary"),
    ),
    Claim(
        name="ALiBi extrapolates in length, sinusoids and RoPE do not",
        source="Press et al. 2021, arXiv 2108.12409, Fig. 1",
        quote="as the (validation-set's) input sequence gets longer (x-axis), current position methods (sinusoidal, "
        "rotary, and T5) show degraded perplexity (y-axis, lower is better), but our method (§3) does not",
        about="From the training length to eight times that, the loss of the same tokens rises with sinusoids and with "
        f"RoPE. With ALiBi it rises by less than {MARGIN} nats.",
        quantities=(_rise("sinusoid", low=0.0), _rise("rope", low=0.0), _rise("alibi", high=MARGIN)),
        control="A model that ignores its context would keep its loss too. At eight times the training length, ALiBi "
        "has to have a lower loss than the bigram. At the training length, its loss must not be higher than that of "
        f"sinusoids by {MARGIN} nats.",
        controls=(_higher("bigram", "alibi", LOSS_X8), _higher("sinusoid", "alibi", low=-MARGIN)),
        panel="extrapolation",
        command=_command("extrapolation"),
    ),
    Claim(
        name="a model without an encoding generalizes best in length",
        source="Kazemnejad et al. 2023, arXiv 2305.19466, abstract",
        quote="NoPE outperforms other explicit positional encoding methods while requiring no additional computation",
        about="At twice the training length, the model without an encoding copies more accurately than the others.",
        quantities=tuple(_copies_better("nope", other) for other in EXPLICIT),
        control="The task has to be learned: at the training length all models have to copy. At twice that length, the "
        "model without an encoding has to be more accurate than the order-free predictor.",
        controls=(
            *(
                Quantity(
                    f"{label}, copying accuracy at the training length",
                    mean_over_seeds("accuracy", label, COPY.label),
                    low=0.9,
                )
                for label in ("nope", *EXPLICIT)
            ),
            Quantity(
                "nope − order-free predictor, copying accuracy at twice the training length",
                metric_difference("nope", ACCURACY_X2, ORDER_FREE_X2, COPY.label),
                low=0.0,
            ),
        ),
        panel="recall",
        command=_command("recall"),
    ),
)
