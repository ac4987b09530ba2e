"""RoPE: rotary position embedding; each pair of channels of q and k rotates by an angle proportional to the position.

    (x_a, x_b) -> (x_a cos m theta_i - x_b sin m theta_i,  x_b cos m theta_i + x_a sin m theta_i)
    theta_i = base^(-2i/d),  i = 0 .. d/2 - 1;   (R_m q) . (R_n k) = q . R_{n-m} k

Source: Su et al. 2021, arXiv 2104.09864, eqs. 14, 15, 34.

Conventions:
- Rotations are counterclockwise, positions start at 0.
- The attention factor of a schedule (YaRN, LongRoPE) multiplies the rotated channels of tokens that have a position.
- Pairings differ by a permutation of channels, which ``posenc.kernels.rotary.convert_pairing`` applies to weights. The
  channels (a, b) of pair i are

      "interleaved"  (2i, 2i+1), the paper's
      "half"         (i, i + d/2), as GPT-NeoX and Llama in transformers
      "across"       (i, i + D/2), where only d of the head's D channels rotate; some models call this "half" too
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor
from typing_extensions import override

import posenc.frequencies as schedules  # `from posenc import frequencies` would import every scheme
from posenc.frequencies import Frequencies
from posenc.kernels.rotary import PAIRINGS, Pairing, Rotation, channels, prepare_rotation, rotate_head, with_head_axis
from posenc.kernels.wave_vectors import GivenFrequencies, frequency_tensor, given_frequencies
from posenc.positions import Positions, readable
from posenc.scheme import Claims, Scheme

BASE = 10000.0


class RoPE(Scheme):
    """Rotary position embedding: q and k rotate by position, so logits depend only on the distance ``n - m``.

        q_m -> R_m q_m,   k_n -> R_n k_n,   (R_m q_m) . (R_n k_n) = q_m . R_{n-m} k_n

    Args:
        head_dim: Number d of channels that rotate, even; the head's width unless ``of`` is larger.
        of: Width D of the head, if only the first d channels rotate (partial rotary embedding).
        base: Base of the geometric schedule.
        frequencies: Another schedule of ``head_dim / 2`` frequencies in radians per unit of position: numbers, a
            tensor, or ``Frequencies`` from ``posenc.frequencies`` (``ntk``, ``yarn``, ``llama3`` ..). Replaces
            ``base``.
        pairing: Channels that rotate together: "interleaved", "half" or "across" (see the module).

    Raises:
        ValueError: If ``head_dim`` is odd or above ``of``, ``pairing`` is unknown, or ``frequencies`` do not fit.

    Example:
        >>> import torch
        >>> from posenc import RoPE, attention, sequence
        >>> q, k, v = torch.randn(3, 1, 4, 6, 12).unbind()  # each (B, H, N, D)
        >>> attention(q, k, v, scheme=RoPE(12), q_pos=sequence(6)).shape
        torch.Size([1, 4, 6, 12])

    References:
        Su, Lu, Pan, Murtadha, Wen and Liu, 2021, "RoFormer: Enhanced Transformer with Rotary Position Embedding",
        arXiv 2104.09864, equations 14, 15 and 34.
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
        {"head_dim": 8, "frequencies": schedules.yarn(4, factor=4.0, trained=2048)},
    )
    conventions = ("pairing",)

    def __init__(
        self,
        head_dim: int,
        *,
        of: int | None = None,
        base: float = BASE,
        frequencies: GivenFrequencies | Frequencies | None = None,
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
            raise ValueError(f"RoPE rotates {head_dim} of {of} channels; `of` is the width: RoPE({of}, of={head_dim}).")
        if pairing not in PAIRINGS:
            raise ValueError(
                f"RoPE pairs channels 'interleaved' (2i, 2i+1), 'half' (i, i+d/2) or, for a part of the head, 'across' "
                f"(i, i+D/2); got {pairing!r}."
            )
        if pairing == "across" and (of or head_dim) % 2:
            raise ValueError(f"RoPE pairs 'across' the halves of a head, whose width must be even; got of={of}.")
        self.head_dim, self.of = head_dim, of or head_dim
        self.pairing: Pairing = pairing
        self.theta, self.attention_factor = _theta(head_dim, base, frequencies)
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
    @override
    def head_width(self) -> int:
        return self.of

    @override
    def prepare(self, pos: Positions) -> Rotation:
        self._take(pos)
        p = with_head_axis(pos.precise(), pos)
        theta = torch.tensor(self.theta, dtype=p.dtype, device=p.device)
        return prepare_rotation(p * theta, pos, self.pairing, size=self.attention_factor, of=self.of)

    @override
    def transform(self, x: Tensor, where: Rotation, site: Literal["q", "k", "v", "o"]) -> Tensor:
        if site not in ("q", "k"):
            return x
        return rotate_head(x, where, self.head_dim, self.of)

    @override
    def rerotate(self, x: Tensor, where_from: Rotation, where_to: Rotation, site: Literal["k", "v"] = "k") -> Tensor:
        """Rotate a cached key by the change of position: ``R_{n' - n} (R_n k)``."""
        return rotate_head(x, where_to.after(where_from), self.head_dim, self.of) if site == "k" else x

    @override
    def define_transform(self, x: Tensor, p: Tensor, site: str, head: int) -> Tensor:
        y = list(x)
        for theta_i, (a, b) in zip(self.theta, channels(self.pairing, self.head_dim, self.of).tolist(), strict=True):
            cos, sin = torch.cos(p[0] * theta_i), torch.sin(p[0] * theta_i)
            y[a] = self.attention_factor * (x[a] * cos - x[b] * sin)
            y[b] = self.attention_factor * (x[b] * cos + x[a] * sin)
        return torch.stack(y) if site in ("q", "k") else x


def _theta(head_dim: int, base: float, given: GivenFrequencies | Frequencies | None) -> tuple[tuple[float, ...], float]:
    """Frequencies and attention factor as Python floats, because ``.to(bfloat16)`` would round a buffer."""
    if given is not None and base != BASE:
        raise ValueError(f"`frequencies` have a base already; got base={base:g} besides. Pass one of the two.")
    count, cpu = head_dim // 2, torch.device("cpu")
    value = schedules.geometric(count, base=base, device=cpu) if given is None else given
    value = value if isinstance(value, Frequencies) else Frequencies(frequency_tensor(value))
    if tuple(value.theta.shape) != (count,):
        raise ValueError(
            f"RoPE({head_dim}) rotates {count} pairs and needs one frequency for each; got "
            f"{given_frequencies(getattr(given, 'theta', given))}. Pass {count} numbers in radians per position."
        )
    if readable(value.theta) and not bool(value.theta.isfinite().all()):
        raise ValueError(
            f"RoPE's frequencies must be finite; got {value.theta.tolist()}. Use posenc.frequencies.geometric."
        )
    return tuple(value.theta.tolist()), value.attention_factor
