"""The pyramid vision transformers of Wang et al. 2021, arXiv 2102.12122, and CPVT of Chu et al. 2021, arXiv 2102.10882.

    pvt("small", classes=100, image=224)        at_sites(parse("PEG"), config.sites)        # CPVT, with read_out="mean"

Each stage halves the image, and a key stands for 8 x 8, 4 x 4, 2 x 2 and 1 patch. Parameters at 224 pixels and 1,000
classes: tiny 13.2 million, small 24.5, medium 44.2, large 61.4.
"""

from __future__ import annotations

from typing import Literal

from posenc.models.stage import Options, StageConfig
from posenc.models.vision import VisionConfig
from posenc.specification import unknown

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
"""For pictures of 32 pixels, to which those of 28 are padded: grids of 16, 8, 4 and 2."""

LITERAL = Options(patches="normed", tables=True, view="counted", keys="corner", placement="attention")


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
    """The configuration of a PVT by the name of its size: "micro", "tiny", "small", "medium" or "large".

    Where the stages' own learned tables are wanted, as in PVT itself, ``options=Options(patches="normed",
    tables=True)``; CPVT has none, ``read_out="mean"``, and PEG for its scheme. literal: what github
    BoyangL1/gridpe-vision runs: the learned tables beside any scheme, rows added to what attention reads alone, reduced
    keys at a corner, a class token that is counted; and ``at_sites(.., first_only=True)`` for its schemes. Raises
    ValueError with the nearest size for one that nobody has.
    """
    if size != "micro" and size not in DEPTHS:
        raise ValueError(f"{unknown('size of a PVT', size, ['micro', *DEPTHS])} There are micro, {', '.join(DEPTHS)}.")
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
