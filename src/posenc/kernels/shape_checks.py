"""Checks of types, vector widths and token counts, with the scheme's name in the error message.

Without them torch would raise a less clear error, or broadcast a size of 1.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
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
    """Return ``x (.., count, channels)`` unchanged. Raises ValueError for any other number of tokens."""
    if readable(x) and x.shape[-2] != count:
        tokens = "1 token" if x.shape[-2] == 1 else f"{x.shape[-2]} tokens"
        raise ValueError(
            f"this {name} was prepared at {count} positions and meets {tokens}. Prepare one position per token; "
            "tokens without a position have placed=False."
        )
    return x


def require_kept(kept: Tensor | None, name: str, tokens: str = "keys") -> Tensor:
    """Return ``kept`` unchanged. Raises ValueError for None, as without the block's input."""
    if kept is None:
        raise ValueError(
            f"{name} reads the block's input at the {tokens}: pass attention(.., x=x), or "
            "attend(.., kept=scheme.keep(x, where_k))."
        )
    return kept


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


def refuse_other_types(tensors: Mapping[str, object], causal: object) -> None:
    """Refuses arguments of attention that are no tensors of one dtype, and a ``causal`` that is neither True nor False.

    Autocast casts tensors of several dtypes to one.
    """
    for name, value in tensors.items():
        if value is not None and not isinstance(value, Tensor):
            said = isinstance(value, str) and name == "mask"
            hint = "Write causal=True." if said else "Write torch.as_tensor(..) of its values."
            raise ValueError(f"`{name}` is a tensor; got {type(value).__name__}. {hint}")
    q, *others = (each for name, each in tensors.items() if name in "qkv" and isinstance(each, Tensor))
    found = {each.dtype: None for each in (q, *others)}
    if not q.is_floating_point() or (len(found) > 1 and not torch.is_autocast_enabled(q.device.type)):
        names = " and ".join(str(dtype).removeprefix("torch.") for dtype in found)
        remedy = "k.to(q.dtype), for example" if q.is_floating_point() else "q.float()"
        raise ValueError(f"`q`, `k` and `v` hold floating-point numbers of one dtype; got {names}. Write {remedy}.")
    if not isinstance(causal, bool):
        raise ValueError(f"`causal` is True or False; got {causal!r}.")


def softmax_scale(scale: object, q: Tensor) -> float:
    """Return the factor on the logits of queries ``(B, H, Q, D)``: ``1 / sqrt(D)`` if ``scale`` is None.

    Raises ValueError for what is no finite number, and for a tensor that is trained, which would get no gradient.
    """
    if scale is None:
        return 1 / math.sqrt(q.shape[-1])
    if isinstance(scale, Tensor) and scale.requires_grad and torch.is_grad_enabled():
        raise ValueError("`scale` is a number, and this tensor is trained. Multiply q by it, and pass scale=1.0.")
    of_one = not isinstance(scale, Tensor) or scale.numel() == 1
    if isinstance(scale, bool | str) or not hasattr(scale, "__float__") or not of_one:
        raise ValueError(f"`scale` is a number, a factor on the logits; got {scale!r}. Default: 1 / sqrt(D).")
    number = float(scale)  # pyright: ignore
    if readable(q) and not math.isfinite(number):
        raise ValueError(f"`scale` is a finite number, a factor on the logits; got {number:g}.")
    return number


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
                f"`mask` has shape (Q, K) or (B, H, Q, K), here ({q.shape[-2]}, {k.shape[-2]}) with B = {len(q)} or 1 "
                f"and H = {q.shape[1]} or 1; got {tuple(t.shape)}. For one row of keys per sample, (B, K), write "
                "mask[:, None, None]."
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
