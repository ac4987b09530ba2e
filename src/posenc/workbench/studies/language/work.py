"""One unit of the language study: a causal model trained on a text, and asked about longer contexts than it knows."""

from __future__ import annotations

import math
import time
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
from posenc.position_augmentation import randomised
from posenc.positions import Positions, sequence
from posenc.workbench.runs import Procedure, RunResult, RunSpec
from posenc.workbench.store import Store
from posenc.workbench.studies.language import recalling
from posenc.workbench.studies.language.rows import STILL, LanguageRow, stops
from posenc.workbench.studies.language.stretching import learned, stretch, trained_before
from posenc.workbench.studies.language.texts import KeptText, kept
from posenc.workbench.studies.language.writing import can_write, tokens_a_second, written
from posenc.workbench.studies.shared.training_time import training_seconds
from posenc.workbench.tasks import text
from posenc.workbench.training.fit import seeded_generator
from posenc.workbench.training.loop import Fit, Report, TrainingConfig, TrainingPosition

PAIRS_AT_ONCE = 2**24
"""Of query and key, times heads, in memory together where nothing is trained: 64 MiB."""
LOOKED_AT = 4096
"""Tokens of the validation part that are told while a model learns."""
NEVER = 2**31
"""The step for which positions are drawn when nothing is trained."""


