"""Rotations of skew-symmetric matrices: the exponential, in closed form for sizes 2 to 4, and the Cayley transform.

2 x 2:  exp(A) = cos t I + sin t / t A                         t^2 = sum of the squares above the diagonal
3 x 3:  exp(A) = I + sin t / t A + (1 - cos t) / t^2 A^2       Rodrigues' formula
4 x 4:  exp(A) = (cos r I + sin r / r S) (cos s I + sin s / s T)
        A = S + T, S T = T S, S^2 = -r^2 I, T^2 = -s^2 I       left and right isoclinic

All derivatives are finite at A = 0.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

SMALL = 1e-3
"""Squared angle below which a power series is used. The first omitted term is below 1e-16, the precision of float64."""


def exponential(upper: Float[Tensor, "*n entries"], size: int) -> Float[Tensor, "*n size size"]:
    """Compute ``exp(A)`` of the skew matrix A with the given entries above its diagonal, row by row."""
    if size == 4:
        left, right = _isoclinic(upper, 1), _isoclinic(upper, -1)
        return left @ right
    matrix = skew(upper, size)
    if size > 4:
        return matrix.matrix_exp()
    cosine, sine, rest = _cos_sinc(upper.square().sum(-1)[..., None, None])
    unit = torch.eye(size, dtype=upper.dtype, device=upper.device)
    return cosine * unit + sine * matrix if size == 2 else unit + sine * matrix + rest * (matrix @ matrix)


def skew(upper: Float[Tensor, "*n entries"], size: int) -> Float[Tensor, "*n size size"]:
    """Make skew matrices from the entries above their diagonals, row by row."""
    i, j = torch.triu_indices(size, size, 1, device=upper.device).unbind()
    flat = upper.new_zeros(*upper.shape[:-1], size * size).index_copy(-1, i * size + j, upper)
    whole = flat.unflatten(-1, (size, size))
    return whole - whole.mT


def cayley(upper: Float[Tensor, "*n entries"], size: int) -> Float[Tensor, "*n size size"]:
    """Compute the Cayley transform ``(I - S)(I + S)^{-1}`` of the skew matrix S, an orthogonal matrix.

    The systems are solved one after the other: PyTorch's solver for many matrices hangs on CPUs with several threads
    (issue 141358 of pytorch/pytorch).
    """
    unit, matrices = torch.eye(size, dtype=upper.dtype, device=upper.device), skew(upper, size)
    solved = [torch.linalg.solve(unit + each, unit - each, left=False) for each in matrices.reshape(-1, size, size)]
    return torch.stack(solved).view_as(matrices)


def _isoclinic(upper: Tensor, side: int) -> Tensor:
    """Return the exponential of the self-dual (side 1) or anti-self-dual (side -1) part of a 4 x 4 skew matrix."""
    a, b, c, d, e, f = upper.unbind(-1)  # entries 01, 02, 03, 12, 13, 23
    x, y, z = (a + side * f) / 2, (b - side * e) / 2, (c + side * d) / 2
    cosine, sine, _ = _cos_sinc(x * x + y * y + z * z)
    x, y, z = sine * x, sine * y, sine * z
    p, q, r = side * z, -side * y, side * x
    rows = [cosine, x, y, z, -x, cosine, p, q, -y, -p, cosine, r, -z, -q, -r, cosine]
    return torch.stack(rows, -1).unflatten(-1, (4, 4))


def _cos_sinc(square: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return ``cos t``, ``sin t / t`` and ``(1 - cos t) / t^2`` as functions of ``t^2``, smooth at 0."""
    near = square < SMALL
    t2 = square.where(~near, 1.0)
    t = t2.sqrt()
    x = square.where(near, 0.0)
    cosine = t.cos().where(~near, 1 - x / 2 * (1 - x / 12 * (1 - x / 30 * (1 - x / 56 * (1 - x / 90)))))
    sine = (t.sin() / t).where(~near, 1 - x / 6 * (1 - x / 20 * (1 - x / 42 * (1 - x / 72 * (1 - x / 110)))))
    rest = (2 * (t / 2).sin().square() / t2).where(
        ~near, (1 - x / 12 * (1 - x / 30 * (1 - x / 56 * (1 - x / 90 * (1 - x / 132))))) / 2
    )
    return cosine, sine, rest
