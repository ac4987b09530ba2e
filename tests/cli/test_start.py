"""Start of the command line: what loads no torch, and the index from the source."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

from posenc.cli import index, index_of_source
from posenc.schemes import catalogue
from posenc.workbench import studies

pytestmark = pytest.mark.bare

ROOT = Path(__file__).parents[2]
COMMANDS = [
    (0, "--help"),
    (0, "--version"),
    (0, "run"),
    (0, "run --help"),
    (0, "run latin-squares --help"),
    (0, "report image-fit --help"),
    (0, "list"),
    (0, "list studies"),
    (0, "list panels"),
    (0, "list variants gridpe"),
    (0, "list figures --paper 2406.08272"),
    (0, "list data"),
    (0, "completion zsh"),
    (0, "__complete run latin-squares --schemes 2"),
    (2, "run latin-squars"),
    (2, "run latin-squares --preset quik"),
    (2, "run latin-squares --panels acuracy"),
    (2, "run latin-squares --schemes 2d-fixd"),
    (2, "run latin-squares --preste quick"),
    (2, "run latin-squares --set epochs"),
    (2, "run latin-squares --set epoch=4"),
    (2, "list figures --paper 2406"),
    (2, "check ropee"),
    (2, "frobnicate"),
]


@pytest.fixture(scope="module")
def written(tmp_path_factory) -> Path:
    """The index of the present source, which the committed file may lag behind in a working tree."""
    path = tmp_path_factory.mktemp("index") / "index.json"
    path.write_text(index_of_source.text(index_of_source.build()), encoding="utf-8")
    return path


def test_help_lists_and_errors_about_names_load_no_torch(written: Path) -> None:
    program = f"""
import io, sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from posenc import cli
cli.index.load.__defaults__ = (Path({str(written)!r}), cli.index.PACKAGE)
for code, words in {COMMANDS!r}:
    try:
        with redirect_stdout(io.StringIO()) as out, redirect_stderr(io.StringIO()) as err:
            cli.main(words.split())
    except SystemExit as leaving:
        text = out.getvalue() + err.getvalue()
        assert leaving.code == code and text, (words, leaving.code, text)
    loaded = [name for name in ("torch", "numpy", "msgspec", "scipy") if name in sys.modules]
    assert not loaded, (words, loaded)
print("done")
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("done\n", "")


def test_the_index_has_every_scheme_study_preset_and_panel(written: Path) -> None:
    loaded = index.load(written)
    assert [row["name"] for row in loaded.schemes] == list(catalogue())
    assert list(loaded.studies) == list(studies.studies())
    for name, study in studies.studies().items():
        entry = loaded.studies[name]
        assert entry["question"] == study.question
        assert list(entry["presets"]) == list(study.presets)
        assert list(entry["panels"]) == list(study.panels)
        assert entry["examples"], name
        assert all("minute" in preset["time"] for label, preset in entry["presets"].items() if label == "quick")
        assert any(entry["variants"][panel]["quick"] for panel in study.presets["quick"].panels), name
    assert written.stat().st_size < 1e6


def test_an_outdated_or_damaged_index_is_not_used(written: Path, tmp_path: Path) -> None:
    content = json.loads(written.read_text())
    content["studies"] = {}
    same = tmp_path / "same.json"
    same.write_text(json.dumps(content))
    assert index.load(same).studies == {}  # an index of this source is believed
    for text in (json.dumps({**content, "digest": "0" * 32}), "{", "[]", "{}"):
        other = tmp_path / "other.json"
        other.write_text(text)
        assert list(index.load(other).studies) == list(studies.studies())
    assert list(index.load(tmp_path / "absent.json").studies) == list(studies.studies())


def test_the_digest_changes_with_a_name_and_with_a_content(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("x = 1\n")
    (tmp_path / "b.py").write_text("")
    first = index.source_digest(tmp_path)
    assert index.source_digest(tmp_path) == first
    (tmp_path / "a.py").write_text("x = 2\n")
    second = index.source_digest(tmp_path)
    (tmp_path / "b.py").rename(tmp_path / "c.py")
    third = index.source_digest(tmp_path)
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "new.py").write_text("")
    assert len({first, second, third, index.source_digest(tmp_path)}) == 4


@pytest.mark.full
def test_a_scheme_that_was_just_added_is_listed(tmp_path: Path) -> None:
    """A copy of the package with one more scheme has an index of another source, and lists the scheme all the same."""
    program = (
        "import sys, shutil, subprocess\n"
        f"shutil.copytree({str(index.PACKAGE)!r}, {str(tmp_path / 'posenc')!r}, "
        "ignore=shutil.ignore_patterns('__pycache__'))\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
    nope = tmp_path / "posenc" / "schemes" / "nope.py"
    text = nope.read_text().replace("class NoPE(", "class JustAdded(")
    (nope.parent / "just_added.py").write_text(text)
    done = subprocess.run(
        [sys.executable, "-c", "from posenc.cli import main; main(['list', '--format', 'json'])"],
        capture_output=True, text=True, check=True, env={"PYTHONPATH": str(tmp_path), "PATH": "/usr/bin:/bin"},
    )  # fmt: skip
    names = [row["name"] for row in json.loads(done.stdout)]
    assert names == sorted([*catalogue(), "JustAdded"])


def test_the_tool_writes_the_index_and_fails_if_it_is_outdated(tmp_path: Path, monkeypatch, capsys) -> None:
    spec = importlib.util.spec_from_file_location("tool_of_the_index", ROOT / "tools" / "index.py")
    assert spec is not None
    assert spec.loader is not None
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    monkeypatch.setattr(index, "FILE", tmp_path / "index.json")
    assert tool.main(["--check"]) == 1
    assert tool.main([]) == 0
    assert tool.main(["--check"]) == 0
    (tmp_path / "index.json").write_text((tmp_path / "index.json").read_text().replace("RoPE", "ROPE"))
    capsys.readouterr()
    assert tool.main(["--check"]) == 1
    assert capsys.readouterr().err == "index.json is not up to date with the source: python tools/index.py\n"
    assert "tools/index.py --check" in (ROOT / "Makefile").read_text()
