"""What arXiv 2406.08272 says of brain activity, asked of the recordings at hand: each with its control."""

from __future__ import annotations

from posenc.report.ledger import Claim, Quantity
from posenc.report.quantities import difference, level_of
from posenc.studies.masked.presets import OTHER_RATES, TESTED, setting_of
from posenc.studies.masking.work import error_at

PAPER = "arXiv 2406.08272, section 3.4"
SMALL, LARGE = "learned-0.1", "learned-1"
ERROR = error_at(TESTED)
KNOWN, UNKNOWN = 0.8, 0.65
"""AUC above which the modules count as learned, the project's own bound, and below which they do not."""
RUN = "posenc run masked FILE"


def _ahead(a: str, b: str, setting: str = "main") -> Quantity:
    where = "" if setting == "main" else f", {setting}"
    return Quantity(f"{a} - {b}, error with {TESTED:.0%} hidden{where}", difference(ERROR, a, b, setting), high=0.0)


CLAIMS = (
    Claim(
        name="a small first table predicts hidden channels best",
        source=f"{PAPER} and Fig. 4",
        quote="small-norm initialized PEs (learn-0.1 and learn-0.2) achieved the best performance in both their "
        "training and validation sets after a fixed number of training steps",
        about="Error on recordings that were never seen, with more channels hidden than in training.",
        quantities=tuple(_ahead(SMALL, other) for other in (LARGE, "learned-2", "random", "1d-fixed", "rope")),
        control="A model that cannot tell one channel from another must err more, or positions did not matter.",
        controls=(_ahead(SMALL, "nope"),),
        panel="Errors on unseen recordings",
        command=RUN,
    ),
    Claim(
        name="relative positions fare worst, then 1d-fixed and random",
        source=f"{PAPER} and Fig. 4",
        quote="Interestingly, relative PEs fared the worst, followed by absolute 1d-fixed and random PEs.",
        about="The order of the channels in a recording means nothing, and a relative encoding knows nothing else.",
        quantities=(
            _ahead("1d-fixed", "relative"),
            _ahead("random", "relative"),
            _ahead(SMALL, "1d-fixed"),
            _ahead(SMALL, "random"),
        ),
        control="No encoding at all must not be better than the relative one, or it did harm.",
        controls=(_ahead("relative", "nope"),),
        panel="Errors on unseen recordings",
        command=RUN,
    ),
    Claim(
        name="a small first table learns the networks",
        source=f"{PAPER} and Fig. 5C",
        quote="the modularity of small-norm initialized PEs (learn-0.1 and learn-0.2) had the highest overall network "
        "modularity and segregation relative to other learnable PEs",
        about="Against the modules that are given with the recordings.",
        quantities=(
            Quantity(f"AUC of {SMALL}", level_of("auc", SMALL), low=KNOWN),
            *(
                Quantity(f"{SMALL} - {other}, modularity", difference("modularity", SMALL, other), low=0.0)
                for other in (LARGE, "learned-2")
            ),
            Quantity(f"{SMALL} - {LARGE}, segregation", difference("segregation", SMALL, LARGE), low=0.0),
        ),
        control="A large first table, a table that is never trained, and this one before training must not know them.",
        controls=(
            Quantity(f"AUC of {LARGE}", level_of("auc", LARGE), high=UNKNOWN),
            Quantity("AUC of random", level_of("auc", "random"), high=UNKNOWN),
            Quantity(f"AUC of {SMALL} before training", level_of("auc_initial", SMALL), high=UNKNOWN),
        ),
        panel="Modules in the learned tables",
        command=RUN,
    ),
    Claim(
        name="the same whatever part was hidden in training",
        source="arXiv 2406.08272, Figs. A11 to A13",
        quote="Consistent with results in the main text, models with a learnable PE parameter (initialized from a "
        "small-norm distribution) achieved the lowest generalization MSE.",
        about="Trained with 15, 75 and 90 % of the channels hidden.",
        quantities=tuple(_ahead(SMALL, LARGE, setting_of(rate)) for rate in OTHER_RATES),
        control="A table that is never trained must do worse: a reviewer read the paper's figures as showing that it "
        "does not.",
        controls=tuple(_ahead(SMALL, "random", setting_of(rate)) for rate in OTHER_RATES),
        panel="Errors by the part hidden in training",
        command=f"{RUN} --panels rates",
    ),
)
