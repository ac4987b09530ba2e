"""Who looks at whom: a model's attention maps, and how far they agree with another model's."""

from __future__ import annotations

import inspect
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from posenc.measure.evaluating import evaluating

CALL = inspect.signature(nn.MultiheadAttention.forward)


def attention_maps(model: nn.Module, *inputs: Any, literal_dropout: bool = False) -> Tensor:
    """``softmax(q k^T / sqrt(D))`` of every layer, ``(layers, B, H, Q, K)``, in eval mode without gradients.

    model: one with a method ``attention_maps(*inputs)``, as posenc's ``Encoder``, or any that calls
        ``nn.MultiheadAttention``: one map a call, in the order of the calls.
    inputs: what that method, or the model, is called with. literal_dropout: training mode instead, as in code that
        never calls ``eval()`` (github ljhearne/LSTNN_public); draws from torch's generator, and rows need not sum to 1.

    The model is left as it was: mode, buffers and hooks, also after an exception. Raises ValueError for a model of
    neither kind, or whose layers' maps differ in shape.
    """
    own = getattr(model, "attention_maps", None)
    layers = [module for module in model.modules() if isinstance(module, nn.MultiheadAttention)]
    if own is None and not layers:
        raise ValueError(
            f"{type(model).__name__} has no method attention_maps and no nn.MultiheadAttention in it, so its attention "
            "weights cannot be seen. Give it attention_maps(*inputs) -> (layers, B, H, Q, K)."
        )
    with evaluating(model, training=literal_dropout):
        if own is not None:
            return own(*inputs).detach()
        with _weights_kept(layers) as kept:
            model(*inputs)
    return _stacked(kept, type(model).__name__)


@contextmanager
def _weights_kept(layers: Sequence[nn.MultiheadAttention]) -> Iterator[list[Tensor]]:
    """Every call's weights, a head each. Each caller is given what it asked for, as if nobody listened."""
    kept: list[Tensor] = []
    asked: list[tuple[bool, bool]] = []

    def before(module: nn.Module, args: tuple, kwargs: dict) -> tuple[tuple, dict]:
        call = CALL.bind(module, *args, **kwargs)
        call.apply_defaults()
        asked.append((call.arguments["need_weights"], call.arguments["average_attn_weights"]))
        call.arguments |= {"need_weights": True, "average_attn_weights": False}
        return call.args[1:], call.kwargs

    def after(module: nn.Module, args: tuple, output: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor | None]:
        y, weights = output
        needed, averaged = asked.pop()
        kept.append((weights if weights.dim() == 4 else weights[None]).detach())
        if not needed:
            return y, None
        return y, weights.mean(-3) if averaged else weights

    hooks = []
    fast = torch.backends.mha.get_fastpath_enabled()  # the fused encoder layer calls no module within it
    try:
        torch.backends.mha.set_fastpath_enabled(False)
        for layer in layers:
            hooks += [layer.register_forward_pre_hook(before, with_kwargs=True), layer.register_forward_hook(after)]
        yield kept
    finally:
        torch.backends.mha.set_fastpath_enabled(fast)
        for hook in hooks:
            hook.remove()


def _stacked(kept: Sequence[Tensor], name: str) -> Tensor:
    if not kept:
        raise ValueError(
            f"{name} holds nn.MultiheadAttention but its forward never called it. Pass the part that does."
        )
    shapes = sorted({tuple(each.shape) for each in kept})
    if len(shapes) > 1:
        raise ValueError(
            f"The layers of {name} have attention maps of shapes {' and '.join(map(str, shapes))}, which do not stack. "
            "Measure parts with equal maps, as the encoder and the decoder apart."
        )
    return torch.stack(list(kept))


def agreement(maps: Tensor, reference: Tensor) -> list[dict[str, Any]]:
    """How alike two models look at the same puzzles, a row a layer and one, ``layer = "all"``, with the mean of layers.

    cosine: ``<a, b> / (|a| |b|)`` of each puzzle's map, all its ``Q K`` weights in a row; mean over puzzles and heads.
    cosine_of_mean: that of the maps' means over puzzles, mean over heads.
    jsd: ``H((p + q) / 2) - (H(p) + H(q)) / 2`` of each query's row, in bits, 0 to 1; mean over queries, heads, puzzles.
    jsd_distance: its square root a row, a metric, then the same mean.

    maps, reference: ``(layers, B, H, Q, K)``, weights of at least 0. For the divergence rows are scaled to sum 1, as
    after dropout they do not; rows without any weight, in either, are left out of it (all of them: nan).
    Raises ValueError for maps of different shapes or negative weights.
    """
    if maps.shape != reference.shape or maps.dim() != 5:
        raise ValueError(
            f"Attention maps are compared weight by weight, each (layers, B, H, Q, K); got {tuple(maps.shape)} and "
            f"{tuple(reference.shape)}: models of different shapes compared. Use models of one depth and one number of "
            "heads, on the same puzzles."
        )
    a, b = (each.detach().cpu().double() for each in (maps, reference))
    if min(a.min(), b.min()) < 0:
        raise ValueError("Attention weights are at least 0; got negative ones. Pass weights after the softmax.")
    bits = _divergence(a, b)
    columns = {
        "cosine": _cosine(a, b).mean((1, 2)),
        "cosine_of_mean": _cosine(a.mean(1), b.mean(1)).mean(1),
        "jsd": bits.nanmean((1, 2, 3)),
        "jsd_distance": bits.sqrt().nanmean((1, 2, 3)),
    }
    rows = [
        {"layer": layer} | {name: float(values[layer]) for name, values in columns.items()} for layer in range(len(a))
    ]
    return [*rows, {"layer": "all"} | {name: float(values.mean()) for name, values in columns.items()}]


def _cosine(a: Tensor, b: Tensor) -> Tensor:
    a, b = a.flatten(-2), b.flatten(-2)
    return (a * b).sum(-1) / (a.norm(dim=-1) * b.norm(dim=-1)).clamp(min=1e-300)


def _divergence(a: Tensor, b: Tensor) -> Tensor:
    """Jensen-Shannon in bits, ``(.., Q)``; nan for rows without weight."""
    p, q = a / a.sum(-1, keepdim=True), b / b.sum(-1, keepdim=True)
    entropy = torch.special.entr
    return (entropy((p + q) / 2) - (entropy(p) + entropy(q)) / 2).sum(-1).clamp(min=0) / math.log(2)
