"""The derivatives of every encoding that takes real coordinates, measured: by coordinates, by parameters, and twice.

Schemes are found by walking. Each declared example is built for 1, 2 and 3 axes where its options allow it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from posenc.contract.case import Case
from posenc.positions import Positions
from posenc.scheme import Scheme
from posenc.schemes import catalogue

AXES = (1, 2, 3)
POINTS = 6
SLOPE = 1e-3  # of an autograd gradient against central differences, relative
CURVATURE = 1e-9  # of a second derivative against autograd's of the scalar definition, relative
STEP = 1e-6
REACH = 1.4  # of coordinates where any are taken: a latitude in radians among them


def scattered(scheme: Scheme, axes: int) -> Tensor:
    """Real coordinates inside the claimed range, no two of them alike."""
    ends = [each or (-REACH, REACH) for each in scheme.claims.limits(axes)]
    low, high = (torch.tensor(side, dtype=torch.float64) for side in zip(*ends, strict=True))
    share = torch.rand(POINTS, axes, generator=torch.Generator().manual_seed(axes), dtype=torch.float64)
    return low + (0.03 + 0.94 * share) * (high - low)


def built(kind: type[Scheme], options: Any, axes: int) -> Case | None:
    """The example for so many axes, or None where it is for another number, or takes no real coordinates."""
    for wanted in (options, {**options, "axes": axes}):
        try:
            case = Case(kind, wanted)
            scheme = case.make()
            if "embed" in scheme.claims.sites and scheme.claims.axes in (None, axes):
                scheme.prepare(Positions(scattered(scheme, axes)))
                return case
        except (TypeError, ValueError):  # no option `axes`; options for another number; whole positions alone
            continue
    return None


CASES = [
    pytest.param(case, axes, id=f"{case}-{axes}")
    for kind in catalogue().values()
    for options in kind.examples
    for axes in AXES
    if (case := built(kind, options, axes)) is not None
]
SMOOTH = [case for case in CASES if case.values[0].options.get("interpolation") == "smoothstep"]


def weighted(case: Case, axes: int) -> tuple[Scheme, Tensor, Callable[[Tensor], Tensor]]:
    """The scheme, points, and one number a point: its row times fixed numbers."""
    scheme = case.make()
    weight = torch.randn(scheme.out_dim, generator=torch.Generator().manual_seed(7), dtype=torch.float64)
    return scheme, scattered(scheme, axes), lambda x: scheme.embed(scheme.prepare(Positions(x))) @ weight


def along_each_axis(value: Callable[[Tensor], Tensor], x: Tensor) -> tuple[Tensor, Tensor]:
    """Central differences of the sum over points ``(N, P)``, every coordinate moved alone, and whether a point is away
    from a face: there both sides have one slope."""
    slope, bend = torch.empty_like(x), torch.empty_like(x)
    with torch.no_grad():
        here = value(x)
        for place in itertools.product(*map(range, x.shape)):
            step = torch.zeros_like(x)
            step[place] = STEP
            ahead, behind = value(x + step), value(x - step)
            slope[place] = (ahead - behind).sum() / (2 * STEP)
            bend[place] = (ahead - 2 * here + behind).sum() / STEP
    return slope, (bend.abs() <= SLOPE * (slope.abs() + 1)).all(-1)


def close(told: Tensor, measured: Tensor, allowed: float) -> bool:
    """Point by point, relative to the size of the measured vector, or to a thousandth of the largest."""
    size, apart = measured.flatten(1).norm(dim=-1), (told - measured).flatten(1).norm(dim=-1)
    return bool((apart <= allowed * size.clamp(min=1e-3 * max(1.0, float(size.max())))).all())


@pytest.mark.parametrize(("case", "axes"), CASES)
def test_gradients_by_coordinates_match_central_differences(case, axes):
    _, x, value = weighted(case, axes)
    measured, away = along_each_axis(value, x)
    assert int(away.sum()) >= POINTS // 2
    at = x.clone().requires_grad_()
    (told,) = torch.autograd.grad(value(at).sum(), at)
    assert close(told[away], measured[away], SLOPE)


@pytest.mark.parametrize(("case", "axes"), CASES)
def test_gradients_by_parameters_match_central_differences(case, axes):
    scheme, x, value = weighted(case, axes)
    for parameter in scheme.parameters():
        direction = torch.randn(parameter.shape, generator=torch.Generator().manual_seed(5), dtype=torch.float64)
        (told,) = torch.autograd.grad(value(x).sum(), parameter)
        ends = []
        for sign in (1, -1):
            with torch.no_grad():
                parameter.add_(sign * STEP * direction)
                ends.append(float(value(x).sum()))
                parameter.sub_(sign * STEP * direction)
        assert float((told * direction).sum()) == pytest.approx((ends[0] - ends[1]) / (2 * STEP), rel=SLOPE, abs=1e-6)


def hessian(value: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """``(N, P, P)``; zeros where a slope no longer depends on coordinates."""
    at = x.clone().requires_grad_()
    (slope,) = torch.autograd.grad(value(at).sum(), at, create_graph=True, materialize_grads=True)
    if not slope.requires_grad:
        return x.new_zeros(*x.shape, x.shape[1])
    rows = [torch.autograd.grad(s.sum(), at, retain_graph=True, materialize_grads=True)[0] for s in slope.unbind(-1)]
    return torch.stack(rows, 1)


@pytest.mark.full
@pytest.mark.parametrize(("case", "axes"), CASES)
def test_second_derivatives_are_those_of_the_scalar_definition(case, axes):
    scheme, x, value = weighted(case, axes)
    weight = torch.randn(scheme.out_dim, generator=torch.Generator().manual_seed(7), dtype=torch.float64)
    told, defined = hessian(value, x), hessian(lambda x: scheme.define_rows(x) @ weight, x)
    assert close(told, defined, CURVATURE), (told - defined).abs().max()
    assert torch.equal(told, told.mT) or close(told, told.mT, CURVATURE)


@pytest.mark.parametrize(("case", "axes"), SMOOTH)
def test_second_derivatives_of_smoothstep_are_exact(case, axes):
    """Between two faces ``w(t) = t^2 (3 - 2 t)``: along an axis a row is a cubic, given by four of its values, so its
    second derivative is known without differences of slopes: ``c_2 2 + c_3 6 u``."""
    scheme, x, value = weighted(case, axes)
    scales = torch.tensor([level.scale for level in scheme.levels], dtype=torch.float64)
    told, compared = hessian(value, x), 0
    for axis in range(axes):
        low, high = (side[axis] for side in (scheme.domain.low, scheme.domain.high))
        offset = torch.tensor([level.offset for level in scheme.levels], dtype=torch.float64)
        s = (x[:, axis, None] - low) / (high - low) * scales[:, axis] + offset
        cells = (high - low) / scales[:, axis]
        room = torch.minimum(s - s.floor(), s.floor() + 1 - s) * cells  # to the nearest face of any level
        width = 0.9 * room.amin(-1)
        u = torch.linspace(-1, 1, 4, dtype=torch.float64)
        with torch.no_grad():
            moved = torch.zeros(4, *x.shape, dtype=torch.float64)
            moved[..., axis] = u[:, None] * width
            values = torch.stack([value(x + step) for step in moved])
        coefficients = torch.linalg.solve(torch.linalg.vander(u), values)
        wide = width > 0.02 * float(cells.min())
        exact = 2 * coefficients[2] / width**2
        torch.testing.assert_close(told[wide, axis, axis], exact[wide], rtol=1e-6, atol=1e-6)
        compared += int(wide.sum())
    assert compared >= POINTS // 2
    assert float(told.diagonal(dim1=1, dim2=2).abs().max()) > 1e-3


def test_what_was_compared_is_every_encoding_of_real_coordinates():
    """A scheme that embeds is compared, or else says that it counts in whole positions, or reads graphs or grids."""
    compared = {case.values[0].kind for case in CASES}
    assert {case.values[1] for case in CASES} == set(AXES)
    assert len(SMOOTH) >= 3 * len(AXES)
    for kind in catalogue().values():
        scheme = Case(kind, kind.examples[0]).make()
        if "embed" not in scheme.claims.sites or kind in compared:
            continue
        with pytest.raises(ValueError, match=r"whole position|lattice|batch of graphs"):
            scheme.embed(scheme.prepare(Positions(scattered(scheme, scheme.claims.axes or 2))))
