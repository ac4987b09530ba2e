"""The table of attempts is that of the present tests, and an attempt that goes wrong is seen."""

from __future__ import annotations

import importlib.util
import time
from pathlib import Path
from types import ModuleType

import pytest

pytestmark = pytest.mark.bare

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def attempts() -> ModuleType:
    spec = importlib.util.spec_from_file_location("attempts", ROOT / "tools" / "attempts.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_has_every_attempt_of_the_tests_and_none_failed(attempts: ModuleType) -> None:
    assert attempts.check() == ""


def test_an_attempt_that_goes_wrong_is_a_failure(attempts: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(folder: Path) -> tuple[str, str]:
        raise TypeError(f"in {folder}/file.txt")

    def wait(folder: Path) -> tuple[str, str]:
        time.sleep(60)
        return "read", ""

    def take(folder: Path) -> tuple[str, str]:
        return "refused", f"{len(b'x' * (64 << 20))} bytes"

    row = attempts.outcome_of(attempts.Attempt("group", "fail", fail))
    assert (row["outcome"], row["sentence"]) == ("traceback", "TypeError: in file.txt")
    assert attempts.failed(row)
    row = attempts.outcome_of(attempts.Attempt("group", "take", take))
    assert not attempts.failed(row)
    assert 60 < row["mib"] < 80
    monkeypatch.setattr(attempts, "SECONDS", 0.5)
    row = attempts.outcome_of(attempts.Attempt("group", "wait", wait))
    assert row["outcome"] == "no end"
    assert attempts.failed(row)
