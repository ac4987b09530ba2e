"""The step with the best evaluation, and trainings that are set in steps."""

import math
from pathlib import Path

import pytest
import torch
from torch import nn

from posenc.workbench.training import checkpoint
from posenc.workbench.training.fit import endless_batches, epoch_order
from posenc.workbench.training.loop import Best, Fit, TrainingConfig, amount, train, train_to_state

VALUES = (9.0, 4.0, 1.0, 1.0, 6.0)
"""Validation errors at step 0, 2, 4, 6 and 8."""


def rows(*values: float) -> list[dict]:
    return [{"epoch": 2 * n, "metric": "error", "value": value} for n, value in enumerate(values)]


def problem(values: tuple[float, ...] = VALUES, stop_at: int = -1) -> tuple[Fit, list[float]]:
    """A model that moves by its rate at each step, with the given validation errors, and its weights when measured."""
    calls: list[int] = []
    model = nn.Linear(1, 1, bias=False).double()
    nn.init.zeros_(model.weight)
    measured: list[float] = []

    def evaluate() -> dict[str, float]:
        measured.append(float(model.weight.detach()))
        return {"error": values[len(measured) - 1]}

    def loss(batch: torch.Tensor) -> torch.Tensor:
        calls.append(1)
        if len(calls) == stop_at:
            raise KeyboardInterrupt
        return -model.weight.sum()

    return Fit(model, 3, loss, evaluate, draw=endless_batches(3, 3, seed=0)), measured


def config(**changes: object) -> TrainingConfig:
    sizes = {"epochs": 8, "batch": 3, "lr": 0.5, "optimizer": "sgd", "evaluate_every": 2, "best": Best(metric="error")}
    return TrainingConfig(**{**sizes, **changes})  # type: ignore[arg-type]


def test_the_best_evaluation_is_chosen_and_of_equal_ones_the_last() -> None:
    assert Best(metric="error").epoch(rows(*VALUES)) == 6
    assert Best(metric="error", mode="max").epoch(rows(*VALUES)) == 8
    assert Best(metric="error").epoch(rows(0.0, 4.0, math.nan)) == 2, "neither step 0 nor a nan is chosen"
    with pytest.raises(ValueError, match=r"chosen by 'accuracy', which is not measured\. Name one of error"):
        Best(metric="accuracy").epoch(rows(1.0, 2.0))


def test_several_evaluations_of_an_epoch_have_no_best_step() -> None:
    """With a time limit the last evaluation of the best epoch was taken for the best one."""
    fit, _ = problem()
    by_epochs = Fit(fit.model, 64, fit.loss, fit.evaluate)
    with pytest.raises(ValueError, match=r"evaluated several times in an epoch.*Leave `best` or `seconds` out"):
        train(by_epochs, config(seconds=0.1), seed=0)


def test_the_final_weights_are_those_of_the_best_evaluation() -> None:
    fit, measured = problem()
    state = train_to_state(fit, config(), 0, None, None)
    assert float(fit.model.weight.detach()) == measured[3] == 3.0  # type: ignore[union-attr, operator]
    assert measured[-1] == 4.0
    assert amount(fit, config(), state) == {
        "steps": 8, "examples": 24, "training_seconds": state.seconds, "chosen_step": 6,
    }  # fmt: skip
    fit, measured = problem()
    train(fit, config(best=None), seed=0)
    assert float(fit.model.weight.detach()) == measured[-1]  # type: ignore[union-attr, operator]


def test_a_training_that_was_stopped_after_its_best_step_keeps_it(tmp_path: Path) -> None:
    fit, _ = problem(stop_at=8)
    with pytest.raises(KeyboardInterrupt):
        train(fit, config(), seed=0, workdir=tmp_path, checkpoint_steps=1)
    saved = checkpoint.load(tmp_path / "checkpoint.pt")
    assert saved is not None
    assert float(saved["state"]["best"]["weight"]) == 3.0
    fit, _ = problem((7.0,))  # the last evaluation, at step 8
    train(fit, config(), seed=0, workdir=tmp_path)
    assert float(fit.model.weight.detach()) == 3.0  # type: ignore[union-attr, operator]


def test_examples_of_epochs_count_a_last_batch_that_is_smaller() -> None:
    fit, _ = problem()
    fit.draw = None
    state = train_to_state(fit, config(epochs=4, batch=2, evaluate_every=1, best=None), 0, None, None)
    assert amount(fit, config(epochs=4, batch=2, best=None), state)["examples"] == 12


def test_batches_of_steps_go_through_the_epochs_and_are_all_full() -> None:
    draw = endless_batches(5, 3, seed=2)
    seen = torch.cat([draw(step) for step in range(5)])
    assert torch.equal(seen, torch.cat([epoch_order(5, 2, epoch) for epoch in range(3)]))
    assert [len(endless_batches(2, 7, seed=0)(step)) for step in range(3)] == [7, 7, 7]
