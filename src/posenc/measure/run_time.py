"""Run time of a scheme: one attention layer, forward and backward, in comparison with no scheme."""

from __future__ import annotations

import copy
import statistics
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

from posenc.attention import attend, choose
from posenc.positions import Positions, grid
from posenc.scheme import Scheme
from posenc.schemes.nope import NoPE

ROUNDS = 7


def cost(
    scheme: Scheme, pos: Positions, *, batch: int = 1, heads: int = 8, head_dim: int = 64, rounds: int = ROUNDS
) -> list[dict[str, Any]]:
    """Measure the run time of a scheme's steps, each next to a baseline in the same rounds.

    The steps are ``prepare``, ``embed``, the maps of q and k, ``mix``, and an attention layer without and with its
    backward pass. The baseline of the attention layer is ``NoPE``; that of the other steps is a copy of their tensors.
    Tensors are float32 on the device of ``pos``. The number of threads is torch's present one.

    Args:
        scheme: the scheme to measure.
        pos: positions of the N tokens.
        batch: batch size.
        heads: number of attention heads.
        head_dim: width of a head, for schemes that accept any.
        rounds: number of rounds after a warm-up round, at least 2.

    Returns:
        One row ``{what, milliseconds, spread, ratio, floor}`` per step. ``milliseconds`` and ``floor`` are medians over
        rounds of the scheme and the baseline (ms), ``ratio`` is their quotient, and ``spread`` is half the
        interquartile range (ms).

    Raises:
        ValueError: fewer than two rounds.
    """
    if rounds < 2:
        raise ValueError(f"a spread needs two rounds or more; got rounds={rounds}. Use {ROUNDS}.")
    width, device = scheme.head_width or head_dim, pos.coords.device
    scheme = copy.deepcopy(scheme).float().to(device)  # the caller's keeps its numbers and gets no gradients
    normal = partial(torch.randn, generator=torch.Generator(device).manual_seed(0), device=device)
    q, k, v = (normal(batch, heads, pos.count, width).requires_grad_() for _ in range(3))
    x = normal(batch, pos.count, heads * width)
    bare = NoPE()
    steps: dict[str, tuple[Callable[[], Any], Callable[[], Any]]] = {
        "prepare": (lambda: scheme.prepare(pos), lambda: (q.clone(), k.clone()))
    }
    where = scheme.prepare(pos)
    if "embed" in scheme.claims.sites:
        rows = scheme.embed(where)
        steps["embed"] = (lambda: scheme.embed(where), lambda: rows.clone())
    if scheme.claims.sites & {"q", "k"}:
        steps["q and k"] = (
            lambda: (scheme.transform(q, where, "q"), scheme.transform(k, where, "k")),
            lambda: (q.clone(), k.clone()),
        )
    if "mix" in scheme.claims.sites:
        steps["mix"] = (lambda: scheme.mix(x, where), lambda: x.clone())
    if scheme.claims.sites - {"embed", "mix"}:
        layer, floor = _layer(scheme, pos, q, k, v, x), _layer(bare, pos, q, k, v, x)
        steps["attention"] = (layer, floor)
        steps["with backward"] = (lambda: _back(layer(), q, k, v), lambda: _back(floor(), q, k, v))
    return [{"what": name, **_timed(ours, floor, rounds, device)} for name, (ours, floor) in steps.items()]


def consecutive_positions(scheme: Scheme, count: int) -> Positions:
    """Make about ``count`` positions that a scheme can read, consecutive on every axis.

    Args:
        scheme: the scheme.
        count: number of positions. A scheme with the site "mix" gets a full grid of about that size.

    Returns:
        Positions, whole numbers if the scheme's range has room for them.
    """
    axes = scheme.claims.axes or 1
    if "mix" in scheme.claims.sites:  # it reads neighbors, so it needs a full grid
        return grid(*[max(round(count ** (1 / axes)), 1)] * axes)
    line, columns = torch.arange(count), []
    for low, high in (each or (0.0, float(count)) for each in scheme.claims.limits(axes)):
        room = int(high - low) + 1
        columns.append(low + line % room if room > 8 else low + (high - low) * line / max(count, 1))
    return Positions(torch.stack(columns, -1))


def _layer(scheme: Scheme, pos: Positions, q: Tensor, k: Tensor, v: Tensor, x: Tensor) -> Callable[[], Tensor]:
    def run() -> Tensor:
        where = scheme.prepare(pos)
        return attend(q, k, v, scheme, where, where, scheme.relate(where, where), kept=scheme.keep(x, where))

    return run


def _back(out: Tensor, *leaves: Tensor) -> None:
    for leaf in leaves:
        leaf.grad = None
    out.sum().backward()


def _timed(ours: Callable[[], Any], floor: Callable[[], Any], rounds: int, device: torch.device) -> dict[str, float]:
    times: dict[str, list[float]] = {"ours": [], "floor": []}
    for turn in range(rounds + 1):
        for name, run in (("ours", ours), ("floor", floor)):
            began = time.perf_counter()
            run()
            if device.type == "cuda":
                torch.cuda.synchronize(device)
            if turn:  # the first round warms up
                times[name].append((time.perf_counter() - began) * 1e3)
    middle = {name: statistics.median(values) for name, values in times.items()}
    quartiles = statistics.quantiles(times["ours"], n=4)
    return {
        "milliseconds": middle["ours"],
        "spread": (quartiles[2] - quartiles[0]) / 2,
        "ratio": middle["ours"] / max(middle["floor"], 1e-9),
        "floor": middle["floor"],
    }


def backend_and_reason(scheme: Scheme) -> str:
    """Return the backend that attention uses for a scheme, and the reason.

    Args:
        scheme: the scheme.

    Returns:
        Text such as "flex: reason".
    """
    backend, reason = choose(scheme)
    return f"{backend}: {reason}"
