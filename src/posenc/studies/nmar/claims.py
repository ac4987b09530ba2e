"""What arXiv 2406.08272 says of simulated networks, each with its number and the control that could refute it."""

from __future__ import annotations

from posenc.report.ledger import Claim, Quantity
from posenc.report.quantities import difference, equivalent, level_of
from posenc.studies.masking.work import error_at
from posenc.studies.nmar.presets import ROWS
from posenc.studies.nmar.work import EXCESS

PAPER = "arXiv 2406.08272, appendix A.4 and Fig. A15"
SMALL, LARGE = "learned-0.1", "learned-1"
KNOWN, UNKNOWN = 0.9, 0.65
"""AUC above which modules count as recovered, and below which they do not."""
ALIKE = 0.03
"""Part of the best linear error within which two errors count as the same."""
RUN = "posenc run nmar"

CLAIMS = (
    Claim(
        name="a small first table finds the modules of the simulated network",
        source=PAPER,
        quote="learnable PE models with a small-norm were the models that were most capable of learning the ground "
        "truth network organization",
        about="Two nodes of one module lie nearer in the learned table than two of different ones.",
        quantities=(
            Quantity(f"AUC of {SMALL}", level_of("auc", SMALL), low=KNOWN),
            Quantity(f"{SMALL} - {LARGE}, AUC", difference("auc", SMALL, LARGE), low=0.0),
            Quantity(f"{SMALL} - learned-2, AUC", difference("auc", SMALL, "learned-2"), low=0.0),
        ),
        control="A large first table must not find them, nor one that is never trained, nor this one before training.",
        controls=(
            Quantity(f"AUC of {LARGE}", level_of("auc", LARGE), high=UNKNOWN),
            Quantity("AUC of random", level_of("auc", "random"), high=UNKNOWN),
            Quantity(f"AUC of {SMALL} before training", level_of("auc_initial", SMALL), high=UNKNOWN),
        ),
        panel="Modules in the learned tables",
        command=RUN,
    ),
    Claim(
        name="modularity is highest for the smallest first table",
        source=PAPER,
        quote="The network modularity of PEs .. was highest in learnable PE models initialized with small norm "
        "(learn-0.1)",
        about="Above every other row that was run, diagonal left out.",
        quantities=tuple(
            Quantity(f"{SMALL} - {other}, modularity", difference("modularity", SMALL, other), low=0.0)
            for other in ROWS
            if other != SMALL
        ),
        control="The paper's formula to the letter counts the diagonal, which lifts pure noise above 0: the order must "
        "hold there too.",
        controls=(
            Quantity(
                f"{SMALL} - random, modularity to the letter",
                difference("modularity_literal", SMALL, "random"),
                low=0.0,
            ),
        ),
        panel="Modules in the learned tables",
        command=RUN,
    ),
    Claim(
        name="all encodings predict the simulated network equally well",
        source=PAPER,
        quote="all models converged to the same MSE (average MSE on IID samples = 0.049) .. n-way F-test (n = 6 for "
        "each of the model variants; F = 0.24, p = 0.97)",
        about=f"Errors over that of the best linear prediction lie within {ALIKE:.0%} of each other, by a test of "
        "equivalence: an F-test that finds nothing shows little with few seeds.",
        quantities=tuple(
            Quantity(f"{other} - {SMALL}, error over the linear one", equivalent(EXCESS, other, SMALL), -ALIKE, ALIKE)
            for other in ROWS
            if other != SMALL
        ),
        control="Predicting nothing must be worse by more than that, or equality would mean nothing; and the error "
        "itself is the paper's.",
        controls=(
            Quantity(f"mean - {SMALL}, error over the linear one", difference(EXCESS, "mean", SMALL), low=ALIKE),
            Quantity(f"mean squared error of {SMALL}", level_of(error_at(0.5), SMALL), 0.046, 0.052),
        ),
        panel="Errors",
        command=RUN,
    ),
)
