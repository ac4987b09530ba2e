"""One attention for every scheme: SDPA, FlexAttention or eager, chosen by what the scheme needs.

    out = attention(q, k, v, scheme=RoPE(64), q_pos=sequence(4096))

``attention`` prepares positions and attends; ``attend`` takes what a model has prepared already, once for all layers.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch._C._functorch import maybe_current_level
from torch.nn import functional

from posenc.kernels import dense, parts
from posenc.kernels.groups import logits_of_groups, of_groups
from posenc.kernels.pairs import Divisible
from posenc.kernels.seen import Seen, hides
from posenc.kernels.widths import of_width
from posenc.positions import Positions, as_positions, readable
from posenc.scheme import Pair, Scheme, Where

ASKED = frozenset({"q", "k", "v", "o", "bias", "value_bias", "mask"})
"""Where attention asks a scheme for anything."""
ELSEWHERE = {
    "embed": "add scheme.embed(scheme.prepare(pos)) to the tokens",
    "mix": "call scheme.mix(x, scheme.prepare(pos)) on the tokens after a block",
}
"""How a scheme is used that acts there."""
Backend = Literal["auto", "sdpa", "flex", "eager"]
PAIRS_WHOLE, PAIRS_AT_ONCE, QUERIES_AT_ONCE = 2**22, 2**18, 64
"""Pairs of query and key, times heads and samples, up to which a bias is made whole (16 MiB); how many are in memory
together beyond, where a scheme's pair divides; and of how many queries at least, since fewer are slow."""


Made = tuple[dict[str, Any], object]
"""What the layers of one forward pass share, empty at first, and the layer that asks."""


class Choice(NamedTuple):
    """Which way attention goes, and why."""

    backend: Literal["sdpa", "flex", "eager"]
    reason: str


def choose(scheme: Scheme) -> Choice:
    """The backend that ``backend="auto"`` takes for a scheme, with the reason. FlexAttention is never taken unasked: it
    is fast only when compiled, and has no gradient on a CPU."""
    if "value_bias" in scheme.claims.sites:
        return Choice("eager", "its value_bias needs the attention weights, which fused kernels never show")
    if "bias" in scheme.claims.sites and maybe_current_level() is not None:
        return Choice("eager", "under torch.func SDPA cannot see that a bias wants a gradient")
    if "bias" in scheme.claims.sites:
        return Choice("sdpa", "its bias goes in as a dense additive mask, some queries at a time where there are many")
    return Choice(
        "sdpa",
        "nothing of it stands between the logits and the values but a mask at most (few keys on a CPU: plain products)",
    )


def attention(
    q: Float[Tensor, "B H Q D"],
    k: Float[Tensor, "B G K D"],
    v: Float[Tensor, "B G K E"],
    *,
    scheme: Scheme,
    q_pos: Positions | Tensor,
    k_pos: Positions | Tensor | None = None,
    x: Float[Tensor, "B K dim"] | None = None,
    mask: Bool[Tensor, "#Q #K"] | Bool[Tensor, "#B #H #Q #K"] | None = None,
    scale: float | None = None,
    backend: Backend = "auto",
) -> Float[Tensor, "B H Q E"]:
    """``softmax(scale T_q(q) T_k(k)^T + bias + log mask) T_v(v)`` with a scheme's maps at its sites, then ``T_o``.

    q: ``(B, H, Q, D)``; k, v: ``(B, G, K, D)`` with G heads that divide H (grouped-query attention).
    q_pos, k_pos: ``Q`` and ``K`` positions; ``k_pos`` is ``q_pos`` where it is not given.
    x: the block's input at the keys, for schemes whose bias reads it. mask: True where a query may look at a key,
    ``(Q, K)`` for all, or ``(B, H, Q, K)`` with 1 for what shares it. scale: of the logits, ``1 / sqrt(D)`` of the
    unwidened head by default. backend: "auto" takes ``choose(scheme)``.

    A query that may look at no key gets zeros. Raises ValueError where positions and tokens differ in number, sample or
    device, for a mask that is not boolean, where a backend cannot do what the scheme needs, and for a scheme that acts
    elsewhere: its positions would change nothing.
    """
    if not isinstance(scheme, Scheme):
        raise ValueError(f"attention takes a scheme, as scheme=RoPE(64); got {type(scheme).__name__}. NoPE() is none.")
    _refuse_idle(scheme)
    return attend_at(q, k, v, scheme=scheme, q_pos=q_pos, k_pos=k_pos, x=x, mask=mask, scale=scale, backend=backend)


