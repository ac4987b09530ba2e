"""The theory of grid cells against closed forms, hand numbers and scipy."""

import math

import numpy as np
import pytest
import torch
from scipy.optimize import minimize_scalar
from scipy.special import j0

from posenc.kernels import simplex
from posenc.measure import distance_decay, grid_cells
from posenc.positions import grid, sequence
from posenc.schemes.causal_nope import CausalNoPE
from posenc.schemes.grid_pe import GridPE
from posenc.schemes.grid_rotate import GridRotate
from posenc.schemes.liere import LieRE
from posenc.schemes.sinusoid import Sinusoid
from posenc.schemes.vo_rope import VORoPE

TRIANGLE = simplex.directions(2)


def test_oscillators_end_where_the_way_covered_says():
    times = torch.linspace(0, 2, 401, dtype=torch.float64)
    path = torch.stack([torch.sin(3 * times) + times, torch.cos(2 * times)], -1)
    phases = grid_cells.oscillator_phases(path, times, 5 * TRIANGLE, base=50.0, beta=0.7)
    expected = 50 * times[:, None] + 0.7 * (path - path[0]) @ (5 * TRIANGLE).T
    torch.testing.assert_close(phases, expected, atol=1e-9, rtol=0)
    with pytest.raises(ValueError, match="increasing times"):
        grid_cells.oscillator_phases(path, times.flip(0), TRIANGLE)


def test_interfering_oscillators_fire_on_the_grid_of_the_map():
    """At the beats of the somatic oscillation only the place is left: cos of the phases sums to the firing map."""
    beat = torch.arange(200, dtype=torch.float64) / 8  # every cycle of 8 Hz
    path = torch.stack([0.37 * beat, 2 * torch.sin(beat)], -1)
    phases = grid_cells.oscillator_phases(path, beat, 3 * TRIANGLE)
    there = grid_cells.firing(path - path[0], 3 * TRIANGLE)
    torch.testing.assert_close(phases.cos().sum(-1), there, atol=1e-6, rtol=0)


def test_three_waves_make_a_hexagonal_map():
    spacing = 2 / math.sqrt(3)
    corners = [(0.0, 0.0)] + [
        (spacing * math.cos(a), spacing * math.sin(a)) for a in np.deg2rad([30, 90, 150, 210, 270, 330])
    ]
    at_corners = grid_cells.firing(torch.tensor(corners), 2 * math.pi * TRIANGLE)
    torch.testing.assert_close(at_corners, torch.full((7,), 3.0).double(), atol=1e-5, rtol=0)
    between = grid_cells.firing(torch.tensor([[2 / 3, 0.0]]).double(), 2 * math.pi * TRIANGLE)
    assert between.item() == pytest.approx(-1.5, abs=1e-12)
    found = grid_cells.firing_map(4.0, 201, wavelength=1.0)
    assert found.shape == (201, 201)
    assert found.max().item() == pytest.approx(3)
    assert found[100, 100].item() == pytest.approx(3)
    assert -1.5 - 1e-9 <= found.min().item() < -1.49


def test_a_map_is_turned_and_moved():
    plain = grid_cells.firing_map(4.0, 41, wavelength=1.3)
    turned = grid_cells.firing_map(4.0, 41, wavelength=1.3, orientation=math.pi / 3)
    torch.testing.assert_close(turned, plain)  # hexagonal: 60 degrees change nothing
    assert (grid_cells.firing_map(4.0, 41, wavelength=1.3, orientation=math.pi / 6) - plain).abs().max() > 1
    quarter = grid_cells.firing_map(4.0, 41, wavelength=1.3, orientation=math.pi / 2)
    torch.testing.assert_close(quarter, plain.T)
    moved = grid_cells.firing_map(4.0, 41, wavelength=1.3, phase=(0.4, -0.2))
    torch.testing.assert_close(moved[4:, :-2], plain[:-4, 2:])


def test_any_scheme_has_firing_maps():
    pos = grid(3, 4)
    turned = grid_cells.firing_maps(GridRotate(12), pos)
    assert turned.shape == (12, 12)
    torch.testing.assert_close(turned[0], torch.ones(12).double())
    rows = grid_cells.firing_maps(Sinusoid(8), sequence(5))
    torch.testing.assert_close(rows[:, 1], torch.arange(5).double().cos(), atol=1e-6, rtol=0)
    with pytest.raises(ValueError, match="CausalNoPE has no map of a place: it acts at"):
        grid_cells.firing_maps(CausalNoPE(), sequence(3))


