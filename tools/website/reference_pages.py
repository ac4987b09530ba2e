"""Reference: public names from docstrings, and the command line from its own parser."""

from __future__ import annotations

import importlib
import inspect
import re
import textwrap
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import posenc
from posenc.cli import COMMANDS
from posenc.cli.grammar import command_of
from posenc.cli.help_text import of_all, of_command
from posenc.lookup.cited_functions import functions as cited_functions
from posenc.schemes import catalogue
from posenc.workbench import dataset_record
from posenc.workbench.storage import packs, stored

MODULES = (
    ("frequencies", "Frequencies", ("posenc.frequencies",)),
    ("measure", "Measures and statistics", ("posenc.measure",)),
    ("adapt", "Schemes in models of others", ("posenc.adapt", "posenc.adapt.sklearn")),
    ("models", "Models", ("posenc.models",)),
    ("contract", "The contract", ("posenc.contract",)),
)
"""Name of a page, its title, and the modules whose public names it lists. A package is listed with its modules."""
FORMAT_MODULES = ("store", "identity", "packs", "compacted_runs", "further_labels", "data_files", "run_index", "leases")
"""Modules of the store whose docstrings list files, in the order of the page."""
RECORDS = {
    "`unit.json`": stored.Record,
    "A line of a pack": packs.PackedRun,
    "Record of data": dataset_record.DatasetRecord,
}
"""File to the class whose fields it holds, as JSON."""
SPECIFICATION = "The specification of a run is a [RunSpec](workbench.md) as JSON."
FORMATS = (
    "The files of a [store](../documents/design.md) and of packs, as the modules of `posenc.workbench.storage` state "
    "them. `posenc results --format csv` and `--format parquet` write tables for other programs."
)


def write_reference_pages(pages: Path) -> None:
    """Write the pages.

    Args:
        pages: Folder of the pages of the site.
    """
    folder = pages / "reference"
    folder.mkdir()
    schemes = set(catalogue())
    top = [name for name in posenc.__all__ if not name.startswith("_") and name not in schemes]
    things = [name for name in top if not inspect.ismodule(getattr(posenc, name))]
    elsewhere = {name: page for name in things if (page := _other_page(getattr(posenc, name)))}
    things = [name for name in things if name not in elsewhere]
    others = " ".join(f"`posenc.{name}` is [here]({page}.md)." for name, page in elsewhere.items())
    intro = f"`import posenc`. [Schemes](../schemes/index.md) have pages of their own. {others}"
    (folder / "posenc.md").write_text(_page("posenc", intro, [_names(posenc, things)]), encoding="utf-8")
    for name, title, modules in MODULES:
        parts = [part for module in modules for part in _package(module)]
        intro = f"`{modules[0]}`. Functions with a paper of their own are [on this page](../schemes/frequencies.md)."
        (folder / f"{name}.md").write_text(
            _page(title, intro if cited(modules) else f"`{modules[0]}`", parts), encoding="utf-8"
        )
    workbench = importlib.import_module("posenc.workbench")
    names = [each for each in workbench.__all__ if not inspect.ismodule(getattr(workbench, each))]
    intro = "`posenc.workbench` runs studies from Python, and has the parts of which a study is made."
    (folder / "workbench.md").write_text(_page("Workbench", intro, [_names(workbench, names)]), encoding="utf-8")
    (folder / "commands.md").write_text(_commands(), encoding="utf-8")
    (folder / "file-formats.md").write_text(file_formats(), encoding="utf-8")


def file_formats() -> str:
    """Write the page of file formats from the docstrings of the modules that read and write them.

    Returns:
        The page: the files of a store, of packs and of compacted runs, and the fields of their records.
    """
    parts = ["# File formats", FORMATS]
    for name in FORMAT_MODULES:
        module = importlib.import_module(f"posenc.workbench.storage.{name}")
        title, _, text = (inspect.getdoc(module) or "").partition("\n")
        blocks = _with_blocks(text.strip("\n"))
        parts += [f"## {title.partition(':')[0].rstrip('.')}", f"{title.replace('``', '`')}\n\n{blocks}"]
    parts += ["## Fields of the records", SPECIFICATION]
    parts += [f"### {title}\n\n{_fields(kind)}" for title, kind in RECORDS.items()]
    return "\n\n".join(parts) + "\n"


