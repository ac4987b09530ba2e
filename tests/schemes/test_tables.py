"""Learned and random tables, and the two schemes that know no place: NoPE and causal NoPE."""

import math

import pytest
import torch

from posenc.attention import attention
from posenc.positions import Positions, grid, sequence
from posenc.schemes.causal_nope import CausalNoPE
from posenc.schemes.learned import Learned
from posenc.schemes.nope import NoPE
from posenc.schemes.random import Random


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize("sigma", [0.1, 1, 2.5])
@pytest.mark.parametrize(("distribution", "kurtosis"), [("normal", 3.0), ("uniform", 1.8)])
def test_sigma_is_the_standard_deviation_of_either_distribution(distribution, kurtosis, sigma):
    table = Learned(100, 400, sigma=sigma, distribution=distribution, generator=seeded()).table.detach().double()
    n = table.numel()
    assert float(table.mean()) == pytest.approx(0, abs=5 * sigma / math.sqrt(n))
    # the standard error of a variance is sigma^2 sqrt((kurtosis - 1) / n)
    assert float(table.var()) == pytest.approx(sigma**2, abs=5 * sigma**2 * math.sqrt((kurtosis - 1) / n))
    assert float(table.pow(4).mean()) / sigma**4 == pytest.approx(kurtosis, rel=0.05)
    if distribution == "uniform":
        assert float(table.abs().max()) <= math.sqrt(3) * sigma


def test_sigma_0_is_a_table_of_zeros():
    for distribution in ("normal", "uniform"):
        table = Learned(3, 5, sigma=0, distribution=distribution).table
        assert table.shape == (5, 3)
        assert bool((table == 0).all())


def test_sigmas_scale_one_draw():
    small, large = (Learned(3, 5, sigma=sigma, generator=seeded()).table for sigma in (0.5, 1.0))
    torch.testing.assert_close(2 * small, large)
    assert not torch.equal(Learned(3, 5, generator=seeded(1)).table, large)


def test_learned_reads_its_rows_and_trains_those_alone():
    scheme = Learned(3, 5)
    rows = scheme.embed(scheme.prepare(Positions(torch.tensor([[4], [0], [4]]))))
    assert torch.equal(rows, scheme.table[[4, 0, 4]])
    rows.sum().backward()
    assert scheme.table.grad[:, 0].tolist() == [1, 0, 0, 0, 2]
    assert list(scheme.state_dict()) == ["table"]


@pytest.mark.parametrize("to", [(5, 7), (7, 5), (9, 4), (3, 11), (35, 2), (1, 1)])
@pytest.mark.parametrize("antialias", [False, True])
@pytest.mark.parametrize("method", ["cubic", "linear"])
def test_a_table_of_a_grid_at_another_resolution(method, antialias, to):
    scheme = Learned(3, 35).double()
    resized = scheme.resized((5, 7), to, method=method, antialias=antialias)
    picture = scheme.table.detach().view(5, 7, 3).permute(2, 0, 1)[None]
    wanted = torch.nn.functional.interpolate(
        picture, size=to, mode="bicubic" if method == "cubic" else "bilinear", antialias=antialias
    )[0].permute(1, 2, 0).reshape(-1, 3)  # fmt: skip
    torch.testing.assert_close(resized.table.detach(), wanted, atol=1e-12, rtol=0)
    assert resized.claims.range == (0, math.prod(to) - 1)
    assert scheme.claims.range == (0, 34)
    assert resized.embed(resized.prepare(sequence(math.prod(to)))).shape == (math.prod(to), 3)


def test_an_unchanged_grid_is_copied_exactly():
    scheme = Learned(3, 24, sigma=0.2).bfloat16()
    same = scheme.resized((4, 6), (4, 6))
    assert torch.equal(same.table, scheme.table)
    assert same.table.data_ptr() != scheme.table.data_ptr()
    assert same.table.dtype == torch.bfloat16
    assert same.sigma == 0.2
    assert isinstance(same.table, torch.nn.Parameter)
    assert list(same.state_dict()) == ["table"]


