"""Commands about encodings: ``posenc check``, ``cite`` and ``new``."""

from __future__ import annotations

import dataclasses
import inspect
import json
import keyword
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from posenc.cli import claims_by_option
from posenc.cli.grammar import Positional, arg
from posenc.cli.skeletons import MOST_AXES, Site, skeleton
from posenc.workbench import request_checks

if TYPE_CHECKING:
    from posenc.contract import Report
    from posenc.scheme import Scheme


def check(
    what: Annotated[Positional[str], arg(names="scheme")],
    compiling: bool = False,
    all: bool = False,
    fast: bool = False,
    format: Literal["text", "json"] = "text",
) -> int:
    """Run the contract checks on an encoding, by name or in your own file, and print the first failure to fix.

    For example:

    posenc check RoPE

    posenc check "Sum([RoPE(12), ALiBi(4)])"

    posenc check my_scheme.py --all

    posenc check "my_scheme.py:MyScheme(heads=8)" --fast

    posenc check my_scheme.py --format json > report.json

    Args:
        what: Encoding by its name in posenc list, a call of it, a Python file (all its encodings are checked), or a
            class of a file or of an installed module, as mypkg.bias:MyBias.
        compiling: Also run the slow checks that call torch.compile.
        all: Print every failure, not only the first.
        fast: Check only the first of the examples that the class declares.
        format: text for a person, json (every check of every example) for a program.
    """
    if what.endswith(".py"):
        request_checks.refuse_scheme_file(Path(what))
    from posenc.contract import check as run_contract
    from posenc.lookup import own_files, scheme_text

    own = own_files.classes_named(what)
    one = own_files.with_names(what) if "(" in what else scheme_text.find(what) if own is None else None
    reports: dict[str, Report] = {}
    for scheme in (own or ()) if one is None else [one]:
        name = scheme if isinstance(scheme, str) else scheme.__name__
        report = run_contract(scheme, compiling=compiling, fast=fast, on_result=_progress(name))
        reports[name] = report
        if format == "text":
            print(f"{name}: {report if all else _first_failure(report)}")
    if format == "json":
        print(json.dumps({name: report.as_dict() for name, report in reports.items()}, indent=2))
    return int(any(not report.ok for report in reports.values()))


def _progress(name: str) -> Callable[[int, int], None] | None:
    """Function that prints a line of progress, which the next one replaces; None without a terminal."""
    if not sys.stderr.isatty():
        return None

    def shown(done: int, of: int) -> None:
        end = "\r" if done < of else "\r\033[K"
        print(f"{name}: {done} of {of} checks" if done < of else "", end=end, file=sys.stderr, flush=True)

    return shown


def _first_failure(report: Report) -> str:
    """Describe the failure to fix first; most other failures follow from it."""
    first, others = report.next, len(report.failures) - 1
    if first is None:
        return report.counted
    if first.unwritten:
        return f"{report.counted}\n  write next: {first.trouble}"
    more = f"\n  {others} more checks failed, possibly because of this one; list them with --all" if others else ""
    return f"{report.counted}\n  fix next: {first.check}: {first.case}: {first.trouble}{more}"


def cite(names: Annotated[Positional[tuple[str, ...]], arg(names="cited")], all: bool = False) -> int:
    """Print the BibTeX entries of encodings and frequency schedules, each once.

    For example:

    posenc cite rope gridpe > encodings.bib

    posenc cite yarn "Sum([RoPE(64), ALiBi(8)])"

    posenc cite my_scheme.py

    posenc cite --all

    Args:
        names: Encodings by their name in posenc list, calls of them, your own (my_scheme.py, mypkg.bias:MyBias),
            schedules such as yarn, ntk and longrope, and randomized for randomized positions.
        all: Print every entry.
    """
    if not names and not all:
        raise ValueError("no encoding is named. Write posenc cite rope gridpe, or posenc cite --all; see posenc list.")
    from posenc.lookup.cited_functions import functions
    from posenc.schemes import catalogue

    entries: dict[str, str] = {}
    for name in (*names, *((*catalogue(), *functions()) if all else ())):
        entries |= _citations(name)
    for name in (name for name, entry in entries.items() if not entry and not all):
        print(f"{name} has no paper of its own; cite posenc.", file=sys.stderr)
    print("\n\n".join(dict.fromkeys(filter(None, entries.values()))))
    return 0


