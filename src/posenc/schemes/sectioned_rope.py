"""Sectioned RoPE: one schedule of frequencies, of which time, height and width each turn a section.

    pair i:  (x, y) -> rotation by p_{a(i)} theta_i,    theta_i = base^(-2i/d),  i = 0 .. d/2 - 1

Source: Wang et al. 2024, arXiv 2409.12191, section 2.1 ("M-RoPE", Qwen2-VL), where ``sections`` are 16, 24 and 24
pairs of 64 and base is 10^6. Conventions: a section is counted in pairs; axes are (time, height, width). Text has all
three equal and gets plain RoPE. "blocks" lays the sections one after the other (so time has the fast pairs alone);
"interleaved" deals them out as ``t h w t h w ..`` until an axis has its number, the rest to the first (Qwen3-VL in
transformers).
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from posenc.frequencies import geometric
from posenc.kernels.rotary import PAIRINGS, Pairing, Turn, channels, spread, turn, turns
from posenc.kernels.widths import of_width
from posenc.positions import Positions
from posenc.scheme import Claims, Scheme


class SectionedRoPE(Scheme):
    """``q_p -> R(theta_i p_{a(i)}) q_p``, keys too: logits depend on ``p_k - p_q`` alone.

    head_dim: a head's width, even. sections: the pairs of each axis, ``head_dim / 2`` together. base: of the schedule.
    arrangement: sections as "blocks", or "interleaved". pairing: which channels turn together.
    """

    cite = """@article{wang2024qwen2vl,
  title={Qwen2-VL: Enhancing Vision-Language Model's Perception of the World at Any Resolution},
  author={Wang, Peng and Bai, Shuai and Tan, Sinan and Wang, Shijie and Fan, Zhihao and Bai, Jinze and others},
  journal={arXiv:2409.12191}, year={2024}}"""
    examples = (
        {"head_dim": 12, "sections": (2, 2, 2)},
        {"head_dim": 12, "sections": (1, 3, 2)},
        {"head_dim": 12, "sections": (2, 2, 2), "arrangement": "interleaved"},
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
        sections: tuple[int, ...],
        *,
        base: float = 1e6,
        arrangement: Literal["blocks", "interleaved"] = "blocks",
        pairing: Pairing = "half",
    ) -> None:
        super().__init__()
        if head_dim < 2 or head_dim % 2 or sum(sections) != head_dim // 2 or min(sections) < 1:
            raise ValueError(
                f"SectionedRoPE shares the pairs of an even head_dim among its axes, each at least one; head_dim="
                f"{head_dim} has {head_dim // 2} pairs and sections={sections} take {sum(sections)}. Use sections that "
                "add up to them, or twice their sum as head_dim."
            )
        if arrangement not in ("blocks", "interleaved"):
            raise ValueError(f"sections are arranged in 'blocks' or 'interleaved'; got {arrangement!r}.")
        if pairing not in PAIRINGS:
            raise ValueError(f"SectionedRoPE pairs channels {', '.join(map(repr, PAIRINGS))}; got {pairing!r}.")
        self.head_dim = head_dim
        self.arrangement: Literal["blocks", "interleaved"] = arrangement
        self.pairing: Pairing = pairing
        self.theta = tuple(geometric(head_dim // 2, base=base, device=torch.device("cpu")).tolist())
        self.axis_of = _in_blocks(sections) if arrangement == "blocks" else _dealt(sections)
        dealt = tuple(self.axis_of.count(axis) for axis in range(len(sections)))
        if dealt != tuple(sections):
            raise ValueError(
                f"dealt out in turn, sections={sections} would become {dealt}: the first must be the largest, and the "
                "others short enough. Use 'blocks', or those."
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

    @property
    def head_width(self) -> int:
        return self.head_dim

    def prepare(self, pos: Positions) -> Turn:
        self._take(pos)
        p = spread(pos.precise(), pos)
        theta = torch.tensor(self.theta, dtype=p.dtype, device=p.device)
        return turns(p[..., list(self.axis_of)] * theta, pos, self.pairing)

    def transform(self, x: Tensor, where: Turn, site: Literal["q", "k", "v", "o"]) -> Tensor:
        return turn(of_width(x, self.head_dim, "SectionedRoPE"), where) if site in ("q", "k") else x

    def rerotate(self, x: Tensor, where_from: Turn, where_to: Turn, site: Literal["k", "v"] = "k") -> Tensor:
        """``R_{p' - p} (R_p k)``."""
        return turn(x, where_to.after(where_from)) if site == "k" else x

    def define_transform(self, x: Tensor, p: Tensor, site: str, head: int) -> Tensor:
        y, pairs = list(x), channels(self.pairing, self.head_dim).tolist()
        for (a, b), theta, axis in zip(pairs, self.theta, self.axis_of, strict=True):
            cos, sin = torch.cos(p[axis] * theta), torch.sin(p[axis] * theta)
            y[a], y[b] = x[a] * cos - x[b] * sin, x[b] * cos + x[a] * sin
        return torch.stack(y) if site in ("q", "k") else x


def _in_blocks(sections: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(axis for axis, count in enumerate(sections) for _ in range(count))


def _dealt(sections: tuple[int, ...]) -> tuple[int, ...]:
    """Pair i goes to axis ``i mod P`` while that has fewer than its section, and else to the first."""
    axes = len(sections)
    return tuple(i % axes if i < axes * sections[i % axes] else 0 for i in range(sum(sections)))
