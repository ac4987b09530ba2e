"""RoPE against plain complex numbers in NumPy."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from posenc.attention import attention
from posenc.frequencies import geometric
from posenc.kernels.rotary import PAIRINGS, Rotation, convert_pairing, rotate
from posenc.positions import Positions, grid, sequence
from posenc.schemes.rope import RoPE


def oracle(x: np.ndarray, p: np.ndarray, theta: np.ndarray, pairing: str = "interleaved") -> np.ndarray:
    """``(x_a + i x_b) e^(i p theta)``."""
    turned, half = x.astype(np.float64).copy(), x.shape[-1] // 2
    a, b = (slice(0, None, 2), slice(1, None, 2)) if pairing == "interleaved" else (slice(half), slice(half, None))
    z = (x[..., a] + 1j * x[..., b]) * np.exp(1j * p[:, None] * theta)
    turned[..., a], turned[..., b] = z.real, z.imag
    return turned


def turned(scheme: RoPE, x: torch.Tensor, pos: Positions) -> torch.Tensor:
    return scheme.transform(x, scheme.prepare(pos), "q")


def draw(*shape: int, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(7), dtype=dtype)


@pytest.mark.parametrize("pairing", ["interleaved", "half"])
@pytest.mark.parametrize("own", [None, (2.0, 0.5, 0.1, 0.003)])
def test_it_is_a_product_with_a_complex_number(pairing, own):
    x, p = draw(2, 3, 5, 8), np.array([-3.5, 0, 1, 17.25, 4000])
    frequencies = None if own is None else torch.tensor(own, dtype=torch.float64)
    theta = 10000.0 ** (-np.arange(4) / 4) if own is None else np.array(own)
    pos = Positions(torch.tensor(p)[:, None])
    out = turned(RoPE(8, pairing=pairing, frequencies=frequencies), x, pos)
    np.testing.assert_allclose(out.numpy(), oracle(x.numpy(), p, theta, pairing), atol=1e-12)


def test_the_geometric_schedule_by_hand():
    assert geometric(4).tolist() == pytest.approx([1, 0.1, 0.01, 0.001], rel=1e-15)
    assert geometric(2, base=100.0).tolist() == pytest.approx([1, 0.1], rel=1e-15)
    assert geometric(0).tolist() == []


@given(st.integers(-(10**6), 10**6), st.integers(-(10**6), 10**6), st.integers(-(10**6), 10**6))
def test_lengths_are_kept_and_products_depend_on_the_distance_alone(m, n, shift):
    scheme, (q, k) = RoPE(12), draw(2, 1, 1, 2, 12)

    def at(*p: int) -> Positions:
        return Positions(torch.tensor(p, dtype=torch.float64)[:, None])

    a, b = turned(scheme, q, at(m, n)), turned(scheme, k, at(m, n))
    torch.testing.assert_close(a.norm(dim=-1), q.norm(dim=-1))
    moved = turned(scheme, q, at(m + shift, n + shift)), turned(scheme, k, at(m + shift, n + shift))
    torch.testing.assert_close(a @ b.mT, moved[0] @ moved[1].mT, atol=1e-8, rtol=0)


def test_position_0_is_the_identity_and_v_and_o_are_left_alone():
    x = draw(1, 2, 3, 12)
    assert torch.equal(turned(RoPE(12), x, Positions(torch.zeros(3, 1))), x)
    where = RoPE(12).prepare(sequence(3))
    assert RoPE(12).transform(x, where, "v") is x
    assert RoPE(12).transform(x, where, "o") is x
    assert not torch.allclose(RoPE(12).transform(x, where, "k"), x)


def test_the_two_pairings_are_one_up_to_a_permutation_of_channels():
    x, pos = draw(1, 2, 5, 12), sequence(5) + 3.0
    order = torch.arange(12).view(6, 2).T.flatten()  # evens first, then odds
    interleaved, half = turned(RoPE(12), x, pos), turned(RoPE(12, pairing="half"), x[..., order], pos)
    torch.testing.assert_close(interleaved[..., order], half, atol=1e-14, rtol=0)
    assert not torch.allclose(interleaved, turned(RoPE(12, pairing="half"), x, pos))


@pytest.mark.parametrize("pairing", ["interleaved", "half"])
def test_a_part_turns_as_if_alone_and_leaves_the_rest(pairing):
    x, pos = draw(1, 2, 5, 12), sequence(5)
    out = turned(RoPE(8, of=12, pairing=pairing), x, pos)
    assert torch.equal(out[..., 8:], x[..., 8:])
    assert torch.equal(out[..., :8], turned(RoPE(8, pairing=pairing), x[..., :8], pos))
    assert torch.equal(turned(RoPE(12, of=12), x, pos), turned(RoPE(12), x, pos))


def test_the_other_partial_pairing_has_the_halves_of_the_head():
    """Pairs (i, i + D/2) for i < d/2: as "half" over the whole head with frequencies of zero, and not the slice's."""
    x, pos = draw(1, 2, 5, 12), sequence(5) + 3.0
    out = turned(RoPE(8, of=12, pairing="across"), x, pos)
    theta = torch.cat([geometric(4), torch.zeros(2, dtype=torch.float64)])
    torch.testing.assert_close(out, turned(RoPE(12, pairing="half", frequencies=theta), x, pos))
    assert torch.equal(out[..., [4, 5, 10, 11]], x[..., [4, 5, 10, 11]])
    assert not torch.allclose(out, turned(RoPE(8, of=12, pairing="half"), x, pos))
    whole = turned(RoPE(12, pairing="across"), x, pos)
    assert torch.equal(whole, turned(RoPE(12, pairing="half"), x, pos))