@pytest.mark.parametrize(("scheme", "heads"), [(GridPE(24, heads=4, extent=6.0), None), (LieRE(24, heads=4), 4)])
def test_of_a_scheme_whose_heads_differ_it_is_the_first_head(scheme, heads):
    pos, x = grid(3, 4), torch.ones(1, 4, 12, 24).double()
    maps = grid_cells.firing_maps(scheme, pos, heads=heads)
    with torch.no_grad():
        torch.testing.assert_close(maps, scheme.transform(x, scheme.prepare(pos), "k")[0, 0].double())
    assert grid_cells.cosine_similarity_of_scheme(scheme, pos, 5, heads=heads)[5].item() == pytest.approx(1)


def test_the_logit_of_a_scheme_whose_heads_differ_is_its_first_heads():
    found = distance_decay.logit_by_distance(GridPE(24, heads=4, extent=6.0), 3)
    angle = GridPE(24, heads=4, extent=6.0).waves[0, :, 0] * 2
    assert found[5] == {"distance": 2, "logit": pytest.approx(angle.cos().mean().item())}


@pytest.mark.parametrize("at", ["q", "v", "o"])
def test_a_scheme_that_leaves_keys_alone_fires_where_it_acts(at):
    maps = grid_cells.firing_maps(VORoPE(12, at=at), sequence(6))
    back = -1 if at == "o" else 1
    torch.testing.assert_close(maps[:, 0], (torch.arange(6.0).cos() - back * torch.arange(6.0).sin()).double())


def test_sums_with_their_cross_terms_are_no_kernel():
    """The same offset gives another inner product about another core; wave by wave it gives the same."""
    waves = 3 * simplex.wave_vectors(4, 2, torch.tensor([2.0, 1.0]).double(), 0)
    cores = [(0.5, 0.5), (0.25, 0.75)]
    summed = [grid_cells.summed_inner_products_with_core(waves, count=5, core=core) for core in cores]
    c = np.exp(1j * waves.numpy() @ np.array(cores[1])).sum(-1)
    g = np.exp(1j * waves.numpy() @ np.array([0.5, 1.0])).sum(-1)
    expected = (c.conj() * g).real.sum() / (abs(c) ** 2).sum()
    assert summed[1].surface[2, 4].item() == pytest.approx(expected)
    assert abs(summed[1].surface[2, 4] - summed[0].surface[3, 3]) > 0.05
    alone = [grid_cells.inner_products_with_core(waves, count=5, core=core) for core in cores]
    assert alone[1].surface[2, 4].item() == pytest.approx(alone[0].surface[3, 3].item())
    torch.testing.assert_close(summed[0].surface[2], summed[0].profile)
    weighted = grid_cells.summed_inner_products_with_core(waves, torch.tensor([1.0, 0.0, 0.0]), count=5)
    torch.testing.assert_close(weighted.surface, grid_cells.inner_products_with_core(waves[:, :1], count=5).surface)


def test_fields_must_be_smaller_than_the_finer_period():
    rows = grid_cells.fields_against_periods([1.0, 1.6, 3.0, 9.0], [0.5, 1.0, 1.7, 9.0])
    assert [row.inside for row in rows] == [1, 2, 3]
    assert [row.ambiguous for row in rows] == [False, True, True]
    assert grid_cells.table(rows)[0] == {
        "period": 1.6, "field": 1.0, "finer_period": 1.0, "inside": 1, "ambiguous": False
    }  # fmt: skip
    with pytest.raises(ValueError, match="ascending"):
        grid_cells.fields_against_periods([2.0, 1.0], [1.0, 1.0])


def test_cells_are_fewest_at_e():
    assert grid_cells.cells(2.0, 8.0) == pytest.approx(6)  # 2 log_2 8
    assert grid_cells.cells(3.0, 81.0, depth=2) == pytest.approx(24)
    found = minimize_scalar(lambda rho: grid_cells.cells(rho, 1000.0), bounds=(1.1, 9), method="bounded")
    assert found.x == pytest.approx(math.e, rel=1e-5)
    table = grid_cells.economy()
    assert [row.rho for row in table] == pytest.approx([math.e] * 3, rel=1e-6)
    assert [row.ratio for row in table] == pytest.approx([2.71828, 1.64872, 1.39561], rel=1e-5)
    assert [row.width for row in table] == pytest.approx([18.42, 36.84, 55.26], abs=0.005)
    with pytest.raises(ValueError, match="greater than 1"):
        grid_cells.cells(1.0, 10.0)


def test_the_ratio_at_a_width():
    assert grid_cells.ratio_at_width(128) == pytest.approx(1.1548, abs=1e-4)  # printed as 1.457
    assert grid_cells.ratio_at_width(512) == pytest.approx(1.0366, abs=1e-4)
    assert grid_cells.ratio_at_width(49) == pytest.approx(1.457, abs=2e-3)


