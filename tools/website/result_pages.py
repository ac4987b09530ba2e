"""Pages of results: today's style sheet, scripts and contents list around the panels that an earlier version drew.

    python tools/website/result_pages.py         writes results/*.html again
    python tools/website                         the site's copies lead to its other pages too

No number and no sentence of a page changes. `posenc report` draws a page again from its runs or its pack.
"""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path

from posenc.workbench.report.page_shell import in_shell

RESULTS = Path(__file__).parents[2] / "results"
DOCUMENTS = Path(__file__).parents[2] / "docs"
SITE = (
    ("Start", "../index.html"),
    ("Schemes", "../schemes/index.html"),
    ("Evidence", "../evidence/leaderboard.html"),
    ("Explorer", "../explorer/index.html"),
)
"""Pages of the site to which a page of results leads."""


def copy_results(folder: Path) -> None:
    """Copy the pages of results for the site, and the tables to which a document links.

    Args:
        folder: Folder of the copies; it is created.
    """
    folder.mkdir(parents=True)
    documents = "".join(path.read_text(encoding="utf-8") for path in sorted(DOCUMENTS.rglob("*.md")))
    linked = set(re.findall(r"results/([\w.-]+\.(?:csv|json))\b", documents))
    for path in sorted(RESULTS.iterdir()):
        if path.suffix == ".html":
            (folder / path.name).write_text(in_shell(path.read_text(encoding="utf-8"), SITE), encoding="utf-8")
        elif path.name in linked:
            shutil.copy(path, folder)


def main() -> int:
    """Write the committed pages again."""
    for path in sorted(RESULTS.rglob("*.html")):
        before = path.read_text(encoding="utf-8")
        if (after := in_shell(before)) != before:
            path.write_text(after, encoding="utf-8")
            print(path.relative_to(RESULTS.parent))
    return 0


if __name__ == "__main__":
    sys.exit(main())
