"""Rotary embeddings of DINOv3's kind in transformers: a module ``rope_embeddings`` that reads the images.

Pairs of channels are (i, i + d/2), the first half of the pairs belongs to rows, and positions are ``grid(h, w, span=2
pi)``.
"""

from __future__ import annotations

import copy
import math
import sys
from collections.abc import Callable
from functools import partial
from typing import Any, NoReturn

import torch
from torch import Tensor, nn
from typing_extensions import override

from posenc.adapt.compatibility import STRANGE
from posenc.adapt.image_tables import sides_of
from posenc.adapt.rotary_embedding import own_application
from posenc.adapt.rotation_layout import NEAR, SHAPES, RotationLayout, keep_span, refuse_other_rotation
from posenc.positions import Positions, grid
from posenc.scheme import Scheme
from posenc.schemes.axial_rope import AxialRoPE

SPAN = 2 * math.pi
"""Half the extent of the positions of DINOv3."""


class GridRotary(nn.Module):
    """A ``rope_embeddings`` that computes the cosines and sines ``(N, d)`` or ``(H, N, d)`` of a scheme for N patches.

    Args:
        scheme: A scheme that rotates the pairs (i, i + d/2) of queries and keys.
        layout: Width and number of the heads.
        patch: Height and width of a patch in pixels.
        span: Half the extent of the positions of patches, or None for rows and columns.
        augment: The model's function that shifts and scales coordinates in [-1, 1] while it is trained.
    """

    def __init__(
        self,
        scheme: Scheme,
        layout: RotationLayout,
        patch: tuple[int, int],
        span: float | None,
        augment: Callable[[Tensor], Tensor] | None,
    ) -> None:
        super().__init__()
        self.scheme, self.layout, self.patch, self.span, self.augment = scheme, layout, patch, span, augment

    @override
    def forward(self, pixel_values: Tensor) -> tuple[Tensor, Tensor]:
        shape = [int(side) // step for side, step in zip(pixel_values.shape[-2:], self.patch, strict=True)]
        pos = grid(*shape, span=self.span, device=pixel_values.device)
        if self.training and self.augment is not None and self.span is not None:
            moved = self.augment((pos.coords / self.span).float()) * self.span
            pos = Positions(moved, lattice=pos.lattice)
        cos, sin = self.layout.cos_sin(self.scheme, pos)
        return cos.to(pixel_values.dtype), sin.to(pixel_values.dtype)


def replace_dinov3(model: nn.Module, place: Any, scheme: Scheme, span: float | None) -> None:
    """Replace the rotation of a model of transformers; arguments as for ``replace_grid_rotation``.

    Args:
        model: The model.
        place: The part of it that has ``rope_embeddings``.
        scheme: The scheme.
        span: Half the extent of the positions, or None for rows and columns.

    Raises:
        ValueError: As for ``replace_grid_rotation``.
    """
    own = dinov3_rotary(model, place)
    refuse_other_rotation(scheme, own.layout, lambda shape: grid(*shape, span=span))
    rotary = GridRotary(scheme, own.layout, own.patch, span, own.augment)
    if span != SPAN:
        keep_span(rotary, span)
    rotary.to(next(place.parameters()).device).train(place.training)
    base = _base(scheme, own.layout.head_dim) if span == SPAN else None
    for module in model.modules():
        if hasattr(type(module), "save_pretrained") and any(place is each for each in module.modules()):
            vars(module).pop("save_pretrained", None)
            if base is None:
                vars(module)["save_pretrained"] = partial(_refuse_saving, type(scheme).__name__, span)
    if base is not None:
        place.config.rope_theta = base
    place.rope_embeddings = rotary


def dinov3_rotary(model: nn.Module, place: Any) -> GridRotary:
    """The rotation of a model, compared with its cosines and sines and with what its attention does with them.

    Args:
        model: The model.
        place: The part of it that has ``rope_embeddings``.

    Returns:
        A module with the scheme of the same rotation.

    Raises:
        ValueError: If the model rotates otherwise.
    """
    own = place.rope_embeddings
    if isinstance(own, GridRotary):
        return own
    try:
        config, patch = place.config, sides_of(place.config.patch_size)
        head_dim = config.hidden_size // config.num_attention_heads
        scheme = AxialRoPE(head_dim, base=float(config.rope_theta), pairing="half")
        layout = RotationLayout(head_dim, int(config.num_attention_heads), "half")
        rotary = GridRotary(scheme, layout, patch, SPAN, _augmentation(own, config))
        same = _applies_halves(place, layout)
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


def _applies_halves(place: Any, layout: RotationLayout) -> bool:
    """True if the model's ``apply_rotary_pos_emb`` rotates the pairs (i, i + d/2) of the last tokens."""
    generator = torch.Generator().manual_seed(0)
    q, k = torch.randn(2, 1, 1, 4, layout.head_dim, generator=generator)
    angle = torch.rand(3, layout.head_dim // 2, generator=generator).tile(2)
    rotate = own_application(place)
    if rotate is None:
        return False
    cos, sin = angle.cos(), angle.sin()
    turned = rotate(q, k, cos, sin)
    return all(torch.allclose(layout.rotate(x, cos, sin), y, atol=NEAR) for x, y in zip((q, k), turned, strict=True))


def _augmentation(own: nn.Module, config: Any) -> Callable[[Tensor], Tensor] | None:
    """The model's function for random coordinates in training, with the values of its configuration."""
    function = vars(sys.modules[type(own).__module__]).get("augment_patches_center_coordinates")
    if function is None:
        return None
    names = ("shift", "jitter", "rescale")
    return partial(function, **{name: getattr(config, f"pos_embed_{name}", None) for name in names})


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


def _refuse_saving(name: str, span: float | None, *_: object, **__: object) -> NoReturn:
    stated = "" if span == SPAN else f", span={span}"
    raise ValueError(
        f"config.json cannot hold the {name} of this model. Save model.state_dict(); to load it, build the model, call "
        f"posenc.adapt.replace_grid_rotation(model, {name}(..){stated}) and then model.load_state_dict(..)."
    )