@pytest.mark.parametrize("was", PAIRINGS)
@pytest.mark.parametrize("becomes", PAIRINGS)
@pytest.mark.parametrize("turning", [12, 8])
def test_repaired_weights_give_the_same_logits_under_the_other_pairing(was, becomes, turning):
    heads, inputs, pos = draw(2, 2 * 12, 10), draw(1, 5, 10), sequence(5) + 3.0

    def logits(weights, pairing):
        scheme = RoPE(turning, of=12, pairing=pairing)
        q, k = (turned(scheme, (inputs @ w.T).unflatten(-1, (2, 12)).transpose(1, 2), pos) for w in weights)
        return q @ k.mT

    other = [convert_pairing(w, was, becomes, 12, turning=turning) for w in heads]
    torch.testing.assert_close(logits(other, becomes), logits(heads, was))
    assert torch.equal(convert_pairing(other[0], becomes, was, 12, turning=turning), heads[0])
    assert torch.equal(convert_pairing(heads[0][:, 0], was, becomes, 12, turning=turning), other[0][:, 0])  # a bias


def test_repaired_takes_evens_first_for_halves():
    rows = torch.arange(12.0)
    assert convert_pairing(rows, "interleaved", "half", 6).tolist() == [0, 2, 4, 1, 3, 5, 6, 8, 10, 7, 9, 11]
    assert convert_pairing(rows, "half", "across", 6, turning=4).tolist() == [0, 1, 4, 2, 3, 5, 6, 7, 10, 8, 9, 11]


