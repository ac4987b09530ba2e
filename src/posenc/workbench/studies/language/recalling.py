"""One unit of the language study that recalls: a model trained on made-up samples, and asked at greater lengths."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import torch
from torch import Tensor

from posenc.measure.evaluation_mode import evaluation_mode
from posenc.models.language import LanguageModel
from posenc.position_augmentation import randomised
from posenc.positions import sequence
from posenc.workbench.runs import RunResult, RunSpec
from posenc.workbench.studies.language.rows import LanguageRow, stops
from posenc.workbench.studies.language.stretching import learned, stretch
from posenc.workbench.tasks import recall
from posenc.workbench.training.fit import seeded_generator
from posenc.workbench.training.loop import Fit, Report, TrainingConfig, TrainingPosition

MULTIPLES = (1, 2, 4, 8)
"""Times the trained length at which a model is asked."""
ASKED, LOOKED_AT, AT_ONCE = 512, 128, 64
"""Samples in the end, while it learns, and in memory together."""
NEVER = 2**31
"""The step for which samples are drawn that nothing is learned from."""


class Recaller:
    """A model on its task: the loss of the answers of a batch, and how many are right."""

    def __init__(self, spec: RunSpec) -> None:
        settings = spec.settings
        self.seed, self.device, self.window = spec.seed, settings["device"], settings["window"]
        self.task: dict[str, Any] = settings["task"]
        self.row = msgspec.convert(settings["row"], LanguageRow)
        self.training = msgspec.convert(settings["training"], TrainingConfig)
        torch.manual_seed(spec.seed)
        self.model: LanguageModel = self.row.model(self.window).to(self.device)

    def samples(self, count: int, length: int, generator: torch.Generator, *, full: bool) -> recall.Recall:
        symbols = self.task["symbols"]
        if self.task["name"] == "copy":
            return recall.copy_samples(count, length, symbols=symbols, generator=generator, full=full)
        needles = self.task["needles"]
        return recall.needle_samples(count, length, needles=needles, symbols=symbols, generator=generator, full=full)

    def fit(self) -> Fit:
        return Fit(self.model, self.training.batch, self.loss, self.evaluate, draw=self.draw, loss_at=self.loss_at)

    def draw(self, step: int) -> Tensor:
        """Tokens and answers ``(B, 2, N)`` of a step, a function of the seed and the step: the same for every row."""
        found = self.samples(self.training.batch, self.window, seeded_generator(self.seed, step, 0), full=False)
        return torch.stack([found.tokens, found.answers.long()], 1)

    def loss_at(self, at: TrainingPosition, batch: Tensor) -> Tensor:
        tokens, answers = batch.to(self.device).unbind(1)
        return recall.loss(self.logits(tokens, at.generator()), recall.Recall(tokens, answers.bool()))

    def loss(self, batch: Tensor) -> Tensor:
        return self.loss_at(TrainingPosition(self.seed, 0, 0), batch)

    def logits(self, tokens: Tensor, generator: torch.Generator) -> Tensor:
        if self.row.randomised is None:
            return self.model(tokens)
        pos = randomised(sequence(tokens.shape[1]), self.row.randomised, batch=len(tokens), generator=generator)
        return self.model(tokens, pos.to(self.device))

    def evaluate(self) -> dict[str, float]:
        return recall.accuracy(*self.told(LOOKED_AT, self.window))

    def told(self, count: int, length: int) -> tuple[recall.Recall, Tensor]:
        """Samples as long as they can be, drawn apart from those that are learned from, alike for every row, and what
        the model tells of them."""
        generator = seeded_generator(self.seed, NEVER, length)
        found = self.samples(count, length, generator, full=True)
        batches = found.tokens.split(AT_ONCE)
        told = [recall.predictions(self.logits(some.to(self.device), generator)).cpu() for some in batches]
        return found, torch.cat(told)

    def outcome(self, curve: list[dict[str, Any]]) -> RunResult:
        """Answers and whole samples that are right, at the trained length and beyond, as far as the row can read."""
        metrics: dict[str, float] = {}
        with evaluation_mode(self.model):
            for multiple in MULTIPLES:
                if stops(self.row, self.window, multiple * self.window):
                    break
                found = self.evaluate_at(multiple)
                metrics |= found if multiple == 1 else {}
                metrics |= {f"{name}_at_x{multiple}": value for name, value in found.items()}
        metrics["parameters"] = float(sum(p.numel() for p in self.model.parameters()))
        weights = {name: value.detach().cpu().contiguous() for name, value in self.model.state_dict().items()}
        return RunResult(metrics=metrics, curves=curve, weights=weights)

    def evaluate_at(self, multiple: int) -> dict[str, float]:
        found, told = self.told(ASKED, multiple * self.window)
        return recall.accuracy(found, told) | {"bag": recall.order_free_accuracy(found)}


def train_unit(spec: RunSpec, workdir: Path, report: Report) -> RunResult:
    with torch.random.fork_rng():
        made = Recaller(spec)
        curve = learned(spec, made.model, made.fit(), workdir.parents[1], workdir, report)
        stretch(spec, made.model, made.row, MULTIPLES[-1], made.window)
        return made.outcome(curve)
