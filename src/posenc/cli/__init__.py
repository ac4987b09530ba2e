"""Command line: `posenc` and its commands. New schemes and studies appear in these commands and add none.

Help, lists, completion and errors about names read an index and start without torch; a command that computes loads it.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from types import FrameType
from typing import Any

import posenc
from posenc.cli import (
    advise,
    bench,
    completion,
    data,
    doctor,
    explore,
    export,
    help_text,
    index,
    lists,
    results,
    schemes,
    show,
    store,
    torchrun,
    workbench,
)
from posenc.cli.grammar import Command, command_of
from posenc.cli.name_checks import refuse_study, refuse_unknown
from posenc.cli.parser import HELP, UsageError, is_flag, parse
from posenc.lookup.name_suggestion import nearest_names, unknown

COMMANDS: Mapping[str, Callable[..., int | None]] = {
    "run": workbench.run,
    "advise": advise.advise,
    "report": workbench.report,
    "results": results.results,
    "export": export.export,
    "list": lists.list_names,
    "show": show.show,
    "explore": explore.explore,
    "check": schemes.check,
    "new": schemes.new,
    "cite": schemes.cite,
    "bench": bench.bench,
    "data": data.data,
    "data look": data.look,
    "store pack": store.pack,
    "store merge": store.merge,
    "store verify": store.verify,
    "store compact": store.compact,
    "store gc": store.gc,
    "doctor": doctor.doctor,
    "completion": completion.completion,
}
"""The commands; two words are a group and its command."""

LONGEST_WORD = 4096
"""Largest number of characters of one word of a command, as of a path on Linux."""


def main(argv: Sequence[str] | None = None) -> None:
    """Entry point of ``posenc``: run one command and exit with its status.

    Wrong input ends with one sentence on standard error and status 2. Ctrl-C ends with status 130, and SIGTERM in the
    same way with status 143: what is finished is kept, and the same command continues.

    Args:
        argv: Words of the command line after the program's name; those of this process by default.
    """
    stopped_by, before = _answer_sigterm()
    try:
        status = _run(list(sys.argv[1:] if argv is None else argv))
    except KeyboardInterrupt as stop:
        if type(stop) is KeyboardInterrupt:  # For its own subclass the runner has printed how to continue.
            print(f"posenc: stopped{f' ({stop})' if str(stop) else ''}.", file=sys.stderr)
        sys.exit(128 + (stopped_by[0] if stopped_by else signal.SIGINT))
    except BrokenPipeError:  # The reader of the output, such as `head`, has closed the pipe.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except (ValueError, ImportError, OSError) as error:
        print(f"posenc: {error}", file=sys.stderr)
        sys.exit(2)
    finally:
        if before is not None:
            signal.signal(signal.SIGTERM, before)
    torchrun.exit_process(int(status or 0))
    sys.exit(int(status or 0))


def _answer_sigterm() -> tuple[list[int], Any]:
    """Make SIGTERM raise KeyboardInterrupt, as Ctrl-C does; a second one ends the process at once.

    Returns:
        A list that holds the signal once it has arrived, and the former handler; None outside the main thread.
    """
    arrived: list[int] = []
    before: Any = None

    def stop(number: int, frame: FrameType | None) -> None:
        arrived.append(number)
        signal.signal(number, signal.SIG_DFL)
        raise KeyboardInterrupt("SIGTERM")

    if threading.current_thread() is threading.main_thread():  # only this thread may do it
        before = signal.signal(signal.SIGTERM, stop)
    return arrived, before


def _run(words: list[str]) -> int | None:
    """Run the command of a command line, or print its help."""
    if not words:
        raise UsageError("no command is given. See posenc --help.")
    if longest := max((len(word) for word in words if len(word) > LONGEST_WORD), default=0):
        raise UsageError(f"a word of this command has {longest:,} characters; up to {LONGEST_WORD:,} are read.")
    if words[0] == completion.HIDDEN:
        for candidate in completion.candidates(words[1:], _commands(), index.load()):
            print(candidate)  # no line at all without candidates, so that the shell offers files
        return 0
    if words[0] in HELP:
        print(help_text.of_all(_commands().values()))
        return 0
    if words[0] == "--version":
        print(posenc.__version__)
        return 0
    name = _name(words)
    if name is None:  # A group, whose help was asked for.
        print(help_text.of_group(words[0], (each for each in _commands().values() if each.name.split()[0] == words[0])))
        return 0
    command, rest = command_of(name, COMMANDS[name]), words[len(name.split()) :]
    if any(word in HELP for word in rest):
        print(_help(command, [word for word in rest if word not in HELP]))
        return 0
    values = parse(command, rest)
    if any(option.names for option in command.options):
        refuse_unknown(index.load(), command, values)
    return command.call(**values)


def _commands() -> dict[str, Command]:
    return {name: command_of(name, function) for name, function in COMMANDS.items()}


def _name(words: Sequence[str]) -> str | None:
    """Name of the command that words begin with; None for a group with --help."""
    if " ".join(words[:2]) in COMMANDS:
        return " ".join(words[:2])
    if words[0] in COMMANDS:
        return words[0]
    group = [name for name in COMMANDS if name.split()[0] == words[0]]
    if not group:
        if is_flag(words[0]):
            near = nearest_names(words[0], ["--help", "--version"])
            hint = f" Did you mean {near[0]}?" if near else ""
            raise UsageError(f"posenc has no flag {words[0]}.{hint} See posenc --help.")
        raise UsageError(f"{unknown('command', words[0], [name.split()[0] for name in COMMANDS])} See posenc --help.")
    if len(words) > 1 and words[1] in HELP:
        return None
    second = words[1] if len(words) > 1 else ""
    if f"{words[0]} {second}" not in group:
        known = [name.split()[1] for name in group]
        raise UsageError(
            f"{unknown(f'command posenc {words[0]}', second, known)} The commands are {', '.join(known)}. "
            f"See posenc {words[0]} --help."
        )
    return f"{words[0]} {second}"


def _help(command: Command, words: Sequence[str]) -> str:
    """Help of a command; that of a study if the words after the command name one."""
    if not any(option.names for option in command.options):
        return help_text.of_command(command)
    known = index.load()
    first = next(iter(words), "")
    if command.name not in ("run", "report") or not first or is_flag(first):
        return help_text.of_command(command, known)
    refuse_study(known, first)
    preset = words[words.index("--preset") + 1] if "--preset" in words[:-1] else "quick"
    refuse_unknown(known, command, {**{option.name: None for option in command.options}, "study": first,
                                    "preset": preset})  # fmt: skip
    return help_text.of_study(command, known, first, preset)
