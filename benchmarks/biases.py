"""Biases on the logits: what they cost beside attention without one, and Shaw beside its (N, N, d) form.

    python benchmarks/biases.py --out results/biases.json

Forward and backward pass, one thread, float32, heads of 64 channels, one sample. Nothing is timed before values and
gradients agree in float64: Shaw with the paper's equations as they stand, a vector for every pair; every other scheme
with a bias, made some queries at a time, with the same scheme's whole matrix. Two forms are timed in turn; what counts
is the median of the rounds' ratios, and seconds are the process's own, so that another process costs little. Memory is
what a pass adds to a fresh process at its peak, less what SDPA without a mask adds, in (N, N) float32 matrices a head;
the aim for Shaw is one.
"""

from __future__ import annotations

import math
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_all_start_methods, get_context
from typing import Any

import torch
from torch import Tensor

from command import begin, keep, met, options
from encoder import peak_memory, start_memory
from posenc.attention import attention, attention_weights
from posenc.positions import sequence
from posenc.scheme import Scheme
from posenc.schemes import catalogue
from posenc.schemes.nope import NoPE
from posenc.schemes.shaw import Shaw

WIDTH, REACH, INPUT = 64, 64, 12
NAIVE = 1024  # tokens of the (N, N, d) form: 256 MiB a table
TIMED = 1536  # tokens of what is timed beside SDPA
GATED = 1060  # tokens of the gate: with four heads too many pairs to be made whole, and no whole number of parts
TOLERANCE = 1e-9
AIM_MATRICES, AIM_SPEED = 1.0, 1.0

Given = tuple[Tensor, Tensor, Tensor, Tensor]
Attend = Callable[[Scheme, Given], Tensor]


def main() -> int:
    parser = options("Memory and time of biases, next to attention without one.", 3)
    parser.add_argument("--tokens", type=int, default=4096, help="length at which memory is measured (default 4096)")
    chosen = begin(parser)
    torch.set_num_threads(1)
    shaws = {
        f"Shaw, {'keys and values' if values else 'keys'}, {heads} heads": (Shaw(WIDTH, REACH, values=values), heads)
        for heads in (1, 8)
        for values in (True, False)
    }
    others = {name: (scheme, 4) for name, scheme in with_a_bias().items()}
    extra = matrices(shaws | others, chosen.tokens)
    found: dict[str, Any] = {}
    for cases, timed in ((shaws, beside_naive), (others, beside_nothing)):
        for name, (scheme, heads) in cases.items():
            line, figures = timed(name, scheme, heads, chosen.rounds)
            aim = f" (aim {AIM_MATRICES:g}, {met(extra[name] <= AIM_MATRICES)})" if cases is shaws else ""
            print(f"{name}: {line}; {extra[name]:.2f} matrices a head at {chosen.tokens}{aim}", flush=True)
            found[name] = figures | {"matrices_a_head": extra[name]}
    keep(chosen, tokens=chosen.tokens, found=found)
    return 0


def beside_naive(name: str, scheme: Scheme, heads: int, rounds: int) -> tuple[str, dict[str, Any]]:
    """Speed of Shaw, with tables of 2 * 64 + 1 rows, next to the (N, N, d) form."""
    gate(name, scheme, heads, naive)
    seconds = in_turn(scheme, NAIVE, heads, rounds, {"ours": ours, "naive": naive})
    ratios = [b / a for a, b in zip(seconds["ours"], seconds["naive"], strict=True)]
    speed = statistics.median(ratios)
    line = f"{speed:.1f} x the (N, N, d) form at {NAIVE} tokens (aim {AIM_SPEED:g} x, {met(speed >= AIM_SPEED)})"
    return line, {"ratio": speed, "rounds": ratios, "naive_tokens": NAIVE}


def beside_nothing(name: str, scheme: Scheme, heads: int, rounds: int) -> tuple[str, dict[str, Any]]:
    """Time next to SDPA without a bias."""
    gate(name, scheme, heads, whole)
    seconds = in_turn(scheme, TIMED, heads, rounds, {"ours": ours, "plain": plain})
    ratios = [a / b for a, b in zip(seconds["ours"], seconds["plain"], strict=True)]
    slower = statistics.median(ratios)
    line = f"{slower:.1f} x the time of SDPA without a bias at {TIMED} tokens"
    return line, {"ratio": slower, "rounds": ratios, "timed_tokens": TIMED}


def with_a_bias() -> dict[str, Scheme]:
    """Every scheme of the catalogue that biases the logits of a long sequence, as its first example has it."""
    found = {}
    for name, kind in catalogue().items():
        claims = kind(**kind.examples[0]).claims
        if "bias" in claims.sites and "value_bias" not in claims.sites and claims.range is None and claims.axes == 1:
            widened = {
                option: size for option, size in {"head_dim": WIDTH, "dim": INPUT}.items() if option in kind.examples[0]
            }
            found[name] = kind(**{**kind.examples[0], **widened})
    return found


