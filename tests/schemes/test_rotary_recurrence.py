"""VO-RoPE under weights that decay is a linear recurrence with a complex decay: the same numbers from another formula.

    a_ij = gamma^(i - j), j <= i:   o_i = sum_j a_ij R_{j-i} v_j
    s_i = gamma e^(-i theta) s_(i-1) + v_i  in complex numbers, pair of channels by pair:   s_i = o_i

Source: Su 2025, kexue.fm/archives/10862.
"""

import pytest
import torch

from posenc.positions import sequence
from posenc.schemes.vo_rope import VORoPE

N, D = 200, 12


def by_attention(v: torch.Tensor, gamma: float, at: str, start: float = 0.0) -> torch.Tensor:
    """``T_o(A T_v(v))`` with the decaying weights, not normalised."""
    scheme = VORoPE(D, at)
    where = scheme.prepare(sequence(torch.arange(N, dtype=torch.float64), start=start))
    away = torch.arange(N, dtype=torch.float64)[:, None] - torch.arange(N, dtype=torch.float64)
    weights = torch.where(away >= 0, gamma**away, 0.0)
    return scheme.transform(weights @ scheme.transform(v, where, "v"), where, "o")


def by_recurrence(v: torch.Tensor, gamma: float) -> torch.Tensor:
    z = torch.view_as_complex(v.unflatten(-1, (-1, 2)).contiguous())
    theta = 10000.0 ** (-torch.arange(D // 2, dtype=torch.float64) / (D // 2))
    decay, state, told = torch.polar(torch.full_like(theta, gamma), -theta), torch.zeros_like(z[..., 0, :]), []
    for n in range(N):
        state = decay * state + z[..., n, :]
        told.append(state)
    return torch.view_as_real(torch.stack(told, -2)).flatten(-2)


@pytest.mark.parametrize("gamma", [0.5, 0.95, 1.0])
def test_decaying_weights_are_a_recurrence_with_a_complex_decay(gamma: float) -> None:
    v = torch.randn(2, 3, N, D, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    expected = by_recurrence(v, gamma)
    torch.testing.assert_close(by_attention(v, gamma, "vo"), expected, atol=1e-10, rtol=0)
    torch.testing.assert_close(by_attention(v, gamma, "qkvo", start=1000.0), expected, atol=1e-10, rtol=0)


def test_without_turning_the_output_back_it_is_not() -> None:
    v = torch.randn(1, 1, N, D, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    assert float((by_attention(v, 0.95, "v") - by_recurrence(v, 0.95)).abs().max()) > 0.1
