"""Arguments of attention that do not fit its scheme, each refused in a sentence."""

from __future__ import annotations

import warnings

from torch import Tensor

from posenc.kernels.shape_checks import require_width
from posenc.positions import readable
from posenc.scheme import Pair, Scheme, Where

ASKED = frozenset({"q", "k", "v", "o", "bias", "value_bias", "mask"})
"""Sites at which attention calls a scheme."""
ELSEWHERE = {
    "embed": "add scheme.embed(scheme.prepare(pos)) to the tokens",
    "mix": "call scheme.mix(x, scheme.prepare(pos)) on the tokens after a block",
}
"""Calls that a model makes for a scheme that acts at the other sites."""


def refuse_ids(scheme: Scheme, *given: tuple[object, int]) -> None:
    """Refuse position ids ``(B, N)`` of N tokens, as of transformers, in place of positions ``(N, 1)``."""
    for pos, count in given:
        if not isinstance(pos, Tensor) or scheme.claims.axes != 1 or pos.dim() != 2 or count < 2:
            continue
        if pos.shape[0] != count and pos.shape[1] == count:
            raise ValueError(
                f"{type(scheme).__name__} reads positions (N, 1) or (B, N, 1); got a tensor {tuple(pos.shape)}. For "
                "position ids (B, N) write sequence(ids)."
            )


def refuse_no_scheme(scheme: object) -> None:
    if not isinstance(scheme, Scheme):
        got = f"the class {scheme.__name__}" if isinstance(scheme, type) else type(scheme).__name__
        raise ValueError(f"attention takes a scheme, as scheme=RoPE(64); got {got}. NoPE() is none.")


def refuse_idle(scheme: Scheme) -> None:
    sites = scheme.claims.sites
    if sites and not sites & ASKED:
        name, ways = type(scheme).__name__, " and ".join(way for site, way in ELSEWHERE.items() if site in sites)
        raise ValueError(
            f"{name} acts at {' and '.join(sorted(sites))}, where attention does not act, so these positions would "
            f"change nothing. Instead {ways}, and pass attention scheme=NoPE()."
        )


def refuse_other_heads(scheme: Scheme, q: Tensor, k: Tensor) -> None:
    if q.shape[1] % k.shape[1]:
        raise ValueError(
            f"{q.shape[1]} query heads cannot share {k.shape[1]} key heads; the second must divide the first."
        )
    if scheme.head_width is not None:
        require_width(q, scheme.head_width, type(scheme).__name__)


def refuse_no_pair(scheme: Scheme, where: tuple[Where, Where], pair: Pair, v: Tensor) -> None:
    """Refuse a missing pair, and values of another width than the rows that a scheme adds to them."""
    sites, name = scheme.claims.sites, type(scheme).__name__
    if pair is None and sites & {"bias", "mask", "value_bias"} and scheme.relate(*where) is not None:
        raise ValueError(f"{name} acts on pairs of tokens, and `pair` is None. Pass scheme.relate(where_q, where_k).")
    if "value_bias" in sites and scheme.head_width is not None:
        require_width(v, scheme.head_width, name, "values")


def refuse_more_positions(queries: int, q: Tensor) -> None:
    """Refuse positions of other queries, which a transform has broadcast."""
    if q.shape[-2] != queries:
        raise ValueError(
            f"there are {queries} queries, and `where_q` is of {q.shape[-2]} positions. Prepare the positions of these "
            "queries: scheme.prepare(Positions(pos.coords[-n:])) for the last n."
        )


def warn_of_shared_heads(scheme: Scheme, q: Tensor, k: Tensor) -> None:
    """Warn of a scheme that is built for neither the query heads nor the key heads."""
    own = scheme.head_count if readable(q) else None  # torch.compile can trace no warning
    if own is None or q.dim() != 4 or k.dim() != 4 or own in (1, q.shape[1], k.shape[1]) or q.shape[1] % own:
        return
    warnings.warn(
        f"this {type(scheme).__name__} is built for {own} heads and meets {q.shape[1]} query heads and {k.shape[1]} "
        f"key heads, so {q.shape[1] // own} neighboring query heads share one of its heads. Build it with "
        f"heads={q.shape[1]}, or with heads=1 for one that all share.",
        UserWarning,
        stacklevel=3,
    )
