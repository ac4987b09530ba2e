"""What is claimed of turning values, of longer contexts and of no encoding at all, each with what could refute it."""

from __future__ import annotations

import math
from collections.abc import Sequence

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
from posenc.workbench.report.result_rows import Row, values_by_scheme
from posenc.workbench.studies.language.rows import ORDER, STILL

SU = "Su 2025, kexue.fm/archives/10862"
NUMBERS = "QK 2.712, QKVO 2.719, K 2.769, VO 2.770, QKV 2.783, NoPE 2.795, O 2.841, Q 2.851, V 2.856"
LOSS, MOVED, BEYOND, TRAINED = "loss", "moved", "loss_at_x8", "loss_at_x1"
ALIKE = 0.02
"""Losses within so many nats of each other count as near: the published nine span 0.144."""
EXPLICIT = ("sinusoid", "rope", "alibi", "t5")
RUN = "posenc run language --data DIR --panels {}"


def _worse(a: str, b: str, metric: str = LOSS, low: float = 0.0) -> Quantity:
    return Quantity(f"{a} - {b}, {_READ[metric]}", difference(metric, a, b), low=low)


def _between(label: str, one: str, other: str, setting: str = "main") -> PairedDifference:
    """Two metrics of one row, paired by seed."""

    def sides(rows: Sequence[Row]) -> PairedValues | None:
        a, b = (values_by_scheme(rows, metric, setting).get(label, {}) for metric in (one, other))
        return (a, b) if a.keys() & b.keys() else None

    return PairedDifference(sides)


def _risen(label: str, *, low: float = -math.inf, high: float = math.inf) -> Quantity:
    """How much a row's loss is above that at the trained length where it is told from eight times the context."""
    says = f"{label}, loss at 8 times the trained length - at that length"
    return Quantity(says, _between(label, BEYOND, TRAINED), low=low, high=high)


def _right(a: str, b: str) -> Quantity:
    found = difference("accuracy_at_x2", a, b, "copy")
    return Quantity(f"{a} - {b}, copied rightly at twice the trained length", found, low=0.0)


_READ = {LOSS: "loss", BEYOND: "loss at 8 times the trained length"}

