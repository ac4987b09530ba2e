"""Batched training: each member has the results, checkpoints and failures of a single run."""

from pathlib import Path

import msgspec
import pytest
import torch
from small_fits import CASES, CONFIG, OTHER_RATES, SAMPLES, differences, fields, line_fit, plan, puzzle_fit, weights
from torch import nn
from torch.nn import functional

from posenc.models.encoder import EncoderConfig
from posenc.workbench.training import checkpoint
from posenc.workbench.training.batched import Member, train_batched
from posenc.workbench.training.loop import Fit, TrainingConfig, train
from tiers import full_except

# the same as alone -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", full_except(CASES, "rope"))
def test_losses_are_those_of_training_alone(case):
    """50 steps in float32, every second one of another batch size; rates, decays, clips of their own."""
    scheme, options = CASES[case]
    fits = [puzzle_fit(scheme, own, seed) for seed, own in enumerate(options)]
    curves = train_batched([Member(f, c, seed) for seed, (f, c) in enumerate(zip(fits, OTHER_RATES, strict=True))])
    for seed, own in enumerate(options):
        fit = puzzle_fit(scheme, own, seed)
        alone = train(fit, OTHER_RATES[seed], seed=seed)
        assert alone[-1]["value"] < alone[2]["value"]  # it learns, so that there is something to compare
        assert differences(alone, curves[seed]) < 1e-5


@pytest.mark.full
@pytest.mark.parametrize("optimizer", full_except(("adamw", "adam", "sgd"), "adamw", bare=True))
def test_optimizers_are_exact_for_every_member(optimizer):
    configs = [TrainingConfig(**{**fields(c), "optimizer": optimizer}) for c in OTHER_RATES]
    # a key's bias moves no logit: Adam would blow the rounding of its gradient, zero, up to whole steps
    unbiased = msgspec.structs.replace(CONFIG, projection_bias=False)
    fits = [puzzle_fit("Learned", {}, seed, dtype=torch.float64, config=unbiased) for seed in range(3)]
    curves = train_batched([Member(f, c, seed) for seed, (f, c) in enumerate(zip(fits, configs, strict=True))])
    for seed, config in enumerate(configs):
        fit = puzzle_fit("Learned", {}, seed, dtype=torch.float64, config=unbiased)
        assert differences(train(fit, config, seed=seed), curves[seed]) < 1e-10
        torch.testing.assert_close(weights(fits[seed]), weights(fit), rtol=1e-8, atol=1e-10)


def test_members_may_have_data_of_their_own():
    def fit(slope):
        x = torch.linspace(-1, 1, SAMPLES, dtype=torch.float64)[:, None]
        torch.manual_seed(0)
        model = nn.Linear(1, 1).double()
        score = lambda model, x, y: functional.mse_loss(model(x), y)  # noqa: E731
        return Fit.of(model, (x, slope * x), score, lambda: {"slope": model.weight.item()})

    config = plan(optimizer="sgd", lr=0.3, epochs=60)
    curves = train_batched([Member(fit(slope), config, 0) for slope in (1.0, -2.0)])
    slopes = [[row["value"] for row in curve if row["metric"] == "slope"][-1] for curve in curves]
    assert slopes == pytest.approx([1.0, -2.0], abs=1e-3)


def test_a_tensor_shared_by_two_layers_and_a_frozen_one_are_handled():
    def fit(seed):
        torch.manual_seed(seed)
        first, second = nn.Linear(4, 4), nn.Linear(4, 4)
        second.weight = first.weight
        second.bias.requires_grad_(False)
        model = nn.Sequential(first, nn.Tanh(), second, nn.Linear(4, 1)).double()
        x = torch.randn(SAMPLES, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(9))
        score = lambda model, x: model(x).square().mean()  # noqa: E731
        return Fit.of(model, (x,), score, lambda: {"bias": second.bias.sum().item()})

    config = plan(optimizer="adam")
    fits = [fit(seed) for seed in (0, 1)]
    curves = train_batched([Member(own, config, 5) for own in fits])
    for seed, own in enumerate(fits):
        single = fit(seed)
        assert differences(train(single, config, seed=5), curves[seed]) < 1e-12
        assert own.model[0].weight is own.model[2].weight
        torch.testing.assert_close(weights(own), weights(single), rtol=1e-9, atol=1e-12)


def test_members_with_dropout_draw_their_own_noise():
    config = EncoderConfig(channels=5, classes=4, dim=16, depth=2, hidden=32, heads=2, encoding_dropout=0.5)
    twins = [puzzle_fit("Learned", {}, 0, config=config) for _ in range(2)]
    one, other = train_batched([Member(fit, plan(epochs=1), 0) for fit in twins])
    assert one[0] == other[0]  # measured without noise, before the first step
    assert one[-1]["value"] != other[-1]["value"]