@pytest.mark.parametrize("pairing", PAIRINGS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_every_way_of_computing_a_turn_agrees(pairing, dtype):
    """In place, as complex numbers, as strided views that no complex number fits, and as compilers get it."""
    x = draw(2, 3, 5, 12).to(dtype)
    where = RoPE(12, pairing=pairing).prepare(sequence(5, start=90))
    out = rotate(x, where)
    odd = torch.zeros(2, 3, 5, 13, dtype=dtype)
    odd[..., 1:] = x
    torch.testing.assert_close(rotate(odd[..., 1:], where), out)  # begins at an odd place
    torch.testing.assert_close(rotate(x.transpose(1, 2).contiguous().transpose(1, 2), where), out)
    torch.testing.assert_close(rotate(x.mT.contiguous().mT, where), out)  # channels far apart
    back = rotate(out.float(), where, back=True)
    torch.testing.assert_close(back, x.float(), atol=1e-5 if dtype == torch.float32 else 3e-2, rtol=0)


@pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated")  # torch's own, on the way to jvp
@pytest.mark.parametrize("pairing", PAIRINGS)
def test_gradients_and_per_sample_maps_go_through_every_way(pairing):
    scheme, x = RoPE(4, of=6, pairing=pairing), draw(2, 1, 3, 6).requires_grad_()
    coords = draw(3, 1).requires_grad_()

    def f(x, coords):
        return scheme.transform(x, scheme.prepare(Positions(coords)), "q")

    assert torch.autograd.gradcheck(f, (x, coords))
    assert torch.autograd.gradgradcheck(f, (x, coords))
    many = draw(4, 3, 1)
    mapped = torch.func.vmap(lambda p: f(x.detach(), p))(many)
    torch.testing.assert_close(mapped, torch.stack([f(x.detach(), p) for p in many]))
    _, slope = torch.func.jvp(lambda p: f(x.detach(), p), (coords.detach(),), (torch.ones_like(coords.detach()),))
    step = (f(x.detach(), coords.detach() + 1e-6) - f(x.detach(), coords.detach() - 1e-6)) / 2e-6
    torch.testing.assert_close(slope, step, atol=1e-6, rtol=0)


@pytest.mark.parametrize("autocast", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.int64])
def test_the_phase_is_right_to_a_milliradian_up_to_ten_million(dtype, autocast):
    p = torch.tensor([0, 1, 4096, 131072, 10**6, 10**7 - 1, 10**7])[:, None]
    one = torch.tensor([1.0, 0.0]).repeat(32).expand(1, 1, 7, 64)
    with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
        out = turned(RoPE(64).float(), one, Positions(p.to(dtype))).double().numpy()[0, 0]
    angle = p.numpy() * 10000.0 ** (-np.arange(32) / 32)
    error = np.angle((out[:, 0::2] + 1j * out[:, 1::2]) * np.exp(-1j * angle))
    assert np.abs(error).max() <= 1e-3


def test_no_cast_of_the_module_rounds_its_frequencies():
    own = torch.tensor([1.0, 0.1, 0.01, 0.001])
    pos = sequence(3, start=10**6)
    for scheme in (RoPE(8), RoPE(8, frequencies=own)):
        before = scheme.prepare(pos).cos_sin
        assert list(scheme.state_dict()) == []
        assert torch.equal(scheme.bfloat16().prepare(pos).cos_sin, before)
        assert before.dtype == torch.float32
    assert RoPE(8).prepare(Positions(pos.coords.double())).cos_sin.dtype == torch.float64


def test_half_precision_comes_back_as_it_came_and_is_rounded_once():
    x, pos = draw(1, 1, 5, 12, dtype=torch.bfloat16), sequence(5, start=10**6)
    out = turned(RoPE(12), x, pos)
    assert out.dtype == torch.bfloat16
    assert torch.equal(out, turned(RoPE(12), x.float(), pos).bfloat16())


def test_a_token_without_a_place_is_not_turned():
    x = draw(2, 1, 4, 12)
    placed = torch.tensor([[False, True, True, True], [True, True, True, False]])
    out = turned(RoPE(12), x, Positions((sequence(4) + 5).coords, placed))
    assert torch.equal(out[0, :, 0], x[0, :, 0])
    assert torch.equal(out[1, :, 3], x[1, :, 3])
    assert not torch.allclose(out[1, :, 0], x[1, :, 0])


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: RoPE(63), r"`head_dim` must be even; got 63\. Use 64, or rotate a part: RoPE\(62, of=63\)"),
        (lambda: RoPE(1), r"`head_dim` must be even; got 1\. Use 2"),
        (lambda: RoPE(0), r"RoPE rotates pairs of channels.*got 0\. Use 2\."),
        (lambda: RoPE(-2), r"RoPE rotates pairs of channels.*got -2\. Use 2\."),
        (
            lambda: RoPE(12, of=8),
            r"rotates 12 of 8 channels; `of` is the width: RoPE\(8, of=12\)",
        ),
        (
            lambda: RoPE(8, frequencies=geometric(3)),
            r"rotates 4 pairs .* got 3 of shape \(3,\)\. Pass 4 numbers",
        ),
        (lambda: RoPE(2, frequencies=torch.tensor([torch.nan])), r"frequencies must be finite; got \[nan\]"),
        (lambda: RoPE(8).prepare(grid(2, 2)), r"RoPE here reads 1 axes per position; these positions have 2"),
        (
            lambda: turned(RoPE(8), torch.zeros(1, 1, 3, 12), sequence(3)),
            r"of=8\) rotates heads of that width, not of 12: change `of`",
        ),
        (
            lambda: RoPE(8).out_dim,
            r"RoPE embeds nothing: it acts at k, q\. Ask first whether 'embed' is in claims\.sites",
        ),
        (
            lambda: convert_pairing(torch.zeros(10, 2), "half", "across", 8),
            r"10 rows are not a multiple of 8\. Pass the head's",
        ),
        (
            lambda: convert_pairing(torch.zeros(8, 2), "half", "across", 8, turning=10),
            r"at most 8 channels is rotated; got turning=10",
        ),
        (lambda: RoPE(8).embed(RoPE(8).prepare(sequence(2))), r"RoPE embeds nothing: it acts at k, q\."),
    ],
)
def test_bad_input(make, sentence):
    with pytest.raises(ValueError, match=sentence):
        make()


