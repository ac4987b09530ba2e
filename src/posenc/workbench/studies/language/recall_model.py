"""A causal model on a recall task: training on generated samples, accuracy by sample length."""

from __future__ import annotations

from collections.abc import Callable, Mapping
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
"""Lengths of test samples, in multiples of the training length, unless the settings of a run name the longest."""
MULTIPLE = "multiple"
"""Setting of the longest test samples, where it is not that of ``MULTIPLES``."""
TEST_SAMPLES, EVALUATION_SAMPLES, SAMPLES_AT_ONCE = 512, 128, 64
"""Samples of a test, of an evaluation during training, and in memory at once up to ``LONG`` tokens."""
LONG = 256
"""Tokens of a sample above which fewer samples are in memory at once."""
SAMPLES: Mapping[str, Callable[..., recall.Recall]] = {
    "copy": recall.copy_samples,
    "reverse": recall.reverse_samples,
    "sort": recall.sort_samples,
    "mqar": recall.mqar_samples,
}
"""Task to the function that draws its samples; needles have an argument of their own."""


def multiples_of(settings: Mapping[str, Any]) -> tuple[int, ...]:
    """Lengths of the test samples of a run, in multiples of its training length."""
    longest = settings.get(MULTIPLE, MULTIPLES[-1])
    return tuple(2**power for power in range(int(longest).bit_length()))


def draw_samples(
    task: Mapping[str, Any], count: int, length: int, generator: torch.Generator, *, full: bool
) -> recall.Recall:
    """Samples of a task.

    Args:
        task: Entry "task" of the settings of a run.
        count: Number of samples.
        length: Tokens of a sample, with padding.
        generator: Random generator.
        full: True for samples that are as long as possible; False for random lengths.

    Returns:
        The samples.

    Raises:
        ValueError: The samples do not fit into the length.
    """
    options: dict[str, Any] = {"symbols": task["symbols"], "generator": generator, "full": full}
    if task["name"] == "needle":
        return recall.needle_samples(count, length, needles=task["needles"], **options)
    return SAMPLES[task["name"]](count, length, **options)


class RecallModel:
    """A causal model on its task: the loss of a batch, and accuracies."""

    def __init__(self, spec: RunSpec) -> None:
        settings = spec.settings
        self.seed, self.device, self.window = spec.seed, settings["device"], settings["window"]
        self.task: dict[str, Any] = settings["task"]
        self.multiples = multiples_of(settings)
        self.variant = msgspec.convert(settings["row"], LanguageVariant)
        self.training = msgspec.convert(settings["training"], TrainingConfig)
        torch.manual_seed(spec.seed)
        self.model: LanguageModel = self.variant.model(self.window).to(self.device)

    @property
    def length_factor(self) -> float:
        """Longest sample in testing, in multiples of the training length."""
        return self.multiples[-1]

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
        return draw_samples(self.task, count, length, generator, full=full)

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
        at_once = SAMPLES_AT_ONCE if length <= LONG else max(1, SAMPLES_AT_ONCE * LONG**2 // length**2)
        chunks = samples.tokens.split(at_once)
        predicted = [recall.predictions(self.logits(chunk.to(self.device), generator)).cpu() for chunk in chunks]
        return samples, torch.cat(predicted)

    def result(self, curve: list[dict[str, Any]]) -> RunResult:
        """Accuracies at the training length and at longer ones, as far as the encoding can read."""
        metrics: dict[str, float] = {}
        with evaluation_mode(self.model):
            for multiple in self.multiples:
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
