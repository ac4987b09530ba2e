"""Mutation testing (tools/mutants.py): which changes there are, and what tests one."""

from __future__ import annotations

import ast
import sys
import tomllib
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "tools"))

import mutants as command
from mutation import collected, execution, page
from mutation.coverage_map import CoverageMap
from mutation.operators import mutants, mutated
from mutation.sample import PACKAGE, digests, further, sample

from posenc import positions

pytestmark = pytest.mark.bare

SOURCE = '''
"""A docstring with 1 + 2."""
import math

def near(x: "int | None", size=4):
    """Return x < 1."""
    _refuse(x)
    if x < 0:
        raise ValueError(f"got {x + 1}, needs 3 - 2")
    return x.abs() <= size if size > 0 else x[1:]
'''


def changes(kind: str) -> list[str]:
    return [mutant.change for mutant in mutants(SOURCE, "near.py") if mutant.kind == kind]


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("comparison", ["x.abs() <= size -> x.abs() < size", "x.abs() <= size -> x.abs() > size",
                        "size > 0 -> size >= 0", "size > 0 -> size <= 0"]),
        ("call", ["x.abs() -> x"]),
        ("constant", ["4 -> 5", "4 -> 3", "0 -> 1", "0 -> -1"]),
        ("index", ["1: -> :", "1 -> 2", "1 -> 0"]),
        ("arithmetic", []),
    ],
)  # fmt: skip
def test_values_are_changed_and_texts_are_not(kind, expected):
    assert sorted(changes(kind)) == sorted(expected)


def test_changes_of_refusals_have_a_kind_of_their_own():
    found = changes("refusal")
    assert {"_refuse(x) -> nothing", "x < 0 -> x <= 0", "x < 0 -> x >= 0"} < set(found)
    assert any(change.startswith("raise ") for change in found)
    assert not any("3 - 2" in change and "raise" not in change for change in found)


def test_each_mutant_is_one_change_that_compiles():
    plain = ast.unparse(ast.parse(SOURCE))
    found = mutants(SOURCE, "near.py")
    assert len({mutant.id for mutant in found}) == len(found)
    texts = [ast.unparse(mutated(SOURCE, mutant.index)) for mutant in found]
    assert plain not in texts
    assert len({*texts}) >= len(texts) - 2  # a condition may be removed in two ways
    for text in texts:
        compile(text, "near.py", "exec")


def test_the_sample_has_each_file_and_kind_in_proportion_and_is_always_the_same(monkeypatch):
    monkeypatch.setattr("mutation.sample.CODE", 30)
    monkeypatch.setattr("mutation.sample.REFUSALS", 4)
    population = [each for name in "abc" for each in mutants(SOURCE, f"{name}.py")]
    drawn = sample(population)
    assert drawn == sample(list(population))
    assert len(drawn) == len({mutant.id for mutant in drawn}) == 34
    counts = [sum(mutant.file == f"{name}.py" for mutant in drawn) for name in "abc"]
    assert max(counts) - min(counts) <= 3


def test_modules_that_import_a_changed_one_are_imported_again():
    found = execution.dependents("posenc.kernels.pairs")
    assert {"posenc.kernels.pairs", "posenc.schemes.alibi", "posenc.attention", "posenc.contract.case"} <= found
    assert "posenc.frequencies" not in found


@pytest.mark.full
def test_faults_that_once_passed_the_contract_are_found(capfd):
    command.faults()
    lines = capfd.readouterr().out.splitlines()
    assert len(lines) == len(command.FAULTS) == 4
    assert [line for line in lines if "killed, contract: " not in line] == []


def test_what_went_through_all_stages_has_a_reason_and_the_page_is_up_to_date():
    results = command.read(command.RESULT)
    said = page.reasons()
    assert {verdict for verdict, _ in said.values()} <= {*page.VERDICTS}
    assert tomllib.loads(page.REASONS.read_text(encoding="utf-8"))
    alive = [row for row in results["mutants"] if page.is_alive(row) and not page.is_found(row)]
    through = [row["id"] for row in alive if len(page.passed(row["before"])) == command.STAGES]
    assert [name for name in through if name not in said] == []
    assert command.PAGE.read_text(encoding="utf-8") == page.page(results)


def test_a_mutant_replaces_the_code_of_the_functions_that_are_imported():
    path = PACKAGE / "positions.py"
    found = mutants(path.read_text(encoding="utf-8"), "positions.py")
    mutant = next(each for each in found if each.change == "length < 0 -> length >= 0")
    code = positions.sequence.__code__
    try:
        assert collected.put(mutant, [positions.sequence])
        with pytest.raises(ValueError, match="at least 0 tokens"):
            positions.sequence(3)
    finally:
        positions.sequence.__code__ = code
    assert positions.sequence(3).count == 3


@pytest.mark.parametrize(
    ("change", "ids", "outcome"),
    [
        ("604800.0 -> 604801.0", ["test_periods_return_after_one_period_and_a_span_has_its_ends"], "killed"),
        ("604800.0 -> 604801.0", ["test_unknown_units"], "survived"),
    ],
)
def test_a_value_that_is_made_at_import_is_tested_by_importing_anew(change, ids, outcome):
    found = mutants((PACKAGE / "frequencies.py").read_text(encoding="utf-8"), "frequencies.py")
    mutant = next(each for each in found if each.change == change)
    with pytest.raises(LookupError, match="changes no function and no plain value"):
        collected.put(mutant, [])
    names = [f"tests/test_timestamps.py::{name}" for name in ids]
    result = execution.in_child(execution.guarded(lambda: collected.run_anew(mutant, names)), 60)
    assert result["outcome"] == outcome, result


def test_what_a_later_test_found_is_not_tested_again_as_if_the_test_had_been_there():
    row = {"index": 0, "before": {"outcome": "survived", "passed": [0]}}
    assert command.is_wanted(row, "before", 1)
    assert not command.is_wanted({**row, "after": {"outcome": "killed"}}, "before", 1)


def test_mutants_that_are_drawn_later_are_new_and_always_the_same():
    population = mutants(SOURCE, "near.py")
    known = {mutant.id for mutant in population[::2]}
    found = further(population, known, 3)
    assert len({mutant.id for mutant in found} - known) == 3
    assert found == further(population, known, 3)
    assert further(population, {mutant.id for mutant in population}, 3) == []


def test_a_map_of_other_code_says_which_files_have_changed():
    now = digests()
    covered = CoverageMap({"examples": {}, "tests": {}, "seconds": {}, "digests": {**now, "attention.py": "other"}})
    assert covered.changed_files() == ["attention.py"]
    assert covered.commit == "unknown"


def test_outcomes_of_other_code_are_counted(capsys):
    now = digests(["attention.py"])["attention.py"]
    outcomes = [{"outcome": "killed", "code": now}, {"outcome": "killed", "code": "other"}, {"outcome": "killed"}]
    command.warn_of_stale({"mutants": [{"file": "attention.py", "before": each} for each in outcomes]})
    assert "1 outcomes are of files that have changed since (attention.py); 1 were recorded" in capsys.readouterr().out
