"""Position augmentation: random positions, shifts, scales and signs for each training step.

    new = randomized(sequence(40), 2048, batch=128, generator=g)     # equal order, random distances
    new = augmented(pos, shift=1, jitter=1.2, rescale=2, generator=g)
    new = flipped(graph(edges), generator=g)                         # eigenvectors have no sign

The functions return new positions. With ``batch`` they draw separately for each sample, and positions ``(N, P)`` become
``(batch, N, P)``. Without it one draw serves all samples. Tokens without a position keep their coordinates. For
evaluation use ``pos`` itself, or random positions too, as Ruoss et al. do.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from types import MappingProxyType

import torch
from torch import Tensor

from posenc.positions import Positions, readable

CITATIONS: Mapping[str, str] = MappingProxyType(
    {
        "randomized": """@inproceedings{ruoss2023randomized,
  title={Randomized Positional Encodings Boost Length Generalization of Transformers},
  author={Ruoss, Anian and Del{\\'e}tang, Gr{\\'e}goire and Genewein, Tim and Grau-Moya, Jordi and
          Csord{\\'a}s, R{\\'o}bert and Bennani, Mehdi and Legg, Shane and Veness, Joel},
  booktitle={ACL}, year={2023}, note={arXiv:2305.16843}}""",
        "augmented": """@misc{simeoni2025dinov3,
  title={{DINOv3}},
  author={Sim{\\'e}oni, Oriane and Vo, Huy V. and Seitzer, Maximilian and Baldassarre, Federico and others},
  year={2025}, note={arXiv:2508.10104}}""",
        "flipped": """@article{dwivedi2023benchmarking,
  title={Benchmarking Graph Neural Networks},
  author={Dwivedi, Vijay Prakash and Joshi, Chaitanya K. and Luu, Anh Tuan and Laurent, Thomas and Bengio, Yoshua and
          Bresson, Xavier},
  journal={JMLR}, year={2023}, note={arXiv:2003.00982}}""",
    }
)
"""BibTeX entry of the paper of each function, by its name."""


def randomized(
    pos: Positions, max_len: int, *, batch: int | None = None, generator: torch.Generator | None = None
) -> Positions:
    """Randomized positions: replace coordinates by random integers in the same order, ``p -> s_r(p)``.

    On each axis ``r(p)`` is the rank of ``p`` among the R different coordinates of the sample, and ``s_0 < s_1 < ..``
    are R integers drawn uniformly without replacement from ``0 .. max_len - 1``. Tokens in one row or column of a grid
    stay in one row or column.

    Args:
        pos: positions.
        max_len: number of integers to draw from; L of the paper.
        batch: number of samples with separate draws; None for one draw.
        generator: source of the random numbers; None for torch's default generator.

    Returns:
        The new positions.

    Raises:
        ValueError: more than ``max_len`` different coordinates on an axis.

    References:
        Ruoss et al. 2023, arXiv 2305.16843, for ``sequence(n)``.
    """
    coords, placed = _samples(pos, batch)
    rank, count = _ranks(coords, placed)
    if readable(count) and count.numel() and int(count.max()) > max_len:
        raise ValueError(
            f"{int(count.max())} different positions cannot be drawn from {max_len}. "
            "Use a max_len of at least the longest text that the network will read."
        )
    draw = torch.rand(*count.shape, max_len, generator=generator, device=_device(generator)).to(coords.device)
    chosen = draw.argsort(-1).argsort(-1) < count[..., None]
    increasing = chosen.logical_not().to(torch.uint8).argsort(dim=-1, stable=True)  # chosen integers first, in order
    new = increasing.gather(-1, rank.mT.clamp(max=max_len - 1)).mT
    kind = torch.promote_types(coords.dtype, torch.float32) if coords.is_floating_point() else coords.dtype
    return _moved(pos, coords, placed, new.to(kind), batch)


def augmented(
    pos: Positions,
    *,
    shift: float = 0,
    jitter: float = 1,
    rescale: float = 1,
    batch: int | None = None,
    generator: torch.Generator | None = None,
) -> Positions:
    """Shift and scale all tokens of a sample together: ``p_a -> (p_a + u_a) j_a r`` on axis a.

    Args:
        pos: positions.
        shift: largest shift, ``u_a ~ U(-shift, shift)`` for each axis, in units of ``pos``.
        jitter: largest factor of one axis, ``ln j_a ~ U(-ln jitter, ln jitter)`` for each axis.
        rescale: largest factor of all axes, ``ln r ~ U(-ln rescale, ln rescale)``.
        batch: number of samples with separate draws; None for one draw.
        generator: source of the random numbers; None for torch's default generator.

    Returns:
        The new positions.

    Raises:
        ValueError: a negative shift, or a factor below 1.

    References:
        Siméoni et al. 2025 (DINOv3), arXiv 2508.10104, with coordinates in [-1, 1] and rescale = 2.
    """
    if shift < 0 or min(jitter, rescale) < 1:
        raise ValueError(
            "positions are shifted by up to `shift` >= 0 and scaled by up to `jitter` >= 1 and `rescale` >= 1; "
            f"got shift={shift:g}, jitter={jitter:g}, rescale={rescale:g}."
        )
    coords, placed = _samples(pos, batch)
    real = coords if coords.is_floating_point() else coords.to(torch.get_default_dtype())
    draw = torch.rand(len(coords), 1, 2 * pos.axes + 1, generator=generator, device=_device(generator))
    shifts, jitters, scale = (2 * draw - 1).to(real).split([pos.axes, pos.axes, 1], -1)
    stretch = (jitters * math.log(jitter) + scale * math.log(rescale)).exp()
    return _moved(pos, real, placed, (real + shift * shifts) * stretch, batch)


def flipped(pos: Positions, *, batch: int | None = None, generator: torch.Generator | None = None) -> Positions:
    """Multiply each axis by a random sign, ``p_a -> e_a p_a``: for eigenvectors, as those of ``graph(edges)``.

    Each component of a graph has eigenvectors of its own, and signs of its own.

    Args:
        pos: positions.
        batch: number of samples with separate draws; None for one draw.
        generator: source of the random numbers; None for torch's default generator.

    Returns:
        The new positions.

    References:
        Dwivedi et al. 2020, arXiv 2003.00982.
    """
    coords, placed = _samples(pos, batch)
    component = None if pos.graph is None else pos.graph.component
    last = 0 if component is None or not component.numel() else max(int(component.max()), 0)
    draw = torch.randint(2, (len(coords), 1, pos.axes), generator=generator, device=_device(generator))
    if component is not None and last:
        others = torch.randint(2, (len(coords), last, pos.axes), generator=generator, device=draw.device)
        at = component.clamp(min=0).expand(len(coords), -1).to(draw.device)
        draw = torch.cat([draw, others], 1).gather(1, at[..., None].expand(-1, -1, pos.axes))
    return _moved(pos, coords, placed, coords * (2 * draw - 1).to(coords), batch)


def _samples(pos: Positions, batch: int | None) -> tuple[Tensor, Tensor | None]:
    """Return ``coords (B, N, P)`` and ``placed (B, N)``, or ``(1, ..)`` for one draw."""
    coords = pos.coords if pos.coords.dim() == 3 else pos.coords[None]
    placed = pos.placed if pos.placed is None or pos.placed.dim() == 2 else pos.placed[None]
    samples = max(len(coords), 1 if placed is None else len(placed))
    if batch is not None and batch != samples and samples > 1:
        raise ValueError(f"these positions have {samples} samples already; got batch={batch}. Leave `batch` out.")
    samples = batch or samples
    placed = None if placed is None else placed.expand(samples, -1)
    return coords.expand(samples, -1, -1), placed


def _ranks(coords: Tensor, placed: Tensor | None) -> tuple[Tensor, Tensor]:
    """Return ranks among the different coordinates of an axis ``(B, N, P)``, and their number ``(B, P)``."""
    real = coords.double()
    if placed is not None:
        real = real.masked_fill(~placed[..., None], torch.inf)
    ordered, index = real.sort(1)
    new = ordered.diff(dim=1) > 0
    rank = torch.cat([new.new_zeros(len(new), min(real.shape[1], 1), real.shape[2]), new], 1).cumsum(1)
    count = (ordered.isfinite() * (rank + 1)).amax(1) if real.shape[1] else rank.new_zeros(len(rank), real.shape[2])
    return torch.zeros_like(rank).scatter(1, index, rank), count


def _moved(pos: Positions, coords: Tensor, placed: Tensor | None, new: Tensor, batch: int | None) -> Positions:
    if placed is not None:
        new = torch.where(placed[..., None], new, coords.to(new))
    return dataclasses.replace(pos, coords=new if batch is not None or pos.batched else new[0])


def _device(generator: torch.Generator | None) -> torch.device | None:
    return None if generator is None else generator.device
