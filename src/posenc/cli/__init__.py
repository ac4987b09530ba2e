"""The command line. Complete and closed: a new scheme or study appears in these commands and adds none."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

import tyro

import posenc
from posenc.cli import atlas, bench, ranks, show, tasks, workbench

app = tyro.extras.SubcommandApp()
for command in (workbench.run, workbench.report, workbench.results):
    app.command(command)
app.command(name="list")(atlas.list_schemes)
for command in (show.show, atlas.check, atlas.new, atlas.cite, bench.bench):
    app.command(command)
app.command(tasks.data)


def main(argv: Sequence[str] | None = None) -> None:
    """What ``posenc`` runs: a sentence and a non-zero exit for whatever goes wrong at the door."""
    from posenc.runner import Interrupted

    try:
        status = app.cli(
            prog="posenc", args=None if argv is None else list(argv), description=_description(), use_underscores=False
        )
    except Interrupted:  # the runner has said how to continue
        sys.exit(130)
    except KeyboardInterrupt as stop:
        print(f"posenc: stopped{f' ({stop})' if str(stop) else ''}.", file=sys.stderr)
        sys.exit(130)
    except BrokenPipeError:  # a pager or head that has read enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except (ValueError, ImportError, OSError) as error:
        print(f"posenc: {error}", file=sys.stderr)
        sys.exit(2)
    ranks.end(int(status or 0))
    sys.exit(int(status or 0))


def _description() -> str:
    return f"posenc {posenc.__version__}: every way of telling a network where things are."
