"""Every block of code in the README and the documents runs; every command in them exists."""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import io
import re
import runpy
import shlex
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

from posenc import cli
from posenc.schemes import catalogue
from posenc.workbench.report.result_rows import read_csv
from posenc.workbench.studies import studies

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]


def blocks(language: str) -> list[tuple[str, str]]:
    found = []
    for page in PAGES:
        for match in re.finditer(rf"^```{language}\n(.*?)^```", page.read_text(), re.S | re.M):
            found.append((f"{page.name}:{page.read_text()[: match.start()].count(chr(10)) + 1}", match[1]))
    return found


FEW_EPOCHS = {"SEEDS, FIRST, MORE = (0,), 24, 8": "SEEDS, FIRST, MORE = (0,), 2, 1"}
"""Text of a block that trains for long -> its replacement in the default tests."""
SHORTENED = [(where, text) for where, text in blocks("python") if any(long in text for long in FEW_EPOCHS)]


@pytest.mark.bare
@pytest.mark.usefixtures("in_this_process")
@pytest.mark.parametrize("code", [pytest.param(code, id=where) for where, code in blocks("python")])
def test_a_block_runs(code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for long, short in FEW_EPOCHS.items():
        code = code.replace(long, short)
    run_block(code, tmp_path, monkeypatch)


@pytest.mark.full
@pytest.mark.bare
@pytest.mark.parametrize("code", [pytest.param(code, id=where) for where, code in SHORTENED])
def test_a_block_runs_as_it_stands(code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run_block(code, tmp_path, monkeypatch)


def run_block(code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # a block may write files
    if "from transformers import" in code:  # what posenc adapts it does not need
        pytest.importorskip("transformers")
    if "posenc.adapt.sklearn" in code:
        pytest.importorskip("sklearn")
    if "from torch_geometric" in code:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # its import warns of torch.jit.script
            pytest.importorskip("torch_geometric.nn", reason="pip install --no-deps torch-geometric xxhash")
    path = tmp_path / "readme_block.py"
    path.write_text(code)
    spec = importlib.util.spec_from_file_location("readme_block", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["readme_block"] = module  # a class in a block must be picklable, as in a user's file
    try:
        spec.loader.exec_module(module)
    finally:
        del sys.modules["readme_block"]
    assert vars(module)


def commands() -> list[str]:
    lines = [line.split("  #")[0] for _, block in blocks("sh") for line in block.splitlines()]
    parts = [part.strip() for line in lines for part in line.split("&&")]
    return [part for part in parts if part.startswith("posenc ")]


@functools.cache
def help_of(command: str) -> str:
    """Output of `posenc COMMAND --help`, once for each command, whatever the number of its uses."""
    with contextlib.redirect_stdout(io.StringIO()) as out, pytest.raises(SystemExit) as leaving:
        cli.main([command, "--help"])
    assert leaving.value.code == 0
    return out.getvalue()


@pytest.mark.bare
@pytest.mark.parametrize("command", commands())
def test_a_command_exists_with_its_flags(command: str) -> None:
    words = shlex.split(command)
    for word in words[2:]:
        if word.startswith("--"):
            assert word in help_of(words[1]), f"{word} is not a flag of posenc {words[1]}"
    assert help_of(words[1])


def test_there_are_blocks_and_commands_to_test() -> None:
    assert len(blocks("python")) >= 3
    assert len(commands()) >= 5
    assert len(SHORTENED) == len(FEW_EPOCHS)


def test_the_readme_says_both_commands_on_its_first_screen_and_is_short() -> None:
    lines = (ROOT / "README.md").read_text().splitlines()
    first = "\n".join(lines[:30])
    assert "make run" in first
    assert "make test" in first
    assert len(lines) <= 120
    makefile = (ROOT / "Makefile").read_text()
    assert re.search(r"^run:", makefile, re.M)
    assert re.search(r"^test:", makefile, re.M)


def test_tests_of_the_site_lie_where_make_looks_for_them() -> None:
    """`make site-test` collects tests/website alone."""
    marked = {path.parent.name for path in (ROOT / "tests").rglob("test_*.py") if "mark." + "site" in path.read_text()}
    assert marked == {"website"}


TITLE = re.compile(r">(\w+)</text>")


def test_the_picture_shows_every_scheme() -> None:
    shown = set(TITLE.findall((ROOT / "docs" / "schemes.svg").read_text()))
    assert set(catalogue()) <= shown, "docs/schemes.svg lacks schemes: python tools/picture.py"


@pytest.mark.bare
@pytest.mark.full
def test_the_picture_is_what_its_tool_draws(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    before = (ROOT / "docs" / "schemes.svg").read_text()
    subprocess.run([sys.executable, "tools/picture.py", str(tmp_path / "schemes.svg")], cwd=ROOT, check=True)
    assert set(TITLE.findall((tmp_path / "schemes.svg").read_text())) == set(TITLE.findall(before)), (
        "docs/schemes.svg shows other schemes than there are: python tools/picture.py"
    )


NUMBER = re.compile(r"−?\d[\d.]*(?:e−\d+)? \[[−\de.]+, [−\de.]+\]")
"""A number with its interval."""


@pytest.mark.bare
def test_numbers_of_the_explained_claims_are_those_of_the_claims_or_of_a_page() -> None:
    text = (ROOT / "docs" / "claims-explained.md").read_text()
    pages = {ROOT / "docs" / page for page in re.findall(r"\(([^()]*\.html)\)", text)}
    known = (ROOT / "docs" / "claims.md").read_text() + "".join(page.read_text() for page in pages)
    known = " ".join(re.sub(r"<[^>]+>", "", known).split())
    quoted = NUMBER.findall(" ".join(text.split()))
    assert len(quoted) > 5
    assert [number for number in quoted if number not in known] == []


@pytest.mark.bare
def test_a_claim_has_the_runs_of_the_page_that_it_names() -> None:
    """Two stored files have the same runs from two trainings."""
    tool = runpy.run_path(str(ROOT / "tools" / "claims.py"))
    study = studies()["latin-squares"]
    page = tool["stored_page"](study, "quick")
    assert page.name == "latin-squares-quick-all.html"
    rows = {(row["unit"], row["metric"]): row["value"] for row in tool["rows_of_study"](study)["quick"]}
    own = {(row["unit"], row["metric"]): row["value"] for row in read_csv(page.with_suffix(".csv"))}
    assert own == {run: value for run, value in rows.items() if run in own}


@pytest.mark.bare
@pytest.mark.parametrize("tool", ["claims.py", "gallery.py", pytest.param("papers.py", marks=pytest.mark.full)])
def test_a_generated_document_is_up_to_date(tool: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", [tool, "--check"])
    with pytest.raises(SystemExit) as leaving:
        runpy.run_path(str(ROOT / "tools" / tool), run_name="__main__")
    assert leaving.value.code == 0
