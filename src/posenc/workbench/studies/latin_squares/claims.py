"""Claims of the paper, each with the quantity that supports it and the control that could refute it; predictions."""

from __future__ import annotations

from collections.abc import Sequence

from posenc.workbench.report.claims_table import Claim, Quantity
from posenc.workbench.report.estimators import (
    difference,
    difference_of_differences,
    equivalence,
    mean_over_seeds,
    rank_correlation,
    rank_correlation_with,
)
from posenc.workbench.report.preregistered import Prediction
from posenc.workbench.studies.latin_squares.conditions import FOUR_HEADS, GAP_CLOSES, SGD, TWO_HEADS, WEIGHT_DECAY
from posenc.workbench.studies.latin_squares.execute import OOD
from posenc.workbench.studies.latin_squares.measure import lost_metrics, noise_metrics
from posenc.workbench.studies.latin_squares.variants import SIGMAS, learned
from posenc.workbench.studies.shared.declarations import MAIN
from posenc.workbench.studies.shared.page_data import PageData

PREDICTED = (("2d-fixed", "1d-fixed"), ("learned-0.2", "learned-2"), ("learned-0.2", "1d-fixed"))
"""Pairs (better, worse) that were predicted before the first run."""

PAPER = "arXiv 2406.08272 (ICLR 2025 submission)"
MARGIN = 0.03
"""Accuracies within 0.03 of each other count as equivalent; the paper's own SD over seeds is 0.04 to 0.07."""
CHANCE_BOUND = 0.45
"""Accuracy below which an encoding counts as not generalizing."""
SIGMA_OF = {learned(sigma): sigma for sigma in SIGMAS}
LEARNED = tuple(SIGMA_OF)


def predictions(data: PageData) -> Sequence[Prediction]:
    """Differences in accuracy out of distribution that were predicted before the first run."""
    return [Prediction(OOD, *pair, metric_name="accuracy out of distribution") for pair in PREDICTED]


def _above(a: str, b: str, text: str = "", *, metric: str = OOD, condition: str = MAIN, other: str = "") -> Quantity:
    """Quantity that is above 0 if a has the higher value. other: condition of b, by default that of a."""
    estimate = difference(metric, a, b, condition=condition, condition_b=other or condition)
    return Quantity(text or f"{a} − {b}, accuracy", estimate, low=0.0)


def _equivalent(a: str, b: str, text: str = "", *, condition: str = MAIN) -> Quantity:
    """Quantity within MARGIN of 0 if the accuracies of a and b are equivalent."""
    text = text or f"{a} − {b}, accuracy, 90% interval within {MARGIN:.2f} of 0"
    return Quantity(text, equivalence(OOD, a, b, condition=condition), low=-MARGIN, high=MARGIN)


def _gap_shrinks(pair: tuple[str, str], condition: str, text: str) -> Quantity:
    """Quantity that is above 0 if the difference of a pair is smaller in a condition than in the main one."""
    return Quantity(text, difference_of_differences(OOD, pair, MAIN, condition), low=0.0)


def _correlated(metric: str, text: str, *, rises: bool, control: str | None = None) -> Quantity:
    """Rank correlation of the accuracy of learned tables with a metric, over standard deviations."""
    estimate = rank_correlation(metric, OOD, LEARNED, control_metric=control)
    return Quantity(text, estimate, low=0.0) if rises else Quantity(text, estimate, high=0.0)


def _command(*panels: str) -> str:
    """Command for the runs at the preset quick; for other presets add --preset standard or paper."""
    return f"posenc run latin-squares --panels {' '.join(panels)} --seeds 0 1 2 3 4 5"


