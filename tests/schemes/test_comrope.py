"""ComRoPE, the forms of LieRE whose generators commute: the authors' code, MixedRoPE, shifts and refusals."""

import math

import pytest
import torch

from posenc import LieRE, MixedRoPE, attention, grid
from posenc.kernels.matrix_exponential import skew
from posenc.positions import Positions

FORMS = ("linearly dependent", "axial partition")


def draw(*shape, seed=3):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def made(form, block, heads=3, axes=2, width=12):
    return LieRE(width, heads, axes, block=block, commuting=form, generator=torch.Generator().manual_seed(1)).double()


def released(scheme, x, coords):
    """q or k as the authors turn them: a whole matrix P for each block, exponent matrices, ``torch.matrix_exp``."""
    heads, _, blocks, _ = scheme.generators.shape
    axes, size = coords.shape[-1], scheme.block
    freqs = torch.zeros(heads, 1, blocks, size, size, dtype=torch.float64)
    i, j = torch.triu_indices(size, size, 1)
    freqs[..., i, j] = scheme.generators.detach()
    exponents = freqs - freqs.mT
    if scheme.multipliers is not None:
        exponents = exponents * scheme.multipliers.detach()[None, :, :, None, None]
    else:
        mask = torch.zeros(axes, blocks, dtype=torch.float64)
        for axis in range(axes):
            mask[axis, axis::axes] = 1
        exponents = exponents.expand(-1, axes, -1, -1, -1) * mask[None, :, :, None, None]
    turn = torch.matrix_exp(torch.einsum("na,hajcd->hnjcd", coords, exponents).contiguous())
    return torch.einsum("hnjcd,bhnjd->bhnjc", turn, x.unflatten(-1, (blocks, size))).flatten(-2)


@torch.no_grad()
@pytest.mark.compares("LieRE", "transcribed", "Longin-Yu/ComRoPE")
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("block", [2, 3, 6])
def test_it_is_the_rotation_of_the_authors(form, block, same):
    scheme, coords, x = made(form, block), draw(5, 2).abs(), draw(2, 3, 5, 12, seed=4)
    same(scheme.transform(x, scheme.prepare(Positions(coords)), "q"), released(scheme, x, coords), 1e-12)
    single = scheme.prepare(Positions(coords.float()))
    same(scheme.transform(x.float(), single, "q"), released(scheme, x, coords.float().double()).float())


@torch.no_grad()
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("block", [3, 4, 6])
def test_logits_depend_on_the_distance_alone(form, block):
    width = 12 if block != 4 else 16
    scheme, (q, k, v) = made(form, block, width=width), draw(3, 1, 3, 6, width)
    assert scheme.claims.translation == "exact"
    moves = ((0.0, 0.0), (17.5, -5.25))
    here, there = (attention(q, k, v, scheme=scheme, q_pos=grid(2, 3) + move) for move in moves)
    torch.testing.assert_close(here, there, atol=1e-5, rtol=0)
    free = LieRE(width, 3, block=block).double()
    here, there = (attention(q, k, v, scheme=free, q_pos=grid(2, 3) + move) for move in moves)
    assert float((here - there).abs().max()) > 1e-2


def test_linearly_dependent_blocks_of_two_are_mixed_rope():
    liere, mixed = made(FORMS[0], 2), MixedRoPE(12, 3).double()
    assert liere.multipliers is not None
    with torch.no_grad():
        mixed.directions.copy_(-liere.multipliers * liere.generators[..., 0])
    x, pos = draw(1, 3, 5, 12), Positions(draw(5, 2))
    found, want = (each.transform(x, each.prepare(pos), "k") for each in (liere, mixed))
    torch.testing.assert_close(found, want)


def test_parameters_are_those_that_a_form_needs():
    assert {name: tuple(t.shape) for name, t in made(FORMS[0], 3, axes=3).named_parameters()} == {
        "generators": (3, 1, 4, 3),
        "multipliers": (3, 4),
    }
    assert {name: tuple(t.shape) for name, t in made(FORMS[1], 6).named_parameters()} == {"generators": (3, 1, 2, 15)}


@pytest.mark.parametrize("form", FORMS)
def test_it_starts_as_a_difference_of_normal_numbers(form):
    start = LieRE(64, 64, block=8, commuting=form, generator=torch.Generator().manual_seed(0))
    halved = LieRE(64, 64, block=8, commuting=form, scale=0.5, generator=torch.Generator().manual_seed(0))
    matrix = skew(start.generators.detach(), 8)
    torch.testing.assert_close(matrix, -matrix.mT)
    assert float(start.generators.detach().std()) == pytest.approx(math.sqrt(2), rel=0.02)
    torch.testing.assert_close(halved.generators, start.generators / 2)


def test_a_cast_leaves_multipliers_as_they_are():
    scheme = LieRE(12, 3, block=3, commuting=FORMS[0]).bfloat16()
    assert scheme.multipliers is not None
    assert scheme.multipliers.dtype == torch.float32


@pytest.mark.bare
@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: LieRE(12, 2, block=3, commuting="LD"), "'linearly dependent', 'axial partition' or None; got 'LD'"),
        (lambda: LieRE(12, 2, block=12, commuting=FORMS[1]), "got 1 blocks for 2 axes. Choose a block width"),
        (lambda: LieRE(12, 2, commuting=FORMS[1], axes=3, block=6), "got 2 blocks for 3 axes"),
        (lambda: LieRE(12, 2, commuting=FORMS[0], scale=math.inf), "above 0 and finite; got inf"),
    ],
)
def test_bad_input(make, sentence):
    with pytest.raises(ValueError, match=sentence):
        make()
