"""What the paper claims of grid-cell encodings in classification, each with its number and its control."""

from __future__ import annotations

from posenc.report.ledger import Claim, Quantity
from posenc.report.quantities import difference, level_of
from posenc.studies.gridpe.presets import PVT, SCALES
from posenc.studies.gridpe.rows import VARIANTS

PAPER = "arXiv 2406.07049"
ACCURACY = "accuracy"
LARGEST = max(SCALES, key=lambda name: SCALES[name])
RUN = "posenc run gridpe --data DIR --panels {}"


def _ahead(a: str, b: str, setting: str = "main", metric: str = ACCURACY, low: float = 0.0) -> Quantity:
    return Quantity(f"{a} - {b}, {metric}", difference(metric, a, b, setting), low=low)


CLAIMS = (
    Claim(
        name="grid-cell encodings improve a ViT",
        source=f"{PAPER}, Results, Table 1",
        quote="For the ViT architecture, the application of GridPE variants results in noticeable improvements in "
        "performance",
        about="Each of the four variants is ahead of a learned table.",
        quantities=tuple(_ahead(f"grid-{name}", "learned") for name in VARIANTS),
        control="Axial rotary encoding, which knows two axes and no grid cells, would have to stay behind the best of "
        "them; and a learned table has to be ahead of none, or the task does not ask where things are.",
        controls=(_ahead("grid-deep", "rope-axial"), _ahead("learned", "nope")),
        panel="Accuracy of a ViT by encoding",
        command=RUN.format("accuracy"),
    ),
    Claim(
        name="deep is the best of the four",
        source=f"{PAPER}, Results, Table 1",
        quote="GridViT-deep emerges as the most successful variant, achieving the highest top-1 accuracy (81.5%)",
        about="The variant with a trained network over the waves is ahead of the other three.",
        quantities=tuple(_ahead("grid-deep", f"grid-{name}") for name in VARIANTS if name != "deep"),
        control="As released, its network is drawn anew at every call and never trained: it must then lose its lead.",
        controls=(_ahead("grid-deep", "grid-deep-literal"),),
        panel="Accuracy of a ViT by encoding",
        command=RUN.format("accuracy literal"),
    ),
    Claim(
        name="the released variants carry a place",
        source=f"{PAPER}, Table 1, and the code behind it",
        quote="GridViT-rotate 77.6, complex 78.8, deep 81.5, merge 79.0, against 76.1 of the plain ViT",
        about="As released, waves are drawn anew at every call, for queries and keys apart, so nothing can be read off "
        "them; the table is no evidence for grid cells unless such variants beat no encoding at all.",
        quantities=tuple(_ahead(f"grid-{name}-literal", "nope-literal") for name in VARIANTS),
        control="The released model has to be able to use a place at all: its learned table is ahead of none.",
        controls=(_ahead("learned-literal", "nope-literal"),),
        panel="As released",
        command=RUN.format("accuracy literal"),
    ),
    Claim(
        name="a PVT hardly depends on its encoding",
        source=f"{PAPER}, Results",
        quote="PVT models generally maintain stable and efficient convergence regardless of the positional encoding "
        "used",
        about="Top-1 differs by less than three points from the plain PVT.",
        quantities=tuple(
            Quantity(f"{label} - pvt-o, accuracy", difference(ACCURACY, label, "pvt-o", PVT), low=-0.03, high=0.03)
            for label in ("cpvt", "gridpe")
        ),
        control="No encoding at all: were it alike too, the pictures would not ask where things are.",
        controls=(
            Quantity("pvt-o, accuracy", level_of(ACCURACY, "pvt-o", PVT), low=0.5),
            _ahead("pvt-o", "nope", PVT),
        ),
        panel="Accuracy of a PVT by encoding",
        command=RUN.format("pyramid"),
    ),
    Claim(
        name="grid cells carry over to larger pictures",
        source=f"{PAPER}, version 3",
        quote="GridPE 58.72, RoPE-axial 57.32, RoPE-mixed 54.44, learned 57.24 at 512 pixels after training at 224",
        about="Asked about pictures 2.29 times as large as it learned from, the simplex form is ahead of the others.",
        quantities=tuple(
            _ahead("gridpe", other, metric=f"accuracy_at_{LARGEST}")
            for other in ("rope-axial", "rope-mixed", "learned")
        ),
        control="A lead that is there at the trained size already says nothing of sizes: of its own accuracy there it "
        "keeps a larger part than the other rotary encodings do.",
        controls=tuple(_ahead("gridpe", other, metric=f"kept_at_{LARGEST}") for other in ("rope-axial", "rope-mixed")),
        panel="Pictures of other sizes",
        command=RUN.format("resolution"),
    ),
)
