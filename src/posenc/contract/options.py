"""Checks of options and examples: every option has an effect, and building one scheme never changes another."""

from __future__ import annotations

import inspect

from torch import Tensor

from posenc.contract.case import Case, largest_difference, require

TOLERANCE = 1e-12
OTHER_PARAMETERS = {"self", "generator"}


def every_option_is_in_an_example(case: Case) -> None:
    """Each constructor parameter is in an example, and there are at most 8."""
    if case.instance is not None:
        return
    options = [name for name in inspect.signature(case.kind).parameters if name not in OTHER_PARAMETERS]
    shown = {name for example in case.kind.examples for name in example}
    unused = [name for name in options if name not in shown]
    require(not unused, f"the option {unused[0] if unused else ''} is in none of its examples, so nothing tests it.")
    require(len(options) <= 8, f"takes {len(options)} constructor parameters, and 8 are allowed. Make two schemes.")


def every_example_differs_from_the_others(case: Case) -> None:
    """Two examples have different effects with random parameters, and building one does not change the other."""
    if case.instance is not None:
        return
    others = [other for options in case.kind.examples if str(other := Case(case.kind, options)) != str(case)]
    mine, theirs = _fingerprint(case), [_fingerprint(other) for other in others]
    if not _same_effects(_fingerprint(case), mine):
        for other in others:
            _fingerprint(other)
            require(
                _same_effects(_fingerprint(case), mine),
                f"has another effect after {other} was built: state is shared between instances.",
            )
    for other, does in zip(others, theirs, strict=True):
        require(not _same_effects(does, mine), f"has the effect of {other}: one of their options has no effect.")


def a_list_may_stand_for_a_tuple(case: Case) -> None:
    """Options that are tuples may be lists, as JSON has them: the effect is the same, and a state loads."""
    if case.instance is not None or not any(isinstance(value, tuple) for value in case.options.values()):
        return
    as_lists = Case(case.kind, {name: _lists(value) for name, value in case.options.items()})
    require(_same_effects(_fingerprint(case), _fingerprint(as_lists)), "has another effect if its options are lists.")
    as_lists.make().load_state_dict(case.make().state_dict())  # it raises where the list itself is kept as a convention


def _lists(value: object) -> object:
    return [_lists(each) for each in value] if isinstance(value, tuple) else value


def _same_effects(one: dict[str, Tensor], other: dict[str, Tensor]) -> bool:
    return one.keys() == other.keys() and all(largest_difference(one[name], other[name]) <= TOLERANCE for name in other)


def _fingerprint(case: Case) -> dict[str, Tensor]:
    scheme = case.make()
    return {name: effect.detach() for name, effect in case.effects(scheme, case.positions()).items()}
