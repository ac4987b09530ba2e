"""The contract on every example of every scheme that the package has; both are found by walking.

`make test` checks the first example of each scheme, `make test-all` every one. The shape hook meets every method of a
scheme in most checks; two that only call the same methods hundreds of times, on further draws, run without it.
"""

import pytest

from posenc.contract import checks, run
from posenc.contract.case import Case
from posenc.schemes import catalogue

CASES = [Case(kind, options) for kind in catalogue().values() for options in kind.examples]
FIRST = [next(case for case in CASES if case.kind is kind) for kind in catalogue().values()]
TIERS = [pytest.param(case, id=str(case), marks=() if case in FIRST else pytest.mark.full) for case in CASES]
QUICK = checks()
COMPILING = [check for check in checks(compiling=True) if check not in QUICK]
COMPILED = [  # the default tests compare score_mod with the bias without compiling it
    pytest.param(check, id=check.__name__, marks=pytest.mark.full if "score_mod" in check.__name__ else ())
    for check in COMPILING
]


REPEATING = ("translation_is_as_claimed", "every_example_differs_from_the_others")
ONCE = [
    pytest.param(check, id=check.__name__, marks=pytest.mark.bare if check.__name__ in REPEATING else ())
    for check in QUICK
]


@pytest.mark.parametrize("check", ONCE)
@pytest.mark.parametrize("case", TIERS)
def test_contract(case, check):
    assert run(check, case).trouble == ""


@pytest.mark.compile
@pytest.mark.parametrize("check", COMPILED)
@pytest.mark.parametrize("case", TIERS)
def test_contract_compiled(case, check):
    assert run(check, case).trouble == ""


def test_the_walk_finds_the_schemes_and_the_checks():
    assert {"NoPE", "RoPE", "Sinusoid"} <= set(catalogue())
    assert len({str(case) for case in CASES}) == len(CASES) >= 17
    assert len(QUICK) >= 26
    assert {*REPEATING} < {check.__name__ for check in QUICK}
    assert {check.__name__ for check in COMPILING} == {
        "it_compiles_whole_at_changing_lengths",
        "its_score_mod_agrees_with_eager",
    }


def test_known_faults_are_of_checks_that_there_are():
    names = {f"{check.__module__.rpartition('.')[2]}.{check.__name__}" for check in checks(compiling=True)}
    known = {str(case): set(case.faults) for case in CASES if case.faults}
    assert len(known) >= 4
    assert all(faults <= names for faults in known.values())


@pytest.mark.parametrize("kind", catalogue().values(), ids=lambda kind: kind.__name__)
def test_every_scheme_says_where_it_comes_from_and_what_it_computes(kind):
    assert kind.cite.count("{") == kind.cite.count("}") > 2
    assert "arXiv" in kind.cite
    assert "``" in kind.__doc__, "a scheme's docstring begins with its formula"
