"""Positions of every kind: batches, permuted and single tokens, none at all, tokens without a place, other keys."""

from __future__ import annotations

import dataclasses

import torch

from posenc.attention import attention
from posenc.contract.case import HEADS, Case, gap, require
from posenc.positions import Positions

EXACT = 1e-9


def a_batch_of_positions_equals_one_at_a_time(case: Case) -> None:
    scheme = case.make()
    pos = case.positions(batch=HEADS)  # as many samples as heads: a wrong broadcast shows
    q, k, v = case.qkv(scheme, batch=HEADS)
    x = case.x(batch=HEADS)
    together = attention(q, k, v, scheme=scheme, q_pos=pos, x=x)
    for b in range(HEADS):
        one, s = Positions(pos.coords[b]), slice(b, b + 1)
        alone = attention(q[s], k[s], v[s], scheme=scheme, q_pos=one, x=x[s])
        worst = gap(together[s], alone)
        require(worst <= EXACT, f"sample {b} of a batch of positions differs from itself alone by {worst:.1e}.")
        if "embed" in scheme.claims.sites:
            rows = scheme.embed(scheme.prepare(pos))
            require(
                rows.dim() == 3 and gap(rows[b], scheme.embed(scheme.prepare(one))) <= EXACT,
                f"embedded rows of a batch of positions have shape {tuple(rows.shape)} or differ from one at a time.",
            )


def the_order_of_tokens_does_not_matter(case: Case) -> None:
    """Permuted tokens with their positions give permuted outputs: a token's place is its position, not its index."""
    scheme, pos = case.make(), case.positions()
    order = torch.randperm(pos.count, generator=torch.Generator().manual_seed(4))
    q, k, v = case.qkv(scheme)
    x, moved = case.x(), Positions(pos.coords[order])
    straight = attention(q, k, v, scheme=scheme, q_pos=pos, x=x)
    permuted = attention(q[:, :, order], k[:, :, order], v[:, :, order], scheme=scheme, q_pos=moved, x=x[:, order])
    worst = gap(permuted, straight[:, :, order])
    require(worst <= EXACT, f"permuting tokens together with their positions changes the outputs by {worst:.1e}.")
    if "embed" in scheme.claims.sites:
        rows = [scheme.embed(scheme.prepare(p)) for p in (pos, moved)]
        worst = gap(rows[1], rows[0][order])
        require(worst <= EXACT, f"permuting positions changes embedded rows by {worst:.1e}.")


def whole_and_real_positions_agree(case: Case) -> None:
    scheme, pos = case.make(), case.positions()
    real = case.effects(scheme, pos)
    whole = case.effects(scheme, Positions(pos.coords.long()))
    for name, effect in real.items():
        worst = gap(whole[name], effect)
        require(worst <= 1e-5, f"{name} at integer positions differs from the same as floats by {worst:.1e}.")


def no_token_and_one_token_work(case: Case) -> None:
    scheme = case.make()
    axes = scheme.claims.axes or 1
    for count in (0, 1):
        pos = Positions(torch.zeros(count, axes, dtype=torch.float64))
        for name, effect in case.effects(scheme, pos).items():
            require(bool(effect.isfinite().all()), f"{name} of {count} tokens is not finite.")
            require(count in effect.shape, f"{name} of {count} tokens has shape {tuple(effect.shape)}.")


def tokens_without_a_place_are_neutral(case: Case) -> None:
    """Their row is zero, their maps are the identity, and their coordinates change nothing."""
    scheme, pos = case.make(), case.positions()
    placed = torch.tensor([True, False] * (pos.count // 2))
    marked = dataclasses.replace(pos, placed=placed)
    elsewhere = dataclasses.replace(marked, coords=torch.where(placed[:, None], pos.coords, pos.coords.flip(0)))
    where = scheme.prepare(marked)
    q, _, _ = case.qkv(scheme)
    for site in ("q", "k", "v", "o"):
        moved = scheme.transform(q, where, site)
        if moved.shape == q.shape and scheme.claims.isometric:
            worst = gap(moved[:, :, ~placed], q[:, :, ~placed])
            require(worst <= EXACT, f"a token without a place is mapped at {site}: it changed by {worst:.1e}.")
    if "embed" in scheme.claims.sites:
        size = float(scheme.embed(where)[~placed].detach().abs().max())
        require(size == 0, f"a token without a place is embedded as a row of size {size:.1e}; it must be zero.")
    pair = scheme.relate(where, where)
    bias = scheme.bias(*case.qkv(scheme)[:2], scheme.keep(case.x(), where), pair, scheme.mask(pair))
    if bias is not None:
        bias = bias.detach().expand(2, HEADS, pos.count, pos.count)
        size = max(float(bias[..., ~placed, :].abs().max()), float(bias[..., ~placed].abs().max()))
        require(size == 0, f"a pair with a token without a place has a bias of {size:.1e}; it must be 0.")
    for batched in (False, True):
        here, there = (_batched(p) if batched else p for p in (marked, elsewhere))
        before, after = case.effects(scheme, here), case.effects(scheme, there)
        for name, effect in before.items():
            worst = gap(after[name], effect)
            require(worst <= EXACT, f"{name} changed by {worst:.1e} when tokens without a place were moved.")


def grouped_and_cross_attention_agree_with_plain(case: Case) -> None:
    scheme, pos = case.make(), case.positions()
    q, k, v = case.qkv(scheme)
    x = case.x()
    few = k[:, : HEADS // 2], v[:, : HEADS // 2]
    spread = [t.repeat_interleave(2, 1) for t in few]
    for backend in ("auto", "eager"):
        grouped = attention(q, *few, scheme=scheme, q_pos=pos, x=x, backend=backend)
        worst = gap(grouped, attention(q, *spread, scheme=scheme, q_pos=pos, x=x))
        require(worst <= EXACT, f"grouped-query heads ({backend}) differ from repeated keys by {worst:.1e}.")
    full = attention(q, k, v, scheme=scheme, q_pos=pos, x=x)
    part = attention(q[:, :, 2:4], k, v, scheme=scheme, q_pos=pos[2:4], k_pos=pos, x=x)
    worst = gap(part, full[:, :, 2:4])
    require(worst <= EXACT, f"queries at two of the positions differ from the same rows of all by {worst:.1e}.")


def backends_agree(case: Case) -> None:
    scheme, pos = case.make(), case.positions()
    eager = case.attend(scheme, pos, backend="eager")
    worst = gap(case.attend(scheme, pos), eager)
    require(worst <= EXACT, f"backend 'auto' differs from 'eager' by {worst:.1e}.")


def _batched(pos: Positions) -> Positions:
    """The same positions, said for each of the two samples."""
    assert pos.placed is not None
    return Positions(pos.coords.expand(2, -1, -1), pos.placed.expand(2, -1))
