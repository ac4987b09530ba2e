"""What the seed notes and papers claim of turning many views into 3-D, each with its number and its control."""

from __future__ import annotations

from collections.abc import Sequence

from posenc.report.ledger import Claim, Quantity
from posenc.report.quantities import Paired, Sides, across, difference
from posenc.report.rows import BySeed, Row
from posenc.studies.scene.presets import BLIND, MATTE, MATTE_BLIND, OTHER, parted
from posenc.studies.scene.rows import FOURIER, SMALL

NOTES = "seed note 002 on positional encodings"
INSIDE = "psnr_mask"


def scenes_of(rows: Sequence[Row]) -> list[str]:
    """The scenes whose encodings were compared."""
    named = sorted({name for row in rows for name, variant in [parted(str(row["setting"]))] if not variant})
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


def shines(label: str) -> Paired:
    """What directions bring, with less without highlights, on the object."""

    def sides(rows: Sequence[Row]) -> Sides | None:
        for name in scenes_of(rows):
            gains = [_gain(rows, label, name + a, name + b) for a, b in (("", BLIND), (MATTE, MATTE_BLIND))]
            if gains[0].keys() & gains[1].keys():
                return gains[0], gains[1]
        return None

    return Paired(sides, "pair")


def _gain(rows: Sequence[Row], label: str, setting: str, without: str) -> BySeed:
    found = difference(INSIDE, label, label, setting, without).sides(rows)
    return {seed: found[0][seed] - found[1][seed] for seed in found[0].keys() & found[1].keys()} if found else {}


def suits(name: str, row: str, control: tuple[str, str], words: str) -> Claim:
    """One of the three encodings that the note names; control: (a, b) of a further a - b above 0, and why."""
    a, b = control
    return Claim(
        name=f"{name} suit turning many views into 3-D",
        source=NOTES,
        quote="Hash / Densegrid / Multi-Resolution Encoding 适用于多视角还原3D图",
        english="Hash, dense grid and multi-resolution encodings suit restoring 3-D from many views",
        lang="zh-Hans",
        about=f"In the same time, with as many parameters, views held out come nearer with {name} than with Fourier "
        "features.",
        quantities=(Quantity(f"{row} - {FOURIER} on the object, PSNR in dB", ahead(row, FOURIER), low=0.0),),
        control=words,
        controls=(Quantity(f"{a} - {b} on the object, PSNR in dB", ahead(a, b), low=0.0),),
        panel="How near",
        command="posenc run scene",
    )


QUICKER = (
    "A wide network takes few steps in that time. Is the grid still ahead of Fourier features whose network is as "
    "small and as quick as its own?"
)
CLAIMS = (
    suits("multi-resolution hash grids", "multires", ("multires", FOURIER + SMALL), QUICKER),
    suits("dense grids", "dense", ("dense", FOURIER + SMALL), QUICKER),
    suits("single hashed levels", "hash", ("hash", FOURIER + SMALL), QUICKER),
    Claim(
        name="without an encoding of places views stay blurred",
        source="arXiv 2006.10739, Table 1, 3D NeRF; numbers as printed in the authors' notebook",
        quote="none 22.405, basic 23.157, posenc 25.598, gaussian 25.475",
        about="Fourier features come nearer than bare coordinates behind a network of the same size.",
        quantities=(Quantity(f"{FOURIER} - none on the object, PSNR in dB", ahead(FOURIER, "none"), low=0.0),),
        control="A small network, which takes several times as many steps in that time, should need them as well.",
        controls=(
            Quantity(
                f"{FOURIER}{SMALL} - none{SMALL} on the object, PSNR in dB",
                ahead(FOURIER + SMALL, "none" + SMALL),
                low=0.0,
            ),
        ),
        panel="How near",
        command="posenc run scene",
    ),
    Claim(
        name="colour depends on where it is seen from",
        source="arXiv 2003.08934, abstract",
        quote="whose output is the volume density and view-dependent emitted radiance at that spatial location",
        about="With spherical harmonics of the view direction as an input, views held out come nearer: the scene has "
        "highlights that move with the eye.",
        quantities=(Quantity("multires with - without directions, PSNR in dB", seen("multires"), low=0.0),),
        control="More inputs may help by themselves. On the same solid without highlights, each place of which has "
        "one colour, directions should bring less.",
        controls=(
            Quantity(
                "how much more directions bring with than without highlights, PSNR in dB", shines("multires"), low=0.0
            ),
        ),
        panel="Spherical harmonics of the direction",
        command="posenc run scene --panels encodings directions",
    ),
)
