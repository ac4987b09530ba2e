"""Training of larger models: gradient accumulation, plateaus, checkpoints by steps, bfloat16."""

import math
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from small_fits import plan, puzzle_fit, weights
from torch import nn
from torch.nn import functional
from torch.optim.lr_scheduler import ReduceLROnPlateau

from posenc.models.encoder import EncoderConfig
from posenc.workbench.training import checkpoint
from posenc.workbench.training.batched import Member, train_batched
from posenc.workbench.training.distributed import ProcessGroup
from posenc.workbench.training.fit import seeded_generator
from posenc.workbench.training.loop import Fit, Plateau, TrainingConfig, TrainingPosition, epoch_order, train

SAMPLES = 37
LARGER = EncoderConfig(channels=5, classes=4, dim=96, depth=3, hidden=192, heads=12, read_out="probe")


def fit(dropout=0.0, dtype=torch.float64):
    torch.manual_seed(5)
    model = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Dropout(dropout), nn.Linear(8, 3)).to(dtype)
    generator = torch.Generator().manual_seed(6)
    x = torch.randn(SAMPLES, 6, generator=generator, dtype=torch.float64).to(dtype)
    y = torch.randint(3, (SAMPLES,), generator=generator)

    def score(model, x, y):
        return functional.cross_entropy(model(x), y)

    return Fit.of(model, (x, y), score, lambda: {"loss": score(model, x, y).item()})


def settings(**changes):
    return TrainingConfig(**{"epochs": 6, "batch": 8, "lr": 0.01, "evaluate_every": 1, **changes})


def points(curve, metric):
    return [row["value"] for row in curve if row["metric"] == metric]


# -- parts of a batch ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("parts", [2, 3, 8])
def test_parts_of_a_batch_are_the_batch(parts):
    whole, divided = fit(), fit()
    sizes, loss = [], divided.loss
    divided.loss = lambda batch: sizes.append(len(batch)) or loss(batch)
    one = train(whole, settings(clip=0.3), seed=3)
    other = train(divided, settings(clip=0.3, accumulate=parts), seed=3)
    assert points(other, "loss") == pytest.approx(points(one, "loss"), abs=1e-12)
    assert points(other, "loss_train") == pytest.approx(points(one, "loss_train"), abs=1e-12)
    assert sum(sizes) == 6 * SAMPLES
    assert max(sizes) == math.ceil(8 / parts)
    assert min(sizes) >= 1  # the last batch, of 5, has fewer samples than 8 parts


def test_parts_in_float32_are_the_batch_to_a_millionth():
    one = train(fit(dtype=torch.float32), settings(), seed=3)
    other = train(fit(dtype=torch.float32), settings(accumulate=3), seed=3)
    assert points(other, "loss") == pytest.approx(points(one, "loss"), abs=1e-6)


def test_parts_are_interleaved_and_know_where_they_are():
    model = nn.Linear(1, 1).double()
    seen = []

    def loss_at(at, batch):
        seen.append((at, batch))
        return model.weight.sum() * 0

    own = Fit(model, SAMPLES, lambda batch: model.weight.sum() * math.nan, dict, loss_at=loss_at)
    train(own, settings(epochs=1, accumulate=2), seed=3)
    first = epoch_order(SAMPLES, 3, 0)[:8]
    assert [at for at, _ in seen[:3]] == [
        TrainingPosition(3, 0, 0),
        TrainingPosition(3, 0, 1),
        TrainingPosition(3, 1, 0),
    ]
    assert torch.equal(seen[0][1], first[::2])
    assert torch.equal(seen[1][1], first[1::2])


def test_random_numbers_of_a_loss_depend_on_seed_step_and_part_alone():
    draws = {
        torch.rand(1, generator=TrainingPosition(*at).generator()).item()
        for at in ((0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1))
    }
    assert len(draws) == 4
    assert torch.rand(1, generator=TrainingPosition(0, 7, 0).generator()) == torch.rand(
        1, generator=TrainingPosition(0, 7, 0).generator()
    )
    # and is not what the order of an epoch was drawn from
    assert torch.rand(1, generator=TrainingPosition(0, 7, 0).generator()) != torch.rand(
        1, generator=seeded_generator(0, 7, 0)
    )


@pytest.mark.parametrize("parts", [0, 9])
def test_parts_that_do_not_fit_the_batch_are_refused(parts):
    with pytest.raises(ValueError, match=rf"a batch of 8 has from 1 to 8 parts; got accumulate={parts}"):
        settings(accumulate=parts)


