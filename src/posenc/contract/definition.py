"""Checks of values and gradients against the scalar definition, the paper's formula, in float64."""

from __future__ import annotations

import dataclasses
import math

import torch
from torch import Tensor

from posenc.attention import attend_at
from posenc.contract.case import ROOM, Case, largest_difference, require
from posenc.positions import Positions
from posenc.scheme import At, Head, Scheme

EXACT = 1e-9
SLOPE = 1e-4  # of a finite difference, relative


def embedding_equals_its_definition(case: Case) -> None:
    scheme = case.make()
    if "embed" not in scheme.claims.sites:
        return
    for kind, pos in _places(case, scheme).items():
        rows = scheme.embed(scheme.prepare(pos))
        require(rows.shape[-1] == scheme.out_dim, f"out_dim says {scheme.out_dim}; rows have width {rows.shape[-1]}.")
        defined = _defined_rows(scheme, pos)
        worst = largest_difference(rows, defined)
        require(worst <= EXACT, f"embed differs from define_embed by {worst:.1e} at {kind} positions ({EXACT:.0e}).")
        _same_gradients(scheme, rows, defined, "embed", {"positions": pos.coords})


def second_derivatives_equal_those_of_the_definition(case: Case) -> None:
    """Second derivatives of embedding rows equal those of the definition, as an eikonal loss needs them.

    The derivatives are by positions twice, and by positions and parameters.
    """
    scheme = case.make()
    pos = _places(case, scheme).get("real") if "embed" in scheme.claims.sites else None
    if pos is None:
        return
    rows, defined = scheme.embed(scheme.prepare(pos)), _defined_rows(scheme, pos)
    weight = torch.randn(rows.shape, generator=torch.Generator().manual_seed(3), dtype=rows.dtype)

    def slopes(of: Tensor) -> Tensor:
        if not of.requires_grad:
            return torch.zeros_like(pos.coords)
        (gradient,) = torch.autograd.grad((of * weight).sum(), pos.coords, create_graph=True, materialize_grads=True)
        return gradient

    _same_gradients(scheme, slopes(rows), slopes(defined), "the slope of embed", {"positions": pos.coords})