@pytest.mark.full
def test_a_grid_cells_inner_product_with_itself_moved_is_its_kernel():
    waves, c = 4 * TRIANGLE, torch.tensor([1.0, 0.5, 2.0])
    d = torch.tensor([[0.0, 0.0], [0.3, -0.2], [1.0, 0.4]]).double()
    found = grid_cells.inner_product_of_maps(d, waves, c, size=200.0, count=1201)
    expected = (c.square().double() * torch.exp(1j * (d @ waves.T))).sum(-1)
    torch.testing.assert_close(found, expected, atol=0.02, rtol=0)


def test_random_waves_approach_the_kernel_of_their_distribution():
    d = torch.tensor([[0.1, 0.0], [0.3, 0.4], [1.0, -1.0]])
    normal = grid_cells.kernel_convergence(
        lambda n, g: torch.randn(n, 2, generator=g), lambda x: torch.exp(-x.square().sum(-1) / 2), d
    )
    errors = [row.error for row in normal]
    slope = np.polyfit(np.log([row.waves for row in normal]), np.log(errors), 1)[0]
    assert slope == pytest.approx(-0.5, abs=0.1)
    assert errors[-1] < 0.03

    def ring(n, g):
        angle = 2 * math.pi * torch.rand(n, generator=g)
        return 5 * torch.stack([angle.cos(), angle.sin()], -1)

    bessel = grid_cells.kernel_convergence(ring, lambda x: torch.from_numpy(j0(5 * x.norm(dim=-1).numpy())), d)
    assert bessel[-1].error < 0.03


def test_the_profile_of_the_papers_third_figure():
    """64 layers of |w| = 200^(k/64) at angles of RandomState(0), released coefficients; worked out in plain numpy."""
    angle = np.random.RandomState(0).uniform(0, 2 * np.pi, 64)[:, None] + 2 * np.pi * np.arange(3) / 3
    size = 200 ** (np.arange(64) / 64)
    waves = torch.from_numpy(np.stack([np.cos(angle), np.sin(angle)], -1) * size[:, None, None])
    weights = torch.tensor([a * a + b * b for a, b in simplex.RELEASED])
    found = grid_cells.inner_products_with_core(waves, weights, count=11)
    assert found.profile[5:].tolist() == pytest.approx([1, 0.423, 0.344, 0.275, 0.254, 0.130], abs=6e-4)
    torch.testing.assert_close(found.surface[5], found.profile)
    torch.testing.assert_close(found.surface, found.surface.flip(0, 1))  # even in the displacement
    assert found.surface.argmax().item() == 5 * 11 + 5


def test_likeness_to_a_scheme_falls_with_distance_from_the_core():
    found = grid_cells.cosine_similarity_of_scheme(GridPE(60, extent=14.0), grid(15, 15), 7 * 15 + 7).reshape(15, 15)
    assert found[7, 7].item() == pytest.approx(1)
    assert found[7, 8].item() > found[7, 10].item()
    rows, columns = torch.meshgrid(torch.arange(15) - 7, torch.arange(15) - 7, indexing="ij")
    apart = (rows.square() + columns.square()).double().sqrt()
    rings = [found[(apart > a) & (apart <= a + 2)].mean().item() for a in (0, 2)]
    assert rings[0] > rings[1] + 0.2


@pytest.mark.parametrize(
    ("ask", "sentence"),
    [
        (lambda: grid_cells.ratio_at_width(0), "a width of at least 1 and a base above 1; got width=0, base=10000"),
        (lambda: grid_cells.ratio_at_width(8, base=0.5), "got width=8, base=0.5"),
        (lambda: grid_cells.minimum_width(0), "at least one axis and a base above 1; got axes=0, base=10000"),
        (lambda: grid_cells.economy((1, 0)), "got axes=0"),
        (lambda: grid_cells.minimum_width(2, base=1.0), "got axes=2, base=1"),
        (lambda: grid_cells.fields_against_periods([1.0, 2.0], [1.0, -1.0]), "fields are lengths above 0"),
        (lambda: grid_cells.fields_against_periods([0.0, 2.0], [1.0, 1.0]), "fields are lengths above 0"),
        (lambda: grid_cells.firing_map(4.0, 0, wavelength=1.0), "count >= 1; got wavelength=1, size=4, count=0"),
        (lambda: grid_cells.firing_map(4.0, 9, wavelength=0.0), "wavelength and size above 0.*got wavelength=0"),
        (lambda: grid_cells.firing(torch.zeros(4, 3), TRIANGLE), "points have 3 axes and the waves 2"),
        (lambda: grid_cells.kernel(torch.zeros(4, 3), TRIANGLE), "displacements have 3 axes and the waves 2"),
        (lambda: grid_cells.oscillator_phases(torch.zeros(3, 3), torch.arange(3.0), TRIANGLE), "path has 3 axes"),
    ],
)
def test_what_makes_no_sense_is_refused_in_a_sentence(ask, sentence):
    with pytest.raises(ValueError, match=sentence):
        ask()
