"""Pages of the site that are documents of the repository: links are changed to those of the site."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path

from posenc.schemes import catalogue

ROOT = Path(__file__).parents[2]
ABOUT = {"CONTRIBUTING.md": "contributing.md", "results/README.md": "results.md"}
"""Documents outside of docs/, and their names among the documents of the site."""
HEADING = re.compile(r"#+ ")
LINK = re.compile(r"(?<!!)\[([^\]]*)\]\(([^)\s]+)\)")
BLOCK = re.compile(r"(^```.*?^```$)", re.S | re.M)


def write_documents(pages: Path) -> None:
    """Copy all documents.

    Args:
        pages: Folder of the pages of the site.
    """
    folder = pages / "documents"
    folder.mkdir(parents=True)
    sources = {path: path.name for path in sorted((ROOT / "docs").glob("*.md")) if path.name != "schemes.md"}
    sources |= {ROOT / name: title for name, title in ABOUT.items()}
    for source, name in sources.items():
        text = with_links(source.read_text(encoding="utf-8"), source.parent)
        (folder / name).write_text(text, encoding="utf-8")
    shutil.copy(ROOT / "docs" / "schemes.svg", pages / "schemes.svg")


def with_links(text: str, folder: Path) -> str:
    """Change the links of a document to those of the site, and keep one title; blocks of code stay as they are.

    Args:
        text: The document.
        folder: Its folder in the repository.

    Returns:
        The document, for a folder one below the first page.

    Raises:
        ValueError: A link names no page of the site.
    """
    parts = BLOCK.split(text)
    return "".join(_one_title(part if number % 2 else _links(part, folder) for number, part in enumerate(parts)))


def _one_title(parts: Iterable[str]) -> Iterator[str]:
    """Put all after the second title one level lower, so that the document is one entry of the contents."""
    titles = 0
    for number, part in enumerate(parts):
        for line in part.splitlines(keepends=True):
            titles += number % 2 == 0 and line.startswith("# ")
            yield "#" + line if number % 2 == 0 and titles > 1 and HEADING.match(line) else line


def _links(text: str, folder: Path) -> str:
    return LINK.sub(lambda match: f"[{match[1]}]({target(match[2], folder)})", text)


def target(link: str, folder: Path) -> str:
    """Target of a link on the site.

    Args:
        link: The link as the repository has it.
        folder: Folder of the document.

    Returns:
        The link for a page one folder below the first page.

    Raises:
        ValueError: It names no page of the site.
    """
    name, hash, fragment = link.partition("#")
    if "://" in link or not name:
        return link
    path = (folder / name).resolve().relative_to(ROOT).as_posix()
    end = hash + fragment
    if path == "README.md":
        return f"../index.md{end}"
    if path == "docs/schemes.md":
        return f"../schemes/{fragment}.md" if fragment in catalogue() else f"../schemes/index.md{end}"
    if path in ABOUT:
        return f"../documents/{ABOUT[path]}{end}"
    if path.startswith("results/"):
        return f"results:{path.removeprefix('results/')}"
    if path.startswith("docs/") and path.endswith(".md"):
        return f"../documents/{path.removeprefix('docs/')}{end}"
    raise ValueError(f"the site has no page for the link {link}. Write the path as code, without a link.")
