"""One unit of a study of masked modelling: train a row's model on its tokens, score it on unseen ones, measure what it
knows of where tokens are; or score a baseline under the same masks."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import msgspec
import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from posenc.models.encoder import EncoderConfig
from posenc.store import Outcome, Store, Unit
from posenc.studies.masking.placing import looked_at, measured, pictured
from posenc.studies.masking.rows import BASELINES, MaskedRow, make_model
from posenc.studies.masking.tokens import Tokens, drawn_hidden, listed
from posenc.studies.timing import training_seconds
from posenc.training.fit import drawn
from posenc.training.loop import At, Fit, Report, TrainingConfig, train

CHUNK = 256
LOOKED = 512
"""Test samples that a model is asked about while it learns."""
ASKING = 2.0
"""Seconds, about, that a unit takes besides its training."""
Obtain = Callable[[Path, dict[str, Any], int], Tokens]
"""From a store's folder, a unit's data and its seed to what it is shown."""


class Task(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is asked. rate: part of the tokens hidden in training. asked: parts hidden in testing, the main one first.
    hidden: what stands for a hidden token."""

    rate: float
    asked: tuple[float, ...]
    hidden: Literal["learned", "zero"] = "learned"


def error_at(rate: float) -> str:
    """The metric that holds the mean squared error with such a part of the tokens hidden."""
    return f"mse_{round(100 * rate)}"


def settled(
    row: MaskedRow | str, task: Task, config: EncoderConfig, training: TrainingConfig, data: dict[str, Any], device: str
) -> dict[str, Any]:
    """A unit's settings; row: an encoding, or the name of a baseline."""
    if isinstance(row, str):
        return {"baseline": row, "task": msgspec.to_builtins(task), "data": data}
    return {
        "row": msgspec.to_builtins(row),
        "task": msgspec.to_builtins(task),
        "model": msgspec.to_builtins(config),
        "training": training.plain,
        "data": data,
        "device": device,
    }


class Trained:
    """A model on its tokens: the loss of a batch, scores, the tables it places tokens by."""

    def __init__(self, unit: Unit, tokens: Tokens) -> None:
        settings, self.unit, self.tokens = unit.settings, unit, tokens
        self.row = msgspec.convert(settings["row"], MaskedRow)
        self.task = msgspec.convert(settings["task"], Task)
        self.config = msgspec.convert(settings["model"], EncoderConfig)
        self.training = msgspec.convert(settings["training"], TrainingConfig)
        self.device: str = settings["device"]
        self.pos = tokens.views[self.row.view].to(self.device)
        torch.manual_seed(unit.seed)
        self.model = make_model(self.row, self.config, tokens.views[self.row.view], self.task.hidden).to(self.device)
        self.before = self.tables()

    def fit(self) -> Fit:
        """The samples of a step, and their masks, are functions of its number and the seed."""

        def draw(step: int) -> Tensor:
            chance = drawn(self.unit.seed, step, 0)
            return torch.randint(len(self.tokens.train), (self.training.batch,), generator=chance)

        samples = len(self.tokens.train)
        return Fit(self.model, samples, self.loss, self.looked, draw=draw, loss_at=self.loss_at)

    def loss(self, batch: Tensor) -> Tensor:
        return self.loss_at(At(0, 0, 0), batch)

    def loss_at(self, at: At, batch: Tensor) -> Tensor:
        values = self.tokens.train[batch].to(self.device)
        hidden = drawn_hidden(len(batch), self.tokens.count, self.task.rate, at.generator()).to(self.device)
        return functional.mse_loss(self.model(values, self.pos, hidden), _at(values, hidden))

    def errors(self, rate: float, some: Tensor) -> Tensor:
        """The mean squared error of some test samples, ``(S,)``, on the CPU."""
        found = []
        hidden = listed(self._hidden[rate][some])
        for part, away in zip(some.split(CHUNK), hidden.split(CHUNK), strict=True):
            values, index = self.tokens.test[part].to(self.device), away.to(self.device)
            wrong = self.model(values, self.pos, index) - _at(values, index)
            found.append(wrong.square().mean((1, 2)).cpu())
        return torch.cat(found)

    @cached_property
    def _hidden(self) -> dict[float, Tensor]:
        return {rate: self.tokens.hidden(rate) for rate in self.task.asked}

    def tables(self) -> list[Tensor]:
        """The rows that each layer's scheme adds, ``(N, dim)`` a layer; none for schemes that act elsewhere."""
        schemes: list[Any] = list(self.model.schemes)
        with torch.no_grad():
            return [
                scheme.embed(scheme.prepare(self.pos)).cpu().double()
                for scheme in schemes
                if "embed" in scheme.claims.sites
            ]

    def looked(self) -> dict[str, float]:
        """What is measured while it learns."""
        there = len(self.tokens.test)
        some = torch.linspace(0, there - 1, min(LOOKED, there)).round().long()
        found = {error_at(rate): float(self.errors(rate, some).mean()) for rate in self.task.asked}
        return found | looked_at(self.tables(), self.tokens)

    def outcome(self, curve: list[dict[str, Any]]) -> Outcome:
        self.model.eval()
        everything = torch.arange(len(self.tokens.test))
        with torch.no_grad():
            wrong = [self.tokens.by_recording(self.errors(rate, everything)) for rate in self.task.asked]
        metrics = _summed_up(self.task, wrong)
        tables = self.tables()
        metrics |= measured(self.before, tables, self.tokens, seed=self.unit.seed)
        metrics["parameters"] = float(sum(p.numel() for p in self.model.parameters()))
        arrays = {"errors": np.array(wrong), **pictured(self.before, tables, self.tokens)}
        weights = {name: value.detach().cpu().contiguous() for name, value in self.model.state_dict().items()}
        return Outcome(metrics=metrics, curves=curve, arrays=arrays, weights=weights)


