"""Size of an added positional embedding beside that of the tokens: the ratio of their root mean squares.

    ratio = RMS(rows) / RMS(tokens)

A ratio far above 1 hides the tokens at the start of training, and one far below 1 hides the positions.
"""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor

from posenc.positions import Positions
from posenc.scheme import Scheme


def initial_rows(scheme: Scheme, pos: Positions) -> Tensor | None:
    """Embedding rows of a scheme ``(.., N, dim)``, computed by a copy, so that no draw of the scheme is used up.

    Args:
        scheme: the scheme.
        pos: positions of the tokens.

    Returns:
        The rows; None for a scheme that embeds nothing.
    """
    if "embed" not in scheme.claims.sites:
        return None
    other: Any = copy.deepcopy(scheme)
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        return other.embed(other.prepare(pos))


def embedding_scale(rows: Tensor, tokens: Tensor) -> float:
    """Ratio of the root mean square of rows to that of the tokens to which they are added.

    Args:
        rows: embedding rows ``(.., N, dim)``.
        tokens: tokens ``(B, N, dim)``.

    Returns:
        The ratio.
    """
    return float(_root_mean_square(rows) / _root_mean_square(tokens).clamp(min=torch.finfo(torch.float64).tiny))


def _root_mean_square(x: Tensor) -> Tensor:
    return x.detach().double().square().mean().sqrt()
