"""Training loop: exact resume, torch's optimizers, learning rate schedules and orders of samples."""

import math
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn import functional

from posenc.workbench.training import checkpoint
from posenc.workbench.training.loop import Fit, TrainingConfig, epoch_order, train

SAMPLES = 37


class KillError(Exception):
    """Raised in place of the end of the process."""


def task(*, dropout=0.0, stop_at=None):
    """A small model that learns from 37 samples; killed in the middle of batch number ``stop_at``."""
    torch.manual_seed(5)
    model = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Dropout(dropout), nn.Linear(8, 3)).double()
    generator = torch.Generator().manual_seed(6)
    x = torch.randn(SAMPLES, 6, generator=generator, dtype=torch.float64)
    y = torch.randint(3, (SAMPLES,), generator=generator)
    calls = []

    def loss(batch):
        calls.append(batch.clone())
        value = functional.cross_entropy(model(x[batch]), y[batch])
        if stop_at is not None and len(calls) > stop_at:
            raise KillError
        return value

    def evaluate():
        return {"accuracy": (model(x).argmax(-1) == y).double().mean().item(), "drawn": model(x).sum().item()}

    return Fit(model, SAMPLES, loss, evaluate), calls


def weights(fit):
    return torch.cat([p.detach().flatten() for p in fit.model.parameters()])


def settings(**changes):
    return TrainingConfig(**{"epochs": 6, "batch": 8, "lr": 0.01, "evaluate_every": 2, **changes})


@pytest.mark.parametrize("optimizer", ["adamw", "adam", "sgd"])
@pytest.mark.parametrize("stop_at", [3, 12, 27], ids="step-{}".format)
def test_a_killed_run_goes_on_to_the_last_digit(optimizer, stop_at, tmp_path):
    config = settings(optimizer=optimizer, weight_decay=0.1, warmup_steps=9, evaluate_in_train_mode=True)
    calm, _ = task(dropout=0.4)
    curve = train(calm, config, seed=3)
    killed, _ = task(dropout=0.4, stop_at=stop_at)
    with pytest.raises(KillError):
        train(killed, config, seed=3, workdir=tmp_path, checkpoint_seconds=0)
    saved = checkpoint.load(tmp_path / "checkpoint.pt")
    assert saved is not None
    assert saved["state"]["step"] == stop_at
    assert stop_at % math.ceil(SAMPLES / config.batch) != 0  # in the middle of an epoch
    resumed, calls = task(dropout=0.4)
    torch.manual_seed(999)  # the state of the generator comes from the checkpoint
    assert train(resumed, config, seed=3, workdir=tmp_path) == curve
    assert torch.equal(weights(resumed), weights(calm))
    assert len(calls) == 30 - stop_at


def test_writing_checkpoints_changes_nothing(tmp_path):
    calm, _ = task(dropout=0.4)
    curve = train(calm, settings(), seed=3)
    written, _ = task(dropout=0.4)
    assert train(written, settings(), seed=3, workdir=tmp_path, checkpoint_seconds=0) == curve
    assert (tmp_path / "checkpoint.pt").exists()
    assert torch.equal(weights(written), weights(calm))


def test_a_damaged_checkpoint_is_refused(tmp_path: Path):
    (tmp_path / "checkpoint.pt").write_bytes(b"not a checkpoint")
    with pytest.raises(checkpoint.CheckpointError, match="is damaged"):
        train(task()[0], settings(), seed=3, workdir=tmp_path)


def test_the_same_seed_gives_the_same_curve_and_another_another():
    curves = [train(task()[0], settings(), seed=seed) for seed in (3, 3, 4)]
    assert curves[0] == curves[1]
    assert curves[0] != curves[2]


def test_the_curve_has_the_metrics_of_every_evaluation():
    curve = train(task()[0], settings(epochs=5), seed=0)
    assert [row["epoch"] for row in curve if row["metric"] == "accuracy"] == [0, 2, 4, 5]
    assert [row["epoch"] for row in curve if row["metric"] == "loss_train"] == [2, 4, 5]


