"""Position tables of images in vision transformers of transformers, such as ViT, DINOv2, CLIP and PVT: find and write.

Such a table is a parameter or an ``nn.Embedding`` with a name of ``NAMES``, in a module that also has the convolution
of the patches. What the module does is measured on a copy of it: that it adds row i of the table to token i, that the
last tokens are the patches in row-major order, and by which kernel it interpolates the table itself.
"""

from __future__ import annotations

import copy
import inspect
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from posenc.adapt.compatibility import STRANGE
from posenc.kernels.resampling import Method, resample

NAMES = ("position_embeddings", "position_embedding")
"""Names of position tables of images in transformers."""
PATCHES = ("patch_embeddings", "patch_embedding", "patch_embed")
"""Names of the patch embedding beside a table."""
ALLOWED = 1e-4
"""Allowed difference between rows of a table and what a module adds, for rows of about 1 in float32."""


class Kernel(NamedTuple):
    """A kernel of ``posenc.kernels.resampling``."""

    method: Method
    antialias: bool


KERNELS = (Kernel("cubic", False), Kernel("cubic", True), Kernel("linear", False))
"""Kernels by which models of transformers interpolate their tables."""


@dataclass(frozen=True)
class ImageTable:
    """A position table of an image.

    Attributes:
        place: Module that adds the table.
        name: Name of the table in it.
        patches: Module that has the convolution and may state the image size; may be ``place`` itself.
        conv: Convolution that makes patches.
        image: Height and width of the image for which the table is made.
        path: Path of ``place`` in the model.
    """

    place: Any
    name: str
    patches: Any
    conv: nn.Conv2d
    image: tuple[int, int]
    path: str

    @property
    def weight(self) -> Tensor:
        """The parameter, ``(1, rows, width)`` or ``(rows, width)``."""
        found = getattr(self.place, self.name)
        return found.weight if isinstance(found, nn.Embedding) else found

    @property
    def rows(self) -> Tensor:
        """A view of the table as ``(rows, width)``."""
        return self.weight.detach().flatten(0, -2)

    @property
    def grid(self) -> tuple[int, int]:
        """Rows and columns of patches."""
        return grid_of(self.conv, self.image)

    @property
    def prefix(self) -> int:
        """Number of rows of class and other tokens, which come before those of the patches."""
        return len(self.rows) - math.prod(self.grid)

    @property
    def configs(self) -> list[Any]:
        """The configurations that the two modules hold."""
        found = (getattr(module, "config", None) for module in (self.place, self.patches))
        return [config for config in found if config is not None]


def grid_of(conv: nn.Conv2d, image: Sequence[int]) -> tuple[int, int]:
    """Rows and columns of the patches of an image."""
    pads = (0, 0) if isinstance(conv.padding, str) else conv.padding  # a word is "valid" where strides are not 1
    rows, columns = (
        (side + 2 * pad - size) // step + 1
        for side, pad, size, step in zip(image, pads, conv.kernel_size, conv.stride, strict=True)
    )
    return rows, columns


def image_tables(model: nn.Module) -> list[ImageTable]:
    """The position tables of images in a model, one or one for each stage; empty if it has none.

    Args:
        model: The model, or the part of it that has the tables.

    Returns:
        The tables in the order of the modules.
    """
    found = []
    for path, place in model.named_modules():
        patches = next((getattr(place, name) for name in PATCHES if hasattr(place, name)), place)
        conv = next((each for each in (patches, *_children(patches)) if isinstance(each, nn.Conv2d)), None)
        name = next((name for name in NAMES if _is_table(getattr(place, name, None))), None)
        if conv is not None and name is not None and (image := _image_of(place, patches, model)) is not None:
            found.append(ImageTable(place, name, patches, conv, image, path))
    return found


