"""Frequency schedules of rotations and sinusoids: pure functions that return angular frequencies in float64.

The unit is radians per unit of position. A scheme computes its frequencies from numbers whenever it needs them and
stores none in a buffer, so ``.to(bfloat16)`` cannot round them. A rounded frequency is wrong by whole turns at the end
of a long text.

    geometric    theta_i = base^(-i / count)                            Vaswani et al. 2017, RoPE
    economy      theta_s = 2 pi / (shortest r^s), r = e^(1/P)           Wei et al. 2015, GridPE
    linear       theta_i / s                                            Chen et al. 2023
    ntk          (base s^(d / (d-2)))^(-2i / d)                         bloc97 2023
    dynamic_ntk  ntk, with s computed from the text's length            emozilla 2023
    yarn         a ramp from theta_i / s to theta_i, and a temperature  Peng et al. 2023
    llama3       the ramp of yarn in wavelengths, no temperature        Llama 3.1
    longrope     theta_i / lambda_i, and a temperature                  Ding et al. 2024
    periods      2 pi k / T for the periods T of a calendar
    from_span    geometric, from the shortest to the longest period of the data

No schedule has a state. A schedule that depends on a length takes it as an argument. If the length changes during
decoding, cached keys no longer match; ``posenc.LengthRoPE`` keeps them right.
"""

from __future__ import annotations

import dataclasses
import math
import warnings
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Literal

import torch
from jaxtyping import Float64
from torch import Tensor

CITATIONS: Mapping[str, str] = MappingProxyType(
    {
        "geometric": """@inproceedings{vaswani2017attention,
  title={Attention Is All You Need},
  author={Vaswani, Ashish and Shazeer, Noam and Parmar, Niki and Uszkoreit, Jakob and Jones, Llion and Gomez, Aidan N
          and Kaiser, Lukasz and Polosukhin, Illia},
  booktitle={NeurIPS}, year={2017}, note={arXiv:1706.03762}}""",
        "economy": """@article{wei2015principle,
  title={A Principle of Economy Predicts the Functional Architecture of Grid Cells},
  author={Wei, Xue-Xin and Prentice, Jason and Balasubramanian, Vijay},
  journal={eLife}, volume={4}, year={2015}, note={arXiv:1304.0031}}""",
        "linear": """@misc{chen2023extending,
  title={Extending Context Window of Large Language Models via Positional Interpolation},
  author={Chen, Shouyuan and Wong, Sherman and Chen, Liangjian and Tian, Yuandong},
  year={2023}, note={arXiv:2306.15595}}""",
        "ntk": """@misc{bloc972023ntk,
  title={{NTK}-Aware Scaled {RoPE} allows {LLaMA} models to have extended (8k+) context size without any fine-tuning and
         minimal perplexity degradation},
  author={{bloc97}}, year={2023}, howpublished={Reddit, r/LocalLLaMA},
  url={https://www.reddit.com/r/LocalLLaMA/comments/14lz7j5/ntkaware_scaled_rope_allows_llama_models_to_have/}}""",
        "proportional": """@inproceedings{barbero2025round,
  title={Round and Round We Go! What Makes Rotary Positional Encodings Useful?},
  author={Barbero, Federico and Vitvitskyi, Alex and Perivolaropoulos, Christos and Pascanu, Razvan and
          Veličković, Petar},
  booktitle={ICLR}, year={2025}, note={arXiv:2410.06205}}""",
        "dynamic_ntk": """@misc{emozilla2023dynamic,
  title={Dynamically Scaled {RoPE} further increases performance of long context {LLaMA} with zero fine-tuning},
  author={{emozilla}}, year={2023}, howpublished={Reddit, r/LocalLLaMA},
  url={https://www.reddit.com/r/LocalLLaMA/comments/14mrgpr/dynamically_scaled_rope_further_increases/}}""",
        "yarn": """@inproceedings{peng2024yarn,
  title={{YaRN}: Efficient Context Window Extension of Large Language Models},
  author={Peng, Bowen and Quesnelle, Jeffrey and Fan, Honglu and Shippole, Enrico},
  booktitle={ICLR}, year={2024}, note={arXiv:2309.00071}}""",
        "llama3": """@misc{grattafiori2024llama3,
  title={The {Llama} 3 Herd of Models},
  author={Grattafiori, Aaron and Dubey, Abhimanyu and Jauhri, Abhinav and Pandey, Abhinav and Kadian, Abhishek and
          others},
  year={2024}, note={arXiv:2407.21783}}""",
        "longrope": """@inproceedings{ding2024longrope,
  title={{LongRoPE}: Extending {LLM} Context Window Beyond 2 Million Tokens},
  author={Ding, Yiran and Zhang, Li Lyna and Zhang, Chengruidong and Xu, Yuanyuan and Shang, Ning and Xu, Jiahang and
          Yang, Fan and Yang, Mao},
  booktitle={ICML}, year={2024}, note={arXiv:2402.13753}}""",
    }
)
"""BibTeX entry of the paper or post of each schedule, by the name of its function."""
MOST_TURNS = 32.0
"""YaRN's beta: turns within the training length above which a pair keeps its frequency."""


