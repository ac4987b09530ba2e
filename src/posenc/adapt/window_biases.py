"""Relative position biases of models with windows, such as Swin, Swin V2 and BEiT: read, resize, replace.

The bias is a table of offsets inside a window (Swin, BEiT) or an MLP of offsets (Swin V2). Both are found by the names
that transformers and timm give them. BEiT's window is the whole image, and its table has three more rows for the class
token, which stay.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import torch
from torch import Tensor, nn

from posenc.adapt.compatibility import refuse_no_model, refuse_no_values, refuse_sites
from posenc.adapt.image_tables import image_tables, own_kernel, resized_rows, sides_of
from posenc.positions import grid
from posenc.scheme import Scheme
from posenc.schemes.log_cpb import LogCPB
from posenc.schemes.swin_bias import SwinBias
from posenc.whole_numbers import are_whole

Model = TypeVar("Model", bound=nn.Module)
TABLE = "relative_position_bias_table"
BIAS = "SwinBias(4, window=(7, 7))"
NETWORKS = ("continuous_position_bias_mlp", "cpb_mlp")
STATED = (
    "window_size", "window_area", "shift_size", "input_resolution", "pretrained_window_size", "grid_size", "patch_grid",
    "image_size", "num_patches", "num_relative_distance",
)  # fmt: skip
"""Attributes of modules that state the size of windows and images."""


class _WindowBias(NamedTuple):
    """A module with a bias of a window: its path in the model, the window, and the MLP of Swin V2."""

    path: str
    module: Any
    window: tuple[int, int]
    network: Any

    @property
    def table(self) -> Tensor:
        return getattr(self.module, TABLE).detach()

    @property
    def beyond(self) -> int:
        """Number of rows after those of offsets, which are for a class token."""
        return len(self.table) - _offsets(self.window)


def window_biases(model: nn.Module) -> list[SwinBias | LogCPB]:
    """Read the relative position biases of a model with windows.

    Args:
        model: A Swin, Swin V2, Donut or BEiT model of transformers, or a Swin, Swin V2 or BEiT of timm.

    Returns:
        A scheme for each attention in the order of the layers, with copies of the weights: ``SwinBias`` for a table of
        offsets, ``LogCPB(literal=True)`` for an MLP. Its positions are those inside a window.

    Raises:
        ValueError: If the model has no such bias.

    Example:
        >>> import torch
        >>> from posenc.adapt import window_biases
        >>> attention = torch.nn.Module()  # stands for an attention of Swin
        >>> attention.window_size = (7, 7)
        >>> attention.relative_position_bias_table = torch.nn.Parameter(torch.zeros(169, 3))
        >>> [scheme.window for scheme in window_biases(torch.nn.Sequential(attention))]
        [(7, 7)]

    References:
        Liu et al. 2021, arXiv 2103.14030, eq. 4 (Swin).
        Liu et al. 2022, arXiv 2111.09883, eqs. 3 and 4 (Swin V2).
    """
    return [_read(bias) for bias in _find(model, "window_biases")]


def resize_windows(model: Model, window: int | None = None, *, image: int | tuple[int, int] | None = None) -> Model:
    """Give a Swin, Swin V2 or BEiT model of transformers other windows, in place.

    Tables of Swin are interpolated by the cubic kernel without antialiasing, as by its authors. The MLP of Swin V2
    computes biases for the new offsets and keeps the scale of the window that it was trained with. The window of BEiT
    is the image. Its tables are interpolated by the linear kernel, as the model does itself, and its table of absolute
    positions by the model's own kernel. The configuration follows, so ``save_pretrained`` and ``from_pretrained`` give
    the same model without posenc.

    Args:
        model: The model.
        window: Patches on a side of the new windows. Default: as they are. BEiT has none.
        image: Height and width of the images in pixels; one number for squares. Default: the model's image size.

    Returns:
        The same model.

    Raises:
        ValueError: If the model has no such bias or is none of transformers; if neither size is given; or if the last
            stage of the model has fewer patches than a window.

    Example:
        >>> import torch
        >>> from posenc.adapt import resize_windows
        >>> try:  # resize_windows(SwinModel.from_pretrained(..), 12, image=384)
        ...     resize_windows(torch.nn.Linear(2, 2), 12, image=384)
        ... except ValueError as error:
        ...     print(error)
        Linear has no relative position bias of windows.
    """
    found = _find(model, "resize_windows")
    config = _sized_config(model, found, window, image)
    with torch.random.fork_rng():
        built: nn.Module = type(model)(config)
    fresh = dict(built.named_modules())
    tables = {}
    for bias in found:
        to = sides_of(fresh[bias.path].window_size)
        if bias.network is None:
            method = "linear" if bias.beyond else "cubic"
            rows = _read_table(bias).resized(bias.window, to, method=method).table.detach().flip(0)
            tables[f"{bias.path}.{TABLE}"] = torch.cat([rows, bias.table[_offsets(bias.window) :]])
    _refuse_small_stages(model, fresh)
    tables |= _absolute_tables(model, found, fresh)
    ours = dict(model.named_parameters())
    for name, parameter in built.named_parameters():
        if name in ours and parameter.shape != tables.get(name, ours[name]).shape:
            raise ValueError(
                f"{type(model).__name__} also has {name} for its image size, {tuple(ours[name].shape)}, which would be "
                f"{tuple(parameter.shape)}. If this is a position table, write vision_transformer(model, image=..) and "
                "then resize_windows(model, window)."
            )
    for name in ("window_size", "image_size", "pretrained_window_sizes"):
        if hasattr(config, name):
            setattr(model.config, name, getattr(config, name))
    _copy_sizes(model, fresh)
    for name, rows in tables.items():
        path, _, last = name.rpartition(".")
        trained = ours[name].requires_grad
        setattr(model.get_submodule(path), last, nn.Parameter(rows, requires_grad=trained))
    return model


def replace_window_biases(model: Model, schemes: Sequence[Scheme] | Callable[[int], Scheme]) -> Model:
    """Write biases of schemes into the relative position biases of a model with windows, in place.

    A table of offsets gets the values of any scheme whose bias depends on offsets alone, such as ``SwinBias``,
    ``LogCPB`` or ``Sum`` of them. Tables of a scheme without parameters are not trained afterwards. The MLP of
    Swin V2 gets the weights of a ``LogCPB`` as ``window_biases`` returns it.

    Args:
        model: As for ``window_biases``.
        schemes: A scheme for each attention in the order of the layers, or a function ``layer -> scheme``. Each acts at
            "bias" alone.

    Returns:
        The same model.

    Raises:
        ValueError: If the model has no such bias; if there is not one scheme for each attention; or if a scheme acts
            elsewhere, depends on more than offsets, or does not fit the window or the heads. The model is unchanged
            then.

    Example:
        >>> import torch
        >>> from posenc import SwinBias
        >>> from posenc.adapt import replace_window_biases
        >>> attention = torch.nn.Module()  # stands for an attention of Swin
        >>> attention.window_size = (7, 7)
        >>> attention.relative_position_bias_table = torch.nn.Parameter(torch.zeros(169, 3))
        >>> model = replace_window_biases(torch.nn.Sequential(attention), lambda layer: SwinBias(3, window=(7, 7)))
        >>> bool(model[0].relative_position_bias_table.any())
        True
    """
    found = _find(model, "replace_window_biases")
    if isinstance(schemes, type | str) or not (isinstance(schemes, Scheme | Iterable) or callable(schemes)):
        got = f"the class {schemes.__name__}" if isinstance(schemes, type) else repr(schemes)
        raise ValueError(f"replace_window_biases takes schemes, as lambda layer: {BIAS}; got {got}.")
    if isinstance(schemes, Scheme):
        raise ValueError(
            f"{type(model).__name__} has a bias in each of {len(found)} attentions: pass a list with one for each, "
            f"or a function such as lambda layer: {type(schemes).__name__}(..)."
        )
    given = [schemes(layer) for layer in range(len(found))] if callable(schemes) else list(schemes)
    if len(given) != len(found):
        raise ValueError(f"{type(model).__name__} has {len(found)} attentions with windows; got {len(given)} schemes.")
    for scheme in given:
        refuse_sites(scheme, {"bias"}, f"{type(model).__name__} adds a bias to the logits of its windows", example=BIAS)
    tables = [_table(bias, scheme) for bias, scheme in zip(found, given, strict=True)]
    with torch.no_grad():
        for bias, scheme, table in zip(found, given, tables, strict=True):
            if table is not None:
                setattr(bias.module, TABLE, nn.Parameter(table, requires_grad=scheme.claims.learned))
                continue
            inner, offset, outer = (each.detach() for each in scheme.parameters())
            first, _, last = bias.network
            first.weight.copy_(-inner.mT)  # offsets are query minus key there
            first.bias.copy_(offset)
            last.weight.copy_(outer.mT)
    return model


def _find(model: nn.Module, caller: str) -> list[_WindowBias]:
    refuse_no_model(model, caller)
    refuse_no_values(model, caller)
    found = []
    for path, module in model.named_modules():
        window = getattr(module, "window_size", None)
        network = next((getattr(module, name) for name in NETWORKS if hasattr(module, name)), None)
        if window is not None and (network is not None or isinstance(getattr(module, TABLE, None), nn.Parameter)):
            found.append(_WindowBias(path, module, sides_of(window), network))
    if not found:
        raise ValueError(f"{type(model).__name__} has no relative position bias of windows.")
    return found


def _read(bias: _WindowBias) -> SwinBias | LogCPB:
    return _read_table(bias) if bias.network is None else _read_network(bias)


def _read_table(bias: _WindowBias) -> SwinBias:
    rows = bias.table[: _offsets(bias.window)].flip(0)  # rows count query minus key there, key minus query here
    scheme = SwinBias(rows.shape[1], bias.window).to(rows.device, rows.dtype)
    with torch.no_grad():
        scheme.table.copy_(rows)
    return scheme


def _read_network(bias: _WindowBias) -> LogCPB:
    first, _, last = bias.network
    made_for = sides_of(getattr(bias.module, "pretrained_window_size", 0))
    made_for = made_for if min(made_for) > 0 else bias.window
    scheme = LogCPB(last.out_features, bias.window, hidden=last.in_features, literal=True, made_for=made_for)
    scheme.to(first.weight.device, first.weight.dtype)
    with torch.no_grad():
        scheme.inner.copy_(-first.weight.mT)
        scheme.offset.copy_(first.bias)
        scheme.outer.copy_(last.weight.mT)
    return scheme


def _offsets(window: tuple[int, int]) -> int:
    return math.prod(2 * size - 1 for size in window)


def _table(bias: _WindowBias, scheme: Scheme) -> Tensor | None:
    """Biases of a scheme for all offsets of a window, query minus key, with the model's rows beyond them.

    None for an MLP; a scheme that is no such MLP is refused.
    """
    if bias.network is not None:
        _refuse_other_network(bias, scheme)
        return None
    heads, window, count = bias.table.shape[1], bias.window, math.prod(bias.window)
    name = type(scheme).__name__
    if scheme.bias_reads or scheme.head_count not in (None, 1, heads):
        raise ValueError(
            f"this model has a bias of {heads} heads that depends on offsets alone, and this {name} makes one of "
            f"{scheme.head_count or heads} heads" + (" from queries, keys or tokens." if scheme.bias_reads else ".")
        )
    own = next((t for t in (*scheme.parameters(), *scheme.buffers())), bias.table)
    pos, q = grid(*window).to(own.device), torch.zeros(1, heads, count, scheme.head_width or 8, device=own.device)
    where = scheme.prepare(pos)
    with torch.no_grad():
        made = scheme.bias(q, q, None, scheme.relate(where, where), None)
    assert made is not None, "a scheme that acts at bias has one"
    values = made.broadcast_to(1, heads, count, count)[0].flatten(1).mT.to(bias.table)
    between = pos.coords[:, None] - pos.coords[None] + torch.tensor(window, device=own.device) - 1
    rows = (between[..., 0] * (2 * window[1] - 1) + between[..., 1]).long().flatten().to(values.device)
    table = bias.table.clone()
    table[rows] = values
    if not torch.allclose(table[rows], values, atol=1e-5):
        raise ValueError(f"the bias of {name} depends on more than offsets, and a table of this model does not.")
    return table


def _refuse_other_network(bias: _WindowBias, scheme: Scheme) -> None:
    own, kinds = _read_network(bias), []
    for each in (own, scheme):
        shapes = [tuple(parameter.shape) for parameter in each.parameters()]
        kinds.append((type(each), getattr(each, "window", None), getattr(each, "made_for", None), shapes))
    if kinds[0] != kinds[1]:
        raise ValueError(
            f"this bias is an MLP. It takes LogCPB({own.heads}, {own.window}, hidden={own.inner.shape[1]}, "
            f"literal=True, made_for={own.made_for}), as window_biases returns it; got {type(scheme).__name__}."
        )


def _sized_config(
    model: Any, found: Sequence[_WindowBias], window: int | None, image: int | tuple[int, int] | None
) -> Any:
    """A copy of the model's configuration with other sizes."""
    kind, of_image = type(model).__name__, any(bias.network is None and bias.beyond for bias in found)
    if not hasattr(model, "save_pretrained") or not hasattr(model.config, "image_size"):
        raise ValueError(
            f"{kind} is no model of transformers with an image size. Pass the part of a larger model that has one. "
            "Models of timm resize themselves: model.set_input_size(img_size=.., window_size=..)."
        )
    if of_image and (window is not None or image is None):
        raise ValueError(f"the window of {kind} is the image: resize_windows(model, image=384).")
    if not of_image and not hasattr(model.config, "window_size"):
        raise ValueError(f"the configuration of {kind} has no window_size. Pass the part of the model that has one.")
    if window is None and image is None:
        raise ValueError("resize_windows takes a window, an image size or both: resize_windows(model, 12, image=384).")
    sides: list[int] = [] if image is None else list(image) if isinstance(image, tuple | list) else [image, image]
    if not are_whole(*sides, *(() if window is None else (window,)), least=1) or len(sides) not in (0, 2):
        raise ValueError(
            "a window is a positive whole number, an image size is one or (height, width); got "
            f"window={window!r}, image={image!r}."
        )
    if of_image and sides[0] != sides[1]:
        raise ValueError(f"{kind} reads its bias for squares only; got image={image!r}.")
    config = copy.deepcopy(model.config)
    if image is not None:
        config.image_size = sides[0] if sides[0] == sides[1] else tuple(sides)
    if window is not None:
        config.window_size = window
    if hasattr(config, "pretrained_window_sizes"):
        config.pretrained_window_sizes = _trained_windows(found)
    return config


