"""The ``rope`` of timm's vision models (EVA-02, DINOv3, RoPE ViTs): read as a scheme, and replaced by one.

The model asks it for sines and cosines of a grid of patches. Positions are rows and columns, shifted or scaled to a
reference grid, or centers of equal cells.
"""

from __future__ import annotations

import copy
import math
import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from posenc.adapt.compatibility import STRANGE
from posenc.adapt.rotation_layout import NEAR, SHAPES, RotationLayout, keep_span, refuse_other_rotation
from posenc.positions import Positions, grid
from posenc.scheme import Scheme
from posenc.schemes.axial_rope import AxialRoPE


class PatchPositions(NamedTuple):
    """Positions of patches: rows and columns ``(i + offset) / h * reference``, or centers of cells of [-span, span].

    Attributes:
        span: Half the extent of a centered grid, or None for rows and columns.
        offset: Number that is added to rows and columns.
        reference: Height and width of the grid to which rows and columns are scaled, or None.
        augment: The model's function that moves coordinates at random while it is trained, in its own unit.
    """

    span: float | None = None
    offset: float = 0.0
    reference: tuple[int, int] | None = None
    augment: Callable[[Tensor], Tensor] | None = None

    def grid(self, shape: Sequence[int], device: torch.device | None = None, *, training: bool = False) -> Positions:
        """Positions of a grid of patches.

        Args:
            shape: Patches on each side.
            device: Device of the coordinates.
            training: True if they may be moved at random.

        Returns:
            Positions of h w patches.
        """
        pos = grid(*shape, span=self.span, device=device)
        coords, unit = pos.coords, self.span or 1.0
        if self.span is None and (self.offset or self.reference):
            scale = [r / n for r, n in zip(self.reference or shape, shape, strict=True)]
            coords = (coords + self.offset).double() * coords.new_tensor(scale, dtype=torch.float64)
        if training and self.augment is not None:
            coords = self.augment((coords / unit).float()) * unit
        return pos if coords is pos.coords else Positions(coords, lattice=pos.lattice)


class TimmRotary(nn.Module):
    """A ``rope`` of timm that computes sines and cosines of a scheme.

    Args:
        scheme: A scheme that rotates queries and keys.
        layout: Width and number of heads, and channels that rotate together.
        positions: Positions of the patches.
        layers: Number of blocks of the model.
        own: Positions of the patches in the model before any change.
        feat_shape: Patches on each side, for a model that asks for one grid without its shape; None for another one.
    """

    device_source: Tensor

    def __init__(
        self,
        scheme: Scheme,
        layout: RotationLayout,
        positions: PatchPositions,
        layers: int,
        *,
        own: PatchPositions,
        feat_shape: Sequence[int] | None,
    ) -> None:
        super().__init__()
        self.scheme, self.layout, self.positions, self.layers, self.own = scheme, layout, positions, layers, own
        self.feat_shape = feat_shape
        self.register_buffer("device_source", torch.empty(0), persistent=False)  # a scheme may have no tensor

    def update_feat_shape(self, feat_shape: Sequence[int]) -> None:
        """Take another grid of patches, for a model that keeps one.

        Args:
            feat_shape: Patches on each side.
        """
        if self.feat_shape is not None:
            self.feat_shape = feat_shape

    def get_embed(self, shape: Sequence[int] | None = None, dtype: torch.dtype | None = None) -> Tensor:
        """Compute sines and cosines ``(N, 2 d)``, or ``(layers, H, N, 2 d)`` if they differ by head.

        Args:
            shape: Patches on each side. Default: the grid that the model keeps.
            dtype: Dtype of the result. Default: float32.

        Returns:
            Sines and cosines of each channel.

        Raises:
            ValueError: If no grid is given and none is kept.
        """
        shape = self.feat_shape if shape is None else shape
        if shape is None:
            raise ValueError("this model keeps no grid of patches. Pass the shape: get_embed((14, 14)).")
        pos = self.positions.grid(shape, self.device_source.device, training=self.training)
        cos, sin = self.layout.cos_sin(self.scheme, pos)
        both = torch.cat([sin, cos], -1).to(dtype or torch.float32)
        return both if both.dim() == 2 else both.expand(self.layers, *both.shape)


