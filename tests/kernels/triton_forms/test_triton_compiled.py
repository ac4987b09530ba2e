"""Triton's kernels become machine code for CUDA devices on a machine without one; their instructions are looked at."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from interpreted import interpreted

pytestmark = [pytest.mark.bare, interpreted]


@pytest.fixture(scope="module")
def kernels(tmp_path_factory) -> list[list[str]]:
    """Words on each kernel: name, architecture, bytes of machine code, then what was counted."""
    folder = tmp_path_factory.mktemp("triton")
    environment = {key: value for key, value in os.environ.items() if key != "TRITON_INTERPRET"}
    program = Path(__file__).with_name("compile_kernels.py")
    done = subprocess.run(
        [sys.executable, "-W", "error", str(program)],
        env=environment | {"TRITON_CACHE_DIR": str(folder)}, capture_output=True, text=True, timeout=280, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return [line.split() for line in done.stdout.splitlines()]


def test_every_kernel_compiles_for_every_architecture(kernels):
    names = {"_rotate_pairs", "_interpolate_levels", "_table_gradient", "_coordinate_gradient"}
    assert {(name, arch) for name, arch, *_ in kernels} == {(name, arch) for name in names for arch in ("80", "90")}
    assert all(int(size) > 1000 for _, _, size, *_ in kernels)


def test_products_are_not_fused_and_results_are_rounded_to_nearest(kernels):
    assert {words[3] for words in kernels} == {"fused=0"}
    rotations = [words for words in kernels if words[0] == "_rotate_pairs"]
    assert all(words[5:] in (["cvt.rn.bf16.f32"], ["cvt.rn.bf16x2.f32"]) for words in rotations)


def test_only_the_table_gradient_adds_floats_atomically_and_not_in_fixed_point(kernels):
    adding = [words for words in kernels if words[4] != "float_atomics=0"]
    assert {words[0] for words in adding} == {"_table_gradient"}
    assert len(adding) * 2 == len([words for words in kernels if words[0] == "_table_gradient"])
