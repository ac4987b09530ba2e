"""SIREN: first layer of a sinusoidal representation network, sines of a trained projection of the coordinates.

    e(v) = sin(omega_0 (W v + b)),   W_ij ~ U(-1/P, 1/P),   b_i ~ U(-1/sqrt(P), 1/sqrt(P)) before training

Source: Sitzmann et al. 2020, arXiv 2006.09661, section 3.2 (omega_0 = 30, so that the first layer spans many periods of
[-1, 1]); the initial W and b follow their code (github vsitzmann/siren).

Conventions:
- Positions of any size are accepted; the paper's lie in [-1, 1].
- Angles are in radians and computed in float64. W and b stay in float32 when the module is cast, because bfloat16 would
  change omega_0 b by whole radians.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from typing_extensions import override

from posenc.kernels.wave_vectors import angles
from posenc.positions import Positions
from posenc.scheme import Claims, Scheme

SPREAD_PHASES = 20.0
"""Half width in radians from which the phases 2 omega_0 b count as uniform: |E cos(2 omega_0 b)| is at most 1 / 20."""


class SIREN(Scheme):
    """First layer of a SIREN: ``dim`` sines of trained projections of the coordinates.

        e(v) = sin(omega_0 (W v + b))

    Translation invariance holds in the mean over initial values as far as the phases ``omega_0 b`` are uniform on the
    circle. The scheme claims it for ``omega_0 / sqrt(P) >= 10``.

    Args:
        dim: Width of a row; W is ``(dim, P)`` and b ``(dim,)``.
        axes: Number P of position axes.
        omega_0: Frequency factor in radians per unit of ``W v``, above 0.
        generator: Random generator for the initial W and b; torch's default generator if None.

    Raises:
        ValueError: If ``dim`` or ``axes`` is below 1, or ``omega_0`` is not positive and finite.

    Example:
        >>> import torch
        >>> from posenc import SIREN, Positions
        >>> scheme = SIREN(12, axes=2)
        >>> scheme.embed(scheme.prepare(Positions(torch.rand(5, 2)))).shape
        torch.Size([5, 12])

    References:
        Sitzmann, Martel, Bergman, Lindell and Wetzstein, 2020, "Implicit Neural Representations with Periodic
        Activation Functions", arXiv 2006.09661, section 3.2.
    """

    cite = """@inproceedings{sitzmann2020implicit,
  title={Implicit Neural Representations with Periodic Activation Functions},
  author={Sitzmann, Vincent and Martel, Julien and Bergman, Alexander and Lindell, David and Wetzstein, Gordon},
  booktitle={NeurIPS}, year={2020}, note={arXiv:2006.09661}}"""
    examples = ({"dim": 12}, {"dim": 12, "axes": 2}, {"dim": 12, "omega_0": 0.5})
    conventions = ("omega_0",)
    wide = frozenset({"weight", "shift"})

    weight: nn.Parameter
    shift: nn.Parameter

    def __init__(
        self, dim: int, axes: int = 1, *, omega_0: float = 30.0, generator: torch.Generator | None = None
    ) -> None:
        super().__init__()
        if dim < 1 or axes < 1:
            raise ValueError(f"SIREN has at least one sine of at least one axis; got dim={dim}, axes={axes}.")
        if not (math.isfinite(omega_0) and omega_0 > 0):
            raise ValueError(f"omega_0 is a positive number; got {omega_0:g}. The paper's is 30, for v in [-1, 1].")
        self.omega_0 = float(omega_0)
        self.weight, self.shift = nn.Parameter(torch.empty(dim, axes)), nn.Parameter(torch.empty(dim))
        self.reset_parameters(generator)
        self.claims = Claims(
            translation="expected" if 2 * omega_0 / math.sqrt(axes) >= SPREAD_PHASES else "none",
            isometric=False,
            learned=True,
            range=None,
            axes=axes,
            sites=frozenset({"embed"}),
            sharing="model",
            cacheable=True,
        )

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Draw the initial W and b again, also after the module was built on the meta device.

        Args:
            generator: Random generator; torch's default generator if None.
        """
        axes = self.weight.shape[1]
        nn.init.uniform_(self.weight, -1 / axes, 1 / axes, generator=generator)
        nn.init.uniform_(self.shift, -1 / math.sqrt(axes), 1 / math.sqrt(axes), generator=generator)

    @property
    @override
    def out_dim(self) -> int:
        return self.weight.shape[0]

    @override
    def prepare(self, pos: Positions) -> Tensor:
        """Compute the rows ``(.., N, dim)``, which depend on the positions alone."""
        projected = self._take(pos).precise() @ self.weight.double().T + self.shift.double()
        rows = angles(projected * (self.omega_0 / (2 * math.pi)), pos.table_dtype).sin()
        return rows if pos.placed is None else rows * pos.placed[..., None]

    @override
    def define_embed(self, p: Tensor) -> Tensor:
        row = [torch.sin(self.omega_0 * (torch.dot(w, p) + b)) for w, b in zip(self.weight, self.shift, strict=True)]
        return torch.stack(row)
