"""How alike two tokens look, against how far apart they stand: a scheme's logit by distance."""

from __future__ import annotations

from typing import Any

import torch

from posenc.positions import Positions
from posenc.scheme import Scheme


def logit_by_distance(scheme: Scheme, distances: int, *, head_dim: int | None = None) -> list[dict[str, Any]]:
    """``s(d)``: the logit of a query and an equal key that stands ``d`` further on, d = -distances .. distances.

    Query and key are the vector of ones over ``sqrt(head_dim)``, so that NoPE's curve is 1; embedded rows are added
    first, each divided by its own length. Keys stand along the first axis from 0, the query in their middle. Returns
    rows ``{distance, logit}``; a masked pair has the logit None. Raises ValueError where the scheme does not reach.
    """
    axes = scheme.claims.axes or 1
    count = 2 * distances + 1
    coords = torch.zeros(count, axes, dtype=torch.float64)
    coords[:, 0] = torch.arange(count)
    middle = slice(distances, distances + 1)
    everywhere = Positions(coords)
    with torch.no_grad():
        where_q, where_k = scheme.prepare(everywhere[middle]), scheme.prepare(everywhere)
        if "embed" in scheme.claims.sites:
            rows = scheme.embed(where_k)
            rows = rows / rows.norm(dim=-1, keepdim=True).clamp(min=1e-12)
            q, k = rows[None, None, middle], rows[None, None]
        else:
            width = scheme.head_width or head_dim or 64
            k = torch.full((1, 1, count, width), width**-0.5, dtype=torch.float64)
            q = k[:, :, middle]
        q, k = scheme.transform(q, where_q, "q"), scheme.transform(k, where_k, "k")
        pair = scheme.relate(where_q, where_k)
        seen = scheme.mask(pair)
        logits = q @ k.transpose(-1, -2)
        bias = scheme.bias(q, k, None, pair, seen)
        logits = (logits if bias is None else logits + bias).flatten()
        shown = torch.ones(count, dtype=torch.bool) if seen is None else seen.flatten()
    return [
        {"distance": key - distances, "logit": float(logits[key]) if bool(shown[key]) else None} for key in range(count)
    ]
