"""Wavelengths of schemes, and calls with frequencies that are stretched beyond the training length."""

from __future__ import annotations

import math

import pytest
import torch

from posenc import ALiBi, FourierFeatures, GridRotate, RoPE, Sinusoid
from posenc.frequencies import linear, yarn
from posenc.lookup.scheme_text import build, parse
from posenc.measure.stretched_frequencies import stretched, takes_schedule, wavelengths


def test_wavelengths_are_those_of_the_tables() -> None:
    geometric = [2 * math.pi * 100 ** (i / 4) for i in range(4)]
    assert wavelengths(RoPE(8, base=100.0)) == pytest.approx(geometric)
    assert wavelengths(Sinusoid(8, base=100.0)) == pytest.approx(geometric)
    assert wavelengths(Sinusoid(16, axes=2, base=100.0)) == pytest.approx(geometric)
    assert wavelengths(RoPE(8, frequencies=[1.0, 0.5, 0.25, 0.0])) == pytest.approx(
        [2 * math.pi, 4 * math.pi, 8 * math.pi, math.inf]
    )
    cycles = FourierFeatures(4, frequencies=[2.0, 0.5])
    assert wavelengths(cycles) == pytest.approx([math.pi, 4 * math.pi])
    waves = wavelengths(GridRotate(12, frequencies=[2.0, 1.0]))
    assert waves is not None
    assert sorted({round(each, 6) for each in waves}) == pytest.approx([math.pi, 2 * math.pi])
    assert wavelengths(ALiBi(4)) is None


def test_stretched_calls_have_the_schedules_of_their_own_base() -> None:
    assert takes_schedule(RoPE)
    assert not takes_schedule(ALiBi)
    calls = stretched(parse("RoPE(8, base=500.0, pairing='half')"), 4, 4.0, 64)
    made = {name: build(call, {}) for name, call in calls.items()}
    assert list(made) == ["linear", "ntk", "yarn", "longrope"]
    assert made["linear"].theta == pytest.approx(linear(4, factor=4.0, base=500.0).tolist())
    wanted = yarn(4, factor=4.0, trained=64, base=500.0, alpha=0.5, beta=2.0)
    assert made["yarn"].theta == pytest.approx(wanted.theta.tolist())
    assert made["yarn"].attention_factor == pytest.approx(wanted.attention_factor)
    assert {scheme.pairing for scheme in made.values()} == {"half"}
    slowest = torch.tensor([scheme.theta[-1] for scheme in made.values()])
    torch.testing.assert_close(slowest, torch.full((4,), 500 ** (-3 / 4) / 4), rtol=1e-5, atol=0)
