"""Turns part by part: values, gradients and layouts are those of complex numbers, whatever the parts."""

import pytest
import torch
from torch import Tensor

from posenc.kernels import rotary
from posenc.kernels.rotary import PAIRINGS, Pairing, Turn, turn

B, H, N, D = 3, 4, 7, 6
TABLES = [(N,), (H, N), (B, 1, N), (B, H, N), (1, H, N)]


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def table(before: tuple[int, ...], pairing: Pairing) -> Turn:
    numbers = draw(*before, D // 2, 2, seed=1)
    return Turn(numbers if pairing == "interleaved" else numbers.mT.contiguous(), pairing)


def oracle(x: Tensor, by: Turn, back: bool) -> Tensor:
    """The product with complex numbers, of these two of x's channels."""
    c, s = by.cos_sin.unbind(by.axis)
    factor = torch.complex(c, -s if back else s)
    a, b = (x[..., 0::2], x[..., 1::2]) if by.pairing == "interleaved" else x.chunk(2, -1)
    z = torch.complex(a, b) * factor
    return torch.stack([z.real, z.imag], -1 if by.pairing == "interleaved" else -2).flatten(-2)


@pytest.fixture(params=[1, 2 * D, 2 * N * D, 2 * H * N * D, 10**6])
def parts(request, monkeypatch) -> int:
    """One token, two, two heads, two samples, or all at a time: three of them leave a remainder."""
    monkeypatch.setattr(rotary, "SEVERAL", 1)
    monkeypatch.setattr(rotary, "PART", request.param)
    return request.param


@pytest.mark.parametrize("back", [False, True])
@pytest.mark.parametrize("before", TABLES)
@pytest.mark.parametrize("pairing", PAIRINGS)
def test_parts_make_the_whole(parts, pairing, before, back):
    by = table(before, pairing)
    for x in (draw(B, H, N, D), draw(B, N, H, D).transpose(1, 2), draw(B, H, N, D + 1)[..., 1:], draw(D, H, N, B).mT.mT.movedim(0, 3).movedim(2, 0)):
        given = x.reshape(B, H, N, D) if x.shape != (B, H, N, D) else x
        wanted = oracle(given, by, back)
        torch.testing.assert_close(turn(given, by, back=back), wanted)
        low = given.bfloat16()
        out = turn(low, by, back=back)
        assert out.dtype == torch.bfloat16
        torch.testing.assert_close(out, oracle(low.double(), by, back).bfloat16())
