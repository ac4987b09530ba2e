"""Checks of claims: every claim is measured, and a claim that differs from the measurement fails in both directions."""

from __future__ import annotations

import contextlib
import dataclasses

import torch
from torch import Tensor

from posenc.attention import attend, attend_at
from posenc.contract.case import Case, ContractError, largest_difference, range_in_words, require
from posenc.positions import Positions, grid
from posenc.scheme import Scheme

EXACT = 1e-9
"""Tolerance of equality."""

FEW_DRAWS, DRAWS, MORE_DRAWS = 100, 400, 6400
"""Numbers of draws for means over random schemes."""

CLOSER = 10
"""Factor by which positions are moved together, so that random schemes still correlate."""

DIRECTIONS = (2, 12)
"""Numbers of principal components for Hotelling's test."""

SPREAD = 5.0
"""Number of standard errors within which two means count as equal."""


def translation_is_as_claimed(case: Case) -> None:
    claimed = case.claims.translation
    # the claim "none" needs a change to show up, so the number of draws is increased until it does
    numbers_of_draws = [FEW_DRAWS, DRAWS, MORE_DRAWS] if claimed == "none" else [DRAWS]
    measured, worst = _translation(case, numbers_of_draws)
    require(
        claimed == measured,
        f"claims translation={claimed!r}, but moving every position by {_by(case.shift)} changed what it does by "
        f"{worst:.1e}: measured {measured!r} (exact means <= {EXACT:.0e}, expected means within {SPREAD:g} standard "
        f"errors over {DRAWS} draws of it or more).",
    )


def isometry_is_as_claimed(case: Case) -> None:
    scheme, pos = case.make(), case.positions()
    where, sizes = scheme.prepare(pos), [0.0]
    q, _, _ = case.qkv(scheme)
    for site in ("q", "k", "v", "o"):
        sizes.append(largest_difference(scheme.transform(q, where, site).norm(dim=-1), q.norm(dim=-1)))
    if "embed" in scheme.claims.sites:
        length = scheme.embed(where).norm(dim=-1)
        sizes.append(largest_difference(length, length.mean().expand_as(length)))
    measured = max(sizes) <= EXACT
    require(
        scheme.claims.isometric == measured,
        f"claims isometric={scheme.claims.isometric}, but lengths change by up to {max(sizes):.1e}.",
    )


def learning_is_as_claimed(case: Case) -> None:
    scheme, pos = case.make(), case.positions()
    names = [name for name, parameter in scheme.named_parameters() if parameter.requires_grad]
    claimed = scheme.claims.learned
    require(claimed == bool(names), f"claims learned={claimed}, but its trained parameters are {names or 'none'}.")
    if not names:
        return
    torch.stack([effect.square().sum() for effect in case.effects(scheme, pos).values()]).sum().backward()
    idle = [name for name, parameter in scheme.named_parameters() if parameter.grad is None]
    require(not idle, f"parameter {idle[0] if idle else ''} never receives a gradient from what the scheme does.")


def range_is_as_claimed(case: Case) -> None:
    """A scheme works at both ends of its range on every axis, and refuses positions beyond each end."""
    scheme = case.make()
    limits = scheme.claims.limits()
    ends = torch.tensor([(-(10.0**7), 10.0**7) if each is None else each for each in limits], dtype=torch.float64)
    inside = dataclasses.replace(case.positions(2), coords=ends.T.contiguous())
    for what, effect in case.effects(scheme, inside).items():
        require(bool(effect.isfinite().all()), f"{what} is not finite at positions {ends.T.tolist()}.")
    for axis, each in enumerate(limits):
        for outside in () if each is None else (each[0] - 1, each[1] + 1):
            coords = inside.coords.clone()
            coords[:, axis] = outside
            try:
                scheme.prepare(dataclasses.replace(inside, coords=coords))
            except ValueError:
                continue
            raise ContractError(
                f"claims a range of {range_in_words(scheme.claims.range)}, but takes position {outside:g} on axis "
                f"{axis} without an error."
            )


def axes_are_as_claimed(case: Case) -> None:
    scheme, claimed = case.make(), case.claims.axes
    taken, lows = [], [0.0 if each is None else each[0] for each in scheme.claims.limits()]
    tried = sorted({1, 2, 3, 4} | ({claimed, claimed + 1} if claimed else set()))
    for axes in tried:
        pos = grid(*(1,) * (axes - 1), 2)
        start = torch.tensor((lows * axes)[:axes], dtype=torch.float64)
        try:
            scheme.prepare(case.on_graph(dataclasses.replace(pos, coords=start.expand_as(pos.coords))))
        except ValueError:
            continue
        taken.append(axes)
    right = tried if claimed is None else [claimed]
    require(taken == right, f"claims axes={claimed}, but takes positions of {taken} axes.")
    for axes in taken if scheme.claims.sites - {"mix"} else ():
        pos = case.positions(axes=axes)
        before = case.effects(scheme, pos)
        for axis in range(axes):
            mirrored = pos.coords.clone()
            mirrored[:, axis] = pos.coords[:, axis].flip(0)
            if torch.equal(mirrored, pos.coords):
                continue  # the axis has only one position
            after = case.effects(scheme, dataclasses.replace(pos, coords=mirrored))
            require(
                any(largest_difference(after[name], before[name]) > EXACT for name in before),
                f"takes positions of {axes} axes, but never looks at axis {axis}: mirroring it changes nothing.",
            )


