"""The generated stubs of the public names of posenc and of its workbench."""

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

pytestmark = pytest.mark.bare

TOOL = Path(__file__).parents[1] / "tools" / "stub.py"


@pytest.fixture(scope="module")
def stub() -> ModuleType:
    spec = importlib.util.spec_from_file_location("stub", TOOL)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.full
def test_the_stubs_are_up_to_date():
    done = subprocess.run([sys.executable, TOOL, "--check"], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_every_package_with_a_table_of_exports_has_a_stub(stub):
    files = (TOOL.parents[1] / "src").rglob("__init__.py")
    lazy = {path for path in files if "\nEXPORTS = {" in path.read_text(encoding="utf-8")}
    assert lazy == {stub.SOURCE / package.replace(".", "/") / "__init__.py" for package in stub.PACKAGES}


def test_a_stale_stub_is_found(stub):
    source = (
        "from posenc.version import __version__ as __version__\nfrom posenc.lookup.moved import MOVED\n"
        "EXPORTS = {'scheme': ('Scheme',), 'contract': ('check',)}\nMODULES = ('adapt',)"
    )
    fresh = stub.render(source, {"RoPE": "posenc.schemes.rope"})
    assert [line for line in fresh.splitlines() if line.startswith("from")] == [
        "from posenc import adapt as adapt",
        "from posenc.contract import check as check",
        "from posenc.scheme import Scheme as Scheme",
        "from posenc.schemes.rope import RoPE as RoPE",
        "from posenc.version import __version__ as __version__",
    ]
    assert "__all__" not in fresh
    assert stub.stale(fresh, fresh, "a.pyi") == ""
    message = stub.stale(stub.render(source, {}), fresh, "src/a.pyi")
    assert message.startswith("src/a.pyi is not up to date (1 lines differ, for one 'from posenc.schemes.rope")
    with pytest.raises(ValueError, match="assigns no MODULES"):
        stub.render("EXPORTS = {}", {})


def test_a_stale_stub_ends_with_code_1_and_is_written_anew(stub, tmp_path, monkeypatch, capsys):
    source, stale = tmp_path / "src", tmp_path / "src" / "some" / "part" / "__init__.pyi"
    stale.parent.mkdir(parents=True)
    stale.with_suffix(".py").write_text("EXPORTS = {'store': ('Store',)}\nMODULES = ()\n")
    monkeypatch.setattr(stub, "SOURCE", source)
    monkeypatch.setattr(stub, "PACKAGES", {"some.part": "Names."})
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(sys, "argv", ["stub.py", "--check"])
    assert stub.main() == 1
    assert "src/some/part/__init__.pyi is not up to date (2 lines differ" in capsys.readouterr().err
    monkeypatch.setattr(sys, "argv", ["stub.py"])
    assert stub.main() == 0
    assert "from some.part.store import Store as Store\n" in stale.read_text()
    monkeypatch.setattr(sys, "argv", ["stub.py", "--check"])
    assert stub.main() == 0


def test_a_name_that_is_public_under_another_is_listed(stub):
    source = "EXPORTS = {'studies': ('Request', 'find as find_study')}\nMODULES = ('tasks',)"
    fresh = stub.render(source, {}, "posenc.workbench")
    assert fresh.splitlines()[2:] == [
        "from posenc.workbench import tasks as tasks",
        "from posenc.workbench.studies import Request as Request",
        "from posenc.workbench.studies import find as find_study",
        "",
        "__all__ = [",
        '    "Request",',
        '    "find_study",',
        '    "tasks",',
        "]",
    ]