Period = Literal["second", "minute", "hour", "day", "week", "month", "year"]
"""Name of a period or unit of time."""
LENGTHS: Mapping[str, float] = MappingProxyType(
    {"second": 1.0, "minute": 60.0, "hour": 3600.0, "day": 86400.0, "week": 604800.0, "month": 2629746.0,
     "year": 31556952.0}
)  # fmt: skip
"""Length of each in seconds: a year is the mean one of the Gregorian calendar, 365.2425 days, a month a twelfth."""


@dataclasses.dataclass(frozen=True, eq=False)
class Frequencies:
    """A frequency schedule with an attention factor (YaRN's temperature).

    Attributes:
        theta: Angular frequencies in radians per unit of position, float64, of shape ``(n,)``; a list becomes a tensor.
        attention_factor: Factor on q and on k, ``sqrt(1/t)`` of YaRN, so the logits are multiplied by its square.
            Default 1.

    Raises:
        ValueError: If ``attention_factor`` is not positive and finite.

    Example:
        >>> from posenc import RoPE
        >>> from posenc.frequencies import Frequencies, geometric
        >>> RoPE(8, frequencies=Frequencies(geometric(4), attention_factor=1.1)).attention_factor
        1.1

    References:
        Peng et al. 2023, "YaRN", arXiv 2309.00071, section 3.4.
    """

    theta: Float64[Tensor, " n"]
    attention_factor: float = 1.0

    def __post_init__(self) -> None:
        if isinstance(self.theta, list | tuple):
            object.__setattr__(self, "theta", torch.tensor(self.theta, dtype=torch.float64, device="cpu"))
        if not 0 < self.attention_factor < math.inf:
            raise ValueError(
                f"the attention factor multiplies q and k and is positive; got {self.attention_factor:g}. "
                "Leave it out for a schedule without one."
            )


def geometric(count: int, *, base: float = 10000.0, device: torch.device | None = None) -> Float64[Tensor, " n"]:
    """Geometric frequencies, from 1 rad per unit of position down to almost 1 / base.

        theta_i = base^(-i / count),   i = 0 .. count - 1

    With ``count = d / 2`` this is ``base^(-2i / d)`` of the Transformer and of RoPE.

    Args:
        count: Number of frequencies, d / 2 for a rotation of d channels.
        base: Base of the geometric schedule. Default 10000.
        device: Device of the result. Default: torch's default device.

    Returns:
        Angular frequencies in radians per unit of position, float64, of shape ``(count,)``.

    Raises:
        ValueError: If ``base`` is not positive and finite.

    Example:
        >>> from posenc.frequencies import geometric
        >>> geometric(3, base=1000.0)
        tensor([1.0000, 0.1000, 0.0100], dtype=torch.float64)

    References:
        Vaswani et al. 2017, "Attention Is All You Need", arXiv 1706.03762, section 3.5;
        Su et al. 2021, "RoFormer", arXiv 2104.09864, eq. 15.
    """
    if not 0 < base < math.inf:
        raise ValueError(f"the base of a geometric schedule is positive; got {base:g}. The papers use 10000.")
    exponent = torch.arange(count, dtype=torch.float64, device=device) / max(count, 1)
    return torch.as_tensor(float(base), dtype=torch.float64, device=device) ** -exponent