def _citations(text: str) -> dict[str, str]:
    """BibTeX entry of a function, of a scheme, or of each scheme in a call; by name."""
    from posenc.lookup import own_files, scheme_text
    from posenc.lookup.cited_functions import citation, find_function

    if function := find_function(text):
        return {function.__name__: citation(function)}
    found = dict[str, str]()
    for each_text in own_files.texts_with_names(text):
        for each in scheme_text.specifications(scheme_text.parse(each_text)):
            found[each.scheme] = scheme_text.find(each.scheme).cite.strip()
            for schedule in scheme_text.schedules_in(each):
                found[schedule.__name__] = citation(schedule)
    return found


def new(
    name: Positional[str],
    site: Site | None = None,
    axes: int = 1,
    to: Path | None = None,
    force: bool = False,
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
        to: New file to write. Default: NAME.py.
        force: Replace the file if it exists. A link or a device is never replaced.
    """
    if not name.isidentifier() or keyword.iskeyword(name):
        raise ValueError(f"{name!r} cannot name a Python file and class. Use letters, digits and _, as my_scheme.")
    if not 1 <= axes <= MOST_AXES:
        raise ValueError(
            f"--axes is a number from 1 to {MOST_AXES}; got {axes}. Use --axes 2 for positions in a plane."
        )
    from posenc.workbench.files.output_files import write_output

    path = to or Path(f"{name}.py")
    text = skeleton("".join(word.capitalize() for word in name.split("_")), site, axes)
    write_output(path, text.encode(), force=force)
    print(f"{path}\nNext: posenc check {path}")
    return 0


def claims_of_all() -> list[dict[str, Any]]:
    """Collect the claims of every scheme from its declared examples.

    Returns:
        One mapping per scheme, with its name, summary, file, options and claims. "axes" and "sites" are those of any
        example; the other claims are those of the first. "shift" has the effects of a shift over all examples.
        "axes_from" is the smallest number of axes of a scheme that takes any larger one too, else None. "range_by" is
        the option that decides the range, "" if none does. "made_of" is the option that takes other schemes, whose axes
        and range it has; "" for others.
    """
    from posenc.schemes import catalogue

    return [claims_of(name, kind) for name, kind in catalogue().items()]


def claims_of(name: str, kind: type[Scheme]) -> dict[str, Any]:
    """Collect the claims of a scheme from its declared examples.

    Args:
        name: Its name.
        kind: Its class.

    Returns:
        A mapping as in ``claims_of_all``.

    Raises:
        ValueError: The class declares no examples.
    """
    if not kind.examples:
        raise ValueError(
            f"{name} declares no `examples`, from which its claims are read. Write constructor arguments, as "
            "examples = ({'dim': 12}, {'dim': 12, 'base': 100.0})."
        )
    claims = [kind(**options).claims for options in kind.examples]
    module = sys.modules[kind.__module__]
    return {
        "name": name,
        "summary": (module.__doc__ or "").split("\n")[0],
        "file": Path(module.__file__ or "").name,
        "options": list(inspect.signature(kind).parameters),
        **dataclasses.asdict(claims[0]),
        "axes": sorted({claim.axes or "any" for claim in claims}, key=str),
        "shift": sorted({claim.shift_effect for claim in claims}),
        "axes_from": claims_by_option.fewest_axes(kind),
        "range_by": claims_by_option.range_option(kind),
        "made_of": claims_by_option.parts_option(kind),
        "sites": sorted(set().union(*(claim.sites for claim in claims))),
    }
