"""What depends on a query and a key on one axis: how far apart they stand, and whether both have a place."""

from __future__ import annotations

from torch import Tensor

from posenc.positions import Positions


def distances(q: Positions, k: Positions) -> Tensor:
    """``k_pos - q_pos`` on the first axis: ``(Q, K)``, or ``(B, 1, Q, K)`` where samples differ."""
    apart = k.coords[..., None, :, 0] - q.coords[..., :, None, 0]
    return apart.unsqueeze(-3) if apart.dim() == 3 else apart


def both_placed(q: Positions, k: Positions) -> Tensor | None:
    """True where query and key both have a place, shaped to broadcast with ``distances``; None where all have."""
    found = None
    for pos, side in ((q, -1), (k, -2)):
        if pos.placed is not None:
            placed = pos.placed.unsqueeze(side)
            placed = placed.unsqueeze(-3) if placed.dim() == 3 else placed
            found = placed if found is None else found & placed
    return found
