"""A causal model on a recall task: training on generated samples, accuracy by sample length."""

from __future__ import annotations

from typing import Any

import msgspec
import torch
from torch import Tensor

from posenc.measure.evaluation_mode import evaluation_mode
from posenc.models.language import LanguageModel
from posenc.workbench.runs import RunResult, RunSpec
from posenc.workbench.studies.language.text_model import EVALUATION_STEP
from posenc.workbench.studies.language.variants import LanguageVariant
from posenc.workbench.studies.shared.training_run import weights_of
from posenc.workbench.tasks import recall
from posenc.workbench.training.fit import seeded_generator
from posenc.workbench.training.loop import Fit, TrainingConfig, TrainingPosition

MULTIPLES = (1, 2, 4, 8)
"""Lengths of test samples, in multiples of the training length."""
TEST_SAMPLES, EVALUATION_SAMPLES, SAMPLES_AT_ONCE = 512, 128, 64
"""Samples of a test, of an evaluation during training, and in memory at once."""


class RecallModel:
    """A causal model on its task: the loss of a batch, and accuracies."""

    def __init__(self, spec: RunSpec) -> None:
        settings = spec.settings
        self.seed, self.device, self.window = spec.seed, settings["device"], settings["window"]
        self.task: dict[str, Any] = settings["task"]
        self.variant = msgspec.convert(settings["row"], LanguageVariant)
        self.training = msgspec.convert(settings["training"], TrainingConfig)
        torch.manual_seed(spec.seed)
        self.model: LanguageModel = self.variant.model(self.window).to(self.device)

    @property
    def length_factor(self) -> float:
        """Longest sample in testing, in multiples of the training length."""
        return MULTIPLES[-1]

    def samples(self, count: int, length: int, generator: torch.Generator, *, full: bool) -> recall.Recall:
        """Samples of the task.

        Args:
            count: Number of samples.
            length: Tokens of a sample, with padding.
            generator: Random generator.
            full: True for samples that are as long as possible; False for random lengths.

        Returns:
            The samples.
        """
        symbols = self.task["symbols"]
        if self.task["name"] == "copy":
            return recall.copy_samples(count, length, symbols=symbols, generator=generator, full=full)
        needles = self.task["needles"]
        return recall.needle_samples(count, length, needles=needles, symbols=symbols, generator=generator, full=full)

    def fit(self) -> Fit:
        """The training problem."""
        batch = self.training.batch
        return Fit(self.model, batch, self.loss, self.evaluate, draw=self.draw_batch, loss_at=self.loss_at)

    def draw_batch(self, step: int) -> Tensor:
        """Tokens and answer masks ``(B, 2, N)`` of a step. They depend on the seed and the step only."""
        samples = self.samples(self.training.batch, self.window, seeded_generator(self.seed, step, 0), full=False)
        return torch.stack([samples.tokens, samples.answers.long()], 1)

    def loss_at(self, at: TrainingPosition, batch: Tensor) -> Tensor:
        """Mean loss of the answers of a batch."""
        tokens, answers = batch.to(self.device).unbind(1)
        return recall.loss(self.logits(tokens, at.generator()), recall.Recall(tokens, answers.bool()))

    def loss(self, batch: Tensor) -> Tensor:
        """``loss_at`` of the first step."""
        return self.loss_at(TrainingPosition(self.seed, 0, 0), batch)

    def logits(self, tokens: Tensor, generator: torch.Generator) -> Tensor:
        """Logits of the next tokens ``(B, N, V)``. generator: of randomized positions."""
        return self.model(tokens, self.variant.positions(tokens.shape[1], len(tokens), generator, self.device))

    def embedding_scale(self) -> float | None:
        """Size of the positions beside that of the tokens of a batch."""
        tokens = self.draw_batch(0)[:, 0].to(self.device)
        generator = seeded_generator(self.seed, EVALUATION_STEP, 0)
        pos = self.variant.positions(tokens.shape[1], len(tokens), generator, self.device)
        return self.model.embedding_scale(tokens, pos)

    def evaluate(self) -> dict[str, float]:
        """Accuracies at the training length."""
        return recall.accuracy(*self.test(EVALUATION_SAMPLES, self.window))

    def test(self, count: int, length: int) -> tuple[recall.Recall, Tensor]:
        """Test samples, which are the same for all variants, and the predicted tokens.

        Args:
            count: Number of samples, B.
            length: Tokens of a sample, N.

        Returns:
            The samples, and the predicted tokens ``(B, N)``.
        """
        generator = seeded_generator(self.seed, EVALUATION_STEP, length)
        samples = self.samples(count, length, generator, full=True)
        chunks = samples.tokens.split(SAMPLES_AT_ONCE)
        predicted = [recall.predictions(self.logits(chunk.to(self.device), generator)).cpu() for chunk in chunks]
        return samples, torch.cat(predicted)

    def result(self, curve: list[dict[str, Any]]) -> RunResult:
        """Accuracies at the training length and at longer ones, as far as the encoding can read."""
        metrics: dict[str, float] = {}
        with evaluation_mode(self.model):
            for multiple in MULTIPLES:
                if self.variant.length_error(self.window, multiple * self.window):
                    break
                scores = self.scores(multiple)
                metrics |= scores if multiple == 1 else {}
                metrics |= {f"{name}_at_x{multiple}": value for name, value in scores.items()}
        metrics["parameters"] = float(sum(p.numel() for p in self.model.parameters()))
        return RunResult(metrics=metrics, curves=curve, weights=weights_of(self.model))

    def scores(self, multiple: int) -> dict[str, float]:
        """Accuracies at a multiple of the training length, and that of the order-free predictor."""
        samples, predicted = self.test(TEST_SAMPLES, multiple * self.window)
        return recall.accuracy(samples, predicted) | {"bag": recall.order_free_accuracy(samples)}