CLAIMS = (
    Claim(
        name="turning values and outputs is relative",
        source="seed note 002 on positional encodings, VO-RoPE",
        quote="o_i = R_i^T (sum_j a_ij R_j v_j) = sum_j a_ij R_{j-i} v_j",
        about="What a trained model tells does not move when all positions do.",
        quantities=(
            Quantity("vo-rope, how far predictions move", mean_over_seeds(MOVED, "vo-rope"), high=STILL),
            Quantity("qkvo-rope, how far predictions move", mean_over_seeds(MOVED, "qkvo-rope"), high=STILL),
        ),
        control="Values that turn without the outputs turning back are not relative, and must be seen to move.",
        controls=(Quantity("v-rope, how far predictions move", mean_over_seeds(MOVED, "v-rope"), low=STILL),),
        panel="rotary",
        command=RUN.format("rotary"),
    ),
    Claim(
        name="turning values and outputs is better than nothing",
        source=SU,
        quote=NUMBERS,
        about="VO has a lower loss than no encoding (2.770 against 2.795).",
        quantities=(_worse("nope", "vo-rope"),),
        control="It is the relative position that helps: values that turn alone, which carry as many numbers, must be "
        "behind.",
        controls=(_worse("v-rope", "vo-rope"),),
        panel="rotary",
        command=RUN.format("rotary"),
    ),
    Claim(
        name="queries and keys before values and outputs",
        source=SU,
        quote=NUMBERS,
        about="QK has a lower loss than VO (2.712 against 2.770).",
        quantities=(_worse("vo-rope", "rope"),),
        control="The task must ask for positions at all: no encoding is behind QK.",
        controls=(_worse("nope", "rope"),),
        panel="rotary",
        command=RUN.format("rotary"),
    ),
    Claim(
        name="all four are near queries and keys",
        source=SU,
        quote=NUMBERS,
        about=f"QKVO and QK differ by less than {ALIKE} (2.719 against 2.712).",
        quantities=(
            Quantity("qkvo-rope - rope, loss", equivalence(LOSS, "qkvo-rope", "rope"), low=-ALIKE, high=ALIKE),
        ),
        control="That margin tells settings apart: VO, whose half it is, lies beyond it.",
        controls=(_worse("vo-rope", "rope", low=ALIKE),),
        panel="rotary",
        command=RUN.format("rotary"),
    ),
    Claim(
        name="queries, values or outputs alone harm",
        source=SU,
        quote=NUMBERS,
        about="Each of the three is behind no encoding at all (2.851, 2.856 and 2.841 against 2.795).",
        quantities=tuple(_worse(f"{site}-rope", "nope") for site in "qvo"),
        control="Not because only one site turns: keys alone are ahead of no encoding (2.769).",
        controls=(_worse("nope", "k-rope"),),
        panel="rotary",
        command=RUN.format("rotary"),
    ),
    Claim(
        name="the published order of nine settings",
        source=SU,
        quote=NUMBERS,
        about="The nine losses here rank as those of models with 10^9 parameters do, more than a random order would: "
        "seed by seed, and in their means.",
        quantities=(
            Quantity(
                "rank correlation with the published losses, by seed", rank_correlation_by_seed(LOSS, ORDER), low=0.0
            ),
            Quantity(
                "rank correlation with the published losses, of means", rank_correlation_with(LOSS, ORDER), low=0.0
            ),
        ),
        control="More than one difference: what is left of the agreement when it is known which settings are relative.",
        controls=(
            Quantity(
                "the same seed by seed, relative or not held",
                rank_correlation_by_seed(LOSS, ORDER, "relative"),
                low=0.0,
            ),
        ),
        panel="rotary",
        command=RUN.format("rotary"),
    ),
    Claim(
        name="ALiBi reads on where the sinusoid and RoPE do not",
        source="Press et al. 2021, arXiv 2108.12409, Fig. 1",
        quote="as the (validation-set's) input sequence gets longer (x-axis), current position methods (sinusoidal, "
        "rotary, and T5) show degraded perplexity (y-axis, lower is better), but our method (§3) does not",
        about="Told from eight times the trained length, the same tokens cost the sinusoid and RoPE more than from the "
        f"trained one, and ALiBi not {ALIKE} more.",
        quantities=(_risen("sinusoid", low=0.0), _risen("rope", low=0.0), _risen("alibi", high=ALIKE)),
        control="A model that reads nothing would read on as well: ALiBi has to be below counted pairs there, and at "
        "the trained length no worse than the sinusoid.",
        controls=(_worse("bigram", "alibi", BEYOND), _worse("sinusoid", "alibi", low=-ALIKE)),
        panel="extrapolation",
        command=RUN.format("extrapolation"),
    ),
    Claim(
        name="no encoding generalises in length",
        source="Kazemnejad et al. 2023, arXiv 2305.19466, abstract",
        quote="NoPE outperforms other explicit positional encoding methods while requiring no additional computation",
        about="Copying twice as many symbols as trained, the model without an encoding has more of them right.",
        quantities=tuple(_right("nope", other) for other in EXPLICIT),
        control="There is something to generalise: at the trained length all of them copy, and at twice that length "
        "the model has more right than who knows which symbols are left and not their order.",
        controls=(
            *(
                Quantity(f"{label}, copied rightly", mean_over_seeds("accuracy", label, "copy"), low=0.9)
                for label in ("nope", *EXPLICIT)
            ),
            Quantity(
                "nope - a bag, copied rightly at twice the trained length",
                _between("nope", "accuracy_at_x2", "bag_at_x2", "copy"),
                low=0.0,
            ),
        ),
        panel="recall",
        command=RUN.format("recall"),
    ),
)
