"""Parts of arXiv 2406.07049 (GridPE), in the order of the paper, with the panels and commands that redraw them."""

from __future__ import annotations

from functools import partial

from posenc.workbench.report.paper_parts import PaperPart
from posenc.workbench.studies.gridpe.conditions import PHOTOGRAPHS, PVT, PVT_PHOTOGRAPHS
from posenc.workbench.studies.gridpe.published import TABLE_1
from posenc.workbench.studies.gridpe.variants import Architecture
from posenc.workbench.studies.shared.declarations import MAIN

HOURS_EACH, HOURS_ON_PHOTOGRAPHS = 0.12, 0.05
"""Core hours of one model with the preset standard on Fashion-MNIST and on Caltech-100, from timed steps."""

_Part = partial(PaperPart, publication="2406.07049", hours_each=HOURS_EACH)
_OnImages = partial(_Part, reads_data=True, condition=MAIN)
_PVTS, _VITS = (tuple(TABLE_1[architecture]) for architecture in ("pvt", "vit"))
_Theory = partial(_Part, command='posenc show "GridPE(64)" --out gridpe.html', page="gridpe-theory.html")
_ON_PHOTOGRAPHS = 'posenc run gridpe --preset standard --data DIR --figure "{}"'
_DATA = "ImageNet-100 is under terms of use; Fashion-MNIST, Caltech-100 or a folder of yours stand in"


def _on_photographs(half: str, models: str, panel: str, condition: str, architecture: Architecture) -> PaperPart:
    """Half of Table 1 on the photographs that are at hand."""
    name = f"Table 1, {half}, on photographs"
    return _OnImages(
        name=name,
        shows=f"the same {models} on the hundred classes of Caltech-100",
        panel=panel,
        condition=condition,
        command=_ON_PHOTOGRAPHS.format(name),
        variants=tuple(TABLE_1[architecture]),
        hours_each=HOURS_ON_PHOTOGRAPHS,
        lacks="ImageNet-100 is under terms of use",
    )


PARTS = (
    _Theory(name="Fig. 1, eqs. 1 to 4", shows="three waves make a grid cell"),
    _Theory(name="eqs. 5 to 8", shows="invariance to translations; random Fourier features"),
    _Theory(name="Fig. 2", shows="diameter of a field by its period"),
    _Theory(name="eqs. 9 to 15", shows="the most economical ratio of scales"),
    _Theory(
        name="Fig. 3",
        shows="inner product with the middle of the unit square, and its profile",
        lacks="the surface in three dimensions; a heat map is drawn",
    ),
    _OnImages(
        name="Table 1, upper half",
        shows="top-1 and top-5 accuracy and loss of seven PVTs on ImageNet-100",
        panel="pvt",
        condition=PVT,
        variants=_PVTS,
        lacks=_DATA,
    ),
    _OnImages(
        name="Table 1, lower half",
        shows="the same of five ViTs",
        panel="accuracy",
        variants=_VITS,
        lacks=_DATA,
    ),
    _on_photographs("upper half", "seven PVTs", "pvt", PVT_PHOTOGRAPHS, "pvt"),
    _on_photographs("lower half", "five ViTs", "accuracy", PHOTOGRAPHS, "vit"),
    _OnImages(name="Table 1 as released", shows="the encodings as the code has them", panel="as-released", lacks=_DATA),
    _OnImages(
        name="Fig. 4a",
        shows="validation accuracy by epoch, seven PVTs",
        panel="curves",
        condition=PVT,
        variants=_PVTS,
        lacks=_DATA,
    ),
    _OnImages(
        name="Fig. 4b", shows="validation accuracy by epoch, five ViTs", panel="curves", variants=_VITS, lacks=_DATA
    ),
    _OnImages(name="version 3, image sizes", shows="accuracy by image size", panel="resolution", lacks=_DATA),
    _OnImages(name="version 3, heads", shows="accuracy by number of heads", panel="heads", lacks=_DATA),
    _OnImages(
        name="version 3, attention", shows="attention distance and entropy", panel="attention-distance", lacks=_DATA
    ),
)
