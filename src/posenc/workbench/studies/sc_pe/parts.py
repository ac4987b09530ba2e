"""Parts of the note "CNN with SC PE", in its order, with the panels that redraw them."""

from __future__ import annotations

from functools import partial

from posenc.workbench.report.paper_parts import PaperPart
from posenc.workbench.studies.sc_pe.conditions import CIFAR
from posenc.workbench.studies.shared.declarations import MAIN

HOURS_EACH = 0.05
"""Core hours of one model with the preset standard, from timed steps on two busy cores."""

_Part = partial(PaperPart, publication="CNN with SC PE", hours_each=HOURS_EACH)
_OnImages = partial(_Part, reads_data=True)
_CIFAR = "CIFAR-10 only if the folder of data has it"

PARTS = (
    _Part(name="Fig. 1", shows="cosines of ten positions, with 4 and 2,048 channels", panel="similarity"),
    _OnImages(
        name="Fig. 2, Fashion-MNIST",
        shows="accuracy by epoch with and without the encoding",
        panel="concatenation",
        condition=MAIN,
    ),
    _OnImages(
        name="Fig. 2, CIFAR-10", shows="the same on CIFAR-10", panel="concatenation", condition=CIFAR, lacks=_CIFAR
    ),
    _OnImages(name="Fig. 3, Fashion-MNIST", shows="a second run", panel="concatenation", condition=MAIN),
    _OnImages(
        name="Fig. 3, CIFAR-10",
        shows="a second run, by two learning rates",
        panel="rates",
        condition=CIFAR,
        lacks=f"{_CIFAR}; results/ has the two learning rates on Fashion-MNIST",
    ),
    _OnImages(name="Sec. 3, the guess", shows="the gain comes from the initial values", panel="readout-scale"),
    _OnImages(name="Fig. 4, left", shows="images multiplied with the encoding", panel="multiplication"),
    _OnImages(
        name="Fig. 4, right",
        shows="accuracy by epoch with multiplied images",
        panel="multiplication",
    ),
    _OnImages(name="Fig. 5", shows="the encoding in a transformer, by epoch", panel="tokens", hours_each=0.19),
    _Part(name="Sec. 5", shows="two positions share a code, and how to mend it", panel="similarity"),
)
