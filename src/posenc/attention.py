"""Attention with a scheme, on one of three backends: SDPA, FlexAttention or eager.

    out = attention(q, k, v, scheme=RoPE(64), q_pos=sequence(4096))

``attention`` takes positions. ``attend`` takes the values that a model has prepared from positions once for all layers.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Literal, NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch._C._functorch import maybe_current_level
from torch.nn import functional

from posenc import attention_checks
from posenc.kernels import attention_mask, chunked_attention, few_key_attention
from posenc.kernels.attention_mask import AttentionMask, rows_of
from posenc.kernels.grouped_heads import grouped_logits, grouped_matmul
from posenc.kernels.pairs import Divisible
from posenc.kernels.shape_checks import of_pair, refuse_other_types, refuse_unfit, softmax_scale
from posenc.kernels.shared_results import Made, known_mask, once, remember_mask
from posenc.positions import Positions, as_positions, readable
from posenc.scheme import Pair, Scheme, Where

Backend = Literal["auto", "sdpa", "flex", "eager"]
PAIRS_WHOLE, PAIRS_AT_ONCE, QUERIES_AT_ONCE = 2**22, 2**18, 64
"""Block sizes of biases, in values ``B H Q K``. Up to PAIRS_WHOLE (16 MiB in float32) a bias is computed at once. A
larger bias is computed in blocks of about PAIRS_AT_ONCE values, and of at least QUERIES_AT_ONCE queries, since fewer
are slow."""


class Choice(NamedTuple):
    """A backend of attention and the reason for it.

    Attributes:
        backend: "sdpa", "flex" or "eager".
        reason: Why the scheme needs it, in words.
    """

    backend: Literal["sdpa", "flex", "eager"]
    reason: str


def choose(scheme: Scheme) -> Choice:
    """The backend that ``backend="auto"`` selects for a scheme.

    It never selects FlexAttention, which is fast only when compiled and has no gradient on a CPU.

    Args:
        scheme: Any scheme.

    Returns:
        The backend and the reason.
    """
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
    mask: Bool[Tensor, "#Q #K"]
    | Bool[Tensor, "#B #H #Q #K"]
    | Float[Tensor, "#Q #K"]
    | Float[Tensor, "#B #H #Q #K"]
    | None = None,
    causal: bool = False,
    scale: float | None = None,
    backend: Backend = "auto",
) -> Float[Tensor, "B H Q E"]:
    """Scaled dot-product attention with a positional encoding.

        o = T_o(softmax(scale T_q(q) T_k(k)^T + bias + log mask) T_v(v) + value_bias)

    The maps T, the bias, the value bias and the mask are those of ``scheme``. A query that may attend to no key gets
    zeros.

    Args:
        q: Queries ``(B, H, Q, D)``.
        k: Keys ``(B, G, K, D)``. G divides H; G < H is grouped-query attention.
        v: Values ``(B, G, K, E)``.
        scheme: The positional encoding. ``NoPE()`` is none.
        q_pos: Positions of the Q queries, or a tensor ``(Q, P)`` or ``(B, Q, P)``.
        k_pos: Positions of the K keys. Default: ``q_pos``.
        x: Input of the attention block at the keys, ``(B, K, dim)``, for schemes whose bias reads it.
        mask: True where a query may attend to a key: ``(Q, K)``, or ``(B, H, Q, K)`` with size 1 on axes that share it.
            Combined with the mask of the scheme. A mask of floating-point numbers is added to the logits, as in SDPA:
            0 where a query may attend, -inf where it may not.
        causal: True if a query attends to no later token. Tokens are in order, and the queries are the last of the
            keys, as in decoding; with equal numbers this is SDPA's ``is_causal``, which builds no mask. Default False.
        scale: Factor on the logits. Default ``1 / sqrt(D)``, with D of ``q`` as passed.
        backend: "sdpa", "flex" (FlexAttention), "eager", or "auto" (default), which lets ``choose`` select one.

    Returns:
        Head outputs ``(B, H, Q, E)``.

    Raises:
        ValueError: If positions and tokens differ in number, samples or device; if the mask holds integers, or only
            the floating-point numbers 0 and 1; if the backend cannot run the scheme; or if the scheme acts only
            outside attention, so that its positions would have no effect.

    Example:
        >>> import torch
        >>> from posenc import RoPE, attention, sequence
        >>> q, k, v = torch.randn(3, 1, 4, 6, 8).unbind()
        >>> attention(q, k, v, scheme=RoPE(8), q_pos=sequence(6), causal=True).shape
        torch.Size([1, 4, 6, 8])

    References:
        Vaswani et al. 2017, "Attention Is All You Need", arXiv 1706.03762, eq. 1.
    """
    attention_checks.refuse_no_scheme(scheme)
    attention_checks.refuse_idle(scheme)
    attention_checks.warn_of_shared_heads(scheme, q, k)
    return attend_at(
        q, k, v, scheme=scheme, q_pos=q_pos, k_pos=k_pos, x=x, mask=mask, causal=causal, scale=scale, backend=backend
    )


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
    causal: bool = False,
    scale: float | None = None,
    backend: Backend = "auto",
) -> Tensor:
    """``attention`` for models, which also accept schemes that act only outside attention."""
    refuse_other_types({"q": q, "k": k, "v": v, "x": x, "mask": mask}, causal)
    attention_checks.refuse_ids(scheme, (q_pos, q.shape[-2]), (k_pos, k.shape[-2]))
    q_pos = as_positions(q_pos)
    k_pos = q_pos if k_pos is None else as_positions(k_pos)
    refuse_unfit(q, k, v, q_pos, k_pos, {"k": k, "v": v, "x": x, "mask": mask})
    scheme = scheme.for_texts(q_pos, k_pos)
    where_q = scheme.prepare(q_pos)
    where_k = where_q if k_pos is q_pos else scheme.prepare(k_pos)
    pair = scheme.relate(where_q, where_k)
    kept = None if x is None else scheme.keep(x, where_k)
    rule = mask
    if causal:
        attention_mask.refuse_causal(mask, q_pos)
        rule = attention_mask.causal_mask(q.shape[-2], k.shape[-2], mask, q.device)
    return attend(q, k, v, scheme, where_q, where_k, pair, kept=kept, mask=rule, scale=scale, backend=backend)


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
    mask: Tensor | AttentionMask | None = None,
    scale: float | None = None,
    backend: Backend = "auto",
    keys_ready: bool = False,
    made: Made | None = None,
) -> Tensor:
    """``attention`` on prepared positions: a model prepares once, and every layer calls this.

    Args:
        q: Queries ``(B, H, Q, D)``, not transformed.
        k: Keys ``(B, G, K, D)``; G divides H.
        v: Values ``(B, G, K, E)``.
        scheme: The positional encoding.
        where_q: ``scheme.prepare`` of the positions of the queries.
        where_k: ``scheme.prepare`` of the positions of the keys.
        pair: ``scheme.relate(where_q, where_k)``.
        kept: ``scheme.keep(x, where_k)`` of the block's input at the keys, for schemes whose bias reads it.
        mask: True where a query may attend to a key, ``(Q, K)`` or ``(B, H, Q, K)``, or floating-point numbers that
            are added to the logits. Or a causal or packed-document mask as a rule
            (``posenc.kernels.attention_mask``), which is computed for one block of queries at a time, and not at all
            if it is only causal.
        scale: Factor on the logits. Default ``1 / sqrt(D)``.
        backend: "auto" (default), "sdpa", "flex" or "eager".
        keys_ready: True if ``k`` and ``v`` are transformed already, as from a cache. Default False.
        made: A dictionary that the layers of one forward pass share, with a value that identifies this layer. Layers
            with the same scheme and pair then compute the scheme's mask once, and its bias if it depends on the pair
            alone. Default None.

    Returns:
        Head outputs ``(B, H, Q, E)``.

    Raises:
        ValueError: If the mask holds integers, the number of key heads does not divide that of query heads, a head has
            another width than the scheme's, or the backend is unknown or cannot run the scheme.

    Example:
        >>> import torch
        >>> from posenc import RoPE, attend, sequence
        >>> q, k, v = torch.randn(3, 1, 4, 6, 8).unbind()
        >>> rope = RoPE(8)
        >>> where = rope.prepare(sequence(6))
        >>> attend(q, k, v, rope, where, where, rope.relate(where, where)).shape
        torch.Size([1, 4, 6, 8])
    """
    if made is not None and (known := known_mask(made, mask, q)) is not None:
        return _sdpa(q, k, v, known, softmax_scale(scale, q))
    attention_mask.refuse_mask(mask)
    scale = softmax_scale(scale, q)
    q, k, v = _at_positions(q, k, v, scheme, where_q, where_k, pair, keys_ready=keys_ready)
    if backend == "auto":
        backend = choose(scheme).backend
    if "value_bias" in scheme.claims.sites and backend in ("sdpa", "flex"):
        raise ValueError(
            f"{type(scheme).__name__} cannot run on {backend!r}: {choose(scheme).reason}. Use backend='auto'."
        )
    if backend == "flex":
        out = _flex(q * scale, k, v, scheme, pair, kept, mask)
    elif backend == "eager":
        out = _in_parts(_eager, q * scale, k, v, scheme, pair, kept, mask, made)
    elif backend == "sdpa" and ("bias" in scheme.claims.sites or attention_mask.is_added(mask)):
        out = _in_parts(_biased, q * scale, k, v, scheme, pair, kept, mask, made)
    elif (
        backend == "sdpa" and isinstance(mask, AttentionMask) and "mask" not in scheme.claims.sites and mask.triangular
    ):
        out = _sdpa(q, k, v, None, scale, causal=True)
    elif backend == "sdpa":
        out = _masked(q, k, v, scheme, pair, mask, made, scale)
    else:
        raise ValueError(f"attention runs on 'auto', 'sdpa', 'flex' or 'eager'; got backend={backend!r}.")
    return scheme.transform(out, where_q, "o")


def attend_with_weights(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    scheme: Scheme,
    where_q: Where,
    where_k: Where,
    pair: Pair,
    *,
    kept: Tensor | None = None,
    mask: Tensor | AttentionMask | None = None,
    scale: float | None = None,
    dropout: float = 0.0,
    keys_ready: bool = False,
) -> tuple[Tensor, Tensor]:
    """``attend`` that also returns the attention weights and can apply dropout to them.

    It is slower than ``attend`` and stores all ``(B, H, Q, K)`` weights.

    Args:
        q: Queries ``(B, H, Q, D)``, not transformed.
        k: Keys ``(B, G, K, D)``; G divides H.
        v: Values ``(B, G, K, E)``.
        scheme: The positional encoding.
        where_q: ``scheme.prepare`` of the positions of the queries.
        where_k: ``scheme.prepare`` of the positions of the keys.
        pair: ``scheme.relate(where_q, where_k)``.
        kept: ``scheme.keep(x, where_k)``, for schemes whose bias reads it.
        mask: True where a query may attend to a key, ``(Q, K)`` or ``(B, H, Q, K)``; or a rule, as in ``attend``.
        scale: Factor on the logits. Default ``1 / sqrt(D)``.
        dropout: Probability of dropping a weight. Default 0.
        keys_ready: True if ``k`` and ``v`` are transformed already, as from a cache. Default False.

    Returns:
        Head outputs ``(B, H, Q, E)`` and weights ``(B, H, Q, K)``.
    """
    attention_mask.refuse_mask(mask)
    scale, rows = softmax_scale(scale, q), rows_of(mask, q)
    q, k, v = _at_positions(q, k, v, scheme, where_q, where_k, pair, keys_ready=keys_ready)
    weights = functional.dropout(attention_weights(q * scale, k, scheme, pair, kept=kept, mask=rows), dropout)
    out, extra = grouped_matmul(weights, v), scheme.value_bias(weights, pair)
    return scheme.transform(out if extra is None else out + extra, where_q, "o"), weights


def attention_weights(
    q: Tensor, k: Tensor, scheme: Scheme, pair: Pair, *, kept: Tensor | None = None, mask: Tensor | None = None,
    made: Made | None = None,
) -> Float[Tensor, "B H Q K"]:  # fmt: skip
    """Attention weights: the softmax of the logits with a scheme's bias and mask.

        weights = softmax(q k^T + bias + log mask)

    Half precision is computed in float32. A query that may attend to no key gets zeros.

    Args:
        q: Queries ``(B, H, Q, D)``, transformed by the scheme and multiplied by the softmax scale.
        k: Keys ``(B, G, K, D)``, transformed by the scheme; G divides H.
        scheme: The positional encoding.
        pair: ``scheme.relate`` of the prepared positions of queries and keys.
        kept: ``scheme.keep(x, where_k)``, for schemes whose bias reads it.
        mask: True where a query may attend to a key, ``(Q, K)`` or ``(B, H, Q, K)``; or numbers to add to the logits.
        made: The value that ``attend`` takes under this name. Default: biases are not shared.

    Returns:
        Weights ``(B, H, Q, K)`` in the dtype of ``q``. Each row sums to 1, or to 0 without a key.

    Example:
        >>> import torch
        >>> from posenc import ALiBi, attention_weights, sequence
        >>> q, k = torch.randn(2, 1, 4, 6, 8).unbind()
        >>> alibi = ALiBi(heads=4)
        >>> where = alibi.prepare(sequence(6))
        >>> attention_weights(q / 8**0.5, k, alibi, alibi.relate(where, where)).shape
        torch.Size([1, 4, 6, 6])
    """
    logits = grouped_logits(q, k)
    allowed, added = attention_mask.split_mask(mask)
    attn_mask = _both(of_pair(scheme.mask(pair), q, k), allowed)
    for bias in (_bias(q, k, scheme, pair, kept, attention_mask.counted_keys(attn_mask, added), made), added):
        if bias is not None:
            logits = logits + bias
    return _softmax(logits, attn_mask).to(q.dtype)


def _softmax(logits: Tensor, attn_mask: Tensor | None) -> Tensor:
    """Softmax over the keys that the mask allows, in float32 or wider; zeros for a query without a key, as in SDPA."""
    wide = torch.float32 if logits.dtype in (torch.float16, torch.bfloat16) else logits.dtype
    if attn_mask is None:
        return logits.softmax(-1, dtype=wide)
    weights = logits.masked_fill(~attn_mask, -torch.inf).softmax(-1, dtype=wide)
    return weights.masked_fill(~attn_mask, 0)  # a query without a key has NaN before


def _in_parts(
    run: Callable[..., Tensor], q: Tensor, k: Tensor, v: Tensor, scheme: Scheme, pair: Pair, kept: Tensor | None,
    mask: Tensor | AttentionMask | None, made: Made | None = None,
) -> Tensor:  # fmt: skip
    """``run`` on one block of queries at a time, if there are many pairs and the scheme's pair can be divided."""
    if not _is_divided(q, k, pair, mask):
        return run(q, k, v, scheme, pair, kept, mask, made)
    pairs = q.shape[0] * q.shape[1] * q.shape[2] * k.shape[2]

    def block(q: Tensor, k: Tensor, v: Tensor, more: tuple[Pair, Tensor | None], at: slice) -> Tensor:
        pair, kept = more
        return run(q, k, v, scheme, pair.queries(at), kept, rows_of(mask, q, at), None)

    step = max(QUERIES_AT_ONCE, q.shape[2] * PAIRS_AT_ONCE // pairs)
    return chunked_attention.attend_in_chunks(block, step, q, k, v, (pair, kept), tuple(scheme.parameters()))


def _is_divided(q: Tensor, k: Tensor, pair: Pair, mask: Tensor | AttentionMask | None) -> bool:
    if not readable(q) or q.shape[2] == 1:  # a traced graph is not divided
        return False
    trained = isinstance(mask, Tensor) and mask.requires_grad  # blocks compute no gradient of a mask
    pairs = q.shape[0] * q.shape[1] * q.shape[2] * k.shape[2]
    return pairs > PAIRS_WHOLE and not trained and isinstance(pair, Divisible)


def _eager(
    q: Tensor, k: Tensor, v: Tensor, scheme: Scheme, pair: Pair, kept: Tensor | None,
    mask: Tensor | AttentionMask | None, made: Made | None,
) -> Tensor:  # fmt: skip
    weights = attention_weights(q, k, scheme, pair, kept=kept, mask=rows_of(mask, q), made=made)
    out = grouped_matmul(weights, v)
    extra = scheme.value_bias(weights, pair)
    return out if extra is None else out + extra


def _biased(
    q: Tensor, k: Tensor, v: Tensor, scheme: Scheme, pair: Pair, kept: Tensor | None,
    mask: Tensor | AttentionMask | None, made: Made | None,
) -> Tensor:  # fmt: skip
    """SDPA with a dense additive mask; q is multiplied by the scale already, because a bias reads it so."""
    shared = None if scheme.bias_reads else made
    added = once(shared, scheme, "added", (mask, q.dtype), lambda: _added(q, k, scheme, pair, kept, mask))
    if shared is not None and added is not None and scheme.claims.sites <= {"bias", "mask"}:
        remember_mask(shared, mask, q, added)
    return _sdpa(q, k, v, added, 1.0)


def _added(
    q: Tensor, k: Tensor, scheme: Scheme, pair: Pair, kept: Tensor | None, mask: Tensor | AttentionMask | None
) -> Tensor | None:
    """The additive mask of SDPA: a scheme's bias, and both masks."""
    allowed, added = attention_mask.split_mask(rows_of(mask, q))
    attn_mask = _both(of_pair(scheme.mask(pair), q, k), allowed)
    bias = of_pair(scheme.bias(q, k, kept, pair, attention_mask.counted_keys(attn_mask, added)), q, k)
    if added is not None:
        bias = added if bias is None else bias + added
    if bias is None:
        return attn_mask
    wide = bias.dtype == torch.float32 and q.device.type == "cpu"  # SDPA in half precision accepts it on a CPU
    bias = bias if wide and q.dtype.itemsize < 4 else bias.to(q.dtype)
    if attn_mask is None or not attention_mask.may_exclude_keys(attn_mask):
        return bias
    return bias.masked_fill(~attn_mask, -torch.inf)


def _masked(
    q: Tensor, k: Tensor, v: Tensor, scheme: Scheme, pair: Pair, mask: Tensor | AttentionMask | None,
    made: Made | None, scale: float,
) -> Tensor:  # fmt: skip
    """SDPA with the two masks and no bias; one query on a CPU reads the keys that it attends to, and no others."""

    def allowed() -> tuple[Tensor | None, slice | None]:
        both = _both(of_pair(scheme.mask(pair), q, k), rows_of(mask, q))
        return (both, None) if both is None else attention_mask.attended_keys(both)

    both, keys = once(made, scheme, "mask", (mask,), allowed)
    if keys is not None:
        k, v = k[..., keys, :], v[..., keys, :]
    return _sdpa(q, k, v, both, scale)


def _bias(
    q: Tensor, k: Tensor, scheme: Scheme, pair: Pair, kept: Tensor | None, attn_mask: Tensor | None, made: Made | None
) -> Tensor | None:
    """A scheme's bias. Layers share it if it depends on the pair alone."""
    shared = None if scheme.bias_reads else made
    return once(shared, scheme, "bias", (), lambda: of_pair(scheme.bias(q, k, kept, pair, attn_mask), q, k))


def _sdpa(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, scale: float, *, causal: bool = False) -> Tensor:
    """SDPA, or an exact faster form; ``causal`` without a mask is SDPA's own mask of as many queries as keys."""
    if mask is None and not causal and few_key_attention.is_faster(q, k, v):
        return few_key_attention.attention(q, k, v, scale)
    narrow = q.shape[-1] - v.shape[-1] if q.device.type == "cpu" else 0  # the fused CPU kernel needs equal widths
    if narrow and q.shape[2] == 1 and (mask is None or mask.dtype == torch.bool):  # SDPA would copy all keys
        return grouped_matmul(_softmax(grouped_logits(q * scale, k), mask).to(v.dtype), v)
    if 0 < narrow <= v.shape[-1] and q.shape[2] > 1:
        return _sdpa(q, k, functional.pad(v, (0, narrow)), mask, scale, causal=causal)[..., :-narrow]
    if mask is not None and mask.dim() == 3:  # with three axes SDPA is slow and stores the weights of all samples
        mask = mask[None]
    if q.shape[2] == 1 and _grouped(q, k):  # query heads that share a key head become queries, which is faster
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
    q: Tensor,
    k: Tensor,
    v: Tensor,
    scheme: Scheme,
    pair: Pair,
    kept: Tensor | None,
    mask: Tensor | AttentionMask | None,
) -> Tensor:
    name = type(scheme).__name__
    if mask is not None:
        raise ValueError(
            f"backend='flex' computes no mask but {name}'s own; causal=True or `mask` was passed. Write backend='auto'."
        )
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


