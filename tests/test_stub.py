"""The generated stub of posenc's public names."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

TOOL = Path(__file__).parents[1] / "tools" / "stub.py"


def test_the_stub_is_up_to_date():
    done = subprocess.run([sys.executable, TOOL, "--check"], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_stale_stub_is_found():
    spec = importlib.util.spec_from_file_location("stub", TOOL)
    assert spec is not None
    assert spec.loader is not None
    stub = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(stub)
    source = (
        "from posenc.version import __version__ as __version__\nfrom posenc.moved import MOVED\n"
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
    assert stub.stale(fresh, fresh) == ""
    assert "(1 lines differ, for one 'from posenc.schemes.rope" in stub.stale(stub.render(source, {}), fresh)
    with pytest.raises(ValueError, match="assigns no MODULES"):
        stub.render("EXPORTS = {}", {})
