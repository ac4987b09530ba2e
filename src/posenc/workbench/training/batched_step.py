"""Optimization step of batched training: forward and backward of all models at once, one rate each, CUDA graphs."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any

import torch
from torch import Tensor, nn

from posenc.measure.evaluation_mode import evaluation_mode
from posenc.workbench.training.loop import Fit, TrainingConfig, make_optimizer
from posenc.workbench.training.model_stack import Stack
from posenc.workbench.training.precision import Arithmetic

WARM_UP_STEPS = 3
"""Number of warm-up steps before a CUDA graph is recorded; libraries allocate their workspaces in them."""

LOSS_TOLERANCE = 1e-3
"""Largest difference between a model's first loss alone and in the stack; relative for losses above 1."""


class Stepper:
    """Optimization step of all models: ``stepper(step, index (M, B)) -> losses (M,)``.

    The losses stay on the device, so that a step does not make the GPU wait. Models with equal configurations form one
    parameter group of the optimizer and share one learning rate.

    Args:
        stack: the stacked models.
        fits: training problem of each model.
        configs: training configuration of each model.
        arithmetic: precision of matrix products.
        graph: True to record steps as CUDA graphs; None for CUDA devices only.

    Raises:
        ValueError: ``graph=True`` on another device than CUDA.
    """

    def __init__(
        self,
        stack: Stack,
        fits: Sequence[Fit],
        configs: Sequence[TrainingConfig],
        arithmetic: Arithmetic,
        graph: bool | None,
    ) -> None:
        self.stack, self.fits, self.arithmetic = stack, list(fits), arithmetic
        device = stack.values.device
        if graph and device.type != "cuda":
            raise ValueError(f"graph=True records CUDA graphs; these models are on {device}. Leave `graph` out.")
        self.configs = list(dict.fromkeys(configs))
        groups: list[dict[str, Any]] = [
            {"params": [stack.rows[i] for i, own in enumerate(configs) if own == config],
             "weight_decay": config.weight_decay}
            for config in self.configs
        ]  # fmt: skip
        self.optimizer = make_optimizer(groups, configs[0])
        self.data = [_stacked_data([fit.data[part] for fit in fits]) for part in range(len(fits[0].data))]
        self.members = torch.arange(len(fits), device=device)[:, None]
        self.losses = stack.values.new_zeros(len(fits))
        self.clip = None
        if any(config.clip is not None for config in configs):
            limits = [math.inf if config.clip is None else config.clip for config in configs]
            self.clip = torch.tensor(limits, dtype=stack.values.dtype, device=device)[:, None]
        self.replay = None
        if device.type == "cuda" and graph is not False:
            self.replay = Replay(self.advance, device)
            self.rates = torch.zeros(len(self.configs), device=device)
            self.last_rates: list[float] = []
            for number, group in enumerate(self.optimizer.param_groups):
                # the rate is stored on the device, so that a recorded step reads its present value
                group |= {"lr": self.rates[number], "fused": True, "capturable": True}

    def __call__(self, step: int, index: Tensor) -> Tensor:
        """Make one step.

        Args:
            step: number of the step.
            index: sample numbers ``(M, B)``.

        Returns:
            The losses ``(M,)`` before the step.
        """
        rates = [config.rate(step) for config in self.configs]
        if self.replay is None:
            for group, rate in zip(self.optimizer.param_groups, rates, strict=True):
                group["lr"] = rate
            self.advance(index)
        else:
            if rates != self.last_rates:
                self.rates.copy_(torch.tensor(rates).pin_memory(), non_blocking=True)
                self.last_rates = rates
            self.replay(index)
        return self.losses

    def advance(self, index: Tensor) -> None:
        """Make one step, from sample numbers to new weights; ``losses`` are those before the step."""
        stack = self.stack
        stack.clear()
        with self.arithmetic.products():
            with self.arithmetic.forward():
                losses = stack.losses(self._score, self._batch(index))
            losses.sum().backward()
        stack.join_gradients()
        if self.clip is not None:
            norm = torch.linalg.vector_norm(stack.grads, dim=1, keepdim=True)
            stack.grads.mul_((self.clip / (norm + 1e-6)).clamp(max=1.0))
        self.optimizer.step()
        self.losses.copy_(losses.detach())

    def _score(self, *arguments: Any) -> Tensor:
        score = self.fits[0].score
        assert score is not None
        return score(*arguments)

    def _batch(self, index: Tensor) -> list[Tensor]:
        """Return the batch of every model, tensors ``(M, B, ..)``."""
        return [part[index] if shared else part[self.members, index] for part, shared in self.data]

    def refuse_different_models(self, index: Tensor) -> None:
        """Raise ValueError if a model's loss in the stack differs from its own loss alone, or its rate of dropout.

        The stack uses the loss function and plain attributes of the first model, such as a temperature, so members must
        not differ in them. Losses are computed in evaluation mode and in full precision. A factor of an output that is
        zero at first does not show in them.
        """
        first = _dropout_rates(self.stack.models[0])
        for number, model in enumerate(self.stack.models):
            own = _dropout_rates(model)
            if differing := [name for name, value in own.items() if first.get(name, value) != value]:
                name = differing[0]
                raise ValueError(
                    f"member {number} has {name} = {own[name]}, and member 0 has {first[name]}. Members differ in "
                    "values, not in options. Train it by itself."
                )
        batch = self._batch(index)
        with ExitStack() as modes:
            for model in self.stack.models:
                modes.enter_context(evaluation_mode(model))
            stacked = self.stack.losses(self._score, batch).tolist()
            alone = [
                float((fit.score or self._score)(model, *(part[number] for part in batch)))
                for number, (model, fit) in enumerate(zip(self.stack.models, self.fits, strict=True))
            ]
        for number, (ours, own) in enumerate(zip(stacked, alone, strict=True)):
            if math.isfinite(own) and not abs(ours - own) <= LOSS_TOLERANCE * max(1.0, abs(own)):
                raise ValueError(
                    f"member {number} has another model or loss than member 0: its first loss is {own:.6g}, and "
                    f"{ours:.6g} in the batch of models. Members differ in values, not in options. Train it by itself."
                )

    def moments(self, member: int, device: torch.device | str | None = None) -> dict[str, Any]:
        """Return a model's optimizer state in the format of a single run; a copy."""
        state = self.optimizer.state.get(self.stack.rows[member], {})
        return {
            name: (self.stack.join(value) if value.dim() else value.clone()).to(device or value.device)
            for name, value in state.items()
            if value is not None
        }

    def put_moments(self, member: int, moments: dict[str, Any]) -> None:
        """Set a model's optimizer state from that of a single run."""
        if moments:
            state = {n: self.stack.divide(v) if v.dim() else v.clone() for n, v in moments.items() if v is not None}
            self.optimizer.state[self.stack.rows[member]] = state


