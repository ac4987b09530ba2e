"""What is trained, and in which order it sees its samples."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator
from typing import NamedTuple

import torch
from torch import Tensor, nn


def mixed(seed: int, step: int, part: int) -> int:
    """A seed for a generator, another one for each (seed, step, part)."""
    return (seed * 0x9E3779B97F4A7C15 + step * 0xBF58476D1CE4E5B9 + part * 0x94D049BB133111EB) & 0x7FFFFFFFFFFFFFFF


def drawn(seed: int, step: int, part: int) -> torch.Generator:
    """Numbers that depend on (seed, step, part) alone."""
    return torch.Generator().manual_seed(mixed(seed, step, part))


def order(samples: int, seed: int, epoch: int) -> Tensor:
    """The order of an epoch: a function of (seed, epoch) alone, so a resumed run needs no memory of earlier ones."""
    return torch.randperm(samples, generator=drawn(seed, epoch, 0))


class At(NamedTuple):
    """Where a training stands when it asks for a loss: its seed, the step, and which part of the step's batch.

    A batch is one part, or one for each process and each of ``accumulate``.
    """

    seed: int
    step: int
    part: int

    def generator(self) -> torch.Generator:
        """For what is drawn for this part alone, as augmentation: a resumed run draws the same."""
        return drawn(self.seed, self.step, self.part + 1)  # part 0 is the order of an epoch


@dataclasses.dataclass
class Fit:
    """What is trained: a model, how many samples there are, the loss of a batch, and what is measured."""

    model: nn.Module
    samples: int
    loss: Callable[[Tensor], Tensor]
    """From the sample numbers ``(B,)`` of a batch to a scalar, the mean over these samples."""
    evaluate: Callable[[], dict[str, float]]
    """Called in evaluation mode, without gradients."""
    data: tuple[Tensor, ...] = ()
    """The samples, for ``score``: tensors with a leading axis of samples."""
    score: Callable[..., Tensor] | None = None
    """``score(model, *parts)``: the loss of parts of ``data``. What a population needs instead of ``loss``; it calls
    its first argument as it would the model and asks nothing else of it."""
    draw: Callable[[int], Tensor] | None = None
    """The batch of a step, a function of its number and the fit's seed alone: what ``loss`` then gets instead of the
    numbers of samples. An epoch is then one step."""
    loss_at: Callable[[At, Tensor], Tensor] | None = None
    """What is asked instead of ``loss`` where it draws (augmentation): it is told where the training stands."""

    def per_epoch(self, batch: int) -> int:
        """Steps of an epoch for a size of batch."""
        return 1 if self.draw is not None else math.ceil(self.samples / batch)

    def ask(self, at: At, batch: Tensor) -> Tensor:
        """The loss of a part of a step's batch."""
        return self.loss(batch) if self.loss_at is None else self.loss_at(at, batch)

    def batches(self, batch: int, seed: int, start: int, stop: int) -> Iterator[tuple[int, Tensor]]:
        """The steps ``start .. stop - 1`` and what each of them sees."""
        if self.draw is not None:
            yield from ((step, self.draw(step)) for step in range(start, stop))
            return
        per_epoch = self.per_epoch(batch)
        for epoch in range(start // per_epoch, math.ceil(stop / per_epoch)):
            shuffled = order(self.samples, seed, epoch)
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
        """The fit whose loss is ``score`` on a batch of ``data``: it trains alone or in a population."""

        def loss(batch: Tensor) -> Tensor:
            return score(model, *(part[batch] for part in data))

        return cls(model, len(data[0]), loss, evaluate, data, score)
