"""Calls of the encodings of a page: each variant with every argument, to copy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from posenc.workbench.report.page import Panel, Table

NO_VIEWS: Mapping[tuple[str, str], str] = MappingProxyType({})


def calls_panel(
    calls: Mapping[tuple[str, str], Sequence[str]], views: Mapping[tuple[str, str], str] = NO_VIEWS
) -> Panel | None:
    """Show the calls that built the encodings of trained models.

    Args:
        calls: (variant, condition) to the distinct calls of its model, in the order of the layers.
        views: (variant, condition) to the view of the positions that its encodings read.

    Returns:
        The panel; None without calls, as for runs of earlier versions.
    """
    rows = tuple((*labels, views.get(labels, ""), "; ".join(texts)) for labels, texts in calls.items() if texts)
    if not rows:
        return None
    caption = "All arguments, including those that the study filled in. Runs of earlier versions have no stored call."
    columns = ("variant", "condition", "view of the positions", "call")
    table = Table("Calls of the encodings", columns, rows, prose=True, folded=True)
    return Panel("Encodings with their arguments", (table,), caption)
