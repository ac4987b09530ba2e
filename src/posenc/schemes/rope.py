"""RoPE: queries and keys are turned by their position, pair of channels by pair of channels.

    (x_a, x_b) -> (x_a cos m theta_i - x_b sin m theta_i,  x_b cos m theta_i + x_a sin m theta_i)
    theta_i = base^(-2i/d),  i = 0 .. d/2 - 1;   (R_m q) . (R_n k) = q . R_{n-m} k

Source: Su et al. 2021, arXiv 2104.09864, eqs. 14, 15, 34. Conventions: turns are counter-clockwise, positions from 0.
``pairing``: "interleaved" takes channels (2i, 2i+1), the paper's; "half" takes (i, i + d/2), as GPT-NeoX and Llama in
transformers; where d of a head's D channels turn, "across" takes (i, i + D/2), which some models mean by the same
words. They are the same up to a permutation of channels, the pairing travels with the angles, and
``posenc.kernels.rotary.repaired`` takes weights from one to another. A schedule's attention factor (YaRN, LongRoPE)
multiplies the channels that turn, of tokens that have a place.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

import posenc.frequencies as schedules  # not `from posenc`: the face would walk the schemes to find it
from posenc.frequencies import Frequencies
from posenc.kernels.rotary import PAIRINGS, Pairing, Turn, channels, spread, turn, turns
from posenc.positions import Positions, readable
from posenc.scheme import Claims, Scheme

BASE = 10000.0


class RoPE(Scheme):
    """``q_m -> R_m q_m``, ``k_n -> R_n k_n``: logits depend on positions through ``n - m`` alone.

    head_dim: channels that turn, even. of: the head's width if only so many of its channels turn. base: of the
    geometric schedule. frequencies: another schedule of ``head_dim / 2``, in radians a unit of position: a tensor, or
    Frequencies as ``posenc.frequencies.yarn`` makes them. pairing: which channels turn together.
    """

    cite = """@article{su2021roformer,
  title={RoFormer: Enhanced Transformer with Rotary Position Embedding},
  author={Su, Jianlin and Lu, Yu and Pan, Shengfeng and Murtadha, Ahmed and Wen, Bo and Liu, Yunfeng},
  journal={arXiv:2104.09864}, year={2021}}"""
    examples = (
        {"head_dim": 12},
        {"head_dim": 12, "pairing": "half"},
        {"head_dim": 8, "of": 12},
        {"head_dim": 8, "of": 12, "pairing": "half"},
        {"head_dim": 8, "of": 12, "pairing": "across"},
        {"head_dim": 12, "base": 500.0},
        {"head_dim": 8, "frequencies": schedules.ntk(4, factor=4.0)},
        {"head_dim": 8, "frequencies": schedules.yarn(4, factor=4.0, trained=64)},
    )
    conventions = ("pairing",)

    def __init__(
        self,
        head_dim: int,
        *,
        of: int | None = None,
        base: float = BASE,
        frequencies: Tensor | Frequencies | None = None,
        pairing: Pairing = "interleaved",
    ) -> None:
        super().__init__()
        if head_dim < 2 or head_dim % 2:
            part = f", or rotate a part: RoPE({head_dim - 1}, of={head_dim})" if head_dim > 2 else ""
            raise ValueError(
                f"RoPE rotates pairs of channels, so `head_dim` must be even; got {head_dim}. "
                f"Use {max(head_dim + 1, 2)}{part}."
            )
        if of is not None and of < head_dim:
            raise ValueError(f"RoPE turns {head_dim} channels of {of}; `of` is the larger: RoPE({of}, of={head_dim}).")
        if pairing not in PAIRINGS:
            raise ValueError(
                f"RoPE pairs channels 'interleaved' (2i, 2i+1), 'half' (i, i+d/2) or, for a part of the head, 'across' "
                f"(i, i+D/2); got {pairing!r}."
            )
        if pairing == "across" and (of or head_dim) % 2:
            raise ValueError(f"RoPE pairs 'across' the halves of a head, whose width must be even; got of={of}.")
        self.head_dim, self.of = head_dim, of or head_dim
        self.pairing: Pairing = pairing
        self.theta, self.attention_factor = _numbers(head_dim, base, frequencies)
        self.claims = Claims(
            translation="exact",
            isometric=self.attention_factor == 1,
            learned=False,
            range=None,
            axes=1,
            sites=frozenset({"q", "k"}),
            sharing="model",
            cacheable=True,
        )

    @property
    def head_width(self) -> int:
        return self.of

    def prepare(self, pos: Positions) -> Turn:
        self._take(pos)
        p = spread(pos.precise(), pos)
        theta = torch.tensor(self.theta, dtype=p.dtype, device=p.device)
        return turns(p * theta, pos, self.pairing, size=self.attention_factor, of=self.of)

    def transform(self, x: Tensor, where: Turn, site: Literal["q", "k", "v", "o"]) -> Tensor:
        if site not in ("q", "k"):
            return x
        if x.shape[-1] != self.of:
            raise ValueError(f"RoPE(.., of={self.of}) turns heads of that width, not {x.shape[-1]}: change `of`.")
        return turn(x, where)

    def rerotate(self, x: Tensor, where_from: Turn, where_to: Turn, site: Literal["k", "v"] = "k") -> Tensor:
        """``R_{n' - n} (R_n k)``: one more turn, by the difference."""
        return turn(x, where_to.after(where_from)) if site == "k" else x

    def define_transform(self, x: Tensor, p: Tensor, site: str, head: int) -> Tensor:
        y = list(x)
        for theta_i, (a, b) in zip(self.theta, channels(self.pairing, self.head_dim, self.of).tolist(), strict=True):
            cos, sin = torch.cos(p[0] * theta_i), torch.sin(p[0] * theta_i)
            y[a] = self.attention_factor * (x[a] * cos - x[b] * sin)
            y[b] = self.attention_factor * (x[b] * cos + x[a] * sin)
        return torch.stack(y) if site in ("q", "k") else x


def _numbers(head_dim: int, base: float, given: Tensor | Frequencies | None) -> tuple[tuple[float, ...], float]:
    """Frequencies and attention factor as numbers, not buffers: .to(bfloat16) must not round them."""
    if given is not None and base != BASE:
        raise ValueError(f"`frequencies` have a base already; got base={base:g} besides. Pass one of the two.")
    count, cpu = head_dim // 2, torch.device("cpu")
    value = schedules.geometric(count, base=base, device=cpu) if given is None else given
    value = value if isinstance(value, Frequencies) else Frequencies(value.detach().double())
    if tuple(value.theta.shape) != (count,):
        raise ValueError(
            f"RoPE({head_dim}) turns {count} pairs and needs as many frequencies; got shape "
            f"{tuple(value.theta.shape)}. Pass a tensor of {count} numbers in rad a position."
        )
    if readable(value.theta) and not bool(value.theta.isfinite().all()):
        raise ValueError(
            f"RoPE's frequencies must be finite; got {value.theta.tolist()}. Use posenc.frequencies.geometric."
        )
    return tuple(value.theta.tolist()), value.attention_factor