def inputs(tokens: int, heads: int, dtype: torch.dtype = torch.float32) -> Given:
    generator = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(1, heads, tokens, WIDTH, generator=generator, dtype=dtype) for _ in range(3))
    x = torch.randn(1, tokens, INPUT, generator=generator, dtype=dtype)
    return q.requires_grad_(), k.requires_grad_(), v.requires_grad_(), x


def ours(scheme: Scheme, given: Given) -> Tensor:
    q, k, v, x = given
    return attention(q, k, v, scheme=scheme, q_pos=sequence(q.shape[2]), x=x)


def plain(scheme: Scheme, given: Given) -> Tensor:
    return ours(NoPE(), given)


def whole(scheme: Scheme, given: Given) -> Tensor:
    """The same scheme with its whole matrix in memory."""
    q, k, v, x = given
    where = scheme.prepare(sequence(q.shape[2]))
    q = q / math.sqrt(WIDTH)
    return attention_weights(q, k, scheme, scheme.relate(where, where), kept=scheme.keep(x, where)) @ v


def naive(scheme: Scheme, given: Given) -> Tensor:
    """Equations 3 and 4 of arXiv 1803.02155 as they stand, with a vector for every pair."""
    q, k, v, _ = given
    keys, values = scheme.get_parameter("keys"), dict(scheme.named_parameters()).get("values")
    at, reach = torch.arange(q.shape[2]), len(keys) // 2
    row = (at - at[:, None]).clamp(-reach, reach) + reach
    logits = (q @ k.mT + torch.einsum("bhid,ijd->bhij", q, keys[row])) / math.sqrt(WIDTH)
    weights = logits.softmax(-1)
    return weights @ v if values is None else weights @ v + torch.einsum("bhij,ijd->bhid", weights, values[row])


def gate(name: str, scheme: Scheme, heads: int, reference: Attend) -> None:
    """Raises ValueError unless values and gradients agree in float64."""
    scheme.double()
    given = inputs(GATED, heads, torch.float64)
    wanted = [*given[:3], *scheme.parameters()]
    found = []
    for form in (ours, reference):
        out = form(scheme, given)
        found.append([out.detach(), *torch.autograd.grad(out.square().sum(), wanted)])
    scheme.float()
    worst = max(float((a - b).abs().max() / b.abs().max().clamp(min=1)) for a, b in zip(*found, strict=True))
    if not worst <= TOLERANCE:
        raise ValueError(
            f"{name} differs from its reference by {worst:.1e} (allowed {TOLERANCE:.0e}); a speed of wrong results is "
            "none. Run tests/schemes first."
        )


def in_turn(scheme: Scheme, tokens: int, heads: int, rounds: int, forms: dict[str, Attend]) -> dict[str, list[float]]:
    """Seconds of a forward and backward pass of each form, in turn."""
    found: dict[str, list[float]] = {name: [] for name in forms}
    for turn in range(rounds):
        for name in list(forms)[:: 1 if turn % 2 else -1]:
            given = inputs(tokens, heads)
            began = time.process_time()
            forms[name](scheme, given).sum().backward()
            found[name].append(time.process_time() - began)
    return found


def matrices(cases: Mapping[str, tuple[Scheme, int]], tokens: int) -> dict[str, float]:
    """Peak memory of schemes with so many heads above SDPA without a mask, in (N, N) float32 matrices a head.

    Each in a process of its own, two at a time: memory needs no quiet. Where forks are at hand, these are forks of a
    server that has torch loaded.
    """
    context = get_context("forkserver" if "forkserver" in get_all_start_methods() else "spawn")
    with ProcessPoolExecutor(2, mp_context=context, max_tasks_per_child=1) as pool:
        beside = {heads: pool.submit(added, NoPE(), tokens, heads) for heads in {heads for _, heads in cases.values()}}
        above = {name: pool.submit(added, scheme, tokens, heads) for name, (scheme, heads) in cases.items()}
    extra = {name: above[name].result() - beside[heads].result() for name, (_, heads) in cases.items()}
    return {name: extra[name] * 2**20 / (4 * heads * tokens**2) for name, (_, heads) in cases.items()}


def added(scheme: Scheme, tokens: int, heads: int) -> float:
    """MiB that a forward and backward pass adds to this process at its peak."""
    torch.set_num_threads(1)
    ours(scheme, inputs(64, heads)).sum().backward()
    given = inputs(tokens, heads)
    rest = start_memory()
    ours(scheme, given).sum().backward()
    return peak_memory() - rest


if __name__ == "__main__":
    sys.exit(main())
