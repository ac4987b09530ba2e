"""Checks of options and examples: every option has an effect, and building one scheme never changes another."""

from __future__ import annotations

import inspect

from torch import Tensor

from posenc.contract.case import Case, largest_difference, require

SAME = 1e-12
NOT_AN_OPTION = {"self", "generator"}


def every_option_is_in_an_example(case: Case) -> None:
    if case.instance is not None:
        return
    options = [name for name in inspect.signature(case.kind).parameters if name not in NOT_AN_OPTION]
    shown = {name for example in case.kind.examples for name in example}
    idle = [name for name in options if name not in shown]
    require(not idle, f"the option {idle[0] if idle else ''} is in none of its examples, so nothing tests it.")
    require(len(options) <= 8, f"takes {len(options)} constructor parameters; at most 8, the rest is another scheme.")


def every_example_differs_from_the_others(case: Case) -> None:
    """Two examples have different effects with random parameters, and building one does not change the other."""
    if case.instance is not None:
        return
    others = [other for options in case.kind.examples if str(other := Case(case.kind, options)) != str(case)]
    mine, theirs = _fingerprint(case), [_fingerprint(other) for other in others]
    if not _alike(_fingerprint(case), mine):
        for other in others:
            _fingerprint(other)
            require(
                _alike(_fingerprint(case), mine),
                f"does something else after {other} was built: state is shared between instances.",
            )
    for other, does in zip(others, theirs, strict=True):
        require(not _alike(does, mine), f"does exactly what {other} does: one of their options has no effect.")


def _alike(one: dict[str, Tensor], other: dict[str, Tensor]) -> bool:
    return one.keys() == other.keys() and all(largest_difference(one[name], other[name]) <= SAME for name in other)


def _fingerprint(case: Case) -> dict[str, Tensor]:
    scheme = case.make()
    return {name: effect.detach() for name, effect in case.effects(scheme, case.positions()).items()}
