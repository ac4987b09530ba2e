"""Attention maps of a model, and their similarity to the attention maps of another model."""

from __future__ import annotations

import inspect
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from posenc.measure.evaluation_mode import evaluation_mode

CALL = inspect.signature(nn.MultiheadAttention.forward)


def attention_maps(model: nn.Module, *inputs: Any, literal_dropout: bool = False) -> Tensor:
    """Compute the attention maps ``softmax(q k^T / sqrt(D))`` of every layer, in eval mode and without gradients.

    Mode, buffers and hooks of the model are restored afterwards, also after an exception.

    Args:
        model: a model with a method ``attention_maps(*inputs)``, as posenc's ``Encoder``, or one that calls
            ``nn.MultiheadAttention``; then each call gives one map, in the order of the calls.
        inputs: arguments of that method, or of the model.
        literal_dropout: whether to use training mode instead, as code that never calls ``eval()`` does (github
            ljhearne/LSTNN_public). Dropout then draws from torch's generator, and rows need not sum to 1.

    Returns:
        Attention weights ``(layers, B, H, Q, K)``.

    Raises:
        ValueError: a model of neither kind, or one whose layers' maps differ in shape.
    """
    own = getattr(model, "attention_maps", None)
    layers = [module for module in model.modules() if isinstance(module, nn.MultiheadAttention)]
    if own is None and not layers:
        raise ValueError(
            f"{type(model).__name__} has no method attention_maps and no nn.MultiheadAttention in it, so its attention "
            "weights cannot be seen. Give it attention_maps(*inputs) -> (layers, B, H, Q, K)."
        )
    with evaluation_mode(model, training=literal_dropout):
        if own is not None:
            return own(*inputs).detach()
        with _recorded_weights(layers) as maps:
            model(*inputs)
    return _stacked(maps, type(model).__name__)


@contextmanager
def _recorded_weights(layers: Sequence[nn.MultiheadAttention]) -> Iterator[list[Tensor]]:
    """Record the attention weights of every call, per head. Callers still get the outputs that they requested."""
    maps: list[Tensor] = []
    requests: list[tuple[bool, bool]] = []

    def before(module: nn.Module, args: tuple, kwargs: dict) -> tuple[tuple, dict]:
        call = CALL.bind(module, *args, **kwargs)
        call.apply_defaults()
        requests.append((call.arguments["need_weights"], call.arguments["average_attn_weights"]))
        call.arguments |= {"need_weights": True, "average_attn_weights": False}
        return call.args[1:], call.kwargs

    def after(module: nn.Module, args: tuple, output: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor | None]:
        y, weights = output
        needed, averaged = requests.pop()
        maps.append((weights if weights.dim() == 4 else weights[None]).detach())
        if not needed:
            return y, None
        return y, weights.mean(-3) if averaged else weights

    hooks = []
    fast = torch.backends.mha.get_fastpath_enabled()  # the fused encoder layer would not call the hooked modules
    try:
        torch.backends.mha.set_fastpath_enabled(False)
        for layer in layers:
            hooks += [layer.register_forward_pre_hook(before, with_kwargs=True), layer.register_forward_hook(after)]
        yield maps
    finally:
        torch.backends.mha.set_fastpath_enabled(fast)
        for hook in hooks:
            hook.remove()


def _stacked(maps: Sequence[Tensor], name: str) -> Tensor:
    if not maps:
        raise ValueError(
            f"{name} holds nn.MultiheadAttention but its forward never called it. Pass the part that does."
        )
    shapes = sorted({tuple(each.shape) for each in maps})
    if len(shapes) > 1:
        raise ValueError(
            f"The layers of {name} have attention maps of shapes {' and '.join(map(str, shapes))}, which do not stack. "
            "Measure parts with equal maps, as the encoder and the decoder apart."
        )
    return torch.stack(list(maps))


def attention_map_similarity(maps: Tensor, reference: Tensor) -> list[dict[str, Any]]:
    """Compute the similarity of two models' attention maps on the same samples, per layer.

    The columns of the result are:

    - cosine: cosine similarity ``<a, b> / (|a| |b|)`` of each sample's flattened map, mean over samples and heads.
    - cosine_of_mean: cosine similarity of the maps' means over samples, mean over heads.
    - jsd: Jensen-Shannon divergence ``H((p + q) / 2) - (H(p) + H(q)) / 2`` of each query's row, in bits, 0 to 1; mean
      over queries, heads and samples.
    - jsd_distance: square root of the divergence of each row, which is a metric; then the same mean.

    For the divergence, rows are scaled to sum 1, because after dropout they do not. Rows without weight in either map
    are left out; if that leaves none, the divergence is nan.

    Args:
        maps: attention weights ``(layers, B, H, Q, K)``, at least 0.
        reference: attention weights of the other model, of the same shape.

    Returns:
        One row ``{layer, cosine, cosine_of_mean, jsd, jsd_distance}`` per layer, and one with ``layer = "all"`` that
        holds the means over layers.

    Raises:
        ValueError: maps of different shapes or without a weight, or weights that are negative or not finite.
    """
    if maps.shape != reference.shape or maps.dim() != 5:
        raise ValueError(
            f"Attention maps are compared weight by weight, each (layers, B, H, Q, K); got {tuple(maps.shape)} and "
            f"{tuple(reference.shape)}: models of different shapes compared. Use models of one depth and one number of "
            "heads, on the same puzzles."
        )
    a, b = (each.detach().cpu().double() for each in (maps, reference))
    if not a.numel():
        raise ValueError(f"There are no attention weights to compare; got maps {tuple(maps.shape)}. Pass a sample.")
    if not bool(a.isfinite().all() and b.isfinite().all()):
        raise ValueError("Attention weights are finite; some are nan or infinite. Did training diverge?")
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
    """Return the Jensen-Shannon divergence of rows in bits, ``(.., Q)``; nan for rows without weight."""
    p, q = a / a.sum(-1, keepdim=True), b / b.sum(-1, keepdim=True)
    entropy = torch.special.entr
    return (entropy((p + q) / 2) - (entropy(p) + entropy(q)) / 2).sum(-1).clamp(min=0) / math.log(2)
