"""Build the site: the documents, a page for each scheme, the reference and the evidence.

    python tools/website                  writes build/site; make docs does the same
    python tools/website --out FOLDER

It needs the packages of the group ``docs`` and no network. Warnings are errors. The pages open from the disk.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from documents import ROOT, write_documents
from evidence_pages import write_evidence_pages
from explorer_page import write_explorer_page
from figure_colors import color_sheet
from reference_pages import write_reference_pages
from result_pages import RESULTS
from scheme_pages import write_scheme_pages
from studies_of_schemes import studies_of_schemes

from posenc.workbench.report import page

SOURCES = ROOT / "docs" / "site"
TUTORIAL_DATA = ("advice-scores-california.json",)
"""Stored results that tutorials read from their own folder."""
LARGEST_PAGE, LARGEST_SITE = 3_000_000, 60_000_000
"""Bytes."""


def main() -> int:
    """Assemble the pages, build the site and check its size."""
    parser = argparse.ArgumentParser(description="Build the site.")
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "site", help="folder of the site; it is replaced")
    chosen = parser.parse_args()
    out: Path = chosen.out
    shutil.rmtree(out, ignore_errors=True)
    with tempfile.TemporaryDirectory() as folder:
        pages = assemble(Path(folder) / "pages")
        command = [sys.executable, "-m", "sphinx", "-b", "html", "-W", "--keep-going", "-q",
                   "-d", str(Path(folder) / "doctrees"), str(pages), str(out)]  # fmt: skip
        status = subprocess.run(command, check=False).returncode
    if status:
        return status
    too_large = large_files(out)
    print("\n".join([*too_large, f"{out / 'index.html'}"]))
    return 1 if too_large else 0


def assemble(pages: Path) -> Path:
    """Write the sources of all pages.

    Args:
        pages: Folder of the sources; it is replaced.

    Returns:
        The folder.
    """
    shutil.rmtree(pages, ignore_errors=True)
    shutil.copytree(SOURCES, pages, ignore=shutil.ignore_patterns("__pycache__", "variants.json"))
    (pages / "tutorials").rename(pages / "tutorials_source")
    for name in TUTORIAL_DATA:
        shutil.copy(RESULTS / name, pages / "tutorials_source")
    (pages / "static" / "colors.css").write_text(color_sheet(), encoding="utf-8")
    shutil.copy(Path(page.__file__).parent / "table_sort.js", pages / "static")
    write_documents(pages)
    rankings = write_evidence_pages(pages)
    write_scheme_pages(pages, studies_of_schemes(rankings))
    write_reference_pages(pages)
    write_explorer_page(pages)
    return pages


def large_files(folder: Path) -> list[str]:
    """Name the files that are larger than a page may be, and the site if it is too large.

    Args:
        folder: The site.

    Returns:
        One sentence for each.
    """
    sizes = {path: path.stat().st_size for path in folder.rglob("*") if path.is_file()}
    found = [
        f"{path} has {size:,} bytes; at most {LARGEST_PAGE:,}." for path, size in sizes.items() if size > LARGEST_PAGE
    ]
    if sum(sizes.values()) > LARGEST_SITE:
        found.append(f"the site has {sum(sizes.values()):,} bytes; at most {LARGEST_SITE:,}.")
    return found


if __name__ == "__main__":
    sys.exit(main())
