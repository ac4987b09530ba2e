"""Checks of vector widths and token counts, with the scheme's name in the error message.

Without them torch would raise a less clear error, or broadcast a size of 1.
"""

from __future__ import annotations

from torch import Tensor

from posenc.kernels import attention_mask
from posenc.positions import Positions, readable


def require_width(x: Tensor, width: int, name: str, what: str = "heads") -> Tensor:
    """Return ``x (.., width)`` unchanged. Raises ValueError for any other width."""
    if x.shape[-1] != width:
        raise ValueError(
            f"this {name} acts on {what} of width {width}; these have {x.shape[-1]} channels. Build it for that width."
        )
    return x


def require_count(x: Tensor, count: int, name: str) -> Tensor:
    """Return ``x (B, count, dim)`` unchanged. Raises ValueError for any other number of tokens."""
    if x.shape[-2] != count:
        raise ValueError(
            f"this {name} was prepared at {count} positions and meets {x.shape[-2]} tokens. Prepare the positions of "
            "all tokens; those without a position have placed=False."
        )
    return x


def of_pair(values: Tensor | None, q: Tensor, k: Tensor) -> Tensor | None:
    """Return the bias or mask of a pair ``(.., Q, K)`` unchanged. Raises ValueError for a pair of other numbers.

    A bias ``(.., 1, K)`` is equal for all queries.
    """
    if values is None or values.dim() < 2 or not readable(q) or not k.shape[-2]:
        return values
    if values.shape[-1] != k.shape[-2] or values.shape[-2] not in (1, q.shape[-2]):
        raise ValueError(
            f"the pair is of {values.shape[-2]} queries and {values.shape[-1]} keys, and `q` and `k` have "
            f"{q.shape[-2]} and {k.shape[-2]} tokens. Pass scheme.relate(where_q, where_k) of their prepared positions."
        )
    return values


def refuse_unfit(
    q: Tensor, k: Tensor, v: Tensor, q_pos: Positions, k_pos: Positions, others: dict[str, Tensor | None]
) -> None:
    """Refuses tensors and positions that differ in tokens, samples or device."""
    for name, t in (("q", q), ("k", k), ("v", v)):
        if t.dim() != 4:
            raise ValueError(
                f"`{name}` has shape (B, H, tokens, channels); got {tuple(t.shape)}. Add the axes that it lacks."
            )
    if v.shape[1] != k.shape[1]:
        raise ValueError(
            f"`k` has {k.shape[1]} heads and `v` has {v.shape[1]}. Pass keys and values of the same heads."
        )
    for name, t, pos in (("q", q, q_pos), ("k", k, k_pos)):
        if t.shape[-2] != pos.count:
            swapped = f" If it is (B, tokens, H, channels), pass {name}.transpose(1, 2)."
            raise ValueError(
                f"`{name}` has {t.shape[-2]} tokens and its positions are {pos.count}. Pass {name}_pos with one "
                f"position per token, as sequence({t.shape[-2]}).{swapped if t.shape[1] == pos.count else ''}"
            )
    if not readable(q):
        return  # a traced graph must not depend on the sizes and devices below
    for name, t in others.items():
        if t is not None and t.device != q.device:
            raise ValueError(f"`q` is on {q.device} and `{name}` on {t.device}. Write {name}.to({str(q.device)!r}).")
        if t is not None and name in ("v", "x") and t.shape[-2] != k.shape[-2]:
            raise ValueError(
                f"`k` has {k.shape[-2]} tokens and `{name}` has {t.shape[-2]}. Pass those of the same tokens."
            )
        if t is not None and name == "x" and len(t) != len(q):
            raise ValueError(
                f"`q` is of {len(q)} samples and `x` of {len(t)}. Pass the block's input of these samples."
            )
        if t is not None and name == "mask" and not attention_mask.covers(t, q, k):
            raise ValueError(
                f"`mask` has shape (Q, K) or (B, H, Q, K), here ({q.shape[-2]}, {k.shape[-2]}); got {tuple(t.shape)}. "
                "For one row of keys per sample, (B, K), write mask[:, None, None]."
            )
    for name, pos in (("q", q_pos), ("k", k_pos)):
        if pos.coords.device != q.device:
            raise ValueError(
                f"`{name}` is on {q.device} and its positions on {pos.coords.device}. Write "
                f"{name}_pos.to({str(q.device)!r})."
            )
        samples = {len(p) for p in (pos.coords[..., 0], pos.placed) if p is not None and p.dim() == 2}
        if samples - {1, len(q)}:
            raise ValueError(
                f"`{name}` is of {len(q)} samples and its positions of {max(samples)}. Pass positions (N, P) for all "
                f"samples, or ({len(q)}, N, P)."
            )
