"""Vision transformers: another image size, or a scheme's embedding rows in place of the position table.

In a ViT of timm a scheme stays in the model, which computes its rows. Into a model of transformers its rows are written
as a table of the model, so that ``from_pretrained`` needs no posenc.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any, NoReturn, TypeVar

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize
from typing_extensions import override

from posenc.adapt.compatibility import device_of, refuse_no_model, refuse_no_values, refuse_sites
from posenc.adapt.image_tables import (
    ImageTable,
    grid_of,
    image_tables,
    new_images,
    own_kernel,
    refuse_other_kinds,
    refuse_stages,
    resized_rows,
    timm_table,
    write_tables,
)
from posenc.kernels.resampling import resample
from posenc.positions import Positions, as_positions, grid, sequence
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
    """Embedding rows ``(1, N, dim)`` of a scheme at fixed positions, computed at every access to the model's table.

    Args:
        scheme: The scheme.
        pos: The positions.
        given: True if they are no grid, but were given. Then their coordinates are part of the state.
    """

    coords: Tensor | None

    def __init__(self, scheme: Scheme, pos: Positions, *, given: bool) -> None:
        super().__init__()
        self.scheme = scheme
        self.set_positions(pos, given=given)

    def set_positions(self, pos: Positions, *, given: bool) -> None:
        """Take other positions; arguments as above."""
        self.pos, self.given = pos, given
        self.register_buffer("coords", pos.coords if given else None)

    @override
    def _apply(self, fn: Any, recurse: bool = True) -> Rows:
        kept = self.coords
        super()._apply(fn, recurse)
        if kept is not None and self.coords is not None and self.coords.dtype != kept.dtype:
            self.coords = kept.to(self.coords.device)  # a cast of the model does not round positions
        return self

    def forward(self, table: Tensor) -> Tensor:
        """The rows, in the dtype and on the device of ``table``."""
        pos = self.pos if self.coords is None else Positions(self.coords, self.pos.placed, self.pos.lattice)
        return self.scheme.embed(self.scheme.prepare(pos.to(table.device)))[None].to(table.dtype)


def vision_transformer(
    model: Model,
    scheme: Scheme | None = None,
    *,
    image: int | tuple[int, int] | None = None,
    pos: Positions | Tensor | None = None,
) -> Model:
    """Give a vision transformer of timm or transformers another image size, or rows of a scheme for its position table.

    With ``image`` the model's own table is resampled, also where the new grid has as many patches as the old one: by
    the antialiased cubic kernel in timm, and in transformers by the kernel of the model's own
    ``interpolate_pos_encoding``, mostly cubic without antialiasing. Rows of a scheme are computed for the new grid.

    With ``scheme`` its rows replace the table. In timm the scheme becomes part of the model, and class and register
    tokens get rows of zeros. In transformers the rows are written into the table, which is trained afterwards only if
    the scheme is learned, and the rows of class tokens stay. There the configuration follows the image size, so
    ``save_pretrained`` and ``from_pretrained`` give the same model without posenc. An image processor keeps its size.

    Args:
        model: A ViT with ``pos_embed`` and ``patch_embed``, such as those of timm; or a model of transformers with
            ``position_embeddings`` or ``position_embedding`` beside the convolution of its patches, such as ViT, DeiT,
            DINOv2, BEiT, CLIP, SigLIP and PVT. It is changed in place.
        scheme: A scheme that acts at "embed" alone, with rows of the model's width. Default: the model's own table.
        image: Height and width of the images in pixels, multiples of the patch; one number for squares. Default: the
            model's image size.
        pos: Positions of the patches in row-major order, or their coordinates ``(N, P)``. Default: the model's grid
            ``(row, column)``, or patch numbers for a scheme on one axis.

    Returns:
        The same model.

    Raises:
        ValueError: If neither ``scheme`` nor ``image`` is given; if the model has no table, does something else with
            it, or has ``dynamic_img_size=True``, which would interpolate the rows; if the scheme acts elsewhere or has
            another width; or if positions do not fit the patches, or the image size the model.

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
    of_timm = timm_table(model)
    tables = [] if of_timm else image_tables(model)
    if of_timm is None and not tables:
        raise ValueError(
            f"{type(model).__name__} has no position table of images: neither `pos_embed` and `patch_embed` as models "
            "of timm, nor `position_embeddings` beside a convolution of patches as models of transformers. Windows of "
            "Swin take posenc.adapt.window_biases, rotations of patches, as in DINOv3, posenc.adapt.grid_rotation."
        )
    if scheme is None and image is None:
        raise ValueError(
            "vision_transformer takes a scheme, an image size or both: vision_transformer(model, image=384)."
        )
    if scheme is not None:
        remedy = OWN_VIT.format(type(scheme).__name__)
        refuse_sites(scheme, {"embed"}, "a ViT's table is added to its tokens", remedy, "Sinusoid(384, axes=2)")
    elif pos is not None and (tables or _rows_of(model) is None):
        raise ValueError("`pos` are the positions that a scheme reads, and none is given. Leave pos out.")
    pos = None if pos is None else as_positions(pos)
    if of_timm is None:
        _change_tables(model, tables, scheme, image, pos)
    else:
        _change_timm(model, *of_timm, scheme, image, pos)
    return model


