"""Time2Vec: an embedding of a time by a trained linear term and trained sines.

    t2v(t)_0 = w_0 t + a_0
    t2v(t)_i = sin(w_i t + a_i),   i = 1 .. d - 1

Source: Kazemi et al. 2019, arXiv 1907.05321, eq. 1 with F = sin.

Conventions:
- ``w`` and ``a`` start as torch's linear layer from one number, U(-1, 1), as in the code of mTAN (github
  reml-lab/mTAN). So ``w`` is in radians per unit of time: choose a unit in which cycles last some units, such as days.
- ``w`` and ``a`` stay float32 when the module is cast, and phases are computed in float64.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from typing_extensions import override

from posenc.positions import Positions
from posenc.scheme import Claims, Scheme


class Time2Vec(Scheme):
    """Time2Vec: one linear term and d - 1 sines of the time, with trained frequencies and phases.

        t2v(t) = [w_0 t + a_0, sin(w_1 t + a_1), .., sin(w_{d-1} t + a_{d-1})]   with ``w`` and ``a`` trained

    Args:
        dim: Width d of the embedding, at least 2.
        generator: Random generator of the initial ``w`` and ``a``. Default: torch's global generator.

    Raises:
        ValueError: If ``dim`` is less than 2.

    Example:
        >>> from posenc import Time2Vec, times
        >>> scheme = Time2Vec(dim=12)
        >>> scheme.embed(scheme.prepare(times([0.0, 0.5, 4.0], unit="day"))).shape
        torch.Size([3, 12])

    References:
        Kazemi, Goel, Eghbali, Ramanan, Sahota, Thakur, Wu, Smyth, Poupart and Brubaker 2019, "Time2Vec: Learning a
        Vector Representation of Time", arXiv 1907.05321.
    """

    cite = """@misc{kazemi2019time2vec,
  title={{Time2Vec}: Learning a Vector Representation of Time},
  author={Kazemi, Seyed Mehran and Goel, Rishab and Eghbali, Sepehr and Ramanan, Janahan and Sahota, Jaspreet and
          Thakur, Sanjay and Wu, Stella and Smyth, Cathal and Poupart, Pascal and Brubaker, Marcus},
  year={2019}, note={arXiv:1907.05321}}"""
    examples = ({"dim": 12}, {"dim": 5})
    wide = frozenset({"w", "a"})

    w: nn.Parameter
    a: nn.Parameter

    def __init__(self, dim: int, *, generator: torch.Generator | None = None) -> None:
        super().__init__()
        if dim < 2:
            raise ValueError(f"Time2Vec has a linear term and at least one sine, so dim >= 2; got {dim}.")
        self.w, self.a = nn.Parameter(torch.empty(dim)), nn.Parameter(torch.empty(dim))
        self.reset_parameters(generator)
        self.claims = Claims(
            translation="none",
            isometric=False,
            learned=True,
            range=None,
            axes=1,
            sites=frozenset({"embed"}),
            sharing="model",
            cacheable=True,
        )

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Redraw ``w`` and ``a``; needed after construction on the meta device.

        Args:
            generator: Random generator. Default: torch's global generator.
        """
        with torch.no_grad():
            for parameter in (self.w, self.a):
                parameter.uniform_(-1, 1, generator=generator)

    @property
    @override
    def out_dim(self) -> int:
        return len(self.w)

    @override
    def prepare(self, pos: Positions) -> Tensor:
        phase = self._take(pos).precise() * self.w.double() + self.a.double()
        rows = torch.cat([phase[..., :1], phase[..., 1:].sin()], -1).to(pos.table_dtype)
        return rows if pos.placed is None else rows * pos.placed[..., None]

    @override
    def define_embed(self, p: Tensor) -> Tensor:
        phases = [w * p[0] + a for w, a in zip(self.w, self.a, strict=True)]
        return torch.stack([phases[0], *(torch.sin(phase) for phase in phases[1:])])
