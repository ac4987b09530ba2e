"""Help of the command line: all commands, one command, and ``posenc run STUDY --help``. It fits 80 columns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from posenc.cli import name_checks
from posenc.cli.grammar import Command, Option
from posenc.cli.index import Index
from posenc.cli.lists import needs_data
from posenc.cli.text_table import command_lines, entries, labels, paragraph
from posenc.version import __version__

EXIT_CODES = (("0", "done"), ("1", "a run or a check failed, or nothing was started"), ("2", "wrong usage or input"),
              ("130", "interrupted by Ctrl-C"), ("143", "stopped by SIGTERM"))  # fmt: skip
HELP_FLAG = ("-h, --help", "Print this help.")


def of_all(commands: Iterable[Command]) -> str:
    """Format the help of the program.

    Args:
        commands: All commands.

    Returns:
        The text.
    """
    about = f"posenc {__version__}: positional encodings for PyTorch, and the studies that compare them."
    return _parts(
        "usage: posenc COMMAND [OPTIONS]",
        paragraph(about),
        _section("commands", ((command.name, command.summary) for command in commands)),
        _section("options", (HELP_FLAG, ("--version", "Print the version."))),
        _section("exit codes", EXIT_CODES),
        _examples(("posenc run latin-squares", "posenc run --help", "posenc completion bash >> ~/.bashrc")),
    )


def of_group(name: str, commands: Iterable[Command]) -> str:
    """Format the help of a group of commands.

    Args:
        name: Name of the group.
        commands: Its commands.

    Returns:
        The text.
    """
    commands = list(commands)
    return _parts(
        f"usage: posenc {name} COMMAND [OPTIONS]",
        _section("commands", ((command.name, command.summary) for command in commands)),
        _examples(command.examples[0] for command in commands),
    )


def of_command(command: Command, index: Index | None = None) -> str:
    """Format the help of a command.

    Args:
        command: The command.
        index: The index, for a command about studies or schemes; None to leave their names out.

    Returns:
        The text.
    """
    studies = {} if index is None else {name: entry["question"] for name, entry in index.studies.items()}
    asked = {option.names for option in command.options}
    parts = [
        _usage(command),
        paragraph(command.summary),
        *(paragraph(text) for text in command.text),
        _arguments(command),
        _options(command),
        _section("studies", studies.items()) if {"study", "listed"} & set(asked) and studies else "",
    ]
    if index is not None and "panel" in asked:
        panels = ((name, ", ".join(entry["panels"])) for name, entry in index.studies.items())
        parts.append(_section("panels by study (--panels)", panels))
    if index is not None and "variant" in asked:
        names = ", ".join(name_checks.scheme_names(index))
        parts.append(f'encodings (--schemes), with options such as "Shaw(values=False)"\n{paragraph(names, 2)}')
    return _parts(*parts, _examples(command.examples))


def of_study(command: Command, index: Index, study: str, preset: str) -> str:
    """Format the help of a command for one study.

    Args:
        command: The command, such as run.
        index: The index.
        study: Name of the study.
        preset: Preset whose settings are listed.

    Returns:
        The text.
    """
    entry = index.studies[study]
    default = entry["presets"][preset]["panels"]
    panels = (
        (name, f"{panel['about']} ({panel['shows']})" + (" [default]" if name in default else ""))
        for name, panel in entry["panels"].items()
    )
    source = " [FILE]" if entry["takes"] else ""
    variants = labels(name_checks.variants_of(entry, (preset,)))
    return _parts(
        f"usage: posenc {command.name} {study}{source} [OPTIONS]",
        paragraph(entry["question"]),
        paragraph(f"Data: {needs_data(entry)}"),
        _section("presets (--preset)", ((name, _preset(value)) for name, value in entry["presets"].items())),
        _section(f"panels (--panels), [default] at --preset {preset}", panels),
        f"variants (--schemes) at --preset {preset}; also any encoding of posenc list\n{paragraph(variants, 2)}",
        _settings(entry, preset),
        _options(command),
        _examples(example for example, _ in entry["examples"]),
    )


def _preset(preset: Mapping[str, Any]) -> str:
    asks = "; asks before it starts" if preset["asks"] else ""
    seeds = "" if "seeds" in preset["about"] else f"{preset['seeds']} seeds. "
    return f"{preset['about']}. {seeds}Panels: {', '.join(preset['panels'])}{asks}"


def _settings(entry: Mapping[str, Any], preset: str) -> str:
    rows = []
    for each in entry["settings"][preset]:
        kind = " | ".join(each["choices"]) or each["type"]
        rows.append((each["name"], f"{kind}, default {each['default']}"))
    title = f"settings (--set NAME=VALUE), defaults of --preset {preset}"
    if any(";" in each["default"] for each in entry["settings"][preset]):
        title += '\n  A "; " separates the defaults of parts of the study; --set changes all.'
    names = {name for name, _ in rows}
    if "epochs" in names and not entry["passes"]:
        title += "\n  An epoch is one training step."
    elif "own_steps" in names:
        title += "\n  An epoch is a pass over the training data; own_steps: steps on your data."
    return _section(title, rows) if rows else ""


def _usage(command: Command) -> str:
    words = []
    for option in command.positionals:
        words.append(option.metavar if option.required else f"[{option.metavar}]")
    return f"usage: posenc {' '.join([command.name, *words])} [OPTIONS]"


def _arguments(command: Command) -> str:
    return _section("arguments", ((each.metavar, _about(each)) for each in command.positionals))


def _options(command: Command) -> str:
    rows = [(f"{flag} {option.metavar}".strip(), _about(option)) for flag, option in command.flags.items()]
    return _section("options", [*rows, HELP_FLAG])


def _about(option: Option) -> str:
    """Sentences of an option, with its choices and its default if the sentences do not name them."""
    words = [option.about]
    if option.choices and not option.flag:
        words.append(f"One of {', '.join(option.choices)}.")
    silent = option.required or option.default in (None, False, (), "")
    if not silent and "Default" not in option.about:
        words.append(f"Default: {option.default}.")
    if option.repeated:
        words.append("May be repeated.")
    return " ".join(words)


def _section(title: str, rows: Iterable[tuple[str, str]]) -> str:
    text = entries(rows)
    return f"{title}\n{text}" if text else ""


def _examples(lines: Iterable[str]) -> str:
    return "\n".join(["examples", *(command_lines(line) for line in lines)])


def _parts(*parts: str) -> str:
    return "\n\n".join(part for part in parts if part)
