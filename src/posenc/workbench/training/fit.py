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
    """Return a random generator that depends on (seed, step, part) only, so that a resumed run draws equal numbers.

    Args:
        seed: seed of the training.
        step: number of the step.
        part: number that separates several generators of one step.

    Returns:
        The generator, on the CPU.

    Example:
        >>> import torch
        >>> from posenc.workbench import seeded_generator
        >>> first = torch.randn(3, generator=seeded_generator(seed=0, step=7, part=1))
        >>> again = torch.randn(3, generator=seeded_generator(seed=0, step=7, part=1))
        >>> torch.equal(first, again)
        True
    """
    return torch.Generator().manual_seed(mixed_seed(seed, step, part))


def epoch_order(samples: int, seed: int, epoch: int) -> Tensor:
    """Return the order of an epoch's samples. It depends on (seed, epoch) only, so that a resumed run repeats it."""
    return torch.randperm(samples, generator=seeded_generator(seed, epoch, 0))


def endless_batches(samples: int, batch: int, seed: int) -> Callable[[int], Tensor]:
    """Make a function ``draw`` for a ``Fit`` that is trained for a number of steps instead of epochs.

        batch of step s = items s B .. s B + B - 1 of the shuffled epochs, one after the other

    Every batch is full, however few samples there are.

    Args:
        samples: number of samples.
        batch: number of samples per step.
        seed: seed of the order.

    Returns:
        Function from the number of a step to the sample numbers ``(B,)`` of its batch.
    """

    def draw(step: int) -> Tensor:
        first, last = step * batch, (step + 1) * batch
        epochs = range(first // samples, (last - 1) // samples + 1)
        order = torch.cat([epoch_order(samples, seed, epoch) for epoch in epochs])
        start = first - epochs[0] * samples
        return order[start : start + batch]

    return draw


class TrainingPosition(NamedTuple):
    """Position in a training: seed, step, and part of the step's batch.

    A batch has one part for each process and each part of gradient accumulation.

    Attributes:
        seed: seed of the training.
        step: number of the step.
        part: number of the part.

    Example:
        >>> import torch
        >>> from posenc.workbench import TrainingPosition
        >>> at = TrainingPosition(seed=0, step=7, part=0)
        >>> noise = torch.randn(3, generator=at.generator())
        >>> torch.equal(noise, torch.randn(3, generator=at.generator()))
        True
    """

    seed: int
    step: int
    part: int

    def generator(self) -> torch.Generator:
        """Return the random generator of this part, as for augmentation. A resumed run draws equal numbers.

        Returns:
            The generator, on the CPU.
        """
        return seeded_generator(self.seed, self.step, self.part + 1)  # part 0 is used for the order of an epoch


@dataclasses.dataclass
class Fit:
    """Training problem: a model, its data, the loss of a batch, and an evaluation.

    Attributes:
        model: the model to train.
        samples: number of samples.
        loss: function from the sample numbers ``(B,)`` of a batch to a scalar, the mean loss of these samples.
        evaluate: function that returns metrics by name. It is called in evaluation mode, without gradients.
        data: samples for ``score``: tensors whose first axis counts samples.
        score: ``score(model, *parts)``, the loss of parts of ``data``. Batched training uses it instead of ``loss``. It
            may call its first argument as a function only.
        draw: function from the number of a step to its batch, which ``loss`` then receives instead of sample numbers.
            It depends on the step and the seed only. An epoch is then one step.
        loss_at: loss that draws random numbers, as for augmentation. It replaces ``loss``, and also receives the seed,
            the step and the part.

    Example:
        >>> import torch
        >>> from posenc.workbench import Fit, TrainingConfig, train
        >>> x = torch.linspace(-1, 1, 32)[:, None]
        >>> model = torch.nn.Linear(1, 1)
        >>> def mse(model, x, y):
        ...     return (model(x) - y).square().mean()
        >>> fit = Fit.of(model, (x, 2 * x), mse, lambda: {"loss": float(mse(model, x, 2 * x))})
        >>> curve = train(fit, TrainingConfig(epochs=100, batch=32, lr=0.1), seed=0)
        >>> curve[-1]["value"] < 0.01
        True
    """

    model: nn.Module
    samples: int
    loss: Callable[[Tensor], Tensor]
    evaluate: Callable[[], dict[str, float]]
    data: tuple[Tensor, ...] = ()
    score: Callable[..., Tensor] | None = None
    draw: Callable[[int], Tensor] | None = None
    loss_at: Callable[[TrainingPosition, Tensor], Tensor] | None = None

    def per_epoch(self, batch: int) -> int:
        """Return the number of steps of an epoch.

        Args:
            batch: number of samples per step.

        Returns:
            The number of steps.
        """
        return 1 if self.draw is not None else math.ceil(self.samples / batch)

    def ask(self, at: TrainingPosition, batch: Tensor) -> Tensor:
        """Compute the loss of a part of a step's batch.

        Args:
            at: seed, step and part.
            batch: sample numbers ``(B,)``, or the batch that ``draw`` returned.

        Returns:
            The loss, a scalar.
        """
        return self.loss(batch) if self.loss_at is None else self.loss_at(at, batch)

    def batches(self, batch: int, seed: int, start: int, stop: int) -> Iterator[tuple[int, Tensor]]:
        """Iterate over the steps ``start .. stop - 1``.

        Args:
            batch: number of samples per step.
            seed: seed of the order of the samples.
            start: first step.
            stop: step after the last.

        Yields:
            The number of the step, and its sample numbers ``(B,)`` or the batch that ``draw`` returned.
        """
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