def test_a_batch_that_cannot_be_divided_is_refused(monkeypatch):
    own = fit()
    own.draw = lambda step: torch.tensor(step)
    with pytest.raises(ValueError, match="draws its own batches takes each of them whole"):
        train(own, settings(accumulate=2), seed=0)
    monkeypatch.setattr("posenc.workbench.training.loop.current", lambda: ProcessGroup(0, 3))
    with pytest.raises(ValueError, match=r"among 3 processes with 3 parts each\. Use a batch of at least 9"):
        train(fit(), settings(accumulate=3), seed=0)
    with pytest.raises(ValueError, match="a training with a time limit runs in one process"):
        train(fit(), settings(seconds=1.0), seed=0)
    drawing = fit()
    drawing.loss_at = lambda at, batch: drawing.loss(batch)
    with pytest.raises(ValueError, match="batched training has no `loss_at`, which member 0 sets"):
        train_batched([Member(drawing, settings(), 0)])


# -- plateaus --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["min", "max"])
@pytest.mark.parametrize(("patience", "threshold", "min_lr"), [(0, 1e-4, 0.0), (2, 0.1, 0.03)])
def test_a_plateau_is_torchs(mode, patience, threshold, min_lr):
    plateau = Plateau(metric="x", mode=mode, patience=patience, factor=0.3, threshold=threshold, min_lr=min_lr)
    optimizer = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=0.5)
    theirs = ReduceLROnPlateau(optimizer, mode=mode, factor=0.3, patience=patience, threshold=threshold, min_lr=min_lr)
    standing, found = plateau.start(0.5), []
    values = (1 + 0.3 * torch.randn(40, generator=torch.Generator().manual_seed(1), dtype=torch.float64)).tolist()
    for value in [*values, math.nan, *values[:3]]:
        standing = plateau.after(standing, {"x": value})
        theirs.step(value)
        found.append(standing["lr"])
        assert found[-1] == optimizer.param_groups[0]["lr"]
    assert len(set(found)) > 3


def test_the_rate_falls_at_a_plateau_and_goes_on_from_a_checkpoint(tmp_path):
    config = settings(
        optimizer="sgd", warmup_steps=3, plateau=Plateau(metric="loss", factor=0.5, patience=0, threshold=0.01)
    )
    calm, plain = fit(), fit()
    curve = train(calm, config, seed=3)
    assert points(curve, "loss") != points(train(plain, settings(optimizer="sgd", warmup_steps=3), seed=3), "loss")
    killed = fit()
    calls, loss = [], killed.loss
    killed.loss = lambda batch: loss(batch) if len(calls) < 17 and not calls.append(0) else pytest.fail("killed")
    with pytest.raises(pytest.fail.Exception):
        train(killed, config, seed=3, workdir=tmp_path, checkpoint_steps=4)
    saved = checkpoint.load(tmp_path / "checkpoint.pt")
    assert saved is not None
    assert saved["state"]["plateau"]["lr"] < 0.01
    resumed = fit()
    assert train(resumed, config, seed=3, workdir=tmp_path) == curve
    assert torch.equal(weights(resumed), weights(calm))


def test_a_plateau_of_an_unknown_metric_is_refused_before_the_first_step():
    own = fit()
    own.loss = lambda batch: pytest.fail("a step")
    with pytest.raises(ValueError, match=r"a plateau of 'accuracy', which is not measured\. Name one of loss\."):
        train(own, settings(plateau=Plateau(metric="accuracy")), seed=0)
    train(fit(), settings(plateau=Plateau(metric="loss_train")), seed=0)  # which is there after the first steps


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda: Plateau(metric="x", factor=1.0), "a factor between 0 and 1; got factor=1"),
        (lambda: Plateau(metric="x", patience=-1), "not negative"),
        (lambda: settings(decay_steps=9, plateau=Plateau(metric="x")), "Leave decay_steps or plateau out"),
        (lambda: train(fit(), settings(), seed=0, checkpoint_steps=0), "got checkpoint_steps=0"),
    ],
)
def test_wrong_settings_are_refused(make, reason):
    with pytest.raises(ValueError, match=reason):
        make()


def test_settings_of_old_stores_keep_their_keys():
    assert not {"accumulate", "plateau"} & settings().plain.keys()
    assert settings(accumulate=2).plain["accumulate"] == 2
    assert settings(plateau=Plateau(metric="x")).plain["plateau"]["patience"] == 10


# -- checkpoints -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"batch": 16}, "its batch is 8, and this one's 16"),
        ({"optimizer": "sgd"}, "its optimiser is adamw"),
        ({"lr": 0.02}, "its lr is 0.01, and this one's 0.02"),
        ({"plateau": Plateau(metric="loss")}, "its plateau is None"),
    ],
)
def test_a_checkpoint_of_another_training_is_refused(tmp_path, changes, reason):
    train(fit(), settings(), seed=3, workdir=tmp_path, checkpoint_steps=4)
    with pytest.raises(checkpoint.CheckpointError, match=reason):
        train(fit(), settings(**changes), seed=3, workdir=tmp_path)


