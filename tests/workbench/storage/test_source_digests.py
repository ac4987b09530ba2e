"""Digests of source files: what changes them, what does not, and runs that were made by an edited source tree."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from posenc.workbench import studies
from posenc.workbench.storage.source_digests import FOLDER, SourceDigests, digest_of
from posenc.workbench.storage.stored_code import differing

pytestmark = pytest.mark.bare

ENTRY = "posenc.workbench.studies.latin_squares.execute:train"
ROPE = {"row": {"scheme": "RoPE", "options": {"frequencies": None}}}


@pytest.fixture(scope="module")
def present() -> dict[str, str]:
    return SourceDigests().of_run(ENTRY, ROPE, {})


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A copy of the package, to edit."""
    copied = tmp_path / "src" / "posenc"
    shutil.copytree(FOLDER, copied, ignore=shutil.ignore_patterns("__pycache__"))
    return copied


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def changed(tree: Path, present: dict[str, str]) -> list[str]:
    now = SourceDigests(tree).of_run(ENTRY, ROPE, {})
    return [module for module in sorted({**now, **present}) if now.get(module) != present.get(module)]


def test_the_files_of_a_run_are_its_scheme_model_task_and_training(present: dict[str, str]) -> None:
    for module in (
        "schemes.rope",
        "models.encoder",
        "workbench.tasks.latin_squares.generator",
        "workbench.training.loop",
    ):
        assert f"posenc.{module}" in present
    drawing = re.compile(r"report|cli|store|panels|plots|claims$|presets|planning")
    assert [module for module in present if drawing.search(module.removeprefix("posenc."))] == ["posenc.claims"]
    assert not {"posenc.schemes.shaw", "posenc.schemes.alibi"} & present.keys()


def test_the_edit_of_the_issue_changes_one_file(tree: Path, present: dict[str, str]) -> None:
    assert changed(tree, present) == []
    edit(tree / "schemes" / "rope.py", "BASE = 10000.0", "BASE = 100.0")
    assert changed(tree, present) == ["posenc.schemes.rope"]
    other = SourceDigests(tree).of_run(ENTRY, {"row": {"scheme": "Shaw"}}, {})
    assert digest_of(other) == digest_of(SourceDigests().of_run(ENTRY, {"row": {"scheme": "Shaw"}}, {}))


def test_two_edits_of_one_file_differ(tree: Path, present: dict[str, str]) -> None:
    keys = {digest_of(present)}
    for old, new in (("BASE = 10000.0", "BASE = 100.0"), ("BASE = 100.0", "BASE = 50.0")):
        edit(tree / "schemes" / "rope.py", old, new)
        keys.add(digest_of(SourceDigests(tree).of_run(ENTRY, ROPE, {})))
    assert len(keys) == 3


def test_comments_docstrings_and_formatting_change_nothing(tree: Path, present: dict[str, str]) -> None:
    path = tree / "schemes" / "rope.py"
    edit(path, "BASE = 10000.0", "# The base of the paper.\nBASE = (\n    10_000.0\n)")
    edit(path, "Base of the geometric schedule.", "The base.")
    assert changed(tree, present) == []


@pytest.mark.full
def test_a_file_that_moves_changes_nothing_and_an_edit_of_it_is_found(tree: Path, present: dict[str, str]) -> None:
    (tree / "kernels" / "shape_checks.py").rename(tree / "shape_checks.py")
    imports = 0
    for path in tree.rglob("*.py"):
        text = path.read_text()
        moved = text.replace("posenc.kernels.shape_checks import", "posenc.shape_checks import")
        imports += moved != text
        path.write_text(moved)
    assert imports > 1
    now = SourceDigests(tree).of_run(ENTRY, ROPE, {})
    assert "posenc.shape_checks" in now
    assert "posenc.kernels.shape_checks" in present
    assert digest_of(now) == digest_of(present)
    assert differing([now, present]) == ()
    (tree / "shape_checks.py").write_text((tree / "shape_checks.py").read_text() + "\nEXTRA = 1\n")
    assert differing([SourceDigests(tree).of_run(ENTRY, ROPE, {}), present]) == (
        "posenc.kernels.shape_checks",
        "posenc.shape_checks",
    )


def test_another_function_of_the_same_name_is_another_import(tree: Path, present: dict[str, str]) -> None:
    path = tree / "workbench" / "training" / "loop.py"
    path.write_text(path.read_text() + "\nfrom posenc.kernels.pairs import something\n")
    one = SourceDigests(tree).of_run(ENTRY, ROPE, {})
    path.write_text(
        path.read_text().replace("posenc.kernels.pairs import something", "posenc.positions import something")
    )
    assert digest_of(SourceDigests(tree).of_run(ENTRY, ROPE, {})) != digest_of(one)


