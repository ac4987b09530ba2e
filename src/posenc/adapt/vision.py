"""Vision transformers of timm: another image size, or a scheme's embedding rows in place of the position table."""

from __future__ import annotations

import math
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize

from posenc.adapt.compatibility import refuse_no_model, refuse_sites
from posenc.kernels.resampling import resample
from posenc.positions import Positions, grid, sequence
from posenc.scheme import Scheme
from posenc.whole_numbers import are_whole

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


def vision_transformer(
    model: Model,
    scheme: Scheme | None = None,
    *,
    image: int | tuple[int, int] | None = None,
    pos: Positions | None = None,
) -> Model:
    """Give a timm vision transformer another image size, or the rows of a scheme for its position table ``pos_embed``.

    With ``image`` the model's own table is resampled by the antialiased cubic kernel of timm, also where the new grid
    has as many patches as the old one. Rows of a scheme are computed for the new grid. With ``scheme`` its rows replace
    the table; class and register tokens get rows of zeros.

    Args:
        model: A ViT with ``pos_embed`` and ``patch_embed``, such as those of timm. It is changed in place.
        scheme: A scheme that acts at "embed" alone, with rows of the model's width. Default: the model's own table.
        image: Height and width of the images in pixels, multiples of the patch; one number for squares. Default: the
            model's image size.
        pos: Positions of the patches in row-major order. Default: the model's grid ``(row, column)``, or patch numbers
            for a scheme on one axis.

    Returns:
        The same model.

    Raises:
        ValueError: If neither ``scheme`` nor ``image`` is given; if the model has no table or has
            ``dynamic_img_size=True``, which would interpolate the rows; if the scheme acts elsewhere or has another
            width; or if positions do not fit the patches, or the image size the model.

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
    refuse_no_model(model, "vision_transformer")
    table, patches = getattr(model, "pos_embed", None), getattr(model, "patch_embed", None)
    if not isinstance(table, Tensor) or patches is None:
        raise ValueError(
            f"{type(model).__name__} has no table `pos_embed` or no `patch_embed`, so it is no ViT of timm's kind. "
            "Those of transformers resample their own table in a call with interpolate_pos_encoding=True."
        )
    _refuse_idle(model, scheme, image)
    size = None if image is None else _sides(image)
    prefix = 0 if getattr(model, "no_embed_class", False) else int(getattr(model, "num_prefix_tokens", 1))
    if scheme is not None:
        refuse_sites(scheme, {"embed"}, "a ViT's table is added to its tokens", OWN_VIT.format(type(scheme).__name__))
    shape = tuple(int(side) for side in patches.grid_size)
    to = shape if image is None else _grid_of(model, image)
    rows = _rows_of(model)
    scheme = rows.scheme if scheme is None and rows is not None else scheme
    if scheme is None:
        _resample(model, prefix, shape, size)
        return model
    if pos is None:
        pos = sequence(math.prod(to)) if scheme.claims.axes == 1 else grid(*to)
    count = table.shape[-2] - prefix - math.prod(shape) + math.prod(to)
    if count != pos.count or table.shape[-1] != scheme.out_dim:
        raise ValueError(
            f"the model's table has {prefix + count} rows of width {table.shape[-1]}: {prefix} for tokens without a "
            f"position, others for patches. {type(scheme).__name__} makes {pos.count} rows of width {scheme.out_dim}."
        )
    pos = _after_tokens(pos, prefix)
    scheme.prepare(pos)  # raises an error for unsuitable positions before the model changes
    if image is not None:
        patches.set_input_size(img_size=size)
    if rows is not None and rows.scheme is scheme:
        rows.pos = pos
        return model
    if rows is not None:
        parametrize.remove_parametrizations(model, "pos_embed", leave_parametrized=False)
    del model.pos_embed
    model.register_buffer("pos_embed", table.detach().new_empty(0))
    rows = Rows(scheme.to(table.device), pos).train(model.training)
    parametrize.register_parametrization(model, "pos_embed", rows, unsafe=True)
    return model


def _refuse_idle(model: nn.Module, scheme: Scheme | None, image: object) -> None:
    if scheme is None and image is None:
        raise ValueError(
            "vision_transformer takes a scheme, an image size or both: vision_transformer(model, image=384)."
        )
    if getattr(model, "dynamic_img_size", False):
        raise ValueError("this ViT interpolates its table to each image: build it with dynamic_img_size=False.")


def _rows_of(model: nn.Module) -> Rows | None:
    """The rows of a scheme that replaced the model's table before."""
    if not parametrize.is_parametrized(model, "pos_embed"):
        return None
    (rows,) = model.parametrizations.pos_embed  # pyright: ignore
    return rows if isinstance(rows, Rows) else None


