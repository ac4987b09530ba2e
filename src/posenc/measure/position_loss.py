"""Loss by position: the mean loss of the tokens at each position of a text, for any model of the next token."""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float64, Int
from torch import Tensor, nn
from torch.nn import functional

from posenc.measure.evaluation_mode import evaluation_mode


def loss_by_position(model: nn.Module, tokens: Int[Tensor, "B N"], *, batch: int = 8) -> Float64[Tensor, "N-1"]:
    """Mean loss of the next token by its position, in nats.

    A model that does not read beyond its training length shows a rise there. Each position is an average over other
    tokens: compare models on the same tokens.

    Args:
        model: Model of the next token: its output, or the attribute ``logits`` of it, has the shape
            ``(B, N, vocabulary)``, as in transformers and in ``posenc.models.language``.
        tokens: Token numbers ``(B, N)`` of B texts of N tokens, on the model's device.
        batch: Number of texts at a time. Default 8.

    Returns:
        Mean losses ``(N - 1,)``. Entry p is for the token at position p + 1, predicted from the p + 1 tokens before it.

    Raises:
        ValueError: If ``tokens`` are not whole numbers from 0, ``(B, N)`` with N of at least 2, ``batch`` is below 1,
            or the model returns no logits of each token.

    Example:
        >>> import torch
        >>> from posenc.measure import loss_by_position
        >>> model = torch.nn.Embedding(50, 50)  # logits of the next token from the present one
        >>> loss_by_position(model, torch.randint(50, (4, 12))).shape
        torch.Size([11])
    """
    whole = isinstance(tokens, Tensor) and not tokens.is_floating_point() and tokens.dtype != torch.bool
    if not whole or tokens.dim() != 2 or tokens.shape[1] < 2 or not len(tokens):
        got = f"{tokens.dtype} of shape {tuple(tokens.shape)}" if isinstance(tokens, Tensor) else type(tokens).__name__
        raise ValueError(f"`tokens` are whole numbers of shape (B, N), with N of at least 2; got {got}.")
    if batch < 1:
        raise ValueError(f"`batch` is a number of texts, at least 1; got {batch}.")
    if int(tokens.min()) < 0:
        raise ValueError(f"`tokens` are numbers from 0; got {int(tokens.min())}. Cut off padding: pass whole texts.")
    total = torch.zeros(tokens.shape[1] - 1, dtype=torch.float64)
    with evaluation_mode(model):
        for part in tokens.split(batch):
            logits = _logits(model(part), part)[:, :-1]
            logits = logits if logits.dtype == torch.float64 else logits.float()
            losses = functional.cross_entropy(logits.flatten(0, 1), part[:, 1:].flatten().long(), reduction="none")
            total += losses.view(len(part), -1).double().sum(0).cpu()
    return total / len(tokens)


def _logits(output: Any, tokens: Tensor) -> Tensor:
    logits = getattr(output, "logits", output)
    if not isinstance(logits, Tensor) or logits.dim() != 3 or logits.shape[:2] != tokens.shape:
        got = tuple(logits.shape) if isinstance(logits, Tensor) else type(logits).__name__
        raise ValueError(
            f"the model returns logits of each token, {(*tokens.shape, 'vocabulary')}, or an object with `logits`; got "
            f"{got}. Wrap it in a module that returns them."
        )
    return logits
