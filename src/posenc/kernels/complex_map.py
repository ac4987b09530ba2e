"""Trained affine map of complex features to real ones, for GridDeep: ``f(W) = C [A Re W + a ; B Im W + b] + c``."""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import Tensor

from posenc.kernels.simplex import Phases

NAMES = ("A", "a", "B", "b", "C", "c")
ALONG_TOKENS = {
    "definition.attention_equals_its_definition": "f is a layer along the tokens, so that no token has a formula alone",
    "placement.the_order_of_tokens_does_not_matter": "f weighs a token by its number",
    "placement.grouped_and_cross_attention_agree_with_plain": "f of some of the tokens differs from f of all tokens",
    "placement.packed_documents_equal_separate_ones": "f mixes documents",
}
"""Contract checks that the released code fails, because it applies f along the tokens (``Scheme.faults``)."""


def empty(d: int, device: torch.device | None = None) -> dict[str, Tensor]:
    """Make uninitialized tensors A, a, B, b of width d, and C, c that map 2d features to d."""
    shapes = {"A": (d, d), "a": (d,), "B": (d, d), "b": (d,), "C": (d, 2 * d), "c": (d,)}
    return {name: torch.empty(shape, device=device) for name, shape in shapes.items()}


def draw(f: Mapping[str, Tensor], generator: torch.Generator | None = None) -> None:
    """Initialize f as torch's linear layers: uniform within ``±1 / sqrt(fan_in)``."""
    with torch.no_grad():
        for name, tensor in f.items():
            bound = 1 / math.sqrt(max(f[name.upper()].shape[1], 1))  # avoids a division by zero without tokens
            tensor.uniform_(-bound, bound, generator=generator)


def drawn(d: int, generator: torch.Generator) -> dict[str, Tensor]:
    """Make a random map f that is not trained."""
    f = empty(d, torch.device("cpu"))
    draw(f, generator)
    return f


def apply(f: Mapping[str, Tensor], w: Phases, axis: int = -1) -> Tensor:
    """Compute ``f(W)`` along an axis, in float64, which autocast does not change."""
    real, imaginary = w.cos.movedim(axis, -1).double(), w.sin.movedim(axis, -1).double()
    f = {name: tensor.to(real) for name, tensor in f.items()}
    hidden = torch.cat([real @ f["A"].mT + f["a"], imaginary @ f["B"].mT + f["b"]], -1)
    return (hidden @ f["C"].mT + f["c"]).movedim(-1, axis).to(w.cos.dtype)
