"""Sectioned RoPE: multimodal rotary embedding (M-RoPE); sections of one schedule rotate by time, height and width.

    pair i:  (x, y) -> rotation by p_{a(i)} theta_i,    theta_i = base^(-2i/d),  i = 0 .. d/2 - 1

Source: Wang et al. 2024, arXiv 2409.12191, section 2.1 ("M-RoPE", Qwen2-VL), where ``sections`` are 16, 24 and 24
pairs of 64 and base is 10^6.

Conventions:
- A section is counted in pairs of channels; axes are (time, height, width).
- A text token has the same position on all three axes, which makes this plain RoPE.
- "blocks" places the sections one after the other, so that time has the fastest pairs.
- "interleaved" assigns pairs to axes as ``t h w t h w ..`` until an axis has its number of pairs, and the rest to the
  first axis (Qwen3-VL in transformers).
- "time last" alternates the other axes over the fastest pairs, ``h w h w ..``, and leaves the slowest to time:
  VideoRoPE (Wei et al. 2025, arXiv 2502.05173, with the positions of ``posenc.video_rope``) and Ernie 4.5 VL.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Literal

import torch
from torch import Tensor
from typing_extensions import override

from posenc.frequencies import geometric
from posenc.kernels.rotary import PAIRINGS, Pairing, Rotation, channels, prepare_rotation, rotate, with_head_axis
from posenc.kernels.shape_checks import require_width
from posenc.positions import Positions
from posenc.scheme import Claims, Scheme


def _block_axes(sections: tuple[int, ...]) -> tuple[int, ...]:
    """Axis of each pair where the sections stand one after the other."""
    return tuple(axis for axis, count in enumerate(sections) for _ in range(count))


def _interleaved_axes(sections: tuple[int, ...]) -> tuple[int, ...]:
    """Axis of each pair: ``i mod P`` until that axis has all pairs of its section, then the first axis."""
    axes = len(sections)
    return tuple(i % axes if i < axes * sections[i % axes] else 0 for i in range(sum(sections)))


def _time_last_axes(sections: tuple[int, ...]) -> tuple[int, ...]:
    """Axis of each pair where all but the first alternate over the fastest pairs."""
    others = len(sections) - 1
    fast = sum(sections[1:])
    return tuple(1 + i % others if others and i < fast else 0 for i in range(sum(sections)))


Arrangement = Literal["blocks", "interleaved", "time last"]
ARRANGEMENTS: Mapping[str, Callable[[tuple[int, ...]], tuple[int, ...]]] = MappingProxyType(
    {"blocks": _block_axes, "interleaved": _interleaved_axes, "time last": _time_last_axes}
)
"""Axes of the pairs of each arrangement."""


class SectionedRoPE(Scheme):
    """Multimodal rotary embedding: pair i of q and k rotates by the position on axis ``a(i)``.

        q_p -> R(theta_i p_{a(i)}) q_p,   k_p -> R(theta_i p_{a(i)}) k_p,   logits depend on ``p_k - p_q`` alone

    Args:
        head_dim: Width d of a head in channels, even.
        sections: Number of pairs of each axis; their sum is ``head_dim / 2``.
        base: Base of the geometric schedule.
        arrangement: Order of the axes over the pairs: "blocks", "interleaved" or "time last" (see the module).
        pairing: Channels that rotate together: "interleaved", (2i, 2i+1); "half" or "across", (i, i + d/2).

    Raises:
        ValueError: If the sections do not fit ``head_dim`` or the arrangement, or a named choice is unknown.

    Example:
        >>> import torch
        >>> from posenc import SectionedRoPE, attention, grid
        >>> q, k, v = torch.randn(3, 1, 4, 8, 12).unbind()  # each (B, H, N, D)
        >>> scheme = SectionedRoPE(12, sections=(2, 2, 2))
        >>> attention(q, k, v, scheme=scheme, q_pos=grid(2, 2, 2)).shape
        torch.Size([1, 4, 8, 12])

    References:
        Wang, Bai, Tan, Wang, Fan, Bai et al., 2024, "Qwen2-VL: Enhancing Vision-Language Model's Perception of the
        World at Any Resolution", arXiv 2409.12191, section 2.1.
    """

    cite = """@article{wang2024qwen2vl,
  title={Qwen2-VL: Enhancing Vision-Language Model's Perception of the World at Any Resolution},
  author={Wang, Peng and Bai, Shuai and Tan, Sinan and Wang, Shijie and Fan, Zhihao and Bai, Jinze and others},
  journal={arXiv:2409.12191}, year={2024}}"""
    examples = (
        {"head_dim": 12, "sections": (2, 2, 2)},
        {"head_dim": 12, "sections": (1, 3, 2)},
        {"head_dim": 12, "sections": (2, 2, 2), "arrangement": "interleaved"},
        {"head_dim": 12, "sections": (2, 2, 2), "arrangement": "time last"},
        {"head_dim": 12, "sections": (2, 2, 2), "base": 10000.0},
        {"head_dim": 12, "sections": (2, 2, 2), "pairing": "interleaved"},
        {"head_dim": 12, "sections": (4, 2)},
    )
    conventions = (
        "arrangement",
        "pairing",
    )

    def __init__(
        self,
        head_dim: int,
        sections: Sequence[int],
        *,
        base: float = 1e6,
        arrangement: Arrangement = "blocks",
        pairing: Pairing = "half",
    ) -> None:
        super().__init__()
        if head_dim < 2 or head_dim % 2 or sum(sections) != head_dim // 2 or min(sections) < 1:
            raise ValueError(
                f"SectionedRoPE shares the pairs of an even head_dim among its axes, each at least one; head_dim="
                f"{head_dim} has {head_dim // 2} pairs and sections={sections} take {sum(sections)}. Use sections that "
                "add up to them, or twice their sum as head_dim."
            )
        if arrangement not in ARRANGEMENTS:
            raise ValueError(f"sections are arranged {', '.join(map(repr, ARRANGEMENTS))}; got {arrangement!r}.")
        if pairing not in PAIRINGS:
            raise ValueError(f"SectionedRoPE pairs channels {', '.join(map(repr, PAIRINGS))}; got {pairing!r}.")
        self.head_dim = head_dim
        self.arrangement: Arrangement = arrangement
        self.pairing: Pairing = pairing
        self.theta = tuple(geometric(head_dim // 2, base=base, device=torch.device("cpu")).tolist())
        self.axis_of = ARRANGEMENTS[arrangement](tuple(sections))
        counts = tuple(self.axis_of.count(axis) for axis in range(len(sections)))
        if counts != tuple(sections):
            raise ValueError(
                f"{arrangement}, sections={sections} would become {counts}: interleaved, the first must be the "
                "largest, and the others short enough; with time last, the others equal. Use 'blocks', or those "
                "sections."
            )
        self.claims = Claims(
            translation="exact",
            isometric=True,
            learned=False,
            range=None,
            axes=len(sections),
            sites=frozenset({"q", "k"}),
            sharing="model",
            cacheable=True,
        )

    @override
    def prepare(self, pos: Positions) -> Rotation:
        self._take(pos)
        p = with_head_axis(pos.precise(), pos)
        theta = torch.tensor(self.theta, dtype=p.dtype, device=p.device)
        return prepare_rotation(p[..., list(self.axis_of)] * theta, pos, self.pairing)

    @override
    def transform(self, x: Tensor, where: Rotation, site: Literal["q", "k", "v", "o"]) -> Tensor:
        return rotate(require_width(x, self.head_dim, "SectionedRoPE"), where) if site in ("q", "k") else x

    @override
    def rerotate(self, x: Tensor, where_from: Rotation, where_to: Rotation, site: Literal["k", "v"] = "k") -> Tensor:
        """Rotate a cached key by the change of position: ``R_{p' - p} (R_p k)``."""
        return rotate(x, where_to.after(where_from)) if site == "k" else x

    @override
    def define_transform(self, x: Tensor, p: Tensor, site: str, head: int) -> Tensor:
        y, pairs = list(x), channels(self.pairing, self.head_dim).tolist()
        for (a, b), theta, axis in zip(pairs, self.theta, self.axis_of, strict=True):
            cos, sin = torch.cos(p[axis] * theta), torch.sin(p[axis] * theta)
            y[a], y[b] = x[a] * cos - x[b] * sin, x[b] * cos + x[a] * sin
        return torch.stack(y) if site in ("q", "k") else x
