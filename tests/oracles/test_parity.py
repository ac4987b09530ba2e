"""docs/parity.md and results/parity.json belong to the tests with the mark ``compares``, and to these versions."""

import importlib.metadata
import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.oracles, pytest.mark.bare]
ROOT = Path(__file__).parents[2]
STORED = json.loads((ROOT / "results" / "parity.json").read_text(encoding="utf-8"))


def test_the_page_and_the_figures_are_those_of_the_marks():
    command = [sys.executable, str(ROOT / "tools" / "parity.py"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(("library", "version"), STORED["versions"].items())
def test_the_figures_are_of_the_installed_version(library, version):
    try:
        installed = importlib.metadata.version(library).partition("+")[0]
    except importlib.metadata.PackageNotFoundError:  # then its tests are skipped too, and there is nothing to compare
        pytest.skip(f"{library} is not installed")
    assert installed == version, "python tools/parity.py"


def test_single_precision_agrees_to_the_bound_of_the_tests():
    assert max(row["float32"] for row in STORED["rows"] if "float32" in row) <= 1e-5
