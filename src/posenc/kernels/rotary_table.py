"""Rotation of pairs of channels by a table, gathered by integer positions on one or more axes.

    angle of pair r of token n = angle of pair r at position i_{a(r)}(n)

The table has one row per integer position 0 .. M - 1, which all axes share; a(r) is the axis of pair r. So the table of
an image of 32 x 32 tokens has 32 rows, not 1024, and packed or cropped images need no table of their own.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from posenc.kernels.kernel_form import takes_triton
from posenc.kernels.rotary import Rotation, rotate
from posenc.positions import readable


def gather_rotation(table: Rotation, index: Tensor, axis_of: Sequence[int]) -> Rotation:
    """Gather the rotations of tokens at integer positions.

    Args:
        table: rotations of R pairs at M positions, ``cos_sin (M, R, 2)``, or ``(M, 2, R)`` for pairs of halves.
        index: positions of the tokens on P axes, integers from 0 to M - 1, ``(N, P)`` or ``(B, N, P)``.
        axis_of: the axis of each pair, R numbers from 0 to P - 1.

    Returns:
        The rotations of the tokens, with an axis for heads if ``index`` is batched.

    Raises:
        ValueError: shapes or axes that do not belong together, or positions outside the table. On a GPU positions are
            not read for this check; there torch's indexing stops the process, and the Triton form returns NaN.
    """
    _refuse_misfits(table, index, axis_of)
    return _gather(table, index, axis_of)


def _gather(table: Rotation, index: Tensor, axis_of: Sequence[int]) -> Rotation:
    rows = index[..., list(axis_of)].long()
    numbers = table.cos_sin if table.pairing == "interleaved" else table.cos_sin.mT
    gathered = numbers[rows, torch.arange(len(axis_of), device=index.device)]
    gathered = gathered if table.pairing == "interleaved" else gathered.mT
    return Rotation(gathered.unsqueeze(-4) if index.dim() == 3 else gathered, table.pairing)


def rotate_by_table(x: Tensor, table: Rotation, index: Tensor, axis_of: Sequence[int], *, back: bool = False) -> Tensor:
    """Rotate ``x (B, H, N, D)`` by gathered rotations: ``rotate(x, gather_rotation(table, index, axis_of))``.

    The Triton form reads the table directly, without the rotations of all tokens in memory.

    Args:
        x: vectors of the tokens.
        table: rotations of R pairs at M positions.
        index: positions of the tokens, ``(N, P)`` or ``(B, N, P)``.
        axis_of: the axis of each pair.
        back: rotate backwards.

    Returns:
        The rotated vectors.

    Raises:
        ValueError: as ``gather_rotation``, or fewer channels than the table rotates.
    """
    _refuse_misfits(table, index, axis_of)
    fits = x.dim() == 4 and x.shape[-1] >= table.width and index.shape[-2] == x.shape[-2]
    fits &= index.dim() == 2 or index.shape[0] in (1, x.shape[0])
    if fits and takes_triton(x, table.cos_sin, index) and not (table.cos_sin.requires_grad and torch.is_grad_enabled()):
        from posenc.kernels.triton_forms import rotary as triton_form

        at = triton_form.Gathered(index, torch.tensor(axis_of, dtype=torch.int32, device=x.device))
        return triton_form.rotate_by_table(x, table, at, back=back)
    return rotate(x, _gather(table, index, axis_of), back=back)


def _refuse_misfits(table: Rotation, index: Tensor, axis_of: Sequence[int]) -> None:
    pairs, positions = table.width // 2, table.cos_sin.shape[0]
    if table.cos_sin.dim() != 3 or len(axis_of) != pairs or index.dim() not in (2, 3):
        raise ValueError(
            "a table of rotations has shape (M, R, 2) or (M, 2, R), with one axis per pair and positions (N, P) or "
            f"(B, N, P); got {tuple(table.cos_sin.shape)}, {len(axis_of)} axes of pairs and {tuple(index.shape)}."
        )
    if index.is_floating_point() or not all(0 <= axis < index.shape[-1] for axis in axis_of):
        raise ValueError(
            f"positions in a table are integers on the axes 0 to {index.shape[-1] - 1}; got {index.dtype} and pairs on "
            f"the axes {sorted(set(axis_of))}. Use index.long(), and one column of positions per axis."
        )
    if not (readable(index) and index.device.type == "cpu" and index.numel()):  # a GPU would have to wait
        return
    low, high = map(int, torch.aminmax(index))
    if low < 0 or high >= positions:
        fix = "Subtract the lowest position" if low < 0 else f"Make it with {high + 1} rows"
        raise ValueError(f"this table has the positions 0 to {positions - 1}; got {low} to {high}. {fix}.")