def test_a_new_scheme_and_an_edited_page_change_nothing(tree: Path, present: dict[str, str]) -> None:
    text = (tree / "schemes" / "nope.py").read_text().replace("NoPE", "NothingElse")
    (tree / "schemes" / "nothing_else.py").write_text(text)
    for name in (
        "workbench/report/page.py",
        "workbench/storage/store.py",
        "cli/results.py",
        "workbench/studies/shared/study.py",
    ):
        with (tree / name).open("a") as file:
            file.write("\nNEW = 1\n")
    assert changed(tree, present) == []


@pytest.mark.full
def test_an_edit_of_the_training_loop_is_found_by_every_study(tree: Path) -> None:
    with (tree / "workbench/training/loop.py").open("a") as file:
        file.write("\nNEW = 1\n")
    here, there = SourceDigests(), SourceDigests(tree)
    for study in studies.studies().values():
        present, now = (each.of_run(study.procedure.entry, {"scheme": "RoPE"}, {}) for each in (here, there))
        assert [module for module in present if now[module] != present[module]] == ["posenc.workbench.training.loop"]


def test_a_procedure_of_a_user_is_followed_into_the_folder_of_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "my_procedure.py").write_text("import my_model\nfrom posenc.schemes.rope import RoPE\n")
    (tmp_path / "my_model.py").write_text("WIDTH = 8\n")
    first = SourceDigests().of_run("my_procedure:train", {}, {})
    assert {"my_procedure", "my_model", "posenc.schemes.rope"} <= first.keys()
    (tmp_path / "my_model.py").write_text("WIDTH = 9\n")
    assert SourceDigests().of_run("my_procedure:train", {}, {}) != first
    assert SourceDigests().of_run("no_such_module:train", {}, {}) == {}


def test_a_scheme_of_a_user_brings_the_files_that_it_imports() -> None:
    codes = {"Mine_0123456789ab": "from posenc.schemes.shaw import Shaw\nfrom posenc import ALiBi\n"}
    settings = {"row": {"scheme": "Mine_0123456789ab"}}
    digests = SourceDigests().of_run(ENTRY, settings, codes)
    assert {"posenc.schemes.shaw", "posenc.schemes.alibi"} <= digests.keys()


SMALL = ("epochs=1", "depth=1", "train=100", "train_size=100", "iid=20", "ood=10")


def posenc(source: Path, *words: str, code: int = 0) -> str:
    """Run a command with another source tree."""
    environment = os.environ | {"PYTHONPATH": str(source), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "posenc.cli", *words]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout


@pytest.mark.bare
@pytest.mark.full
def test_runs_of_an_edited_tree_are_named_not_averaged_and_trained_again(tree: Path, tmp_path: Path) -> None:
    out = str(tmp_path / "runs")
    small = [word for each in SMALL for word in ("--set", each)]
    request = ["latin-squares", "--schemes", "rope", "nope", "--panels", "accuracy", *small, "--out", out]
    report = ["report", "latin-squares", "--panels", "accuracy", *small, "--out", out]
    request = [*request, "--jobs", "1"]  # each process of workers loads torch
    posenc(FOLDER.parent, "run", *request, "--seeds", "0", "1")
    edit(tree / "schemes" / "rope.py", "BASE = 10000.0", "BASE = 100.0")
    source = tree.parent
    text = posenc(source, "run", *request, "--seeds", "0", "1", "2")
    assert "2 finished runs were made by other code than the present" in text
    assert "rope, seeds 0 1: posenc/schemes/rope.py" in text
    assert "2 done, 4 done before" in text
    (page,) = (tmp_path / "runs" / "pages").glob("*.html")
    assert "Left out, because other code made them than the other seeds: rope, seeds 0 1" in page.read_text()
    table = posenc(source, "results", "--metrics", "accuracy_ood", "--out", out)
    assert len(re.findall(r"rope \(code [0-9a-f]{6}\) ", table)) == 2
    assert "made by other code" in posenc(source, *report)
    text = posenc(source, "run", *request, "--seeds", "0", "1", "2", "--retrain-changed")
    assert "2 earlier results are kept" in text
    assert "2 done, 4 done before" in text
    assert "made by other code" not in posenc(source, *report)
    assert "Left out, because" not in page.read_text()
    reasons = [json.loads(path.read_text()) for path in (tmp_path / "runs" / "replaced").glob("*/reason.json")]
    assert {each["reason"] for each in reasons} == {
        "trained again, because these files have changed: posenc/schemes/rope.py"
    }
    back = posenc(FOLDER.parent, *report)
    assert "3 finished runs were made by other code than the present" in back
