"""Commands that are refused: one sentence and status 2, no torch where no model is needed, and no file left behind."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from posenc import cli
from posenc.cli import index, index_of_source, name_checks
from posenc.cli.grammar import command_of
from posenc.workbench import studies
from posenc.workbench.progress import CostEstimate
from posenc.workbench.studies.shared import changes

pytestmark = pytest.mark.bare

LONG = CostEstimate(seconds=61_200, memory_bytes=2**30, runs=30)

WITHOUT_TORCH = {
    "run image-fit nosuch.jpg": "nosuch.jpg does not exist. image-fit takes an image",
    "show p-rope": "no encoding 'p-rope'. Here it is posenc show \"RoPE(64, frequencies=proportional(share=0.25))\"",
    "check VideoRoPE": "Here it is posenc show SectionedRoPE, with the positions of posenc.video_rope",
    "run latin-squares file.txt": "latin-squares takes no file or folder; got file.txt",
    "run latin-squares --device foo": "there is no device 'foo'. Use cpu, cuda or cuda:N",
    "run latin-squares --device gpu9": "there is no device 'gpu9'. Use cpu, cuda or cuda:N",
    "run latin-squares --device cpu:3": "the CPU is one device; got 'cpu:3'",
    "run latin-squares --seeds -1": "a seed is a whole number from 0 to 2^63 - 1; got -1",
    "run latin-squares --seeds 1 1": "seed 1 is given twice",
    "run latin-squares --seeds 1.5": "--seeds takes a whole number; got '1.5'",
    "store verify .": "'.' is too much. For a folder of results, write --out .. See posenc store verify --help",
    "run latin-squares --jobs 0": "--jobs is a number of at least 1; got 0",
    "run latin-squares --data absent": "--data absent is not a folder",
    "run latin-squares --out file.txt": "file.txt (or a folder on the way to it) is a file",
    "run latin-squares --out file.txt/runs": "file.txt/runs (or a folder on the way to it) is a file",
    "run latin-squares --out=": "--out is an empty path",
    "run latin-squares --tensorboard file.txt": "Choose another with --tensorboard",
    "run latin-squares --lr-sweep 0.1": "a sweep compares two different learning rates",
    "run latin-squares --lr-sweep nan 1": "a learning rate is a number above 0; got nan",
    "run latin-squares --panels accuracy accuracy": "panel accuracy is given twice",
    "run latin-squares --schemes rope rope": "scheme rope is given twice",
    "run latin-squares --schemes absent.py": "there is no file absent.py",
    "run latin-squares --schemes Shaw(values=False": "'Shaw(values=False' cannot be read",
    "run latin-squares --schemes Shaw(foo=1)": "Shaw: there is no option 'foo'. It takes head_dim",
    "run latin-squares --set training.epochs=0": "training.epochs must be at least 1; got 0",
    "run latin-squares --set training.optimizer=sgdd": "there is no training.optimizer 'sgdd'. Did you mean sgd?",
    "run latin-squares --set model.epochs=3": "there is no setting 'model.epochs'. Did you mean epochs?",
    "run latin-squares --set lr=0": "--set lr=0 is not possible: training needs a learning rate above 0",
    "run latin-squares --set betas=0.9": "betas must be 2 numbers separated by commas or none; got '0.9'",
    "run latin-squares --set epochs=2 --set training.epochs=3": "epochs and training.epochs are the same setting",
    "run gridpe --set recipes.pvt.training.epochs=0": "recipes.pvt.training.epochs must be at least 1; got 0",
    "run gridpe --set recipes.pvtt.training.epochs=4": "there is no setting 'recipes.pvtt.training.epochs'",
    "run gridpe --set recipes.size=foo": "there is no recipes.main.size 'foo'. Choose one of quick",
    "run gridpe --set recipes.pvt.size=tinny": "there is no recipes.pvt.size 'tinny'. Did you mean tiny?",
    "run gridpe --set size=3": "several settings are named 'size': recipes.size, augmentation.size",
    "report latin-squares": "There are no results in runs. Make some first",
    "report latin-squares --pack absent": "absent is not there. Name a pack",
    "report latin-squares a --source b": "the data of the page are named twice",
    "report latin-squares --figures file.txt": "Choose another with --figures",
    "results": "There are no results in runs",
    "results --to a.csv": "a table is for the terminal",
    "list studies --axes 2": "are for schemes, not for studies",
    "list --axes 0": "--axes is a number of position axes, 1 or more; got 0",
    "show rope --distances 0": "--distances is a number of at least 1; got 0",
    "show rope --out a.gif": "--out writes a page (.html) or a figure",
    "show RoPE(foo=1)": "RoPE: there is no option 'foo'",
    "check absent.py": "there is no file absent.py",
    "new 3x": "'3x' cannot name a Python file and class",
    "new x --axes 9": "--axes is a number from 1 to 3; got 9",
    "new x --to file.txt/x.py": "a folder on the way to it is a file",
    "cite": "no encoding is named",
    "bench rope --device foo": "there is no device 'foo'",
    "bench rope --tokens 0": "--tokens is a whole number of at least 1; got 0",
    "data latin-squares": "pass either --to FILE",
    "data latin-squares --read absent.csv": "there is no file absent.csv",
    "data latin-squares --to x.npz --seed -1": "--seed is a number of at least 0; got -1",
    "data recordings --read absent.npz": "there is no file absent.npz",
    "data recordings --read file.txt --blocks 0": "--blocks is a number of at least 1; got 0",
    "data fashion-mnist --to file.txt": "Choose another with --to",
    "store pack folder": "There are no results in runs",
    "store pack packs --array-bytes -1": "--array-bytes is a number of bytes, at least 0; got -1",
    "store compact": "There are no results in runs",
    "store gc": "There are no results in runs",
    "store merge absent": "absent is not there. Name a pack",
    "completion tcsh": "SHELL is one of bash, zsh, fish; got 'tcsh'",
}
"""Command -> part of its sentence. All concern names, flags or files alone."""
WITH_TORCH = {
    "run image-fit folder": "folder is a folder, and an image",
    "run image-fit file.txt": "file.txt does not decode as an image",
    "run scene file.txt": "a scene is a folder with transforms.json",
    "run masked file.txt": "file.txt is not a recording",
    "run gridpe": "fashion-mnist is not at",
    "run gridpe --lr-sweep 0.1 0.2": "posenc run gridpe PATH --lr-sweep 0.1 0.2",
    "run latin-squares --set heads=3": "3 heads do not divide a width of 32",
    "run latin-squares --schemes RoPE(63)": "`head_dim` must be even; got 63",
    "report latin-squares --pack file.txt": "file.txt cannot be read as a pack",
    "report latin-squares --pack folder": "folder holds neither a store nor packs",
    "store merge file.txt --out new/store": "file.txt cannot be read as a pack",
    "store merge folder": "folder holds neither a store nor packs",
    "run latin-squares --schemes interleaved(RoPE,NoPE)": "Here it is a recipe by layer, posenc run language --schemes",
    "run latin-squares --schemes RWSE": "RWSE reads nodes of graphs, which these data are not: posenc run graphs",
    "show RoPE(63)": "`head_dim` must be even; got 63",
}
"""Command -> part of its sentence. The first four read a file, the others build a model."""


@pytest.fixture
def refused(tmp_path, monkeypatch, capsys):
    """Run a command in a folder with a file and a folder; its sentence, once it is refused and has left nothing."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("POSENC_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("POSENC_DATA", raising=False)
    (tmp_path / "file.txt").write_text("x")
    (tmp_path / "folder").mkdir()

    def call(command: str) -> str:
        with pytest.raises(SystemExit) as leaving:
            cli.main(words_of(command))
        sentence = capsys.readouterr().err
        assert (leaving.value.code, sentence.count("\n")) == (2, 1), sentence
        assert sorted(path.name for path in tmp_path.rglob("*")) == ["file.txt", "folder"]
        return sentence

    return call


