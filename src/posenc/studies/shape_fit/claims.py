"""What the seed notes and others claim of encodings, as far as shapes can say; each with its number and its control."""

from __future__ import annotations

from posenc.report.ledger import Claim, Quantity
from posenc.report.quantities import change, difference
from posenc.studies.shape_fit.presets import EIKONAL, MAIN, OCCUPANCY
from posenc.studies.shape_fit.rows import GAUSSIAN

NOTES = "seed note 002 on positional encodings"
RUN = "posenc run shape-fit --panels {}"
CHAMFER = "chamfer"

CLAIMS = (
    Claim(
        name="grids suit making shapes",
        source=NOTES,
        quote="Hash / Densegrid / Multi-Resolution Encoding 适用于多视角还原3D图, zero-shot(单图过拟合) 等任务",
        english="Hash, dense grid and multi-resolution encodings suit tasks such as restoring 3-D from many views and "
        "zero-shot (over-fitting one picture)",
        lang="zh-Hans",
        about="Hash, dense and multi-resolution grids suit fields in three dimensions that are fitted to one thing: in "
        "the same steps, with as many parameters, their surfaces are nearer to a shape than those of Fourier features.",
        quantities=tuple(
            Quantity(
                f"{GAUSSIAN} - {name}, Chamfer distance in diagonals", difference(CHAMFER, GAUSSIAN, name), low=0.0
            )
            for name in ("multires", "dense", "hash")
        ),
        control="A network of sines has no grid either. If it comes as near as the grids, a grid is not what it takes.",
        controls=(
            Quantity("siren - multires, Chamfer distance in diagonals", difference(CHAMFER, "siren", "multires"), 0.0),
        ),
        panel="How near",
        command=RUN.format("fit"),
    ),
    Claim(
        name="a hash mends a table that is too small for a shape",
        source=NOTES,
        quote="在较为密集的网格中，字典不够用，用hash编码弥补这一点",
        english="In denser grids the dictionary is too small, and hash encoding makes up for it",
        lang="zh-Hans",
        about="Where the grid is denser than the table, hashing its vertices is better than a coarser dense grid of "
        "the same size.",
        quantities=(Quantity("hash - dense, intersection over union", difference("iou", "hash", "dense"), low=0.0),),
        control="The same note puts levels from coarse to fine under one another, the fine ones hashed: those should "
        "do at least as well as the dense grid, else hashing is what fails.",
        controls=(
            Quantity("multires - dense, intersection over union", difference("iou", "multires", "dense"), low=0.0),
        ),
        panel="How near",
        command=RUN.format("fit"),
    ),
    Claim(
        name="Fourier features serve shapes",
        source=NOTES,
        quote="Fourier Encoding作为一种无法学习，但具有平移不变性的编码，经常用于各类视觉任务",
        english="Fourier encoding, which cannot be learned but is translation invariant, is often used in all "
        "kinds of vision tasks",
        lang="zh-Hans",
        about="An encoding that nothing is learned of still makes fields of shapes better than bare coordinates do.",
        quantities=tuple(
            Quantity(f"{name} - none, intersection over union", difference("iou", name, "none"), low=0.0)
            for name in (GAUSSIAN, "positional")
        ),
        control="The sigma was chosen on the shape that is reported. With 12, the sigma that its authors name for "
        "shapes, the features should serve too.",
        controls=(
            Quantity("gaussian-12 - none, intersection over union", difference("iou", "gaussian-12", "none"), low=0.0),
        ),
        panel="How fast the features should turn",
        command=RUN.format("fit sigma"),
    ),
    Claim(
        name="Gaussian above positional above basic above none, for shapes",
        source="arXiv 2006.10739, Table 1, 3D shape; numbers from memory, not checked against the paper",
        quote="shape IoU .864/.892/.960/.973 (none, basic, positional, Gaussian)",
        about="Fields of occupancy with these mappings enclose more of the right volume in this order. The Gaussian "
        "features have the sigma chosen for the distance; those with their authors' sigma of 12 are shown beside them.",
        quantities=tuple(
            Quantity(f"{a} - {b}, intersection over union", difference("iou", a, b, OCCUPANCY), low=0.0)
            for a, b in ((GAUSSIAN, "positional"), ("positional", "basic"), ("basic", "none"))
        ),
        control="Chamfer distance asks the same of the surface: the order should be the other way round.",
        controls=tuple(
            Quantity(f"{a} - {b}, Chamfer distance in diagonals", difference(CHAMFER, a, b, OCCUPANCY), high=0.0)
            for a, b in ((GAUSSIAN, "positional"), ("positional", "basic"), ("basic", "none"))
        ),
        panel="Inside or outside",
        command=RUN.format("occupancy"),
    ),
    Claim(
        name="the eikonal term needs smooth interpolation",
        source="github NVlabs/tiny-cuda-nn, issue 185, in the words of the notes that this project began with",
        quote="linear interpolation gives zero 2nd derivative, must use Smoothstep",
        about="Trained with the eikonal term, smooth interpolation has slopes nearer to 1 than linear interpolation.",
        quantities=(
            Quantity(
                "multires - multires-smoothstep with the term, slope's distance from 1",
                difference("eikonal_error", "multires", "multires-smoothstep", EIKONAL),
                low=0.0,
            ),
        ),
        control="The mixed derivatives by a row and a coordinate are not zero for linear interpolation: if the term "
        "helps it as much as it helps smooth interpolation, nothing is needed.",
        controls=(
            Quantity(
                "how much more the term lowers it for smooth than for linear interpolation",
                change("eikonal_error", ("multires-smoothstep", "multires"), MAIN, EIKONAL),
                low=0.0,
            ),
        ),
        panel="The eikonal term",
        command=RUN.format("slopes"),
    ),
)
