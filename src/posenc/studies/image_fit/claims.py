"""What the seed notes and the papers claim of fitting pictures, each with its number and its control."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from posenc.measure.statistics import Estimate
from posenc.report.ledger import Claim, Quantity
from posenc.report.quantities import Paired, Sides, across, difference, equivalent
from posenc.report.rows import Row
from posenc.studies.image_fit.choosing import GAUSSIAN, HELD, POSENC, choose
from posenc.studies.image_fit.moving import MOVED
from posenc.studies.image_fit.presets import SHIFTED, SWEEP
from posenc.studies.image_fit.rows import AUTHORS
from posenc.studies.image_fit.sizing import CROSSOVER
from posenc.studies.image_fit.sooner import AIM, FEWEST, QUICK, Sooner

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


def moved(label: str) -> Paired:
    """PSNR where every place was moved less PSNR where it stands, over seeds."""

    def sides(rows: Sequence[Row]) -> Sides | None:
        away, plain = _where_moved(rows)
        return difference("psnr", label, label, away, plain).sides(rows)

    return Paired(sides)


def moved_alike(label: str) -> Callable[[Sequence[Row]], Estimate | None]:
    """The same with the interval that equivalence is judged by."""
    return lambda rows: equivalent("psnr", label, label, *_where_moved(rows))(rows)


def _where_moved(rows: Sequence[Row]) -> tuple[str, str]:
    """The setting of moved places, of which a page has one, and that of the same picture where it stands."""
    away = next((name for row in rows if (name := str(row["setting"])).endswith(f" {SHIFTED}")), SHIFTED)
    return away, away.removesuffix(f" {SHIFTED}")


CLAIMS = (
    Claim(
        name="grids suit fitting one picture",
        source=NOTES,
        quote="Hash / Densegrid / Multi-Resolution Encoding 适用于 .. zero-shot(单图过拟合) 等任务",
        english="Hash, dense grid and multi-resolution encodings suit tasks such as zero-shot (over-fitting one "
        "picture)",
        lang="zh-Hans",
        about="Hash, dense and multi-resolution grids suit over-fitting a single picture: in the same time, with as "
        "many parameters, they come nearer than Gaussian Fourier features, of their authors' sigma or, where pixels "
        "were held out on several photographs, of the one chosen there.",
        quantities=tuple(
            Quantity(f"{name} - {GAUSSIAN}, PSNR in dB", ahead(name, GAUSSIAN), low=0.0)
            for name in ("multires", "hash", "dense")
        ),
        control="Where pixels are held out, memory does not help: is each grid still ahead, with as many parameters, "
        "steps and samples a step?",
        controls=tuple(
            Quantity(f"{name} - {GAUSSIAN} on pixels not learned, PSNR in dB", ahead(name, GAUSSIAN, HELD), low=0.0)
            for name in ("multires", "hash", "dense")
        ),
        panel="How near",
        command="posenc run image-fit --panels fit held-out",
    ),
    Claim(
        name="many levels are as near at least five times sooner",
        source="the aim of this study, set before it was run",
        quote="time for multi-resolution hash to reach the PSNR that the best Fourier network of equal parameters has "
        "in the end: median speed-up >= 5x",
        about="The median over pictures of how many times sooner; 0 where it is never as near, which is censored. Its "
        f"interval is the sign test's, from {FEWEST} pictures on. The first look is at 2% of the time: 50 says 50 or "
        "more.",
        quantities=(Quantity(f"{QUICK}, times sooner than the best of the waves", Sooner(), low=AIM),),
        control="The network of waves is the best of those fitted, with as many parameters and the same seconds of one "
        "core; where pixels were held out on several photographs, of a sigma chosen there.",
        controls=(),
        panel="How much sooner",
        command="posenc run image-fit --preset standard --panels fit held-out",
    ),
    Claim(
        name="a hash mends a table that is too small",
        source=NOTES,
        quote="在较为密集的网格中，字典不够用，用hash编码弥补这一点",
        english="In denser grids the dictionary is too small, and hash encoding makes up for it",
        lang="zh-Hans",
        about=f"Where the grid has more vertices than the table has rows ({SMALL:,} parameters), hashing them is "
        "better than a coarser dense grid of the same size.",
        quantities=(
            Quantity(
                f"hash - dense with {SMALL:,} parameters, PSNR in dB",
                ahead(f"hash@{SMALL}", f"dense@{SMALL}", f" {SWEEP}"),
                low=0.0,
            ),
        ),
        control=f"With {LARGE:,} parameters there is a row for every vertex of a photograph's grid. A dense grid of "
        "the same resolution, in which no two share one, should do at least as well.",
        controls=(
            Quantity(
                f"dense - hash with {LARGE:,} parameters, PSNR in dB",
                ahead(f"dense@{LARGE}", f"hash@{LARGE}", f" {SWEEP}"),
                low=0.0,
            ),
        ),
        panel=CROSSOVER,
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
            Quantity(f"{AUTHORS} moved - in place, PSNR in dB, within {ALIKE}", moved_alike(AUTHORS), -ALIKE, ALIKE),
        ),
        control="Bare coordinates are not invariant: moved, they should come less near.",
        controls=(Quantity("none moved - in place, PSNR in dB", moved("none"), high=0.0),),
        panel=MOVED,
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
        control="Both scales are chosen on four photographs and reported on the others where both were run; else sigma "
        "is the authors' own, chosen on other pictures, and posenc's follows the picture. The sweep shows what they "
        "are worth.",
        controls=(),
        panel="Held out",
        command="posenc run image-fit --panels held-out sigma",
    ),
)
