"""Figures of the theory of a paper, one file per paper, shown on the pages of schemes that cite it.

Each file defines ``PAPER``, such as "arXiv:2406.07049", and ``panels()``. All files of this folder are used.
"""

from __future__ import annotations

import importlib
import pkgutil

from posenc.workbench.report.page import Panel


def panels(cite: str) -> list[Panel]:
    """Panels of the papers named in a citation.

    Args:
        cite: BibTeX entries of a scheme.

    Returns:
        The panels; none if no file of this folder is about one of these papers.
    """
    panels_of_papers: list[Panel] = []
    for file in pkgutil.iter_modules(__path__):
        module = importlib.import_module(f"{__name__}.{file.name}")
        if module.PAPER in cite:
            panels_of_papers += module.panels()
    return panels_of_papers