def _both(a: Tensor | None, b: Tensor | None) -> Tensor | None:
    return b if a is None else a if b is None else a & b


def _at_positions(
    q: Tensor, k: Tensor, v: Tensor, scheme: Scheme, where_q: Where, where_k: Where, pair: Pair, *, keys_ready: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """Transform queries, keys and values at their positions, with every check of them."""
    attention_checks.refuse_no_scheme(scheme)
    attention_checks.refuse_other_heads(scheme, q, k)
    queries, q = q.shape[-2], _transformed(scheme, q, where_q, "q")
    attention_checks.refuse_more_positions(queries, q)
    if not keys_ready:
        k, v = _transformed(scheme, k, where_k, "k"), _transformed(scheme, v, where_k, "v")
    attention_checks.refuse_no_pair(scheme, (where_q, where_k), pair, v)
    return q, k, v


def _transformed(scheme: Scheme, x: Tensor, where: Where, site: Literal["q", "k", "v"]) -> Tensor:
    """``scheme.transform``, with an error that names positions that this scheme did not prepare."""
    if torch.compiler.is_compiling():
        return scheme.transform(x, where, site)
    try:
        return scheme.transform(x, where, site)
    except (AttributeError, TypeError) as error:
        name, own = type(scheme).__name__, "where_q" if site == "q" else "where_k"
        if isinstance(where, type(scheme.prepare(_one_position(scheme)))):
            raise
        raise ValueError(
            f"`{own}` is what this {name} prepares of positions; got {type(where).__name__}. Pass scheme.prepare(pos)."
        ) from error


def _one_position(scheme: Scheme) -> Positions:
    return Positions(torch.zeros(1, scheme.claims.axes or 1))
