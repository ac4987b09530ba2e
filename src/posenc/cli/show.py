"""``posenc show``: formula, claims, plot and paper of one encoding, in the terminal or as a page."""

from __future__ import annotations

import inspect
import sys
from pathlib import Path
from typing import Annotated, Any

from posenc.cli.grammar import Positional, arg
from posenc.cli.terminal import console

BLOCKS = "▁▂▃▄▅▆▇█"
DISTANCES = 24


def show(
    what: Annotated[Positional[str], arg(names="scheme")],
    out: Annotated[Path | None, arg(metavar="FILE.html")] = None,
    force: bool = False,
) -> int:
    """Show an encoding: its formula, its claims with their checks, its logit by distance and its paper.

    For example:

    posenc show rope

    posenc show gridpe --out gridpe.html

    Args:
        what: Encoding by its name in posenc list.
        out: Write an HTML page with plots to this new file instead.
        force: Replace the file if it exists. A link or a device is never replaced.
    """
    from posenc import scheme_text

    kind = scheme_text.find(what)
    if out is None:
        _print(kind)
        return 0
    from posenc.workbench.output_files import refuse_output, write_outputs
    from posenc.workbench.report.scheme_page import write_scheme_page

    refuse_output(out, force, "--out")
    write_outputs([(out, lambda partial: write_scheme_page(partial, kind))], force=force, option="--out")
    print(out)
    return 0


def _print(kind: Any) -> None:
    from rich.table import Table

    from posenc.contract import claims_measured
    from posenc.scheme_text import signature

    screen = console()
    module = sys.modules[kind.__module__]
    screen.print(f"[bold]{kind.__name__}[/bold]{signature(kind)}", highlight=False)
    screen.print(f"Source: {module.__file__}\n", highlight=False)
    screen.print(inspect.cleandoc(module.__doc__ or ""), markup=False, highlight=False)
    screen.print()
    screen.print(inspect.cleandoc(kind.__doc__ or ""), markup=False, highlight=False)
    table = Table("claim", "value", "check", box=None, title="Claims", title_justify="left")
    for claim in claims_measured(kind):
        table.add_row(claim.name, claim.claimed, "holds" if not claim.trouble else f"FAILS: {claim.trouble}")
    screen.print()
    screen.print(table)
    screen.print()
    for line in _logit_line(kind):
        screen.print(line, markup=False, highlight=False)
    screen.print()
    screen.print(kind.cite.strip() or "This encoding has no paper of its own.", markup=False, highlight=False)


def _logit_line(kind: Any) -> list[str]:
    """Logit by distance as one line of block characters."""
    from posenc.measure.distance_decay import example_scheme, logit_by_distance, reachable_distance

    try:
        scheme = example_scheme(kind)
        rows = logit_by_distance(scheme, reachable_distance(scheme, DISTANCES))
    except ValueError as error:
        return [f"No plot: {error}"]
    values = [row["logit"] for row in rows if row["logit"] is not None]
    low, high = min(values), max(values)
    span = (high - low) or 1.0
    blocks = "".join(
        " " if row["logit"] is None else BLOCKS[round((row["logit"] - low) / span * (len(BLOCKS) - 1))] for row in rows
    )
    first, last = (f"{rows[end]['distance']:g}" for end in (0, -1))
    return [
        f"Logit of two equal tokens by distance, minimum {low:.2f}, maximum {high:.2f}:",
        f"{first:>6} {blocks} {last}",
    ]