def sites_are_as_claimed(case: Case) -> None:
    scheme, pos = case.make(), case.positions()
    measured, claimed = acting_sites(case, scheme, pos), set(scheme.claims.sites)
    require(
        measured == claimed,
        f"claims the sites {sorted(claimed)}, but acts at {sorted(measured)}: "
        f"{'unclaimed' if measured - claimed else 'idle'} are {sorted(measured ^ claimed)}.",
    )


def sharing_is_as_claimed(case: Case) -> None:
    scheme, pos = case.make(), case.positions()
    state, claims = len(scheme.state_dict()), scheme.claims
    q, k, v = (t[:, :1].expand_as(t) for t in case.qkv(scheme))
    heads = attend_at(q, k, v, scheme=scheme, q_pos=pos, x=case.x())
    per_head = largest_difference(heads, heads[:, :1].expand_as(heads)) > EXACT
    require(
        not (claims.per_layer and not state),
        f"claims sharing={claims.sharing!r}, but has no parameters or buffers that a layer could have of its own; "
        f"claim {'head' if claims.per_head else 'model'!r}.",
    )
    require(
        claims.per_head == per_head,
        f"claims sharing={claims.sharing!r}, but {case.heads} heads with equal inputs give "
        f"{'different' if per_head else 'equal'} outputs.",
    )


def what_its_bias_reads_is_as_said(case: Case) -> None:
    """A bias depends only on the inputs in ``bias_reads``, because layers that share the bias differ in the others."""
    scheme, pos = case.make(), case.positions()
    if "bias" not in scheme.claims.sites:
        return
    where = scheme.prepare(pos)
    pair = scheme.relate(where, where)
    given = {"x": case.x()} | dict(zip("qk", case.qkv(scheme), strict=False))

    def bias(given: dict[str, Tensor]) -> Tensor:
        bias_or_none = scheme.bias(given["q"], given["k"], scheme.keep(given["x"], where), pair, scheme.mask(pair))
        return torch.zeros(1) if bias_or_none is None else bias_or_none

    for read, name in (("q", "q"), ("k", "k"), ("kept", "x")):
        other = given | {name: given[name].flip(-2)}
        require(
            read in scheme.bias_reads or largest_difference(bias(other), bias(given)) <= EXACT,
            f"declares bias_reads={set(scheme.bias_reads) or '{}'}, but its bias changes with {name}.",
        )


def caching_is_as_claimed(case: Case) -> None:
    """Decoding with cached keys and values, first three tokens and then one at a time, equals the full causal pass."""
    scheme, pos = case.make(held=False), case.positions()
    mask = torch.ones(pos.count, pos.count, dtype=torch.bool).tril()
    runs = [slice(0, 3), *(slice(t, t + 1) for t in range(3, pos.count))]
    try:
        worst = largest_difference(_decoded(case, scheme, pos, mask, runs), case.attend(scheme, pos, mask=mask))
        if "embed" in scheme.claims.sites:
            alone = torch.cat([scheme.embed(scheme.prepare(pos[run])) for run in runs], -2)
            worst = max(worst, largest_difference(alone, scheme.embed(scheme.prepare(pos))))
    except ValueError:
        if "mix" not in scheme.claims.sites:
            raise
        worst = float("inf")  # a scheme that mixes neighbors cannot process one token alone
    measured = worst <= EXACT
    require(
        scheme.claims.cacheable == measured,
        f"claims cacheable={scheme.claims.cacheable}, but decoding token by token differs by {worst:.1e}.",
    )


def _decoded(case: Case, scheme: Scheme, pos: Positions, mask: Tensor, runs: list[slice]) -> Tensor:
    (q, k, v), x = case.qkv(scheme), case.x()
    cached: dict[str, list[Tensor]] = {"k": [], "v": [], "kept": []}
    outputs = []
    for run in runs:
        now, so_far = scheme.prepare(pos[run]), scheme.prepare(pos[: run.stop])
        cached["k"].append(scheme.transform(k[:, :, run], now, "k"))
        cached["v"].append(scheme.transform(v[:, :, run], now, "v"))
        kept = scheme.keep(x[:, run], now)
        cached["kept"] += [] if kept is None else [kept]
        all_k, all_v = torch.cat(cached["k"], 2), torch.cat(cached["v"], 2)
        out = attend(
            q[:, :, run], all_k, all_v, scheme, now, so_far, scheme.relate(now, so_far), keys_ready=True,
            kept=torch.cat(cached["kept"], 2) if cached["kept"] else None, mask=mask[run, : run.stop],
        )  # fmt: skip
        outputs.append(out)
    return torch.cat(outputs, 2)


