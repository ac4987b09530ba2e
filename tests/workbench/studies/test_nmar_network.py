"""Sentences on the simulated network of a page: they follow its settings."""

from __future__ import annotations

import pytest

from posenc.workbench.studies.nmar import network_plots
from posenc.workbench.tasks.nmar import NMAR

pytestmark = pytest.mark.bare

PRINTED = "With the coefficients as printed"
UNDIVIDED = "Without a division by the number of lags"


@pytest.mark.parametrize(
    ("network", "starts", "lacks"),
    [
        (NMAR(), f"{PRINTED} the network diverges, because the weights of the lags sum to 1.0", "~"),
        (NMAR(w=(0.1, 0.2)), f"{UNDIVIDED}, the weights of the lags sum to 0.4", "diverges"),
        (NMAR(w=(0.5, 0.6)), f"{UNDIVIDED} the network diverges, because the weights of the lags sum to 1.6", "paper"),
    ],
)  # fmt: skip
def test_the_divergence_is_that_of_the_settings(network: NMAR, starts: str, lacks: str) -> None:
    sentence = network_plots._divergence(network, [0, 1])
    assert sentence.startswith(starts)
    assert lacks not in sentence
    assert ("the error that the paper reports" in sentence) == (network == NMAR())
