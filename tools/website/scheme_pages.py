"""Pages of schemes: formula, claims, pictures, arguments, where studies met it, citation; and the table of all."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from posenc.cli.schemes import claims_of_all
from posenc.contract.case import range_in_words
from posenc.lookup.cited_functions import citation
from posenc.lookup.cited_functions import functions as cited_functions
from posenc.lookup.scheme_text import call_text
from posenc.measure.distance_decay import shown_call
from posenc.schemes import catalogue
from posenc.workbench.report.page import Figure, FigureGroup
from posenc.workbench.report.scheme_page import scheme_plots

CLAIMS = ("translation", "isometric", "learned", "range", "axes", "sites", "sharing", "cacheable")
IN_WORDS = {
    "translation": "If all positions move by one vector, logits stay equal: exact, expected (on average) or none",
    "isometric": "The encoding keeps norms",
    "learned": "It has trained parameters",
    "range": "Positions that it takes",
    "axes": "Axes of a position",
    "sites": "Where it acts in a model",
    "sharing": "Parts of a model that share one instance",
    "cacheable": "Decoding with cached keys gives the output of a full pass",
}
MET = (
    "Stored results of variants whose model has this scheme; the model may tell positions in other ways too. Ranks are "
    "those of the [leaderboard](../evidence/leaderboard.md)."
)
EXPLORE = '<a href="../explorer/index.html#call={name}">Turn its options in the explorer</a>, beside other schemes.'
HEAD = """# Schemes

Every scheme is one file, with the paper's formula next to the code. The contract measures every claim of this table:
`posenc check NAME`. A click on a heading sorts.

```{image} ../schemes.svg
:alt: One plot per scheme, logit of two equal tokens by distance
```
"""


def write_scheme_pages(pages: Path, met: Mapping[str, Iterable[str]]) -> None:
    """Write a page for each scheme and frequency schedule, and the table of all schemes.

    Args:
        pages: Folder of the pages of the site.
        met: Scheme to Markdown items about the studies that trained it.
    """
    folder = pages / "schemes"
    folder.mkdir()
    claims = {row["name"]: row for row in claims_of_all()}
    for name, kind in catalogue().items():
        text = scheme_page(name, kind, claims[name], list(met.get(name, ())))
        (folder / f"{name}.md").write_text(text, encoding="utf-8")
    (folder / "frequencies.md").write_text(_functions(cited_functions().values()), encoding="utf-8")
    (folder / "bibliography.md").write_text(_bibliography(), encoding="utf-8")
    (folder / "index.md").write_text(_table(claims.values()), encoding="utf-8")


def scheme_page(name: str, kind: type[Any], claims: Mapping[str, Any], met: list[str]) -> str:
    """Page of a scheme as Markdown.

    Args:
        name: Its name.
        kind: Its class.
        claims: Its claims, as of ``claims_of_all``.
        met: Items about the studies that trained it.

    Returns:
        The page.
    """
    summary, _, formula = inspect.cleandoc(sys.modules[kind.__module__].__doc__ or "").partition("\n")
    rows = [f"| {IN_WORDS[each]} | {_claim(each, claims[each])} |" for each in CLAIMS]
    parts = [
        f"# {name}\n\n{summary}",
        "## Formula\n\n" + formula.strip("\n"),
        "## Claims\n\n| claim | value |\n|---|---|\n" + "\n".join(rows)
        + f"\n\n`posenc check {name}` measures each of them on every declared example.",
        "## Pictures\n\n" + _pictures(kind) + f"\n\n{EXPLORE.format(name=name)}",
        f"## Arguments\n\n```{{eval-rst}}\n.. autoclass:: {kind.__module__}.{kind.__qualname__}\n```",
        "## In the studies\n\n" + ("\n".join([MET, "", *met]) if met else "No stored result has a variant with it."),
        "## Citation\n\n" + _citation(kind.cite),
    ]  # fmt: skip
    return "\n\n".join(parts) + "\n"


def _claim(name: str, value: Any) -> str:
    if name == "range":
        return range_in_words(value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (list, tuple, set, frozenset)):
        return ", ".join(map(str, value)) or "nowhere"
    return str(value)


def _pictures(kind: type[Any]) -> str:
    call = shown_call(kind)
    drawings = []
    for panel in scheme_plots(call):
        groups = [block for block in panel.blocks if isinstance(block, FigureGroup)]
        drawings += [_drawing(figure, group) for group in groups for figure in group.figures]
    written = f"`posenc show {kind.__name__}` draws `{call_text(call)}`."
    return "\n\n".join([written, *drawings]) if drawings else f"{written} It has no plot by distance."


def _drawing(figure: Figure, group: FigureGroup) -> str:
    size = "drawing" if group.size == "wide" else "drawing small"
    svg = re.sub(r"\s*\n\s*", " ", figure.svg)
    return f'<figure class="{size}">{svg}<figcaption>{figure.title}</figcaption></figure>'


def _citation(cite: str) -> str:
    return f"```bibtex\n{cite.strip()}\n```" if cite.strip() else "This scheme has no paper of its own."


def _table(claims: Iterable[Mapping[str, Any]]) -> str:
    lines = [
        "| scheme | description | acts at | translation | learned | positions | axes |",
        "|---|---|---|---|---|---|---|",
    ]
    names = []
    for row in claims:
        names.append(row["name"])
        sentence = re.sub(r"^[^:]{1,40}: ", "", row["summary"]).rstrip(".").replace("|", "\\|")
        shown = ("sites", "translation", "learned", "range", "axes")
        cells = (f"[{row['name']}]({row['name']}.md)", sentence, *(_claim(each, row[each]) for each in shown))
        lines.append("| " + " | ".join(cells) + " |")
    contents = "```{toctree}\n:hidden:\n\n" + "\n".join([*names, "frequencies", "bibliography"]) + "\n```\n"
    functions = "[Frequency schedules and changes of positions](frequencies.md) have a page too.\n"
    return f"{HEAD}\n{functions}\n{{.sortable}}\n" + "\n".join(lines) + f"\n\n{contents}"


def _bibliography() -> str:
    """All entries, each with the schemes and functions that it belongs to."""
    owners: dict[str, list[str]] = {}
    for name, kind in catalogue().items():
        owners.setdefault(kind.cite.strip(), []).append(f"[{name}]({name}.md)")
    for name, function in cited_functions().items():
        owners.setdefault(citation(function).strip(), []).append(f"[{name}](frequencies.md)")
    owners.pop("", None)
    entries = sorted(owners, key=lambda entry: entry.partition("{")[2].partition(",")[0])
    parts = [f"{', '.join(owners[entry])}\n\n```bibtex\n{entry}\n```" for entry in entries]
    return "\n\n".join(["# Bibliography", "`posenc cite --all` prints all entries.", *parts]) + "\n"


def _functions(functions: Iterable[Any]) -> str:
    parts = [
        "# Frequency schedules and changes of positions",
        "Functions with a paper of their own. `posenc show NAME` prints the same.",
    ]
    for function in functions:
        name = f"{function.__module__}.{function.__name__}"
        parts += [f"## {function.__name__}", f"```{{eval-rst}}\n.. autofunction:: {name}\n```"]
        parts.append(_citation(citation(function)))
    return "\n\n".join(parts) + "\n"
