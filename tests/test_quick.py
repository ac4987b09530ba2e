"""`make quick` selects the tests that a change touches."""

import importlib.util
import subprocess
from pathlib import Path
from types import ModuleType

import pytest

pytestmark = pytest.mark.bare

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def quick() -> ModuleType:
    spec = importlib.util.spec_from_file_location("quick", ROOT / "tools" / "quick.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("changed", "tests"),
    [
        pytest.param(  # imported by `posenc.RoPE`
            "src/posenc/schemes/rope.py", {"tests/schemes/test_rope.py"}, marks=pytest.mark.full
        ),
        ("src/posenc/kernels/simplex.py", {"tests/schemes/test_grid_pe.py"}),  # imported by a scheme
        ("src/posenc/workbench/storage/store.py", {"tests/workbench/storage/test_store.py"}),
        ("tests/schemes/test_rope.py", {"tests/schemes/test_rope.py"}),
        ("tests/toy_ranks.py", {"tests/workbench/training/test_ranks.py"}),
        ("tests/workbench/report/conftest.py", {"tests/workbench/report/test_page.py"}),
        ("docs/design.md", {"tests/test_docs.py"}),
        ("tools/stub.py", {"tests/test_stub.py"}),
        ("benchmarks/encoder.py", {"tests/benchmarks/test_benchmarks.py"}),
    ],
)
def test_a_change_selects_the_tests_nearest_to_it(quick: ModuleType, changed: str, tests: set[str]) -> None:
    selected = set(quick.nearest_tests([changed]))
    assert tests | {"tests/test_architecture.py"} <= selected
    assert all((ROOT / path).is_file() for path in selected)
    assert "tests/measure/test_isomap.py" not in selected


def test_every_module_has_a_test_near_it(quick: ModuleType) -> None:
    files = [path.relative_to(ROOT).as_posix() for path in (ROOT / "src").rglob("*.py")]
    alone = [path for path in files if len(quick.nearest_tests([path])) == 1]
    assert alone == []


def test_a_changed_scheme_is_checked_by_name(quick: ModuleType) -> None:
    assert quick.changed_schemes(["src/posenc/schemes/rope.py", "README.md"]) == ["RoPE"]


def test_changed_and_new_files_are_found(quick: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def git(*words: str) -> None:
        author = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
        subprocess.run(["git", *author, *words], cwd=tmp_path, check=True, capture_output=True)

    git("init")
    for name in ("kept.py", "changed.py", "deleted.py"):
        (tmp_path / name).write_text("1\n")
    git("add", ".")
    git("commit", "-m", "first")
    (tmp_path / "changed.py").write_text("2\n")
    (tmp_path / "new.py").write_text("3\n")
    (tmp_path / "deleted.py").unlink()
    monkeypatch.setattr(quick, "ROOT", tmp_path)
    assert quick.changed_files("HEAD") == ["changed.py", "new.py"]


@pytest.mark.parametrize(("broken", "status"), [("", 0), ("pytest", 1), ("ruff", 1)])
def test_one_failed_check_is_the_exit_code(
    quick: ModuleType, monkeypatch: pytest.MonkeyPatch, broken: str, status: int
) -> None:
    commands = []

    def run(command: list[str], cwd: Path) -> subprocess.CompletedProcess[str]:
        commands.append(command)
        return subprocess.CompletedProcess(command, int(Path(command[0]).name == broken))

    monkeypatch.setattr(quick.subprocess, "run", run)
    assert quick.check(["src/posenc/schemes/rope.py"], ["tests/schemes/test_rope.py"], ["RoPE"]) == status
    assert [Path(command[0]).name for command in commands].count("pytest") == 2
    assert "tests/schemes/test_rope.py" in commands[-2]
    assert commands[-1][-1] == "RoPE"
