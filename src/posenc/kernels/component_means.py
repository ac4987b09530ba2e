"""Means over the nodes of the connected components of graphs."""

from __future__ import annotations

import torch
from torch import Tensor

from posenc.positions import Positions


def component_means(x: Tensor, where: Positions) -> Tensor:
    """Compute the mean of rows over the placed nodes of the component of each node.

    Args:
        x: Rows ``(.., N, V, h)``.
        where: Positions of the nodes. Without a graph they are of one component.

    Returns:
        Means ``(.., N, V, h)``, or ``(.., 1, V, h)`` without a graph.
    """
    placed, component = where.placed, None if where.graph is None else where.graph.component
    if component is None:
        share = torch.ones_like(x[..., :1, :]) if placed is None else placed[..., None, None].to(x.dtype)
        return (x * share).sum(-3, keepdim=True) / share.sum(-3, keepdim=True).clamp(min=1)
    together = component[..., :, None] == component[..., None, :]
    together = (together if placed is None else together & placed[..., None, :]).to(x.dtype)
    means = together / together.sum(-1, keepdim=True).clamp(min=1)
    return (means @ x.flatten(-2)).unflatten(-1, x.shape[-2:])
