"""OneBlob: what lies of a bump in each bin, against integrals that are summed here."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from posenc import OneBlob
from posenc.positions import Positions
from posenc.workbench.studies.shared import field_variants
from posenc.workbench.studies.shared.field_variants import Budget


def rows(scheme, places):
    return embedded(scheme, torch.tensor(places, dtype=torch.float64))


def embedded(scheme, places):
    return scheme.embed(scheme.prepare(Positions(places))).double()


def bump(kernel, x):
    """The density of the bump, ``x`` in bins."""
    return np.exp(-(x**2) / 2) / np.sqrt(2 * np.pi) if kernel == "gaussian" else 15 / 16 * (1 - x**2).clip(0) ** 2


@pytest.mark.parametrize("kernel", ["gaussian", "quartic"])
@pytest.mark.parametrize("rule", ["error", "wrap"])
@pytest.mark.parametrize("bins", [2, 3, 8])
def test_a_bin_holds_what_lies_of_the_bump_in_it(kernel, rule, bins):
    place = 0.93
    fine = (np.arange(bins * 20_000) + 0.5) / 20_000  # in bins
    images = range(-5 * bins, 6 * bins, bins) if rule == "wrap" else (0,)
    density = sum(bump(kernel, fine - bins * place + image) for image in images)
    exact = density.reshape(bins, -1).sum(-1) / 20_000
    found = rows(OneBlob(bins=bins, kernel=kernel, domain=(0, 1, rule)), [[place]])[0]
    assert np.abs(found.numpy() - exact).max() < 1e-6
    assert (float(found.sum()) > 0.999) == (rule == "wrap")  # else it is cut off at the end of the axis


def test_axes_follow_one_another_in_their_own_units():
    found = rows(OneBlob(axes=2, bins=4, domain=((0, -10), (1, 10))), [[0.375, 7.5]])[0]
    assert (found[:4] - rows(OneBlob(bins=4), [[0.375]])[0]).abs().max() < 1e-6
    assert (found[4:] - rows(OneBlob(bins=4), [[0.875]])[0]).abs().max() < 1e-6
    assert int(found[:4].argmax()) == 1
    assert int(found[4:].argmax()) == 3


def test_it_is_as_sharp_as_its_bins_and_smooth():
    x = torch.tensor([[0.5]], dtype=torch.float64, requires_grad=True)
    row = embedded(OneBlob(bins=32), x)
    assert row.detach().gt(0.01).sum() == 6  # one standard deviation is one bin
    (slope,) = torch.autograd.grad(row[0, 16], x, create_graph=True)
    (bend,) = torch.autograd.grad(slope.sum(), x)
    density = 32 * np.exp(-0.5) / np.sqrt(2 * np.pi)
    assert float(slope.detach()) == pytest.approx(32 / np.sqrt(2 * np.pi) - density, rel=1e-5)
    assert float(bend) == pytest.approx(-32 * density, rel=1e-5)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"bins": 1}, "at least two bins; got axes=1, bins=1"),
        ({"axes": 0}, "at least one axis"),
    ],
)
def test_what_cannot_be_is_refused(options, sentence):
    with pytest.raises(ValueError, match=sentence):
        OneBlob(**options)


def test_a_kernel_that_nobody_has_is_refused():
    # under the shape hook the type checker is the first to refuse a word that is none of a Literal's
    with pytest.raises((ValueError, TypeError), match="tent"):
        OneBlob(kernel="tent")  # type: ignore[arg-type]


def test_it_is_a_row_of_every_field():
    for axes in (2, 3):
        field = field_variants.field_variant(
            "one-blob", Budget(axes=axes, outputs=3, parameters=60_000, finest=64)
        ).field()
        assert field.scheme.out_dim == 32 * axes
        assert 50_000 < field.parameter_count <= 60_000
