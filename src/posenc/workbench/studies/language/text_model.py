"""A causal model on a text: training loss, loss by context length, shift of positions, generated text."""

from __future__ import annotations

import math
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from posenc.measure.evaluation_mode import evaluation_mode
from posenc.measure.loss_by_context import loss_by_context, mean_over_octave
from posenc.models.language import LanguageModel
from posenc.workbench.runs import RunResult, RunSpec
from posenc.workbench.studies.language.bits_per_byte import bits_per_byte
from posenc.workbench.studies.language.generated_text import continuation, is_cacheable, tokens_per_second
from posenc.workbench.studies.language.stored_text import text_of_run
from posenc.workbench.studies.language.variants import LanguageVariant
from posenc.workbench.studies.shared.training_run import weights_of
from posenc.workbench.tasks import text
from posenc.workbench.training.fit import seeded_generator
from posenc.workbench.training.loop import Fit, TrainingConfig, TrainingPosition

PAIRS_AT_ONCE = 2**24
"""Pairs of a query and a key, times heads, that are in memory at once outside training: 64 MiB."""
EVALUATION_TOKENS = 4096
"""Tokens of the validation split that are predicted in an evaluation during training."""
SHIFT_WINDOWS = 64
"""Windows whose predictions are compared under a shift of all positions."""
SHIFT_TOLERANCE = 1e-3
"""Total variation distance under a shift below which predictions count as those of a relative encoding."""
EVALUATION_STEP = 2**31
"""Step of the random generators of evaluations: no training has as many steps."""


