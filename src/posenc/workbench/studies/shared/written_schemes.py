"""Encodings that a user writes, such as ``RoPE(pairing='interleaved')``, beside the variants that a study names.

A written encoding takes the model settings of the named variant of its scheme, so that a comparison of the two differs
in what was written. A written encoding that equals a named variant is that one.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

from posenc.lookup.name_suggestion import plain_name
from posenc.lookup.scheme_text import Specification, find
from posenc.workbench.runs import RunSpec


def named_like(written: Specification, named: Mapping[str, Specification]) -> str | None:
    """Find the study's variant whose model settings a written encoding takes.

    Args:
        written: The written encoding.
        named: Label to encoding, for the variants of the study.

    Returns:
        The label of a variant of the same scheme whose options are all among the written ones: that with most options,
        then one that is named like the scheme, then the first. Without such a variant, any of the scheme; None if the
        study names none.
    """
    same = [label for label, each in named.items() if each.scheme == written.scheme]
    options = _options(written)

    def rank(label: str) -> tuple[bool, int, bool]:
        own = _options(named[label])
        inside = all(options.get(name) == value for name, value in own.items())
        return inside, len(own) if inside else 0, plain_name(label) == plain_name(written.scheme)

    return max(same, key=rank) if same else None


def is_same(written: Specification, named: Specification) -> bool:
    """Return True if two encodings have the same scheme and options; an option may be written out as its default."""
    return written.scheme == named.scheme and _options(written) == _options(named)


def repeated(specs: Sequence[RunSpec], written: Sequence[str], named: set[str]) -> dict[str, str]:
    """Find written encodings whose runs are those of another variant of the same request.

    Args:
        specs: The runs of the request.
        written: Labels that the request names.
        named: Labels that the study's panels need.

    Returns:
        Written label to the label of the variant that it equals.
    """
    runs: dict[str, set[tuple[str, str]]] = {}
    for spec in specs:
        runs.setdefault(spec.variant, set()).add((spec.condition, spec.identity))
    order = sorted(runs, key=lambda label: label not in named)  # a named variant before a written encoding
    same = dict[str, str]()
    for label in (each for each in order if each not in named and each in written):
        first = next((other for other in order if other not in same and runs[label] <= runs[other]), label)
        if first != label:
            same[label] = first
    return same


def _options(specification: Specification) -> dict[str, Any]:
    """Options that differ from the defaults of the constructor."""
    parameters = inspect.signature(find(specification.scheme)).parameters
    defaults = {name: each.default for name, each in parameters.items()}
    return {
        name: value
        for name, value in specification.options.items()
        if name not in defaults or defaults[name] is inspect.Parameter.empty or defaults[name] != value
    }
