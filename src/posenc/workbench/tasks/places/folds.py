"""Five folds of the rows of a table: at random, by blocks of space, or by time.

    random   rows at random; rows of one group stay together
    blocks   whole blocks of space at random: cells of a grid, in degrees or in units of the coordinates. Blocks that
             share a group are held out together, if the blocks joined so are small enough for five folds. Otherwise a
             group counts in the block of its first row, and other rows of its blocks may be in another part
    time     five spans of time, one after the other, of about equal numbers of rows; they divide groups

The test part of seed s is fold s modulo 5. The part that chooses the step is drawn from the others in the same way, so
that it is as far from the training part as the test part.
"""

from __future__ import annotations

import heapq
import math
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from posenc.workbench.counted_nouns import count_of
from posenc.workbench.data.places import PlaceTable
from posenc.workbench.tasks.class_split import Parts
from posenc.workbench.tasks.places.place_views import Region

Split = Literal["random", "blocks", "time"]
FOLDS = 5
VALIDATION_SHARE = 0.15
SPANS = 50
"""Spans of time with about equal numbers of rows. A fold has ten of them, one after the other."""
BLOCKS_A_SIDE = 20
"""Blocks along the longest side of the region, unless a side is stated."""
LEAST_BLOCKS = 20
"""Fewest blocks with rows; the side is halved until there are so many."""
LARGEST_UNIT = 0.4
"""Largest share of the rows in blocks that are held out together because they share groups; a fold has 0.2."""
MOST_HALVINGS = 20
ROUND_SIDES = (1.0, 2.0, 5.0, 10.0)


def block_numbers(coords: NDArray[np.float64], side: float) -> NDArray[np.int64]:
    """Number of the block of each row: cells of a grid from 0, so that blocks do not depend on the rows.

    Args:
        coords: Coordinates ``(N, P)``.
        side: Side of a block in units of the coordinates.

    Returns:
        Numbers ``(N,)``, from 0.
    """
    cells = np.floor(coords / side).astype(np.int64)
    return np.unique(cells, axis=0, return_inverse=True)[1].astype(np.int64).ravel()


def usual_side(coords: NDArray[np.float64], region: Region) -> float:
    """Side of a block: a twentieth of the longest side of the region, rounded to 1, 2 or 5 times a power of ten.

    Args:
        coords: Coordinates ``(N, P)``.
        region: Their region, which may cross the meridian of 180 degrees.

    Returns:
        The side. It is halved until there are at least 20 blocks with rows.

    Raises:
        ValueError: All rows are at one place.
    """
    if (coords == coords[0]).all():
        raise ValueError("all rows are at one place, and a map needs different ones. Name other coordinates.")
    wanted = 2 * region.half / BLOCKS_A_SIDE
    power = 10.0 ** math.floor(math.log10(wanted))
    side = min((factor * power for factor in ROUND_SIDES), key=lambda each: abs(math.log(each / wanted)))
    for _ in range(MOST_HALVINGS):
        if int(block_numbers(coords, side).max()) + 1 >= LEAST_BLOCKS:
            break
        side /= 2
    return float(f"{side:.6g}")


def fold_parts(table: PlaceTable, split: Split, side: float, seed: int) -> Parts:
    """Divide the rows of a table into the parts of a seed.

    Args:
        table: The table.
        split: Kind of the split.
        side: Side of a block, for the split "blocks".
        seed: Seed of the run. Seeds 0 to 4 have the five folds of one order, seeds 5 to 9 those of another one.

    Returns:
        Numbers of the rows of each part.

    Raises:
        ValueError: A part has no row.
    """
    again, fold = divmod(seed, FOLDS)
    units = units_of(table, split, side)
    draw = np.random.Generator(np.random.Philox(key=again))
    if split == "time":
        spans = int(units.max()) + 1
        of_unit = np.arange(spans) * FOLDS // spans
    else:
        of_unit = _balanced(np.bincount(units), draw)
    of_row = of_unit[units]
    rest = np.flatnonzero(of_row != fold)
    chosen = _drawn_share(units[rest], np.random.default_rng([seed, 1]))
    parts = Parts(rest[~chosen], rest[chosen], np.flatnonzero(of_row == fold))
    if not all(map(len, parts)):
        raise ValueError(
            f"fold {fold + 1} by {split} has {', '.join(f'{len(part):,}' for part in parts)} rows for training, "
            f"validation and test. {_remedy(table, split)}"
        )
    return parts


