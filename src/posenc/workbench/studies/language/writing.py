"""How a trained model writes: what it goes on with, and how fast, with the keys of what it has read in a cache."""

from __future__ import annotations

import time

import torch
from torch import Tensor

from posenc.models.cache import Cache
from posenc.models.generation import extend, generate
from posenc.models.language import LanguageModel

TIMED = 16
"""Tokens that are said, to take the time of the fastest: what another process takes away counts for less."""


def can_write(model: LanguageModel) -> bool:
    return all(scheme.claims.cacheable for scheme in model.unique_schemes)


def written(model: LanguageModel, prompt: Tensor, count: int, seed: int) -> Tensor:
    """What ``count`` tokens the model goes on with after a prompt ``(N,)``, drawn as its probabilities are."""
    generator = torch.Generator(model.head.weight.device).manual_seed(seed)
    return generate(model, prompt[None].to(model.head.weight.device), count, generator=generator)[0].cpu()


def tokens_a_second(model: LanguageModel, text: Tensor) -> float:
    """Of one text at a time, when the model has read all of ``text (N,)`` but the last ``TIMED`` tokens, or half."""
    tokens, held = text[None].to(model.head.weight.device), Cache(room=len(text))
    first = max(len(text) // 2, len(text) - TIMED)
    extend(model, tokens[:, :first], held)
    took = []
    for place in range(first, len(text)):
        began = time.perf_counter()
        extend(model, tokens[:, place : place + 1], held)[0, -1, 0].item()  # another device is waited for
        took.append(time.perf_counter() - began)
    return 1 / min(took)
