"""Checks of kinds of positions: batches, permutations, one or no token, tokens without a position, other keys."""

from __future__ import annotations

import dataclasses

import torch

from posenc.attention import attend_at, attend_with_weights
from posenc.contract.case import Case, largest_difference, reordered, require
from posenc.positions import Positions
from posenc.scheme import Scheme

EXACT = 1e-9


def a_batch_of_positions_equals_one_at_a_time(case: Case) -> None:
    scheme, samples = case.make(), case.heads  # as many samples as heads, so that a wrong broadcast is found
    pos = case.positions(batch=samples)
    q, k, v = case.qkv(scheme, batch=samples)
    x = case.x(batch=samples)
    together = attend_at(q, k, v, scheme=scheme, q_pos=pos, x=x)
    for b in range(samples):
        one, s = dataclasses.replace(pos, coords=pos.coords[b]), slice(b, b + 1)
        alone = attend_at(q[s], k[s], v[s], scheme=scheme, q_pos=one, x=x[s])
        worst = largest_difference(together[s], alone)
        require(worst <= EXACT, f"sample {b} of a batch of positions differs from itself alone by {worst:.1e}.")
        if "mix" in scheme.claims.sites:
            mixed = scheme.mix(x, scheme.prepare(pos))[s], scheme.mix(x[s], scheme.prepare(one))
            require(
                largest_difference(*mixed) <= EXACT, f"mixed rows of sample {b} of a batch differ from itself alone."
            )
        if "embed" in scheme.claims.sites:
            rows = scheme.embed(scheme.prepare(pos))
            require(
                rows.dim() == 3 and largest_difference(rows[b], scheme.embed(scheme.prepare(one))) <= EXACT,
                f"embedded rows of a batch of positions have shape {tuple(rows.shape)} or differ from one at a time.",
            )


def the_order_of_tokens_does_not_matter(case: Case) -> None:
    """Permuted tokens with permuted positions give permuted outputs: only positions matter, not indices."""
    scheme, pos = case.make(), case.positions()
    if "mix" in scheme.claims.sites:
        return  # a shuffled grid has no neighbors
    order = torch.randperm(pos.count, generator=torch.Generator().manual_seed(4))
    q, k, v = case.qkv(scheme)
    x, moved = case.x(), reordered(pos, order)
    straight = attend_at(q, k, v, scheme=scheme, q_pos=pos, x=x)
    permuted = attend_at(q[:, :, order], k[:, :, order], v[:, :, order], scheme=scheme, q_pos=moved, x=x[:, order])
    worst = largest_difference(permuted, straight[:, :, order])
    require(worst <= EXACT, f"permuting tokens together with their positions changes the outputs by {worst:.1e}.")
    if "embed" in scheme.claims.sites:
        rows = [scheme.embed(scheme.prepare(p)) for p in (pos, moved)]
        worst = largest_difference(rows[1], rows[0][order])
        require(worst <= EXACT, f"permuting positions changes embedded rows by {worst:.1e}.")


def whole_and_real_positions_agree(case: Case) -> None:
    scheme, pos = case.make(), case.positions()
    if not case.counts:
        return  # the range has too few whole positions
    real = case.effects(scheme, pos)
    whole = case.effects(scheme, case.whole())
    for name, effect in real.items():
        worst = largest_difference(whole[name], effect)
        require(worst <= 1e-5, f"{name} at integer positions differs from the same as floats by {worst:.1e}.")


def no_token_and_one_token_work(case: Case) -> None:
    scheme = case.make()
    for count in (0, 1):
        pos = case.positions(count)
        for name, effect in case.effects(scheme, pos).items():
            require(bool(effect.isfinite().all()), f"{name} of {count} tokens is not finite.")
            require(count in effect.shape, f"{name} of {count} tokens has shape {tuple(effect.shape)}.")