def attention_equals_its_definition(case: Case) -> None:
    """Attention equals its definition, with twice as many heads as the scheme has, to test which heads share one."""
    scheme = case.make()
    per_head = scheme.claims.per_head
    count = 2 * case.heads if per_head else 2
    heads = [Head(2 * own + own % 2 if per_head else own, count) for own in _some(count // 2 if per_head else 2)]
    for kind, pos in _places(case, scheme).items():
        q, k, v = (t.requires_grad_() for t in case.qkv(scheme, batch=1, heads=count))
        x = case.x()[:1]
        fast = attend_at(q, k, v, scheme=scheme, q_pos=pos, x=x, backend="eager")[:, heads]
        slow = torch.stack([_defined_head(scheme, q[0], k[0], v[0], x[0], pos, h) for h in heads])[None]
        worst = largest_difference(fast, slow)
        require(
            worst <= EXACT,
            f"attention differs from the scalar definition by {worst:.1e} at {kind} positions ({EXACT:.0e})."
            + (_shape_of_bias(scheme, q, k, pos) if worst > EXACT else ""),
        )
        _same_gradients(scheme, fast, slow, "attention", {"q": q, "k": k, "v": v, "positions": pos.coords})


def mixing_equals_its_definition(case: Case) -> None:
    scheme, pos = case.make(), case.positions()
    if "mix" not in scheme.claims.sites:
        return
    x = case.x(batch=1).requires_grad_()
    mixed = scheme.mix(x, scheme.prepare(pos))
    defined = torch.stack([scheme.define_mix(x[0], pos, n) for n in range(pos.count)])[None]
    worst = largest_difference(mixed, defined)
    require(worst <= EXACT, f"mix differs from define_mix by {worst:.1e} ({EXACT:.0e}).")
    _same_gradients(scheme, mixed, defined, "mix", {"x": x})


def positions_get_the_gradient_of_the_effect(case: Case) -> None:
    """The gradient by positions equals a finite difference along a random direction."""
    scheme = case.make()
    generator = torch.Generator().manual_seed(5)
    whole = case.positions()
    noise, direction = torch.rand(2, *whole.coords.shape, generator=generator, dtype=torch.float64)
    between = torch.where(case.unit == 1, 0.2 + 0.6 * noise, 0)  # in a short range they are real already
    real = whole + between
    try:
        scheme.prepare(real)
    except ValueError:
        return

    def effect(coords: Tensor) -> Tensor:
        effects = case.effects(scheme, dataclasses.replace(real, coords=coords)).values()
        return torch.stack([(t * torch.linspace(1, 2, t.numel()).view_as(t)).sum() for t in effects]).sum()

    size = float(case.unit.max())
    direction, step = direction * case.unit / size, 1e-6 * size
    coords = real.coords.clone().requires_grad_()
    total = effect(coords)
    predicted = 0.0
    if total.requires_grad:
        (grad,) = torch.autograd.grad(total, coords, allow_unused=True)
        predicted = 0.0 if grad is None else float((grad * direction).sum())
    with torch.no_grad():
        measured = float(effect(coords + step * direction) - effect(coords - step * direction)) / (2 * step)
    require(
        abs(predicted - measured) <= SLOPE * max(1, abs(measured)),
        f"moved along a direction its effect changes by {measured:.3e} a unit, and autograd says {predicted:.3e}.",
    )


def mask_equals_its_definition(case: Case) -> None:
    """The mask of consecutive positions, more than a window holds, equals its definition for every pair."""
    scheme = case.make()
    if "mask" not in scheme.claims.sites:
        return
    pos = case.consecutive(ROOM)
    if pos is None:
        return
    q, k, _ = case.qkv(scheme, ROOM, batch=1)
    where, x, everywhere = scheme.prepare(pos), case.x(ROOM, batch=1), torch.ones(ROOM, ROOM, dtype=torch.bool)
    mask = scheme.mask(scheme.relate(where, where))
    assert mask is not None, "the scheme claims a mask"
    own = mask.expand(1, case.heads, ROOM, ROOM)[0]
    for h in _some(case.heads) if scheme.claims.per_head else [0]:
        for i in range(ROOM):
            for j in range(ROOM):
                at = At(q[0, h], k[0, h], x[0], everywhere, pos.coords, pos.coords, i, j, Head(h, case.heads))
                allowed = bool(scheme.define_mask(at))
                require(
                    bool(own[h, i, j]) == allowed,
                    f"mask says {not allowed} of query {i} and key {j} of {ROOM} consecutive positions, and "
                    f"define_mask {allowed}.",
                )


def score_mod_equals_its_bias_and_mask(case: Case) -> None:
    """The form for FlexAttention, called on all indices at once, adds the bias and excludes what the mask excludes.

    Two samples with different positions and some tokens without one are among the positions: a score_mod reads single
    pairs, so that it finds the sample and the tokens without a position by code of its own.
    """
    scheme = case.make()
    both = case.positions(batch=2)
    placed = (torch.arange(both.count) + torch.arange(2)[:, None]) % 3 != 0  # other tokens in each sample
    among = {"batched": both, "partly missing": dataclasses.replace(both, placed=placed)}
    for kind, pos in (_places(case, scheme) | among).items():
        where = scheme.prepare(pos)
        q, k, _ = case.qkv(scheme)
        kept, pair = scheme.keep(case.x(), where), scheme.relate(where, where)
        mod = scheme.score_mod(q, kept, pair)
        if mod is None:
            return
        at = torch.meshgrid(*(torch.arange(size) for size in (*q.shape[:3], k.shape[2])), indexing="ij")
        logits = torch.randn(at[0].shape, generator=torch.Generator().manual_seed(4), dtype=q.dtype)
        mask = scheme.mask(pair)
        bias = scheme.bias(q, k, kept, pair, mask)
        wanted = logits if bias is None else logits + bias
        wanted = wanted if mask is None else wanted.masked_fill(~mask, -torch.inf)
        found = mod(logits, *at)
        excluded = wanted == -torch.inf
        require(
            torch.equal(found == -torch.inf, excluded), f"score_mod excludes other keys than mask at {kind} positions."
        )
        worst = largest_difference(found.masked_fill(excluded, 0), wanted.masked_fill(excluded, 0))
        require(worst <= EXACT, f"score_mod differs from bias by {worst:.1e} at {kind} positions ({EXACT:.0e}).")


def _defined_rows(scheme: Scheme, pos: Positions) -> Tensor:
    return scheme.define_rows(pos.coords) if pos.graph is None else scheme.define_node_rows(pos.coords, pos.graph)


def _places(case: Case, scheme: Scheme) -> dict[str, Positions]:
    """Return whole positions, and real ones with a gradient if the scheme accepts them; of pairs also consecutive ones.

    The fractions of real positions differ by token and axis, so that their distances are no whole numbers.
    """
    whole = case.positions()
    places = {"whole": whole}
    if scheme.claims.sites & {"bias", "mask", "value_bias"} and (consecutive := case.consecutive()) is not None:
        places["consecutive"] = consecutive
    between = whole + (0.1 + 0.8 * _fractions(whole)) * case.unit
    try:
        scheme.prepare(between)
    except ValueError:
        return places
    return places | {"real": dataclasses.replace(between, coords=between.coords.requires_grad_())}


def _fractions(pos: Positions) -> Tensor:
    generator = torch.Generator().manual_seed(6)
    return torch.rand(pos.coords.shape, generator=generator, dtype=torch.float64)


def _shape_of_bias(scheme: Scheme, q: Tensor, k: Tensor, pos: Positions) -> str:
    """Sentence on a bias that cannot be right by its shape; "" if it can."""
    if "bias" not in scheme.claims.sites or scheme.claims.sites & {"q", "k"} or scheme.bias_reads:
        return ""
    where = scheme.prepare(pos)
    bias = scheme.bias(q, k, None, scheme.relate(where, where), None)
    if bias is None:
        return " `bias` returns None: end it with `return`."
    size = q.shape[1] if scheme.claims.per_head else 1
    tokens = (pos.count, pos.count)
    if bias.shape[-2:] == tokens and (bias.shape[-3:-2] or (1,))[0] == size:
        return ""
    return f" `bias` returns the shape {tuple(bias.shape)}; (H, Q, K) is {(size, *tokens)} here."


def _some(own: int) -> list[int]:
    """Return the numbers of the first three heads and of the last head."""
    return sorted({*range(min(own, 3)), own - 1})


def _defined_head(scheme: Scheme, q: Tensor, k: Tensor, v: Tensor, x: Tensor, pos: Positions, head: Head) -> Tensor:
    """Compute the attention output of one head by the scalar definitions of the scheme."""
    sites, p, n = scheme.claims.sites, pos.coords, pos.count
    heads_q, heads_k = q / math.sqrt(q.shape[-1]), k
    at_site = {
        site: torch.stack([scheme.define_transform(row, p[t], site, head) for t, row in enumerate(rows)])
        if site in sites
        else rows
        for site, rows in (("q", q[head]), ("k", k[head]), ("v", v[head]))
    }
    q, k, v = at_site["q"] / math.sqrt(q.shape[-1]), at_site["k"], at_site["v"]
    everywhere = torch.ones(n, n, dtype=torch.bool)

    def at(i: int, j: int, attn_mask: Tensor) -> At:
        return At(q, k, x, attn_mask, p, p, i, j, head, pos.graph, heads_q, heads_k)

    attn_mask = everywhere
    if "mask" in sites:
        attn_mask = torch.tensor([[scheme.define_mask(at(i, j, everywhere)) for j in range(n)] for i in range(n)])
    outputs = []
    for i in range(n):
        logits = []
        for j in range(n):
            logit = q[i] @ k[j] + (scheme.define_bias(at(i, j, attn_mask)) if "bias" in sites else 0)
            logits.append(logit if bool(attn_mask[i, j]) else torch.full_like(logit, -torch.inf))
        weights = torch.stack(logits).softmax(0)
        out = torch.zeros_like(v[0])
        for j in range(n):
            value = v[j] + (scheme.define_value_bias(at(i, j, attn_mask)) if "value_bias" in sites else 0)
            out = out + weights[j] * value
        outputs.append(scheme.define_transform(out, p[i], "o", head) if "o" in sites else out)
    return torch.stack(outputs)


def _same_gradients(scheme: Scheme, fast: Tensor, slow: Tensor, what: str, inputs: dict[str, Tensor]) -> None:
    """Require equal gradients of two tensors by the scheme's parameters and by inputs."""
    wanted = dict(scheme.named_parameters()) | inputs
    wanted = {name: value for name, value in wanted.items() if value.requires_grad}
    weight = torch.randn(fast.shape, generator=torch.Generator().manual_seed(3), dtype=fast.dtype)

    def gradients(of: Tensor) -> list[Tensor]:
        if not of.requires_grad:
            return [torch.zeros_like(value) for value in wanted.values()]
        return list(torch.autograd.grad((of * weight).sum(), list(wanted.values()), materialize_grads=True))

    for name, a, b in zip(wanted, gradients(fast), gradients(slow), strict=True):
        worst = largest_difference(a, b)
        require(
            worst <= EXACT, f"{what}'s gradient by {name} differs from its definition's by {worst:.1e} ({EXACT:.0e})."
        )
