"""Schedules of angular frequencies: pure functions from a count to radians a unit of position, in float64.

They are computed from numbers every time they are needed and never kept in a buffer, so no ``.to(bfloat16)`` can
round them (a rounded frequency is off by whole turns at the end of a long text).

    geometric    theta_i = base^(-i / count)                        Vaswani 2017, RoPE
    linear       theta_i / s                                        Chen et al. 2023
    ntk          (base s^(d / (d-2)))^(-2i / d)                     bloc97 2023
    dynamic_ntk  the same with an s that follows a stated length    emozilla 2023
    yarn         theta_i / s or theta_i, by turns in the training length, and a temperature   Peng et al. 2023
    llama3       the same with other bounds and no temperature      Llama 3.1
    longrope     theta_i / lambda_i, found by search, and a factor  Ding et al. 2024

None has a state: a schedule that depends on a length takes it as an argument. Change it in the middle of a text, and
keys that are cached already no longer fit.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Literal

import torch
from jaxtyping import Float64
from torch import Tensor


@dataclasses.dataclass(frozen=True, eq=False)
class Frequencies:
    """What a rotation needs of a schedule: ``theta`` in radians a unit of position, and a factor on q and on k.

    attention_factor: ``sqrt(1/t)`` of YaRN (section 3.4); the logits grow by its square.
    """

    theta: Float64[Tensor, " n"]
    attention_factor: float = 1.0

    def __post_init__(self) -> None:
        if not 0 < self.attention_factor < math.inf:
            raise ValueError(
                f"the attention factor multiplies q and k and is positive; got {self.attention_factor:g}. "
                "Leave it out for a schedule without one."
            )


def geometric(count: int, *, base: float = 10000.0, device: torch.device | None = None) -> Float64[Tensor, " n"]:
    """``omega_i = base^(-i / count)``, i = 0 .. count - 1: from 1 rad a unit down to almost 1 / base.

    With ``count = d / 2`` this is ``base^(-2i / d)`` of Vaswani et al. 2017 (arXiv 1706.03762, section 3.5) and of
    RoPE (arXiv 2104.09864, eq. 15).
    """
    if not 0 < base < math.inf:
        raise ValueError(f"the base of a geometric schedule is positive; got {base:g}. The papers use 10000.")
    exponent = torch.arange(count, dtype=torch.float64, device=device) / max(count, 1)
    return torch.as_tensor(float(base), dtype=torch.float64, device=device) ** -exponent


def linear(count: int, *, factor: float, base: float = 10000.0) -> Float64[Tensor, " n"]:
    """Position interpolation, ``theta_i / s``: positions up to ``s L`` are squeezed into the L of training.

    Chen et al. 2023, arXiv 2306.15595, eq. 4. factor: ``s >= 1``.
    """
    return geometric(count, base=base) / _stretch(factor)


def ntk(count: int, *, factor: float, base: float = 10000.0) -> Float64[Tensor, " n"]:
    """``base' = base s^(d / (d-2))``, d = 2 count: the fastest pair keeps its speed, the slowest is slowed by s.

    YaRN's account of "NTK-aware" interpolation, arXiv 2309.00071, definition 1. factor: ``s >= 1``.
    """
    if count < 2:
        raise ValueError(f"NTK-aware interpolation divides by d - 2 and needs two pairs or more; got {count}.")
    return geometric(count, base=base * _stretch(factor) ** (count / (count - 1)))


def dynamic_ntk(
    count: int, *, length: int, trained: int, factor: float = 1.0, base: float = 10000.0
) -> Float64[Tensor, " n"]:
    """``ntk`` with ``s = factor length / trained - (factor - 1)``, and no change up to the length of training.

    The form of transformers and of text-generation servers; ``factor = 1`` is arXiv 2309.00071, section 3.3. length:
    of the longest text that will be decoded with these frequencies, stated once.
    """
    _whole("length", length)
    _whole("trained", trained)
    return ntk(count, factor=max(1.0, _stretch(factor) * length / trained - (factor - 1)), base=base)


def yarn(
    count: int,
    *,
    factor: float,
    trained: int,
    base: float = 10000.0,
    alpha: float = 1.0,
    beta: float = 32.0,
    attention_factor: float | None = None,
    literal: bool | Literal["unrounded"] = False,
) -> Frequencies:
    """``theta_i' = (1 - g_i) theta_i / s + g_i theta_i``, ``g_i = clip((r_i - alpha) / (beta - alpha), 0, 1)``.

    ``r_i = L theta_i / 2 pi`` is how often pair i turns in the L tokens of training: pairs that turn more than beta
    times are left alone, those that turn less than alpha times are slowed by s. The attention factor is
    ``0.1 ln s + 1``. Peng et al. 2023, arXiv 2309.00071, eqs. 18 to 22.

    factor: s. trained: L. attention_factor: another one. literal: the authors' code (github jquesnelle/yarn) instead,
    whose ramp is linear in i, between the i that turn beta and alpha times rounded down and up; "unrounded": between
    those themselves, as models with ``truncate=False`` have it.
    """
    theta, s = geometric(count, base=base), _stretch(factor)
    _whole("trained", trained)
    if not 0 < alpha < beta:
        raise ValueError(f"YaRN's ramp rises from alpha to beta turns, 0 < alpha < beta; got {alpha:g} and {beta:g}.")
    if literal:
        keep = _ramp_of_the_code(count, trained, base, (alpha, beta), rounded=literal != "unrounded")
    else:
        keep = _ramp(theta, trained, alpha, beta)
    told = 0.1 * math.log(s) + 1 if attention_factor is None else attention_factor
    return Frequencies((1 - keep) * theta / s + keep * theta, told)


def llama3(
    count: int,
    *,
    factor: float = 8.0,
    trained: int = 8192,
    base: float = 500000.0,
    low: float = 1.0,
    high: float = 4.0,
) -> Float64[Tensor, " n"]:
    """Llama 3.1's: wavelengths above ``L / low`` are stretched by s, those below ``L / high`` kept, a ramp between.

    ``theta_i' = (1 - g_i) theta_i / s + g_i theta_i``, ``g_i = clip((L / lambda_i - low) / (high - low), 0, 1)`` with
    ``lambda_i = 2 pi / theta_i`` (github meta-llama/llama-models, ``apply_scaling``): YaRN's ramp, and no temperature.
    """
    if not 0 < low < high:
        raise ValueError(f"Llama's ramp rises from low to high, 0 < low < high; got {low:g} and {high:g}.")
    _whole("trained", trained)
    theta, s = geometric(count, base=base), _stretch(factor)
    keep = _ramp(theta, trained, low, high)
    return (1 - keep) * theta / s + keep * theta


def longrope(
    rescale: Sequence[float],
    *,
    trained: int,
    extended: int,
    base: float = 10000.0,
    attention_factor: float | None = None,
) -> Frequencies:
    """``theta_i' = theta_i / lambda_i``, with a ``lambda_i`` for every pair that a search has found.

    The attention factor is ``sqrt(1 + ln s / ln L)``, ``s = extended / trained``, 1 for s <= 1. Ding et al. 2024,
    arXiv 2402.13753, eq. 1, and the models released with it (Phi-3), which have one list of lambdas for texts up to
    ``trained`` tokens and one for longer: pass the one that is meant. The search and its first tokens without
    interpolation are left out.
    """
    _whole("trained", trained)
    _whole("extended", extended)
    if not rescale or min(rescale) <= 0:
        raise ValueError(f"LongRoPE divides each frequency by a positive lambda; got {list(rescale)}.")
    s = extended / trained
    told = math.sqrt(1 + math.log(s) / math.log(trained)) if s > 1 else 1.0
    theta = geometric(len(rescale), base=base) / torch.tensor(rescale, dtype=torch.float64)
    return Frequencies(theta, told if attention_factor is None else attention_factor)


def _ramp(theta: Tensor, trained: int, low: float, high: float) -> Tensor:
    """1 for pairs that turn more than ``high`` times in the training length, 0 for less than ``low`` times."""
    return ((trained * theta / (2 * math.pi) - low) / (high - low)).clamp(0, 1)


def _ramp_of_the_code(count: int, trained: int, base: float, bounds: tuple[float, float], *, rounded: bool) -> Tensor:
    def pair_that_turns(times: float) -> float:
        return count * math.log(trained / (times * 2 * math.pi)) / math.log(base)

    last, first = (pair_that_turns(times) for times in bounds)
    if rounded:
        first, last = math.floor(first), math.ceil(last)
    first, last = max(first, 0), min(last, 2 * count - 1)
    width = last - first if last != first else 0.001
    return 1 - ((torch.arange(count, dtype=torch.float64) - first) / width).clamp(0, 1)


def _stretch(factor: float) -> float:
    if not 1 <= factor < math.inf:
        raise ValueError(f"a context grows by a factor of at least 1; got {factor:g}. Pass new length / old length.")
    return float(factor)


def _whole(name: str, length: int) -> None:
    if length < 2:
        raise ValueError(f"`{name}` is a number of tokens, at least 2; got {length:g}.")
