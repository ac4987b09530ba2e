"""One step of a population: forward and backward of all members at once, each member's own rate, CUDA graphs."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from posenc.training.loop import Fit, TrainingConfig, make_optimiser
from posenc.training.precision import Arithmetic
from posenc.training.stack import Stack

WARM = 3
"""Steps that run one by one before the fourth is recorded: libraries take their workspaces in them."""

STRANGER = 1e-3
"""Largest difference, relative above 1, between a member's loss alone and in the stack, before the first step."""


class Stepper:
    """``stepper(step, index (M, B)) -> losses (M,)``, still on the device: a step makes no GPU wait.

    Members with equal configurations form one group of the optimiser, so that their rate is one number.
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
        self.optimiser = make_optimiser(groups, configs[0])
        self.data = [_together([fit.data[part] for fit in fits]) for part in range(len(fits[0].data))]
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
            self.told: list[float] = []
            for number, group in enumerate(self.optimiser.param_groups):
                # a rate in the device's memory, which a recorded step reads anew every time
                group |= {"lr": self.rates[number], "fused": True, "capturable": True}

    def __call__(self, step: int, index: Tensor) -> Tensor:
        rates = [config.rate(step) for config in self.configs]
        if self.replay is None:
            for group, rate in zip(self.optimiser.param_groups, rates, strict=True):
                group["lr"] = rate
            self.advance(index)
        else:
            if rates != self.told:
                self.rates.copy_(torch.tensor(rates).pin_memory(), non_blocking=True)
                self.told = rates
            self.replay(index)
        return self.losses

    def advance(self, index: Tensor) -> None:
        """The whole step, from sample numbers to new weights; ``losses`` are those before it."""
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
        self.optimiser.step()
        self.losses.copy_(losses.detach())

    def _score(self, *arguments: Any) -> Tensor:
        score = self.fits[0].score
        assert score is not None
        return score(*arguments)

    def _batch(self, index: Tensor) -> list[Tensor]:
        """Every member's samples, ``(M, B, ..)``."""
        return [part[index] if shared else part[self.members, index] for part, shared in self.data]

    def refuse_strangers(self, index: Tensor) -> None:
        """Raises ValueError where a member's loss in the stack is not its loss alone: what a model keeps in plain
        attributes, such as a temperature, is the first member's in the stack. In evaluation mode, in full precision."""
        batch = self._batch(index)
        for model in self.stack.models:
            model.eval()
        with torch.no_grad():
            stacked = self.stack.losses(self._score, batch).tolist()
            alone = [
                float(self._score(model, *(part[number] for part in batch)))
                for number, model in enumerate(self.stack.models)
            ]
        for model in self.stack.models:
            model.train()
        for number, (ours, own) in enumerate(zip(stacked, alone, strict=True)):
            if math.isfinite(own) and not abs(ours - own) <= STRANGER * max(1.0, abs(own)):
                raise ValueError(
                    f"member {number} is another model than member 0: its first loss is {own:.6g}, and {ours:.6g} in "
                    "the population. Members differ in values, not in options. Train it by itself."
                )

    def moments(self, member: int, device: torch.device | str | None = None) -> dict[str, Any]:
        """A member's optimiser state as that of a single run; a copy."""
        state = self.optimiser.state.get(self.stack.rows[member], {})
        return {
            name: (self.stack.join(value) if value.dim() else value.clone()).to(device or value.device)
            for name, value in state.items()
            if value is not None
        }

    def put_moments(self, member: int, moments: dict[str, Any]) -> None:
        if moments:
            found = {n: self.stack.divide(v) if v.dim() else v.clone() for n, v in moments.items() if v is not None}
            self.optimiser.state[self.stack.rows[member]] = found


def _together(parts: Sequence[Tensor]) -> tuple[Tensor, bool]:
    """The members' data, and whether it is one tensor that all share."""
    first = parts[0]
    if all(p.data_ptr() == first.data_ptr() and p.shape == first.shape and p.stride() == first.stride() for p in parts):
        return first, True
    return torch.stack(list(parts)), False


class Replay:
    """A step's kernels recorded once for each batch size and replayed, without Python in between (CUDA graphs)."""

    def __init__(self, step: Callable[[Tensor], None], device: torch.device) -> None:
        self.step, self.device = step, device
        self.stream = torch.cuda.Stream(device)
        self.slots: dict[int, _Slot] = {}
        self.pool: Any = None
        self.refused = False

    def __call__(self, index: Tensor) -> None:
        slot = self.slots.setdefault(index.shape[1], _Slot(index))
        slot.index.copy_(index)
        if self.refused:
            self.step(slot.index)
        elif slot.warm < WARM:
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
        """The recording, or None, which it says, where the step cannot be recorded. Recording runs nothing."""
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
    """One batch size: where its sample numbers are put, how often it ran, its recording."""

    def __init__(self, index: Tensor) -> None:
        self.index = torch.empty(index.shape, dtype=index.dtype, device=index.device)
        self.warm = 0
        self.graph: torch.cuda.CUDAGraph | None = None
