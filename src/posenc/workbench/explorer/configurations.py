"""Encodings of the site's explorer: every declared example of every scheme, and a small grid of their options."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from posenc.lookup.scheme_text import Specification, call_text, parse
from posenc.measure.distance_decay import line_positions, make_shown, reachable_distance, shown_call
from posenc.scheme import Scheme
from posenc.workbench.explorer.options import Option, option_texts, options_of, plain_options, value_text
from posenc.workbench.explorer.pictures import DISTANCES, make

LARGE = 1 << 20
"""A scheme whose prepared positions hold more numbers than this has no grid: its drawings take seconds."""


@dataclass(frozen=True)
class Configuration:
    """One encoding of the site.

    Attributes:
        call: Its call.
        kind: Its class, if text cannot hold the call; else None.
        texts: Value of every option as text.
    """

    call: Specification
    kind: type[Scheme] | None
    texts: dict[str, str]

    @property
    def key(self) -> str:
        """Name of the file of its arrays."""
        return f"{self.call.scheme}-{sha256(str((self.texts, call_text(self.call))).encode()).hexdigest()[:12]}"


def configurations(kind: type[Scheme]) -> list[Configuration]:
    """List the encodings of a class that the site draws: the shown call first, then the grid, then the examples.

    The grid changes one option of the shown call at a time. Values that the class refuses are left out.

    Args:
        kind: The class.

    Returns:
        The encodings, each once.
    """
    declared = options_of(kind, fine=False)
    found: dict[str, Configuration] = {}
    for call, own in (*_grid(kind, declared), *_examples(kind)):
        each = Configuration(call, own, option_texts(call.options, declared))
        found.setdefault(str(each.texts) if own is None else each.key, each)
    return list(found.values())


def _grid(kind: type[Scheme], declared: list[Option]) -> Iterator[tuple[Specification, None]]:
    shown = shown_call(kind)
    plain = plain_options(shown.options)
    if plain is None:
        return
    shown = Specification(shown.scheme, plain)
    yield shown, None
    if _is_large(make_shown(shown)):
        return
    for option in declared:
        for text in option.values:
            value = _value(shown.scheme, option.name, text)
            if text == value_text(shown.options.get(option.name)) or (
                option.name not in plain and text == option.default
            ):
                continue
            call = Specification(shown.scheme, {**plain, option.name: value})
            try:
                make(call)
            except ValueError:
                continue
            yield call, None


def _examples(kind: type[Scheme]) -> Iterator[tuple[Specification, type[Scheme] | None]]:
    for example in kind.examples:
        plain = plain_options(example)
        if plain is None:
            yield Specification(kind.__name__, dict(example)), kind
        else:
            yield Specification(kind.__name__, plain), None


def _value(scheme: str, option: str, text: str) -> Any:
    return parse(f"{scheme}({option}={text})").options[option]


def _is_large(scheme: Scheme) -> bool:
    try:
        where = scheme.prepare(line_positions(scheme, reachable_distance(scheme, DISTANCES))[0])
    except ValueError:  # it reads full grids alone, and has no drawings
        return False
    leaves = where if isinstance(where, tuple | list) else [where]
    return sum(each.numel() for each in leaves if hasattr(each, "numel")) > LARGE
