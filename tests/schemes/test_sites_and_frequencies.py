"""Refusals that all schemes share: an unknown site, and frequencies that are not numbers."""

import numpy as np
import pytest
import torch

from posenc.frequencies import yarn
from posenc.positions import sequence
from posenc.schemes import catalogue
from posenc.schemes.fourier_features import FourierFeatures
from posenc.schemes.grid_rotate import GridRotate
from posenc.schemes.nope import NoPE
from posenc.schemes.rope import RoPE
from posenc.schemes.sinusoid import Sinusoid

pytestmark = pytest.mark.bare  # the shape hook would refuse the words before the sentences do


@pytest.mark.parametrize("kind", [pytest.param(kind, id=name) for name, kind in catalogue().items()])
def test_a_map_at_an_unknown_site_is_refused(kind):
    scheme, x = kind(**kind.examples[0]), torch.zeros(1, 1, 3, 12)
    with pytest.raises(
        ValueError, match=rf"{kind.__name__}\.transform takes site='q' or 'k' or 'v' or 'o'; got 'query'"
    ):
        scheme.transform(x, None, "query")
    with pytest.raises(ValueError, match=r"transform takes .*; got 'keys'\. Write 'q' for queries\."):
        scheme.transform(x, None, site="keys")
    with pytest.raises(ValueError, match=r"rerotate takes site='k' or 'v'; got 'q'\. Write 'k' for keys\."):
        scheme.rerotate(x, None, None, "q")


def test_sites_that_a_scheme_does_not_act_at_are_no_error():
    rope, x = RoPE(12), torch.randn(1, 1, 3, 12)
    where = rope.prepare(sequence(3))
    assert rope.transform(x, where, "v") is x
    assert NoPE().transform(x, None, site="o") is x
    assert rope.rerotate(x, where, where, "v") is x
    torch.testing.assert_close(
        rope.rerotate(rope.transform(x, where, "k"), where, where), rope.transform(x, where, "k")
    )


NUMBERS = [1.0, 0.5, 0.25]


@pytest.mark.parametrize(
    "make",
    [
        lambda given: RoPE(6, frequencies=given).theta,
        lambda given: Sinusoid(6, frequencies=given).frequencies,
        lambda given: FourierFeatures(6, frequencies=given).frequencies,
    ],
    ids=["RoPE", "Sinusoid", "FourierFeatures"],
)
def test_frequencies_are_a_tensor_an_array_or_numbers(make):
    for given in (NUMBERS, tuple(NUMBERS), np.array(NUMBERS), torch.tensor(NUMBERS)):
        assert make(given) == (1.0, 0.5, 0.25)
    for given, words in (("day", "got 'day'"), ([1.0, "a", 2.0], r"got \[1\.0, 'a', 2\.0\]"), ([1.0], r"got \[1\.0\]")):
        with pytest.raises(ValueError, match=words):
            make(given)


def test_schedules_and_waves_as_before():
    assert RoPE(8, frequencies=yarn(4, factor=4.0, trained=2048)).attention_factor > 1
    assert GridRotate(12, frequencies=np.array(NUMBERS)).claims.axes == 2
    with pytest.raises(ValueError, match=r"finite lengths .* got 'day'"):
        GridRotate(12, frequencies="day")  # pyright: ignore[reportArgumentType]
    with pytest.raises(ValueError, match=r"one frequency for each; got 2 of shape \(2,\)\. Pass 3 numbers"):
        RoPE(6, frequencies=torch.tensor([1.0, 2.0]))