def _translation(case: Case, numbers_of_draws: list[int]) -> tuple[str, float]:
    """Measure translation invariance: "exact", "expected" or "none", and the largest change of one draw.

    The numbers of draws are tried in order until a change of the mean is found.
    """
    scheme = case.make()
    here = case.positions()
    there = here + case.shift
    before = _relations(case, scheme, here)
    moves = [(here, there), (here, here + case.farthest(here))]  # some schemes change only far away
    worst = 0.0
    for _, moved in moves:
        after = _relations(case, scheme, moved)
        worst = max(worst, *(largest_difference(after[name], before[name]) for name in before))
    if worst <= EXACT:
        return "exact", worst
    near = dataclasses.replace(here, coords=here.coords / CLOSER)  # far apart, any random scheme looks invariant
    with contextlib.suppress(ValueError):
        scheme.prepare(near)
        moves.insert(0, (near, near + case.shift / CLOSER))
    changes: list[list[Tensor]] = [[] for _ in moves]
    for draws in numbers_of_draws:
        for move, change in zip(moves, changes, strict=True):
            change += [_change(case, seed, *move) for seed in range(len(change), draws)]
            if not _is_zero(torch.stack(change)):
                return "none", worst
    return "expected", worst


def _by(shift: Tensor) -> str:
    return " x ".join(f"{size:g}" for size in (shift[:1] if len(set(shift.tolist())) == 1 else shift).tolist())


def _change(case: Case, seed: int, here: Positions, there: Positions) -> Tensor:
    """Return the difference of one draw's effects at positions ``there`` and ``here``."""
    scheme = case.make(seed)
    before, after = _relations(case, scheme, here), _relations(case, scheme, there)
    return torch.cat([(after[name] - before[name]).flatten() for name in before])


def _is_zero(drawn: Tensor) -> bool:
    """Return True if the mean of ``(draws, D)`` is 0 within its standard errors, per component and jointly."""
    error, mean = drawn.std(0) / len(drawn) ** 0.5, drawn.mean(0).abs()
    varies = error > EXACT  # a change without variation is deterministic
    each_is_zero = bool(((mean <= EXACT) | varies & (mean <= SPREAD * error)).all())
    return each_is_zero and _is_small(drawn)


def _is_small(drawn: Tensor) -> bool:
    """Return True if the mean of ``(draws, D)`` is 0 within chance along its first principal components, jointly.

    This is Hotelling's T^2 test with 2 and with 12 components. It finds a change that the common variation of all
    components hides in each of them.
    """
    count, spread, most = len(drawn), drawn - drawn.mean(0), DIRECTIONS[-1]
    sizes, components = torch.linalg.svd(spread, full_matrices=False)[1:]
    nonzero = sizes[:most] > EXACT * sizes[0]
    along = (components[:most] @ drawn.mean(0))[nonzero] / sizes[:most][nonzero]
    for number in DIRECTIONS:
        k = min(number, len(along))
        if float(count * (count - k) * along[:k].square().sum()) > k + 2 * SPREAD * (2 * k) ** 0.5:
            return False
    return True


def _relations(case: Case, scheme: Scheme, pos: Positions) -> dict[str, Tensor]:
    """Return the effects that translation must not change: attention, mixed rows, inner products of embedding rows."""
    with torch.no_grad():
        relations = {}
        if scheme.claims.sites - {"embed", "mix"}:
            relations["attention"] = case.attend(scheme, pos)
        if "mix" in scheme.claims.sites:
            relations["mixed rows"] = scheme.mix(case.x(pos.count), scheme.prepare(pos))
        if "embed" in scheme.claims.sites:
            rows = scheme.embed(scheme.prepare(pos))
            relations["inner products"] = rows @ rows.transpose(-1, -2)
        return relations or {"nothing": torch.zeros(1)}


def acting_sites(case: Case, scheme: Scheme, pos: Positions) -> set[str]:
    """Return the sites at which a scheme changes something."""
    where = scheme.prepare(pos)
    pair = scheme.relate(where, where)
    q, k, _ = case.qkv(scheme)
    gates = scheme.keep(case.x(), where)
    acting = {site for site in ("q", "k", "v", "o") if largest_difference(scheme.transform(q, where, site), q) > EXACT}
    mask, weights = scheme.mask(pair), torch.full((2, case.heads, pos.count, pos.count), 1 / pos.count).double()
    if mask is not None:
        acting.add("mask")
    effects = {"bias": scheme.bias(q, k, gates, pair, mask), "value_bias": scheme.value_bias(weights, pair)}
    acting |= {site for site, effect in effects.items() if effect is not None and bool((effect != 0).any())}
    try:
        scheme.embed(where)
        acting.add("embed")
    except ValueError:
        pass
    if largest_difference(scheme.mix(case.x(), where), case.x()) > EXACT:
        acting.add("mix")
    return acting
