"""``posenc completion``: scripts that complete commands, studies, panels, variants, schemes and flags in a shell.

The scripts call ``posenc __complete WORDS``, which prints the candidates for the last word.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from posenc.cli import name_checks
from posenc.cli.grammar import Command, Option, Positional
from posenc.cli.index import Index
from posenc.cli.parser import is_flag

HIDDEN = "__complete"
"""Command that the scripts call."""

SCRIPTS = {
    "bash": """\
_posenc() {
    local IFS=$'\\n'
    local line="${COMP_LINE:0:COMP_POINT}"
    local -a words
    IFS=$' \\t\\n' read -r -a words <<< "$line"
    [[ "$line" == *[[:space:]] ]] && words+=("")
    COMPREPLY=($(posenc __complete "${words[@]:1}" 2>/dev/null))
    local before="${words[-1]%"${COMP_WORDS[COMP_CWORD]}"}"
    COMPREPLY=("${COMPREPLY[@]#"$before"}")
    local i
    for i in "${!COMPREPLY[@]}"; do printf -v "COMPREPLY[i]" '%q' "${COMPREPLY[i]}"; done
    [[ "${COMPREPLY[0]}" == *= ]] && compopt -o nospace
    return 0
}
complete -o default -F _posenc posenc
""",
    "zsh": """\
#compdef posenc
_posenc() {
    local -a candidates
    candidates=(${(f)"$(posenc __complete "${(@)words[2,CURRENT]}" 2>/dev/null)"})
    if (( ${#candidates} )); then compadd -S ' ' -r '=' -- $candidates; else _files; fi
}
(( $+functions[compdef] )) || { autoload -Uz compinit && compinit; }
compdef _posenc posenc
""",
    "fish": """\
function __posenc_complete
    set -l words (commandline -opc) (commandline -ct)
    set -l candidates (posenc __complete $words[2..-1] 2>/dev/null)
    if test (count $candidates) -gt 0
        printf '%s\\n' $candidates
    else
        __fish_complete_path (commandline -ct)
    end
end
complete -c posenc -f -a '(__posenc_complete)'
""",
}


def completion(shell: Positional[Literal["bash", "zsh", "fish"]]) -> int:
    """Print a script that completes commands, studies, panels, variants, schemes and flags in a shell.

    For example:

    posenc completion bash >> ~/.bashrc

    posenc completion zsh >> ~/.zshrc

    posenc completion fish > ~/.config/fish/completions/posenc.fish

    Args:
        shell: The shell.
    """
    print(SCRIPTS[shell], end="")
    return 0


def candidates(words: Sequence[str], commands: Mapping[str, Command], index: Index) -> list[str]:
    """List the completions of the last word.

    Args:
        words: Words after ``posenc``; the last is incomplete and may be empty.
        commands: Commands by name.
        index: The index.

    Returns:
        The words that start with it; none where a file or a number is expected.
    """
    *before, start = words or [""]
    longest_first = sorted(commands, key=lambda name: -len(name.split()))
    name = next((name for name in longest_first if before[: len(name.split())] == name.split()), None)
    if name is None:
        depth = len(before)
        fitting = (known.split() for known in commands if known.split()[:depth] == before)
        known: Iterable[str] = (parts[depth] for parts in fitting if len(parts) > depth)
        return _starting(start, [*known, *(("--help", "--version") if not before else ())])
    command, rest = commands[name], before[len(name.split()) :]
    if start.startswith("-"):
        return _starting(start, [*command.flags, "--help"])
    option, loose = _expected(command, rest)
    return _starting(start, _values(option, rest, loose, index)) if option else []


def _starting(start: str, known: Iterable[str]) -> list[str]:
    return [word for word in dict.fromkeys(known) if word.startswith(start)]


def _expected(command: Command, words: Sequence[str]) -> tuple[Option | None, list[str]]:
    """Option that the next word is a value of, and the words that are values of no flag."""
    loose: list[str] = []
    current: Option | None = None
    for word in words:
        if is_flag(word):
            flag = command.flags.get(word)
            current = flag if flag and flag.kind is not bool else None
        elif current is None:
            loose.append(word)
        elif not current.many or current.repeated:
            current = None
    if current is None:
        places = command.positionals
        current = places[min(len(loose), len(places) - 1)] if places else None
        if current and len(loose) >= len(places) and not current.many:
            current = None
    return current, loose


def _values(option: Option, words: Sequence[str], loose: Sequence[str], index: Index) -> list[str]:
    """Possible values of an option."""
    if option.choices:
        return list(option.choices)
    if option.names in ("study", "listed"):
        return list(index.studies)
    if option.names == "scheme":
        return name_checks.scheme_names(index)
    if option.names == "cited":
        return name_checks.cited_names(index)
    if option.names == "shown":
        return [*name_checks.cited_names(index), name_checks.PUZZLES]
    study = next((word for word in loose if word in index.studies), None)
    if study is None:
        return name_checks.scheme_names(index) if option.names == "variant" else []
    return _names_of_study(option.names, index.studies[study], words, index)


def _names_of_study(kind: str, entry: Mapping[str, Any], words: Sequence[str], index: Index) -> list[str]:
    preset = words[words.index("--preset") + 1] if "--preset" in words[:-1] else "quick"
    return {
        "preset": list(entry["presets"]),
        "panel": [*entry["panels"], name_checks.ALL],
        "variant": [*name_checks.variants_of(entry), *name_checks.scheme_names(index)],
        "setting": [f"{setting['name']}=" for setting in entry["settings"].get(preset, ())],
    }.get(kind, [])
