"""Triton kernels on a GPU: differences from the torch forms that define them, then speeds next to those.

    python benchmarks/gpu/kernels.py --out FILE                        on a CUDA device
    python benchmarks/gpu/kernels.py --device cpu --tiny --out FILE    a rehearsal of every line

Differences are relative to the largest value, of values and gradients, from the torch form in float64 on the CPU. Two
calls of the deterministic form must have the same bits. Speeds are of three forms in turn: Triton, torch, and
torch.compile of the torch form, each compared with the torch form before it is timed. Next to them stand the bytes that
a call has to move, and the bandwidth of a copy, measured in the same process. Calls of torch.compile are timed with
gradients only.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import json
import math
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from posenc.kernels.grid_levels import growth, lay_out
from posenc.kernels.interpolation import interpolate
from posenc.kernels.kernel_form import INSTALLED, KernelForm, kernel_form
from posenc.kernels.rotary import PAIRINGS, Pairing, Rotation, rotate, rotate_in_place
from posenc.kernels.rotary_table import rotate_by_table

ALLOWED = {torch.float32: 1e-5, torch.float64: 1e-12, torch.bfloat16: 8e-3, torch.float16: 1e-3}
"""Largest difference by the data type of the inputs, relative to the largest value."""
ROUNDS = 15
"""Number of timed calls of each form; the forms take turns."""


class Case(NamedTuple):
    """A call that has several forms.

    Attributes:
        name: what is computed, with its data type.
        call: function of the inputs.
        inputs: tensors; the floating-point ones get gradients.
        moved: bytes that the forward pass has to read and write.
    """

    name: str
    call: Callable[..., Tensor]
    inputs: tuple[Tensor, ...]
    moved: int


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--tiny", action="store_true", help="small sizes, for a rehearsal on a CPU")
    parser.add_argument("--out", type=Path, required=True, help="JSON file")
    chosen = parser.parse_args(arguments)
    found: dict[str, Any] = {"differences": differences(chosen.device)}
    chosen.out.write_text(json.dumps(found, indent=1) + "\n")
    wrong = [name for name, each in found["differences"].items() if not each["difference"] <= each["allowed"]]
    print(f"{len(found['differences'])} values and gradients compared; wrong: {', '.join(wrong) or 'none'}")
    if wrong:
        return 1
    found["speeds"] = speeds(chosen.device, tiny=chosen.tiny)
    chosen.out.write_text(json.dumps(found, indent=1) + "\n")
    return 1 if any("error" in each for each in found["speeds"]["cases"].values()) else 0


def kernels_of(device: str) -> KernelForm:
    """Form that is measured: Triton on a GPU, and on a CPU where it is interpreted; otherwise the torch form."""
    interpreted = INSTALLED and os.environ.get("TRITON_INTERPRET") == "1"
    return "triton" if torch.device(device).type == "cuda" or interpreted else "torch"


def rotations(
    size: tuple[int, int, int, int], dtypes: Sequence[torch.dtype], pairings: Sequence[Pairing]
) -> Iterator[Case]:
    """Rotations of vectors ``(B, H, N, D)``: by a row for each token of each sample, and gathered on three axes."""
    batch, _, tokens, width = size
    generator = torch.Generator().manual_seed(0)
    index = torch.randint(32, (batch, tokens, 3), generator=generator)
    axis_of = [pair % 3 for pair in range(width // 2)]
    for pairing, dtype in itertools.product(pairings, dtypes):
        x = torch.randn(size, generator=generator).to(dtype)
        angle = torch.randn(batch, 1, tokens, width // 2, generator=generator)
        parts = torch.stack([angle.cos(), angle.sin()], -1)
        own = parts if pairing == "interleaved" else parts.mT.contiguous()
        table = own[0, 0, :1].repeat(32, 1, 1) * torch.linspace(0.5, 1, 32)[:, None, None]
        of_tokens = functools.partial(_by_row, pairing=pairing)
        gathered = functools.partial(_by_table, pairing=pairing, axis_of=axis_of)
        moved = 2 * x.nbytes
        yield Case(f"rotation by token, {pairing}, {dtype}", of_tokens, (x, own), moved + own.nbytes)
        yield Case(
            f"rotation gathered on 3 axes, {pairing}, {dtype}", gathered, (x, table, index), moved + index.nbytes
        )


def _by_row(x: Tensor, cos_sin: Tensor, pairing: Pairing) -> Tensor:
    return rotate(x, Rotation(cos_sin, pairing))


def _by_table(x: Tensor, cos_sin: Tensor, index: Tensor, pairing: Pairing, axis_of: Sequence[int]) -> Tensor:
    return rotate_by_table(x, Rotation(cos_sin.detach(), pairing), index, axis_of)


def grids(
    points: int, levels: int, finest: int, rows: int, dtypes: Sequence[torch.dtype], axes_of: Sequence[int]
) -> Iterator[Case]:
    """Dense and hashed levels, with gradients of table and coordinates."""
    generator = torch.Generator().manual_seed(0)
    for axes, dtype in itertools.product(axes_of, dtypes):
        laid = lay_out(growth(4, finest, levels), axes, table_size=rows)
        table = torch.randn(laid[-1].first + laid[-1].rows, 2, generator=generator).to(dtype)
        x = torch.rand(points, axes, generator=generator, dtype=torch.float64)
        call = functools.partial(interpolate, levels=laid, interpolation="smoothstep")
        moved = x.nbytes + points * levels * 2 * (2**axes + 1) * table.element_size()
        yield Case(f"grid on {axes} axes, {levels} levels, {dtype}", call, (table, x), moved)


def differences(device: str) -> dict[str, dict[str, Any]]:
    """Largest relative differences of values and gradients on the device, each with what is allowed."""
    found: dict[str, dict[str, Any]] = {}
    form, dtypes = kernels_of(device), (torch.float32, torch.bfloat16)
    turning = [(case, False) for case in rotations((2, 3, 21, 12), dtypes, PAIRINGS)]
    on_grids = [*grids(97, 3, 24, 2**9, dtypes[:1], (2, 3, 4)), *grids(97, 3, 24, 2**9, (torch.float16,), (3,))]
    for case, deterministic in (*turning, *itertools.product(on_grids, (False, True))):
        name = f"{case.name}{', deterministic' * deterministic}"
        try:
            found |= {f"{name}: {what}": each for what, each in _compare(case, device, form, deterministic)}
        except Exception as error:  # the other cases are compared all the same
            found[name] = {"difference": math.nan, "allowed": 0.0, "error": str(error)[:500]}
    x, own = (each.to(device) for each in next(iter(rotations((2, 3, 21, 12), (torch.float32,), ("half",)))).inputs)
    with kernel_form(form):
        apart, same = rotate(x, Rotation(own, "half")), rotate_in_place(x, Rotation(own, "half"))
    found["rotation in place"] = {"difference": float((apart - same).abs().max()), "allowed": 0.0}
    return found


def _compare(case: Case, device: str, form: KernelForm, deterministic: bool) -> Iterator[tuple[str, dict[str, Any]]]:
    given = [each.to(device) for each in case.inputs]
    exact = [each.double() if each.is_floating_point() else each for each in case.inputs]
    torch.use_deterministic_algorithms(deterministic)
    try:
        one = _results(case.call, given, form)
        two = _results(case.call, given, form) if deterministic else one
    finally:
        torch.use_deterministic_algorithms(False)
    for what, expected, a, b in zip(_parts(case), _results(case.call, exact, "torch"), one, two, strict=True):
        largest = max(float(expected.abs().max()), 1e-30)
        difference = float((a.cpu().double() - expected).abs().max()) / largest
        yield what, {"difference": difference, "allowed": ALLOWED[case.inputs[0].dtype]}
        if deterministic:
            yield f"{what}, two calls", {"difference": float((a != b).sum()), "allowed": 0.0}


def _parts(case: Case) -> list[str]:
    leaves = [each for each in case.inputs if each.is_floating_point()]
    return ["values", *(f"gradient of input {number}" for number, _ in enumerate(leaves[: _differentiable(case.call)]))]


def _differentiable(call: Any) -> int:
    """Number of inputs with gradients: a gathered table has none."""
    return 1 if call.func is _by_table else 2


def _results(call: Any, inputs: Sequence[Tensor], form: KernelForm) -> list[Tensor]:
    leaves = [each.detach().requires_grad_() if each.is_floating_point() else each for each in inputs]
    with kernel_form(form):
        y = call(*leaves)
    weights = torch.linspace(-1, 1, y.numel(), dtype=torch.float64).view(y.shape).to(y.device, y.dtype)
    wanted = leaves[: _differentiable(call)]
    return [y.detach(), *torch.autograd.grad(y, wanted, weights)]


def speeds(device: str, *, tiny: bool, done: Callable[[dict[str, Any]], None] | None = None) -> dict[str, Any]:
    """Milliseconds of the forms of each case, forward and with gradients; ``done`` gets what is known after each."""
    found: dict[str, Any] = {"copy_gigabytes_per_second": copy_bandwidth(device, tiny), "cases": {}}
    size, grid = ((1, 2, 8, 8), (64, 3, 16, 2**8)) if tiny else ((4, 32, 4096, 128), (2**18, 8, 512, 2**19))
    cases = itertools.chain(
        rotations(size, (torch.bfloat16,), ("half",)),
        grids(*grid, (torch.float32,), (2, 3)),
        grids(*grid, (torch.float16,), (3,)),
    )
    for case in cases:
        given = tuple(each.to(device) for each in case.inputs)
        case = case._replace(inputs=given)
        for gradients in (False, True):
            name = f"{case.name}{', with gradients' * gradients}"
            try:
                found["cases"][name] = timed = time_forms(case, gradients, tiny)
                print(name, *(f"{form} {each['median_ms']:.3f} ms" for form, each in timed["forms"].items()), sep="; ")
            except Exception as error:  # the other cases are timed all the same
                found["cases"][name] = {"error": str(error)[:500]}
                print(f"{name}: {found['cases'][name]['error']}")
            if done:
                done(found)
    return found


def copy_bandwidth(device: str, tiny: bool) -> float:
    """Gigabytes per second that a copy reads and writes."""
    one = torch.zeros(2**16 if tiny else 2**28, dtype=torch.uint8, device=device)
    other = torch.empty_like(one)
    median = statistics.median(_milliseconds(lambda: other.copy_(one)) for _ in range(ROUNDS))
    return 2 * one.nbytes / median / 1e6


def time_forms(case: Case, gradients: bool, tiny: bool) -> dict[str, Any]:
    """Median and quartiles of each form of a case, in turn, after its results were compared with the torch form's."""
    runs: dict[str, Callable[[], Any]] = {}
    torch.compiler.reset()  # the graphs of earlier cases count towards a limit
    compiled = torch.compile(case.call, fullgraph=True, backend="aot_eager" if tiny else "inductor")
    form = kernels_of(str(case.inputs[0].device))
    ways: dict[str, tuple[Any, KernelForm, bool]] = {"torch": (case.call, "torch", False)}
    ways |= {"triton": (case.call, "triton", False)} if form == "triton" else {}
    if gradients and case.call.func is interpolate and form == "triton":  # pyright: ignore[reportFunctionMemberAccess]
        ways["triton, deterministic"] = (case.call, "triton", True)
    ways |= (
        {"torch.compile": (compiled, "automatic", False)} if gradients else {}
    )  # each graph takes seconds to compile
    expected = case.call(*case.inputs)
    for name, (call, form, deterministic) in ways.items():
        runs[name] = functools.partial(_run, call, case, form, gradients, deterministic)
        result = runs[name]()
        apart = float((result - expected).double().abs().max() / expected.double().abs().max())
        if not apart <= ALLOWED[case.inputs[0].dtype]:
            raise ValueError(f"{case.name}, {name}: differs from the torch form by {apart:.1e}; it was not timed.")
    times: dict[str, list[float]] = {name: [] for name in runs}
    for turn in range(2 if tiny else ROUNDS + 3):
        for name, run in runs.items():
            taken = _milliseconds(run)
            times[name] += [taken] if tiny or turn >= 3 else []
    moved = case.moved * (2 if gradients else 1)
    forms = {name: _summary(each, moved) for name, each in times.items()}
    return {"moved_bytes": moved, "forms": forms}


