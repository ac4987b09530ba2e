"""Pages of schemes: formula, claims, pictures, arguments, where studies met it, citation; and the table of all."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from scheme_facts import code_example, comparisons, cost_table, families, family, measured_claims

from posenc.cli.schemes import claims_of_all
from posenc.contract import claims_measured
from posenc.contract.case import range_in_words
from posenc.lookup.cited_functions import citation
from posenc.lookup.cited_functions import functions as cited_functions
from posenc.lookup.scheme_text import call_text
from posenc.measure.distance_decay import shown_call
from posenc.schemes import catalogue
from posenc.workbench.report.page import Figure, FigureGroup
from posenc.workbench.report.scheme_page import scheme_plots

MET = (
    "Stored results of variants whose model has this scheme; the model may tell positions in other ways too. Ranks are "
    "those of the [leaderboard](../evidence/leaderboard.md)."
)
DEFINITION_ALONE = "Compared with its scalar definition alone ([others](../documents/parity.md))."
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
    claims = list(claims_of_all())
    for name, kind in catalogue().items():
        text = scheme_page(name, kind, list(met.get(name, ())))
        (folder / f"{name}.md").write_text(text, encoding="utf-8")
    (folder / "frequencies.md").write_text(_functions(cited_functions().values()), encoding="utf-8")
    (folder / "bibliography.md").write_text(_bibliography(), encoding="utf-8")
    (folder / "index.md").write_text(_table(claims), encoding="utf-8")


def scheme_page(name: str, kind: type[Any], met: list[str]) -> str:
    """Page of a scheme as Markdown.

    Args:
        name: Its name.
        kind: Its class.
        met: Items about the studies that trained it.

    Returns:
        The page.
    """
    summary, _, formula = inspect.cleandoc(sys.modules[kind.__module__].__doc__ or "").partition("\n")
    measured = claims_measured(kind)
    parts = [
        f"# {name}\n\n{summary}",
        "## Formula\n\n" + formula.strip("\n"),
        f"## Claims\n\n{measured_claims(measured, len(kind.examples))} `posenc check {name}` measures again.",
        f"## Other implementations\n\n{comparisons(name) or DEFINITION_ALONE}",
        "## Code\n\n" + code_example(shown_call(kind)),
        "## Pictures\n\n" + _pictures(kind) + f"\n\n{EXPLORE.format(name=name)}",
        f"## Arguments\n\n```{{eval-rst}}\n.. autoclass:: {kind.__module__}.{kind.__qualname__}\n```",
        f"## Cost\n\n{cost_table(name)}",
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


def _table(claims: Sequence[Mapping[str, Any]]) -> str:
    lines = [
        "| scheme | description | family | acts at | translation | learned | positions | axes |",
        "|---|---|---|---|---|---|---|---|",
    ]
    names = []
    for row in claims:
        names.append(row["name"])
        sentence = re.sub(r"^[^:]{1,40}: ", "", row["summary"]).rstrip(".").replace("|", "\\|")
        shown = ("sites", "translation", "learned", "range", "axes")
        cells = (
            f"[{row['name']}]({row['name']}.md)",
            sentence,
            family(row["sites"]),
            *(_claim(each, row[each]) for each in shown),
        )
        lines.append("| " + " | ".join(cells) + " |")
    contents = "```{toctree}\n:hidden:\n\n" + "\n".join([*names, "frequencies"]) + "\n```\n"
    functions = "[Frequency schedules and changes of positions](frequencies.md) have a page too.\n"
    return (
        f"{HEAD}\n{functions}\n## Families\n\n{families(claims)}\n\n## Comparison\n\n{{.sortable}}\n"
        + "\n".join(lines)
        + f"\n\n{contents}"
    )


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
        parts += [comparisons(function.__name__), _citation(citation(function))]
    return "\n\n".join(parts) + "\n"
