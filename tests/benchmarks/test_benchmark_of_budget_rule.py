"""The rule for statements on models that are still learning, on few simulated learning curves."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from types import ModuleType

import pytest

pytestmark = pytest.mark.bare

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


def test_the_figures_are_written_with_where_they_come_from(rule, monkeypatch, tmp_path, capsys) -> None:
    monkeypatch.setattr(sys, "argv", ["budget_rule.py", "--pairs", "4", "--out", str(tmp_path / "rule.json")])
    status = rule.main()
    written = json.loads((tmp_path / "rule.json").read_text())
    assert written["passed"] is (status == 0)
    assert len(written["cases"]) == 12
    assert {"command", "versions", "date"} <= written["provenance"].keys()
    assert "gaps found" in capsys.readouterr().out


def test_the_stored_figures_meet_the_aims(rule) -> None:
    stored = json.loads((ROOT / "results" / "budget-rule.json").read_text())
    assert stored["passed"]
    assert stored["pairs"] >= 10_000
    for case in stored["cases"]:
        assert rule.passed(rule.Case(case["curves"], case["split"], case["seeds"]), case["rules"]["rule"])
    assert {"command", "versions", "date"} <= stored["provenance"].keys()
