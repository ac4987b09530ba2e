"""GridRotate, GridMerge, GridComplex and GridDeep: the clean forms against numpy, and what the released code runs."""

import math

import numpy as np
import pytest
import torch
from torch.utils import _pytree as pytree

from posenc.attention import attention
from posenc.contract import check, checks, run
from posenc.contract.case import Case
from posenc.contract.claims import translation_is_as_claimed
from posenc.frequencies import economy
from posenc.kernels import simplex
from posenc.kernels.complex_map import ALONG_TOKENS, drawn
from posenc.lookup import scheme_text
from posenc.positions import Positions, grid, sequence
from posenc.schemes.grid_complex import GridComplex
from posenc.schemes.grid_deep import GridDeep
from posenc.schemes.grid_merge import GridMerge
from posenc.schemes.grid_rotate import GridRotate
from posenc.schemes.rope import RoPE

VARIANTS = [GridRotate, GridMerge, GridComplex, GridDeep]
REPOSITORY = "BoyangL1/gridpe-vision"
RELEASED = np.array([complex(*c) for c in simplex.RELEASED])


def ones(scheme, pos, site):
    """A vector of ones at every place, as the scheme maps it."""
    with torch.no_grad():
        x = torch.ones(1, 1, pos.count, 12, dtype=torch.float64)
        return scheme.transform(x, scheme.prepare(Positions(pos.coords.double())), site)[0, 0].numpy()


def logits(scheme, q, k, q_pos, k_pos):
    with torch.no_grad():
        at = [scheme.prepare(Positions(torch.tensor([p], dtype=torch.float64))) for p in (q_pos, k_pos)]
        q, k = (torch.as_tensor(t)[None, None, None] for t in (q, k))
        return float((scheme.transform(q, at[0], "q") * scheme.transform(k, at[1], "k")).sum())


def test_every_layer_is_a_turned_simplex_of_its_scale():
    waves = simplex.wave_vectors(5, 3, torch.tensor([2.0, 1.0]).double(), seed=0).numpy()
    assert waves.shape == (5, 4, 3)
    size = np.linalg.norm(waves, axis=-1)
    np.testing.assert_allclose(size, np.array([2, 1, 2, 1, 2])[:, None] * np.ones(4))
    gram = np.einsum("kip,kjp->kij", waves, waves) / size[:, :1, None] ** 2
    np.testing.assert_allclose(gram[:, ~np.eye(4, dtype=bool)], -1 / 3, atol=1e-12)
    assert np.abs(waves[0] - waves[2]).max() > 0.1