def timm_table(model: Any) -> tuple[Tensor, int] | None:
    """The position table of a ViT of timm, and its number of rows for tokens before the patches.

    Args:
        model: Any model.

    Returns:
        The table ``(1, rows, width)`` and the number; None for another model.

    Raises:
        ValueError: If it has no row for each patch.
    """
    table, patches = getattr(model, "pos_embed", None), getattr(model, "patch_embed", None)
    if not isinstance(table, Tensor) or patches is None:
        return None
    count = math.prod(int(side) for side in getattr(patches, "grid_size", None) or (0,))
    prefix = table.shape[-2] - count
    stated = 0 if getattr(model, "no_embed_class", False) else getattr(model, "num_prefix_tokens", prefix)
    if table.dim() != 3 or table.shape[0] != 1 or prefix != stated or not count:
        raise ValueError(
            f"the `pos_embed` of {type(model).__name__} has the shape {tuple(table.shape)}, and a ViT's has a row for "
            f"each of {count} patches and {stated} other tokens: this kind of model is not known."
        )
    return table, prefix


def refuse_stages(tables: Sequence[ImageTable], model: nn.Module) -> None:
    """Raise ValueError for a model with several tables, where only one is read or replaced.

    Args:
        tables: The tables of the model.
        model: The model, for the sentence.

    Raises:
        ValueError: If there are several.
    """
    if len(tables) > 1:
        raise ValueError(
            f"{type(model).__name__} has {len(tables)} position tables of images. Pass a part of the model with one, "
            f"as model.get_submodule({tables[0].path!r})."
        )


def refuse_other_kinds(tables: Sequence[ImageTable], model: nn.Module) -> None:
    """Raise ValueError unless each module adds its table to tokens of which the last are the patches.

    Args:
        tables: The tables of the model, at least one.
        model: The model, for the sentence.

    Raises:
        ValueError: If a module does something else, or if there are several tables which are not those of stages.
    """
    kind = type(model).__name__
    for first, second in itertools.pairwise(tables):
        if first.rows.shape[1] != second.conv.in_channels or first.patches is not first.place:
            refuse_stages(tables, model)
    for table in tables:
        if not _adds(table, copy.deepcopy(table.place)):
            raise ValueError(
                f"{type(table.place).__name__} of {kind} does not add its {table.name} to the tokens of one image in "
                "their order, so posenc does not know this kind."
            )


def own_kernel(table: ImageTable) -> Kernel:
    """The kernel by which a module interpolates its own table, measured where the module can be called so.

    Args:
        table: A table of an image.

    Returns:
        The kernel. If the module cannot be measured, as it can't with a grid that is no square: the cubic kernel
        without antialiasing, which most models of transformers have, or the linear kernel for tables of stages, as in
        the code of PVT's authors.
    """
    (rows, columns), prefix = table.grid, table.prefix
    default = Kernel("linear", False) if table.patches is table.place else KERNELS[0]
    if rows != columns:
        return default
    to = (rows + 1, columns + 1)
    image = [side + step for side, step in zip(table.image, table.conv.stride, strict=True)]
    random = torch.randn(len(table.rows), table.rows.shape[1], generator=torch.Generator().manual_seed(0))
    added = _added(table, copy.deepcopy(table.place), random, image, interpolate=True)
    for kernel in KERNELS:
        wanted = resized_rows(random, prefix, table.grid, to, kernel)
        if added is not None and added.shape == wanted.shape and torch.allclose(added, wanted, atol=ALLOWED):
            return kernel
    return default


def resized_rows(rows: Tensor, prefix: int, grid: Sequence[int], to: Sequence[int], kernel: Kernel) -> Tensor:
    """Rows of a table, resampled to another grid; the first ``prefix`` rows are copied."""
    first, rest = rows[:prefix], rows[prefix:].unflatten(0, tuple(grid))
    new = resample(rest, to, method=kernel.method, antialias=kernel.antialias)
    return torch.cat([first, new.flatten(0, 1).to(rows.dtype)])


def new_images(tables: Sequence[ImageTable], image: Sequence[int]) -> list[tuple[int, int]]:
    """Image sizes of the stages of a model: each reads the patches of the stage before.

    Args:
        tables: The tables of the model.
        image: Height and width of the model's image.

    Returns:
        Height and width for each table.

    Raises:
        ValueError: If a side is no multiple of the strides.
    """
    steps = [math.prod(int(table.conv.stride[axis]) for table in tables) for axis in (0, 1)]
    if any(side < step or side % step for side, step in zip(image, steps, strict=True)):
        raise ValueError(
            f"an image is a multiple of the model's patches of {steps[0]} x {steps[1]} pixels; got "
            f"image={tuple(image)}. Take image={max(round(image[0] / steps[0]), 1) * steps[0]}, for example."
        )
    images = [(int(image[0]), int(image[1]))]
    for table in tables[:-1]:
        images.append(grid_of(table.conv, images[-1]))
    return images