class Reader:
    """A model on its text: the loss of a batch, and what it makes of longer contexts."""

    def __init__(self, spec: RunSpec, root: Path) -> None:
        settings = spec.settings
        self.spec, self.device, self.window = spec, settings["device"], settings["window"]
        self.row = msgspec.convert(settings["row"], LanguageRow)
        self.training = msgspec.convert(settings["training"], TrainingConfig)
        self.parts, self.longest = parts_of(settings, root)
        torch.manual_seed(spec.seed)
        self.model: LanguageModel = self.row.model(self.window).to(self.device)

    def fit(self) -> Fit:
        return Fit(self.model, self.training.batch, self.loss, self.evaluate, draw=self.draw, loss_at=self.loss_at)

    def draw(self, step: int) -> Tensor:
        """Where the windows of a step start, a function of the seed and the step: the same for every row."""
        room = len(self.parts.train) - self.window
        return torch.randint(room, (self.training.batch,), generator=seeded_generator(self.spec.seed, step, 0))

    def loss_at(self, at: TrainingPosition, batch: Tensor) -> Tensor:
        return self.losses(text.windows(self.parts.train, self.window, batch), at.generator()).mean()

    def loss(self, batch: Tensor) -> Tensor:
        return self.loss_at(TrainingPosition(self.spec.seed, 0, 0), batch)

    def losses(self, tokens: Tensor, generator: torch.Generator) -> Tensor:
        """``-ln p`` of each token but the first, ``(B, N - 1)``. generator: of positions, where the row draws them."""
        tokens = tokens.to(self.device)
        pos = positions(self.row, tokens.shape[1] - 1, len(tokens), generator, self.device)
        logits = self.model(tokens[:, :-1], pos)
        return functional.cross_entropy(logits.transpose(1, 2), tokens[:, 1:], reduction="none")

    def in_parts(self, tokens: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """The same of as many windows at once as the memory should hold."""
        generator = seeded_generator(self.spec.seed, NEVER, 1) if generator is None else generator
        pairs = self.row.config.heads * tokens.shape[1] ** 2
        return torch.cat([self.losses(some, generator).cpu() for some in tokens.split(max(1, PAIRS_AT_ONCE // pairs))])

    def by_octave(self, tokens: Tensor, generator: torch.Generator) -> Tensor:
        """The same; where positions are drawn, each octave of contexts is told from a text that ends with it, so that
        its positions lie as far apart as those of a text of that length."""
        if self.row.randomised is None:
            return self.in_parts(tokens, generator)
        told, longest = [tokens.new_zeros(len(tokens), 0)], tokens.shape[1] - 1
        while (known := sum(part.shape[1] for part in told)) < longest:
            length = min(max(self.window, 2 * known), longest)
            told.append(self.in_parts(tokens[:, : length + 1], generator)[:, known:])
        return torch.cat(told, 1)

    def evaluate(self) -> dict[str, float]:
        held = self.parts.validation[: LOOKED_AT + 1]
        return {"loss": float(self.in_parts(apart(held, self.window)).mean())}

    def outcome(self, curve: list[dict[str, Any]]) -> RunResult:
        """The loss at the trained length and by context, how far moved positions move what is told."""
        reached = 1
        while reached * 2 <= self.longest // self.window and not stops(
            self.row, self.window, reached * 2 * self.window
        ):
            reached *= 2
        with evaluation_mode(self.model):
            metrics = {"loss": float(self.in_parts(apart(self.parts.test, self.window)).double().mean())}
            by = loss_by_context(
                partial(self.by_octave, generator=seeded_generator(self.spec.seed, NEVER, 2)),
                asked(self.parts.test, self.spec.settings, reached * self.window),
                reach=reached * self.window,
                stride=self.window // 2,
            )
            metrics["moved"] = self.moved()
            said = self.say(metrics, reached)
        metrics |= at_multiples(by, self.window)
        metrics["relative"] = float(metrics["moved"] < STILL)
        metrics["parameters"] = float(sum(p.numel() for p in self.model.parameters()))
        weights = {name: value.detach().cpu().contiguous() for name, value in self.model.state_dict().items()}
        return RunResult(metrics=metrics, curves=curve, arrays={"loss_by_context": by.numpy(), **said}, weights=weights)

    def say(self, metrics: dict[str, float], reached: int) -> dict[str, np.ndarray]:
        """What the model goes on with, and into the metrics how fast; nothing of positions that are drawn."""
        if self.row.randomised is not None or not can_write(self.model):
            return {}
        half, test = self.window // 2, self.parts.test.long()
        for name, multiple in {"tokens_a_second": 1, "tokens_a_second_far": reached}.items():
            metrics[name] = tokens_a_second(self.model, test[: multiple * self.window])
        return {"written": written(self.model, test[:half], half, self.spec.seed).numpy()}

    def moved(self) -> float:
        """The mean total variation between what is told at positions ``0 .. n - 1`` and at ``n .. 2 n - 1``, of the
        same half windows of n tokens: 0 where positions count by their differences alone."""
        half = self.window // 2
        tokens = apart(self.parts.test, half)[:64, :-1].to(self.device)
        here = sequence(half, device=self.device)
        one, other = (self.model(tokens, pos).double().softmax(-1) for pos in (here, here + half))
        return float((one - other).abs().sum(-1).mean() / 2)


def positions(
    row: LanguageRow, length: int, samples: int, generator: torch.Generator, device: str = "cpu"
) -> Positions | None:
    """Where tokens stand: in a row, which a model takes for granted, or drawn for each sample."""
    if row.randomised is None:
        return None
    return randomised(sequence(length), row.randomised, batch=samples, generator=generator).to(device)


def parts_of(settings: dict[str, Any], root: Path) -> tuple[text.Splits, int]:
    """The parts of a unit's text, and the longest context that they are asked about."""
    of, window = msgspec.convert(settings["text"], KeptText), settings["window"]
    return text.split(kept(root, of).tokens, longest=2 * window), of.multiple * window


def apart(part: Tensor, window: int) -> Tensor:
    """All windows of a part, one behind the other, each with the token after it."""
    return text.windows(part, window, text.window_starts(len(part), window))


def asked(part: Tensor, settings: dict[str, Any], reach: int) -> Tensor:
    """What of the test part is told from contexts up to ``reach``: as many tokens as the settings say, after the
    longest context that any row is asked about, so that a row that stops before tells the same ones."""
    longest = settings["text"]["multiple"] * settings["window"]
    return part[longest - reach : longest + settings["targets"] + 1]


def at_multiples(by: Tensor, window: int) -> dict[str, float]:
    """``loss_at_x4``: of contexts up to four times the trained length, and more than twice it; and so on."""
    times = [2**power for power in range(int(math.log2(len(by) // window)) + 1)]
    return {f"loss_at_x{multiple}": mean_over_octave(by, multiple * window) for multiple in times}


def train_unit(spec: RunSpec, workdir: Path, report: Report) -> RunResult:
    """What a worker calls. The store is two folders above a unit's own."""
    root = workdir.parents[1]
    if "task" in spec.settings:
        return recalling.train_unit(spec, workdir, report)
    if "order" in spec.settings:
        return counted(spec, root)
    with torch.random.fork_rng():
        reader = Reader(spec, root)
        curve = learned(spec, reader.model, reader.fit(), root, workdir, report)
        stretch(spec, reader.model, reader.row, reader.longest / reader.window, reader.window)
        return reader.outcome(curve)


def counted(spec: RunSpec, root: Path) -> RunResult:
    """What a count tells of the very tokens that models are asked about."""
    settings = spec.settings
    window, ((train_, _, test), longest) = settings["window"], parts_of(settings, root)
    found = text.fit_ngram(train_, settings["text"]["vocabulary"], order=settings["order"])
    told = test[: len(text.window_starts(len(test), window)) * window + 1]

    def losses(tokens: Tensor) -> Tensor:
        return torch.stack([found.losses(window) for window in tokens])

    by = loss_by_context(losses, asked(test, settings, longest), reach=longest, stride=window // 2)
    metrics = {"loss": float(found.losses(told).mean()), **at_multiples(by, window)}
    return RunResult(metrics=metrics, arrays={"loss_by_context": by.numpy()})


def alike(spec: RunSpec) -> Any:
    """What decides how long a unit takes."""
    settings = spec.settings
    return [settings.get(name) for name in ("row", "training", "order", "task", "schedule", "text")]


def seconds(spec: RunSpec, store: Store) -> float:
    """How long a unit takes on one core: a few steps timed and counted up, and what is asked in the end."""
    if "order" in spec.settings:
        return 1.0
    with torch.random.fork_rng():
        made = recalling.Recaller(spec) if "task" in spec.settings else Reader(spec, store.root)
        took = training_seconds(made.fit(), made.training, made.device)
    base = trained_before(spec)
    learning = 0.0 if base is not None and store.finished(base.identity) else took
    return learning + (0.2 * took if isinstance(made, recalling.Recaller) else _asking(made))


def _asking(reader: Reader) -> float:
    """Seconds, about, of the longest contexts: one window timed, the shorter ones by what their pairs take."""
    longest = reader.longest if not stops(reader.row, reader.window, reader.longest) else reader.window
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with evaluation_mode(reader.model):
            told = asked(reader.parts.test, reader.spec.settings, longest)
            window = text.windows(told, longest, [0])
            began = time.process_time()
            reader.in_parts(window)
            took = time.process_time() - began
    finally:
        torch.set_num_threads(threads)
    stride = reader.window // 2
    return took * len(told) / stride


def memory(spec: RunSpec) -> float:
    """Bytes of a unit's text and of the pairs that are in memory together."""
    return 40.0 * PAIRS_AT_ONCE


TRAIN = Procedure("language.train", 1, train_unit)
