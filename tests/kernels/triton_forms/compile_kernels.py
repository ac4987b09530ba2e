"""Compile every Triton kernel for CUDA devices where there is none, as calls of the library would compile it.

    python tests/kernels/triton_forms/compile_kernels.py

It runs in a process of its own, because whether kernels are interpreted is decided when they are imported. Calls of the
library bind and compile their kernels for an architecture, and launch nothing. Prints a line for each kernel: its name,
the architecture, the bytes of machine code, the numbers of products fused with sums and of atomic additions of floats,
and how it rounds to 16 bits.
"""

from __future__ import annotations

import re
import types
from collections.abc import Iterator
from typing import Any

import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.runtime.jit import JITFunction

from posenc.kernels.grid_levels import lay_out
from posenc.kernels.interpolation import interpolate
from posenc.kernels.kernel_form import kernel_form
from posenc.kernels.rotary import Pairing, Rotation, rotate, rotate_in_place
from posenc.kernels.rotary_table import rotate_by_table

ARCHITECTURES = (80, 90)


def rotations() -> Iterator[None]:
    """Both layouts of pairs, heads and tokens: several and one, whole and in part, gathered, in place."""
    shapes: tuple[tuple[Pairing, int, int, int], ...] = (("interleaved", 4, 64, 64), ("half", 4, 64, 96))
    for pairing, heads, pairs, width in (*shapes, ("across", 1, 1, 2), ("interleaved", 1, 1, 3)):
        parts = (pairs // 2 or 1, 2) if pairing == "interleaved" else (2, pairs // 2 or 1)
        by = Rotation(torch.zeros(5, *parts), pairing)
        x = torch.zeros(2, heads, 5, width, dtype=torch.bfloat16)
        yield rotate_in_place(x, by)
        yield rotate_by_table(
            x, by, torch.zeros(2, 5, 2, dtype=torch.long), [0, 1][: by.width // 2] * (pairs // 4 or 1)
        )
        yield rotate_in_place(x, Rotation(by.cos_sin.double(), pairing))
        yield rotate(x.requires_grad_(), by, back=True).sum().backward()


def grids() -> Iterator[None]:
    """Grids of 1 to 4 axes, of one point and of many: forward, both gradients, float and fixed-point sums."""
    kinds = (torch.float32, torch.float16, torch.bfloat16, torch.float64)
    for axes, kind, interpolation in zip(
        (2, 3, 4, 1), kinds, ("linear", "smoothstep", "nearest", "linear"), strict=True
    ):
        levels = lay_out((4, 9) if axes > 1 else (4,), axes, table_size=256)
        table = torch.zeros(levels[-1].first + levels[-1].rows, 5 - axes, dtype=kind, requires_grad=True)
        x = torch.zeros(600 if axes > 1 else 1, axes, dtype=torch.float64, requires_grad=True)
        for fixed in (False, True):
            torch.use_deterministic_algorithms(fixed)
            yield interpolate(table, x, levels, interpolation).sum().backward()  # pyright: ignore[reportArgumentType]


def driver_of(architecture: int) -> types.SimpleNamespace:
    """Driver of a device of this architecture, as far as compilation asks for one."""
    return types.SimpleNamespace(
        get_current_device=lambda: architecture,
        get_current_stream=lambda _: 0,
        get_current_target=lambda: GPUTarget("cuda", architecture, 32),
    )


def main() -> None:
    """Compile all and print what came out."""
    compiled: dict[tuple[str, int, int], Any] = {}

    def compile_alone(kernel: JITFunction, launch: Any) -> Any:
        def run(*given: Any, **named: Any) -> None:
            done = kernel.run(*given, grid=launch, warmup=True, **named)
            compiled[kernel.fn.__name__, done.metadata.target.arch, len(done.asm["cubin"])] = done

        return run

    JITFunction.__getitem__ = compile_alone
    for architecture in ARCHITECTURES:
        triton.runtime.driver.set_active(driver_of(architecture))
        with kernel_form("triton"):
            for _ in (*rotations(), *grids()):
                pass
    for (name, architecture, size), done in compiled.items():
        rounding = sorted(set(re.findall(r"cvt\.\w+\.b?f16\w*\.f32", done.asm["ptx"])))
        fused = len(re.findall(r"\bfma\.rn\.f(?:32|64)", done.asm["ptx"]))
        atomic = len(re.findall(r"\b(?:atom|red)\.[\w.]*add[\w.]*\.[b]?f\d+", done.asm["ptx"]))
        print(name, architecture, size, f"fused={fused}", f"float_atomics={atomic}", *rounding)


if __name__ == "__main__":
    main()
