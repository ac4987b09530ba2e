"""Stacked models of one structure: one weight matrix with a row per model, and vmapped losses.

    values (M, W),   parts[name] = values[:, a:b] as (M, *shape),   losses (M,) = vmap(score)(parts, fixed, batch)

The parameters and buffers of the models become views of the stack's memory, so each model stays usable on its own.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap
from torch.nn.attention import SDPBackend, sdpa_kernel

from posenc.scheme import Scheme

ALIGN = 32
"""Alignment of a tensor in its row, in numbers: products on tensor cores need at least 16 bytes."""


@dataclasses.dataclass(frozen=True)
class Span:
    """Location of one trained tensor in a row of the weight matrix."""

    name: str
    start: int
    shape: torch.Size

    @property
    def stop(self) -> int:
        """First number after the tensor."""
        return self.start + self.shape.numel()

    @property
    def end(self) -> int:
        """Start of the next tensor, with alignment."""
        return -(-self.stop // ALIGN) * ALIGN


class Stack:
    """Stack of M models of one structure.

    ``values`` and ``grads`` are ``(M, W)``, and ``rows`` are the rows of ``values`` as parameters. A row holds the
    trained tensors in the order of ``parameters()``, with zeros between them. ``join`` converts a row to the vector of
    a single run (``FlatParameters``), and ``divide`` converts it back.

    Args:
        models: the models.

    Raises:
        ValueError: models that differ in more than the values of their tensors.
    """

    def __init__(self, models: Sequence[nn.Module]) -> None:
        refuse_other_structure(models)
        self.models, first = list(models), models[0]
        self.spans: list[Span] = []
        for name, parameter in first.named_parameters():
            if parameter.requires_grad:
                start = self.spans[-1].end if self.spans else 0
                self.spans.append(Span(name, start, parameter.shape))
        one = first.get_parameter(self.spans[0].name)
        self.values = one.new_zeros(len(models), self.spans[-1].end, requires_grad=False)
        self.grads = torch.zeros_like(self.values)
        for row, model in zip(self.values, models, strict=True):
            for span in self.spans:
                parameter = model.get_parameter(span.name)
                view = row[span.start : span.stop].view(span.shape)
                view.copy_(parameter.detach())
                parameter.data = view
        self.parts = {
            s.name: self.values[:, s.start : s.stop].unflatten(1, s.shape or (1,)).view(-1, *s.shape).requires_grad_()
            for s in self.spans
        }
        self.rows = [nn.Parameter(row) for row in self.values]
        for row, grad in zip(self.rows, self.grads, strict=True):
            row.grad = grad
        self.fixed = {name: self._share(name) for name in _fixed(first)}
        self.between = {s.name: self.values.new_zeros(len(models), s.end - s.stop) for s in self.spans}

    def _share(self, name: str) -> Tensor:
        """Stack a buffer or frozen parameter of all models to ``(M, *shape)``; the models' own become views of it."""
        stacked = torch.stack([_fixed(model)[name].detach() for model in self.models])
        for model, own in zip(self.models, stacked, strict=True):
            _fixed(model)[name].data = own
        return stacked

    def losses(self, score: Callable[..., Tensor], batch: Sequence[Tensor]) -> Tensor:
        """Compute the losses ``(M,)`` of all models on batches ``(M, B, ..)``. Each model draws its own dropout."""

        def one(parts: dict[str, Tensor], fixed: dict[str, Tensor], *batch: Tensor) -> Tensor:
            def model(*arguments: Any) -> Any:
                return functional_call(self.models[0], {**parts, **fixed}, arguments)

            return score(model, *batch)

        # fused attention has no batching rule on CPUs, and on other devices none for a mask that all models share
        with sdpa_kernel(SDPBackend.MATH):
            return vmap(one, randomness="different")(self.parts, self.fixed, *batch)

    def clear(self) -> None:
        """Remove the gradients."""
        for part in self.parts.values():
            part.grad = None

    def join_gradients(self) -> None:
        """Copy the gradients of all tensors to ``grads``; zero for a tensor that the loss does not depend on."""
        pieces = []
        for name, part in self.parts.items():
            grad = torch.zeros_like(part) if part.grad is None else part.grad
            pieces += [grad.reshape(len(grad), -1), self.between[name]]
        torch.cat(pieces, 1, out=self.grads)

    def join(self, row: Tensor) -> Tensor:
        """Convert a row ``(W,)`` to the vector of a single run; a copy."""
        return torch.cat([row[span.start : span.stop] for span in self.spans])

    def divide(self, vector: Tensor) -> Tensor:
        """Convert the vector of a single run to a row ``(W,)``."""
        row = self.values.new_zeros(self.values.shape[1])
        parts = vector.split([span.shape.numel() for span in self.spans])
        for span, part in zip(self.spans, parts, strict=True):
            row[span.start : span.stop] = part
        return row

    def state_of(self, member: int) -> tuple[Tensor, dict[str, Tensor]]:
        """Return a model's weight vector, and its ``state_dict`` as views of it, as copies on the CPU."""
        model = self.models[member]
        vector = self.join(self.values[member]).cpu()
        parts = vector.split([span.shape.numel() for span in self.spans])
        own = {
            id(model.get_parameter(span.name)): part.view(span.shape)
            for span, part in zip(self.spans, parts, strict=True)
        }
        state = model.state_dict(keep_vars=True)
        return vector, {n: own[id(t)] if id(t) in own else t.detach().cpu().clone() for n, t in state.items()}

    def release(self) -> None:
        """Give every model separate memory again."""
        for model in self.models:
            for tensor in (*model.parameters(), *model.buffers()):
                tensor.data = tensor.data.clone()


def _fixed(model: nn.Module) -> dict[str, Tensor]:
    frozen = {name: p for name, p in model.named_parameters() if not p.requires_grad}
    return frozen | dict(model.named_buffers())


def refuse_other_structure(models: Sequence[nn.Module]) -> None:
    """Raise ValueError unless all models have the modules and the names, shapes and dtypes of tensors of the first."""
    first = _structure(models[0])
    if not any(kind == "trained" for kind, *_ in first.values()):
        raise ValueError("batched training needs models with at least one trained parameter.")
    for number, model in enumerate(models):
        other = _structure(model)
        for name in {**first, **other}:
            ours, theirs = first.get(name, ("absent",)), other.get(name, ("absent",))
            if ours != theirs:
                raise ValueError(
                    f"models in batched training differ in values alone; in model {number}, {name} is "
                    f"{' '.join(map(str, theirs))}, and in model 0 {' '.join(map(str, ours))}. Train it by itself."
                )


def _structure(model: nn.Module) -> dict[str, tuple[object, ...]]:
    structure: dict[str, tuple[object, ...]] = {}
    for name, module in model.named_modules():  # schemes may differ in values, such as a standard deviation
        options = "" if isinstance(module, Scheme) else module.extra_repr()
        structure[name or "the model"] = (type(module).__name__, options)
    for name, tensor in (*model.named_parameters(), *model.named_buffers()):
        kind = "trained" if tensor.requires_grad else "fixed"
        structure[name] = (kind, tuple(tensor.shape), tensor.dtype, tensor.device)
    return structure
