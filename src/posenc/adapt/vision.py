"""Vision transformers of timm: a scheme's embedding rows in place of the position table."""

from __future__ import annotations

import math
from typing import TypeVar

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize

from posenc.adapt.compatibility import refuse_sites
from posenc.positions import Positions, grid, sequence
from posenc.scheme import Scheme

Model = TypeVar("Model", bound=nn.Module)
OWN_VIT = (
    "posenc's own ViT takes it in every block and loads this model's weights: "
    "load_weights(VisionTransformer(config, lambda layer: {}(..)), model.state_dict()), with load_weights from "
    "posenc.models.pretrained and VisionTransformer from posenc.models.vision"
)
"""Way to put a scheme of another site into a ViT of timm."""


class Rows(nn.Module):
    """Embedding rows ``(1, N, dim)`` of a scheme at fixed positions, computed at every access to the model's table."""

    def __init__(self, scheme: Scheme, pos: Positions) -> None:
        super().__init__()
        self.scheme, self.pos = scheme, pos

    def forward(self, table: Tensor) -> Tensor:
        """The rows, in the dtype and on the device of ``table``."""
        return self.scheme.embed(self.scheme.prepare(self.pos.to(table.device)))[None].to(table.dtype)


def vision_transformer(model: Model, scheme: Scheme, *, pos: Positions | None = None) -> Model:
    """Replace the position table ``pos_embed`` of a timm vision transformer by the rows of a scheme.

    Class and register tokens get rows of zeros.

    Args:
        model: A ViT with ``pos_embed`` and ``patch_embed``, such as those of timm.
        scheme: A scheme that acts at "embed" alone, with rows of the model's width.
        pos: Positions of the patches in row-major order. Default: the model's grid ``(row, column)``, or patch numbers
            for a scheme on one axis.

    Returns:
        The same model.

    Raises:
        ValueError: If the model has no table or has ``dynamic_img_size=True``, which would interpolate the rows; if the
            scheme acts elsewhere or has another width; or if positions do not fit the patches.

    Example:
        >>> from types import SimpleNamespace
        >>> import torch
        >>> from posenc import Sinusoid
        >>> from posenc.adapt import vision_transformer
        >>> model = torch.nn.Module()  # stands for timm.create_model("vit_small_patch16_224")
        >>> model.patch_embed = SimpleNamespace(grid_size=(2, 3))
        >>> model.pos_embed = torch.nn.Parameter(torch.zeros(1, 1 + 6, 16))
        >>> vision_transformer(model, Sinusoid(16, axes=2)).pos_embed.shape
        torch.Size([1, 7, 16])
    """
    table, patches = getattr(model, "pos_embed", None), getattr(model, "patch_embed", None)
    if not isinstance(table, Tensor) or patches is None:
        raise ValueError(
            f"{type(model).__name__} has no table `pos_embed` or no `patch_embed`, so it is no ViT of timm's kind."
        )
    if getattr(model, "dynamic_img_size", False):
        raise ValueError("this ViT interpolates its table to each image: build it with dynamic_img_size=False.")
    refuse_sites(scheme, {"embed"}, "a ViT's table is added to its tokens", OWN_VIT.format(type(scheme).__name__))
    shape = tuple(int(side) for side in patches.grid_size)
    if pos is None:
        pos = sequence(math.prod(shape)) if scheme.claims.axes == 1 else grid(*shape)
    prefix = 0 if getattr(model, "no_embed_class", False) else int(getattr(model, "num_prefix_tokens", 1))
    if table.shape[-2] != prefix + pos.count or table.shape[-1] != scheme.out_dim:
        raise ValueError(
            f"the model's table has {table.shape[-2]} rows of width {table.shape[-1]}: {prefix} for tokens without a "
            f"position, others for patches. {type(scheme).__name__} makes {pos.count} rows of width {scheme.out_dim}."
        )
    if pos.batched:
        raise ValueError("a ViT has one table for all images: positions (N, P) and placed (N,), not one per image.")
    if prefix:
        coords = torch.cat([pos.coords.new_zeros(prefix, pos.axes), pos.coords])
        placed = torch.ones(len(coords), dtype=torch.bool, device=coords.device)
        placed[:prefix] = False
        placed[prefix:] &= True if pos.placed is None else pos.placed
        pos = Positions(coords, placed, pos.lattice)
    scheme.prepare(pos)  # raises an error for unsuitable positions before the model changes
    del model.pos_embed
    model.register_buffer("pos_embed", table.detach().new_empty(0))
    rows = Rows(scheme.to(table.device), pos).train(model.training)
    parametrize.register_parametrization(model, "pos_embed", rows, unsafe=True)
    return model