CLAIMS = (
    Claim(
        name="small initial tables generalize",
        source=f"{PAPER}, section 3.1, Table A2",
        quote="the optimal generalization performance was produced with PEs initialized with small norms",
        about="Accuracy out of distribution falls as the standard deviation of the initial table grows.",
        published="accuracy: sigma 0.2 95.6, sigma 2 37.7 (%)",
        quantities=(
            _above("learned-0.2", "learned-2"),
            Quantity("Spearman of accuracy with sigma", rank_correlation_with(OOD, SIGMA_OF), high=0.0),
        ),
        control="The gap must remain in another condition (more puzzles, a larger learning rate, pre-norm).",
        controls=(
            _above(
                "learned-0.2",
                "learned-2",
                "learned-0.2 − learned-2 in the condition 'gap closes'",
                condition=GAP_CLOSES,
            ),
        ),
        panel="sigma",
        command=_command("sigma", "gap-closes"),
    ),
    Claim(
        name="learned-0.2 is indistinguishable from 2d-fixed",
        source=f"{PAPER}, section 3.2, Table 1",
        quote="we did not find a robust statistical difference between the ground truth 2d-fixed model (97.7%) and "
        "the learn-0.2 model (95.6%)",
        about="The lack of a significant difference does not show equality, so an equivalence test decides.",
        published="accuracy: 2d-fixed 97.7, learned-0.2 95.6 (%)",
        quantities=(_equivalent("2d-fixed", "learned-0.2"),),
        control="The paper's 2d-fixed was trained and scored with dropout, so that version is compared too.",
        controls=(_equivalent("2d-fixed-literal", "learned-0.2"),),
        panel="accuracy",
        command=_command("accuracy", "as-released"),
    ),
    Claim(
        name="learned-0.2 is more accurate than the common encodings",
        source=f"{PAPER}, section 3.2, Table 1",
        quote="there was a significant difference between the learn-0.2 model with the next highest-performing model "
        "(relative)",
        about="learned-0.2 is more accurate than relative, random, rope and 1d-fixed.",
        published="accuracy: learned-0.2 95.6, relative 92.0, random 88.8, rope 80.5, 1d-fixed 78.1 (%)",
        quantities=tuple(_above("learned-0.2", other) for other in ("relative", "random", "rope", "1d-fixed")),
        control="The relative encoding as released is causal, without values and output projection; the claim is "
        "measured with relative as published.",
        controls=(),
        panel="accuracy",
        command=_command("accuracy"),
    ),
    Claim(
        name="attention agreement predicts accuracy",
        source=f"{PAPER}, section 3.3, Fig. 3C",
        quote="the degree of agreement of learned attention maps with the ground truth (2d-fixed) predicted improved "
        "generalization (rho = 0.96, p < 0.0001)",
        about="Models with attention nearer to that of 2d-fixed are more accurate; initial tables differ in size.",
        published="rho = 0.96, p < 0.0001",
        quantities=(
            _correlated("attention_cosine", "Spearman of attention cosine with accuracy, over sigma", rises=True),
        ),
        control="Untrained models have attention maps of some similarity too. The similarity gained in training must "
        "predict accuracy; otherwise the initial table explains it.",
        controls=(
            _correlated(
                "attention_cosine_gained",
                "Spearman of the cosine gained in training with accuracy, over sigma",
                rises=True,
            ),
        ),
        panel="attention",
        command=_command("attention"),
    ),
    Claim(
        name="distance from the true positions predicts accuracy",
        source=f"{PAPER}, section 3.3, Fig. 3F",
        quote="more similar ground truth PE approximation (measured by L2 norm) near perfectly predicted downstream "
        "generalization (rho = -0.98, p < 0.0001)",
        about="Models with tables nearer to 2d-fixed are more accurate; initial tables differ in size.",
        published="rho = −0.98, p < 0.0001",
        quantities=(
            _correlated(
                "procrustes_distance", "Spearman of Procrustes distance with accuracy, over sigma", rises=False
            ),
        ),
        control="An untrained N(0, sigma) table has nearly the same distance, so the distance measures the norm. The "
        "distance must predict accuracy when the norm is controlled for, and so must a scale-free disparity.",
        controls=(
            _correlated(
                "procrustes_distance",
                "Spearman of Procrustes distance with accuracy, given the norm of the table",
                rises=False,
                control="position_norm",
            ),
            _correlated("procrustes_disparity", "Spearman of the scale-free disparity with accuracy", rises=False),
        ),
        panel="positions",
        command=_command("positions"),
    ),
    Claim(
        name="small initial tables recover the true positions",
        source=f"{PAPER}, section 3.3",
        quote="low-norm initializations can discover ground truth PEs",
        about="Without regard to scale, the trained table of learned-0.2 is nearer to 2d-fixed than random tables are. "
        "The same 20 random tables serve for every run, so the error of their mean, 0.22 SD, does not become smaller "
        "with more seeds.",
        quantities=(
            Quantity(
                "learned-0.2: disparity from 2d-fixed, in SDs of random tables",
                mean_over_seeds("procrustes_z", "learned-0.2"),
                high=0.0,
            ),
        ),
        control="The disparity of learned-2 must be larger.",
        controls=(
            Quantity(
                "learned-0.2 − learned-2, disparity",
                difference("procrustes_disparity", "learned-0.2", "learned-2"),
                high=0.0,
            ),
        ),
        panel="positions",
        command=_command("positions"),
    ),
    Claim(
        name="small initial tables are robust to noise",
        source=f"{PAPER}, section 3.2, Fig. A10",
        quote="models that were most robust to noise were those initialized from a low-norm distribution",
        about="With noise of 0.5 on the token embeddings, learned-0.2 is more accurate than learned-2.",
        quantities=(
            _above(
                "learned-0.2",
                "learned-2",
                "learned-0.2 − learned-2, accuracy with noise 0.5",
                metric=noise_metrics()[0.5],
            ),
        ),
        control="learned-2 has less accuracy to lose, so the accuracy lost to noise must be smaller too.",
        controls=(
            Quantity(
                "learned-0.2 − learned-2, accuracy lost to noise 0.5",
                difference(lost_metrics()[0.5], "learned-0.2", "learned-2"),
                high=0.0,
            ),
        ),
        panel="noise",
        command=_command("noise"),
    ),
    Claim(
        name="SGD generalizes better than Adam from very small initial tables",
        source=f"{PAPER}, section 3.1, Table A4",
        quote="vanilla SGD outperformed the generalization ability of models trained with Adam for small values",
        about="At a standard deviation of 0.01 SGD generalizes better than Adam; at 0.2 it does not.",
        published="accuracy at sigma 0.01: SGD 88.5, Adam 58.8 (%)",
        quantities=(
            _above("learned-0.01", "learned-0.01", "SGD − Adam at 0.01, accuracy", condition=SGD, other=MAIN),
            _above("learned-0.2", "learned-0.01", "learned-0.2 − learned-0.01 under Adam, accuracy"),
        ),
        control="SGD must not be better at every standard deviation; otherwise small tables are not the reason.",
        controls=(_gap_shrinks(("learned-0.2", "learned-0.01"), SGD, "accuracy lost from 0.2 to 0.01, Adam − SGD"),),
        panel="optimizers",
        command=_command("optimizers"),
    ),
    Claim(
        name="weight decay makes learned-0.2 as accurate as 2d-fixed",
        source=f"{PAPER}, section 3.2, Tables A5 and A6",
        quote="when applying L2 regularization (via weight decay), the generalization performance of learnable PEs was "
        "virtually indistinguishable from the ground truth 2d-fixed PE",
        about="With a weight decay of 0.1, learned-0.2 and 2d-fixed have equivalent accuracies.",
        published="accuracy with weight decay: 2d-fixed 99.7, learned-0.2 99.4 (%)",
        quantities=(
            _equivalent(
                "2d-fixed",
                "learned-0.2",
                f"2d-fixed − learned-0.2 with weight decay, 90% interval within {MARGIN:.2f} of 0",
                condition=WEIGHT_DECAY,
            ),
        ),
        control="Without weight decay there must be a gap, and weight decay must reduce it.",
        controls=(
            _gap_shrinks(
                ("2d-fixed", "learned-0.2"),
                WEIGHT_DECAY,
                "2d-fixed − learned-0.2, gap with weight decay 0 minus gap with weight decay 0.1",
            ),
        ),
        panel="weight-decay",
        command=_command("weight-decay"),
    ),
    Claim(
        name="more heads do not raise the accuracy of learned-0.2",
        source=f"{PAPER}, appendix, Fig. A14",
        quote="adding attention heads tends to reduce generalization performance across the board. The only "
        "architecture in which we see improvements are models with rope PE",
        about="learned-0.2 is no more accurate with two or four heads than with one.",
        quantities=tuple(
            Quantity(
                f"learned-0.2, {condition} − one head, accuracy",
                difference(OOD, "learned-0.2", "learned-0.2", condition=condition, condition_b=MAIN),
                high=MARGIN,
            )
            for condition in (TWO_HEADS, FOUR_HEADS)
        ),
        control="rope must be more accurate with more heads, as in the paper's figure.",
        controls=(_above("rope", "rope", "rope, 4 heads − one head, accuracy", condition=FOUR_HEADS, other=MAIN),),
        panel="heads",
        command=_command("heads"),
    ),
    Claim(
        name="causal attention without an encoding does not generalize",
        source=f"{PAPER}, section 3.2, Table 1",
        quote="it was surprising that c-nope models neither learned nor generalized",
        about="The causal mask alone does not give the network the positions that it needs.",
        published="accuracy: causal-nope 31.4 (%)",
        quantities=(Quantity("causal-nope, accuracy", mean_over_seeds(OOD, "causal-nope"), high=CHANCE_BOUND),),
        control="The authors' code multiplies the logits by 100. If causal-nope does better as published, that is why.",
        controls=(_equivalent("causal-nope", "causal-nope-literal"),),
        panel="as-released",
        command=_command("as-released"),
    ),
    *(
        Claim(
            name=f"{label} as released is {label} as published",
            source=f"{PAPER}, appendix A.1 against github ljhearne/LSTNN_public",
            quote=quote,
            about="The released code and the formulas in the text have equivalent accuracies.",
            quantities=(_equivalent(label, f"{label}-literal"),),
            control="The comparison is its own control: both forms are trained with the same seeds.",
            controls=(),
            panel="as-released",
            command=_command("as-released"),
        )
        for label, quote in (
            ("relative", "relative PE (relative; Shaw et al. (2018))"),
            ("2d-fixed", "no regularization (Tables 1 and A2)"),
        )
    ),
)