def economy(
    *,
    axes: int = 2,
    shortest: float = 4.0,
    extent: float = 14.0,
    ratio: float | None = None,
    device: torch.device | None = None,
) -> Float64[Tensor, " n"]:
    """Wavelengths that grow by the ratio at which the fewest grid cells cover a space: e^(1/P) on P axes.

        theta_s = 2 pi / (shortest r^s),   s = 0, 1, .. until the wavelength is at least ``extent``

    Args:
        axes: Number P of axes of the positions. Default 2.
        shortest: Shortest wavelength, in units of position. Default 4.
        extent: Distance that the longest wave spans, in units of position. Default 14.
        ratio: Ratio r of neighboring wavelengths, above 1. Default ``e^(1/axes)``.
        device: Device of the result. Default: torch's default device.

    Returns:
        Angular frequencies in radians per unit of position, float64, of shape ``(scales,)``.

    Raises:
        ValueError: If ``shortest`` or ``extent`` is not positive and finite, or ``ratio`` is not above 1.

    Example:
        >>> from posenc import GridRotate
        >>> from posenc.frequencies import economy
        >>> economy(shortest=2.0, extent=8.0, ratio=2.0)
        tensor([3.1416, 1.5708, 0.7854], dtype=torch.float64)
        >>> GridRotate(12, frequencies=economy(shortest=2.0, ratio=2.0)).head_dim
        12

    References:
        Wei, Prentice and Balasubramanian 2015, eLife 4, arXiv 1304.0031;
        Li et al. 2024, "GridPE", arXiv 2406.07049, eqs. 9 to 11.
    """
    ratio = math.exp(1 / axes) if ratio is None else ratio
    if not (0 < shortest < math.inf and 0 < extent < math.inf and 1 < ratio < math.inf):
        raise ValueError(
            "wavelengths start at `shortest` > 0 and grow by `ratio` > 1 until they span `extent` > 0; got "
            f"shortest={shortest:g}, ratio={ratio:g}, extent={extent:g}. A grid of n x n tokens has extent=n."
        )
    count = 1 + max(0, math.ceil(math.log(extent / shortest) / math.log(ratio) - 1e-9))
    return 2 * math.pi / (shortest * ratio ** torch.arange(count, dtype=torch.float64, device=device))


def linear(count: int, *, factor: float, base: float = 10000.0) -> Float64[Tensor, " n"]:
    """Position interpolation (PI): positions up to ``s L`` are scaled into the training length L.

        theta_i' = theta_i / s

    Args:
        count: Number of frequencies, d / 2 for a rotation of d channels.
        factor: Extension s of the context, at least 1.
        base: Base of the geometric schedule. Default 10000.

    Returns:
        Angular frequencies in radians per unit of position, float64, of shape ``(count,)``.

    Raises:
        ValueError: If ``factor`` is below 1.

    Example:
        >>> from posenc.frequencies import linear
        >>> linear(3, factor=2.0, base=1000.0)
        tensor([0.5000, 0.0500, 0.0050], dtype=torch.float64)

    References:
        Chen et al. 2023, "Extending Context Window of Large Language Models via Positional Interpolation",
        arXiv 2306.15595, eq. 4.
    """
    return geometric(count, base=base) / _stretch(factor)


def ntk(count: int, *, factor: float, base: float = 10000.0) -> Float64[Tensor, " n"]:
    """NTK-aware interpolation: a larger base, so that slow pairs are slowed more than fast ones.

        theta_i' = (base s^(d / (d-2)))^(-2i / d),   d = 2 count

    The first pair keeps its frequency and the last one is divided by s.

    Args:
        count: Number of frequencies, d / 2 for a rotation of d channels; at least 2.
        factor: Extension s of the context, at least 1.
        base: Base of the geometric schedule. Default 10000.

    Returns:
        Angular frequencies in radians per unit of position, float64, of shape ``(count,)``.

    Raises:
        ValueError: If ``count`` is below 2 or ``factor`` below 1.

    Example:
        >>> from posenc.frequencies import ntk
        >>> ntk(3, factor=2.0, base=1000.0)
        tensor([1.0000, 0.0707, 0.0050], dtype=torch.float64)

    References:
        bloc97 2023, as given by Peng et al. 2023, "YaRN", arXiv 2309.00071, definition 1.
    """
    if count < 2:
        raise ValueError(f"NTK-aware interpolation divides by d - 2 and needs two pairs or more; got {count}.")
    return geometric(count, base=base * _stretch(factor) ** (count / (count - 1)))


