"""Rotary embeddings of vision models of DINOv3's kind, which rotate by the places of patches: read and replace.

Such a model has one module ``rope_embeddings`` that computes cosines and sines of the patches from the images. Pairs of
channels are (i, i + d/2), the first half of the pairs belongs to rows, and positions are ``grid(h, w, span=2 pi)``.
"""

from __future__ import annotations

import copy
import math
import sys
from collections.abc import Callable
from functools import partial
from typing import Any, NoReturn, TypeVar

import torch
from torch import Tensor, nn
from typing_extensions import override

from posenc.adapt.compatibility import STRANGE, refuse_no_model, refuse_no_values, refuse_sites
from posenc.adapt.image_tables import sides_of
from posenc.adapt.rotary_embedding import own_application
from posenc.positions import Positions, grid
from posenc.scheme import Scheme
from posenc.schemes.axial_rope import AxialRoPE

Model = TypeVar("Model", bound=nn.Module)
SPAN = 2 * math.pi
"""Half the extent of the positions of DINOv3."""
NEAR = 1e-4
"""Allowed difference between cosines and sines of a model, in float32, and those of a scheme."""
SHAPES = ((3, 5), (4, 4))
"""Grids of patches on which a model's rotation is measured."""


class GridRotary(nn.Module):
    """A ``rope_embeddings`` that computes the cosines and sines ``(N, d)`` or ``(H, N, d)`` of a scheme for N patches.

    Args:
        scheme: A scheme that rotates the pairs (i, i + d/2) of queries and keys.
        head_dim: Width d of a head.
        heads: Number of heads of the model.
        patch: Height and width of a patch in pixels.
        span: Half the extent of the positions of patches, or None for rows and columns.
        augment: The model's function that shifts and scales coordinates in [-1, 1] while it is trained.
    """

    def __init__(
        self,
        scheme: Scheme,
        head_dim: int,
        heads: int,
        patch: tuple[int, int],
        span: float | None,
        augment: Callable[[Tensor], Tensor] | None,
    ) -> None:
        super().__init__()
        self.scheme, self.head_dim, self.patch, self.span, self.augment = scheme, head_dim, patch, span, augment
        self.heads = heads if scheme.claims.per_head else 1

    @override
    def forward(self, pixel_values: Tensor) -> tuple[Tensor, Tensor]:
        shape = [int(side) // step for side, step in zip(pixel_values.shape[-2:], self.patch, strict=True)]
        pos = grid(*shape, span=self.span, device=pixel_values.device)
        if self.training and self.augment is not None and self.span is not None:
            moved = self.augment((pos.coords / self.span).float()) * self.span
            pos = Positions(moved, lattice=pos.lattice)
        where, half = self.scheme.prepare(pos), self.head_dim // 2
        # a head with 1 in the first channel of each pair and 0 in the second becomes (cos, sin)
        probe = torch.cat([torch.ones(half), torch.zeros(half)]).to(pixel_values.device)
        turned = self.scheme.transform(probe.expand(1, self.heads, pos.count, -1), where, "q")[0]
        cos, sin = (turned[0] if self.heads == 1 else turned).to(pixel_values.dtype).chunk(2, -1)
        return torch.cat([cos, cos], -1), torch.cat([sin, sin], -1)


def grid_rotation(model: nn.Module) -> Scheme:
    """Read the rotary embedding of a vision model of DINOv3's kind.

    Args:
        model: A model of transformers with a part ``rope_embeddings``, such as DINOv3ViT.

    Returns:
        ``AxialRoPE``, or the scheme that ``replace_grid_rotation`` put there. Its positions for h x w patches are
        ``grid(h, w, span=2 * math.pi)``. The model's cosines and sines were compared with it.

    Raises:
        ValueError: If the model has no such part, or rotates otherwise.

    Example:
        >>> import torch
        >>> from posenc.adapt import grid_rotation
        >>> try:  # grid_rotation(DINOv3ViTModel.from_pretrained(..)) is AxialRoPE(64, base=100.0, pairing="half")
        ...     grid_rotation(torch.nn.Linear(2, 2))
        ... except ValueError as error:
        ...     print(error)
        Linear has no part called `rope_embeddings`, so this is not a model of DINOv3's kind.

    References:
        Simeoni et al. 2025, arXiv 2508.10104, section 3.2 (DINOv3).
    """
    place = _place(model, "grid_rotation")
    return _own_rotary(model, place).scheme


def replace_grid_rotation(model: Model, scheme: Scheme, *, span: float | None = SPAN) -> Model:
    """Replace the rotary embedding of a vision model of DINOv3's kind by a scheme, in place.

    ``AxialRoPE(head_dim, base=.., pairing="half")`` is written into the configuration, so ``save_pretrained`` and
    ``from_pretrained`` give the same model without posenc. A configuration cannot hold other rotations: then
    ``save_pretrained`` raises an error which says how the model is saved.

    Args:
        model: As for ``grid_rotation``.
        scheme: A scheme that rotates the pairs of channels (i, i + d/2) of queries and keys, as ``MixedRoPE(head_dim,
            heads, pairing="half")``; on two axes.
        span: Half the extent of the positions on each axis, whatever the size of the image. None: positions are rows
            and columns of patches, from 0. Default: ``2 * math.pi``, as in DINOv3. Random shifts and scales of the
            model while it is trained stay, except for rows and columns.

    Returns:
        The same model.

    Raises:
        ValueError: If the model has no such part or rotates otherwise, or if the scheme does something else to queries
            and keys. The model is unchanged then.

    Example:
        >>> import torch
        >>> from posenc import AxialRoPE
        >>> from posenc.adapt import replace_grid_rotation
        >>> try:  # replace_grid_rotation(DINOv3ViTModel.from_pretrained(..), AxialRoPE(64, base=50.0, pairing="half"))
        ...     replace_grid_rotation(torch.nn.Linear(2, 2), AxialRoPE(64, base=50.0, pairing="half"))
        ... except ValueError as error:
        ...     print(error)
        Linear has no part called `rope_embeddings`, so this is not a model of DINOv3's kind.
    """
    place = _place(model, "replace_grid_rotation")
    refuse_sites(scheme, {"q", "k"}, "a model of DINOv3's kind rotates q and k")
    own = _own_rotary(model, place)
    rotary = GridRotary(scheme, own.head_dim, _heads(place), own.patch, span, own.augment)
    _refuse_other_turns(rotary)
    rotary.to(next(place.parameters()).device).train(place.training)
    base = _base(scheme, own.head_dim) if span == SPAN else None
    for module in model.modules():
        if hasattr(type(module), "save_pretrained") and any(place is each for each in module.modules()):
            vars(module).pop("save_pretrained", None)
            if base is None:
                vars(module)["save_pretrained"] = partial(_refuse_saving, type(scheme).__name__)
    if base is not None:
        place.config.rope_theta = base
    place.rope_embeddings = rotary
    return model


def _place(model: nn.Module, caller: str) -> Any:
    refuse_no_model(model, caller)
    refuse_no_values(model, caller)
    found = [each for each in model.modules() if isinstance(getattr(each, "rope_embeddings", None), nn.Module)]
    if len(found) != 1:
        raise ValueError(
            f"{type(model).__name__} has "
            + (f"{len(found)} parts" if found else "no part")
            + " called `rope_embeddings`, so this is not a model of DINOv3's kind."
        )
    return found[0]


def _heads(place: Any) -> int:
    return int(place.config.num_attention_heads)


def _own_rotary(model: nn.Module, place: Any) -> GridRotary:
    """The rotation of a model, compared with its cosines and sines and with what its attention does with them."""
    own = place.rope_embeddings
    if isinstance(own, GridRotary):
        return own
    try:
        config, patch = place.config, sides_of(place.config.patch_size)
        head_dim = config.hidden_size // config.num_attention_heads
        scheme = AxialRoPE(head_dim, base=float(config.rope_theta), pairing="half")
        rotary = GridRotary(scheme, head_dim, _heads(place), patch, SPAN, _augmentation(own, config))
        same = _applies_halves(place, head_dim)
        kept = [torch.finfo(buffer.dtype).eps for buffer in own.buffers()]  # a cast model rounds its frequencies
        allowed = max([NEAR, *(2 * SPAN * eps for eps in kept)])
        for shape in SHAPES:
            picture = torch.zeros(1, 3, *(n * step for n, step in zip(shape, patch, strict=True)))
            theirs, ours = copy.deepcopy(own).cpu().eval()(picture), rotary.eval()(picture)
            pairs = zip(theirs, ours, strict=True)
            same &= all(a.shape == b.shape and torch.allclose(a, b, atol=allowed) for a, b in pairs)
    except STRANGE as error:
        raise ValueError(
            f"the `rope_embeddings` of {type(model).__name__} is not of DINOv3's kind ({error})."
        ) from error
    if not same:
        raise ValueError(
            f"the `rope_embeddings` of {type(model).__name__} rotates otherwise than its configuration describes."
        )
    return rotary


def _applies_halves(place: Any, head_dim: int) -> bool:
    """True if the model's ``apply_rotary_pos_emb`` rotates the pairs (i, i + d/2) of the last tokens."""
    generator = torch.Generator().manual_seed(0)
    q, k = torch.randn(2, 1, 1, 4, head_dim, generator=generator)
    angle = torch.rand(3, head_dim // 2, generator=generator).tile(2)
    rotate = own_application(place)
    if rotate is None:
        return False
    turned = rotate(q, k, angle.cos(), angle.sin())
    return all(torch.allclose(_turned(x, angle), y, atol=NEAR) for x, y in zip((q, k), turned, strict=True))


def _turned(x: Tensor, angle: Tensor) -> Tensor:
    """Heads whose last tokens are rotated by angles in pairs (i, i + d/2)."""
    first, rest = x.split([x.shape[-2] - angle.shape[-2], angle.shape[-2]], -2)
    a, b = rest.chunk(2, -1)
    return torch.cat([first, rest * angle.cos() + torch.cat([-b, a], -1) * angle.sin()], -2)


def _augmentation(own: nn.Module, config: Any) -> Callable[[Tensor], Tensor] | None:
    """The model's function for random coordinates in training, with the values of its configuration."""
    function = vars(sys.modules[type(own).__module__]).get("augment_patches_center_coordinates")
    if function is None:
        return None
    names = ("shift", "jitter", "rescale")
    return partial(function, **{name: getattr(config, f"pos_embed_{name}", None) for name in names})


def _refuse_other_turns(rotary: GridRotary) -> None:
    """Refuse a scheme whose map of queries or keys is not the rotation that a model makes of cosines and sines."""
    scheme, width = rotary.scheme, rotary.head_dim
    name, (rows, columns) = type(scheme).__name__, SHAPES[0]
    own = next((t.device for t in (*scheme.parameters(), *scheme.buffers())), torch.device("cpu"))
    same = scheme.head_width in (None, width) and scheme.head_count in (None, 1, rotary.heads)
    if same:
        x = torch.randn(1, rotary.heads, rows * columns, width, generator=torch.Generator().manual_seed(0)).to(own)
        picture = torch.zeros(1, 3, rows * rotary.patch[0], columns * rotary.patch[1], device=own)
        with torch.no_grad():
            cos, sin = rotary.eval()(picture)
            where = scheme.prepare(grid(rows, columns, span=rotary.span, device=own))
            a, b = x.chunk(2, -1)
            turned = x * cos + torch.cat([-b, a], -1) * sin
            maps = [scheme.transform(x, where, "q"), scheme.transform(x, where, "k")]
        same = all(y.shape == turned.shape and torch.allclose(y, turned, atol=NEAR) for y in maps)
    if not same:
        raise ValueError(
            f"this model rotates channels i and i + {width // 2} of {width} in each head, and this {name} maps them "
            f'otherwise. Write AxialRoPE({width}, pairing="half") or MixedRoPE({width}, heads, pairing="half").'
        )


def _base(scheme: Scheme, head_dim: int) -> float | None:
    """The base of a scheme that the configuration can hold; None for any other scheme."""
    theta = getattr(scheme, "theta", None)
    if not isinstance(theta, tuple) or len(theta[0]) < 2:
        return None
    frequencies = theta[0]
    base = float(f"{frequencies[1] ** -len(frequencies):.9g}")
    wanted = AxialRoPE(head_dim, base=base, pairing="half")
    same = [getattr(scheme, name, None) for name in ("bands", "order")] == [wanted.bands, wanted.order]
    pairs = zip(sum(wanted.theta, ()), sum(theta, ()), strict=True)
    return base if same and all(math.isclose(a, b, rel_tol=1e-6) for a, b in pairs) else None


def _refuse_saving(name: str, *_: object, **__: object) -> NoReturn:
    raise ValueError(
        f"config.json cannot hold the {name} of this model. Save model.state_dict(); to load it, build the model, call "
        f"posenc.adapt.replace_grid_rotation(model, {name}(..)) and then model.load_state_dict(..)."
    )
