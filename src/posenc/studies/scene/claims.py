"""What the seed notes and instant-ngp claim of turning many views into 3-D, each with its number and its control."""

from __future__ import annotations

from collections.abc import Sequence

from posenc.report.ledger import Claim, Quantity
from posenc.report.quantities import Paired, Sides, across, difference
from posenc.report.rows import Row
from posenc.studies.scene.presets import BLIND, OTHER
from posenc.studies.scene.rows import FOURIER, SMALL

NOTES = "seed note 002 on positional encodings"
INSIDE = "psnr_mask"


def scenes_of(rows: Sequence[Row]) -> list[str]:
    """The scenes whose encodings were compared."""
    named = sorted({str(row["setting"]) for row in rows if not str(row["setting"]).endswith(BLIND)})
    return [name for name in named if name != OTHER] or named


def ahead(a: str, b: str) -> Paired:
    """a − b on the object: over seeds where one scene was run, else over scenes."""

    def sides(rows: Sequence[Row]) -> Sides | None:
        found = scenes_of(rows)
        one = difference(INSIDE, a, b, found[0]) if len(found) == 1 else across(INSIDE, a, b, found)
        return one.sides(rows)

    return Paired(sides, "pair")


def seen(label: str) -> Paired:
    """With less without the directions, on the object."""

    def sides(rows: Sequence[Row]) -> Sides | None:
        found = [name for name in scenes_of(rows) if any(row["setting"] == name + BLIND for row in rows)]
        return difference(INSIDE, label, label, found[0], found[0] + BLIND).sides(rows) if found else None

    return Paired(sides, "pair")


CLAIMS = (
    Claim(
        name="grids suit turning many views into 3-D",
        source=NOTES,
        quote="Hash / Densegrid / Multi-Resolution Encoding 适用于多视角还原3D图",
        about="Hash, dense and multi-resolution grids suit turning many views into 3-D: in the same time, with as many "
        "parameters, views held out come nearer than with Fourier features.",
        quantities=tuple(
            Quantity(f"{name} - {FOURIER} on the object, PSNR in dB", ahead(name, FOURIER), low=0.0)
            for name in ("multires", "hash", "dense")
        ),
        control="A wide network takes few steps in that time. Is the grid still ahead of Fourier features with a "
        "network as small and as quick as its own?",
        controls=(
            Quantity(
                f"multires - {FOURIER}{SMALL} on the object, PSNR in dB", ahead("multires", FOURIER + SMALL), low=0.0
            ),
        ),
        panel="How near",
        command="posenc run scene",
    ),
    Claim(
        name="an encoding is needed to see detail",
        source="arXiv 2201.05989, Fig. 2, and arXiv 2003.08934, section 5.1",
        quote="None .. Frequency .. Hashtable",
        about="Without an encoding of places a network stays blurred: Fourier features come nearer than coordinates.",
        quantities=(Quantity(f"{FOURIER} - none on the object, PSNR in dB", ahead(FOURIER, "none"), low=0.0),),
        control="With grids' networks the waves should help as well.",
        controls=(
            Quantity(f"{FOURIER}{SMALL} - none on the object, PSNR in dB", ahead(FOURIER + SMALL, "none"), low=0.0),
        ),
        panel="How near",
        command="posenc run scene",
    ),
    Claim(
        name="harmonics of the direction carry highlights",
        source="arXiv 2201.05989, section 5.4",
        quote="the spherical harmonics basis",
        about="With the view direction as an input a field shows highlights that move with the eye.",
        quantities=(Quantity("multires with - without directions, PSNR in dB", seen("multires"), low=0.0),),
        control="None: both have the same field, and differ in the colour's input alone.",
        controls=(),
        panel="Spherical harmonics of the direction",
        command="posenc run scene --panels encodings directions",
    ),
)
