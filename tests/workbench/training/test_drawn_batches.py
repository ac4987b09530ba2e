"""Fits that draw their own batches: resume, time limits, moving averages, options of Adam."""

import math

import pytest
import torch
from torch import nn

from posenc.workbench.training import checkpoint, loop
from posenc.workbench.training.batched import Member, train_batched
from posenc.workbench.training.flat_parameters import Average, FlatParameters
from posenc.workbench.training.loop import EVALUATION_FRACTIONS, Fit, TrainingConfig, train


class KillError(Exception):
    """Raised in place of the end of the process."""


def line(stop_at=None):
    """y = 3 x, learned from batches that are a function of the step; killed in the step ``stop_at``."""
    torch.manual_seed(0)
    model = nn.Linear(1, 1).double()
    seen = []

    def draw(step):
        return torch.rand(8, 1, generator=torch.Generator().manual_seed(step), dtype=torch.float64)

    def loss(batch):
        seen.append(batch)
        if stop_at is not None and len(seen) > stop_at:
            raise KillError
        return (model(batch) - 3 * batch).square().mean()

    return Fit(model, 8, loss, lambda: {"weight": model.weight.item()}, draw=draw), seen


def settings(**changes):
    return TrainingConfig(
        **{"epochs": 40, "batch": 8, "lr": 0.05, "optimizer": "adam", "evaluate_every": 10, **changes}
    )


def points(curve, metric):
    return {row["epoch"]: row["value"] for row in curve if row["metric"] == metric}


def test_an_epoch_is_a_step_and_batches_are_those_that_are_drawn():
    fit, seen = line()
    curve = train(fit, settings(), seed=7)
    assert list(points(curve, "weight")) == [0, 10, 20, 30, 40]
    assert len(seen) == 40
    assert torch.equal(seen[13], fit.draw(13))


@pytest.mark.parametrize("ema", [None, 0.9])
def test_a_killed_run_goes_on_to_the_last_digit(tmp_path, ema):
    config = settings(ema=ema, betas=(0.8, 0.95), eps=1e-12)
    calm, _ = line()
    whole = train(calm, config, seed=0)
    with pytest.raises(KillError):
        train(line(stop_at=23)[0], config, seed=0, workdir=tmp_path, checkpoint_seconds=0)
    again, seen = line()
    resumed = train(again, config, seed=0, workdir=tmp_path, checkpoint_seconds=0)
    assert len(seen) == 40 - 23
    assert points(resumed, "weight") == points(whole, "weight")
    assert torch.equal(again.model.weight, calm.model.weight)


def test_the_average_is_measured_and_remains():
    fit, _ = line()
    by_hand, total, decay = [], 0.0, 0.9
    inner = fit.loss

    def loss(batch):
        by_hand.append(fit.model.weight.item())
        return inner(batch)

    fit.loss = loss
    curve = train(fit, settings(ema=decay, evaluate_every=40), seed=0)
    # the weights after step t are those that the loss of step t + 1 sees; the last ones are not seen again
    plain, _ = line()
    train(plain, settings(evaluate_every=40), seed=0)
    after = [*by_hand[1:], plain.model.weight.item()]
    for value in after:
        total = decay * total + (1 - decay) * value
    expected = total / (1 - decay ** len(after))
    assert points(curve, "weight")[40] == pytest.approx(expected, rel=1e-12)
    assert fit.model.weight.item() == pytest.approx(expected, rel=1e-12)
    assert abs(expected - plain.model.weight.item()) > 1e-4


def test_weights_return_after_the_average_was_shown():
    model = nn.Linear(2, 1)
    flat = FlatParameters(model)
    average = Average(flat, 0.5)
    average.take()
    with torch.no_grad():
        flat.parameter.add_(1.0)
    before = model.weight.detach().clone()
    with average.shown(1):
        assert torch.allclose(model.weight, before - 1, atol=1e-6)
    assert torch.equal(model.weight, before)


def test_adam_takes_its_options():
    parameter = nn.Parameter(torch.ones(3))
    made = loop.make_optimizer([parameter], settings(betas=(0.9, 0.99), eps=1e-15))
    assert made.defaults["betas"] == (0.9, 0.99)
    assert made.defaults["eps"] == 1e-15
    assert loop.make_optimizer([parameter], settings()).defaults["betas"] == (0.9, 0.999)


def test_a_limit_in_time_ends_it_and_says_when_it_was_measured(monkeypatch):
    clock = iter(range(10_000))
    monkeypatch.setattr(loop.time, "process_time", lambda: float(next(clock)))
    fit, seen = line()
    told = []
    curve = train(fit, settings(epochs=1_000_000, seconds=100.0), seed=0, report=lambda *all_: told.append(all_))
    assert len(seen) == 100
    measured = points(curve, "seconds")
    assert list(measured)[1:] == [math.ceil(100 * moment) for moment in EVALUATION_FRACTIONS]
    assert measured[100] == 100
    assert told[-1][:2] == (100, 100)


def test_time_that_was_spent_before_a_kill_counts(monkeypatch, tmp_path):
    clock = iter(range(10_000))
    monkeypatch.setattr(loop.time, "process_time", lambda: float(next(clock)))
    config = settings(epochs=1_000_000, seconds=50.0)
    with pytest.raises(KillError):
        train(line(stop_at=30)[0], config, seed=0, workdir=tmp_path, checkpoint_seconds=0)
    assert checkpoint.load(tmp_path / "checkpoint.pt")["state"]["seconds"] == 30
    fit, seen = line()
    train(fit, config, seed=0, workdir=tmp_path, checkpoint_seconds=0)
    assert len(seen) == 20


def test_settings_of_old_stores_keep_their_keys():
    assert not {"ema", "seconds", "betas", "eps"} & settings().plain.keys()
    assert settings(ema=0.5).plain["ema"] == 0.5
    assert settings(betas=(0.9, 0.99)).plain["betas"] in ([0.9, 0.99], (0.9, 0.99))


@pytest.mark.parametrize(
    ("changes", "message"), [({"ema": 1.0}, "decay of an average"), ({"seconds": 0}, "above 0 seconds")]
)
def test_wrong_settings_are_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        settings(**changes)


def test_batched_training_refuses_options_that_it_does_not_have():
    torch.manual_seed(0)
    model = nn.Linear(1, 1)
    fit = Fit.of(model, (torch.ones(8, 1),), lambda m, x: m(x).square().mean(), dict)
    with pytest.raises(ValueError, match="batched training has no `ema`, which member 0 sets"):
        train_batched([Member(fit, settings(ema=0.9), 0)])