def test_a_checkpoint_is_continued_by_a_longer_training(tmp_path):
    whole = fit()
    train(whole, settings(epochs=9), seed=3)
    train(fit(), settings(), seed=3, workdir=tmp_path, checkpoint_steps=4)
    longer = fit()
    train(longer, settings(epochs=9), seed=3, workdir=tmp_path)
    assert all(map(torch.equal, whole.model.state_dict().values(), longer.model.state_dict().values()))


def test_a_checkpoint_of_another_model_is_refused(tmp_path):
    train(fit(), settings(), seed=3, workdir=tmp_path, checkpoint_steps=4)
    other = fit()
    other.model[0] = nn.Linear(6, 9).double()
    with pytest.raises(checkpoint.CheckpointError, match=r"of another model .*size mismatch"):
        train(other, settings(), seed=3, workdir=tmp_path)


LONG = settings(epochs=200)


def run_long(folder):
    """Main function of the killed process: a step takes 0.01 s, and every fifth step writes a checkpoint."""
    own = fit(dropout=0.4)
    loss = own.loss

    def slow(batch):
        time.sleep(0.01)
        (folder / "begun").write_text(str(int((folder / "begun").read_text() or 0) + 1))
        return loss(batch)

    own.loss = slow
    train(own, LONG, seed=3, workdir=folder, checkpoint_seconds=1e6, checkpoint_steps=5)


@pytest.mark.bare
@pytest.mark.full
def test_kill_nine_costs_at_most_the_steps_between_two_checkpoints(tmp_path):
    here = Path(__file__)
    (tmp_path / "begun").write_text("0")
    code = f"import test_larger, pathlib; test_larger.run_long(pathlib.Path({str(tmp_path)!r}))"
    paths = os.pathsep.join([str(here.parent), *sys.path])
    process = subprocess.Popen([sys.executable, "-c", code], env=os.environ | {"PYTHONPATH": paths})
    try:
        deadline = time.monotonic() + 120
        while int((tmp_path / "begun").read_text() or 0) < 23:
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.003)
    finally:
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    begun = int((tmp_path / "begun").read_text() or 0) or math.inf  # the kill may have come while it was written
    saved = checkpoint.load(tmp_path / "checkpoint.pt")
    assert saved is not None
    step = saved["state"]["step"]
    assert step % 5 == 0
    assert step >= 20
    assert begun - step <= 5 or begun == math.inf
    calm, resumed = fit(dropout=0.4), fit(dropout=0.4)
    curve = train(calm, LONG, seed=3)
    assert train(resumed, LONG, seed=3, workdir=tmp_path) == curve
    assert torch.equal(weights(resumed), weights(calm))


# -- one larger model ------------------------------------------------------------------------------------------------


@pytest.mark.full
def test_bfloat16_trains_one_larger_model_whose_weights_stay_float32(tmp_path):
    config = plan(epochs=8, lr=1e-3, clip=1.0, ema=0.9, warmup_steps=2, decay_steps=16, accumulate=2)
    exact, rough, again = (puzzle_fit("RoPE", {}, 0, config=LARGER) for _ in range(3))
    one = train(exact, config, seed=0)
    kinds, loss = set(), rough.loss
    rough.model.register_forward_hook(lambda module, given, out: kinds.add((out.dtype, module.training)))
    rough.loss = loss
    other = train(rough, config, seed=0, precision="bfloat16", workdir=tmp_path, checkpoint_steps=5)
    assert kinds == {(torch.bfloat16, True), (torch.float32, False)}  # steps, and measurements
    assert {p.dtype for p in rough.model.parameters()} == {torch.float32}
    assert points(other, "loss")[-1] < 0.8 * points(other, "loss")[0]
    differences = [abs(a - b) for a, b in zip(points(one, "loss"), points(other, "loss"), strict=True)]
    assert 0 < max(differences) < 0.05
    assert train(again, config, seed=0, precision="bfloat16", workdir=tmp_path) == other  # from step 15


def test_every_measurement_is_reported_at_its_step_and_the_speed_counts_steps_alone(monkeypatch):
    own, told = fit(), []
    evaluate = own.evaluate
    now = [0.0]
    monkeypatch.setattr("posenc.workbench.training.loop.time.monotonic", lambda: now[0])

    def measured():
        now[0] += 100.0
        return evaluate()

    loss = own.loss

    def stepped(batch):
        now[0] += len(batch) / 50
        return loss(batch)

    own.evaluate, own.loss = measured, stepped
    curve = train(own, settings(epochs=3), seed=0, report=lambda *all_: told.append(all_))
    heard = [(step, metrics["loss"]) for step, _, _, metrics in told if metrics]
    assert heard == list(zip([0, 5, 10, 15], points(curve, "loss"), strict=True))
    assert {steps for _, steps, _, _ in told} == {15}
    assert [rate for _, _, rate, _ in told[1:]] == pytest.approx([50.0] * (len(told) - 1))