def test_the_training_loss_is_the_mean_since_the_last_measurement():
    losses = iter(range(100))
    model = nn.Linear(1, 1).double()
    fit = Fit(model, SAMPLES, lambda batch: model.weight.sum() * 0 + next(losses), dict)
    curve = train(fit, settings(epochs=4), seed=0)
    assert [row["value"] for row in curve] == [sum(range(10)) / 10, sum(range(10, 20)) / 10]


@pytest.mark.parametrize("in_train_mode", [False, True])
def test_measuring_is_done_in_the_mode_asked_for_and_training_in_training_mode(in_train_mode):
    fit, _ = task(dropout=0.4)
    measured, trained = [], []
    fit.evaluate = lambda: measured.append((fit.model.training, torch.is_grad_enabled())) or {"x": 0.0}
    loss = fit.loss
    fit.loss = lambda batch: trained.append((fit.model.training, torch.is_grad_enabled())) or loss(batch)
    train(fit, settings(evaluate_in_train_mode=in_train_mode), seed=3)
    assert set(measured) == {(in_train_mode, False)}
    assert set(trained) == {(True, True)}


@pytest.mark.parametrize("in_train_mode", [False, True])
def test_a_frozen_normalization_stays_in_evaluation_mode(in_train_mode):
    fit, _ = task()
    norm = nn.BatchNorm1d(8).double().eval()
    fit.model.insert(1, norm)
    train(fit, settings(evaluate_in_train_mode=in_train_mode), seed=3)
    assert not norm.training
    assert fit.model.training
    assert torch.equal(norm.running_mean, torch.zeros(8, dtype=torch.float64))


def test_a_model_in_evaluation_mode_is_trained_in_training_mode_on_resume_too(tmp_path):
    for _ in range(2):
        fit, calls = task(dropout=0.4)
        fit.model.eval()
        modes = []
        loss = fit.loss
        fit.loss = lambda batch, fit=fit, loss=loss, modes=modes: modes.append(fit.model.training) or loss(batch)
        train(fit, settings(), seed=3, workdir=tmp_path, checkpoint_steps=4)
        assert calls
        assert set(modes) == {True}


def test_every_epoch_sees_every_sample_once_in_its_own_order():
    fit, calls = task()
    train(fit, settings(epochs=2), seed=3)
    assert [len(batch) for batch in calls] == [8, 8, 8, 8, 5] * 2
    first, second = torch.cat(calls[:5]), torch.cat(calls[5:])
    assert sorted(first.tolist()) == sorted(second.tolist()) == list(range(SAMPLES))
    assert torch.equal(first, epoch_order(SAMPLES, 3, 0))
    assert not torch.equal(first, second)


@pytest.mark.parametrize(
    ("optimizer", "kind"),
    [("adamw", torch.optim.AdamW), ("adam", torch.optim.Adam), ("sgd", torch.optim.SGD)],
)
def test_optimizers_are_torchs_with_their_own_weight_decay(optimizer, kind):
    fit, _ = task()
    train(fit, settings(optimizer=optimizer, epochs=2, weight_decay=0.3), seed=3)
    other, _ = task()
    by_hand = kind(other.model.parameters(), lr=0.01, weight_decay=0.3)
    for epoch in (0, 1):
        for batch in epoch_order(SAMPLES, 3, epoch).split(8):
            by_hand.zero_grad()
            other.loss(batch).backward()
            by_hand.step()
    torch.testing.assert_close(weights(fit), weights(other), rtol=1e-10, atol=1e-12)


def test_the_three_optimizers_and_their_weight_decay_all_differ():
    found = []
    for optimizer in ("adamw", "adam", "sgd"):
        for decay in (0.0, 0.3):
            if (optimizer, decay) != ("adamw", 0.0):  # without decay it is Adam
                fit, _ = task()
                train(fit, settings(optimizer=optimizer, weight_decay=decay), seed=3)
                found.append(weights(fit))
    assert min((a - b).abs().max() for i, a in enumerate(found) for b in found[:i]) > 1e-4


