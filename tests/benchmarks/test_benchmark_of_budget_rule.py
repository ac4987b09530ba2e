"""The rule for statements on models that are still learning, on few simulated learning curves."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def rule(monkeypatch) -> ModuleType:
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    return importlib.import_module("budget_rule")


@pytest.mark.parametrize("split", ["fixed", "by seed"])
def test_statements_hold_at_four_times_the_budget_and_lasting_gaps_are_found(rule, split) -> None:
    found = rule.measured(rule.Case("power laws", split, 5), pairs=250, seed=3)
    assert found["rule"]["wrong_of_stated"] <= rule.MOST_WRONG
    assert found["rule"]["gaps_found"] >= rule.LEAST_FOUND
    assert found["rule"]["stated"] > 0.5
    assert found["interval alone"]["wrong_of_stated"] > rule.MOST_WRONG, "the interval alone does not pass the test"


def test_a_model_that_starts_late_needs_the_score_at_chance(rule) -> None:
    found = rule.measured(rule.Case("late starts", "fixed", 5), pairs=400, seed=3)
    without = found["without chance"]["wrong_of_stated"]
    assert without > rule.MOST_WRONG
    assert found["rule"]["wrong_of_stated"] < without / 2


def test_a_control_at_chance_is_found(rule) -> None:
    found = rule.measured(rule.Case("control", "fixed", 5), pairs=150, seed=3)
    assert found["rule"]["gaps_found"] >= rule.LEAST_FOUND
    assert found["rule"]["wrong_of_stated"] <= rule.MOST_WRONG
