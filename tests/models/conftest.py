"""The plain encoder that ours is compared with is the one that benchmarks time it against."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture(scope="session")
def plain() -> ModuleType:
    """``benchmarks/plain.py``."""
    path = Path(__file__).parents[2] / "benchmarks" / "plain.py"
    spec = importlib.util.spec_from_file_location("plain", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
