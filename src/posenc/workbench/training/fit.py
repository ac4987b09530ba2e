"""Training problem (model, data, loss and evaluation), and the order of its samples."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator
from typing import NamedTuple

import torch
from torch import Tensor, nn


def mixed_seed(seed: int, step: int, part: int) -> int:
    """Return a generator seed that differs for each (seed, step, part)."""
    return (seed * 0x9E3779B97F4A7C15 + step * 0xBF58476D1CE4E5B9 + part * 0x94D049BB133111EB) & 0x7FFFFFFFFFFFFFFF


def seeded_generator(seed: int, step: int, part: int) -> torch.Generator:
    """Return a random generator that depends on (seed, step, part) only."""
    return torch.Generator().manual_seed(mixed_seed(seed, step, part))


def epoch_order(samples: int, seed: int, epoch: int) -> Tensor:
    """Return the order of an epoch's samples. It depends on (seed, epoch) only, so that a resumed run repeats it."""
    return torch.randperm(samples, generator=seeded_generator(seed, epoch, 0))


class TrainingPosition(NamedTuple):
    """Position in a training: seed, step, and part of the step's batch.

    A batch has one part for each process and each part of gradient accumulation.

    Attributes:
        seed: seed of the training.
        step: number of the step.
        part: number of the part.
    """

    seed: int
    step: int
    part: int

    def generator(self) -> torch.Generator:
        """Return the random generator of this part, as for augmentation. A resumed run draws the same numbers."""
        return seeded_generator(self.seed, self.step, self.part + 1)  # part 0 is used for the order of an epoch


@dataclasses.dataclass
class Fit:
    """Training problem: a model, its data, the loss of a batch, and an evaluation."""

    model: nn.Module
    """The model to train."""
    samples: int
    """Number of samples."""
    loss: Callable[[Tensor], Tensor]
    """Function from the sample numbers ``(B,)`` of a batch to a scalar, the mean loss of these samples."""
    evaluate: Callable[[], dict[str, float]]
    """Function that returns metrics by name. It is called in evaluation mode, without gradients."""
    data: tuple[Tensor, ...] = ()
    """Samples for ``score``: tensors whose first axis counts samples."""
    score: Callable[..., Tensor] | None = None
    """``score(model, *parts)``: the loss of parts of ``data``, which batched training uses instead of ``loss``.

    It may use its first argument as a function only."""
    draw: Callable[[int], Tensor] | None = None
    """Function from the number of a step to its batch, which ``loss`` then gets instead of sample numbers.

    It depends on the step and the seed only. An epoch is then one step."""
    loss_at: Callable[[TrainingPosition, Tensor], Tensor] | None = None
    """Loss that draws random numbers, as for augmentation. It replaces ``loss``, and gets seed, step and part."""

    def per_epoch(self, batch: int) -> int:
        """Return the number of steps of an epoch for a batch size."""
        return 1 if self.draw is not None else math.ceil(self.samples / batch)

    def ask(self, at: TrainingPosition, batch: Tensor) -> Tensor:
        """Compute the loss of a part of a step's batch."""
        return self.loss(batch) if self.loss_at is None else self.loss_at(at, batch)

    def batches(self, batch: int, seed: int, start: int, stop: int) -> Iterator[tuple[int, Tensor]]:
        """Yield the steps ``start .. stop - 1``, each with its batch."""
        if self.draw is not None:
            yield from ((step, self.draw(step)) for step in range(start, stop))
            return
        per_epoch = self.per_epoch(batch)
        for epoch in range(start // per_epoch, math.ceil(stop / per_epoch)):
            shuffled = epoch_order(self.samples, seed, epoch)
            for part in range(max(0, start - epoch * per_epoch), per_epoch):
                yield epoch * per_epoch + part, shuffled[part * batch : (part + 1) * batch]

    @classmethod
    def of(
        cls,
        model: nn.Module,
        data: tuple[Tensor, ...],
        score: Callable[..., Tensor],
        evaluate: Callable[[], dict[str, float]],
    ) -> Fit:
        """Make a training problem whose loss is ``score`` on a batch of ``data``, for single and batched training.

        Args:
            model: the model to train.
            data: tensors whose first axis counts samples.
            score: function of the model and parts of ``data`` that returns the mean loss.
            evaluate: function that returns metrics by name.

        Returns:
            The training problem.
        """

        def loss(batch: Tensor) -> Tensor:
            return score(model, *(part[batch] for part in data))

        return cls(model, len(data[0]), loss, evaluate, data, score)
