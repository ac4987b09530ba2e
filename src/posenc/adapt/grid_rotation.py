"""Rotary embeddings of vision models, which rotate by the positions of patches: read and replace.

transformers' DINOv3 has a module ``rope_embeddings``, timm's EVA-02, DINOv3 and RoPE ViTs a module ``rope``.
"""

from __future__ import annotations

import math
from typing import Any, Literal, TypeVar

from torch import nn

from posenc.adapt.compatibility import refuse_no_model, refuse_no_values, refuse_sites
from posenc.adapt.dinov3_rotation import SPAN, dinov3_rotary, replace_dinov3
from posenc.adapt.timm_rotation import PatchPositions, is_timm, replace_timm, timm_rotary
from posenc.scheme import Scheme

Model = TypeVar("Model", bound=nn.Module)


def grid_rotation(model: nn.Module) -> Scheme:
    """Read the rotary embedding of a vision model that rotates by the positions of patches.

    Args:
        model: A model of transformers with a part ``rope_embeddings``, such as DINOv3ViT, or of timm with a ``rope``,
            such as EVA-02, DINOv3 and RoPE ViTs.

    Returns:
        ``AxialRoPE``, or the scheme that ``replace_grid_rotation`` put there. The model's cosines and sines were
        compared with it. Its positions for h x w patches are ``grid(h, w, span=2 * math.pi)`` in DINOv3, and rows and
        columns in other models of timm, which EVA-02 scales to those of the images it was trained on.

    Raises:
        ValueError: If the model has no such part, or rotates otherwise.

    Example:
        >>> import torch
        >>> from posenc.adapt import grid_rotation
        >>> try:  # grid_rotation(DINOv3ViTModel.from_pretrained(..)) is AxialRoPE(64, base=100.0, pairing="half")
        ...     grid_rotation(torch.nn.Linear(2, 2))
        ... except ValueError as error:
        ...     print(error)
        Linear has no part called `rope_embeddings` or `rope` that rotates by the positions of patches.

    References:
        Simeoni et al. 2025, arXiv 2508.10104, section 3.2 (DINOv3).
        Fang et al. 2023, arXiv 2303.11331 (EVA-02).
    """
    place = _place(model, "grid_rotation")
    return (timm_rotary(place) if is_timm(place) else dinov3_rotary(model, place)).scheme


def replace_grid_rotation(model: Model, scheme: Scheme, *, span: float | Literal["own"] | None = "own") -> Model:
    """Replace the rotary embedding of a vision model by a scheme, in place.

    Into a model of transformers, ``AxialRoPE(head_dim, base=.., pairing="half")`` is written as the base of its
    configuration, so ``save_pretrained`` and ``from_pretrained`` give the same model without posenc. A configuration
    cannot hold other rotations: then ``save_pretrained`` raises an error which says how the model is saved. In a model
    of timm the scheme is a part of the model, with its parameters in the state dict.

    Args:
        model: As for ``grid_rotation``.
        scheme: A scheme that rotates the model's pairs of channels of queries and keys, on two axes; as ``MixedRoPE(
            head_dim, heads, pairing="half")`` in DINOv3, whose pairs are (i, i + d/2).
        span: Positions of the patches. Default "own": those of the model. A number: half the extent of the positions
            on each axis, whatever the size of the image. None: rows and columns of patches, from 0. Random shifts and
            scales of the model while it is trained stay with "own", and with a number in a model of transformers.

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
        Linear has no part called `rope_embeddings` or `rope` that rotates by the positions of patches.
    """
    place = _place(model, "replace_grid_rotation")
    refuse_sites(scheme, {"q", "k"}, "a vision model with a rotary embedding rotates q and k", example="AxialRoPE(64)")
    number = isinstance(span, int | float) and not isinstance(span, bool) and 0 < span < math.inf
    if not (number or span is None or span == "own"):
        raise ValueError(f'`span` is "own", a positive number or None; got {span!r}.')
    if is_timm(place):
        replace_timm(place, scheme, None if span == "own" else PatchPositions(span))  # pyright: ignore[reportArgumentType]
    else:
        replace_dinov3(model, place, scheme, SPAN if span == "own" else span)  # pyright: ignore[reportArgumentType]
    return model


def _place(model: nn.Module, caller: str) -> Any:
    refuse_no_model(model, caller)
    refuse_no_values(model, caller)
    found = [
        each
        for each in model.modules()
        if is_timm(each) or isinstance(getattr(each, "rope_embeddings", None), nn.Module)
    ]
    if len(found) != 1:
        raise ValueError(
            f"{type(model).__name__} has "
            + (f"{len(found)} parts" if found else "no part")
            + " called `rope_embeddings` or `rope` that rotates by the positions of patches."
            + (" Pass one of them." if found else "")
        )
    return found[0]
