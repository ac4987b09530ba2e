"""``show``: what one encoding is and does, in a terminal or as a page."""

from __future__ import annotations

import inspect
import sys
from pathlib import Path
from typing import Annotated, Any

from tyro.conf import Positional, arg

from posenc.cli.terminal import console

BLOCKS = "▁▂▃▄▅▆▇█"
DISTANCES = 24


def show(what: Positional[str], out: Annotated[Path | None, arg(metavar="FILE.html")] = None) -> int:
    """What an encoding is and does: its formula, its claims as measured now, its picture, its paper.

    Try:

    posenc show rope

    posenc show gridpe --out gridpe.html

    Args:
        what: A name of posenc list.
        out: Write a page with pictures instead.
    """
    from posenc import specification

    kind = specification.find(what)
    if out is None:
        _print(kind)
        return 0
    from posenc.report.scheme_page import write

    print(write(out, kind))
    return 0


def _print(kind: Any) -> None:
    from rich.table import Table

    from posenc.contract import claims_measured
    from posenc.specification import signature

    screen = console()
    module = sys.modules[kind.__module__]
    screen.print(f"[bold]{kind.__name__}[/bold]{signature(kind)}", highlight=False)
    screen.print(f"in {Path(module.__file__ or '').name}, read it whole: {module.__file__}\n", highlight=False)
    screen.print(inspect.cleandoc(module.__doc__ or ""), markup=False, highlight=False)
    screen.print()
    screen.print(inspect.cleandoc(kind.__doc__ or ""), markup=False, highlight=False)
    table = Table("claim", "says", "measured", box=None, title="Claims", title_justify="left")
    for claim in claims_measured(kind):
        table.add_row(claim.name, claim.says, "holds" if not claim.trouble else f"FAILS: {claim.trouble}")
    screen.print()
    screen.print(table)
    screen.print()
    for line in _picture(kind):
        screen.print(line, markup=False, highlight=False)
    screen.print()
    screen.print(kind.cite.strip() or "It has no paper of its own.", markup=False, highlight=False)


def _picture(kind: Any) -> list[str]:
    """The logit by distance as a row of blocks."""
    from posenc.measure.decay import logit_by_distance, reach, shown

    try:
        scheme = shown(kind)
        rows = logit_by_distance(scheme, reach(scheme, DISTANCES))
    except ValueError as error:
        return [f"No picture: {error}"]
    values = [row["logit"] for row in rows if row["logit"] is not None]
    low, high = min(values), max(values)
    span = (high - low) or 1.0
    drawn = "".join(
        " " if row["logit"] is None else BLOCKS[round((row["logit"] - low) / span * (len(BLOCKS) - 1))] for row in rows
    )
    first, last = (f"{rows[end]['distance']:g}" for end in (0, -1))
    return [
        f"The logit of two equal tokens against their distance, from {low:.2f} to {high:.2f}:",
        f"{first:>6} {drawn} {last}",
    ]
