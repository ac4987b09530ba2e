"""Pyramid vision transformers: PVT (Wang et al. 2021, arXiv 2102.12122) and CPVT (Chu et al. 2021, arXiv 2102.10882).

    pvt("small", classes=100, image=224)        at_sites(parse("PEG"), config.sites)        # CPVT, with read_out="mean"

There are four stages. The first cuts the image into patches of 4 x 4 pixels, and each later one halves the grid. In the
four stages a key stands for 8 x 8, 4 x 4, 2 x 2 and 1 patches. Parameters at 224 pixels and 1,000 classes: tiny 13.2
million, small 24.5 million, medium 44.2 million, large 61.4 million.
"""

from __future__ import annotations

from typing import Literal

from posenc.lookup.scheme_text import unknown
from posenc.models.vision import VisionConfig
from posenc.models.vision_stage import Options, StageConfig

DEPTHS: dict[str, tuple[int, int, int, int]] = {
    "tiny": (2, 2, 2, 2),
    "small": (3, 4, 6, 3),
    "medium": (3, 4, 18, 3),
    "large": (3, 8, 27, 3),
}
DIMS, HEADS, RATIOS, REDUCTIONS, PATCHES = (64, 128, 320, 512), (1, 2, 5, 8), (8, 8, 4, 4), (8, 4, 2, 1), (4, 2, 2, 2)
MICRO = tuple(
    StageConfig(dim=dim, depth=1, heads=heads, hidden=4 * dim, patch=2, reduction=reduction)
    for dim, heads, reduction in zip((32, 64, 96, 128), (1, 2, 3, 4), REDUCTIONS, strict=True)
)
"""Stages for images of 32 x 32 pixels, with grids of 16, 8, 4 and 2. Images of 28 x 28 are padded to 32 x 32."""
SIZES = ("micro", *DEPTHS)
"""Names of the sizes."""

LITERAL = Options(patches="normed", tables=True, view="counted", keys="corner", placement="attention")
"""Options of the code as released in github BoyangL1/gridpe-vision."""


def pvt(
    size: str,
    *,
    classes: int,
    image: int | tuple[int, int] = 224,
    channels: int = 3,
    read_out: Literal["class", "mean"] = "class",
    literal: bool = False,
    drop_path: float = 0.0,
    options: Options | None = None,
) -> VisionConfig:
    """Return the configuration of a PVT of a named size.

    PVT itself has a learned table in each stage: ``options=Options(patches="normed", tables=True)``. CPVT has no
    tables, ``read_out="mean"`` and the scheme PEG.

    Args:
        size: "micro", "tiny", "small", "medium" or "large".
        classes: number of output classes.
        image: height and width of an image in pixels, or one number for both.
        channels: number of channels of an image.
        read_out: "class" for a class token, "mean" for the mean of all tokens.
        literal: whether to follow the released code, github BoyangL1/gridpe-vision. It has learned tables besides any
            scheme, adds embedding rows to the input of attention only, places a reduced key at a corner of its patches,
            and counts the class token as a position. Its schemes need ``at_sites(.., first_only=True)``.
        drop_path: stochastic depth rate of the last block.
        options: other options of the stages.

    Returns:
        The configuration.

    Raises:
        ValueError: an unknown size, with the nearest known one; or ``literal`` together with ``options``.
    """
    if size not in SIZES:
        raise ValueError(f"{unknown('size of a PVT', size, SIZES)} There are {', '.join(SIZES)}.")
    stages = MICRO if size == "micro" else tuple(
        StageConfig(dim=dim, depth=depth, heads=heads, hidden=ratio * dim, patch=patch, reduction=reduction)
        for dim, depth, heads, ratio, patch, reduction in zip(
            DIMS, DEPTHS[size], HEADS, RATIOS, PATCHES, REDUCTIONS, strict=True
        )
    )  # fmt: skip
    if literal and options is not None:
        raise ValueError("literal=True chooses the options itself; pass options=replace(LITERAL, ..) alone.")
    return VisionConfig(
        image=(image, image) if isinstance(image, int) else image,
        classes=classes,
        channels=channels,
        stages=stages,
        read_out=read_out,
        drop_path=drop_path,
        options=options or (LITERAL if literal else Options(patches="normed")),
    )