def _absolute_tables(
    model: nn.Module, found: Sequence[_WindowBias], fresh: Mapping[str, nn.Module]
) -> dict[str, Tensor]:
    """Tables of absolute positions beside windows that are the image, by name, for the new image."""
    bias = found[0]
    to = sides_of(getattr(fresh[bias.path], "window_size", 0))
    if bias.network is not None or not bias.beyond or to == bias.window:
        return {}
    made = {}
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    for table in image_tables(model):
        rows = resized_rows(table.rows, table.prefix, table.grid, to, own_kernel(table))
        made[names[id(table.weight)]] = rows.view(*table.weight.shape[:-2], *rows.shape)
    return made


def _trained_windows(found: Sequence[_WindowBias]) -> list[int]:
    """For each stage of Swin V2 the window that its MLP was trained with."""
    windows: dict[str, int] = {}
    for bias in found:
        windows[bias.path.split(".blocks.")[0]] = (_read_network(bias).made_for or bias.window)[0]
    return list(windows.values())


def _refuse_small_stages(model: nn.Module, fresh: Mapping[str, nn.Module]) -> None:
    for path, module in fresh.items():
        patches, window = getattr(module, "input_resolution", None), getattr(module, "window_size", None)
        if patches is not None and window is not None and min(patches) < max(sides_of(window)):
            raise ValueError(
                f"{path} of {type(model).__name__} has {patches[0]} x {patches[1]} patches, fewer than its window of "
                f"{max(sides_of(window))}. Give a larger image too: resize_windows(model, 12, image=384)."
            )


def _copy_sizes(model: nn.Module, fresh: Mapping[str, nn.Module]) -> None:
    """Copy from a new model what modules state of sizes, with the buffers that depend on windows."""
    for path, module in model.named_modules():
        if path not in fresh:
            continue
        for name in STATED:
            if name in vars(module) and name in vars(fresh[path]):
                setattr(module, name, getattr(fresh[path], name))
        if hasattr(module, "window_size"):
            for name, buffer in list(module.named_buffers(recurse=False)):
                new = getattr(fresh[path], name).to(buffer.device)
                setattr(module, name, new.to(buffer.dtype))
