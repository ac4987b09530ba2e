"""Text that a trained model generates, and its speed with a cache of keys and values."""

from __future__ import annotations

import time

import torch
from torch import Tensor

from posenc.models.cache import Cache
from posenc.models.generation import extend, generate
from posenc.models.language import LanguageModel

TIMED_TOKENS = 16
"""Generated tokens that are timed. The fastest counts, so that other processes change the result little."""


def is_cacheable(model: LanguageModel) -> bool:
    """Return True if all schemes of a model allow a cache of keys and values."""
    return all(scheme.claims.cacheable for scheme in model.unique_schemes)


def continuation(model: LanguageModel, prompt: Tensor, count: int, seed: int) -> Tensor:
    """``count`` tokens after a prompt ``(N,)``, drawn from the predicted probabilities."""
    generator = torch.Generator(model.head.weight.device).manual_seed(seed)
    return generate(model, prompt[None].to(model.head.weight.device), count, generator=generator)[0].cpu()


def tokens_per_second(model: LanguageModel, context: Tensor) -> float:
    """Speed of generation, one text at a time, at the end of a context ``(N,)``."""
    tokens, cache = context[None].to(model.head.weight.device), Cache(room=len(context))
    first = max(len(context) // 2, len(context) - TIMED_TOKENS)
    extend(model, tokens[:, :first], cache)
    seconds = []
    for place in range(first, len(context)):
        began = time.perf_counter()
        extend(model, tokens[:, place : place + 1], cache)[0, -1, 0].item()  # this waits for another device
        seconds.append(time.perf_counter() - began)
    return 1 / min(seconds)
