"""Table of the size of added positions beside that of the tokens at the start of training, for every page."""

from __future__ import annotations

from posenc.measure.statistics import mean
from posenc.workbench.report.number_format import join_words, number
from posenc.workbench.report.page import Panel, Table
from posenc.workbench.studies.shared.declarations import MAIN
from posenc.workbench.studies.shared.page_data import PageData
from posenc.workbench.studies.shared.training_run import EMBEDDING_SCALE

LARGE = 2.0
"""Ratio above which positions may hide the tokens."""
DIGITS = 2


def embedding_scale_panel(data: PageData) -> Panel | None:
    """Table of the ratio of positions to tokens before training, by variant.

    Args:
        data: The data of the page.

    Returns:
        The panel; None if no model of the page adds positions to its tokens, or all were trained before the ratio was
        stored.
    """
    scales = _scales(data)
    if not scales:
        return None
    conditions = sorted({condition for condition, _ in scales}, key=lambda label: (label != MAIN, label))
    several, rows = len(conditions) > 1, []
    for condition in conditions:
        for label in sorted(data.labels(condition), key=lambda each: (-scales.get((condition, each), 0.0), each)):
            cell = number(scales[condition, label], DIGITS) if (condition, label) in scales else "–"
            rows.append((label, *([condition] if several else []), cell))
    columns = ("variant", *(["condition"] if several else []), "RMS of positions / RMS of tokens")
    note = (
        "Root mean squares before the first step, where positions are first added to tokens; mean over seeds. –: no "
        "positions are added, or the run was stored before this ratio was measured."
    )
    return Panel("Size of positions at the start", (Table("Variants and their positions", columns, tuple(rows), note),))


def large_positions(data: PageData) -> tuple[str, ...]:
    """Sentence on the variants whose positions are more than ``LARGE`` times as large as the tokens.

    Args:
        data: The data of the page.

    Returns:
        One sentence, or none.
    """
    scales = {cell: scale for cell, scale in _scales(data).items() if scale > LARGE}
    if not scales:
        return ()
    large = [
        f"{label}{'' if condition == MAIN else f' ({condition})'} {number(scale, 1)}"
        for (condition, label), scale in scales.items()
    ]
    return (
        f"Before training, positions are more than {LARGE:g} times as large as tokens (ratio of root mean squares): "
        f"{join_words(large)}. They may hide the tokens in a short training. A factor of 1 / ratio makes both equal: "
        '"Scaled(ENCODING, FACTOR)", or learned-SIGMA with a smaller SIGMA.',
    )


def _scales(data: PageData) -> dict[tuple[str, str], float]:
    """Condition and variant to the mean ratio over seeds."""
    by_cell: dict[tuple[str, str], list[float]] = {}
    for spec in data.done:
        arrays = data.store.arrays(spec.identity)
        if EMBEDDING_SCALE in arrays:
            by_cell.setdefault((spec.condition, spec.variant), []).append(float(arrays[EMBEDDING_SCALE][0]))
    return {cell: mean(by_cell[cell]) for cell in sorted(by_cell)}
