"""Turns part by part: values, gradients and layouts are those of complex numbers, whatever the parts."""

import pytest
import torch
from torch import Tensor

from posenc.kernels import rotary
from posenc.kernels.rotary import PAIRINGS, Pairing, Rotation, rotate

B, H, N, D = 3, 4, 7, 6
TABLES = [(N,), (H, N), (B, 1, N), (B, H, N), (1, H, N)]


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def table(before: tuple[int, ...], pairing: Pairing) -> Rotation:
    numbers = draw(*before, D // 2, 2, seed=1)
    return Rotation(numbers if pairing == "interleaved" else numbers.mT.contiguous(), pairing)


def oracle(x: Tensor, by: Rotation, back: bool) -> Tensor:
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


def layouts() -> dict[str, Tensor]:
    return {
        "in order": draw(B, H, N, D),
        "heads after tokens": draw(B, N, H, D).transpose(1, 2),
        "from an odd place": draw(B, H, N, D + 1)[..., 1:],
        "channels far apart": draw(B, H, D, N).mT,
        "one sample for all": draw(1, H, N, D).expand(B, -1, -1, -1),
    }


@pytest.mark.parametrize("before", TABLES)
@pytest.mark.parametrize("pairing", PAIRINGS)
def test_parts_make_the_whole(parts, pairing, before):
    by = table(before, pairing)
    for layout, x in layouts().items():
        low = x.bfloat16()
        for back in (False, True):
            torch.testing.assert_close(rotate(x, by, back=back), oracle(x, by, back), msg=layout)
            out = rotate(low, by, back=back)
            assert out.dtype == torch.bfloat16, layout
            torch.testing.assert_close(out, oracle(low.double(), by, back).bfloat16(), msg=layout)
        assert torch.equal(low, x.bfloat16()), layout


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("pairing", PAIRINGS)
def test_one_vector_for_several_turns_takes_no_parts(parts, pairing, dtype):
    """Turns of another number of tokens are refused: a part would be left in memory, or one token would become many."""
    for before in [(B, 1, N), (B, H, N)]:
        by = table(before, pairing)
        for shape in [(1, H, N, D), (B, 1, N, D)]:
            x = draw(*shape).to(dtype)
            torch.testing.assert_close(rotate(x, by).double(), oracle(x.double(), by, False), atol=1e-5, rtol=1e-5)
    for tokens in (N - 1, N + 1):
        with pytest.raises(ValueError, match=rf"these angles are of {tokens} positions, and there are {N} tokens"):
            rotate(draw(B, H, N, D).to(dtype), table((B, 1, tokens), pairing))
    with pytest.raises(ValueError, match=rf"these angles are of {N} positions, and there are 1 tokens"):
        rotate(draw(B, H, 1, D).to(dtype), table((B, 1, N), pairing))


@pytest.mark.full
@pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated")  # torch's own, on the way to jvp
@pytest.mark.parametrize("pairing", PAIRINGS)
def test_parts_have_every_derivative(monkeypatch, pairing):
    """The gradient, its own, those of a batch of vectors and forwards; and the table's, which takes no parts."""
    monkeypatch.setattr(rotary, "SEVERAL", 1)
    monkeypatch.setattr(rotary, "PART", 8)
    by, x = table((2, 3), pairing), draw(2, 2, 3, D + 1)[..., 1:].detach().requires_grad_()
    assert rotate(x, by).grad_fn.name() == "_InPartsBackward"
    assert torch.autograd.gradcheck(lambda x: rotate(x, by), x, check_batched_grad=True, check_forward_ad=True)
    assert torch.autograd.gradgradcheck(lambda x: rotate(x, by), x, check_batched_grad=True)
    of_a_sample = torch.vmap(torch.func.jacrev(lambda x: rotate(x[None], by)[0]))(x)
    together = torch.autograd.functional.jacobian(lambda x: rotate(x, by), x, vectorize=True)
    torch.testing.assert_close(of_a_sample[1], together[1, ..., 1, :, :, :])
    trained = by.cos_sin.clone().requires_grad_()
    assert torch.autograd.gradcheck(lambda x, t: rotate(x, Rotation(t, pairing)), (x, trained))


@pytest.mark.parametrize("pairing", PAIRINGS)
def test_trained_angles_get_a_gradient_from_a_long_sequence(monkeypatch, pairing):
    """Parts compute no gradient of the table, so they are not taken where it wants one."""
    monkeypatch.setattr(rotary, "SEVERAL", 1)
    x, trained = draw(B, H, N, D + 1)[..., 1:], table((N,), pairing).cos_sin.requires_grad_()
    by = Rotation(trained, pairing)
    found, wanted = (torch.autograd.grad(y.square().sum() + y.sum(), trained)[0]
                     for y in (rotate(x, by), oracle(x, by, back=False)))  # fmt: skip
    torch.testing.assert_close(found, wanted)


@pytest.mark.parametrize(("pairing", "dtype"), [("half", torch.float32), ("interleaved", torch.bfloat16)])
def test_long_sequences_are_turned_in_parts_unasked(monkeypatch, pairing, dtype):
    """And so is their gradient; short ones, and what is one complex product, are not."""
    cuts, cut = [], rotary._cut
    monkeypatch.setattr(rotary, "_cut", lambda dim, step, *rest: cuts.append((dim, step)) or cut(dim, step, *rest))
    numbers = draw(rotary.PART // 16, 8, 2, seed=1).float()
    by = Rotation(numbers if pairing == "interleaved" else numbers.mT.contiguous(), pairing)
    long = draw(1, 3, len(numbers), 16).to(dtype).requires_grad_()
    out = rotate(long, by)
    assert cuts[-1] == (1, 1)  # a head at a time
    before = len(cuts)
    (grad,) = torch.autograd.grad(out, long, out.detach())
    assert len(cuts) == 2 * before
    rotate(long[:, :, :16], Rotation(by.cos_sin[:16], pairing))
    rotate(long.float(), Rotation(numbers, "interleaved"))
    monkeypatch.setattr(rotary, "SEVERAL", long.numel() + 1)
    assert torch.equal(out, rotate(long, by))
    assert torch.equal(grad, rotate(out, by, back=True))
    assert len(cuts) == 2 * before


@pytest.mark.compile
@pytest.mark.filterwarnings("ignore:.torch.jit.script_method. is deprecated:DeprecationWarning")  # inductor's own
@pytest.mark.parametrize("pairing", PAIRINGS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.full
def test_compiled_parts_are_the_eager_ones_to_the_last_rounding(monkeypatch, pairing, dtype):
    monkeypatch.setattr(rotary, "SEVERAL", 1)
    x, by = draw(2, 3, 32, 16).to(dtype).requires_grad_(), Rotation(draw(32, 8, 2).float(), "interleaved")
    by = by if pairing == "interleaved" else Rotation(by.cos_sin.mT.contiguous(), pairing)
    found = []
    torch._dynamo.reset()
    for way in (rotate, torch.compile(rotate, fullgraph=True)):
        out = way(x, by)
        found.append((out, *torch.autograd.grad(out.float().square().sum(), x)))
    for a, b in zip(*found, strict=True):
        torch.testing.assert_close(a, b, atol=1e-5, rtol=1e-5 if dtype == torch.float32 else 2**-7)
    torch._dynamo.reset()
