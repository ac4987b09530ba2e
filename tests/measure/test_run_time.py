"""The measured scheme and torch's random numbers stay as they were."""

import pytest
import torch

from posenc import FourierFeatures, T5Bias, sequence
from posenc.measure.run_time import cost


def test_a_measured_scheme_is_left_alone() -> None:
    features, bias = FourierFeatures(8, axes=1).double(), T5Bias(8)
    before = torch.get_rng_state()
    rows = [*cost(features, sequence(4), rounds=2), *cost(bias, sequence(4), rounds=2)]
    assert {row["what"] for row in rows} == {"prepare", "embed", "attention", "with backward"}
    assert features.B.dtype == torch.float64
    assert all(parameter.grad is None for parameter in bias.parameters())
    assert torch.equal(torch.get_rng_state(), before)


def test_a_spread_needs_two_rounds() -> None:
    with pytest.raises(ValueError, match="two rounds or more; got rounds=1"):
        cost(T5Bias(8), sequence(4), rounds=1)