@pytest.mark.bare  # the shape hook would refuse the word before the sentence does
def test_an_unknown_pairing():
    with pytest.raises(ValueError, match=r"'interleaved' \(2i, 2i\+1\), 'half' \(i, i\+d/2\) or, .*; got 'neox'"):
        RoPE(8, pairing="neox")
    with pytest.raises(ValueError, match=r"channels are paired 'interleaved', 'half', 'across'; got 'neox'"):
        convert_pairing(torch.zeros(8, 2), "half", "neox", 8)


@pytest.mark.parametrize("pairing", PAIRINGS)
def test_wide_copies_a_head_at_a_time_change_nothing(pairing):
    """Large heads in bfloat16, with one turn for all heads, one for each, and one for each sample."""
    x = draw(2, 3, 2048, 16, dtype=torch.bfloat16)
    pos = sequence(torch.arange(2048) * torch.tensor([[1], [3]]))
    whole, own = RoPE(16, pairing=pairing).prepare(sequence(2048)), RoPE(16, pairing=pairing).prepare(pos)
    each = Rotation(torch.stack([whole.cos_sin * size for size in (1, 2, 3)]), pairing)
    for by in (whole, own, each):
        wide = x.float()
        out = rotate(x, by)
        assert torch.equal(out, rotate(wide, by).bfloat16())
        assert torch.equal(wide, x.float())
    grown = x.clone().requires_grad_()
    rotate(grown, each).sum().backward()
    assert grown.grad is not None
    torch.testing.assert_close(grown.grad, rotate(torch.ones_like(x), each, back=True))


@pytest.mark.compile
@pytest.mark.filterwarnings("ignore:.torch.jit.script_method. is deprecated:DeprecationWarning")  # inductor's own
@pytest.mark.parametrize("pairing", PAIRINGS)
@pytest.mark.full
def test_compiled_turns_are_the_eager_ones(pairing):
    scheme, x = RoPE(8, of=12, pairing=pairing), draw(1, 2, 5, 12, dtype=torch.float32)
    compiled = torch.compile(lambda x, pos: scheme.transform(x, scheme.prepare(pos), "q"), fullgraph=True)
    torch.testing.assert_close(compiled(x, sequence(5)), turned(scheme, x, sequence(5)))


def test_attention_with_rope_is_softmax_of_the_oracles_products():
    q, k, v = draw(3, 1, 2, 5, 8)
    theta, p = 10000.0 ** (-np.arange(4) / 4), np.arange(5.0)
    turned_q, turned_k = (oracle(t.numpy(), p, theta) for t in (q, k))
    logits = np.einsum("bhid,bhjd->bhij", turned_q, turned_k) / np.sqrt(8)
    weights = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    out = attention(q, k, v, scheme=RoPE(8), q_pos=Positions(torch.tensor(p)[:, None]))
    np.testing.assert_allclose(out.numpy(), weights @ v.numpy(), atol=1e-12)
