"""What arXiv 2406.08272 says of positions that nobody gave, asked of real data whose arrangement is known.

The test is the project's own: the paper has no such data."""

from __future__ import annotations

from posenc.report.ledger import Claim, Quantity
from posenc.report.quantities import difference, level_of
from posenc.studies.masking.work import error_at
from posenc.studies.permuted.presets import MAIN_RATE

PAPER = "arXiv 2406.08272, abstract"
SMALL, LARGE = "learned-0.1", "learned-2"
FOUND, NEAR_CHANCE = 0.6, 0.2
"""Part of the true neighbours that is to be found, and what counts as near chance, which is .07 to .08."""
ERROR = error_at(MAIN_RATE)
RUN = "posenc run permuted --data DIR"

CLAIMS = (
    Claim(
        name="a small first table finds the grid of scrambled pictures",
        source=PAPER,
        quote="a learned PE initialized from a small-norm distribution can 1) uncover interpretable PEs that mirror "
        "ground truth positions",
        about="Patches of pictures in one secret order: which patches truly touch is asked of the learned table. The "
        "bound is the project's own.",
        quantities=(
            Quantity(f"true neighbours that {SMALL} places nearest", level_of("neighbours", SMALL), low=FOUND),
            Quantity(f"{SMALL} - {LARGE}, true neighbours", difference("neighbours", SMALL, LARGE), low=0.0),
        ),
        control="A large first table, one that is never trained, and this one before training must stay near chance.",
        controls=(
            Quantity(f"true neighbours of {LARGE}", level_of("neighbours", LARGE), high=NEAR_CHANCE),
            Quantity("true neighbours of random", level_of("neighbours", "random"), high=NEAR_CHANCE),
            Quantity(
                f"true neighbours of {SMALL} before training", level_of("neighbours_initial", SMALL), high=NEAR_CHANCE
            ),
        ),
        panel="True neighbours found",
        command=RUN,
    ),
    Claim(
        name="a small first table predicts scrambled pictures better",
        source=PAPER,
        quote="3) lead to improved downstream generalization in both datasets",
        about="The error of hidden patches of pictures that were never seen.",
        quantities=(
            Quantity(f"{SMALL} - {LARGE}, mean squared error", difference(ERROR, SMALL, LARGE), high=0.0),
            Quantity(f"{SMALL} - random, mean squared error", difference(ERROR, SMALL, "random"), high=0.0),
        ),
        control="Without any encoding it must be worse than with it, or positions did not matter.",
        controls=(Quantity(f"nope - {SMALL}, mean squared error", difference(ERROR, "nope", SMALL), low=0.0),),
        panel="Errors",
        command=RUN,
    ),
)
