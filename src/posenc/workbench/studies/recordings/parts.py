"""Parts of arXiv 2406.08272 on brain activity, in the order of the paper, with the panels that redraw them."""

from __future__ import annotations

from functools import partial

from posenc.workbench.report.paper_parts import PaperPart
from posenc.workbench.studies.recordings.variants import RATE_VARIANTS
from posenc.workbench.studies.shared.hidden_tokens.variants import BASELINES

HOURS_EACH = 0.35
"""Core hours of one model with the preset standard, as --dry-run estimates on two cores."""

ENCODINGS = tuple(name for name in RATE_VARIANTS if name not in BASELINES)
"""The eight encodings that the paper compares."""

TABLES = tuple(name for name in ENCODINGS if name not in ("relative", "rope"))
"""Those that have a row of numbers for each region."""

_Part = partial(PaperPart, publication="2406.08272", hours_each=HOURS_EACH)
_DATA = "the paper's recordings are under terms of use; simulated ones stand in unless you name recordings"

PARTS = (
    _Part(
        name="Fig. 4A",
        shows="networks on the cortex",
        panel="maps",
        variants=ENCODINGS,
        lacks=f"a picture of a brain only for recordings with coordinates; {_DATA}",
    ),
    _Part(name="Fig. 4B", shows="sketch: masking", lacks="a sketch, with nothing measured"),
    _Part(
        name="Fig. 4C",
        shows="training error by step, eight encodings, 15 seeds, 50,000 steps",
        panel="curves",
        variants=ENCODINGS,
        lacks=_DATA,
    ),
    _Part(
        name="Fig. 4D",
        shows="training and test error with 90% hidden",
        panel="errors",
        variants=ENCODINGS,
        lacks=_DATA,
    ),
    _Part(name="Fig. 5A", shows="network of each region along the sequence", panel="order", lacks=_DATA),
    _Part(
        name="Fig. 5B", shows="distances between tokens after alignment", panel="maps", variants=ENCODINGS, lacks=_DATA
    ),
    _Part(
        name="Fig. 5C, D",
        shows="modularity and segregation of learned encodings",
        panel="modules",
        variants=TABLES,
        lacks=_DATA,
    ),
    _Part(
        name="Figs. A11A, A12A, A13A",
        shows="training error by step with 15%, 75%, 90% hidden in training",
        panel="rate-curves",
        variants=ENCODINGS,
        lacks=_DATA,
    ),
    _Part(
        name="Figs. A11B, A12B, A13B",
        shows="training and test error by share hidden in training",
        panel="rates",
        variants=ENCODINGS,
        lacks=_DATA,
    ),
    _Part(
        name="Figs. A11C, D, A12C, D, A13C, D",
        shows="modularity and segregation by share hidden in training",
        panel="rate-modules",
        variants=TABLES,
        lacks=_DATA,
    ),
)
