"""Optimization step of one model: forward and backward over the parts of a batch, clipping, and the optimizer."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn

from posenc.workbench.training.config import TrainingConfig
from posenc.workbench.training.distributed import ProcessGroup, SyncPoint
from posenc.workbench.training.fit import Fit, TrainingPosition
from posenc.workbench.training.flat_parameters import FlatParameters
from posenc.workbench.training.precision import Arithmetic


def make_optimizer(
    parameters: Iterable[nn.Parameter] | Iterable[dict[str, Any]], config: TrainingConfig
) -> torch.optim.Optimizer:
    """Make the optimizer for parameters, or for parameter groups with separate ``weight_decay``."""
    trained: list[Any] = list(parameters)
    if config.optimizer == "sgd":
        return torch.optim.SGD(trained, lr=config.lr, weight_decay=config.weight_decay)
    kind = torch.optim.AdamW if config.optimizer == "adamw" else torch.optim.Adam
    own = {"betas": config.betas, "eps": config.eps}
    chosen: dict[str, Any] = {name: value for name, value in own.items() if value is not None}
    return kind(trained, lr=config.lr, weight_decay=config.weight_decay, fused=True, **chosen)


class Step:
    """Optimization step that returns the loss of the whole batch.

        L = sum_p (n_p / n) L_p,   p over the interleaved parts batch[p :: parts], with n_p of the n samples

    Process r of R computes the parts r, r + R, .. The gradients are summed over all processes, so all of them make the
    same step.
    """

    def __init__(
        self,
        fit: Fit,
        flat: FlatParameters,
        optimizer: torch.optim.Optimizer,
        config: TrainingConfig,
        arithmetic: Arithmetic,
        team: ProcessGroup,
        seed: int,
    ) -> None:
        self.fit, self.flat, self.optimizer, self.config = fit, flat, optimizer, config
        self.arithmetic, self.team, self.seed = arithmetic, team, seed
        self.parts = team.size * (config.accumulate or 1)
        if team.size > 1:  # the loss is stored behind the gradient, so that one exchange sums both
            self.exchanged = flat.parameter.new_zeros(flat.parameter.numel() + 1, requires_grad=False)
            flat.parameter.grad = self.exchanged[:-1]

    def __call__(self, step: int, batch: Tensor, lr: float | None, word: int = 0) -> tuple[float, int]:
        """Make one step.

        Args:
            step: number of the step.
            batch: sample numbers ``(B,)``.
            lr: learning rate after reductions by a plateau; None for the configured one.
            word: number that the leader sends to the other processes.

        Returns:
            The loss of the batch, and the leader's ``word``.

        Raises:
            FloatingPointError: a loss that is not finite.
        """
        for group in self.optimizer.param_groups:
            group["lr"] = self.config.rate(step, lr)
        self.flat.clear()
        loss = self._backward(step, batch)
        self.flat.join()
        word = self.team.meet(SyncPoint.STEP, word)
        if self.team.size > 1:
            self.exchanged[-1] = loss
            self.team.add(self.exchanged)
            loss = self.exchanged[-1]
        if self.config.clip is not None:
            nn.utils.clip_grad_norm_(self.flat.parameter, self.config.clip)
        self.optimizer.step()
        value = float(loss)
        if not math.isfinite(value):
            raise divergence_error(value, step)
        return value, word

    def _backward(self, step: int, batch: Tensor) -> Tensor:
        """Compute this process's share of the loss and of its gradient."""
        with self.arithmetic.products():
            if self.parts == 1:
                with self.arithmetic.forward():
                    loss = self.fit.ask(TrainingPosition(self.seed, step, 0), batch)
                loss.backward()
                return loss.detach()
            total = self.flat.parameter.new_zeros((), requires_grad=False)
            for part in range(self.team.rank, self.parts, self.team.size):
                own = batch[part :: self.parts]
                if not len(own):
                    continue
                with self.arithmetic.forward():
                    loss = self.fit.ask(TrainingPosition(self.seed, step, part), own) * (len(own) / len(batch))
                loss.backward()
                total += loss.detach()
            return total


def divergence_error(value: float, step: int) -> FloatingPointError:
    """Make the error for a loss that is not finite."""
    return FloatingPointError(f"the loss became {value} at step {step}; use a smaller learning rate.")


def refuse_division(fit: Fit, config: TrainingConfig, team: ProcessGroup) -> None:
    """Raise ValueError if a batch cannot be divided among the processes and the parts of gradient accumulation."""
    parts = team.size * (config.accumulate or 1)
    if parts == 1:
        return
    if fit.draw is not None:
        raise ValueError(
            "a fit that draws its own batches takes each of them whole: train it in one process, without `accumulate`."
        )
    if config.seconds is not None and team.size > 1:
        raise ValueError("a training with a time limit runs in one process. Start it without torchrun.")
    if parts > config.batch:
        raise ValueError(
            f"a batch of {config.batch} cannot be divided among {team.size} processes with {config.accumulate or 1} "
            f"parts each. Use a batch of at least {parts}."
        )