def _grid_of(model: Any, image: int | tuple[int, int]) -> tuple[int, int]:
    """Grid of patches of an image size; refuses sizes and models that cannot be changed."""
    patches = model.patch_embed
    patch = getattr(patches, "patch_size", None)
    sides = _sides(image)
    if not hasattr(patches, "set_input_size") or patch is None:
        raise ValueError(
            f"the `patch_embed` of {type(model).__name__} has no set_input_size, so its image size is fixed. Models of "
            "timm 1.0 and later have it."
        )
    if getattr(model, "rope", None) is not None:
        raise ValueError(
            f"{type(model).__name__} also rotates by its `rope`, for one image size. Call model.set_input_size(..)."
        )
    patch = (patch, patch) if isinstance(patch, int) else tuple(patch)
    if len(sides) != 2 or any(side < size or side % size for side, size in zip(sides, patch, strict=True)):
        raise ValueError(
            f"an image is a multiple of the model's patches of {patch[0]} x {patch[1]} pixels; got image={image!r}. "
            f"Take image={max(round(sides[0] / patch[0]), 1) * patch[0]}, for example."
        )
    return sides[0] // patch[0], sides[1] // patch[1]


def _sides(image: Any) -> tuple[int, ...]:
    """Height and width of an image size."""
    sides = tuple(image) if isinstance(image, tuple | list) else (image, image)
    if not are_whole(*sides, least=0):
        raise ValueError(f"`image` is a number of pixels or (height, width), positive whole numbers; got {image!r}.")
    return tuple(map(int, sides))


def _resample(model: Any, prefix: int, shape: tuple[int, ...], size: tuple[int, ...] | None) -> None:
    """Resample a model's own table to the grid of another image size."""
    table = model.pos_embed
    if table.shape[-2] != prefix + math.prod(shape):
        raise ValueError(
            f"the model's table has {table.shape[-2]} rows, and {prefix} tokens with a grid of {shape[0]} x {shape[1]} "
            f"patches are {prefix + math.prod(shape)}."
        )
    model.patch_embed.set_input_size(img_size=size)
    to = tuple(int(side) for side in model.patch_embed.grid_size)
    with torch.no_grad():
        first, rest = table[0, :prefix], table[0, prefix:].unflatten(0, shape)
        new = torch.cat([first, resample(rest, to).flatten(0, 1).to(table.dtype)])[None]
    model.pos_embed = nn.Parameter(new, requires_grad=table.requires_grad)


def _after_tokens(pos: Positions, prefix: int) -> Positions:
    """Positions of patches after some tokens without a position."""
    if pos.batched:
        raise ValueError("a ViT has one table for all images: positions (N, P) and placed (N,), not one per image.")
    if not prefix:
        return pos
    coords = torch.cat([pos.coords.new_zeros(prefix, pos.axes), pos.coords])
    placed = torch.ones(len(coords), dtype=torch.bool, device=coords.device)
    placed[:prefix] = False
    placed[prefix:] &= True if pos.placed is None else pos.placed
    return Positions(coords, placed, pos.lattice)