def test_rates_warm_up_in_a_line_and_decay_along_a_cosine():
    warm = settings(lr=2.0, warmup_steps=4)
    assert [warm.rate(step) for step in range(6)] == [0.5, 1.0, 1.5, 2.0, 2.0, 2.0]
    assert [settings(lr=2.0).rate(step) for step in (0, 1000)] == [2.0, 2.0]
    both = settings(lr=2.0, warmup_steps=4, decay_steps=8)
    assert [both.rate(step) for step in (0, 4, 8, 99)] == pytest.approx([0.5, 1.0, 0.0, 0.0])


def test_every_step_takes_its_own_rate():
    model = nn.Linear(1, 1, bias=False).double()
    nn.init.zeros_(model.weight)
    fit = Fit(model, 8, lambda batch: model.weight.sum(), lambda: {"weight": model.weight.item()})
    config = settings(optimizer="sgd", epochs=6, batch=8, lr=1.0, warmup_steps=4, evaluate_every=1)
    curve = [row["value"] for row in train(fit, config, seed=0) if row["metric"] == "weight"]
    assert curve == pytest.approx([0, -0.25, -0.75, -1.5, -2.5, -3.5, -4.5])


def test_a_loss_that_is_not_finite_ends_the_run():
    model = nn.Linear(1, 1).double()
    fit = Fit(model, 8, lambda batch: model.weight.sum() * math.inf, dict)
    with pytest.raises(FloatingPointError, match=r"the loss became -?(inf|nan) at step 0; use a smaller learning rate"):
        train(fit, settings(), seed=0)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"epochs": 0}, "epochs of at least 1; got 0"),
        ({"batch": 0}, "batch of at least 1; got 0"),
        ({"lr": 0.0}, "a learning rate above 0; got lr=0"),
        ({"lr": math.nan}, "a learning rate above 0; got lr=nan"),
        ({"weight_decay": -1.0}, "weight_decay and warmup_steps are not negative"),
        ({"clip": 0.0}, r"gradient norm is above 0; got clip=0\. None clips no gradient"),
        ({"clip": -1.0}, "got clip=-1"),
        ({"lr": float("inf")}, "a finite learning rate; got lr=inf"),
        ({"decay_steps": 0}, "a cosine decay has at least 1 step; got decay_steps=0"),
    ],
)
def test_wrong_settings_are_refused(changes, reason):
    with pytest.raises(ValueError, match=reason):
        settings(**changes)


def test_a_parameter_that_the_loss_does_not_reach_stays_where_it_was():
    torch.manual_seed(0)
    model = nn.ModuleList([nn.Linear(2, 1), nn.Linear(2, 1)]).double()
    reached, idle = (next(part.parameters()) for part in model)
    before = reached.detach().clone(), idle.detach().clone()
    train(Fit(model, 8, lambda batch: reached.square().sum(), dict), settings(optimizer="sgd"), seed=0)
    assert torch.equal(idle, before[1])
    assert not torch.equal(reached, before[0])


@pytest.mark.parametrize(("clip", "length"), [(None, 5.0), (0.5, 0.5), (50.0, 5.0)])
def test_gradients_are_clipped_by_their_common_norm(clip, length):
    model = nn.Linear(1, 1).double()  # a weight and a bias, of which the loss has the slopes 3 and 4
    before = weights(Fit(model, 8, lambda batch: model.weight.sum(), dict))
    fit = Fit(model, 8, lambda batch: 3 * model.weight.sum() + 4 * model.bias.sum(), dict)
    train(fit, settings(optimizer="sgd", lr=1.0, clip=clip, epochs=1), seed=0)
    assert (weights(fit) - before).norm().item() == pytest.approx(length, rel=1e-5)
