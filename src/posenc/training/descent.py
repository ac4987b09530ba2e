"""One step of one model: the parts of a batch through it, their gradients into one, clipped, and the optimiser."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn

from posenc.training.config import TrainingConfig
from posenc.training.distributed import Place, Team
from posenc.training.fit import At, Fit
from posenc.training.precision import Arithmetic
from posenc.training.weights import Flat


def make_optimiser(
    parameters: Iterable[nn.Parameter] | Iterable[dict[str, Any]], config: TrainingConfig
) -> torch.optim.Optimizer:
    """Of parameters, or of groups of them with a ``weight_decay`` of their own."""
    trained: list[Any] = list(parameters)
    if config.optimiser == "sgd":
        return torch.optim.SGD(trained, lr=config.lr, weight_decay=config.weight_decay)
    kind = torch.optim.AdamW if config.optimiser == "adamw" else torch.optim.Adam
    own = {"betas": config.betas, "eps": config.eps}
    chosen: dict[str, Any] = {name: value for name, value in own.items() if value is not None}
    return kind(trained, lr=config.lr, weight_decay=config.weight_decay, fused=True, **chosen)


class Step:
    """One step of the optimiser; the loss of the whole batch comes back as a number.

        L = sum_p (n_p / n) L_p,   p over the batch's interleaved parts, batch[p :: parts], of n_p of its n samples

    Process r of R takes the parts r, r + R, ..; all see the same sum and make the same step.
    """

    def __init__(
        self,
        fit: Fit,
        flat: Flat,
        optimiser: torch.optim.Optimizer,
        config: TrainingConfig,
        arithmetic: Arithmetic,
        team: Team,
        seed: int,
    ) -> None:
        self.fit, self.flat, self.optimiser, self.config = fit, flat, optimiser, config
        self.arithmetic, self.team, self.seed = arithmetic, team, seed
        self.parts = team.size * (config.accumulate or 1)
        if team.size > 1:  # the loss travels with the gradient
            self.exchanged = flat.parameter.new_zeros(flat.parameter.numel() + 1, requires_grad=False)
            flat.parameter.grad = self.exchanged[:-1]

    def __call__(self, step: int, batch: Tensor, lr: float | None, word: int = 0) -> tuple[float, int]:
        """lr: what a plateau has left of the rate. word: what the leader tells the others; comes back as they hear."""
        for group in self.optimiser.param_groups:
            group["lr"] = self.config.rate(step, lr)
        self.flat.clear()
        loss = self._backward(step, batch)
        self.flat.join()
        word = self.team.meet(Place.STEP, word)
        if self.team.size > 1:
            self.exchanged[-1] = loss
            self.team.add(self.exchanged)
            loss = self.exchanged[-1]
        if self.config.clip is not None:
            nn.utils.clip_grad_norm_(self.flat.parameter, self.config.clip)
        self.optimiser.step()
        value = float(loss)
        if not math.isfinite(value):
            raise diverged(value, step)
        return value, word

    def _backward(self, step: int, batch: Tensor) -> Tensor:
        """This process's share of the loss, whose gradient then is in the parts of the model."""
        with self.arithmetic.products():
            if self.parts == 1:
                with self.arithmetic.forward():
                    loss = self.fit.ask(At(self.seed, step, 0), batch)
                loss.backward()
                return loss.detach()
            total = self.flat.parameter.new_zeros((), requires_grad=False)
            for part in range(self.team.rank, self.parts, self.team.size):
                own = batch[part :: self.parts]
                if not len(own):
                    continue
                with self.arithmetic.forward():
                    loss = self.fit.ask(At(self.seed, step, part), own) * (len(own) / len(batch))
                loss.backward()
                total += loss.detach()
            return total


def diverged(value: float, step: int) -> FloatingPointError:
    return FloatingPointError(f"the loss became {value} at step {step}; use a smaller learning rate.")


def refuse_division(fit: Fit, config: TrainingConfig, team: Team) -> None:
    """Raises ValueError where a batch cannot be divided into the parts that are asked for."""
    parts = team.size * (config.accumulate or 1)
    if parts == 1:
        return
    if fit.draw is not None:
        raise ValueError(
            "a fit that draws its own batches takes each of them whole: train it in one process, without `accumulate`."
        )
    if config.seconds is not None and team.size > 1:
        raise ValueError("a training for so many seconds is one process's. Start it without torchrun.")
    if parts > config.batch:
        raise ValueError(
            f"a batch of {config.batch} cannot be divided among {team.size} processes with {config.accumulate or 1} "
            f"parts each. Use a batch of at least {parts}."
        )