def test_a_table_of_equal_size_and_another_shape_is_not_the_same_grid():
    # timm#2317, #2737: skipped where the number of tokens is equal. A row of 4 read as a 2 x 2: by hand, linear.
    scheme = Learned(1, 4)
    scheme.table.data = torch.tensor([[0.0], [1.0], [2.0], [3.0]])
    square = scheme.resized((1, 4), (2, 2), method="linear", antialias=False)
    assert square.table.flatten().tolist() == [0.5, 2.5, 0.5, 2.5]


def test_resized_on_one_axis_and_on_three():
    scheme = Learned(2, 24)
    ramp = torch.arange(24.0)[:, None].repeat(1, 2)
    scheme.table.data = ramp
    doubled = scheme.resized((24,), (48,), method="linear").table[:, 0].tolist()
    assert doubled[:4] == [0, 0.25, 0.75, 1.25]  # (i + 1/2) / 2 - 1/2, the edge repeated
    volume = scheme.resized((2, 3, 4), (4, 3, 8), method="linear", antialias=False).table.view(4, 3, 8, 2)
    torch.testing.assert_close(volume[1, 1, 3], torch.tensor([3.0 + 4 + 1.25] * 2))


@pytest.mark.parametrize(
    ("shape", "to", "sentence"),
    [
        ((5, 5), (2, 2), r"table of 24 rows is not a grid of shape \(5, 5\), which has 25 points\. Keep a class token"),
        ((4, 6), (24,), r"grid of shape \(4, 6\) has 2 axes and so has its new shape, .* got \(24,\)"),
        ((4, 6), (0, 6), r"each of at least 1 point; got \(0, 6\)"),
    ],
)
def test_resizing_what_is_no_grid(shape, to, sentence):
    with pytest.raises(ValueError, match=sentence):
        Learned(3, 24).resized(shape, to)


def test_random_is_a_saved_buffer_of_standard_normal_numbers():
    scheme = Random(100, 400, generator=seeded())
    assert list(scheme.parameters()) == []
    assert list(scheme.state_dict()) == ["table"]
    table, n = scheme.table.double(), scheme.table.numel()
    assert float(table.mean()) == pytest.approx(0, abs=5 / math.sqrt(n))
    assert float(table.var()) == pytest.approx(1, abs=5 * math.sqrt(2 / n))
    assert torch.equal(Random(100, 400, generator=seeded()).table, scheme.table)
    other = Random(100, 400, generator=seeded(1))
    assert not torch.equal(other.table, scheme.table)
    other.load_state_dict(scheme.state_dict())
    assert torch.equal(other.table, scheme.table)


