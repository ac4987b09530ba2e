"""A museum of faults: every real bug met, as a small broken scheme, and the check that must catch it.

A check that has never failed is not a check: each one of the contract has an exhibit here.
"""

import importlib
import inspect
from pathlib import Path

import pytest

from posenc.contract import check, checks, claims, run
from posenc.contract.case import Case
from posenc.scheme import Scheme
from posenc.schemes import catalogue

pytestmark = pytest.mark.bare
ROOMS = [importlib.import_module(file.stem) for file in sorted(Path(__file__).parent.glob("faults_of_*.py"))]
SCHEMES = [
    value
    for room in ROOMS
    for value in vars(room).values()
    if inspect.isclass(value) and issubclass(value, Scheme) and value.__module__ == room.__name__
]
EXHIBITS = [scheme for scheme in SCHEMES if "caught_by" in vars(scheme)]
HEALTHY = [scheme for scheme in SCHEMES if scheme not in EXHIBITS]


def label(check):
    return f"{check.__module__.rpartition('.')[2]}.{check.__name__}"


CHECKS = {label(check): check for check in checks(compiling=True)}


def in_either_process(exhibits):
    """Compiling checks run apart from the others."""
    return [
        pytest.param(e, id=e.__name__, marks=pytest.mark.compile if e.caught_by.startswith("compiling") else ())
        for e in exhibits
    ]


@pytest.mark.parametrize("exhibit", in_either_process(EXHIBITS))
def test_the_named_check_catches_the_fault(exhibit):
    one = CHECKS[exhibit.caught_by]
    assert any(run(one, Case(exhibit, options)).trouble for options in exhibit.examples)


@pytest.mark.parametrize("exhibit", EXHIBITS, ids=lambda exhibit: exhibit.__name__)
def test_the_scheme_without_the_fault_passes_the_contract_elsewhere(exhibit):
    """Schemes of the package in `tests/contract/test_every_scheme.py`, those of the museum below."""
    assert exhibit.__base__ in {*catalogue().values(), *HEALTHY}


@pytest.mark.full
@pytest.mark.parametrize("exhibit", in_either_process(EXHIBITS))
def test_the_whole_contract_refuses_it_and_names_the_check(exhibit, monkeypatch):
    if exhibit.caught_by != "claims.translation_is_as_claimed":
        monkeypatch.setattr(claims, "MORE_DRAWS", claims.DRAWS)  # thousands of draws, to find other faults
    report = check(exhibit, compiling=exhibit.caught_by.startswith("compiling"))
    assert not report.ok
    assert exhibit.caught_by in {result.check for result in report.failures}


@pytest.mark.parametrize("scheme", HEALTHY, ids=lambda scheme: scheme.__name__)
def test_the_healthy_ones_pass_the_checks_that_catch_their_faults(scheme):
    caught_by = {exhibit.caught_by for exhibit in EXHIBITS if exhibit.__base__ is scheme}
    for one in (CHECKS[name] for name in sorted(caught_by) if not name.startswith("compiling")):
        assert [run(one, Case(scheme, options)).trouble for options in scheme.examples] == [""] * len(scheme.examples)


@pytest.mark.full
@pytest.mark.parametrize("scheme", HEALTHY, ids=lambda scheme: scheme.__name__)
def test_the_healthy_ones_pass_the_whole_contract(scheme):
    report = check(scheme)
    assert report.ok, report


@pytest.mark.full
@pytest.mark.compile
@pytest.mark.parametrize("scheme", HEALTHY, ids=lambda scheme: scheme.__name__)
def test_the_healthy_ones_compile(scheme):
    report = check(scheme, compiling=True, family="compiling")
    assert report.ok, report


def test_every_check_has_caught_something():
    assert {exhibit.caught_by for exhibit in EXHIBITS} == set(CHECKS)


@pytest.mark.parametrize("exhibit", EXHIBITS, ids=lambda exhibit: exhibit.__name__)
def test_an_exhibit_is_small_and_tells_its_story(exhibit):
    assert len(inspect.getsource(exhibit).splitlines()) <= 18
    assert inspect.getdoc(exhibit).count("\n") == 0
    assert exhibit.__doc__ != exhibit.__base__.__doc__
    assert exhibit.__base__ not in (Scheme, object)