def test_rotate_on_one_axis_is_rope():
    pos = sequence(8)
    q, k, v = torch.randn(3, 1, 2, 8, 12, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    frequencies = torch.tensor([10000 ** (-2 * i / 12) for i in range(6)], dtype=torch.float64)
    pair = (GridRotate(12, 1, frequencies=frequencies), RoPE(12))
    out = [attention(q, k, v, scheme=s, q_pos=Positions(pos.coords.double())) for s in pair]
    torch.testing.assert_close(*out, atol=1e-12, rtol=0)


def test_rotate_turns_a_pair_by_its_first_wave():
    scheme = GridRotate(12)
    first = simplex.wave_vectors(6, 2, economy(axes=2), 0)[:, 0].numpy()
    pos = grid(3, 4)
    angle = pos.coords.numpy() @ first.T
    turned = ones(scheme, pos, "q").reshape(12, 6, 2)
    np.testing.assert_allclose(turned[..., 0], np.cos(angle) - np.sin(angle), atol=1e-6)
    np.testing.assert_allclose(turned[..., 1], np.cos(angle) + np.sin(angle), atol=1e-6)


def test_merge_adds_real_and_imaginary_part():
    scheme = GridMerge(12, frequencies=torch.tensor([2.0, 0.5]))
    waves = simplex.wave_vectors(12, 2, torch.tensor([2.0, 0.5]).double(), 0).numpy()
    pos = grid(3, 4)
    g = np.exp(1j * np.einsum("kip,np->nki", waves, pos.coords.numpy())).sum(-1) / math.sqrt(3)
    for site in ("q", "k"):
        np.testing.assert_allclose(ones(scheme, pos, site), 1 + g.real + g.imag, atol=1e-6)
    np.testing.assert_array_equal(ones(scheme, pos, "v"), 1)


def test_complex_is_the_real_part_of_conjugate_times_sum():
    rng = np.random.default_rng(0)
    q, k, m, n = rng.normal(size=12), rng.normal(size=12), [1.5, -2.0], [0.25, 4.0]
    waves = simplex.wave_vectors(12, 2, economy(axes=2), 0).numpy()
    g = [np.exp(1j * waves @ np.array(p)).sum(-1) / math.sqrt(3) for p in (m, n)]
    expected = (q * k * (g[0].conj() * g[1]).real).sum()
    assert logits(GridComplex(12), q, k, m, n) == pytest.approx(expected, abs=1e-12)
    alone = np.cos(waves @ (np.array(n) - np.array(m))).mean(-1)
    found = logits(GridComplex(12, independent_waves=True), q, k, m, n)
    assert found == pytest.approx((q * k * alone).sum(), abs=1e-12)


def spread_over_places(scheme, waves):
    """Inner products of two vectors of ones an offset apart, over places: mean and standard deviation."""
    rng = np.random.default_rng(1)
    v = np.ones(scheme.head_dim)
    places = rng.uniform(0, 14, size=(300, 2))
    offset = np.array([3.0, -1.0])
    found = [logits(scheme, v, v, p.tolist(), (p + offset).tolist()) for p in places]
    return np.mean(found), np.std(found), np.cos(waves @ offset).mean(-1).sum()


def test_sums_of_waves_are_not_translation_invariant_and_independent_waves_are():
    """The cross terms average out over places and do not vanish: the mean is the kernel, the spread is not 0."""
    waves = simplex.wave_vectors(64, 2, economy(axes=2), 0).numpy()
    mean, spread, kernel = spread_over_places(GridComplex(64), waves)
    assert spread > 3
    assert abs(mean - kernel) < 5 * spread / math.sqrt(300) + 1.5  # the longest waves outlast the square
    mean, spread, kernel = spread_over_places(GridComplex(64, independent_waves=True), waves)
    assert spread < 1e-12
    assert mean == pytest.approx(kernel)


def test_deep_multiplies_by_one_trained_affine_map():
    scheme = GridDeep(12, generator=torch.Generator().manual_seed(0)).double()
    waves = simplex.wave_vectors(12, 2, economy(axes=2), 0).numpy()
    pos = grid(2, 3)
    g = np.exp(1j * np.einsum("kip,np->nki", waves, pos.coords.numpy())).sum(-1) / math.sqrt(3)
    f = {name: tensor.detach().numpy() for name, tensor in scheme.f.items()}
    hidden = np.concatenate([g.real @ f["A"].T + f["a"], g.imag @ f["B"].T + f["b"]], -1)
    expected = hidden @ f["C"].T + f["c"]
    for site in ("q", "k"):
        np.testing.assert_allclose(ones(scheme, pos, site), expected, atol=1e-6)
    bound = 1 / math.sqrt(12)
    assert 0.5 * bound < np.abs(f["A"]).max() <= bound
    assert 0.3 * bound < np.abs(f["C"]).max() <= bound / math.sqrt(2)


def test_half_precision_keeps_the_map_of_deep():
    scheme = GridDeep(12).bfloat16()
    assert {p.dtype for p in scheme.parameters()} == {torch.float32}


# coefficients ------------------------------------------------------------------------------------------------------

QUARTER = torch.tensor([math.pi / 2], dtype=torch.float64)
"""|omega| of a wave that turns by a quarter from place to place, on one axis."""
ORIGIN = Positions(torch.zeros(1, 2))


def test_merge_adds_what_its_coefficient_turns_by_hand():
    """c = j: g = j e^(j omega x), so cos - sin is added: 1, -1, -1, 1 at quarters of a turn."""
    scheme = GridMerge(12, 1, frequencies=QUARTER, coefficients=((0.0, 1.0),))
    added = ones(scheme, sequence(4), "q") - 1
    np.testing.assert_allclose(added, np.array([1, -1, -1, 1])[:, None] * np.ones(12), atol=1e-12)
    # c = 2 - j at place 1, where g = j (2 - j) = 1 + 2j
    scheme = GridMerge(12, 1, frequencies=QUARTER, coefficients=[[2.0, -1.0]])
    np.testing.assert_allclose(ones(scheme, sequence(2), "k")[1] - 1, 3, atol=1e-12)


def test_complex_multiplies_by_the_square_of_its_coefficient_by_hand():
    """|3 + 4j|^2 cos(omega (n - m)) a channel: 25, 0, -25, 0."""
    scheme, v = GridComplex(12, 1, frequencies=QUARTER, coefficients=((3.0, 4.0),)), np.ones(12)
    found = [logits(scheme, v, v, [1.0], [1.0 + away]) / 12 for away in range(4)]
    assert found == pytest.approx([25, 0, -25, 0], abs=1e-9)


def test_released_coefficients_where_all_waves_meet_by_hand():
    """At the origin g = sum c_i = -2.0668 + 1.6818j: its parts are added, its square multiplies, f maps it."""
    q = RELEASED.sum()
    assert (q.real, q.imag) == pytest.approx((-2.0668, 1.6818))
    merge, deep = GridMerge(12, coefficients=simplex.RELEASED), GridDeep(12, coefficients=simplex.RELEASED).double()
    assert ones(merge, ORIGIN, "q")[0, 0] == pytest.approx(1 - 0.3850)
    together, apart = (GridComplex(12, coefficients=simplex.RELEASED, independent_waves=on) for on in (False, True))
    v = np.ones(12)
    assert logits(together, v, v, [0.0, 0.0], [0.0, 0.0]) / 12 == pytest.approx(2.0668**2 + 1.6818**2)
    squares = 1.0441 + 0.0771 + 1.8791  # .8385^2 + .5839^2, .1927^2 + .1998^2, 1.0356^2 + .8981^2
    assert logits(apart, v, v, [5.0, 2.0], [5.0, 2.0]) / 12 == pytest.approx(squares, abs=2e-4)
    with torch.no_grad():
        one, none = torch.eye(12), torch.zeros(12)
        made = {"A": one, "a": none, "B": one, "b": none, "C": torch.cat([2 * one, one], 1), "c": none}
        for name, tensor in deep.f.items():
            tensor.copy_(made[name])
    assert ones(deep, ORIGIN, "k")[0, 3] == pytest.approx(-2 * 2.0668 + 1.6818, abs=1e-6)


def test_whole_coefficients_become_real_numbers():
    found = GridComplex(12, coefficients=[(1, 0), (0, 2), (2, -1)]).coefficients
    assert found == ((1.0, 0.0), (0.0, 2.0), (2.0, -1.0))
    assert {type(each) for pair in found for each in pair} == {float}


def test_coefficients_weigh_each_wave_of_a_sum():
    rng = np.random.default_rng(0)
    q, k, m, n = rng.normal(size=12), rng.normal(size=12), [1.5, -2.0], [0.25, 4.0]
    waves = simplex.wave_vectors(12, 2, economy(axes=2), 0).numpy()
    each = [np.exp(1j * waves @ np.array(p)) * RELEASED for p in (m, n)]
    g = [e.sum(-1) for e in each]
    found = logits(GridComplex(12, coefficients=simplex.RELEASED), q, k, m, n)
    assert found == pytest.approx((q * k * (g[0].conj() * g[1]).real).sum(), abs=1e-12)
    found = logits(GridComplex(12, coefficients=simplex.RELEASED, independent_waves=True), q, k, m, n)
    assert found == pytest.approx((q * k * (each[0].conj() * each[1]).real.sum(-1)).sum(), abs=1e-12)


@pytest.mark.parametrize("axes", [1, 2, 3])
def test_column_sums_of_a_unitary_matrix(axes):
    """Their squares sum to n, as the released code's do to 3; another seed is another matrix."""
    n = len(simplex.directions(axes))
    c = np.array([complex(*parts) for parts in simplex.unitary_sums(axes, 4)])
    assert len(c) == n
    assert (np.abs(c) ** 2).sum() == pytest.approx(n)
    assert (np.abs(RELEASED) ** 2).sum() == pytest.approx(3, abs=1e-3)
    assert simplex.unitary_sums(axes, 4) == simplex.unitary_sums(axes, 4) != simplex.unitary_sums(axes, 5)
    spread = [complex(*simplex.unitary_sums(axes, seed)[0]) for seed in range(400)]
    assert abs(np.mean(spread)) < 4 / math.sqrt(400)  # no phase is preferred, and |c|^2 is 1 in the mean
    assert np.mean(np.abs(spread) ** 2) == pytest.approx(1, abs=0.25)


@pytest.mark.parametrize("options", [{"axes": 1}, {"axes": 2, "independent_waves": True}])
def test_coefficients_of_another_size_stay_relative_and_keep_no_length(options):
    """Scaled, what one wave a feature does is exactly relative still, and cached keys can still be moved."""
    c = [[1.5 * a, 1.5 * b] for a, b in simplex.unitary_sums(options["axes"])]
    scheme = GridComplex(12, coefficients=c, **options)
    assert scheme.claims.translation == "exact"
    assert not scheme.claims.isometric
    assert check(scheme).ok
    unit = GridComplex(12, coefficients=[[0.6, 0.8]], axes=1)
    assert unit.claims.isometric
    assert check(unit).ok


@pytest.mark.parametrize("variant", [GridMerge, GridComplex, GridDeep])
def test_the_default_is_one_over_the_root(variant):
    pos, own = grid(2, 3), [(3**-0.5, 0.0)] * 3
    with torch.random.fork_rng():
        torch.manual_seed(0)
        default = effect(variant(12), pos)
        torch.manual_seed(0)
        assert torch.equal(default, effect(variant(12, coefficients=own), pos))


# the released code -------------------------------------------------------------------------------------------------


def test_the_released_waves():
    waves = simplex.Released(6, 12, 2, 0, frozen=True)().numpy()
    assert waves.shape == (2, 6, 3, 2)
    size = np.linalg.norm(waves, axis=-1)
    np.testing.assert_allclose(size, np.broadcast_to(200 ** (np.arange(6) / 12)[:, None], size.shape))
    np.testing.assert_allclose(waves.sum(2), 0, atol=1e-10)  # 120 degrees apart
    assert np.abs(waves[0] - waves[1]).max() > 0.1
    np.testing.assert_allclose(np.abs(RELEASED), [1.0218, 0.2776, 1.3707], atol=1e-4)


def of_numpy(values):
    return torch.from_numpy(np.asarray(values))


def released(scheme, side, pos):
    g = np.exp(1j * np.einsum("kip,np->nki", scheme.released()[side].numpy(), pos.coords.numpy()))
    return (g * RELEASED).sum(-1)


@pytest.mark.compares("GridRotate", "transcribed", REPOSITORY)
def test_literal_rotate_turns_halves_by_a_sum_that_is_no_rotation(same):
    scheme, pos = GridRotate(12, literal="frozen"), grid(4, 4)
    for side, site in enumerate("qk"):
        g = released(scheme, side, pos)
        same(of_numpy(ones(scheme, pos, site)), of_numpy(np.concatenate([g.real - g.imag, g.real + g.imag], 1)))
    size = np.abs(g)
    assert size.min() < 0.5
    assert 2 < size.max() < np.abs(RELEASED).sum() + 1e-9


@pytest.mark.compares("GridMerge", "transcribed", REPOSITORY)
def test_literal_merge_embeds_at_the_width_of_the_block(same):
    scheme, pos = GridMerge(12, dim=20, literal="frozen"), grid(3, 3)
    g = released(scheme, 0, pos)
    assert scheme.out_dim == 20
    found = scheme.embed(scheme.prepare(pos))
    same(found, of_numpy(g.real + g.imag).to(found.dtype))


@pytest.mark.compares("GridComplex", "transcribed", REPOSITORY)
def test_literal_complex_forgets_the_conjugate(same):
    scheme, pos = GridComplex(12, literal="frozen"), grid(2, 3)
    g, h = (released(scheme, side, pos) for side in (0, 1))
    found = ones(scheme, pos, "q") @ ones(scheme, pos, "k").T
    same(of_numpy(found), of_numpy((g[:, None] * h[None]).real.sum(-1)), 1e-4)


def test_with_one_draw_for_both_the_missing_conjugate_makes_the_sum_of_positions_count():
    """q_m . k_n without the conjugate is a function of m + n for one wave, and with it of n - m."""
    m, n, s = np.array([2.0, 1.0]), np.array([0.5, 3.0]), np.array([1.25, -0.5])
    wave = np.array([0.7, -0.3])
    without = [(np.exp(1j * wave @ a) * np.exp(1j * wave @ b)).real for a, b in ((m, n), (m + s, n - s))]
    assert without[0] == pytest.approx(without[1])
    moved = (np.exp(1j * wave @ (m + s)) * np.exp(1j * wave @ (n + s))).real
    assert abs(moved - without[0]) > 0.1


def effect(scheme, pos):
    return torch.cat([leaf.flatten() for leaf in pytree.tree_leaves(scheme.prepare(pos))])


@pytest.mark.parametrize("variant", VARIANTS)
def test_literal_draws_anew_at_every_prepare_and_goes_on_after_loading(variant):
    pos = grid(2, 3)
    scheme, twin = variant(12, literal=True, rotation_seed=5), variant(12, literal=True, rotation_seed=5)
    first, second = effect(scheme, pos), effect(scheme, pos)
    assert not torch.allclose(first, second)
    assert torch.equal(effect(twin, pos), first)
    twin.load_state_dict(scheme.state_dict())
    assert torch.equal(effect(twin, pos), effect(scheme, pos))
    scheme.reset_parameters()
    assert torch.equal(effect(scheme, pos), first)
    frozen = variant(12, literal="frozen", rotation_seed=5)
    assert torch.equal(effect(frozen, pos), effect(frozen, pos))
    assert not list(frozen.state_dict())


@pytest.mark.parametrize("variant", [GridRotate, GridComplex, GridDeep])
def test_literal_draws_apart_for_queries_and_keys(variant):
    where = variant(12, literal=True).prepare(grid(2, 3))
    q, k = (torch.cat([leaf.flatten() for leaf in pytree.tree_leaves(side)]) for side in where)
    assert q.shape == k.shape
    assert not torch.allclose(q.abs(), k.abs())


def test_frozen_deep_draws_its_maps_after_the_directions():
    """The seeds decide stored results: the directions have the first, queries and keys the next two."""
    scheme = GridDeep(12, literal="frozen", rotation_seed=5)
    for side, own in enumerate(scheme.untrained):
        wanted = drawn(12, torch.Generator().manual_seed(5 * 1_000_003 + 1 + side))
        assert all(torch.equal(own[name], tensor) for name, tensor in wanted.items())


def test_literal_deep_mixes_tokens():
    """Its f is a layer along the tokens: another last token changes the factor of the first."""
    one, other = (GridDeep(12, literal=True).prepare(Positions(torch.tensor([[0, 0], [1, p]]))).q for p in (2, 3))
    assert one.shape == (1, 2, 12)
    assert not torch.allclose(one[:, 0], other[:, 0])


@pytest.mark.parametrize("variant", VARIANTS)
def test_literal_takes_no_token_at_all(variant):
    scheme = variant(12, literal=True)
    where = scheme.prepare(grid(0, 3))
    assert [leaf.numel() for leaf in pytree.tree_leaves(where)] == [0] * len(pytree.tree_leaves(where))


@pytest.mark.parametrize("variant", [GridRotate, GridMerge, GridComplex])
def test_a_call_that_draws_anew_is_the_frozen_form_with_that_draw(variant):
    """So whatever the contract says of the frozen form, which is an example, holds of each call by itself."""
    pos, scheme, frozen = grid(2, 3), variant(12, literal=True), variant(12, literal="frozen")
    for number in range(3):
        frozen.released.once = scheme.released(scheme.released.generator(number))
        assert torch.equal(effect(scheme, pos), effect(frozen, pos))


@pytest.mark.parametrize("variant", VARIANTS)
def test_only_what_draws_anew_cannot_be_compiled(variant):
    (check,) = simplex.NO_GRAPH
    assert [check in variant(12, literal=form).faults for form in (False, "frozen", True)] == [False, False, True]


@pytest.mark.parametrize("variant", VARIANTS)
def test_what_draws_anew_passes_the_contract_and_says_what_it_fails(variant):
    """The contract holds a draw while it compares; GridDeep, whose f acts along the tokens, must fail some checks. Its
    translation is left to the examples."""
    case = Case(variant, {}, variant(12, literal=True))
    results = [run(each, case) for each in checks() if each is not translation_is_as_claimed]
    assert [result for result in results if result.trouble] == []
    known = {result.check for result in results if result.known}
    assert known == (set(ALONG_TOKENS) if variant is GridDeep else set())


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: GridRotate(7), "`head_dim` must be even; got 7"),
        (lambda: GridRotate(12, axes=0), "at least one axis; got axes=0"),
        (lambda: GridMerge(12, dim=0), "dim >= 1"),
        (lambda: GridComplex(0), "head_dim >= 1"),
        (lambda: GridDeep(0), "head_dim >= 1; got 0"),
        (lambda: GridDeep(12, literal="melted"), "literal=False, True or 'frozen'; got 'melted'"),
        (lambda: GridMerge(12, axes=3, literal=True), "released code of GridMerge knows two axes; got axes=3"),
        (lambda: GridComplex(12, independent_waves=True, literal=True), "independent_waves=False"),
        (lambda: GridRotate(12, frequencies=torch.ones(2, 2)), r"shape \(2, 2\)"),
        (lambda: GridRotate(12, frequencies=torch.tensor([1.0, math.nan])), "finite lengths"),
        (lambda: GridRotate(12, frequencies=[]), r"got \[\]. Pass numbers such as"),
        (lambda: GridRotate(12, frequencies=["fast"]), r"got \['fast'\]"),
        (lambda: GridRotate(12, extent=-1.0), "extent=-1"),
        (lambda: GridMerge(12, coefficients=[(1.0, 0.0)]), r"with axes=2 sums 3 waves, .* got \[\(1\.0, 0\.0\)\]"),
        (lambda: GridDeep(12, axes=1, coefficients=[(0.0, 0.0)]), r"none of them 0; .* As simplex\.unitary_sums\(1\)"),
        (lambda: GridComplex(12, axes=1, coefficients=[(math.nan, 0.0)]), "finite pairs"),
        (lambda: GridComplex(12, axes=1, coefficients=[(1.0, 2.0, 3.0)]), "finite pairs"),
        (lambda: GridMerge(12, coefficients=0.5), r"pairs \(real, imaginary\), none of them 0; got 0\.5"),
        (lambda: GridDeep(12, coefficients=simplex.RELEASED, literal=True), "Leave `coefficients` out"),
    ],
)
def test_bad_options_are_refused_in_a_sentence(make, sentence):
    # under the shape hook the type checker is the first to refuse a word that is none of a Literal's
    checked = r"Type-check error|takes `literal` as True, False or 'frozen'; got 'melted'"
    with pytest.raises((ValueError, TypeError), match=rf"({sentence})|{checked}"):
        make()