def replace_timm(place: Any, scheme: Scheme, given: PatchPositions | None) -> None:
    """Replace the rotation of a model of timm; errors as for ``replace_grid_rotation``.

    Args:
        place: The part of the model that has ``rope``.
        scheme: The scheme.
        given: Positions of the patches. Default: those of the model.

    Raises:
        ValueError: As for ``replace_grid_rotation``.
    """
    old = timm_rotary(place)
    positions = old.own if given is None else given
    refuse_other_rotation(scheme, old.layout, positions.grid)
    rotary = TimmRotary(scheme, old.layout, positions, old.layers, own=old.own, feat_shape=old.feat_shape)
    if given is not None:
        keep_span(rotary, given.span)
    place.rope = rotary.to(next(place.parameters()).device).train(place.training)
    place.rope_mixed = scheme.claims.per_head  # then the model takes one table for each block


def is_timm(module: Any) -> bool:
    """True for a part of a model of timm that rotates by its ``rope`` on one grid of patches."""
    return hasattr(getattr(module, "rope", None), "get_embed") and hasattr(module, "dynamic_img_size")


def timm_rotary(place: Any) -> TimmRotary:
    """The rotation of a model, compared with its sines and cosines.

    Args:
        place: The part of the model that has ``rope``.

    Returns:
        A module with the scheme of the same rotation.

    Raises:
        ValueError: If the model rotates otherwise.
    """
    own = place.rope
    if isinstance(own, TimmRotary):
        return own
    kind = type(own).__name__
    if getattr(place, "rope_mixed", False):
        raise ValueError(
            f"the {kind} of this {type(place).__name__} is trained and differs by layer; one rotation for all layers "
            "is read and replaced here."
        )
    try:
        attentions = [block.attn for block in place.blocks]
        heads = attentions[0].num_heads
        layouts = {bool(getattr(each, "rotate_half", False)) for each in attentions}
        layout = RotationLayout(int(own.dim), heads, "half" if layouts == {True} else "interleaved")
        scheme, positions = _scheme(own, layout), _positions(own)
        kept = getattr(own, "feat_shape", None)
        rotary = TimmRotary(scheme, layout, positions, len(attentions), own=positions, feat_shape=kept).eval()
        same = len(layouts) == 1
        fresh = copy.deepcopy(own).cpu().eval()
        for shape in SHAPES:
            theirs, ours = _sines(fresh, shape), rotary.get_embed(shape)
            allowed = max(NEAR, torch.finfo(theirs.dtype).eps)  # a cast model rounds those that it keeps
            same &= theirs.shape == ours.shape and torch.allclose(theirs.float(), ours, atol=allowed)
    except STRANGE as error:
        raise ValueError(f"the {kind} of this {type(place).__name__} is not of a known kind ({error}).") from error
    if not same:
        raise ValueError(f"the {kind} of this {type(place).__name__} is not an axial rotation of posenc.")
    return rotary


def _sines(own: Any, shape: tuple[int, int]) -> Tensor:
    """Sines and cosines of a module of timm for a grid, whether it keeps those of one grid or not."""
    if getattr(own, "feat_shape", None) is None:
        return own.get_embed(list(shape))
    own.update_feat_shape(list(shape))
    return own.get_embed()


def _scheme(own: Any, layout: RotationLayout) -> AxialRoPE:
    """The axial rotation whose frequencies are those of a module of timm."""
    order = (1, 0) if own.grid_indexing == "xy" else None
    return AxialRoPE(layout.head_dim, base=float(own.temperature), order=order, pairing=layout.pairing)


def _positions(own: Any) -> PatchPositions:
    centered = hasattr(own, "periods")
    reference = getattr(own, "ref_feat_shape", None)
    if centered and (own.grid_offset or own.normalize_coords != "separate"):
        raise ValueError("its centered grid is shifted, or has one scale for both axes")
    return PatchPositions(
        span=2 * math.pi if centered else None,
        offset=0.0 if centered else float(own.grid_offset),
        reference=None if reference is None else (int(reference[0]), int(reference[1])),
        augment=_augmentation(own),
    )


def _augmentation(own: Any) -> Callable[[Tensor], Tensor] | None:
    """The model's function for random coordinates in training, with its own sizes."""
    function = vars(sys.modules[type(own).__module__]).get("_apply_coord_augs")
    if function is None or not getattr(own, "aug_active", False):
        return None
    sizes = {name: getattr(own, name) for name in ("shift_coords", "jitter_coords", "rescale_coords")}
    return partial(function, **sizes)
