"""Pictures of a paper's own theory, one file a paper: a scheme's page shows those of the paper that it cites.

A file names its paper, as ``PAPER = "arXiv:2406.07049"``, and draws it in ``panels()``. The folder is walked.
"""

from __future__ import annotations

import importlib
import pkgutil

from posenc.report.page import Panel


def panels(cite: str) -> list[Panel]:
    """The panels of every paper that stands in a citation."""
    found: list[Panel] = []
    for file in pkgutil.iter_modules(__path__):
        module = importlib.import_module(f"{__name__}.{file.name}")
        if module.PAPER in cite:
            found += module.panels()
    return found
