"""Command line: `posenc` and its commands. New schemes and studies appear in these commands and add none."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

import tyro

import posenc
from posenc.cli import bench, data, schemes, show, store, torchrun, workbench

app = tyro.extras.SubcommandApp()
for command in (workbench.run, workbench.report, workbench.results):
    app.command(command)
app.command(name="list")(schemes.list_schemes)
for command in (show.show, schemes.check, schemes.new, schemes.cite, bench.bench):
    app.command(command)
app.command(data.data)
store_commands = tyro.extras.SubcommandApp()
for command in (store.pack, store.merge):
    store_commands.command(command)
app.command(store_commands, name="store", help="Pack finished results into small files, or merge packs and stores.")


def main(argv: Sequence[str] | None = None) -> None:
    """Entry point of ``posenc``: run one command and exit with its status.

    Wrong input ends with one sentence on standard error and status 2; an interruption ends with status 130.

    Args:
        argv: Words of the command line after the program's name; those of this process by default.
    """
    from posenc.workbench.runner import Interrupted

    try:
        status = app.cli(
            prog="posenc", args=None if argv is None else list(argv), description=_description(), use_underscores=False
        )
    except Interrupted:  # The runner has printed how to continue.
        sys.exit(130)
    except KeyboardInterrupt as stop:
        print(f"posenc: stopped{f' ({stop})' if str(stop) else ''}.", file=sys.stderr)
        sys.exit(130)
    except BrokenPipeError:  # The reader of the output, such as `head`, has closed the pipe.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except (ValueError, ImportError, OSError) as error:
        print(f"posenc: {error}", file=sys.stderr)
        sys.exit(2)
    torchrun.exit_process(int(status or 0))
    sys.exit(int(status or 0))


def _description() -> str:
    return f"posenc {posenc.__version__}: positional encodings for PyTorch, and the studies that compare them."