def test_reports_and_the_models_own_memory():
    told, fits = [], [puzzle_fit("NoPE", {}, seed) for seed in range(2)]
    members = [
        Member(fit, plan(epochs=2), 0, report=lambda *a, n=n: told.append((n, *a))) for n, fit in enumerate(fits)
    ]
    train_batched(members)
    assert [(n, step, steps) for n, step, steps, *_ in told[-2:]] == [(0, 4, 4), (1, 4, 4)]
    assert all(rate > 0 and set(latest) == {"loss", "loss_train"} for *_, rate, latest in told[-2:])
    for fit in fits:
        for parameter in fit.model.parameters():
            assert parameter.untyped_storage().nbytes() == parameter.numel() * 4


# checkpoints -------------------------------------------------------------------------------------------------------


class KillError(Exception):
    """Raised in place of the end of the process."""


def killed_at(step, fit):
    """The same fit, whose evaluation ends the process after so many steps."""
    evaluate, calls = fit.evaluate, []

    def measured():
        calls.append(None)
        if len(calls) > 1 and (len(calls) - 2) * 2 + 2 >= step:
            raise KeyboardInterrupt
        return evaluate()

    fit.evaluate = measured
    return fit


def double_fit(seed):
    return puzzle_fit("Learned", {"sigma": 0.3}, seed, dtype=torch.float64)


FIRST, SECOND = plan(weight_decay=0.1, optimizer="adamw"), plan(lr=3e-3, warmup_steps=9, optimizer="adamw")


def stopped_together(folders, step, seeds=(0, 1), configs=(FIRST, SECOND)):
    members = [
        Member(killed_at(step, double_fit(seed)), config, seed, folder)
        for seed, config, folder in zip(seeds, configs, folders, strict=True)
    ]
    with pytest.raises(KeyboardInterrupt):
        train_batched(members, checkpoint_seconds=0)


@pytest.fixture
def folders(tmp_path: Path):
    made = [tmp_path / name for name in "ab"]
    for folder in made:
        folder.mkdir()
    return made


@pytest.mark.parametrize("optimizer", full_except(("adamw", "sgd"), "adamw", bare=True))
def test_a_member_of_a_batch_continues_alone(folders, optimizer):
    configs = [TrainingConfig(**{**fields(c), "optimizer": optimizer}) for c in (FIRST, SECOND)]
    stopped_together(folders, 20, configs=configs)
    for seed, (folder, config) in enumerate(zip(folders, configs, strict=True)):
        saved = checkpoint.load(folder / "checkpoint.pt")
        assert saved is not None
        assert saved["state"]["step"] == 19
        whole, resumed = double_fit(seed), double_fit(seed)
        expected = train(whole, config, seed=seed)
        assert differences(expected, train(resumed, config, seed=seed, workdir=folder)) < 1e-10
        torch.testing.assert_close(weights(resumed), weights(whole), rtol=1e-8, atol=1e-10)


def test_a_checkpoint_of_a_batch_is_one_of_a_single_run(folders):
    stopped_together(folders, 8)
    alone = folders[0].parent / "alone"
    alone.mkdir()
    with pytest.raises(KeyboardInterrupt):
        train(killed_at(8, double_fit(1)), SECOND, seed=1, workdir=alone, checkpoint_seconds=0)
    ours, theirs = (checkpoint.load(folder / "checkpoint.pt") for folder in (folders[1], alone))
    assert ours is not None
    assert theirs is not None

    def described(value):
        if isinstance(value, dict):
            return {key: described(part) for key, part in value.items()}
        if isinstance(value, torch.Tensor):
            return (value.dtype, value.shape, value.untyped_storage().nbytes())
        return [described(part) for part in value] if isinstance(value, list) else type(value)

    assert described(ours) == described(theirs)
    assert ours["optimiser"]["param_groups"] == theirs["optimiser"]["param_groups"]
    assert ours["state"]["step"] == theirs["state"]["step"] == 7
    for name, value in theirs["model"].items():
        torch.testing.assert_close(ours["model"][name], value, rtol=1e-9, atol=1e-11)


@pytest.mark.full
@pytest.mark.bare
def test_single_runs_continue_as_a_batch_from_different_steps(folders):
    """One was stopped at step 19, one at step 6, one has not started; the results are those of single runs."""
    for seed, (stop, folder) in enumerate(zip((20, 6), folders, strict=True)):
        with pytest.raises(KeyboardInterrupt):
            train(killed_at(stop, double_fit(seed)), FIRST, seed=seed, workdir=folder, checkpoint_seconds=0)
    fits = [double_fit(seed) for seed in range(3)]
    curves = train_batched([Member(fit, FIRST, s, f) for s, (fit, f) in enumerate(zip(fits, [*folders, None]))])  # noqa: B905
    for seed, (fit, curve) in enumerate(zip(fits, curves, strict=True)):
        whole = double_fit(seed)
        assert differences(train(whole, FIRST, seed=seed), curve) < 1e-10
        torch.testing.assert_close(weights(fit), weights(whole), rtol=1e-8, atol=1e-10)