def write_tables(
    model: nn.Module,
    tables: Sequence[ImageTable],
    images: Sequence[tuple[int, int]],
    rows: Sequence[Tensor],
    trained: Sequence[bool],
) -> None:
    """Write rows for other image sizes into the tables of a model, after a test on copies of its modules.

    Args:
        model: The model. Its configuration follows.
        tables: Its tables.
        images: Height and width for each table.
        rows: Rows ``(rows, width)`` for each table.
        trained: For each table whether it is trained afterwards.

    Raises:
        ValueError: If the model cannot have such images. It is unchanged then.
    """
    kind = type(model).__name__
    for table, image, new in zip(tables, images, rows, strict=True):
        probe = copy.deepcopy(table.place)
        other = _within(table, probe, image)
        _set_images(other.configs, tables[0].image, images[0])
        _write(table, other, new.clone(), trained=True)
        if not _adds(other, probe):
            raise ValueError(
                f"{type(table.place).__name__} of {kind} does not take a table for images of {image[0]} x {image[1]} "
                "pixels" + (", but for squares only." if image[0] != image[1] else ".")
            )
    configs = {id(each): each for table in tables for each in table.configs}
    for module in model.modules():
        config = getattr(module, "config", None)
        if config is not None and any(table.place is each for table in tables for each in module.modules()):
            configs[id(config)] = config
    saved = (module for module in model.modules() if hasattr(type(module), "save_pretrained"))
    saved = next((module for module in saved if any(tables[0].place is each for each in module.modules())), None)
    if saved is not None and images[0] != tables[0].image:
        _refuse_other_shapes(saved, tables, list(configs.values()), images[0])
    _set_images(configs.values(), tables[0].image, images[0])
    for table, image, new, train in zip(tables, images, rows, trained, strict=True):
        _write(table, _within(table, table.place, image), new, trained=train)


def _children(module: object) -> list[nn.Module]:
    return list(module.children()) if isinstance(module, nn.Module) else []


def _is_table(found: object) -> bool:
    if isinstance(found, nn.Parameter):
        return found.dim() == 3 and len(found) == 1
    return isinstance(found, nn.Embedding)


def _image_of(place: Any, patches: Any, model: Any) -> tuple[int, int] | None:
    configs = [getattr(module, "config", None) for module in (place, patches, model)]
    for owner in (place, patches, *configs):
        size = getattr(owner, "image_size", None)
        if size is not None:
            return sides_of(size)
    return None


def sides_of(size: Any) -> tuple[int, int]:
    """Height and width of an image size, which is a number or both."""
    rows, columns = size if isinstance(size, tuple | list) else (size, size)
    return int(rows), int(columns)


def _within(table: ImageTable, place: Any, image: tuple[int, int]) -> ImageTable:
    """The table in a copy of its module, for another image size."""
    patches = place if table.patches is table.place else next(getattr(place, n) for n in PATCHES if hasattr(place, n))
    conv = next(each for each in (patches, *_children(patches)) if isinstance(each, nn.Conv2d))
    return ImageTable(place, table.name, patches, conv, image, table.path)


def _write(old: ImageTable, new: ImageTable, rows: Tensor, *, trained: bool) -> None:
    """Write rows, and follow with what the modules state of the image size."""
    place, count = new.place, len(new.rows)
    if isinstance(found := getattr(place, new.name), nn.Embedding):
        found.weight = nn.Parameter(rows, requires_grad=trained)
        found.num_embeddings = len(rows)
    else:
        setattr(place, new.name, nn.Parameter(rows[None], requires_grad=trained))
    ids = getattr(place, "position_ids", None)
    if isinstance(ids, Tensor) and ids.shape[-1] == count:
        place.position_ids = torch.arange(len(rows), device=ids.device).expand(1, -1)
    stated = {"num_patches": math.prod(new.grid), "num_positions": len(rows)}
    for module in (place, new.patches):
        for name, value in stated.items():
            if hasattr(module, name):
                setattr(module, name, value)
        for name in ("grid_size", "patch_grid"):
            if hasattr(module, name):
                setattr(module, name, new.grid)
    _set_images([place, new.patches], None, new.image)


