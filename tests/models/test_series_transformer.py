"""The transformer on readings: hidden values have no effect, times act through the scheme alone, sizes are checked."""

from __future__ import annotations

import pytest
import torch

from posenc.models.series import SeriesConfig, SeriesTransformer
from posenc.positions import Positions
from posenc.scheme import Scheme
from posenc.schemes.kerple_log import KERPLELog
from posenc.schemes.nope import NoPE
from posenc.schemes.rope import RoPE
from posenc.schemes.sinusoid import Sinusoid

CONFIG = SeriesConfig(dim=16, depth=2, heads=2, hidden=16)
SCHEMES = [NoPE, lambda: Sinusoid(6), lambda: RoPE(8), lambda: KERPLELog(2)]


def windows() -> tuple[torch.Tensor, Positions, torch.Tensor]:
    times = torch.rand(3, 9, dtype=torch.float64).cumsum(1) * 5
    return torch.randn(3, 9), Positions(times[..., None]), torch.arange(9).expand(3, -1) >= 7


@pytest.mark.parametrize("make", SCHEMES)
def test_hidden_values_have_no_effect(make) -> None:
    values, pos, hidden = windows()
    net = SeriesTransformer(CONFIG, lambda layer: make()).eval()
    other = torch.where(hidden, torch.full_like(values, 1e6), values)
    assert torch.equal(net(values, pos, hidden), net(other, pos, hidden))
    assert net(values, pos, hidden).shape == (3, 9)


@pytest.mark.parametrize("make", SCHEMES)
def test_times_act_through_the_scheme_alone(make) -> None:
    values, pos, hidden = windows()
    scheme: Scheme = make()
    net = SeriesTransformer(CONFIG, lambda layer: scheme).eval()
    moved = Positions(pos.coords * torch.tensor([1.0, 1.7, 0.3], dtype=torch.float64)[:, None, None])
    change = (net(values, pos, hidden) - net(values, moved, hidden)).detach().abs().amax(1)
    assert (float(change[1:].min()) > 1e-5) == bool(scheme.claims.sites)
    assert float(change[0]) == 0
    has_rows = "embed" in scheme.claims.sites
    assert (net.embedding_scale(values, pos, hidden) is not None) == has_rows


def test_sizes_that_do_not_fit_are_one_sentence() -> None:
    with pytest.raises(ValueError, match="3 heads do not divide a width of 16"):
        SeriesConfig(dim=16, depth=1, heads=3, hidden=4)
    with pytest.raises(ValueError, match="sizes of at least 1"):
        SeriesConfig(dim=16, depth=0, heads=1, hidden=4)