def _remedy(table: PlaceTable, split: Split) -> str:
    if split == "time":
        times = len(np.unique(table.times))
        return f"The column of times has {count_of(times, 'different times')}; leave --time out, or give more times."
    if len(table.groups):
        groups = len(np.unique(table.groups))
        return f"The column of groups has {count_of(groups, 'different groups')}; leave --groups out, or give more."
    return "Give more places" + (", or smaller blocks: --set block_side=0.1" if split == "blocks" else ".")


class DividedUnits(NamedTuple):
    """Blocks or groups that folds divide.

    Attributes:
        what: "blocks" or "groups".
        divided: Number of those with rows in the test part of a fold and in another part.
        of: Number of all.
    """

    what: str
    divided: int
    of: int


def divided_units(table: PlaceTable, split: Split, side: float) -> DividedUnits | None:
    """Count the blocks, or the groups of a split by time, that have rows in several folds.

    Args:
        table: The table.
        split: Kind of the split.
        side: Side of a block.

    Returns:
        The counts; None where no block and no group is divided.
    """
    if not len(table.groups) or split == "random":
        return None
    what = "blocks" if split == "blocks" else "groups"
    whole = block_numbers(table.coords, side) if split == "blocks" else table.groups
    tested = np.empty(len(table), np.int64)
    for fold in range(FOLDS):
        tested[fold_parts(table, split, side, fold).test] = fold
    pairs = np.unique(np.stack([whole, tested]), axis=1)[0]
    several = int((np.unique(pairs, return_counts=True)[1] > 1).sum())
    return DividedUnits(what, several, len(np.unique(whole))) if several else None


def units_of(table: PlaceTable, split: Split, side: float) -> NDArray[np.int64]:
    """Number of the unit of each row; the rows of a unit are never divided.

    Args:
        table: The table.
        split: Kind of the split.
        side: Side of a block.

    Returns:
        Numbers ``(N,)``, from 0: rows or groups, blocks, or spans of time.
    """
    grouped = len(table.groups) > 0
    if split == "time":
        order = np.unique(table.times, return_inverse=True)[1]
        ranks = np.searchsorted(np.sort(order), order)  # equal times have equal ranks, and stay in one span
        return np.unique(ranks * SPANS // len(ranks), return_inverse=True)[1].astype(np.int64)
    if split == "random":
        return table.groups if grouped else np.arange(len(table))
    blocks = block_numbers(table.coords, side)
    if grouped:
        _, first, group = np.unique(table.groups, return_index=True, return_inverse=True)
        together = _joined(blocks, group.ravel())
        small = np.bincount(together).max() <= LARGEST_UNIT * len(table)
        blocks = together if small else blocks[first][group.ravel()]
    return np.unique(blocks, return_inverse=True)[1].astype(np.int64)


def _joined(blocks: NDArray[np.int64], groups: NDArray[np.int64]) -> NDArray[np.int64]:
    """Number of the connected blocks of each row, where two blocks are connected if they share a group."""
    labels = np.arange(blocks.max() + 1)[blocks]
    while True:
        before = labels
        for members in (groups, blocks):
            least = np.full(members.max() + 1, len(blocks), np.int64)
            np.minimum.at(least, members, labels)
            labels = least[members]
        if np.array_equal(labels, before):
            return labels


def _balanced(sizes: NDArray[np.int64], draw: np.random.Generator) -> NDArray[np.int64]:
    """Fold of each unit: units in a random order, the large ones first, each to the fold with the fewest rows."""
    shuffled = draw.permutation(len(sizes))
    order = shuffled[np.argsort(-sizes[shuffled], kind="stable")]
    of_unit, heap = np.empty(len(sizes), np.int64), [(0, fold) for fold in range(FOLDS)]
    for unit in order.tolist():
        rows, fold = heapq.heappop(heap)
        of_unit[unit] = fold
        heapq.heappush(heap, (rows + int(sizes[unit]), fold))
    return of_unit


def _drawn_share(units: NDArray[np.int64], draw: np.random.Generator) -> NDArray[np.bool_]:
    """Rows of randomly drawn units, about the validation share of all."""
    sizes = np.bincount(units)
    order = draw.permutation(len(sizes))
    ends = np.cumsum(sizes[order])
    count = int(np.searchsorted(ends, VALIDATION_SHARE * len(units))) + 1
    return np.isin(units, order[:count])