def _set_images(owners: Any, old: tuple[int, int] | None, image: tuple[int, int]) -> None:
    """Set ``image_size`` of owners that state one, or that state the old one, as a number or as both sides."""
    for owner in owners:
        size = getattr(owner, "image_size", None)
        if size is None or (old is not None and sides_of(size) != old):
            continue
        if isinstance(size, list | tuple):
            owner.image_size = type(size)(image)
        else:
            owner.image_size = image[0] if image[0] == image[1] else image


def _added(
    table: ImageTable, probe: Any, rows: Tensor, image: Sequence[int], *, interpolate: bool = False
) -> Tensor | None:
    """Rows that are not zero among those that a copy of a module adds to tokens with this table; None if it fails."""
    try:
        zero, full = (_tokens(table, probe, values, image, None, interpolate) for values in (rows * 0, rows))
    except STRANGE:
        return None
    added = full - zero
    return added[added.abs().amax(-1) > 0]


def _adds(table: ImageTable, probe: Any) -> bool:
    """True if a copy of a module adds row i to token i, and the last tokens are the patches in row-major order."""
    random = torch.randn(len(table.rows), table.rows.shape[1], generator=torch.Generator().manual_seed(0))
    added = _added(table, probe, random, table.image)
    if table.prefix < 0 or added is None or added.shape != random.shape:
        return False
    count, column = math.prod(table.grid), table.grid[1] - 1
    plain, changed = (_tokens(table, probe, random, table.image, at) for at in (None, column))
    tokens = (plain - changed).abs().amax(-1).nonzero().flatten().tolist()
    return torch.allclose(added, random, atol=ALLOWED) and tokens == [len(plain) - count + column]


def _tokens(
    table: ImageTable,
    probe: Any,
    rows: Tensor,
    image: Sequence[int],
    column: int | None,
    interpolate: bool = False,
) -> Tensor:
    """Tokens ``(N, width)`` that a copy of a module makes of a black image, or of one with a white patch on top."""
    at = _within(table, probe.float().eval().cpu(), table.image)
    with torch.no_grad():
        at.conv.weight.fill_(0.1)
        at.weight.copy_(rows.view_as(at.weight))
        picture = torch.zeros(1, at.conv.in_channels, *image)
        if column is not None:
            step = at.conv.stride[1]
            picture[..., : at.conv.stride[0], column * step : (column + 1) * step] = torch.rand(step)
        asked = interpolate and "interpolate_pos_encoding" in inspect.signature(probe.forward).parameters
        made = probe(picture, interpolate_pos_encoding=True) if asked else probe(picture)
    tokens = made if isinstance(made, Tensor) else made[0]
    if tokens.dim() != 3 or len(tokens) != 1:
        raise ValueError("no tokens of one image")
    return tokens[0]


def _refuse_other_shapes(
    model: Any, tables: Sequence[ImageTable], configs: Sequence[Any], image: tuple[int, int]
) -> None:
    """Refuse a model whose class, built for images of that size, has other shapes than this one will have."""
    copies: dict[int, Any] = {}
    config = copy.deepcopy(model.config, copies)
    _set_images((copies.get(id(each)) for each in configs), tables[0].image, image)
    try:
        with torch.device("meta"):
            built = type(model)(config)
    except STRANGE as error:
        raise ValueError(
            f"{type(model).__name__} cannot be built for images of {image[0]} x {image[1]} pixels ({error})."
        ) from error
    before, ours = dict(model.named_parameters()), {id(table.weight) for table in tables}
    for name, parameter in built.named_parameters():
        if name in before and id(before[name]) not in ours and before[name].shape != parameter.shape:
            raise ValueError(
                f"{type(model).__name__} also has {name} for its image size, {tuple(before[name].shape)}, which would "
                f"be {tuple(parameter.shape)}. Build the model for images of {image[0]} x {image[1]} pixels."
            )
