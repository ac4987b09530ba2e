"""Facts of a scheme on its page: family, measured claims, cost beside no encoding, code."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from result_pages import RESULTS

from posenc.contract import Measured
from posenc.lookup.scheme_text import Specification
from posenc.workbench.explorer.code_text import code_of

FAMILIES: Mapping[str, Collection[str]] = {
    "no encoding": (),
    "embedding": ("embed",),
    "transform of queries and keys": ("q", "k", "v", "o"),
    "mask": ("mask", "q"),
    "bias": ("bias", "mask", "value_bias", "q"),
    "mixing": ("mix",),
}
"""Family to the sites at which its schemes may act; the first that fits counts."""
ABOUT = {
    "embedding": "rows, added to the tokens or concatenated with them",
    "transform of queries and keys": "rotations and other maps of queries and keys, some of values too",
    "bias": "numbers added to the logits before the softmax",
    "mask": "which keys a query may attend to",
    "mixing": "a map of neighboring tokens after a block",
    "several sites": "more than one of these",
    "no encoding": "the control",
}
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


def family(sites: Iterable[str]) -> str:
    """Family of a scheme, by the sites at which it acts.

    Args:
        sites: The sites.

    Returns:
        The family; "several sites" if it acts at sites of more than one.
    """
    acts = set(sites)
    return next((name for name, allowed in FAMILIES.items() if acts <= set(allowed)), "several sites")


def families(claims: Iterable[Mapping[str, Any]]) -> str:
    """List of the families with links to their schemes, as Markdown.

    Args:
        claims: Claims of all schemes, as of ``claims_of_all``.

    Returns:
        The list, the largest family first.
    """
    members: dict[str, list[str]] = {}
    for row in claims:
        members.setdefault(family(row["sites"]), []).append(f"[{row['name']}]({row['name']}.md)")
    order = sorted(members, key=lambda name: -len(members[name]))
    return "\n".join(f"* **{name}**, {ABOUT[name]}: {', '.join(members[name])}" for name in order)


def measured_claims(measured: Iterable[Measured], examples: int) -> str:
    """Table of what a scheme claims and what was measured when the site was built.

    Args:
        measured: Comparison of each claim with its measurement.
        examples: Number of declared examples on which they were measured.

    Returns:
        The table, as Markdown.
    """
    lines = ["| property | claimed | measured |", "|---|---|---|"]
    for each in measured:
        lines.append(f"| {IN_WORDS[each.name]} | {each.claimed} | {each.trouble or each.claimed} |")
    of = "its declared example" if examples == 1 else f"its {examples} declared examples"
    return (
        "\n".join(lines) + f"\n\nMeasured on {of} when this site was built; a claim that is too weak counts as wrong."
    )


def cost_table(name: str) -> str:
    """Cost of a scheme beside no encoding, as Markdown.

    Args:
        name: Its name.

    Returns:
        The stored ratios; a sentence if there are none.
    """
    stored = json.loads((RESULTS / "costs-cpu.json").read_text(encoding="utf-8"))
    found = stored["found"].get(name, {})
    rows = []
    if decode := found.get("decode"):
        rows.append(f"| time of a decoded token, cache of {stored['context']:,} | {decode['ratio']:.2f} |")
    if training := found.get("training"):
        rows.append(f"| time of a training step, {stored['tokens']:,} tokens | {training['ratio']:.2f} |")
        rows.append(f"| memory of a training step | {training['memory']:.2f} |")
    if not rows:
        return "Not measured."
    head = "| quantity | ratio to no encoding |\n|---|---|\n"
    note = "One thread of a CPU, float32; 1.05 is 5 % more. [How it was measured](../documents/costs.md)."
    return f"{head}{chr(10).join(rows)}\n\n{note}"


def comparisons(name: str) -> str:
    """Comparisons of a scheme or frequency schedule with other implementations, as Markdown.

    Args:
        name: Its name.

    Returns:
        A sentence for each library, with the largest difference; "" if there is none.
    """
    stored = json.loads((RESULTS / "parity.json").read_text(encoding="utf-8"))
    by_library: dict[str, list[Any]] = {}
    for row in stored["rows"]:
        if row["name"] == name:
            by_library.setdefault(row["library"], []).append(row)
    if not by_library:
        return ""
    lines = []
    for library, rows in by_library.items():
        code = "; ".join(
            row["code"].replace("migration.md", "[migration.md](../documents/migration.md)") for row in rows
        )
        version = stored["versions"].get(library)
        source = f"{library} {version} ({code})" if version else f"released code, {library} in a test ({code})"
        largest = {
            dtype: max(row[dtype] for row in rows if dtype in row)
            for dtype in ("float32", "float64")
            if any(dtype in row for row in rows)
        }
        figures = ", ".join(f"{value:.1e} in {dtype}" if value else f"0 in {dtype}" for dtype, value in largest.items())
        lines.append(f"* Compared with {source}: largest difference {figures}.")
    return "\n".join([*lines, "", "[How it was measured](../documents/parity.md)."])


def code_example(call: Specification) -> str:
    """Code that makes a scheme, to be copied, as Markdown.

    Args:
        call: Its call.

    Returns:
        The code, and the document that uses it.
    """
    return (
        f"```python\n{code_of(call).strip()}\n```\n\n"
        "[Your own attention](../documents/attention.md) and [recipes](../documents/recipes.md) use it in a model."
    )
