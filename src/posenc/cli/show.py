"""``posenc show``: formula, claims, plot and paper of one encoding, in the terminal, as a page or as a figure."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from posenc.cli.grammar import Positional, arg
from posenc.cli.name_checks import PUZZLES
from posenc.cli.terminal import console
from posenc.workbench.files.output_files import refuse_output, write_outputs

if TYPE_CHECKING:
    from posenc.lookup.scheme_text import Specification

BLOCKS = "▁▂▃▄▅▆▇█"
COLUMNS = 64
"""Most characters of a plot in the terminal."""
SHOWN_STRETCH = 4.0, 64
"""Extension of the context and training length, in tokens, of a frequency schedule that is shown by name."""
PAGE_ENDINGS, FIGURE_ENDINGS = (".html", ".htm"), (".png", ".svg", ".pdf")


def show(
    what: Annotated[Positional[str], arg(names="shown")],
    distances: int | None = None,
    out: Annotated[Path | None, arg(metavar="FILE")] = None,
    force: bool = False,
) -> int:
    """Show an encoding: its formula, its claims with their checks, its logit by distance and its paper.

    The plot shows the call that is written above it. Frequency schedules such as yarn are shown too, and the puzzles
    of latin-squares with their solutions.

    For example:

    posenc show rope

    posenc show "RoPE(128, base=500000)" --distances 4096

    posenc show gridpe --out gridpe.html

    posenc show "Sum([RoPE(64), ALiBi(8)])" --out logits.pdf

    posenc show latin-squares

    posenc show "my_scheme.py:MyScheme(heads=8)"

    Args:
        what: Encoding by its name in posenc list, a call of it, your own (my_scheme.py, mypkg.bias:MyBias), or a
            frequency schedule such as yarn.
        distances: Largest distance of the plot. Default: 24, or the encoding's max_distance if that is larger.
        out: Write a new file instead: an .html page with all plots, or the plot of logits as .png, .svg or .pdf.
        force: Replace the file if it exists. A link or a device is never replaced.
    """
    if distances is not None and distances < 1:
        raise ValueError(f"--distances is a number of at least 1; got {distances}. Leave it out for the default.")
    if out is not None and out.suffix not in (*PAGE_ENDINGS, *FIGURE_ENDINGS):
        raise ValueError(
            f"--out writes a page (.html) or a figure ({', '.join(FIGURE_ENDINGS)}); got {out}. Use --out page.html."
        )
    if out is not None:
        refuse_output(out, force, "--out")
    if what == PUZZLES:
        return _show_puzzles(out, force)
    from posenc.lookup import own_files
    from posenc.lookup.cited_functions import find_function
    from posenc.lookup.scheme_text import find, parse
    from posenc.measure.distance_decay import make_shown, shown_call, with_sizes

    function = find_function(what.partition("(")[0])
    if function is not None:
        return _show_function(function, what, distances, out)
    what = own_files.with_names(what)
    call = with_sizes(parse(what)) if "(" in what else shown_call(find(what))
    if "(" in what:
        make_shown(call)  # A call that builds no encoding is refused.
    if out is None:
        _print(call, distances)
        return 0
    from posenc.workbench.report.scheme_page import write_logit_figure, write_scheme_page

    def write(partial: Path) -> None:
        if out.suffix in FIGURE_ENDINGS:
            write_logit_figure(partial, {call.scheme: call}, distances)
        else:
            write_scheme_page(partial, call, distances, out.name)

    write_outputs([(out, write)], force=force, option="--out")
    print(out)
    return 0


def _show_puzzles(out: Path | None, force: bool) -> int:
    """Print the puzzles of the Latin Square Task with their solutions, or write them as a page."""
    from posenc.workbench.studies.latin_squares import puzzle_plots

    if out is None:
        print("\n".join(puzzle_plots.example_lines()).rstrip())
        return 0
    if out.suffix not in PAGE_ENDINGS:
        raise ValueError(f"the puzzles are a page; got --out {out}. Use --out {out.stem}.html")

    def write(partial: Path) -> None:
        puzzle_plots.write_examples(partial)

    write_outputs([(out, write)], force=force, option="--out")
    print(out)
    return 0


def _show_function(function: Callable[..., Any], what: str, distances: int | None, out: Path | None) -> int:
    """Show a frequency schedule beside RoPE without it, or a function that changes positions."""
    from posenc.lookup.cited_functions import citation, is_schedule

    calls = _with_and_without(function, what) if is_schedule(function) else {}
    if out is not None:
        from posenc.workbench.report.scheme_page import write_function_page, write_logit_figure

        if out.suffix in PAGE_ENDINGS:
            print(write_function_page(out, function, calls, distances))
        elif calls:
            print(write_logit_figure(out, calls, distances))
        else:
            raise ValueError(f"{function.__name__} has no plot. Write a page: --out {out.stem}.html")
        return 0
    screen = console()
    screen.print(f"[bold]{function.__name__}[/bold]{inspect.signature(function)}", highlight=False)
    screen.print(f"Source: {inspect.getsourcefile(function)}\n", highlight=False)
    screen.print(inspect.cleandoc(function.__doc__ or ""), markup=False, highlight=False)
    for call in calls.values():
        screen.print()
        for line in _logit_lines(call, distances):
            screen.print(line, markup=False, highlight=False)
    screen.print()
    screen.print(citation(function), markup=False, highlight=False)
    return 0


def _with_and_without(function: Callable[..., Any], what: str) -> dict[str, Specification]:
    """RoPE with plain frequencies and with those of a schedule, whose arguments the text gives or are usual ones."""
    from posenc.lookup.scheme_text import parse
    from posenc.measure.distance_decay import WIDTH
    from posenc.measure.stretched_frequencies import schedule_arguments, schedule_options

    if "(" not in what:
        options = schedule_options(function, schedule_arguments(WIDTH // 2, *SHOWN_STRETCH))
        given = ", ".join(f"{name}={value!r}" for name, value in options.items())
        what = f"{function.__name__}({given})"
    plain, changed = parse(f"RoPE({WIDTH})"), parse(f"RoPE({WIDTH}, frequencies={what})")
    return {"RoPE": plain, function.__name__: changed}


def _print(call: Specification, distances: int | None) -> None:
    from rich.table import Table

    from posenc.contract import claims_measured
    from posenc.lookup import own_scheme
    from posenc.lookup.scheme_text import find, signature

    kind = find(call.scheme)
    screen = console()
    module, own = sys.modules[kind.__module__], own_scheme.source(call.scheme)
    screen.print(f"[bold]{kind.__name__}[/bold]{signature(kind)}", highlight=False)
    screen.print(f"Source: {own.path or own.name if own else module.__file__}\n", highlight=False, soft_wrap=True)
    screen.print(inspect.cleandoc(module.__doc__ or ""), markup=False, highlight=False)
    screen.print()
    screen.print(inspect.cleandoc(kind.__doc__ or ""), markup=False, highlight=False)
    table = Table("claim", "value", "check", box=None, title="Claims", title_justify="left")
    for claim in claims_measured(kind) if kind.examples else ():
        table.add_row(claim.name, claim.claimed, "holds" if not claim.trouble else f"FAILS: {claim.trouble}")
    screen.print()
    screen.print(table if kind.examples else "It declares no `examples`, so its claims are not measured.")
    screen.print()
    for line in _logit_lines(call, distances):
        screen.print(line, markup=False, highlight=False)
    screen.print()
    screen.print(kind.cite.strip() or "This encoding has no paper of its own.", markup=False, highlight=False)


def _logit_lines(call: Specification, distances: int | None) -> list[str]:
    """Logit by distance as lines of block characters, one per head."""
    from posenc.lookup.scheme_text import call_text
    from posenc.measure.distance_decay import heads_of, logits_by_head, make_shown, reachable_distance

    written = call_text(call)
    try:
        scheme = make_shown(call)
        by_head = logits_by_head(scheme, reachable_distance(scheme, distances), heads=heads_of(call))
    except ValueError as error:
        return [f"No plot of {written}: {error}"]
    values = [row["logit"] for rows in by_head.values() for row in rows if row["logit"] is not None]
    low, high = min(values), max(values)
    lines = [written, f"Logit of two equal tokens by distance, minimum {low:.2f}, maximum {high:.2f}:"]
    for head, rows in by_head.items():
        few = [rows[round(place * (len(rows) - 1) / COLUMNS)] for place in range(COLUMNS + 1)]
        few = few if len(rows) > COLUMNS else rows
        first, last = (f"{few[end]['distance']:g}" for end in (0, -1))
        name = "" if len(by_head) == 1 else f"  {head}"
        lines.append(f"{first:>6} {''.join(_block(row['logit'], low, high) for row in few)} {last}{name}")
    return lines


def _block(logit: float | None, low: float, high: float) -> str:
    """Character for a logit: its height between the lowest and the highest; a blank for a masked pair."""
    if logit is None:
        return " "
    return BLOCKS[round((logit - low) / ((high - low) or 1.0) * (len(BLOCKS) - 1))]