def attend_at(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    scheme: Scheme,
    q_pos: Positions | Tensor,
    k_pos: Positions | Tensor | None = None,
    x: Tensor | None = None,
    mask: Tensor | None = None,
    scale: float | None = None,
    backend: Backend = "auto",
) -> Tensor:
    """``attention`` of any scheme: inside a model also one that acts elsewhere, and leaves attention as it is."""
    q_pos = as_positions(q_pos)
    k_pos = q_pos if k_pos is None else as_positions(k_pos)
    _refuse_unfit(q, k, v, q_pos, k_pos, {"k": k, "v": v, "x": x, "mask": mask})
    where_q = scheme.prepare(q_pos)
    where_k = where_q if k_pos is q_pos else scheme.prepare(k_pos)
    pair = scheme.relate(where_q, where_k)
    kept = None if x is None else scheme.keep(x, where_k)
    return attend(q, k, v, scheme, where_q, where_k, pair, kept=kept, mask=mask, scale=scale, backend=backend)


def attend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    scheme: Scheme,
    where_q: Where,
    where_k: Where,
    pair: Pair,
    *,
    kept: Tensor | None = None,
    mask: Tensor | Seen | None = None,
    scale: float | None = None,
    backend: Backend = "auto",
    keys_ready: bool = False,
    made: Made | None = None,
) -> Tensor:
    """``attention`` on prepared positions. ``keys_ready``: k and v come from a cache, as transformed. A mask may be a
    rule, ``Seen``, which is never whole where a bias is not, and no mask at all where it says no more than causal.
    ``made``: what all layers of a forward pass that have this scheme and pair share, its bias, and which layer asks."""
    _refuse_mask(mask)
    if q.shape[1] % k.shape[1]:
        raise ValueError(
            f"{q.shape[1]} query heads cannot share {k.shape[1]} key heads; the second must divide the first."
        )
    if scheme.head_width is not None:
        of_width(q, scheme.head_width, type(scheme).__name__)
    name, scale = type(scheme).__name__, 1 / math.sqrt(q.shape[-1]) if scale is None else float(scale)
    q = scheme.transform(q, where_q, "q")
    if not keys_ready:
        k, v = scheme.transform(k, where_k, "k"), scheme.transform(v, where_k, "v")
    if backend == "auto":
        backend = choose(scheme).backend
    if "value_bias" in scheme.claims.sites and backend in ("sdpa", "flex"):
        raise ValueError(f"{name} cannot run on {backend!r}: {choose(scheme).reason}. Use backend='auto'.")
    if backend == "flex":
        out = _flex(q * scale, k, v, scheme, pair, kept, mask)
    elif backend == "eager":
        out = _in_parts(_eager, q * scale, k, v, scheme, pair, kept, mask, made)
    elif backend == "sdpa" and "bias" in scheme.claims.sites:
        out = _in_parts(_biased, q * scale, k, v, scheme, pair, kept, mask, made)
    elif backend == "sdpa" and isinstance(mask, Seen) and "mask" not in scheme.claims.sites and mask.triangular:
        out = _sdpa(q, k, v, None, scale, causal=True)
    elif backend == "sdpa":
        out = _sdpa(q, k, v, _both(scheme.mask(pair), _rows(mask, slice(None), q)), scale)
    else:
        raise ValueError(f"attention runs on 'auto', 'sdpa', 'flex' or 'eager'; got backend={backend!r}.")
    return scheme.transform(out, where_q, "o")


def attend_openly(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    scheme: Scheme,
    where_q: Where,
    where_k: Where,
    pair: Pair,
    *,
    kept: Tensor | None = None,
    mask: Tensor | None = None,
    dropout: float = 0.0,
) -> tuple[Tensor, Tensor]:
    """What ``attend`` gives, and the weights ``(B, H, Q, K)``, with dropout on them: slower, and with all in memory."""
    scale = 1 / math.sqrt(q.shape[-1])
    q, k = scheme.transform(q, where_q, "q") * scale, scheme.transform(k, where_k, "k")
    weights = functional.dropout(attention_weights(q, k, scheme, pair, kept=kept, mask=mask), dropout)
    out, extra = weights @ scheme.transform(v, where_k, "v"), scheme.value_bias(weights, pair)
    return scheme.transform(out if extra is None else out + extra, where_q, "o"), weights


def attention_weights(
    q: Tensor, k: Tensor, scheme: Scheme, pair: Pair, *, kept: Tensor | None = None, mask: Tensor | None = None,
    made: Made | None = None,
) -> Float[Tensor, "B H Q K"]:  # fmt: skip
    """The softmax of the logits, from transformed q and k, q already scaled; float32 inside for half precision."""
    logits = logits_of_groups(q, k)
    seen = _both(scheme.mask(pair), mask)
    bias = _bias(q, k, scheme, pair, kept, seen, made)
    if bias is not None:
        logits = logits + bias
    return _softmax(logits, seen).to(q.dtype)