@pytest.mark.parametrize("kind", [Learned, Random])
def test_a_token_without_a_place_has_a_row_of_zeros_whatever_its_coordinate(kind):
    placed = torch.tensor([[True, False], [False, True]])
    rows = (scheme := kind(3, 5)).embed(scheme.prepare(Positions(torch.tensor([[1.0], [-7.5]]), placed[:1])))
    assert rows.shape == (1, 2, 3)
    assert torch.equal(rows[0], torch.stack([scheme.table[1], torch.zeros(3)]))
    rows = scheme.embed(scheme.prepare(Positions(torch.tensor([[[1], [99]], [[99], [4]]]), placed)))
    assert torch.equal(rows[1, 1], scheme.table[4])
    assert rows[0, 1].abs().max() == rows[1, 0].abs().max() == 0


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (
            lambda: Learned(3, 5, sigma=-0.2),
            r"sigma is the standard deviation .* a number >= 0; got -0\.2\. Small ones",
        ),
        (lambda: Learned(3, 5, sigma=math.nan), r"a number >= 0; got nan"),
        (lambda: Learned(3, 5, sigma=math.inf), r"a number >= 0; got inf"),
        (lambda: Learned(0, 5), r"needs dim >= 1 and max_len >= 1; got dim=0, max_len=5"),
        (lambda: Learned(3, 0), r"needs dim >= 1 and max_len >= 1; got dim=3, max_len=0"),
        (lambda: Random(3, 0), r"random table needs dim >= 1 and max_len >= 1; got dim=3, max_len=0"),
        (
            lambda: Learned(3, 512).prepare(sequence(701)),
            r"Learned starts at 0 and stops at 511; position 700 was asked for\. Build it to reach 700, or use a "
            r"scheme without a limit: posenc list --unbounded",
        ),
        (
            lambda: Random(3, 5).prepare(sequence(3, start=-1)),
            r"Random starts at 0 and stops at 4; position -1 was asked for\. Move them there, pos \+ 1,",
        ),
        (lambda: Random(3, 5).prepare(Positions(torch.tensor([[0.5]]))), r"position 0\.5 lies between two"),
        (lambda: Learned(3, 5).prepare(grid(2, 2)), r"Learned here reads 1 axes per position; these positions have 2"),
        (
            lambda: CausalNoPE(0),
            r"divides the logits by `temperature`, which must be positive and finite; got 0\. The paper's",
        ),
        (lambda: CausalNoPE(-1.5), r"must be positive and finite; got -1\.5"),
        (lambda: CausalNoPE(math.nan), r"must be positive and finite; got nan"),
        (lambda: CausalNoPE(math.inf), r"must be positive and finite; got inf"),
        (lambda: CausalNoPE(2, literal=True), r"temperature 0\.01 of the authors' code; got temperature=2 as well"),
        (lambda: CausalNoPE().prepare(grid(2, 2)), r"CausalNoPE here reads 1 axes per position"),
        (lambda: NoPE().out_dim, r"NoPE embeds nothing: it acts at no site\. Ask first"),
    ],
)
def test_bad_input(make, sentence):
    with pytest.raises(ValueError, match=sentence):
        make()


@pytest.mark.bare  # the shape hook would refuse the word before the sentence does
def test_an_unknown_distribution():
    with pytest.raises(ValueError, match=r"drawn 'normal' or 'uniform'; got 'cauchy'"):
        Learned(3, 5, distribution="cauchy")
    with pytest.raises(ValueError, match=r"a table is interpolated 'cubic' or 'linear'; got 'nearest'"):
        Learned(3, 4).resized((4,), (6,), method="nearest")


def qkv(n: int = 5) -> tuple[torch.Tensor, ...]:
    return tuple(torch.randn(3, 2, 3, n, 4, generator=seeded(7), dtype=torch.float64))


def test_nope_is_attention_without_positions():
    q, k, v = qkv()
    out = attention(q, k, v, scheme=NoPE(), q_pos=sequence(5))
    wanted = (q @ k.mT / 2).softmax(-1) @ v
    torch.testing.assert_close(out, wanted, atol=1e-12, rtol=0)


@pytest.mark.parametrize(("options", "tau"), [({}, 1), ({"temperature": 0.5}, 0.5), ({"literal": True}, 0.01)])
def test_causal_nope_divides_the_logits_and_looks_back(options, tau):
    q, k, v = qkv()
    out = attention(q, k, v, scheme=CausalNoPE(**options), q_pos=sequence(5))
    logits = (q @ k.mT / (2 * tau)).masked_fill(torch.ones(5, 5).triu(1).bool(), -torch.inf)
    torch.testing.assert_close(out, logits.softmax(-1) @ v, atol=1e-12, rtol=0)
    assert CausalNoPE(**options).temperature == tau


def test_causal_nope_reads_before_off_the_positions():
    scheme = CausalNoPE()

    def seen(pos: Positions) -> list:
        where = scheme.prepare(pos)
        return scheme.mask(scheme.relate(where, where)).int().tolist()

    assert seen(Positions(torch.tensor([[2.5], [-1.0], [2.5]]))) == [[1, 1, 1], [0, 1, 0], [1, 1, 1]]
    assert seen(Positions(torch.tensor([[0], [1], [2]]), torch.tensor([True, False, True]))) == [
        [1, 1, 0], [1, 1, 1], [1, 1, 1],
    ]  # fmt: skip
    assert seen(sequence(torch.tensor([[0, 1], [1, 0]]))) == [[[[1, 0], [1, 1]]], [[[1, 1], [0, 1]]]]