def _stacked_data(parts: Sequence[Tensor]) -> tuple[Tensor, bool]:
    """Return the data of all models, and True if it is one tensor that all of them share."""
    first = parts[0]
    if all(p.data_ptr() == first.data_ptr() and p.shape == first.shape and p.stride() == first.stride() for p in parts):
        return first, True
    return torch.stack(list(parts)), False


class Replay:
    """CUDA graph of a step, recorded once for each batch size and replayed without Python.

    Args:
        step: the step, a function of sample numbers ``(M, B)``.
        device: device of the models.
    """

    def __init__(self, step: Callable[[Tensor], None], device: torch.device) -> None:
        self.step, self.device = step, device
        self.stream = torch.cuda.Stream(device)
        self.slots: dict[int, _Slot] = {}
        self.pool: Any = None
        self.refused = False

    def __call__(self, index: Tensor) -> None:
        """Make one step: the first few without a graph, the later ones by replaying it.

        Args:
            index: sample numbers ``(M, B)``.
        """
        slot = self.slots.setdefault(index.shape[1], _Slot(index))
        slot.index.copy_(index)
        if self.refused:
            self.step(slot.index)
        elif slot.warm < WARM_UP_STEPS:
            slot.warm += 1
            self.stream.wait_stream(torch.cuda.current_stream(self.device))
            with torch.cuda.stream(self.stream):
                self.step(slot.index)
            torch.cuda.current_stream(self.device).wait_stream(self.stream)
        else:
            slot.graph = slot.graph or self._record(slot)
            if slot.graph is None:
                self.step(slot.index)
            else:
                slot.graph.replay()

    def _record(self, slot: _Slot) -> Any:
        """Record the step as a CUDA graph without running it. If that fails, warn and return None."""
        graph = torch.cuda.CUDAGraph()
        try:
            with torch.cuda.graph(graph, pool=self.pool):
                self.step(slot.index)
        except torch.OutOfMemoryError:
            raise
        except RuntimeError as error:
            self.refused = True
            torch.cuda.synchronize(self.device)
            reason = " ".join(str(error).split())[:160]
            warnings.warn(
                f"This model's step cannot be recorded as a CUDA graph ({reason}); its steps run one by one.",
                RuntimeWarning,
                stacklevel=2,
            )
            return None
        self.pool = graph.pool()
        return graph


class _Slot:
    """Memory of one batch size: its sample numbers, its number of warm-up steps and its CUDA graph."""

    def __init__(self, index: Tensor) -> None:
        self.index = torch.empty(index.shape, dtype=index.dtype, device=index.device)
        self.warm = 0
        self.graph: torch.cuda.CUDAGraph | None = None


def _dropout_rates(model: nn.Module) -> dict[str, float]:
    """Attributes of the modules of a model that are numbers named p or after dropout, by name."""
    return {
        f"{where}.{name}" if where else name: value
        for where, module in model.named_modules()
        for name, value in vars(module).items()
        if isinstance(value, int | float) and (name == "p" or "drop" in name)
    }
