"""Answer, predictions and claims of the image study."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from posenc.measure.statistics import Estimate
from posenc.workbench.report.claims_table import Claim, Quantity
from posenc.workbench.report.estimators import (
    PairedDifference,
    PairedValues,
    difference,
    difference_across_conditions,
    equivalence,
)
from posenc.workbench.report.preregistered import Prediction
from posenc.workbench.report.result_rows import Row, values_by_scheme
from posenc.workbench.studies.image_fit.conditions import FIT, HELD_OUT, SHIFTED, SIZES, protocol_of, same_image
from posenc.workbench.studies.image_fit.image_means import (
    PSNR,
    conditions_of,
    mean_psnr,
    means_over_images,
    one_sigma,
)
from posenc.workbench.studies.image_fit.scale_selection import GAUSSIAN, POSENC, select_scales
from posenc.workbench.studies.image_fit.time_to_psnr import (
    FEWEST_IMAGES,
    GRID,
    MedianSpeedUp,
)
from posenc.workbench.studies.image_fit.variants import PUBLISHED_SIGMA
from posenc.workbench.studies.shared.best_variant import best_variant, no_answer
from posenc.workbench.studies.shared.page_data import PageData

NOTES = "seed note 002 on positional encodings"
TANCIK = "arXiv 2006.10739, Table 1, 2D image; numbers as printed in the authors' notebook"
SMALL, LARGE = 15_000, 960_000
"""Parameter counts of a hash table with collisions and of one without."""
MARGIN = 0.5
"""Largest difference in dB of two fits that count as equally good."""


def headline(data: PageData) -> str:
    """Best encoding of fits to every pixel, else on held-out pixels, else in the first condition."""
    fits, held_out = conditions_of(data, FIT), select_scales(data.rows).reported
    conditions = [name for name in fits or held_out or data.conditions[:1] if mean_psnr(data, name)]
    if not conditions:
        return no_answer(bool(data.done))
    if len(conditions) == 1:
        values, over = values_by_scheme(data.rows, PSNR, conditions[0]), "seed"
    else:
        means = means_over_images(data, conditions)
        values, over = {label: dict(enumerate(each.values())) for label, each in means.items()}, "image"
    where = f"{'on held-out pixels' if held_out and not fits else ''} {data.budget(conditions[0])}".strip()
    return best_variant(one_sigma(data, values), metric="PSNR", unit="dB", where=where, over=over)


def predictions(data: PageData) -> Sequence[Prediction]:
    """Differences in PSNR that were predicted before the runs."""
    fits, selection = tuple(conditions_of(data, FIT)), select_scales(data.rows)
    gaussian, posenc = selection.label(GAUSSIAN), selection.label(POSENC)
    predicted: list[Prediction] = []
    if fits:
        rival = gaussian if gaussian in data.labels(fits[0]) else PUBLISHED_SIGMA
        pairs = (("multires", rival), ("multires", "positional"), (rival, "none"))
        predicted += [Prediction(PSNR, a, b, conditions=fits, unit="dB", metric_name="PSNR") for a, b in pairs]
    if selection.reported:
        pairs, name = ((gaussian, posenc), (posenc, "basic"), ("basic", "none")), "PSNR on held-out pixels"
        predicted += [
            Prediction(PSNR, a, b, conditions=selection.reported, unit="dB", metric_name=name) for a, b in pairs
        ]
    return predicted


def psnr_difference(a: str, b: str, protocol: str = FIT) -> PairedDifference:
    """PSNR of a − PSNR of b under a protocol, paired by image, or by seed if there is one image.

    On held-out pixels, the photographs that scales were selected on are left out.
    """

    def sides(rows: Sequence[Row]) -> PairedValues | None:
        selection = select_scales(rows)
        if protocol == HELD_OUT:
            conditions = list(selection.reported)
        else:
            conditions = sorted({name for row in rows if protocol_of(name := str(row["setting"])) == protocol})
        run = {str(row["scheme"]) for row in rows if row["setting"] in conditions}
        first, second = (
            PUBLISHED_SIGMA if name == GAUSSIAN and selection.label(name) not in run else selection.label(name)
            for name in (a, b)
        )
        if len(conditions) == 1:
            return difference(PSNR, first, second, conditions[0]).sides(rows)
        return difference_across_conditions(PSNR, first, second, conditions).sides(rows)

    return PairedDifference(sides, "pair")


def shift_difference(label: str) -> PairedDifference:
    """PSNR with shifted positions − PSNR without, paired by seed."""

    def sides(rows: Sequence[Row]) -> PairedValues | None:
        return difference(PSNR, label, label, *_shifted_and_plain(rows)).sides(rows)

    return PairedDifference(sides)


def shift_equivalence(label: str) -> Callable[[Sequence[Row]], Estimate | None]:
    """PSNR with shifted positions − PSNR without, with the interval of an equivalence test."""
    return lambda rows: equivalence(PSNR, label, label, *_shifted_and_plain(rows))(rows)


def _shifted_and_plain(rows: Sequence[Row]) -> tuple[str, str]:
    """Condition with shifted positions (a page has at most one), and condition of the same image without the shift."""
    conditions = (str(row["setting"]) for row in rows)
    shifted = next((name for name in conditions if protocol_of(name) == SHIFTED), f"main {SHIFTED}")
    return shifted, same_image(shifted, FIT)


CLAIMS = (
    Claim(
        name="grids suit fitting one image",
        source=NOTES,
        quote="Hash / Densegrid / Multi-Resolution Encoding 适用于 .. zero-shot(单图过拟合) 等任务",
        english="Hash, dense grid and multi-resolution encodings suit tasks such as zero-shot (over-fitting one "
        "picture)",
        lang="zh-Hans",
        about="Hash, dense and multi-resolution grids suit over-fitting a single image: after the same time, with the "
        "same parameter count, their PSNR is higher than that of Gaussian Fourier features. Sigma is the published "
        "one, or the one selected on held-out pixels of several photographs.",
        quantities=tuple(
            Quantity(f"{name} - {GAUSSIAN}, PSNR in dB", psnr_difference(name, GAUSSIAN), low=0.0)
            for name in ("multires", "hash", "dense")
        ),
        control="On held-out pixels, memorizing does not help. Is the PSNR of each grid still higher, with the same "
        "parameter count, steps and samples per step?",
        controls=tuple(
            Quantity(
                f"{name} - {GAUSSIAN} on held-out pixels, PSNR in dB",
                psnr_difference(name, GAUSSIAN, HELD_OUT),
                low=0.0,
            )
            for name in ("multires", "hash", "dense")
        ),
        panel="fit",
        command="posenc run image-fit --panels fit held-out",
    ),
    Claim(
        name="a multi-resolution grid needs less time for the PSNR of the best network without a grid",
        source="arXiv 2201.05989, abstract",
        quote="permits the use of a smaller network without sacrificing quality, thus significantly reducing the "
        "number of floating point and memory access operations",
        about="Median over images of the training time divided by the time that the grid needs; 0 if the grid never "
        f"reaches that PSNR (a censored value). The interval is that of the sign test, from {FEWEST_IMAGES} images on. "
        "The first evaluation is at 2% of the time, so that 50 means 50 or more.",
        quantities=(Quantity(f"speed-up of {GRID} over the best network without a grid", MedianSpeedUp(), low=1.0),),
        control="The network is the best of all networks without a grid, with the same parameter count and the same "
        "time on one core. Its sigma is selected where pixels of several photographs were held out.",
        controls=(),
        panel="fit",
        command="posenc run image-fit --preset standard --panels fit held-out",
    ),
    Claim(
        name="hashing compensates for a table that is too small",
        source=NOTES,
        quote="在较为密集的网格中，字典不够用，用hash编码弥补这一点",
        english="In denser grids the dictionary is too small, and hash encoding makes up for it",
        lang="zh-Hans",
        about=f"If the grid has more vertices than the table has entries ({SMALL:,} parameters), hashing has a higher "
        "PSNR than a coarser dense grid with the same parameter count.",
        quantities=(
            Quantity(
                f"hash - dense with {SMALL:,} parameters, PSNR in dB",
                psnr_difference(f"hash@{SMALL}", f"dense@{SMALL}", SIZES),
                low=0.0,
            ),
        ),
        control=f"With {LARGE:,} parameters the table has an entry for every vertex of a photograph's grid. A dense "
        "grid of the same resolution, which has no collisions, should have at least the same PSNR.",
        controls=(
            Quantity(
                f"dense - hash with {LARGE:,} parameters, PSNR in dB",
                psnr_difference(f"dense@{LARGE}", f"hash@{LARGE}", SIZES),
                low=0.0,
            ),
        ),
        panel="sizes",
        command="posenc run image-fit --panels sizes",
    ),
    Claim(
        name="Fourier features are translation invariant",
        source=NOTES,
        quote="FE具有平移不变性, 能表示相对位置",
        english="Fourier encoding is translation invariant and can represent relative positions",
        lang="zh-Hans",
        about="A fit with Gaussian features has the same PSNR if every position is shifted by 100 image sides.",
        quantities=(
            Quantity(
                f"{PUBLISHED_SIGMA} shifted - not shifted, PSNR in dB, within {MARGIN}",
                shift_equivalence(PUBLISHED_SIGMA),
                -MARGIN,
                MARGIN,
            ),
        ),
        control="Bare coordinates are not invariant: their PSNR should be lower with shifted positions.",
        controls=(Quantity("none shifted - not shifted, PSNR in dB", shift_difference("none"), high=0.0),),
        panel="shifted",
        command="posenc run image-fit --panels fit shifted",
    ),
    Claim(
        name="PSNR is highest with Gaussian features, then positional, basic and no features",
        source=TANCIK,
        quote="none 19.323 (2.481), basic 21.716 (2.717), posenc 24.947 (3.719), gaussian 25.568 (4.186)",
        about="PSNR on odd pixels after training on even pixels.",
        published="PSNR: none 19.32, basic 21.72, positional 24.95, Gaussian 25.57 (dB)",
        quantities=tuple(
            Quantity(f"{a} - {b} on held-out pixels, PSNR in dB", psnr_difference(a, b, HELD_OUT), low=0.0)
            for a, b in ((GAUSSIAN, POSENC), (POSENC, "basic"), ("basic", "none"))
        ),
        control="Both scales are selected on four photographs and reported on the others, if both were run. Otherwise "
        "sigma is the published one, chosen on other images, and the scale of posenc follows the image. The sweep of "
        "sigma shows the effect of this choice.",
        controls=(),
        panel="held-out",
        command="posenc run image-fit --panels held-out sigma",
    ),
)
