"""Model whose weights the runs of a study store: how it is built again, and what it reads and returns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

from torch import nn

from posenc.positions import Positions
from posenc.workbench.runs import RunSpec


class BuiltModel(NamedTuple):
    """An untrained model, and the positions of its tokens.

    Attributes:
        model: The model, on the CPU.
        positions: Positions of its tokens if all inputs have the same; None otherwise.

    Example:
        >>> from torch import nn
        >>> from posenc.workbench import BuiltModel
        >>> BuiltModel(nn.Linear(2, 3)).positions is None
        True
    """

    model: nn.Module
    positions: Positions | None = None


@dataclass(frozen=True, kw_only=True)
class StoredModel:
    """Model whose weights the runs of a study store. ``posenc.load`` builds it again and loads its weights.

    Attributes:
        build: Maps a run and the root of its store to the untrained model. It runs with the seed of the run.
        convention: Maps a run to sentences on the input and the output of its model: order of the axes, units, ranges.
        metrics: Metric that chooses the best run of a page: its stored name to "max" or "min". The first that a run of
            the page has counts.

    Example:
        >>> from torch import nn
        >>> from posenc.workbench import BuiltModel, StoredModel
        >>> stored = StoredModel(
        ...     build=lambda spec, root: BuiltModel(nn.Linear(2, 3)),
        ...     convention=lambda spec: "Input: positions (N, 2). Output: colors (N, 3).",
        ...     metrics={"psnr": "max"},
        ... )
        >>> stored.build(None, None).model
        Linear(in_features=2, out_features=3, bias=True)
    """

    build: Callable[[RunSpec, Path], BuiltModel]
    convention: Callable[[RunSpec], str]
    metrics: Mapping[str, Literal["max", "min"]]
