"""Noise where it was asked for, of the size it was asked for, and gone afterwards."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from posenc.measure.robustness import noise_robustness

X = torch.linspace(-1, 1, 12).reshape(4, 3)


class Small(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Linear(3, 2000)
        self.drop = nn.Dropout(0.5)
        self.unused = nn.Linear(3, 3)
        self.pair = Pair()
        self.seen: list[torch.Tensor] = []

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.tokens(x)
        self.seen.append(h)
        return self.drop(h).mean(-1) + self.pair(x)[0].mean()


class Pair(nn.Module):
    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return x, x


def score(model: Small):
    def evaluate() -> dict[str, float]:
        assert not model.training
        assert not torch.is_grad_enabled()
        return {"mean": model(X).mean().item(), "second": model(X).square().mean().item()}

    return evaluate


def test_rows_name_scale_draw_metric_and_value() -> None:
    model = Small()
    rows = noise_robustness(model, model.tokens, score(model), scales=(0, 0.5, 2.0), draws=3)
    assert [(row["scale"], row["draw"], row["metric"]) for row in rows] == [
        (scale, draw, metric)
        for scale, draws in ((0, 1), (0.5, 3), (2.0, 3))
        for draw in range(draws)
        for metric in ("mean", "second")
    ]
    assert len({row["value"] for row in rows if row["metric"] == "mean"}) == 7
    assert len(noise_robustness(model, model.tokens, score(model))) == 2 * (1 + 6 * 20)


def test_scale_zero_is_the_clean_model() -> None:
    model = Small()
    rows = noise_robustness(model, model.tokens, score(model), scales=(0.0, 1.0), draws=1)
    model.eval()
    with torch.no_grad():
        clean = score(model)()
    assert {row["metric"]: row["value"] for row in rows if row["scale"] == 0} == clean
    assert {row["metric"]: row["value"] for row in rows if row["scale"] == 1} != clean


def test_the_noise_is_normal_with_that_standard_deviation() -> None:
    model = Small()
    noise_robustness(model, model.tokens, score(model), scales=(0, 0.5, 2), draws=2)
    clean, seen = model.seen[0], model.seen[2:]
    noise = [(h - clean) / scale for h, scale in zip(seen, [0.5] * 4 + [2] * 4, strict=True)]
    for each in noise:
        assert float(each.mean()) == pytest.approx(0, abs=4 / math.sqrt(8000))
        assert float(each.std()) == pytest.approx(1, abs=4 / math.sqrt(16000))
        assert float((each.abs() < 1.959964).double().mean()) == pytest.approx(0.95, abs=0.011)
    # a draw is the same at every scale; draws, and calls within one, are independent
    torch.testing.assert_close(noise[0], noise[4], atol=1e-5, rtol=0)
    for one, other in ((0, 1), (0, 2), (1, 3)):
        assert abs(float((noise[one] * noise[other]).mean())) < 4 / math.sqrt(8000)


def test_the_same_seed_gives_the_same_numbers_whatever_else_is_drawn() -> None:
    model = Small()
    first = noise_robustness(model, model.tokens, score(model), scales=(0.1, 1), draws=3, seed=5)
    state = torch.get_rng_state()
    torch.randn(7)
    assert noise_robustness(model, model.tokens, score(model), scales=(0.1, 1), draws=3, seed=5) == first
    torch.set_rng_state(state)
    noise_robustness(model, model.tokens, score(model), scales=(1,), draws=1)
    assert torch.equal(torch.get_rng_state(), state)
    alone = noise_robustness(model, model.tokens, score(model), scales=(1,), draws=2, seed=5)
    assert alone == [row for row in first if row["scale"] == 1 and row["draw"] < 2]
    other = noise_robustness(model, model.tokens, score(model), scales=(0.1, 1), draws=3, seed=6)
    assert all(a["value"] != b["value"] for a, b in zip(first, other, strict=True))


def test_the_model_is_left_as_it_was_also_after_an_exception() -> None:
    model = Small()
    model.drop.eval()

    def broken() -> dict[str, float]:
        model(X)
        raise RuntimeError("broke")

    noise_robustness(model, model.tokens, score(model), scales=(1,), draws=1)
    with pytest.raises(RuntimeError, match="broke"):
        noise_robustness(model, model.tokens, broken, scales=(1,), draws=1)
    assert [len(part._forward_hooks) for part in model.modules()] == [0] * 5
    assert (model.training, model.drop.training) == (True, False)
    assert torch.is_grad_enabled()


def test_noise_that_cannot_be_added_is_refused() -> None:
    model = Small()
    with pytest.raises(ValueError, match="this Linear is not in it"):
        noise_robustness(model, nn.Linear(2, 2), score(model))
    with pytest.raises(ValueError, match="never ran the site, Linear"):
        noise_robustness(model, model.unused, score(model))
    with pytest.raises(ValueError, match="Pair gives out tuple"):
        noise_robustness(model, model.pair, score(model))
    with pytest.raises(ValueError, match="scales of at least 0"):
        noise_robustness(model, model.tokens, score(model), scales=(-1.0,))
    with pytest.raises(ValueError, match="draws=0"):
        noise_robustness(model, model.tokens, score(model), draws=0)
