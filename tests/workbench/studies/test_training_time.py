"""The estimate of the time of a training: how many of its steps are timed."""

from __future__ import annotations

import itertools

import pytest
import torch

from posenc.workbench.studies.shared import training_time
from posenc.workbench.studies.shared.training_time import MOST_STEPS, STEPS, training_seconds
from posenc.workbench.training.config import TrainingConfig
from posenc.workbench.training.fit import Fit


@pytest.mark.parametrize(("seconds", "steps"), [(0.6, STEPS), (0.001, MOST_STEPS), (0.03, 4), (1.5, 0), (5.0, 0)])
def test_short_steps_are_timed_more_often_and_a_long_one_once(monkeypatch, capsys, seconds: float, steps: int) -> None:
    """Two steps of some milliseconds were timed, which tells little of thousands; and three of a minute, in silence."""
    model, drawn, ticks = torch.nn.Linear(2, 1), [], itertools.count()

    def draw(step: int) -> torch.Tensor:
        drawn.append(step)
        return torch.ones(3, 2)

    fit = Fit(model, 3, lambda batch: model(batch).square().mean(), lambda: {"loss": 0.0}, draw=draw)
    monkeypatch.setattr(training_time.time, "process_time", lambda: seconds * next(ticks))
    found = training_seconds(fit, TrainingConfig(epochs=100, batch=3, lr=0.1))
    assert drawn == list(range(steps + 1)), "one step more warms up"
    assert ("one step takes 5 s here" in capsys.readouterr().err) is (seconds == 5.0)
    assert found == pytest.approx(100 * seconds, rel=0.5)


@pytest.mark.parametrize(
    ("seconds", "sizes"),
    [(40.0, [2]), (8.0, [2, 8]), (4.0, [2, 8, 8]), (0.9, [2, 8, 64]), (0.2, [2, 64])],
)
def test_a_long_step_is_known_from_a_part_of_a_batch(monkeypatch, seconds: float, sizes: list[int]) -> None:
    """A whole step of a model of a paper needs minutes and gigabytes. The first step of a part may be slow to start."""
    model, asked, now = torch.nn.Linear(2, 1), [], [0.0]

    def loss(batch: torch.Tensor) -> torch.Tensor:
        now[0] += seconds * len(batch) / 64 + (0.02 if not asked and seconds == 0.9 else 0)
        asked.append(len(batch))
        return model(torch.ones(len(batch), 2)).square().mean()

    monkeypatch.setattr(training_time.time, "process_time", lambda: now[0])
    fit = Fit(model, 192, loss, lambda: {"loss": 0.0})
    found = training_seconds(fit, TrainingConfig(epochs=100, batch=64, lr=0.1))
    assert asked[: len(sizes)] == sizes
    assert (64 in asked) is (64 in sizes)
    assert found == pytest.approx(100 * 3 * seconds, rel=0.1)
