"""Numbers: half precision and autocast change no angle, far positions keep their phase."""

from __future__ import annotations

import copy

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from posenc.attention import attention
from posenc.contract.case import Case, gap, require
from posenc.positions import Positions

FAR = 10**6
APART = 37
HALF = 0.02  # of the largest output: bfloat16 keeps 8 bits


def half_precision_does_not_move_tokens(case: Case) -> None:
    """bfloat16 inputs and module at positions of hundreds, far apart, where bfloat16 itself can no longer count."""
    claims = case.claims
    pos = _whole(case, 0) if claims.range is not None else Positions(_whole(case, 0).coords * APART + 300)
    exact = case.make().float()
    half = copy.deepcopy(exact).bfloat16()
    q, k, v = (t.float() for t in case.qkv(exact))
    x = case.x().float()
    wide = attention(q, k, v, scheme=exact, q_pos=pos, x=x)
    low = attention(*(t.bfloat16() for t in (q, k, v)), scheme=half, q_pos=pos, x=x.bfloat16())
    require(low.dtype == torch.bfloat16, f"bfloat16 inputs came back as {low.dtype}.")
    worst = gap(low, wide)
    require(worst <= HALF, f"in bfloat16 the output of attention is off by {worst:.1e} of its size (allowed {HALF:g}).")
    if "embed" in claims.sites:
        worst = gap(half.embed(half.prepare(pos)), exact.embed(exact.prepare(pos)))
        require(worst <= HALF, f"in bfloat16 embedded rows are off by {worst:.1e} of their size (allowed {HALF:g}).")
    if not claims.learned and not list(half.buffers()):
        same = _leaves(half.prepare(pos)), _leaves(exact.prepare(pos))
        require(
            _equal(*same), "`.bfloat16()` on the scheme changed what it prepares; keep no numbers in float buffers."
        )


def autocast_does_not_move_tokens(case: Case) -> None:
    scheme, pos = case.make().float(), _whole(case, 300 if case.claims.range is None else 0)
    plain = _leaves(scheme.prepare(pos))
    with torch.autocast("cpu", torch.bfloat16):
        cast = _leaves(scheme.prepare(pos))
    require(_equal(plain, cast), "autocast changed what the scheme prepares; compute positions in float64.")


def far_positions_keep_their_phase(case: Case) -> None:
    """An exactly relative scheme gives the same output after a shift of a million, in float32."""
    claims = case.claims
    if claims.translation != "exact" or claims.range is not None:
        return
    scheme = case.make().float()
    near = _whole(case, 0)
    q, k, v = (t.float() for t in case.qkv(scheme))
    here, there = (attention(q, k, v, scheme=scheme, q_pos=p) for p in (near, near + FAR))
    worst = gap(there, here)
    require(worst <= 1e-4, f"a shift of {FAR} changed the output of attention by {worst:.1e} (allowed 1e-04).")
    if "embed" in claims.sites:
        rows = [scheme.embed(scheme.prepare(p)) for p in (near, near + FAR)]
        a, b = (r @ r.transpose(-1, -2) for r in rows)
        require(gap(b, a) <= 1e-4, f"a shift of {FAR} changed the rows' inner products by {gap(b, a):.1e} (1e-04).")


def _whole(case: Case, start: int) -> Positions:
    return Positions(case.positions().coords.long() + start)


def _leaves(where: object) -> list[object]:
    flat = pytree.tree_leaves(where)
    return [leaf.coords if isinstance(leaf, Positions) else leaf for leaf in flat]


def _equal(a: list[object], b: list[object]) -> bool:
    return len(a) == len(b) and all(
        torch.equal(x, y) if isinstance(x, Tensor) and isinstance(y, Tensor) else x == y
        for x, y in zip(a, b, strict=True)
    )