def _softmax(logits: Tensor, seen: Tensor | None) -> Tensor:
    """Over the keys that a query sees, in float32 or wider."""
    wide = torch.float32 if logits.dtype in (torch.float16, torch.bfloat16) else logits.dtype
    if seen is None:
        return logits.softmax(-1, dtype=wide)
    weights = logits.masked_fill(~seen, -torch.inf).softmax(-1, dtype=wide)
    return weights.masked_fill(~seen, 0)  # a query that sees no key: zeros, not NaN, as SDPA has it


def _in_parts(
    run: Callable[..., Tensor], q: Tensor, k: Tensor, v: Tensor, scheme: Scheme, pair: Pair, kept: Tensor | None,
    mask: Tensor | Seen | None, made: Made | None = None,
) -> Tensor:  # fmt: skip
    """``run`` on some queries at a time, where there are many and the scheme's pair divides."""
    pairs = q.shape[0] * q.shape[1] * q.shape[2] * k.shape[2]
    if not (readable(q) and pairs > PAIRS_WHOLE and isinstance(pair, Divisible)):
        return run(q, k, v, scheme, pair, kept, _rows(mask, slice(None), q), made)  # a traced graph, too, is whole

    def some(q: Tensor, k: Tensor, v: Tensor, more: tuple[Pair, Tensor | None], at: slice) -> Tensor:
        pair, kept = more
        return run(q, k, v, scheme, pair.queries(at), kept, _rows(mask, at, q), None)

    step = max(QUERIES_AT_ONCE, q.shape[2] * PAIRS_AT_ONCE // pairs)
    return parts.in_parts(some, step, q, k, v, (pair, kept), tuple(scheme.parameters()))


def _eager(
    q: Tensor, k: Tensor, v: Tensor, scheme: Scheme, pair: Pair, kept: Tensor | None, mask: Tensor | None,
    made: Made | None,
) -> Tensor:  # fmt: skip
    weights = attention_weights(q, k, scheme, pair, kept=kept, mask=mask, made=made)
    out = of_groups(weights, v)
    extra = scheme.value_bias(weights, pair)
    return out if extra is None else out + extra


def _biased(
    q: Tensor, k: Tensor, v: Tensor, scheme: Scheme, pair: Pair, kept: Tensor | None, mask: Tensor | None,
    made: Made | None,
) -> Tensor:  # fmt: skip
    """SDPA with a dense additive mask; q already carries the scale, as a bias reads it."""
    seen = _both(scheme.mask(pair), mask)
    bias = _bias(q, k, scheme, pair, kept, seen, made)
    if bias is not None:
        wide = bias.dtype == torch.float32 and q.device.type == "cpu"  # there half precision takes a float32 mask
        bias = bias if wide and q.dtype.itemsize < 4 else bias.to(q.dtype)
        seen = bias if seen is None or not hides(seen) else bias.masked_fill(~seen, -torch.inf)
    return _sdpa(q, k, v, seen, 1.0)


def _bias(
    q: Tensor, k: Tensor, scheme: Scheme, pair: Pair, kept: Tensor | None, seen: Tensor | None, made: Made | None
) -> Tensor | None:
    """A scheme's bias, which layers make once where nothing but the pair decides it.

    A layer that is run again, by activation checkpointing, does again what it did, so the one that made the bias makes
    it anew; and what was made without gradients is of no use to a layer that trains the scheme.
    """
    if made is None or scheme.bias_reads:
        return scheme.bias(q, k, kept, pair, seen)
    shared, layer = made
    known = shared.get("bias")
    if known is not None and shared["by"] is not layer and (known.requires_grad or not _trained(scheme)):
        return known
    bias = scheme.bias(q, k, kept, pair, seen)
    if known is None and bias is not None:
        shared.update(bias=bias, by=layer)
    return bias


def _trained(scheme: Scheme) -> bool:
    return torch.is_grad_enabled() and any(p.requires_grad for p in scheme.parameters())


def _sdpa(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, scale: float, *, causal: bool = False) -> Tensor:
    """causal: the mask of as many queries as keys that SDPA knows by itself, where no other is given."""
    if mask is None and not causal and dense.pays(q, k, v):
        return dense.attention(q, k, v, scale)
    narrow = q.shape[-1] - v.shape[-1] if q.device.type == "cpu" else 0  # there its fused kernel has one width
    if narrow and q.shape[2] == 1 and (mask is None or mask.dtype == torch.bool):  # and its plain way copies all keys
        return of_groups(_softmax(logits_of_groups(q * scale, k), mask).to(v.dtype), v)
    if 0 < narrow <= v.shape[-1] and q.shape[2] > 1:
        return _sdpa(q, k, functional.pad(v, (0, narrow)), mask, scale, causal=causal)[..., :-narrow]
    if mask is not None and mask.dim() == 3:  # else SDPA takes its slow way, with the weights of all samples in memory
        mask = mask[None]
    if q.shape[2] == 1 and _grouped(q, k):  # one query: those that share a key are as several, which is faster
        groups, keys = k.shape[1:3]
        if mask is not None and mask.dim() == 4 and mask.shape[1] > 1:
            mask = mask.reshape(len(mask), groups, -1, keys)
        out = functional.scaled_dot_product_attention(
            q.reshape(len(q), groups, -1, q.shape[-1]), k, v, mask, scale=scale
        )
        return out.reshape(len(q), q.shape[1], 1, v.shape[-1])
    return functional.scaled_dot_product_attention(
        q, k, v, mask, is_causal=causal, scale=scale, enable_gqa=_grouped(q, k)
    )


def _flex(
    q: Tensor, k: Tensor, v: Tensor, scheme: Scheme, pair: Pair, kept: Tensor | None, mask: Tensor | Seen | None
) -> Tensor:
    name = type(scheme).__name__
    if mask is not None:
        raise ValueError(f"backend='flex' takes a scheme's own mask only; pass {name} no `mask`, or backend='auto'.")
    score_mod = scheme.score_mod(q, kept, pair)
    needs = scheme.claims.sites & {"bias", "mask"}
    if score_mod is None and needs:
        raise ValueError(f"{name} has no FlexAttention form of its {', '.join(sorted(needs))}. Use backend='auto'.")
    flex = importlib.import_module("torch.nn.attention.flex_attention")
    return flex.flex_attention(q, k, v, score_mod=score_mod, scale=1.0, enable_gqa=_grouped(q, k))


def _grouped(q: Tensor, k: Tensor) -> bool:
    # a branch, because under dynamic compile the comparison alone is symbolic and SDPA wants a plain bool
    if q.shape[1] == k.shape[1]:  # noqa: SIM103
        return False
    return True


def _rows(mask: Tensor | Seen | None, at: slice, q: Tensor) -> Tensor | None:
    """A mask for some of the queries."""
    if isinstance(mask, Seen):
        return mask.rows(q.device, at)
    return mask if mask is None or mask.shape[-2] == 1 else mask[..., at, :]  # one row may serve all queries


def _both(a: Tensor | None, b: Tensor | None) -> Tensor | None:
    return b if a is None else a if b is None else a & b


def _refuse_idle(scheme: Scheme) -> None:
    sites = scheme.claims.sites
    if sites and not sites & ASKED:
        name, ways = type(scheme).__name__, " and ".join(way for site, way in ELSEWHERE.items() if site in sites)
        raise ValueError(
            f"{name} acts at {' and '.join(sorted(sites))}, where attention does not look, so these positions would "
            f"change nothing. Instead {ways}, and pass attention scheme=NoPE()."
        )


def _refuse_mask(mask: Tensor | Seen | None) -> None:
    """A number is added by SDPA where it should hide, and of three axes the first would be taken for heads."""
    if isinstance(mask, Seen):
        return
    if mask is not None and mask.dtype != torch.bool:
        raise ValueError(f"`mask` is True where a query may look at a key; got {mask.dtype}. Write mask.bool().")
    if mask is not None and mask.dim() not in (2, 4):
        raise ValueError(
            f"`mask` has shape (Q, K) or (B, H, Q, K); got {tuple(mask.shape)}. For one a sample write mask[:, None], "
            "for one a head mask[None]."
        )


def _refuse_unfit(
    q: Tensor, k: Tensor, v: Tensor, q_pos: Positions, k_pos: Positions, others: dict[str, Tensor | None]
) -> None:
    """Tensors and positions that are not of the same tokens, samples and device, before any of them meet."""
    for name, t in (("q", q), ("k", k), ("v", v)):
        if t.dim() != 4:
            raise ValueError(
                f"`{name}` has shape (B, H, tokens, channels); got {tuple(t.shape)}. Add the axes that it lacks."
            )
    for name, t, pos in (("q", q, q_pos), ("k", k, k_pos)):
        if t.shape[-2] != pos.count:
            raise ValueError(
                f"`{name}` has {t.shape[-2]} tokens and its positions are {pos.count}. "
                f"Pass {name}_pos with one position a token, as sequence({t.shape[-2]})."
            )
    if not readable(q):
        return  # what follows depends on sizes and places that a traced graph must not be bound to
    for name, t in others.items():
        if t is not None and t.device != q.device:
            raise ValueError(f"`q` is on {q.device} and `{name}` on {t.device}. Write {name}.to({str(q.device)!r}).")
        if t is not None and name in ("v", "x") and t.shape[-2] != k.shape[-2]:
            raise ValueError(
                f"`k` has {k.shape[-2]} tokens and `{name}` has {t.shape[-2]}. Pass those of the same tokens."
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
