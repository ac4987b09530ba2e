"""Parts of arXiv 2406.08272 on Latin squares, in the order of the paper, with the panels that redraw them."""

from __future__ import annotations

from functools import partial

from posenc.workbench.report.paper_parts import PaperPart
from posenc.workbench.studies.latin_squares.conditions import WEIGHT_DECAY
from posenc.workbench.studies.latin_squares.variants import ALIGNED_VARIANTS, SIGMAS, TABLE_1, learned

HOURS_EACH = 0.3
"""Core hours of one model with the preset standard: 17 minutes on one of two cores that had no other work."""

HOURS_WITH_SGD = 3.2
"""The same, computed from the epochs, of models of which half are trained by SGD for 4,000 epochs, not 200."""

ENCODINGS = (*TABLE_1, learned(0.2))
"""The eight encodings that the paper compares."""

LEARNED = tuple(map(learned, SIGMAS))

_Part = partial(PaperPart, publication="2406.08272", hours_each=HOURS_EACH)

PARTS = (
    _Part(
        name="Fig. 1A-D",
        shows="the symbols, and a puzzle of each class with its solution",
        panel="puzzles",
    ),
    _Part(name="Fig. 1E", shows="sketch: the square as a sequence of 16 tokens", panel="puzzles"),
    _Part(
        name="Fig. 1F-H",
        shows="distances between tokens: true grid, 1d-fixed, 2d-fixed",
        panel="positions",
        variants=("2d-fixed", "1d-fixed"),
    ),
    _Part(name="Fig. 2A", shows="sketch: the model", lacks="a sketch, with nothing measured"),
    _Part(
        name="Fig. 2B",
        shows="training and validation accuracy by epoch, for some sigmas",
        panel="accuracy",
        variants=tuple(map(learned, (0.1, 0.2, 1.0, 2.0))),
    ),
    _Part(
        name="Fig. 2C, Table A2",
        shows="validation accuracy by sigma from 0.1 to 2.0, 20 values, 15 seeds",
        panel="sigma",
        variants=LEARNED,
    ),
    _Part(
        name="Table 1",
        shows="accuracy of eight encodings, 15 seeds",
        panel="accuracy",
        variants=ENCODINGS,
    ),
    _Part(name="Table 1 as released", shows="the same with the encodings as the code has them", panel="as-released"),
    _Part(
        name="Fig. 3A, B, Table A3",
        shows="attention cosine with 2d-fixed by sigma",
        panel="attention",
        variants=("2d-fixed", *LEARNED),
    ),
    _Part(
        name="Fig. 3C",
        shows="rank correlation of that cosine with accuracy",
        panel="attention",
        variants=("2d-fixed", *LEARNED),
    ),
    _Part(
        name="Fig. 3D",
        shows="learned tables before and after alignment with 2d-fixed",
        panel="positions",
        variants=("2d-fixed", *ALIGNED_VARIANTS),
    ),
    _Part(
        name="Fig. 3E, F",
        shows="Frobenius distance by sigma; rank correlation with accuracy",
        panel="positions",
        variants=LEARNED,
    ),
    _Part(
        name="Table A4, Fig. A6C",
        shows="Adam and SGD with sigma 0.01, 0.05, 0.1, 0.2, 15 seeds",
        panel="optimizers",
        hours_each=HOURS_WITH_SGD,
    ),
    _Part(
        name="Fig. A6A, B",
        shows="accuracy by epoch, SGD and Adam",
        panel="optimizers",
        hours_each=HOURS_WITH_SGD,
    ),
    _Part(
        name="Fig. A7A",
        shows="accuracy by epoch with a weight decay of 0.1",
        panel="weight-decay",
        condition=WEIGHT_DECAY,
    ),
    _Part(
        name="Fig. A7B, Table A5",
        shows="accuracy by sigma with a weight decay of 0.1",
        panel="weight-decay",
        condition=WEIGHT_DECAY,
        variants=LEARNED,
    ),
    _Part(
        name="Fig. A7C, Table A6",
        shows="accuracy of eight encodings with a weight decay of 0.1",
        panel="weight-decay",
        condition=WEIGHT_DECAY,
        variants=ENCODINGS,
    ),
    _Part(
        name="Fig. A8",
        shows="Jensen-Shannon divergence of attention from 2d-fixed, as Fig. 3A-C",
        panel="attention",
        variants=("2d-fixed", *LEARNED),
    ),
    _Part(
        name="Fig. A9A", shows="accuracy of learned-0.2 and the common encodings", panel="accuracy", variants=ENCODINGS
    ),
    _Part(
        name="Fig. A9B-D",
        shows="attention maps of the common encodings; cosines at the start; cosine by accuracy",
        panel="attention",
        variants=ENCODINGS,
    ),
    _Part(
        name="Fig. A10",
        shows="accuracy with noise on the embeddings, 20 scales",
        panel="noise",
        lacks="the caption is lost, so the scales from 0.1 to 2.0 are assumed",
    ),
    _Part(
        name="Fig. A14A, B, E, F",
        shows="accuracy of the common encodings with two and four heads",
        panel="heads",
    ),
    _Part(name="Fig. A14C, G", shows="accuracy by sigma with two and four heads", panel="heads-sigma"),
    _Part(
        name="Fig. A14D, H",
        shows="accuracy by epoch with two and four heads",
        panel="heads",
    ),
)