def _at(values: Tensor, index: Tensor) -> Tensor:
    return values.gather(1, index[..., None].expand(-1, -1, values.shape[-1]))


def _summed_up(task: Task, wrong: list[np.ndarray]) -> dict[str, float]:
    """The mean over recordings at every rate."""
    return {error_at(rate): float(each.mean()) for rate, each in zip(task.asked, wrong, strict=True)}


def do(unit: Unit, workdir: Path, report: Report, obtain: Obtain) -> Outcome:
    """A unit of any of the studies. The store is two folders above a unit's own."""
    tokens = obtain(workdir.parents[1], unit.settings["data"], unit.seed)
    if "baseline" in unit.settings:
        return baseline(unit, tokens)
    with torch.random.fork_rng():
        trained = Trained(unit, tokens)
        curve = train(trained.fit(), trained.training, seed=unit.seed, workdir=workdir, report=report)
        return trained.outcome(curve)


def baseline(unit: Unit, tokens: Tokens, penalty: float | None = None) -> Outcome:
    """The errors of a baseline, with nothing trained."""
    task, name = msgspec.convert(unit.settings["task"], Task), unit.settings["baseline"]
    assert name in BASELINES
    wrong = [tokens.baseline(rate, penalty)[name] for rate in task.asked]
    return Outcome(metrics=_summed_up(task, wrong), arrays={"errors": np.array(wrong)})


def seconds(unit: Unit, store: Store, obtain: Obtain) -> float:
    """How long a unit takes on one core of this machine, from a few timed steps."""
    if "baseline" in unit.settings:
        return ASKING
    with torch.random.fork_rng():
        trained = Trained(unit, obtain(store.root, unit.settings["data"], unit.seed))
        return training_seconds(trained.fit(), trained.training, trained.device) + ASKING


def memory(unit: Unit) -> float:
    """Bytes that a training step keeps, at most: what every layer remembers of every token and, for encodings that need
    the weights themselves, of every pair."""
    if "baseline" in unit.settings:
        return 0.0
    model, batch, count = unit.settings["model"], unit.settings["training"]["batch"], unit.settings["data"]["tokens"]
    a_layer = count * (12 * model["dim"] + 2 * model["hidden"]) + 4 * count**2 * model["heads"]
    return 4.0 * batch * model["depth"] * a_layer


def alike(unit: Unit) -> Any:
    """What decides how long a unit takes."""
    return {name: value for name, value in unit.settings.items() if name != "task"}