def words_of(command: str) -> list[str]:
    """Words of a command; options of a scheme hold no blank here."""
    return command.split()


@pytest.mark.parametrize("command", WITH_TORCH)
def test_a_request_that_its_data_or_its_models_refuse_leaves_no_files(command: str, refused) -> None:
    assert WITH_TORCH[command] in refused(command)


def test_a_preset_that_is_not_confirmed_leaves_no_files(refused, monkeypatch) -> None:
    monkeypatch.setattr("posenc.workbench.studies.shared.planning.estimate", lambda *arguments: LONG)
    assert "there is no terminal to ask at" in refused("run nmar --preset standard")


def test_errors_about_names_flags_and_files_load_no_torch_and_leave_no_files(tmp_path: Path) -> None:
    written = tmp_path / "index.json"
    written.write_text(index_of_source.text(index.load()), encoding="utf-8")
    work = tmp_path / "work"
    (work / "folder").mkdir(parents=True)
    (work / "file.txt").write_text("x")
    program = f"""
import io, json, sys
from contextlib import redirect_stderr
from pathlib import Path
from posenc import cli
cli.index.load.__defaults__ = (Path({str(written)!r}), cli.index.PACKAGE)
for command, part in {WITHOUT_TORCH!r}.items():
    try:
        with redirect_stderr(io.StringIO()) as err:
            cli.main(command.split())
    except SystemExit as leaving:
        assert leaving.code == 2 and part in err.getvalue(), (command, leaving.code, err.getvalue())
        assert err.getvalue().count(chr(10)) == 1, err.getvalue()
    loaded = [name for name in ("torch", "numpy", "msgspec", "scipy") if name in sys.modules]
    assert not loaded, (command, loaded)
    assert sorted(path.name for path in Path().rglob("*")) == ["file.txt", "folder"], command
print("done")
"""
    environment = {name: value for name, value in os.environ.items() if name != "POSENC_DATA"}
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, cwd=work, env=environment
    )
    assert done.stdout == "done\n", done.stderr


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name == "gridpe" else pytest.mark.full) for name in studies.studies()]
)
def test_the_index_refuses_the_same_names_and_values_of_settings_as_the_study(name: str) -> None:
    """Every end of every path of a setting, with texts that some types allow and others refuse."""
    study, known = studies.find(name), index.load()
    command = command_of("run", cli.COMMANDS["run"])
    empty = {option.name: None for option in command.options} | {"preset": "quick", "study": name}
    paths = [path for setting in changes.settings_of(study, "quick") for path in (*setting.paths, *setting.fields)]
    parts = [path.split(".") for path in (*paths, *study.presets["quick"].aliases, "nosuch.path", "training.nosuch")]
    ends = dict.fromkeys(".".join(path[first:]) for path in parts for first in range(len(path)))
    for end in ends:
        for value in ("word", "0", "-1", "2.5", "none", "1,2"):
            early = _refusal(name_checks.refuse_unknown, known, command, {**empty, "changes": (f"{end}={value}",)})
            request = studies.Request(preset="quick", changes={end: value})
            late = _refusal(changes.changed_preset, study.presets, request)
            if "itself. Choose" not in early:  # The index also refuses what the panels vary.
                assert early == late or (not early and "is not possible" in late), (end, value)


def _refusal(call, *arguments) -> str:
    try:
        call(*arguments)
    except ValueError as error:
        return str(error)
    return ""


def test_the_index_is_smaller_than_a_megabyte_with_the_options_of_all_schemes() -> None:
    text = index_of_source.text(index.load())
    assert len(text) < 1e6
    rope = next(row for row in json.loads(text)["schemes"] if row["name"] == "RoPE")
    assert rope["options"] == ["head_dim", "of", "base", "frequencies", "pairing"]