@pytest.mark.parametrize("scheme", VARIANTS)
def test_frequencies_are_a_list_or_a_schedule_in_code_and_in_text(scheme):
    listed = scheme_text.build(scheme_text.parse(f"{scheme.__name__}(frequencies=[2.0, 0.5])"), {"head_dim": 12})
    assert torch.equal(listed.waves, scheme(12, frequencies=torch.tensor([2.0, 0.5])).waves)
    text = f"{scheme.__name__}(frequencies=economy(shortest=2.0, ratio=1.5, extent=6.0))"
    scaled = scheme_text.build(scheme_text.parse(text), {"head_dim": 12})
    lengths = 2 * math.pi / scaled.waves.reshape(-1, scaled.waves.shape[-1]).norm(dim=-1)
    np.testing.assert_allclose(sorted(set(lengths.round(decimals=6).tolist())), [2.0, 3.0, 4.5, 6.75], atol=1e-6)


@pytest.mark.parametrize("independent_waves", [False, True])
def test_complex_maps_leave_the_products_of_tokens_without_a_position(independent_waves):
    scheme = GridComplex(12, independent_waves=independent_waves)
    where = scheme.prepare(Positions(torch.zeros(3, 2), torch.zeros(3, dtype=torch.bool)))
    q, k = torch.randn(2, 1, 1, 3, 12, generator=torch.Generator().manual_seed(0))
    found = scheme.transform(q, where, "q") @ scheme.transform(k, where, "k").mT
    torch.testing.assert_close(found, q @ k.mT)