def proportional(count: int, *, share: float, factor: float = 1.0, base: float = 10000.0) -> Float64[Tensor, " n"]:
    """p-RoPE: the fastest pairs turn as in RoPE, the others not at all, so they carry content over any distance.

        theta_i' = theta_i / s  for i < floor(p d / 2),  else 0,   theta_i = base^(-2i / d),   d = 2 count

    With p = 1 it is RoPE, with p = 0 no encoding. The exponent is over the whole width d. In partial rotary embedding,
    ``RoPE(p d, of=d)``, it is over the rotated part, so pairs as slow as those of RoPE turn: not the same. Gemma 4 has
    p = 0.25 and base 10^6 in its layers of full attention; transformers calls the schedule "proportional".

    Args:
        count: Number of frequencies, d / 2 for a head of d channels.
        share: Share p of the pairs that turn, from 0 to 1.
        factor: Extension s of the context, at least 1.
        base: Base of the geometric schedule. Default 10000.

    Returns:
        Angular frequencies in radians per unit of position, float64, of shape ``(count,)``.

    Raises:
        ValueError: If ``share`` is not between 0 and 1, or above 0 and less than one pair, or ``factor`` is below 1.

    Example:
        >>> from posenc.frequencies import proportional
        >>> proportional(4, share=0.5, base=10.0**4)
        tensor([1.0000, 0.1000, 0.0000, 0.0000], dtype=torch.float64)

    References:
        Barbero et al. 2024, "Round and Round We Go! What Makes Rotary Positional Encodings Useful?", arXiv 2410.06205.
    """
    if not 0 <= share <= 1:
        raise ValueError(f"`share` is the part of the pairs that turn, from 0 to 1; got {share:g}. Gemma 4 has 0.25.")
    turning = int(share * 2 * count // 2)
    if share > 0 and turning == 0:
        raise ValueError(
            f"share={share:g} of {count} pairs turns none. Give at least {1 / count:.4g}, or 0 for no rotation."
        )
    still = torch.arange(count) >= turning
    return linear(count, factor=factor, base=base).masked_fill(still, 0.0)


def dynamic_ntk(
    count: int, *, length: int, trained: int, factor: float = 1.0, base: float = 10000.0
) -> Float64[Tensor, " n"]:
    """Dynamic NTK interpolation: ``ntk`` with an extension that is computed from the length of the text.

        s = max(1, factor length / trained - (factor - 1))

    Frequencies do not change up to the training length. Text-generation servers use this form.

    Args:
        count: Number of frequencies, d / 2 for a rotation of d channels; at least 2.
        length: Length in tokens of the longest text that these frequencies will decode.
        trained: Training length L in tokens.
        factor: Growth of s with the length, at least 1. Default 1, which is the paper's form.
        base: Base of the geometric schedule. Default 10000.

    Returns:
        Angular frequencies in radians per unit of position, float64, of shape ``(count,)``.

    Raises:
        ValueError: If ``count`` or a length is below 2, or ``factor`` below 1.

    Example:
        >>> from posenc.frequencies import dynamic_ntk
        >>> dynamic_ntk(3, length=4096, trained=2048, base=1000.0)
        tensor([1.0000, 0.0707, 0.0050], dtype=torch.float64)

    References:
        emozilla 2023, as given by Peng et al. 2023, "YaRN", arXiv 2309.00071, section 3.3.
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
    beta: float | None = None,
    attention_factor: float | None = None,
    literal: bool | Literal["unrounded"] = False,
) -> Frequencies:
    """YaRN interpolation: slow pairs are divided by s, fast pairs are kept, with a ramp between them.

        theta_i' = (1 - g_i) theta_i / s + g_i theta_i
        g_i = clip((r_i - alpha) / (beta - alpha), 0, 1),   r_i = L theta_i / (2 pi)

    ``r_i`` is the number of turns of pair i within the training length L. The attention factor is ``0.1 ln s + 1``.

    The paper's beta of 32 turns is for training lengths of thousands of tokens. In a window below about 200 tokens no
    pair turns so often, so the ramp lowers every frequency, and a model loses what it learned of near tokens. A warning
    says so if beta is left out; alpha=0.5 and beta=2 keep the fast pairs there.

    Args:
        count: Number of frequencies, d / 2 for a rotation of d channels.
        factor: Extension s of the context, at least 1.
        trained: Training length L in tokens.
        base: Base of the geometric schedule. Default 10000.
        alpha: Turns below which a pair is divided by s. Default 1.
        beta: Turns above which a pair is kept. Default 32, with a warning if no pair turns so often.
        attention_factor: Factor on q and on k. Default ``0.1 ln s + 1``.
        literal: False, the default, for the paper's ramp. True for the ramp of the authors' code (github
            jquesnelle/yarn): linear in i, between the i of beta turns rounded down and the i of alpha turns rounded
            up. "unrounded" for that ramp without rounding, as in models with ``truncate=False``.

    Returns:
        The frequencies, ``theta`` of shape ``(count,)`` in radians per unit of position, and the attention factor.

    Raises:
        ValueError: If ``factor`` is below 1, ``trained`` below 2, or ``0 < alpha < beta`` does not hold.

    Example:
        >>> from posenc import RoPE
        >>> from posenc.frequencies import yarn
        >>> rope = RoPE(64, frequencies=yarn(32, factor=4.0, trained=2048))
        >>> round(rope.attention_factor, 3)
        1.139

    References:
        Peng et al. 2023, "YaRN: Efficient Context Window Extension of Large Language Models", arXiv 2309.00071,
        eqs. 18 to 22.
    """
    theta, s = geometric(count, base=base), _stretch(factor)
    _whole("trained", trained)
    turns = trained * float(theta.max()) / (2 * math.pi) if len(theta) else math.inf
    if beta is None and s > 1 and turns < MOST_TURNS and not literal:
        warnings.warn(
            f"yarn(factor={s:g}, trained={trained}): no pair turns {MOST_TURNS:g} times within {trained} tokens (the "
            f"fastest turns {turns:.3g} times), so every frequency is lowered, and near tokens are told apart less "
            f"well. For so short a window write alpha=0.5, beta=2; beta={MOST_TURNS:g} keeps the paper's ramp.",
            UserWarning,
            stacklevel=2,
        )
    beta = MOST_TURNS if beta is None else beta
    if not 0 < alpha < beta:
        raise ValueError(f"YaRN's ramp rises from alpha to beta turns, 0 < alpha < beta; got {alpha:g} and {beta:g}.")
    if not (isinstance(literal, bool) or literal == "unrounded"):
        raise ValueError(f"`literal` is True, False or 'unrounded'; got {literal!r}.")
    if literal:
        keep = _ramp_of_the_code(count, trained, base, (alpha, beta), rounded=literal != "unrounded")
    else:
        keep = _ramp(theta, trained, alpha, beta)
    scale = 0.1 * math.log(s) + 1 if attention_factor is None else attention_factor
    return Frequencies((1 - keep) * theta / s + keep * theta, scale)


def llama3(
    count: int,
    *,
    factor: float = 8.0,
    trained: int = 8192,
    base: float = 500000.0,
    low: float = 1.0,
    high: float = 4.0,
) -> Float64[Tensor, " n"]:
    """Frequency scaling of Llama 3.1: YaRN's ramp with other bounds, without an attention factor.

        theta_i' = (1 - g_i) theta_i / s + g_i theta_i
        g_i = clip((L / lambda_i - low) / (high - low), 0, 1),   lambda_i = 2 pi / theta_i

    Wavelengths above ``L / low`` are multiplied by s and those below ``L / high`` are kept.

    Args:
        count: Number of frequencies, d / 2 for a rotation of d channels.
        factor: Extension s of the context, at least 1. Default 8.
        trained: Training length L in tokens. Default 8192.
        base: Base of the geometric schedule. Default 500000.
        low: Turns within L below which a pair is divided by s. Default 1.
        high: Turns within L above which a pair is kept. Default 4.

    Returns:
        Angular frequencies in radians per unit of position, float64, of shape ``(count,)``.

    Raises:
        ValueError: If ``factor`` is below 1, ``trained`` below 2, or ``0 < low < high`` does not hold.

    Example:
        >>> from posenc.frequencies import llama3
        >>> llama3(4, factor=8.0, trained=64, base=100.0)
        tensor([1.0000, 0.2444, 0.0130, 0.0040], dtype=torch.float64)

    References:
        Llama 3.1, github meta-llama/llama-models, ``apply_scaling``.
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
    """LongRoPE interpolation: each frequency is divided by its own factor, which the authors found by a search.

        theta_i' = theta_i / lambda_i
        attention factor = sqrt(1 + ln s / ln L) for s = extended / trained > 1, else 1

    Released models (Phi-3) have two lists of lambdas, one for texts up to L tokens and one for longer texts. Pass the
    list that you need. The search is not part of this function, nor are first tokens without interpolation.

    Args:
        rescale: The ``lambda_i``, positive, one per frequency.
        trained: Training length L in tokens.
        extended: Extended length in tokens.
        base: Base of the geometric schedule. Default 10000.
        attention_factor: Factor on q and on k. Default: the formula above.

    Returns:
        The frequencies, ``theta`` of shape ``(len(rescale),)`` in radians per unit of position, and the attention
        factor.

    Raises:
        ValueError: If a length is below 2, or ``rescale`` is empty or has a value that is not positive.

    Example:
        >>> from posenc.frequencies import longrope
        >>> longrope([1.0, 2.0], trained=4096, extended=8192, base=100.0).theta
        tensor([1.0000, 0.0500], dtype=torch.float64)

    References:
        Ding et al. 2024, "LongRoPE", arXiv 2402.13753, eq. 1.
    """
    _whole("trained", trained)
    _whole("extended", extended)
    if not rescale or min(rescale) <= 0:
        raise ValueError(f"LongRoPE divides each frequency by a positive lambda; got {list(rescale)}.")
    s = extended / trained
    scale = math.sqrt(1 + math.log(s) / math.log(trained)) if s > 1 else 1.0
    theta = geometric(len(rescale), base=base) / torch.tensor(rescale, dtype=torch.float64)
    return Frequencies(theta, scale if attention_factor is None else attention_factor)


def periods(*names: Period | float, unit: Period | float = "second", harmonics: int = 1) -> Float64[Tensor, " n"]:
    """Frequencies of known periods, as of a calendar: day, week and year.

        theta = 2 pi k unit / T,   k = 1 .. harmonics

    A sine and a cosine of them are equal at times that lie one period apart. Pass them to
    ``Sinusoid(frequencies=)``, ``FourierFeatures(frequencies=)`` or ``RoPE(frequencies=)``.

    Args:
        *names: Periods T: "minute", "hour", "day", "week", "month" (30.436875 days) or "year" (365.2425 days), or
            numbers in units of the positions.
        unit: Unit of the positions: "second" (default), one of the names, or its length in seconds.
        harmonics: Number of multiples k of each frequency. A cycle that is not a sine needs several. Default 1.

    Returns:
        Angular frequencies in radians per unit of position, float64, of shape ``(len(names) * harmonics,)``: all
        multiples of the first period, then those of the next.

    Raises:
        ValueError: If no period is given, a name is unknown, or a number is not positive and finite.

    Example:
        >>> from posenc.frequencies import periods
        >>> periods("day", "week", unit="day")
        tensor([6.2832, 0.8976], dtype=torch.float64)
    """
    if any(isinstance(name, list | tuple) for name in names) or not isinstance(harmonics, int):
        raise ValueError(
            "periods are named one by one, as periods('day', 'week', unit='day', harmonics=2), with a whole number of "
            f"harmonics; got {', '.join(map(repr, names))} and harmonics={harmonics!r}."
        )
    if not names or harmonics < 1:
        raise ValueError(
            f"periods are named, as periods('day', 'week', unit='day'), with harmonics >= 1; got {len(names)} periods "
            f"and harmonics={harmonics}."
        )
    length = _seconds(unit)
    found = [_seconds(name) / length if isinstance(name, str) else float(name) for name in names]
    bad = next((each for each in found if not 0 < each < math.inf), None)
    if bad is not None:
        raise ValueError(f"a period is a positive number of units; got {bad:g}. Name it, or pass its length.")
    return torch.tensor(
        [2 * math.pi * k / each for each in found for k in range(1, harmonics + 1)], dtype=torch.float64
    )


def from_span(count: int, *, shortest: float, longest: float) -> Float64[Tensor, " n"]:
    """Geometric frequencies whose periods go from the shortest to the longest distance of the data.

        theta_i = (2 pi / shortest) (shortest / longest)^(i / (count - 1)),   i = 0 .. count - 1

    The usual schedule has periods of 6 to 60,000 units, which fits tokens. Times in seconds or in days need their own:
    ``shortest`` about twice the distance between neighbors, ``longest`` about the length of a sample or more. Positions
    in another unit, with both numbers in that unit, then give the same encoding.

    Args:
        count: Number of frequencies, d / 2 for d channels; at least 2.
        shortest: Shortest period, in units of the positions.
        longest: Longest period, in units of the positions; more than ``shortest``.

    Returns:
        Angular frequencies in radians per unit of position, float64, of shape ``(count,)``, from the highest.

    Raises:
        ValueError: If ``count`` is below 2, or ``0 < shortest < longest`` does not hold.

    Example:
        >>> from posenc.frequencies import from_span
        >>> from_span(3, shortest=1.0, longest=100.0)
        tensor([6.2832, 0.6283, 0.0628], dtype=torch.float64)
    """
    if isinstance(shortest, str) or isinstance(longest, str):
        raise ValueError(
            f"the span is two numbers in units of the positions; got {shortest=}, {longest=}. For a day in hours "
            "write 24."
        )
    if count < 2 or not 0 < shortest < longest < math.inf:
        raise ValueError(
            "frequencies from a span are at least 2, with 0 < shortest < longest; got "
            f"count={count}, shortest={shortest:g}, longest={longest:g}."
        )
    step = torch.arange(count, dtype=torch.float64) / (count - 1)
    return 2 * math.pi / shortest * (shortest / longest) ** step


def _seconds(unit: str | float) -> float:
    """Length of a unit of time in seconds."""
    if isinstance(unit, str) and unit in LENGTHS:
        return LENGTHS[unit]
    if isinstance(unit, str) or not 0 < unit < math.inf:
        raise ValueError(f"units of time are {', '.join(LENGTHS)}, or a number of seconds; got {unit!r}.")
    return float(unit)


def _ramp(theta: Tensor, trained: int, low: float, high: float) -> Tensor:
    """A ramp from 0 for pairs with ``low`` turns within the training length to 1 for pairs with ``high`` turns."""
    return ((trained * theta / (2 * math.pi) - low) / (high - low)).clamp(0, 1)


def _ramp_of_the_code(count: int, trained: int, base: float, bounds: tuple[float, float], *, rounded: bool) -> Tensor:
    """The ramp of the code released with YaRN: linear in the index of the pair, not in its turns."""

    def pair_that_turns(times: float) -> float:
        return count * math.log(trained / (times * 2 * math.pi)) / math.log(base)

    last, first = (pair_that_turns(times) for times in bounds)
    if rounded:
        first, last = math.floor(first), math.ceil(last)
    first, last = max(first, 0), min(last, 2 * count - 1)
    width = last - first if last != first else 0.001
    return 1 - ((torch.arange(count, dtype=torch.float64) - first) / width).clamp(0, 1)


def _stretch(factor: float) -> float:
    if isinstance(factor, str) or not 1 <= factor < math.inf:
        raise ValueError(f"a context grows by a factor of at least 1; got {factor}. Pass new length / old length.")
    return float(factor)


def _whole(name: str, length: int) -> None:
    if isinstance(length, str) or not 2 <= length < math.inf:
        raise ValueError(f"`{name}` is a number of tokens, at least 2; got {length}.")
