"""Options and examples: every option does something, and building one scheme never changes another."""

from __future__ import annotations

import inspect

from torch import Tensor

from posenc.contract.case import Case, gap, require

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
    """Compared with parameters randomised, and built in either order."""
    if case.instance is not None:
        return
    mine = _fingerprint(case)
    for options in case.kind.examples:
        other = Case(case.kind, options)
        if str(other) == str(case):
            continue
        theirs = _fingerprint(other)
        again = _fingerprint(case)
        require(
            all(gap(again[name], mine[name]) <= SAME for name in mine),
            f"does something else after {other} was built: state is shared between instances.",
        )
        differs = theirs.keys() != mine.keys() or any(gap(theirs[name], mine[name]) > SAME for name in mine)
        require(differs, f"does exactly what {other} does: one of their options has no effect.")


def _fingerprint(case: Case) -> dict[str, Tensor]:
    scheme = case.make()
    return {name: effect.detach() for name, effect in case.effects(scheme, case.positions()).items()}
