"""Vision transformers of timm's kind, whose tokens gain a table of positions: a scheme's rows in its place."""

from __future__ import annotations

import math
from typing import TypeVar

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize

from posenc.adapt.door import refuse_sites
from posenc.positions import Positions, grid, sequence
from posenc.scheme import Scheme

Model = TypeVar("Model", bound=nn.Module)


class Rows(nn.Module):
    """The rows of a scheme at fixed positions, ``(1, N, dim)``, made anew whenever the model asks for its table."""

    def __init__(self, scheme: Scheme, pos: Positions) -> None:
        super().__init__()
        self.scheme, self.pos = scheme, pos

    def forward(self, table: Tensor) -> Tensor:
        """``table`` is what stood there, of which only dtype and device are read."""
        return self.scheme.embed(self.scheme.prepare(self.pos.to(table.device)))[None].to(table.dtype)


def vision_transformer(model: Model, scheme: Scheme, *, pos: Positions | None = None) -> Model:
    """A ViT of timm's kind gets a scheme's rows for its table ``pos_embed``; class and register tokens get zeros.

    pos: of the patches in row-major order; the model's grid by default, or the patches' numbers where the scheme reads
    one axis. Raises ValueError for a model without a table or with ``dynamic_img_size`` (which would interpolate the
    rows), and for a scheme that does more than make rows of the model's width.
    """
    table, patches = getattr(model, "pos_embed", None), getattr(model, "patch_embed", None)
    if not isinstance(table, Tensor) or patches is None:
        raise ValueError(
            f"{type(model).__name__} has no table `pos_embed` beside a `patch_embed`: no ViT of timm's kind."
        )
    if getattr(model, "dynamic_img_size", False):
        raise ValueError("this ViT interpolates its table to each picture: build it with dynamic_img_size=False.")
    refuse_sites(scheme, {"embed"}, "a ViT's table is added to its tokens")
    shape = tuple(int(side) for side in patches.grid_size)
    if pos is None:
        pos = sequence(math.prod(shape)) if scheme.claims.axes == 1 else grid(*shape)
    prefix = 0 if getattr(model, "no_embed_class", False) else int(getattr(model, "num_prefix_tokens", 1))
    if table.shape[-2] != prefix + pos.count or table.shape[-1] != scheme.out_dim:
        raise ValueError(
            f"the model's table has {table.shape[-2]} rows of width {table.shape[-1]}: {prefix} for tokens without a "
            f"place and the rest for patches. {type(scheme).__name__} makes {pos.count} rows of width {scheme.out_dim}."
        )
    if pos.batched:
        raise ValueError("a ViT has one table for all pictures: positions (N, P) and placed (N,), not one a picture.")
    if prefix:
        coords = torch.cat([pos.coords.new_zeros(prefix, pos.axes), pos.coords])
        placed = torch.ones(len(coords), dtype=torch.bool, device=coords.device)
        placed[:prefix] = False
        placed[prefix:] &= True if pos.placed is None else pos.placed
        pos = Positions(coords, placed, pos.lattice)
    scheme.prepare(pos)  # what is wrong with the positions is said now
    del model.pos_embed
    model.register_buffer("pos_embed", table.detach().new_empty(0))
    rows = Rows(scheme.to(table.device), pos).train(model.training)
    parametrize.register_parametrization(model, "pos_embed", rows, unsafe=True)
    return model
