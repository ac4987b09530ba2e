"""Checks of state: save, load, copy, pickle and the meta device; no hidden state, and no side effects of use."""

from __future__ import annotations

import copy
import dataclasses
import io
import pickle

import safetensors.torch as safetensors
import torch
from torch import Tensor

from posenc.contract.case import Case, counters, largest_difference, require
from posenc.scheme import Scheme

SAME = 1e-12


def a_loaded_state_does_the_same(case: Case) -> None:
    one, other = case.make(0), case.make(1)
    stream = io.BytesIO()
    torch.save(one.state_dict(), stream)
    stream.seek(0)
    other.load_state_dict(torch.load(stream, weights_only=True))
    _same(case, one, other, "after loading its state_dict")


def safetensors_hold_the_state(case: Case) -> None:
    """The state consists of named tensors with separate memory, so that safetensors can store it."""
    one, other = case.make(0), case.make(1)
    other.load_state_dict(safetensors.load(safetensors.save(dict(one.state_dict()))))
    _same(case, one, other, "after its state went through safetensors")


def copies_do_the_same(case: Case) -> None:
    scheme = case.make()
    _same(case, scheme, copy.deepcopy(scheme), "as a deep copy")
    _same(case, scheme, pickle.loads(pickle.dumps(scheme)), "after pickling")


def parameters_may_be_views_of_one_vector(case: Case) -> None:
    """Parameters may be views of one flat vector at any offset, as ``vector_to_parameters`` makes them."""
    scheme, moved = case.make(), case.make()
    parameters = list(moved.parameters())
    vector = torch.cat([torch.zeros(1, dtype=torch.float64), *(p.detach().flatten() for p in parameters)])
    start = 1
    for parameter in parameters:
        parameter.data = vector[start : start + parameter.numel()].view_as(parameter)
        start += parameter.numel()
    _same(case, scheme, moved, "with its parameters inside one long vector")


def the_meta_device_holds_a_scheme(case: Case) -> None:
    """A scheme that is built on the meta device is fully initialized by loading or by ``reset_parameters``."""
    if case.instance is not None:
        return
    with torch.device("meta"):
        empty = case.kind(**case.options)
    real, wanted = case.hold(empty.to_empty(device="cpu").double()), case.make()
    with torch.no_grad():
        for tensor in (*real.parameters(), *real.buffers()):
            tensor.fill_(torch.nan) if tensor.is_floating_point() else tensor.fill_(-1)
    missing = set(dict(real.named_buffers())) - set(real.state_dict())
    require(not missing, f"the buffer {missing or ''} is not in the state_dict: built on meta it would stay garbage.")
    real.load_state_dict(wanted.state_dict())
    _same(case, wanted, real, "built on the meta device and loaded")
    if list(real.state_dict()):
        reset = getattr(real, "reset_parameters", None)
        require(reset is not None, "has state and no reset_parameters() to draw it anew after building on meta.")
        with torch.no_grad():
            for tensor in (*real.parameters(), *real.buffers()):
                tensor.fill_(torch.nan) if tensor.is_floating_point() else tensor.fill_(-1)
        assert reset is not None
        reset()
        finite = all(bool(t.isfinite().all()) for t in (*real.parameters(), *real.buffers()))
        require(finite, "reset_parameters() leaves values undrawn.")


def using_it_changes_nothing(case: Case) -> None:
    """Using a scheme has no side effects: equal results for equal calls, no cache, no counter, unchanged inputs."""
    scheme, pos = case.make(), case.positions()
    first = _detached(case, scheme)
    state = {name: value.clone() for name, value in scheme.state_dict().items()}
    elsewhere = case.positions(seed=1)
    low = dataclasses.replace(elsewhere, coords=elsewhere.coords.half())
    for other in (case.positions(3), elsewhere, low):
        used = case.make()
        used.prepare(other)
        later = _detached(case, used)
        worst = max(largest_difference(later[name], first[name]) for name in first)
        require(
            worst <= SAME, f"it remembers the {other.count} positions it saw before: off by {worst:.1e} afterwards."
        )
    coords = pos.coords.clone()
    q, k, v = case.qkv(scheme)
    originals = q.clone(), k.clone(), v.clone()
    where = scheme.prepare(pos)
    for site in ("q", "k", "v", "o"):
        scheme.transform({"q": q, "k": k}.get(site, v), where, site)
    untouched = all(torch.equal(a, b) for a, b in zip(originals, (q, k, v), strict=True))
    require(untouched, "transform writes into its input; return a new tensor.")
    require(torch.equal(coords, pos.coords), "prepare writes into the positions it is given.")
    second = _detached(case, scheme)
    worst = max(largest_difference(second[name], first[name]) for name in first)
    require(worst <= SAME, f"the same call gives another result the second time, by {worst:.1e}: something is kept.")
    changed = [name for name, value in scheme.state_dict().items() if not torch.equal(value, state[name])]
    require(not changed, f"using it changed {changed[0] if changed else ''} in its state.")


def draws_are_counted(case: Case) -> None:
    """A scheme that draws at every ``prepare`` draws different numbers each time, determined by its saved counters."""
    scheme = case.make(held=False)
    if not counters(scheme):
        return
    whole = not any(count.is_floating_point() for count in counters(scheme))
    require(whole, "counts its draws in floating point, which .to(torch.bfloat16) rounds: count in torch.int64.")
    state = {name: value.clone() for name, value in scheme.state_dict().items()}
    first, second = _detached(case, scheme), _detached(case, scheme)
    require(
        any(largest_difference(second[name], first[name]) > SAME for name in first),
        f"names {', '.join(scheme.draws)} in `draws`, and draws the same again: leave `draws` out.",
    )
    other = case.make(1, held=False)
    other.load_state_dict(state)
    again = _detached(case, other)
    worst = max(largest_difference(again[name], first[name]) for name in first)
    require(
        worst <= SAME, f"at the same count it draws something else, by {worst:.1e}: seed its generator by the count."
    )


def _same(case: Case, a: Scheme, b: Scheme, when: str) -> None:
    first, second = _detached(case, a), _detached(case, b)
    worst = max(largest_difference(second[name], first[name]) for name in first)
    require(worst <= SAME, f"{when} it does something else, by {worst:.1e}.")


def _detached(case: Case, scheme: Scheme) -> dict[str, Tensor]:
    return {name: effect.detach() for name, effect in case.effects(scheme, case.positions()).items()}
