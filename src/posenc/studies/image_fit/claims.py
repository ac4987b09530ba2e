"""What the seed notes and the papers claim of fitting pictures, each with its number and its control."""

from __future__ import annotations

from collections.abc import Sequence

from posenc.report.ledger import Claim, Quantity
from posenc.report.quantities import Paired, Sides, across, difference
from posenc.report.rows import Row
from posenc.studies.image_fit.choosing import GAUSSIAN, HELD, POSENC, choose
from posenc.studies.image_fit.presets import SHIFTED, SWEEP
from posenc.studies.image_fit.rows import AUTHORS

NOTES = "seed note 002 on positional encodings"
TANCIK = "arXiv 2006.10739, Table 1, 2D image; numbers as printed in the authors' notebook"
SMALL, LARGE = 15_000, 960_000
ALIKE = 0.5
"""Decibels within which two fits count as equally near."""


def ahead(a: str, b: str, kind: str = "") -> Paired:
    """a − b in PSNR over the pictures that were run; over seeds where there is one picture.

    Held out: over the pictures that sigma was not chosen on.
    """

    def sides(rows: Sequence[Row]) -> Sides | None:
        kinds = (HELD, f" {SWEEP}", f" {SHIFTED}")
        named = {str(row["setting"]) for row in rows}
        settings = sorted(name for name in named if next((k for k in kinds if name.endswith(k)), "") == kind)
        choice = choose(rows)
        settings = list(choice.reported) if kind == HELD else settings
        stored = {str(row["scheme"]) for row in rows}
        run = {scheme.removesuffix(f", {s}") for s in settings for scheme in stored}
        labels = [AUTHORS if name == GAUSSIAN and choice.label(name) not in run else choice.label(name)
                  for name in (a, b)]  # fmt: skip
        first, second = labels
        one = (
            difference("psnr", first, second, settings[0])
            if len(settings) == 1
            else across("psnr", first, second, settings)
        )
        return one.sides(rows)

    return Paired(sides, "pair")


def shifted(label: str) -> Paired:
    """PSNR where every place was moved less PSNR where it stands, over seeds or pictures."""

    def sides(rows: Sequence[Row]) -> Sides | None:
        found: list[Sides] = []
        for name in sorted({str(row["setting"]) for row in rows}):
            if name.endswith(f" {SHIFTED}"):
                plain = name.removesuffix(f" {SHIFTED}")
                both = difference("psnr", label, label, name, plain).sides(rows)
                found += [both] if both else []
        return found[0] if found else None

    return Paired(sides, "pair")


CLAIMS = (
    Claim(
        name="grids suit fitting one picture",
        source=NOTES,
        quote="Hash / Densegrid / Multi-Resolution Encoding 适用于 .. zero-shot(单图过拟合) 等任务",
        english="Hash, dense grid and multi-resolution encodings suit tasks such as zero-shot (over-fitting one "
        "picture)",
        lang="zh-Hans",
        about="Hash, dense and multi-resolution grids suit over-fitting a single picture: in the same time, with as "
        "many parameters, they come nearer than Gaussian Fourier features, whose sigma was chosen on held-out pixels.",
        quantities=tuple(
            Quantity(f"{name} - {GAUSSIAN}, PSNR in dB", ahead(name, GAUSSIAN), low=0.0)
            for name in ("multires", "hash", "dense")
        ),
        control="Where pixels are held out, memory does not help: is the grid still ahead?",
        controls=(
            Quantity(
                f"multires - {GAUSSIAN} on pixels not learned, PSNR in dB",
                ahead("multires", GAUSSIAN, HELD),
                low=0.0,
            ),
        ),
        panel="How near",
        command="posenc run image-fit --panels fit held-out",
    ),
    Claim(
        name="a hash mends a table that is too small",
        source=NOTES,
        quote="在较为密集的网格中，字典不够用，用hash编码弥补这一点",
        english="In denser grids the dictionary is too small, and hash encoding makes up for it",
        lang="zh-Hans",
        about=f"Where the grid is finer than the table ({SMALL:,} parameters), hashing its vertices is better than a "
        "coarser dense grid of the same size.",
        quantities=(
            Quantity(
                f"hash - dense with {SMALL:,} parameters, PSNR in dB",
                ahead(f"hash@{SMALL}", f"dense@{SMALL}", f" {SWEEP}"),
                low=0.0,
            ),
        ),
        control=f"With {LARGE:,} parameters the table is large enough, and a dense grid should do at least as well.",
        controls=(
            Quantity(
                f"dense - hash with {LARGE:,} parameters, PSNR in dB",
                ahead(f"dense@{LARGE}", f"hash@{LARGE}", f" {SWEEP}"),
                low=0.0,
            ),
        ),
        panel="Parameters",
        command="posenc run image-fit --panels sizes",
    ),
    Claim(
        name="Fourier features are translation invariant",
        source=NOTES,
        quote="FE具有平移不变性, 能表示相对位置",
        english="Fourier encoding is translation invariant and can represent relative positions",
        lang="zh-Hans",
        about="Move every place by 100 pictures and the fit with Gaussian features comes as near as before.",
        quantities=(
            Quantity(
                f"gaussian-10 moved - in place, PSNR in dB, within {ALIKE}", shifted("gaussian-10"), -ALIKE, ALIKE
            ),
        ),
        control="Bare coordinates are not invariant: moved, they should come less near.",
        controls=(Quantity("none moved - in place, PSNR in dB", shifted("none"), high=0.0),),
        panel="Moved by 100 pictures",
        command="posenc run image-fit --panels fit shifted",
    ),
    Claim(
        name="Gaussian above positional above basic above none",
        source=TANCIK,
        quote="none 19.323 (2.481), basic 21.716 (2.717), posenc 24.947 (3.719), gaussian 25.568 (4.186)",
        about="On odd pixels, after learning the even ones.",
        quantities=tuple(
            Quantity(f"{a} - {b} on pixels not learned, PSNR in dB", ahead(a, b, HELD), low=0.0)
            for a, b in ((GAUSSIAN, POSENC), (POSENC, "basic"), ("basic", "none"))
        ),
        control="Sigma is chosen on four photographs and reported on the others where both were run; else it is the "
        "authors' own, chosen on other pictures. The sweep shows what it is worth on these.",
        controls=(),
        panel="Held out",
        command="posenc run image-fit --panels held-out sigma",
    ),
)