def _fields(kind: type[Any]) -> str:
    """Table of the attributes that the docstring of a class lists."""
    text = textwrap.dedent((inspect.getdoc(kind) or "").partition("Attributes:\n")[2].partition("\n\n")[0])
    items = re.findall(r"^(\w+): (.+(?:\n .+)*)", text, re.M)
    rows = [f"| `{name}` | {' '.join(words.replace('``', '`').split())} |" for name, words in items]
    return "\n".join(["| field | content |", "|---|---|", *rows])


def _with_blocks(text: str) -> str:
    """Markdown of a docstring: indented paragraphs are blocks of text."""
    paragraphs = []
    for part in text.split("\n\n"):
        block = part.startswith("    ")
        words = textwrap.dedent(part).replace("``", "" if block else "`")
        paragraphs.append(f"```text\n{words}\n```" if block else words)
    return "\n\n".join(paragraphs)


def cited(modules: Iterable[str]) -> bool:
    """Say if a function of these modules has a paper of its own.

    Args:
        modules: Names of modules.

    Returns:
        True if there is one.
    """
    return bool({function.__module__ for function in cited_functions().values()} & set(modules))


def _other_page(thing: Any) -> str:
    """Page that lists a thing of ``posenc`` under its own module; empty if none does."""
    pages = {module: name for name, _, modules in MODULES for module in modules} | {"posenc.workbench": "workbench"}
    return next((page for module, page in pages.items() if f"{thing.__module__}.".startswith(f"{module}.")), "")


def _page(title: str, intro: str, parts: Iterable[str]) -> str:
    return "\n\n".join([f"# {title}", intro, *parts]) + "\n"


def _package(name: str) -> list[str]:
    """Parts of a module, or of a package with all of its modules."""
    module = importlib.import_module(name)
    exported = getattr(module, "__all__", None)
    parts = [_names(module, exported or public_names(module))]
    folder = Path(module.__file__ or "").parent
    inner = sorted(folder.glob("*.py")) if hasattr(module, "__path__") and not exported else []
    for path in inner:
        if not path.stem.startswith("_"):
            within = importlib.import_module(f"{name}.{path.stem}")
            heading = f"## {name}.{path.stem}\n\n{inspect.getdoc(within) or ''}"
            parts.append(f"{heading}\n\n{_names(within, public_names(within))}")
    return [part for part in parts if part]


def public_names(module: ModuleType) -> list[str]:
    """Functions and classes that a module defines, without those whose name starts with an underscore.

    Args:
        module: The module.

    Returns:
        The names, in the order of the source.
    """
    elsewhere = cited_functions()  # they have a page with their citations
    return [
        name for name, value in vars(module).items()
        if not name.startswith("_") and (inspect.isfunction(value) or inspect.isclass(value))
        and value.__module__ == module.__name__ and name not in elsewhere
    ]  # fmt: skip


def _names(module: ModuleType, names: Sequence[str]) -> str:
    lines = []
    for name in names:
        value: Any = getattr(module, name)
        if inspect.isclass(value):
            lines += [f".. autoclass:: {module.__name__}.{name}", "   :members:", ""]
        elif inspect.isroutine(value):
            lines += [f".. autofunction:: {module.__name__}.{name}", ""]
    return "```{eval-rst}\n" + "\n".join(lines).strip() + "\n```" if lines else ""


def _commands() -> str:
    """Help of all commands, as `posenc COMMAND --help` prints it."""
    commands = [command_of(name, function) for name, function in COMMANDS.items()]
    parts = ["# Command line", f"```text\n{of_all(commands).rstrip()}\n```"]
    parts += [f"## posenc {each.name}\n\n```text\n{of_command(each).rstrip()}\n```" for each in commands]
    return "\n\n".join(parts) + "\n"
