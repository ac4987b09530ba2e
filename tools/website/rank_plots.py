"""Critical-difference plots of the leaderboard: average ranks over complete blocks of one scale and condition.

A block is one seed for which all variants of the plot have a value. Friedman's test asks whether any variant differs.
By Nemenyi's test two variants differ if their average ranks are further apart than the critical difference, the bar of
each variant (Demsar 2006, JMLR 7; the bars as in Koning et al. 2005).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

import numpy as np
from scipy.stats import friedmanchisquare, rankdata, studentized_range

from posenc.workbench.report.number_format import number
from posenc.workbench.report.result_rows import BySeed

LEVEL = 0.95
FEWEST_VARIANTS, FEWEST_BLOCKS = 3, 3
WIDTH, LEFT, RIGHT, ROW, TOP = 460, 190, 20, 19, 12
"""Sizes of the drawing in its own units."""


@dataclass(frozen=True)
class AverageRanks:
    """Average ranks of variants over complete blocks.

    Attributes:
        ranks: Variant to its average rank, the best first; rank 1 is the best.
        blocks: Number of blocks.
        difference: Critical difference of two average ranks, Nemenyi's test at 95 %.
        p_value: p-value of Friedman's test.
        left_out: Variants without a value in every block.
    """

    ranks: Mapping[str, float]
    blocks: int
    difference: float
    p_value: float
    left_out: Sequence[str]


def average_ranks(values: Mapping[str, BySeed], *, lower_is_better: bool) -> AverageRanks | None:
    """Rank variants within each block.

    The blocks are the seeds of the variant with the most seeds; a variant that lacks one of them is left out, unless
    fewer seeds keep more variants: the product of variants and blocks is largest.

    Args:
        values: Variant to its values by seed, of one scale and condition.
        lower_is_better: True for an error.

    Returns:
        The ranks; None for fewer than three variants or blocks.
    """
    kept, seeds = _complete(values)
    if len(kept) < FEWEST_VARIANTS or len(seeds) < FEWEST_BLOCKS:
        return None
    scores = np.array([[values[name][seed] for name in kept] for seed in seeds])
    ranks = rankdata(scores if lower_is_better else -scores, axis=1).mean(0)
    k, n = len(kept), len(seeds)
    q = float(studentized_range.ppf(LEVEL, k, np.inf)) / math.sqrt(2)
    p_value = float(friedmanchisquare(*scores.T).pvalue)
    order = np.argsort(ranks, kind="stable")
    return AverageRanks(
        {kept[place]: float(ranks[place]) for place in order},
        n,
        q * math.sqrt(k * (k + 1) / (6 * n)),
        p_value,
        [name for name in values if name not in kept],
    )


def _complete(values: Mapping[str, BySeed]) -> tuple[list[str], list[int]]:
    """Variants and seeds of the largest complete table."""
    best: tuple[list[str], list[int]] = ([], [])
    for seeds in {tuple(sorted(each)) for each in values.values()}:
        kept = [name for name, each in values.items() if set(seeds) <= set(each)]
        if len(seeds) >= FEWEST_BLOCKS and len(kept) * len(seeds) > len(best[0]) * len(best[1]):
            best = kept, list(seeds)
    return best


def rank_plot(found: AverageRanks, title: str) -> str:
    """Draw average ranks with bars of half a critical difference to each side.

    Args:
        found: The ranks.
        title: What they are of, for screen readers.

    Returns:
        HTML of the folded figure.
    """
    k, half, best = len(found.ranks), found.difference / 2, min(found.ranks.values())
    bottom = TOP + ROW * k

    def place(rank: float) -> float:
        return LEFT + (min(max(rank, 0.5), k + 0.5) - 0.5) / k * (WIDTH - LEFT - RIGHT)

    ticks = sorted({1, k, *range(1, k + 1, max(1, round(k / 6)))})
    parts = [f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{bottom}" y2="{bottom}" stroke="var(--muted)"/>']
    for tick in ticks:
        x = f"{place(tick):.1f}"
        parts.append(f'<line x1="{x}" x2="{x}" y1="{TOP}" y2="{bottom}" stroke="var(--grid)"/>')
        parts.append(f'<text x="{x}" y="{bottom + 15}" text-anchor="middle" fill="var(--muted)">{tick}</text>')
    for row, (name, rank) in enumerate(found.ranks.items()):
        y = TOP + ROW * (row + 0.5)
        color = "var(--first)" if rank - best <= found.difference else "var(--muted)"
        parts.append(
            f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end" fill="currentColor">{escape(name)}</text>'
        )
        parts.append(
            f'<line x1="{place(rank - half):.1f}" x2="{place(rank + half):.1f}" y1="{y:.1f}" y2="{y:.1f}" '
            f'stroke="{color}" stroke-width="3" stroke-opacity="0.45"/>'
            f'<circle cx="{place(rank):.1f}" cy="{y:.1f}" r="3.6" fill="{color}"/>'
        )
    middle = (LEFT + WIDTH - RIGHT) / 2
    parts.append(
        f'<text x="{middle}" y="{bottom + 32}" text-anchor="middle" fill="currentColor">average rank (1 is best)</text>'
    )
    svg = (
        f'<svg viewBox="0 0 {WIDTH} {bottom + 38}" role="img" aria-label="{escape(_in_words(found, title))}" '
        f'style="font-size: 12px">{"".join(parts)}</svg>'
    )
    return (
        f'<details class="ranks"><summary>Critical-difference plot: {found.blocks} complete blocks, {k} variants'
        f'</summary><figure class="drawing">{svg}<figcaption>{caption(found)}</figcaption></figure></details>'
    )


def caption(found: AverageRanks) -> str:
    """Sentences under the plot.

    Args:
        found: The ranks.

    Returns:
        What the bars mean, the tests, and what was left out.
    """
    size = f"p {'< 0.001' if found.p_value < 0.001 else f'= {number(found.p_value, 3)}'}"
    verdict = "finds differences" if found.p_value < 1 - LEVEL else "finds no difference"
    least = (
        "No two variants can differ by this test with so few blocks. "
        if found.difference >= len(found.ranks) - 1
        else ""
    )
    out = f" Left out, because seeds are missing: {', '.join(map(escape, found.left_out))}." if found.left_out else ""
    return (
        f"Average rank over {found.blocks} seeds, each a block in which every variant has a value. Friedman's test "
        f"{verdict} ({size}). Two variants differ by Nemenyi's test at 95 % if their ranks are further apart than "
        f"{found.difference:.2f}, the length of a bar: if the bars do not overlap. {least}In color: not told apart "
        f"from the best.{out}"
    )


def _in_words(found: AverageRanks, title: str) -> str:
    first, rank = next(iter(found.ranks.items()))
    return f"Average ranks, {title}: {first} is first with {rank:.1f} of {len(found.ranks)} variants."
