"""Commands about encodings: ``posenc check``, ``cite`` and ``new``."""

from __future__ import annotations

import dataclasses
import keyword
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from posenc.cli.grammar import Positional, arg
from posenc.cli.skeletons import MOST_AXES, Site, skeleton

if TYPE_CHECKING:
    from posenc.contract import Report


def check(what: Annotated[Positional[str], arg(names="scheme")], compiling: bool = False, all: bool = False) -> int:
    """Run the contract checks on an encoding, by name or in your own file, and print the first failure to fix.

    For example:

    posenc check RoPE

    posenc check my_scheme.py --all

    Args:
        what: Encoding by its name in posenc list, or a Python file; all encodings of a file are checked.
        compiling: Also run the slow checks that call torch.compile.
        all: Print every failure, not only the first.
    """
    from posenc import own_scheme, scheme_text
    from posenc.contract import check as run_contract

    schemes = own_scheme.schemes_of_file(Path(what)) if what.endswith(".py") else [scheme_text.find(what)]
    failed = False
    for scheme in schemes:
        report = run_contract(scheme, compiling=compiling)
        print(f"{scheme.__name__}: {report if all else _first_failure(report)}")
        failed = failed or not report.ok
    return int(failed)


def _first_failure(report: Report) -> str:
    """Describe the failure to fix first; most other failures follow from it."""
    first, others = report.next, len(report.failures) - 1
    if first is None:
        return report.counted
    if first.unwritten:
        return f"{report.counted}\n  write next: {first.trouble}"
    more = f"\n  {others} more checks failed, possibly because of this one; list them with --all" if others else ""
    return f"{report.counted}\n  fix next: {first.check}: {first.case}: {first.trouble}{more}"


def cite(names: Annotated[Positional[tuple[str, ...]], arg(names="scheme")]) -> int:
    """Print the BibTeX entries of encodings, each once.

    For example:

    posenc cite rope gridpe > encodings.bib

    Args:
        names: Encodings by their name in posenc list.
    """
    from posenc import scheme_text

    if not names:
        raise ValueError("no encoding is named. Write posenc cite rope gridpe, or see posenc list.")
    entries = {kind: kind.cite.strip() for kind in map(scheme_text.find, names)}
    for kind, entry in entries.items():
        if not entry:
            print(f"{kind.__name__} has no paper of its own; cite posenc.", file=sys.stderr)
    print("\n\n".join(dict.fromkeys(filter(None, entries.values()))))
    return 0


def new(
    name: Positional[str],
    site: Site | None = None,
    axes: int = 1,
    to: Path | None = None,
) -> int:
    """Write a Python file with the skeleton of a new encoding.

    With --site the skeleton is a small encoding of that kind that passes posenc check as written. Without it
    posenc check names what to write next.

    For example:

    posenc new my_scheme && posenc check my_scheme.py

    posenc new my_bias --site bias --axes 2

    Args:
        name: Name in snake case; the class gets the same name in CamelCase.
        site: bias (on the logits), qk (a rotation of queries and keys) or embed (rows added to the input).
        axes: Number of position axes.
        to: File to write. Default: NAME.py.
    """
    if not name.isidentifier() or keyword.iskeyword(name):
        raise ValueError(f"{name!r} cannot name a Python file and class. Use letters, digits and _, as my_scheme.")
    if not 1 <= axes <= MOST_AXES:
        raise ValueError(
            f"--axes is a number from 1 to {MOST_AXES}; got {axes}. Use --axes 2 for positions in a plane."
        )
    path = to or Path(f"{name}.py")
    if path.exists():
        raise ValueError(f"{path} exists already and is left unchanged. Choose another name, or --to FILE.")
    path.write_text(skeleton("".join(word.capitalize() for word in name.split("_")), site, axes), encoding="utf-8")
    print(f"{path}\nNext: posenc check {path}")
    return 0


def claims_of_all() -> list[dict[str, Any]]:
    """Collect the claims of every scheme from its declared examples.

    Returns:
        One mapping per scheme, with its name, summary, file and claims. "axes" and "sites" are those of any example;
        the other claims are those of the first.
    """
    from posenc.schemes import catalogue

    rows = []
    for name, kind in catalogue().items():
        claims = [kind(**options).claims for options in kind.examples]
        first = dataclasses.asdict(claims[0])
        rows.append(
            {
                "name": name,
                "summary": (sys.modules[kind.__module__].__doc__ or "").split("\n")[0],
                "file": Path(sys.modules[kind.__module__].__file__ or "").name,
                **first,
                "axes": sorted({claim.axes or "any" for claim in claims}, key=str),
                "sites": sorted(set().union(*(claim.sites for claim in claims))),
            }
        )
    return rows
