"""Checks of numerical precision: half precision and autocast change no angle, and far positions keep their phase."""

from __future__ import annotations

import copy
import dataclasses
import itertools

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from posenc.attention import attend_at
from posenc.contract.case import Case, largest_difference, reordered, require
from posenc.positions import Positions

FAR = 10**7
MILLIRADIAN = 1e-3
APART = 37
LONG = 2048
HALF = 0.02  # of the largest output: bfloat16 keeps 8 bits


def half_precision_does_not_move_tokens(case: Case) -> None:
    """bfloat16 inputs and parameters give nearly equal outputs, at positions that bfloat16 cannot represent."""
    claims = case.claims
    pos = case.whole()
    if claims.range is None and "mix" not in claims.sites:
        pos = dataclasses.replace(pos, coords=pos.coords * APART + 300)
    exact = case.make().float()
    half = copy.deepcopy(exact).bfloat16()
    q, k, v = (t.float() for t in case.qkv(exact))
    x = case.x().float()
    wide = attend_at(q, k, v, scheme=exact, q_pos=pos, x=x)
    low = attend_at(*(t.bfloat16() for t in (q, k, v)), scheme=half, q_pos=pos, x=x.bfloat16())
    require(low.dtype == torch.bfloat16, f"bfloat16 inputs came back as {low.dtype}.")
    worst = largest_difference(low, wide)
    require(worst <= HALF, f"in bfloat16 the output of attention is off by {worst:.1e} of its size (allowed {HALF:g}).")
    if "embed" in claims.sites:
        worst = largest_difference(half.embed(half.prepare(pos)), exact.embed(exact.prepare(pos)))
        require(worst <= HALF, f"in bfloat16 embedded rows are off by {worst:.1e} of their size (allowed {HALF:g}).")
    if "mix" in claims.sites:
        worst = largest_difference(half.mix(x.bfloat16(), half.prepare(pos)), exact.mix(x, exact.prepare(pos)))
        require(worst <= HALF, f"in bfloat16 mixed rows are off by {worst:.1e} of their size (allowed {HALF:g}).")
    if not claims.learned and not list(half.buffers()):
        same = _leaves(half.prepare(pos)), _leaves(exact.prepare(pos))
        require(
            _equal(*same), "`.bfloat16()` on the scheme changed what it prepares; keep no numbers in float buffers."
        )


def long_rows_keep_their_sums(case: Case) -> None:
    """bfloat16 gives nearly the output of float32 for a query with 2,048 keys: no sum is rounded at each key.

    Values are near 1, because a mean of values around 0 would hide the error.
    """
    if "mix" in case.claims.sites:
        return
    exact, pos = case.make().float(), case.positions(LONG)
    half = copy.deepcopy(exact).bfloat16()
    q, k, v = (t.float() for t in case.qkv(exact, LONG, batch=1))
    q, v, x = q[:, :, -2:], 1 + 0.1 * v, case.x(LONG, batch=1).float()
    last = reordered(pos, torch.arange(LONG)[-2:])
    wide = attend_at(q, k, v, scheme=exact, q_pos=last, k_pos=pos, x=x)
    low = attend_at(*(t.bfloat16() for t in (q, k, v)), scheme=half, q_pos=last, k_pos=pos, x=x.bfloat16())
    worst = largest_difference(low, wide)
    require(worst <= HALF, f"in bfloat16 a query of {LONG} keys is off by {worst:.1e} of its size (allowed {HALF:g}).")


def autocast_does_not_move_tokens(case: Case) -> None:
    scheme, pos = case.make().float(), case.whole(300 if case.claims.range is None else 0)
    plain = _leaves(scheme.prepare(pos))
    with torch.autocast("cpu", torch.bfloat16):
        cast = _leaves(scheme.prepare(pos))
    require(_equal(plain, cast), "autocast changed what the scheme prepares; compute positions in float64.")


def far_positions_keep_their_phase(case: Case) -> None:
    """Angles at positions up to ten million are exact to a milliradian, in any dtype and with autocast.

    Rotated vectors (or embedding rows) are compared with those in float64. A scheme with an exact translation claim
    must also give the same output of attention after such a shift.
    """
    claims = case.claims
    if claims.range is not None or "mix" in claims.sites:
        return
    scheme, near = case.make().float(), case.whole()
    precise = copy.deepcopy(scheme).double()
    q, k, v = (t.float() for t in case.qkv(scheme))
    modules = [scheme]
    if {name for name, _ in (*scheme.named_parameters(), *scheme.named_buffers())} <= scheme.wide:
        modules.append(copy.deepcopy(scheme).bfloat16())
    kinds = torch.float32, torch.int64
    for start, kind, module, cast in itertools.product((1000, FAR), kinds, modules, (False, True)):
        pos = dataclasses.replace(near, coords=(near.coords + start - 50).to(kind))
        with torch.autocast("cpu", torch.bfloat16, enabled=cast):
            where = module.prepare(pos)
        exact, worst = precise.prepare(dataclasses.replace(pos, coords=pos.coords.double())), 0.0
        for site in ("q", "k", "v", "o"):
            turned, wanted = module.transform(q, where, site), precise.transform(q.double(), exact, site)
            worst = max(worst, float(((turned - wanted).norm(dim=-1) / wanted.norm(dim=-1)).detach().max()))
        if "embed" in claims.sites:
            worst = max(worst, largest_difference(scheme.embed(where), precise.embed(exact)))
        require(worst <= MILLIRADIAN, f"near position {start} ({kind}) it is off by {worst:.1e} rad (allowed 1e-03).")
    if claims.translation == "exact":
        x = case.x().float()
        here, there = (attend_at(q, k, v, scheme=scheme, q_pos=p, x=x) for p in (near, near + (FAR - 50)))
        worst = largest_difference(there, here)
        require(worst <= MILLIRADIAN, f"a shift of {FAR - 50} changed the output of attention by {worst:.1e} (1e-03).")


def named_parameters_stay_wide(case: Case) -> None:
    """The tensors that ``wide`` names exist, and stay float32, unchanged and the same objects after every cast."""
    scheme = case.make().float()
    own = {**dict(scheme.named_parameters()), **dict(scheme.named_buffers())}
    unknown = [name for name in sorted(scheme.wide) if not hasattr(scheme, name)]
    require(not unknown, f"`wide` names {', '.join(unknown)}, which do not exist; its parameters are {sorted(own)}.")
    before = {name: (own[name], own[name].detach().clone()) for name in scheme.wide & set(own)}
    for half in (scheme.bfloat16(), scheme.half(), scheme.to(torch.bfloat16)):
        for name, (tensor, value) in before.items():
            now = half.get_parameter(name) if isinstance(tensor, nn.Parameter) else half.get_buffer(name)
            same = now.dtype == torch.float32 and torch.equal(now.detach(), value)
            require(same and now is tensor, f"a cast of the module changed {name}, which `wide` names: {now.dtype}.")


def _leaves(where: object) -> list[object]:
    flat = pytree.tree_leaves(where)
    return [leaf.coords if isinstance(leaf, Positions) else leaf for leaf in flat]


def _equal(a: list[object], b: list[object]) -> bool:
    return len(a) == len(b) and all(
        torch.equal(x, y) if isinstance(x, Tensor) and isinstance(y, Tensor) else x == y
        for x, y in zip(a, b, strict=True)
    )
