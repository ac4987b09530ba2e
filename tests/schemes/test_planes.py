"""K-Planes and TensoRF against torch's ``grid_sample``, their initial values, coarse-to-fine weights, derivatives."""

import itertools

import pytest
import torch
from torch.nn.functional import grid_sample

from posenc import KPlanes, Positions, TensoRF
from posenc.kernels.domain import coarse_to_fine, weight_levels

X = torch.rand(40, 4, generator=torch.Generator().manual_seed(0))


def sampled(scheme, factor, x):
    """``(N, F)`` of one plane or line by ``grid_sample``, as the authors read it: last axis first, in [-1, 1]."""
    size = factor.level.vertices
    image = scheme.table[factor.rows].detach().T.reshape(1, -1, *reversed(size))
    at = 2 * x[:, list(factor.axes)] - 1
    if len(size) == 1:
        image, at = image[..., None], torch.stack([torch.zeros_like(at[:, 0]), at[:, 0]], -1)
    return grid_sample(image, at[None, :, None], align_corners=True)[0, :, :, 0].T


@pytest.mark.compares("KPlanes", "torch", "grid_sample")
@pytest.mark.parametrize("axes", [3, 4])
def test_k_planes_is_the_product_of_sampled_planes(axes, same):
    scheme = KPlanes(axes, resolutions=(4, (3, 5, 7, 2)[:axes]), features=3)
    x = X[:, :axes]
    want = []
    for planes in scheme.scales:
        assert [plane.axes for plane in planes] == list(itertools.combinations(range(axes), 2))
        want.append(torch.stack([sampled(scheme, plane, x) for plane in planes]).prod(0))
    found = scheme.embed(scheme.prepare(Positions(x)))
    same(found, torch.cat(want, -1), 1e-6, 1e-5)


@pytest.mark.compares("TensoRF", "torch", "grid_sample")
def test_tensorf_is_the_product_of_sampled_planes_and_lines(same):
    scheme, x = TensoRF((4, 3, 6), components=5), X[:, :3]
    planes, lines = scheme.factors[:3], scheme.factors[3:]
    want = [sampled(scheme, plane, x) * sampled(scheme, line, x) for plane, line in zip(planes, lines, strict=True)]
    assert [{*a.axes, *b.axes} for a, b in zip(planes, lines, strict=True)] == [{0, 1, 2}] * 3
    found = scheme.embed(scheme.prepare(Positions(x)))
    same(found, torch.cat(want, -1), 1e-6, 1e-5)


def test_initial_values():
    scheme = KPlanes(4, resolutions=(8, 16), features=4, time=3, generator=torch.Generator().manual_seed(0))
    for plane in itertools.chain(*scheme.scales):
        values = scheme.table[plane.rows].detach()
        if 3 in plane.axes:
            assert bool((values == 1).all())
        else:
            assert 0.1 <= float(values.min()) < 0.15
            assert 0.45 < float(values.max()) <= 0.5
    start, later = X.clone(), X.clone()
    later[:, 3] = 0.5
    rows = [scheme.embed(scheme.prepare(Positions(x))) for x in (start, later)]
    torch.testing.assert_close(*rows)  # a scene starts without motion
    std = TensoRF(31, 16, generator=torch.Generator().manual_seed(0)).table.detach().std()
    assert float(std) == pytest.approx(0.1, rel=0.02)


def test_scales_have_weights_for_coarse_to_fine_training():
    scheme = KPlanes(3, resolutions=(2, 4, 8), features=2)
    where = scheme.prepare(Positions(X[:, :3]))
    whole, half = scheme.embed(where), scheme.embed(weight_levels(where, coarse_to_fine(1 / 3, 3)))
    torch.testing.assert_close(half[:, :2], whole[:, :2])
    assert not half[:, 2:].detach().any()
    with pytest.raises(ValueError, match="have 3 scales, and a weight for each of them is needed"):
        scheme.embed(weight_levels(where, torch.ones(2)))


@pytest.mark.parametrize("scheme", [KPlanes(3, (3, 5), 2), TensoRF(4, 2)], ids=lambda scheme: type(scheme).__name__)
def test_rows_have_derivatives_by_the_coordinates(scheme):
    """nerfstudio's TensorVMEncoding detaches the coordinates."""
    scheme = scheme.double()
    x = X[:5, :3].double().requires_grad_()
    assert torch.autograd.gradcheck(lambda x: scheme.embed(scheme.prepare(Positions(x))), x)


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: KPlanes(1), r"a plane for each pair of axes, so axes >= 2; .* got axes=1"),
        (lambda: KPlanes(3, time=3), r"`time` is an axis from 0; got axes=3, 3 resolutions, time=3"),
        (lambda: KPlanes(3, ()), "at least one resolution"),
        (lambda: KPlanes(3, (0,)), "a resolution is at least 1"),
        (lambda: TensoRF(4, 0), "at least one axis and one feature"),
        (lambda: TensoRF((4, 4)), "one number, or one for each of 3 axes"),
    ],
)
def test_bad_input(make, sentence):
    with pytest.raises(ValueError, match=sentence):
        make()


@pytest.mark.bare  # The shape hook would refuse these before the sentences do.
@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: KPlanes(3, resolutions=8), r"as KPlanes\(3, .* got resolutions=8. For one scale write a tuple"),
        (lambda: KPlanes(axes=2.5), r"a grid has whole numbers of axes .* got axes=2\.5"),
        (lambda: KPlanes(3, features="8"), r"features='8'"),
        (lambda: KPlanes(3, time=1.5), r"is an axis from 0; got .* time=1\.5"),
    ],
)
def test_arguments_of_another_type(make, sentence):
    with pytest.raises(ValueError, match=sentence):
        make()