class TextModel:
    """A causal model on its text: the loss of a batch, and scores."""

    def __init__(self, spec: RunSpec, root: Path) -> None:
        settings = spec.settings
        self.spec, self.device, self.window = spec, settings["device"], settings["window"]
        self.variant = msgspec.convert(settings["row"], LanguageVariant)
        self.training = msgspec.convert(settings["training"], TrainingConfig)
        self.text = text_of_run(spec, root)
        self.splits, self.longest = self.text.splits, self.text.longest
        torch.manual_seed(spec.seed)
        self.model: LanguageModel = self.variant.model(self.window).to(self.device)

    @property
    def length_factor(self) -> float:
        """Longest context in testing, in multiples of the training length."""
        return self.longest / self.window

    def fit(self) -> Fit:
        """The training problem."""
        batch = self.training.batch
        return Fit(self.model, batch, self.loss, self.evaluate, draw=self.draw_starts, loss_at=self.loss_at)

    def draw_starts(self, step: int) -> Tensor:
        """Starts of the windows of a step. They depend on the seed and the step only: all variants have the same."""
        count, generator = self.splits.count_windows(self.window), seeded_generator(self.spec.seed, step, 0)
        return self.splits.starts_of(torch.randint(count, (self.training.batch,), generator=generator), self.window)

    def loss_at(self, at: TrainingPosition, batch: Tensor) -> Tensor:
        """Mean loss of the windows that start at ``batch``."""
        return self.losses(text.windows(self.splits.train, self.window, batch), at.generator()).mean()

    def loss(self, batch: Tensor) -> Tensor:
        """``loss_at`` of the first step."""
        return self.loss_at(TrainingPosition(self.spec.seed, 0, 0), batch)

    def losses(self, tokens: Tensor, generator: torch.Generator) -> Tensor:
        """``-ln p`` of each token but the first, ``(B, N - 1)``. generator: of randomized positions."""
        tokens = tokens.to(self.device)
        pos = self.variant.positions(tokens.shape[1] - 1, len(tokens), generator, self.device)
        logits = self.model(tokens[:, :-1], pos)
        return functional.cross_entropy(logits.transpose(1, 2), tokens[:, 1:], reduction="none")

    def losses_in_chunks(self, tokens: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """``losses`` on the CPU, of as many windows at once as ``PAIRS_AT_ONCE`` allows."""
        generator = seeded_generator(self.spec.seed, EVALUATION_STEP, 1) if generator is None else generator
        pairs = self.variant.config.heads * tokens.shape[1] ** 2
        chunks = tokens.split(max(1, PAIRS_AT_ONCE // pairs))
        return torch.cat([self.losses(chunk, generator).cpu() for chunk in chunks])

    def losses_by_octave(self, tokens: Tensor, generator: torch.Generator) -> Tensor:
        """``losses_in_chunks``; with randomized positions, one pass for each octave of context lengths.

        The positions of an octave are then as far apart as those of a text that is as long as its longest context.
        """
        if self.variant.position_range is None:
            return self.losses_in_chunks(tokens, generator)
        octaves, longest = [tokens.new_zeros(len(tokens), 0)], tokens.shape[1] - 1
        while (predicted := sum(octave.shape[1] for octave in octaves)) < longest:
            length = min(max(self.window, 2 * predicted), longest)
            octaves.append(self.losses_in_chunks(tokens[:, : length + 1], generator)[:, predicted:])
        return torch.cat(octaves, 1)

    def embedding_scale(self) -> float | None:
        """Size of the positions beside that of the tokens of a window."""
        tokens = self.splits.train[None, : self.window].long().to(self.device)
        pos = self.variant.positions(self.window, 1, seeded_generator(self.spec.seed, EVALUATION_STEP, 3), self.device)
        return self.model.embedding_scale(tokens, pos)

    def evaluate(self) -> dict[str, float]:
        """Loss on the first tokens of the validation split."""
        tokens = self.splits.validation[: EVALUATION_TOKENS + 1]
        return {"loss": float(self.losses_in_chunks(adjacent_windows(tokens, self.window)).mean())}

    def result(self, curve: list[dict[str, Any]]) -> RunResult:
        """Loss at the training length and by context length, shift distance, speed, and a generated text."""
        multiple = self.readable_multiple()
        with evaluation_mode(self.model):
            windows = adjacent_windows(self.splits.test, self.window)
            metrics = {"loss": float(self.losses_in_chunks(windows).double().mean())}
            metrics |= bits_per_byte(metrics["loss"], self.text, self.window)
            by_context = loss_by_context(
                partial(self.losses_by_octave, generator=seeded_generator(self.spec.seed, EVALUATION_STEP, 2)),
                context_tokens(self.splits.test, self.spec.settings, multiple * self.window),
                reach=multiple * self.window,
                stride=self.window // 2,
            )
            metrics["moved"] = self.shift_distance()
            speeds, generated = self.generation(multiple)
        metrics |= speeds | losses_at_multiples(by_context, self.window)
        metrics["relative"] = float(metrics["moved"] < SHIFT_TOLERANCE)
        metrics["parameters"] = float(sum(p.numel() for p in self.model.parameters()))
        arrays = {"loss_by_context": by_context.numpy(), **generated}
        return RunResult(metrics=metrics, curves=curve, arrays=arrays, weights=weights_of(self.model))

    def readable_multiple(self) -> int:
        """Longest context that the encoding can read, in multiples of the training length; a power of two."""
        multiple = 1
        while 2 * multiple <= self.longest // self.window and not self.variant.length_error(
            self.window, 2 * multiple * self.window
        ):
            multiple *= 2
        return multiple

    def generation(self, multiple: int) -> tuple[dict[str, float], dict[str, np.ndarray]]:
        """Speeds after the training length and after ``multiple`` times as much, and the tokens of a generated text.

        Both are empty for randomized positions, and for an encoding that allows no cache.
        """
        if self.variant.position_range is not None or not is_cacheable(self.model):
            return {}, {}
        half, test = self.window // 2, self.splits.test.long()
        speeds = {
            name: tokens_per_second(self.model, test[: times * self.window])
            for name, times in (("tokens_a_second", 1), ("tokens_a_second_far", multiple))
        }
        return speeds, {"written": continuation(self.model, test[:half], half, self.spec.seed).numpy()}

    def shift_distance(self) -> float:
        """Mean total variation distance between predictions at positions ``0 .. n - 1`` and at ``n .. 2 n - 1``.

        Both are of the same windows of n tokens, n half the training length. It is 0 for a relative encoding. With
        segments, n is added to their numbers and to the places in them.
        """
        half = self.window // 2
        tokens = adjacent_windows(self.splits.test, half)[:SHIFT_WINDOWS, :-1].to(self.device)
        pos = self.model.config.positions(tokens)
        first, second = (self.model(tokens, each).double().softmax(-1) for each in (pos, pos + half))
        return float((first - second).abs().sum(-1).mean() / 2)


def adjacent_windows(split: Tensor, window: int) -> Tensor:
    """All adjacent windows of a split, each with the token after it."""
    return text.windows(split, window, text.window_starts(len(split), window))


def context_tokens(test: Tensor, settings: dict[str, Any], longest: int) -> Tensor:
    """Part of the test split for contexts up to ``longest`` tokens.

    The predicted tokens come after the longest context of the study, so that an encoding with a limited length predicts
    the same tokens.
    """
    end = settings["text"]["multiple"] * settings["window"]
    return test[end - longest : end + settings["targets"] + 1]


def losses_at_multiples(by_context: Tensor, window: int) -> dict[str, float]:
    """Mean loss by octave of context lengths; ``loss_at_x4`` is of more than 2 to 4 times the training length."""
    multiples = [2**power for power in range(int(math.log2(len(by_context) // window)) + 1)]
    return {f"loss_at_x{multiple}": mean_over_octave(by_context, multiple * window) for multiple in multiples}