@pytest.mark.full
@pytest.mark.bare
def test_a_batch_continues_in_another_grouping(folders, tmp_path):
    stopped_together(folders, 12)
    fits = [double_fit(7), double_fit(1)]
    curves = train_batched([Member(fits[0], FIRST, 7), Member(fits[1], SECOND, 1, folders[1])])
    for fit, seed, config, curve in zip(fits, (7, 1), (FIRST, SECOND), curves, strict=True):
        whole = double_fit(seed)
        assert differences(train(whole, config, seed=seed), curve) < 1e-10
        torch.testing.assert_close(weights(fit), weights(whole), rtol=1e-8, atol=1e-10)


# one fails alone ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("batch", [8, 4])
def test_a_member_whose_loss_explodes_ends_alone(batch, tmp_path):
    config = plan(optimizer="sgd", lr=0.01, batch=batch, epochs=6)
    with pytest.raises(FloatingPointError) as alone:
        train(line_fit(explode=True), config, seed=0)
    healthy = train(line_fit(), config, seed=0)
    members = [Member(line_fit(explode=own), config, 0, tmp_path if own else None) for own in (False, True, False)]
    found = train_batched(members, checkpoint_seconds=0)
    assert isinstance(found[1], FloatingPointError)
    assert str(found[1]) == str(alone.value)
    assert differences(healthy, found[0]) < 1e-6
    assert differences(healthy, found[2]) < 1e-6


def test_a_member_that_cannot_be_measured_ends_alone():
    config = plan(optimizer="sgd", lr=0.01, batch=8, epochs=4)
    found = train_batched([Member(line_fit(fails=own), config, 0) for own in (True, False)])
    assert isinstance(found[0], RuntimeError)
    assert differences(train(line_fit(), config, seed=0), found[1]) < 1e-6


def test_a_damaged_checkpoint_ends_its_member_alone(tmp_path):
    (tmp_path / "checkpoint.pt").write_bytes(b"not a checkpoint")
    config = plan(optimizer="sgd", lr=0.01, batch=8, epochs=4)
    found = train_batched([Member(line_fit(), config, 0, tmp_path), Member(line_fit(), config, 0)])
    assert isinstance(found[0], checkpoint.CheckpointError)
    assert differences(train(line_fit(), config, seed=0), found[1]) < 1e-6


def test_a_full_disk_ends_the_whole_batch(tmp_path, monkeypatch):
    def full(path, state):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(checkpoint, "save", full)
    members = [Member(line_fit(), plan(optimizer="sgd", batch=4), 0, tmp_path) for _ in range(2)]
    with pytest.raises(OSError, match="No space left"):
        train_batched(members, checkpoint_seconds=0)


class Dropped(nn.Linear):
    """A line with dropout as a function, which no module shows."""

    def __init__(self, rate: float) -> None:
        super().__init__(1, 1)
        self.rate_of_dropout = rate

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return nn.functional.dropout(super().forward(x), self.rate_of_dropout, self.training)


def dropped_fit(rate: float) -> Fit:
    return Fit.of(Dropped(rate), (torch.ones(8, 1),), lambda model, x: model(x).square().mean(), dict)


# refusals ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("members", "sentence"),
    [
        (lambda: [Member(Fit(nn.Linear(1, 1), 8, lambda b: b.sum(), dict), plan(), 0)], "member 0 has no `score`"),
        (
            lambda: [Member(line_fit(), plan(), 0), Member(line_fit(), plan(batch=8), 0)],
            "so they share `batch`, which is 8 for member 1 and 24 for member 0",
        ),
        (
            lambda: [Member(puzzle_fit(scheme, {}, 0), plan(), 0) for scheme in ("NoPE", "Learned")],
            r"in model 1, schemes.0 is Learned , and in model 0 NoPE",
        ),
        (
            lambda: [Member(puzzle_fit("CausalNoPE", {"temperature": t}, 0), plan(), 0) for t in (1.0, 0.2)],
            "member 1 has another model or loss than member 0: its first loss is",
        ),
        (
            lambda: [
                Member(line_fit(power=power), plan(), 0) for power in (2, 1)
            ],  # of two losses the first trained both
            "member 1 has another model or loss than member 0",
        ),
        (
            lambda: [Member(dropped_fit(rate), plan(), 0) for rate in (0.0, 0.8)],
            r"member 1 has rate_of_dropout = 0\.8, and member 0 has 0\.0\. Members differ in values, not in options",
        ),
        (lambda: [Member(line_fit(), plan(), 0), Member(puzzle_fit("NoPE", {}, 0), plan(), 0)], "equal numbers of"),
    ],
)
def test_members_that_cannot_be_batched_are_refused(members, sentence):
    with pytest.raises(ValueError, match=sentence):
        train_batched(members())


def test_no_members_are_no_work():
    assert train_batched([]) == []