def tokens_without_a_place_are_neutral(case: Case) -> None:
    """Tokens without a position have zero rows, identity maps and no bias, and their coordinates have no effect.

    A factor that is the same at all positions may also apply to them, such as one temperature for all queries.
    """
    scheme, pos = case.make(), case.positions()
    if "mix" in scheme.claims.sites:
        _a_class_token_stays_out(case, scheme, pos)
        return
    placed = torch.tensor([True, False] * (pos.count // 2))
    marked = dataclasses.replace(pos, placed=placed)
    elsewhere = dataclasses.replace(marked, coords=torch.where(placed[:, None], pos.coords, pos.coords.flip(0)))
    where = scheme.prepare(marked)
    q, everywhere = case.qkv(scheme)[0], [scheme.prepare(p) for p in (pos, case.positions(seed=1))]
    for site in ("q", "k", "v", "o"):
        moved, here, there = (scheme.transform(q, at, site) for at in (where, *everywhere))
        if moved.shape == q.shape:
            factors = torch.stack([t.norm(dim=-1) / q.norm(dim=-1) for t in (here, there)]).detach()
            factor = float(factors.mean()) if float(factors.max() - factors.min()) <= EXACT else 1.0
            worst = min(largest_difference(moved[:, :, ~placed], each * q[:, :, ~placed]) for each in (1.0, factor))
            require(worst <= EXACT, f"a token without a position is mapped at {site}: it changed by {worst:.1e}.")
    if "embed" in scheme.claims.sites:
        size = float(scheme.embed(where)[~placed].detach().abs().max())
        require(size == 0, f"a token without a position is embedded as a row of size {size:.1e}; it must be zero.")
    pair = scheme.relate(where, where)
    bias = scheme.bias(*case.qkv(scheme)[:2], scheme.keep(case.x(), where), pair, scheme.mask(pair))
    if bias is not None:
        bias = bias.detach().expand(2, case.heads, pos.count, pos.count)
        size = max(float(bias[..., ~placed, :].abs().max()), float(bias[..., ~placed].abs().max()))
        require(size == 0, f"a pair with a token without a position has a bias of {size:.1e}; it must be 0.")
    for batched in (False, True):
        here, there = (_batched(p) if batched else p for p in (marked, elsewhere))
        before, after = case.effects(scheme, here), case.effects(scheme, there)
        for name, effect in before.items():
            worst = largest_difference(after[name], effect)
            require(worst <= EXACT, f"{name} changed by {worst:.1e} when tokens without a position were moved.")


def grouped_and_cross_attention_agree_with_plain(case: Case) -> None:
    """Grouped-query and cross attention agree with plain attention.

    A scheme whose maps of q and k differ by head is built for the number of key heads, any other scheme for the number
    of query heads.
    """
    scheme, pos = case.make(), case.positions()
    q, k, v = case.qkv(scheme)
    x = case.x()
    few = k[:, : case.heads // 2], v[:, : case.heads // 2]
    if case.heads % 2 or (scheme.claims.per_head and scheme.claims.sites & {"q", "k", "v", "o"}):
        few, q = (k, v), case.qkv(scheme, heads=2 * case.heads)[0]
    spread = [t.repeat_interleave(2, 1) for t in few]
    for backend in ("auto", "eager"):
        grouped = attend_at(q, *few, scheme=scheme, q_pos=pos, x=x, backend=backend)
        worst = largest_difference(grouped, attend_at(q, *spread, scheme=scheme, q_pos=pos, x=x))
        require(worst <= EXACT, f"grouped-query heads ({backend}) differ from repeated keys by {worst:.1e}.")
    if "mix" in scheme.claims.sites:
        return  # a part of a grid is not a grid
    one, last = attend_at(q[:, :, -1:], *few, scheme=scheme, q_pos=pos[-1:], k_pos=pos, x=x), grouped[:, :, -1:]
    worst = largest_difference(one, last)
    require(worst <= EXACT, f"one query with grouped heads, as in decoding, differs from all queries by {worst:.1e}.")
    q = case.qkv(scheme)[0]
    full = attend_at(q, k, v, scheme=scheme, q_pos=pos, x=x)
    part = attend_at(q[:, :, 2:4], k, v, scheme=scheme, q_pos=pos[2:4], k_pos=pos, x=x)
    worst = largest_difference(part, full[:, :, 2:4])
    require(worst <= EXACT, f"queries at two of the positions differ from the same rows of all by {worst:.1e}.")


def packed_documents_equal_separate_ones(case: Case) -> None:
    """Two packed documents, with positions that restart and a mask between them, give the outputs of each alone."""
    scheme, pos = case.make(), case.positions()
    if "mix" in scheme.claims.sites:
        return
    q, k, v = case.qkv(scheme)
    x, cut = case.x(), 4
    packed = torch.cat([torch.arange(cut), torch.arange(pos.count - cut)])
    first = torch.arange(pos.count) < cut
    together = attend_at(
        q, k, v, scheme=scheme, q_pos=reordered(pos, packed), x=x, mask=first[:, None] == first, backend="eager"
    )
    for document in (slice(0, cut), slice(cut, pos.count)):
        one = [t[:, :, document] for t in (q, k, v)]
        alone = attend_at(*one, scheme=scheme, q_pos=reordered(pos, packed[document]), x=x[:, document])
        worst = largest_difference(together[:, :, document], alone)
        require(
            worst <= EXACT,
            f"a document packed with another differs from the document alone by {worst:.1e}: read `attn_mask`.",
        )


def moved_keys_are_as_if_made_there(case: Case) -> None:
    """``rerotate`` is exact or raises ValueError.

    A scheme whose cached keys are rotated by their position alone must implement it.
    """
    scheme, here = case.make(), case.positions()
    own = type(scheme).rerotate is not Scheme.rerotate
    turns = scheme.claims.translation == "exact" and scheme.claims.isometric and scheme.claims.cacheable
    x = case.qkv(scheme)[1]
    where, there = scheme.prepare(here), scheme.prepare(case.positions(seed=1))
    for site in ("k", "v"):
        if site not in scheme.claims.sites:
            same = torch.equal(scheme.rerotate(x, where, there, site), x)
            require(same, f"rerotate moves {site}, which the scheme never maps.")
            continue
        require(
            own or not turns,
            f"its cached {site} rotate with their position: write rerotate, to move or to refuse them.",
        )
        try:
            moved = scheme.rerotate(scheme.transform(x, where, site), where, there, site)
        except ValueError:
            continue
        worst = largest_difference(moved, scheme.transform(x, there, site))
        require(worst <= EXACT, f"{site} moved by rerotate differ by {worst:.1e} from the same made at the new place.")


def backends_agree(case: Case) -> None:
    """Attention is the same on its backends, and where it also returns the weights."""
    scheme, pos = case.make(), case.positions()
    eager = case.attend(scheme, pos, backend="eager")
    worst = largest_difference(case.attend(scheme, pos), eager)
    require(worst <= EXACT, f"backend 'auto' differs from 'eager' by {worst:.1e}.")
    where, (q, k, v) = scheme.prepare(pos), case.qkv(scheme, pos.count)
    kept, pair = scheme.keep(case.x(pos.count), where), scheme.relate(where, where)
    worst = largest_difference(attend_with_weights(q, k, v, scheme, where, where, pair, kept=kept)[0], eager)
    require(worst <= EXACT, f"attention that returns its weights differs from 'eager' by {worst:.1e}.")


def _a_class_token_stays_out(case: Case, scheme: Scheme, pos: Positions) -> None:
    """A token without a position before a grid is not mixed, and does not change the mixed rows of the grid."""
    coords = torch.cat([pos.coords[:1], pos.coords])
    placed = torch.arange(pos.count + 1) > 0
    x = case.x(pos.count + 1)
    mixed = scheme.mix(x, scheme.prepare(Positions(coords, placed, pos.lattice)))
    worst = largest_difference(mixed[:, :1], x[:, :1])
    require(worst <= EXACT, f"a token without a position is mixed: it changed by {worst:.1e}.")
    worst = largest_difference(mixed[:, 1:], scheme.mix(x[:, 1:], scheme.prepare(pos)))
    require(worst <= EXACT, f"a token without a position changes the mixed rows of others by {worst:.1e}.")


def _batched(pos: Positions) -> Positions:
    """Return the same positions repeated for each of two samples."""
    assert pos.placed is not None
    return dataclasses.replace(pos, coords=pos.coords.expand(2, -1, -1), placed=pos.placed.expand(2, -1))
