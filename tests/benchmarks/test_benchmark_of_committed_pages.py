"""The benchmark of committed pages with more epochs: what it reads, what it counts, and a rehearsal."""

import importlib
import json
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.bare

FOLDER = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def benchmark(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(FOLDER)
    return importlib.import_module("committed_pages")


def test_the_committed_tables_have_the_score_of_each_trained_variant(benchmark: Any) -> None:
    for name in benchmark.PAGES:
        found = benchmark.committed(name)
        assert len(found) >= 6
        assert all(len(each) >= 3 for each in found.values())
        assert "ridge" not in found  # it trains no network


def test_a_difference_is_stated_where_its_interval_excludes_0(benchmark: Any) -> None:
    quick = {"a": {0: 1.0, 1: 1.1, 2: 1.05}, "b": {0: 2.0, 1: 2.1, 2: 2.04}, "c": {0: 0.0, 1: 2.0, 2: 1.0}}
    more = {"a": {0: 2.0, 1: 2.1, 2: 2.04}, "b": {0: 1.0, 1: 1.1, 2: 1.05}, "c": {0: 5.0, 1: 5.1, 2: 5.04}}
    pairs = {(each["a"], each["b"]): each for each in benchmark.compared(quick, more)}
    assert [pairs["a", "b"][key] for key in ("stated", "sign_quick", "sign_more")] == [True, -1, 1]
    assert [pairs["a", "c"][key] for key in ("stated", "sign_quick", "sign_more")] == [False, 0, -1]
    counted = benchmark.summary(list(pairs.values()))
    assert counted["reversed"] == 1
    assert (counted["stated_with_more"], counted["found"]) == (3, 0)  # the opposite sign was not found


@pytest.mark.full
def test_a_rehearsal_ends_in_a_file(benchmark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(benchmark.os, "nice", lambda value: 0)
    monkeypatch.setattr(benchmark, "committed", lambda name: {"learned-0.2": {0: 1.0}, "1d-fixed": {0: 0.5}})
    monkeypatch.setattr(benchmark.runner, "pick", lambda *arguments: benchmark.runner.InProcess())
    out = tmp_path / "out.json"
    words = ["nmar", "--force", "--work", str(tmp_path), "--scale", "0.0004", "--out", str(out)]
    monkeypatch.setattr(sys, "argv", ["committed_pages.py", *words])
    assert benchmark.main() == 0
    page = json.loads(out.read_text())["pages"]["nmar"]
    assert (page["seeds"], page["epochs"], len(page["pairs"])) == (1, [3500, 14000], 1)