def _change_tables(
    model: nn.Module,
    tables: list[ImageTable],
    scheme: Scheme | None,
    image: int | tuple[int, int] | None,
    pos: Positions | None,
) -> None:
    """Resample or replace the tables of a model of transformers."""
    refuse_no_values(model, "vision_transformer")
    refuse_other_kinds(tables, model)
    images = [table.image for table in tables] if image is None else new_images(tables, _sides(image))
    grids = [grid_of(table.conv, size) for table, size in zip(tables, images, strict=True)]
    if scheme is not None:
        refuse_stages(tables, model)
    if scheme is None:
        rows = [
            resized_rows(table.rows, table.prefix, table.grid, to, own_kernel(table))
            for table, to in zip(tables, grids, strict=True)
        ]
        trained = [table.weight.requires_grad for table in tables]
    else:
        rows = [torch.cat([tables[0].rows[: tables[0].prefix], _scheme_rows(tables[0], scheme, grids[0], pos)])]
        trained = [scheme.claims.learned]
    write_tables(model, tables, images, rows, trained)


def _scheme_rows(table: ImageTable, scheme: Scheme, grid_size: tuple[int, int], pos: Positions | None) -> Tensor:
    """Rows of a scheme for the patches of a model, in the dtype and on the device of its table."""
    count, like = math.prod(grid_size), table.rows
    if "embed" not in scheme.claims.sites:
        return like.new_zeros(count, like.shape[1])
    if pos is None:
        pos = sequence(count) if scheme.claims.axes == 1 else grid(*grid_size)
    if count != pos.count or like.shape[1] != scheme.out_dim:
        raise ValueError(
            f"the model's table has {count} rows of width {like.shape[1]} for patches, and {type(scheme).__name__} "
            f"makes {pos.count} rows of width {scheme.out_dim}."
        )
    own = device_of(scheme)
    return scheme.embed(scheme.prepare(_after_tokens(pos, 0).to(own))).detach().to(like.device, like.dtype)


def _change_timm(
    model: Any,
    table: Tensor,
    prefix: int,
    scheme: Scheme | None,
    image: int | tuple[int, int] | None,
    pos: Positions | None,
) -> None:
    """Resample or replace the table of a ViT of timm."""
    patches = model.patch_embed
    if getattr(model, "dynamic_img_size", False):
        raise ValueError("this ViT interpolates its table to each image: build it with dynamic_img_size=False.")
    size = None if image is None else _sides(image)
    shape = tuple(int(side) for side in patches.grid_size)
    to = shape if image is None else _grid_of(model, image)
    rows = _rows_of(model)
    scheme = rows.scheme if scheme is None and rows is not None else scheme
    if scheme is None:
        _resample(model, prefix, shape, size)
        return
    given = pos is not None
    if pos is None:
        if rows is not None and rows.scheme is scheme and rows.given:
            if image is None:
                return
            raise ValueError(
                "the positions of this scheme were given, so the new grid needs them too: vision_transformer(model, "
                f"image={image!r}, pos=..) with {math.prod(to)} positions."
            )
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
        _set_image(model, size)
    if rows is not None and rows.scheme is scheme:
        rows.set_positions(pos.to(table.device), given=given)
        return
    if rows is not None:
        parametrize.remove_parametrizations(model, "pos_embed", leave_parametrized=False)
    del model.pos_embed
    model.register_buffer("pos_embed", table.detach().new_empty(0))
    rows = Rows(scheme.to(table.device), pos.to(table.device), given=given).train(model.training)
    parametrize.register_parametrization(model, "pos_embed", rows, unsafe=True)
    if hasattr(type(model), "set_input_size"):  # it would make a parameter of the rows
        vars(model)["set_input_size"] = partial(_refuse_input_size, type(scheme).__name__)


def _refuse_input_size(name: str, *_: object, **__: object) -> NoReturn:
    raise ValueError(
        f"{name} makes the position table of this model. Call posenc.adapt.vision_transformer(model, image=..), which "
        "makes its rows for the new grid."
    )


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
    patch = (patch, patch) if isinstance(patch, int) else tuple(patch)
    if any(side < size or side % size for side, size in zip(sides, patch, strict=True)):
        raise ValueError(
            f"an image is a multiple of the model's patches of {patch[0]} x {patch[1]} pixels; got image={image!r}. "
            f"Take image={max(round(sides[0] / patch[0]), 1) * patch[0]}, for example."
        )
    return sides[0] // patch[0], sides[1] // patch[1]


def _sides(image: Any) -> tuple[int, ...]:
    """Height and width of an image size."""
    sides = tuple(image) if isinstance(image, tuple | list) else (image, image)
    if not are_whole(*sides, least=0) or len(sides) != 2:
        raise ValueError(f"`image` is a number of pixels or (height, width), positive whole numbers; got {image!r}.")
    return tuple(map(int, sides))


def _resample(model: Any, prefix: int, shape: tuple[int, ...], size: tuple[int, ...] | None) -> None:
    """Resample a model's own table to the grid of another image size."""
    table = model.pos_embed
    _set_image(model, size)
    to = tuple(int(side) for side in model.patch_embed.grid_size)
    with torch.no_grad():
        first, rest = table[0, :prefix], table[0, prefix:].unflatten(0, shape)
        new = torch.cat([first, resample(rest, to).flatten(0, 1).to(table.dtype)])[None]
    model.pos_embed = nn.Parameter(new, requires_grad=table.requires_grad)


def _set_image(model: Any, size: tuple[int, ...] | None) -> None:
    """Give the patches of a model of timm another image size, and its rotation their grid."""
    model.patch_embed.set_input_size(img_size=size)
    if hasattr(getattr(model, "rope", None), "update_feat_shape"):
        model.rope.update_feat_shape(model.patch_embed.grid_size)


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
