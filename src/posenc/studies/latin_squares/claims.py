"""What the paper claims of Latin squares, each with the number that carries it and the control that could refute it."""

from __future__ import annotations

from posenc.report.ledger import Claim, Quantity
from posenc.report.quantities import (
    change,
    correlation_with,
    difference,
    equivalent,
    level_of,
    rank_correlation,
)
from posenc.studies.latin_squares.drawing import OOD
from posenc.studies.latin_squares.measuring import lost_metrics, noise_metrics
from posenc.studies.latin_squares.presets import FOUR_HEADS, GAP_CLOSES, SGD, SIGMAS, TWO_HEADS, WEIGHT_DECAY
from posenc.studies.latin_squares.rows import learned

PAPER = "arXiv 2406.08272 (ICLR 2025 submission)"
MARGIN = 0.03
"""Accuracies within three points of each other count as alike; the paper's own SD over seeds is .04 to .07."""

CHANCE_BAR = 0.45
LEARNT = tuple(learned(sigma) for sigma in SIGMAS)
OF_SIGMA = {learned(sigma): sigma for sigma in SIGMAS}
RUN = "posenc run latin-squares --panels {} --seeds 0 1 2 3 4 5"
"""Beside the preset: quick by default, else --preset standard or paper."""


CLAIMS = (
    Claim(
        name="small initial tables generalise",
        source=f"{PAPER}, section 3.1, Table A2",
        quote="the optimal generalization performance was produced with PEs initialized with small norms",
        about="Accuracy out of distribution falls as the standard deviation of the initial table grows.",
        quantities=(
            Quantity("learned-0.2 - learned-2, accuracy", difference(OOD, "learned-0.2", "learned-2"), low=0.0),
            Quantity("Spearman of accuracy with sigma", correlation_with(OOD, OF_SIGMA), high=0.0),
        ),
        control="Another recipe (more puzzles, a larger rate, pre-norm) in which the gap would have to remain.",
        controls=(
            Quantity(
                "learned-0.2 - learned-2 in the setting 'gap closes'",
                difference(OOD, "learned-0.2", "learned-2", setting=GAP_CLOSES),
                low=0.0,
            ),
        ),
        panel="Accuracy against the initial standard deviation",
        command=RUN.format("sigma gap-closes"),
    ),
    Claim(
        name="learned-0.2 is indistinguishable from 2d-fixed",
        source=f"{PAPER}, section 3.2, Table 1",
        quote="we did not find a robust statistical difference between the ground truth 2d-fixed model (97.7%) and "
        "the learn-0.2 model (95.6%)",
        about="No difference found is not the same as no difference: an equivalence test decides.",
        quantities=(
            Quantity(
                f"2d-fixed - learned-0.2, accuracy, 90% interval within {MARGIN:.2f} of 0",
                equivalent(OOD, "2d-fixed", "learned-0.2"),
                low=-MARGIN,
                high=MARGIN,
            ),
        ),
        control="The paper's 2d-fixed was trained and scored with dropout; the same against it.",
        controls=(
            Quantity(
                "2d-fixed-literal - learned-0.2, accuracy, 90% interval",
                equivalent(OOD, "2d-fixed-literal", "learned-0.2"),
                low=-MARGIN,
                high=MARGIN,
            ),
        ),
        panel="Accuracy by encoding",
        command=RUN.format("accuracy as-run"),
    ),
    Claim(
        name="learned-0.2 beats the common encodings",
        source=f"{PAPER}, section 3.2, Table 1",
        quote="there was a significant difference between the learn-0.2 model with the next highest-performing model "
        "(relative)",
        about="learned-0.2 is ahead of relative, random, rope and 1d-fixed.",
        quantities=tuple(
            Quantity(f"learned-0.2 - {other}, accuracy", difference(OOD, "learned-0.2", other), low=0.0)
            for other in ("relative", "random", "rope", "1d-fixed")
        ),
        control="What ran as relative is causal, without values and output projection; the clean form is used above.",
        controls=(),
        panel="Accuracy by encoding",
        command=RUN.format("accuracy"),
    ),
    Claim(
        name="attention agreement predicts accuracy",
        source=f"{PAPER}, section 3.3, Fig. 3C",
        quote="the degree of agreement of learned attention maps with the ground truth (2d-fixed) predicted improved "
        "generalization (rho = 0.96, p < 0.0001)",
        about="Over standard deviations, models whose attention is more like that of 2d-fixed score higher.",
        quantities=(
            Quantity(
                "Spearman of attention cosine with accuracy, over sigma",
                rank_correlation("attention_cosine", OOD, LEARNT),
                low=0.0,
            ),
        ),
        control="Maps before training agree more or less too. What training added to the agreement must predict "
        "accuracy, else the initial table does it and not what was learned.",
        controls=(
            Quantity(
                "Spearman of the cosine gained in training with accuracy, over sigma",
                rank_correlation("attention_cosine_gained", OOD, LEARNT),
                low=0.0,
            ),
        ),
        panel="Attention agreement against accuracy",
        command=RUN.format("attention"),
    ),
    Claim(
        name="distance from the true positions predicts accuracy",
        source=f"{PAPER}, section 3.3, Fig. 3F",
        quote="more similar ground truth PE approximation (measured by L2 norm) near perfectly predicted downstream "
        "generalization (rho = -0.98, p < 0.0001)",
        about="Over standard deviations, tables nearer to 2d-fixed (orthogonal Procrustes) score higher.",
        quantities=(
            Quantity(
                "Spearman of Procrustes distance with accuracy, over sigma",
                rank_correlation("procrustes_distance", OOD, LEARNT),
                high=0.0,
            ),
        ),
        control="An untrained N(0, sigma) table has nearly the same distance: it measures the norm. Given the norm, "
        "the distance would still have to predict; so would a disparity without scale.",
        controls=(
            Quantity(
                "the same, given the norm of the table",
                rank_correlation("procrustes_distance", OOD, LEARNT, given_metric="position_norm"),
                high=0.0,
            ),
            Quantity(
                "Spearman of the scale-free disparity with accuracy",
                rank_correlation("procrustes_disparity", OOD, LEARNT),
                high=0.0,
            ),
        ),
        panel="Accuracy against the distance from 2d-fixed",
        command=RUN.format("positions"),
    ),
    Claim(
        name="small tables discover the true positions",
        source=f"{PAPER}, section 3.3",
        quote="low-norm initializations can discover ground truth PEs",
        about="The trained table of learned-0.2 is nearer to 2d-fixed than it began, whatever its size.",
        quantities=(
            Quantity(
                "learned-0.2: disparity from 2d-fixed, in SDs of random tables",
                level_of("procrustes_z", "learned-0.2"),
                high=0.0,
            ),
        ),
        control="The same of learned-2, which should not.",
        controls=(
            Quantity(
                "learned-0.2 - learned-2, disparity",
                difference("procrustes_disparity", "learned-0.2", "learned-2"),
                high=0.0,
            ),
        ),
        panel="Accuracy against the distance from 2d-fixed",
        command=RUN.format("positions"),
    ),
    Claim(
        name="small initial tables are robust to noise",
        source=f"{PAPER}, section 3.2, Fig. A10",
        quote="models that were most robust to noise were those initialized from a low-norm distribution",
        about="With noise of 0.5 on the token embeddings learned-0.2 keeps more of its accuracy than learned-2.",
        quantities=(
            Quantity(
                "learned-0.2 - learned-2, accuracy with noise 0.5",
                difference(noise_metrics()[0.5], "learned-0.2", "learned-2"),
                low=0.0,
            ),
        ),
        control="Accuracy lost to the noise, not accuracy left: learned-2 has less to lose.",
        controls=(
            Quantity(
                "accuracy lost to noise 0.5, learned-0.2 less than learned-2",
                difference(lost_metrics()[0.5], "learned-0.2", "learned-2"),
                high=0.0,
            ),
        ),
        panel="Noise on the token embeddings",
        command=RUN.format("noise"),
    ),
    Claim(
        name="Adam fails at tiny tables where SGD does not",
        source=f"{PAPER}, section 3.1, Table A4",
        quote="vanilla SGD outperformed the generalization ability of models trained with Adam for small values",
        about="At a standard deviation of 0.01 SGD generalises better than Adam; at 0.2 it does not.",
        quantities=(
            Quantity(
                "SGD - Adam at 0.01, accuracy",
                difference(OOD, "learned-0.01", "learned-0.01", setting=SGD, setting_b="main"),
                low=0.0,
            ),
            Quantity(
                "learned-0.2 - learned-0.01 under Adam, accuracy",
                difference(OOD, "learned-0.2", "learned-0.01"),
                low=0.0,
            ),
        ),
        control="If SGD were better at every standard deviation, tiny tables would have nothing to do with it.",
        controls=(
            Quantity(
                "how much less SGD loses from 0.2 to 0.01 than Adam",
                change(OOD, ("learned-0.2", "learned-0.01"), "main", SGD),
                low=0.0,
            ),
        ),
        panel="Adam and SGD on small initial tables",
        command=RUN.format("optimisers"),
    ),
    Claim(
        name="weight decay closes the gap",
        source=f"{PAPER}, section 3.2, Tables A5 and A6",
        quote="when applying L2 regularization (via weight decay), the generalization performance of learnable PEs was "
        "virtually indistinguishable from the ground truth 2d-fixed PE",
        about="With a weight decay of 0.1 learned-0.2 and 2d-fixed score alike.",
        quantities=(
            Quantity(
                f"2d-fixed - learned-0.2 with weight decay, 90% interval within {MARGIN:.2f} of 0",
                equivalent(OOD, "2d-fixed", "learned-0.2", setting=WEIGHT_DECAY),
                low=-MARGIN,
                high=MARGIN,
            ),
        ),
        control="The gap must also have been there without it, and have shrunk.",
        controls=(
            Quantity(
                "how much 2d-fixed - learned-0.2 shrinks from weight decay 0 to 0.1",
                change(OOD, ("2d-fixed", "learned-0.2"), "main", WEIGHT_DECAY),
                low=0.0,
            ),
        ),
        panel="Weight decay and the gaps between encodings",
        command=RUN.format("weight-decay"),
    ),
    Claim(
        name="more heads do not help",
        source=f"{PAPER}, appendix, Fig. A14",
        quote="adding attention heads tends to reduce generalization performance across the board. The only "
        "architecture in which we see improvements are models with rope PE",
        about="learned-0.2 with two and with four heads scores no higher than with one.",
        quantities=tuple(
            Quantity(
                f"learned-0.2, {setting} - one head, accuracy",
                difference(OOD, "learned-0.2", "learned-0.2", setting=setting, setting_b="main"),
                high=MARGIN,
            )
            for setting in (TWO_HEADS, FOUR_HEADS)
        ),
        control="rope, which the figure shows improving.",
        controls=(
            Quantity(
                "rope, 4 heads - one head, accuracy",
                difference(OOD, "rope", "rope", setting=FOUR_HEADS, setting_b="main"),
                low=0.0,
            ),
        ),
        panel="More heads",
        command=RUN.format("heads"),
    ),
    Claim(
        name="causal attention without positions fails",
        source=f"{PAPER}, section 3.2, Table 1",
        quote="it was surprising that c-nope models neither learned nor generalized",
        about="The causal mask alone does not give the network the positions that it needs.",
        quantities=(Quantity("causal-nope, accuracy", level_of(OOD, "causal-nope"), high=CHANCE_BAR),),
        control="The authors' code multiplies the logits by 100. If the clean form does better, that is why.",
        controls=(
            Quantity(
                "causal-nope - causal-nope-literal, accuracy, 90% interval",
                equivalent(OOD, "causal-nope", "causal-nope-literal"),
                low=-MARGIN,
                high=MARGIN,
            ),
        ),
        panel="What the authors' code runs, beside what their text says",
        command=RUN.format("as-run"),
    ),
    *(
        Claim(
            name=f"{clean} as run is {clean} as written",
            source=f"{PAPER}, appendix A.1 against github ljhearne/LSTNN_public",
            quote=quote,
            about="What ran under this name scores as the formulas in the text do.",
            quantities=(
                Quantity(
                    f"{clean} - {literal}, accuracy, 90% interval within {MARGIN:.2f} of 0",
                    equivalent(OOD, clean, literal),
                    low=-MARGIN,
                    high=MARGIN,
                ),
            ),
            control="The claim is its own control: both forms are trained side by side.",
            controls=(),
            panel="What the authors' code runs, beside what their text says",
            command=RUN.format("as-run"),
        )
        for literal, clean, quote in (
            ("relative-literal", "relative", "relative PE (relative; Shaw et al. (2018))"),
            ("2d-fixed-literal", "2d-fixed", "no regularization (Tables 1 and A2)"),
        )
    ),
)