def _run(call: Any, case: Case, form: KernelForm, gradients: bool, deterministic: bool) -> Tensor:
    if not gradients:
        with kernel_form(form), torch.no_grad():
            return call(*case.inputs)
    leaves = [each.detach().requires_grad_() if each.is_floating_point() else each for each in case.inputs]
    wanted = leaves[: _differentiable(case.call)]
    torch.use_deterministic_algorithms(deterministic)
    with kernel_form(form):
        y = call(*leaves)
    torch.autograd.grad(y, wanted, torch.ones_like(y))
    torch.use_deterministic_algorithms(False)
    return y.detach()


def _milliseconds(run: Callable[[], Any]) -> float:
    cuda = torch.cuda.is_available()
    if cuda:
        torch.cuda.synchronize()
    began = time.perf_counter()
    run()
    if cuda:
        torch.cuda.synchronize()
    return (time.perf_counter() - began) * 1000


def _summary(times: Sequence[float], moved: int) -> dict[str, float]:
    low, median, high = statistics.quantiles(times, n=4) if len(times) > 1 else (*times, math.nan, math.nan)
    return {
        "median_ms": median,
        "quartile_1_ms": low,
        "quartile_3_ms": high,
        "gigabytes_per_second": moved / median / 1e6,
    }


if __name__ == "__main__":
    sys.exit(main())
