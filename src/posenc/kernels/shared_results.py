"""Results that the layers of one forward pass share: biases and masks that depend on positions alone."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from posenc.kernels.attention_mask import AttentionMask
from posenc.scheme import Scheme

Made = tuple[dict[str, Any], object]
"""A dictionary that the layers of one forward pass share, empty at first, and the layer that reads it now."""


def once(made: Made | None, scheme: Scheme, name: str, of: tuple[object, ...], make: Callable[[], Any]) -> Any:
    """A value of a scheme, its pair and the objects ``of``, which the first layer computes and later layers share.

    Activation checkpointing runs a layer twice, so the layer that computed the value computes it again. A value
    computed without gradients is not shared with a layer that trains the scheme.
    """
    if made is None:
        return make()
    entries, layer = made[0].setdefault(name, []), made[1]
    stored = next((each for each in entries if all(map(operator.is_, each[0], of))), None)
    if stored is not None and stored[1] is not layer:
        value = stored[2]
        if (
            not isinstance(value, Tensor)
            or not value.is_floating_point()
            or value.requires_grad
            or not _trained(scheme)
        ):
            return value
    value = make()
    if stored is None:
        entries.append((of, layer, value))
    return value


def remember_mask(made: Made, mask: Tensor | AttentionMask | None, q: Tensor, added: Tensor) -> None:
    """Store the additive mask of one query, if it is all that the scheme does, for ``known_mask``."""
    if q.shape[2] == 1:
        made[0]["one query"] = mask, q.dtype, added.contiguous()


def known_mask(made: Made, mask: Tensor | AttentionMask | None, q: Tensor) -> Tensor | None:
    """The additive mask of one query, if an earlier layer made it and it is all that the scheme does.

    Later layers of a decoding step need no further checks and no call of the scheme.
    """
    known = made[0].get("one query")
    if known is None or q.shape[2] != 1 or known[0] is not mask or known[1] is not q.dtype or torch.is_grad_enabled():
        return None
    return known[2]


def _trained(scheme: Scheme) -> bool:
    return torch.is_grad_enabled() and any(p.requires_grad for p in scheme.parameters())
