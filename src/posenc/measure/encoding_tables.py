"""Checks and conversion of encoding tables for measurements."""

from __future__ import annotations

import torch
from torch import Tensor


def table_of(rows: Tensor) -> Tensor:
    """Convert an encoding table to float64 on the CPU, without gradient.

    Args:
        rows: encodings ``(N, d)``, one row per token.

    Returns:
        The table ``(N, d)``.

    Raises:
        ValueError: no tensor, another rank, no row, complex numbers, or values that are not finite.
    """
    if not isinstance(rows, Tensor):
        raise ValueError(f"A table of encodings is a tensor (N, d); got {type(rows).__name__}. Use torch.as_tensor.")
    if rows.dim() != 2 or 0 in rows.shape or rows.is_complex():
        raise ValueError(
            f"A table of encodings has one row of real numbers per token, (N, d); got {rows.dtype} of shape "
            f"{tuple(rows.shape)}. Pass one layer's table: scheme.embed(scheme.prepare(pos))."
        )
    rows = rows.detach().cpu().double()
    if not bool(torch.isfinite(rows).all()):
        raise ValueError("A table of encodings is finite; this one has nan or infinite numbers. Did training diverge?")
    return rows


def pair_of(rows: Tensor, reference: Tensor) -> tuple[Tensor, Tensor]:
    """Convert two encoding tables of one shape to float64 on the CPU.

    Args:
        rows: encodings ``(N, d)``.
        reference: encodings ``(N, d)``.

    Returns:
        Both tables.

    Raises:
        ValueError: tables of different shapes, or a table that ``table_of`` refuses.
    """
    table, other = table_of(rows), table_of(reference)
    if table.shape != other.shape:
        raise ValueError(
            f"Tables are compared row by row and need one shape; got {tuple(table.shape)} and {tuple(other.shape)}. "
            f"Build the reference with the same tokens and dim={table.shape[1]}."
        )
    return table, other
