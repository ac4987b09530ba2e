"""Vision transformers: ViT (Dosovitskiy et al. 2021, arXiv 2010.11929) and the ViT of Li et al. 2024, arXiv 2406.07049.

    vit("quick", image=28, channels=1, classes=10)        vit("small", classes=1000)

An image is divided into patches, which are the tokens. A class token without a position, or the mean of all tokens, is
read out.
"""

from __future__ import annotations

from typing import Literal

from posenc.lookup.scheme_text import unknown
from posenc.models.vision import VisionConfig
from posenc.models.vision_stage import Options, StageConfig

SIZES: dict[str, StageConfig] = {
    "quick": StageConfig(dim=64, depth=4, heads=2, hidden=128, patch=4),
    "tiny": StageConfig(dim=192, depth=12, heads=3, hidden=768, patch=16),
    "small": StageConfig(dim=384, depth=12, heads=6, hidden=1536, patch=16),
    "base": StageConfig(dim=768, depth=12, heads=12, hidden=3072, patch=16),
    # the example in the README of github BoyangL1/gridpe-vision
    "gridpe": StageConfig(dim=256, depth=6, heads=8, hidden=2048, patch=16),
}
"""Sizes by name. quick is for images of 28 or 32 pixels; tiny, small and base are ViT-Ti/16, ViT-S/16 and ViT-B/16."""

LITERAL = Options(patches="around", view="pixels", placement="every_block", attention_norm=False, qkv_bias=False,
                  norm_eps=1e-5, init="torch")  # fmt: skip
"""Options of the code as released in github BoyangL1/gridpe-vision."""


def vit(
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
    """Return the configuration of a ViT of a named size.

    Args:
        size: a name in ``SIZES``.
        classes: number of output classes.
        image: height and width of an image in pixels, or one number for both.
        channels: number of channels of an image.
        read_out: "class" for a class token, "mean" for the mean of all tokens.
        literal: whether to follow the released code, github BoyangL1/gridpe-vision; the same as ``options=LITERAL``. It
            has no norm before attention, norms before and after the linear patch embedding, no biases of q, k and v,
            and the position view "pixels". Its baseline has a learned table and no scheme:
            ``msgspec.structs.replace(LITERAL, tables=True)``.
        drop_path: stochastic depth rate of the last block.
        options: other options of the stage.

    Returns:
        The configuration.

    Raises:
        ValueError: an unknown size, with the nearest known one; or ``literal`` together with ``options``.
    """
    if size not in SIZES:
        raise ValueError(f"{unknown('size of a ViT', size, SIZES)} There are {', '.join(SIZES)}.")
    if literal and options is not None:
        raise ValueError("literal=True chooses the options itself; pass options=replace(LITERAL, ..) alone.")
    return VisionConfig(
        image=(image, image) if isinstance(image, int) else image,
        classes=classes,
        channels=channels,
        stages=(SIZES[size],),
        read_out=read_out,
        drop_path=drop_path,
        options=options or (LITERAL if literal else Options()),
    )
