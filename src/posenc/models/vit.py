"""The vision transformers of Dosovitskiy et al. 2021, arXiv 2010.11929, and that of Li et al. 2024, arXiv 2406.07049.

    vit("quick", image=28, channels=1, classes=10)        vit("small", classes=1000)

A picture is cut into patches, the patches are tokens, and a class token without a place is read out, or the mean.
"""

from __future__ import annotations

from typing import Literal

from posenc.models.stage import Options, StageConfig
from posenc.models.vision import VisionConfig
from posenc.specification import unknown

SIZES: dict[str, StageConfig] = {
    "quick": StageConfig(dim=64, depth=4, heads=2, hidden=128, patch=4),
    "tiny": StageConfig(dim=192, depth=12, heads=3, hidden=768, patch=16),
    "small": StageConfig(dim=384, depth=12, heads=6, hidden=1536, patch=16),
    "base": StageConfig(dim=768, depth=12, heads=12, hidden=3072, patch=16),
    # the example of the readme of github BoyangL1/gridpe-vision
    "gridpe": StageConfig(dim=256, depth=6, heads=8, hidden=2048, patch=16),
}
"""quick is for pictures of 28 or 32 pixels; tiny, small and base are ViT-Ti/16, ViT-S/16 and ViT-B/16."""

LITERAL = Options(patches="around", view="pixels", placement="every_block", attention_norm=False, qkv_bias=False,
                  norm_eps=1e-5, init="torch")  # fmt: skip


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
    """The configuration of a ViT by the name of its size.

    literal: what github BoyangL1/gridpe-vision runs: attention without a norm before it, norms around the patches'
    linear layer, no biases of q, k and v, and positions that count tokens, the class token's too, in rows as wide as
    the picture has pixels, so that all stand in one row: the same as ``options=LITERAL``. Its baseline has a
    learned table and no scheme: ``msgspec.structs.replace(LITERAL, tables=True)``. Raises ValueError with the nearest
    size for one that nobody has.
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
