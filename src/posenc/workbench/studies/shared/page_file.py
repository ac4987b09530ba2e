"""File of a page: named by what the page shows, so that no page replaces one that shows more."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from posenc.workbench.runs import RunSpec
from posenc.workbench.storage.store import Store
from posenc.workbench.studies import Request
from posenc.workbench.studies.shared import changes, page_records, planning

if TYPE_CHECKING:
    from posenc.workbench.studies.shared.study import Study

RUNS = re.compile(r'<meta name="posenc-runs" content="([0-9a-f ]*)">')
DIGITS = 6


def file_name(study: Study, request: Request, store: Store, specs: Sequence[RunSpec]) -> str:
    """File name of the page without its ending.

    Args:
        study: The study.
        request: The request.
        store: The store.
        specs: The trained runs.

    Returns:
        STUDY-PRESET, followed by the changed settings, by NAME-DIGEST6 of the user's file, and by the panels if they
        were chosen. If a page of this name shows finished runs that are not among these, six digits of a digest of
        these runs follow.
    """
    names, own = planning.panels_of(study, request), page_records.own(store, specs)
    suffix = changes.file_suffix(study.presets, request)
    parts = [study.name, request.preset, *([suffix] if suffix else []), *([own.label] if own else [])]
    if request.panels:
        parts += [planning.ALL] if set(names) == set(study.panels) else list(names)
    name, runs = "-".join(parts), {spec.identity for spec in specs}
    others = runs_of(folder(store) / f"{name}.html") - runs
    if not any(map(store.finished, others)):
        return name
    return f"{name}-{hashlib.sha256(' '.join(sorted(runs)).encode()).hexdigest()[:DIGITS]}"


def folder(store: Store) -> Path:
    """Folder of the pages of a store and of their further files."""
    return store.root / "pages"


def files_beside(page: Path) -> list[str]:
    """Names of the further files of a page, such as pictures, meshes and tables.

    Args:
        page: The HTML file.

    Returns:
        The names, sorted; those of another page whose name is longer are left out.
    """
    longer = [each.stem for each in page.parent.glob("*.html") if each.stem.startswith(f"{page.stem}-")]
    files = (each for each in page.parent.iterdir() if each.suffix != ".html" and each.name.startswith(f"{page.stem}-"))
    return sorted(each.name for each in files if not any(each.name.startswith(f"{stem}-") for stem in longer))


def runs_of(path: Path) -> set[str]:
    """Identities of the runs that a page shows.

    Args:
        path: The HTML file.

    Returns:
        The identities; empty if there is no page, or if an early version wrote it.
    """
    try:
        text = path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""
    except OSError:
        return set()
    named = RUNS.search(text)
    return set(named[1].split()) if named else set()


def with_runs(html: str, specs: Iterable[RunSpec]) -> str:
    """Name the runs of a page in its head.

    Args:
        html: The page.
        specs: The finished runs that it shows.

    Returns:
        The page.
    """
    runs = " ".join(sorted({spec.identity for spec in specs}))
    return html.replace("</head>", f'<meta name="posenc-runs" content="{runs}">\n</head>', 1)
