"""The table of forms and studies in docs/own-data.md: each command trains, and its page prints commands that work."""

from __future__ import annotations

import html
import re
import shlex
from pathlib import Path

import pytest

from posenc import cli
from posenc.workbench.data.readers import matching, readers
from posenc.workbench.studies.scene import turntable
from tiny_data import WRITERS

pytestmark = pytest.mark.bare
DOCUMENT = Path(__file__).parents[3] / "docs" / "own-data.md"
COMMANDS = re.findall(r"^\| [^|]* \| `posenc (run [^`]*)` \|$", DOCUMENT.read_text(), re.MULTILINE)
FIELDS = "--set parameters=6000 --panels fit"
OPTIONS = {
    "language": "--panels loss --schemes rope --set epochs=2 --set window=8 --set max_multiple=2 --set targets=16 "
    "--set dim=16 --set depth=1 --set hidden=16",
    "gridpe": "--schemes nope --set own_steps=2",
    "sc-pe": "--schemes plain --set own_steps=2",
    "points": "--schemes nope --set own_steps=2 --set points=8",
    "masked": "--schemes learned-0.1 --set epochs=2",
    "graphs": "--schemes none --set epochs=2",
    "series": "--schemes none --set epochs=2 --set context=6 --set horizon=2",
    "places": "--schemes none --set epochs=2 --panels scores",
    "image-fit": f"--schemes none {FIELDS} --set limit.steps=2",
    "shape-fit": f"--schemes none {FIELDS} --set steps=2 --set batch=64 --set resolution=20 --set pools.held=256",
    "scene": "--schemes none --set parameters=6000 --set steps=2 --set longest_side=12 --set rays=64 --set held_out=2",
}
"""Study to options that make its training a matter of seconds."""


def printed(capsys: pytest.CaptureFixture[str], *command: str) -> tuple[int, str]:
    with pytest.raises(SystemExit) as leaving:
        cli.main(list(command))
    captured = capsys.readouterr()
    return int(leaving.value.code or 0), captured.out + captured.err


def write_data(command: str) -> list[str]:
    """Write the files of a command into the folder "data"; return its words with their paths."""
    Path("data").mkdir()
    words = []
    for word in shlex.split(command):
        if (word in WRITERS and word not in ("scene",)) or (word == "scene" and words[-1] == "scene"):
            WRITERS[word](Path("data") / word)
            words.append(word if word == "list.csv" else f"data/{word}")
        else:
            words.append(word)
    return words


def test_the_table_has_every_form_and_every_study() -> None:
    assert {command.split()[1] for command in COMMANDS} == set(OPTIONS)
    assert len(COMMANDS) == len(set(COMMANDS))


def test_every_reader_is_in_the_table(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    found = set()
    for name, write in WRITERS.items():
        folder = Path(name.replace("/", "-") + "-of")
        folder.mkdir()
        write(folder / name)
        found |= {
            form
            for kind in ("text", "images", "clouds", "series", "places", "graphs")
            for form in matching(folder / name, kind)
        }
        if (folder / name).is_dir():
            inside = [each for each in (folder / name).rglob("*") if each.is_file()]
            found |= {form for each in inside for form in matching(each, "clouds")}
    assert found >= set(readers())


@pytest.mark.parametrize("command", COMMANDS)
def test_data_look_prints_the_command(command: str, tmp_path: Path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    words = write_data(command)
    code, looked = printed(capsys, "data", "look", *words[2:])
    assert code == 0, looked
    lines = [line for line in looked.splitlines() if line.startswith("  posenc run ")]
    commands = [shlex.split(line.partition(" --set window=")[0]) for line in lines]  # these texts are short
    assert ["posenc", *words] in commands or words[2:] == ["data/flat"], looked
    assert "no study takes it" not in looked.lower()


@pytest.mark.full
@pytest.mark.usefixtures("in_this_process", "small_surfaces")
@pytest.mark.parametrize("command", COMMANDS)
def test_the_command_trains_and_its_page_prints_commands_that_work(command, tmp_path, monkeypatch, capsys) -> None:
    """Before, commands on a page named the data without their folder, so that they failed where the run was started."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(turntable, "FRAMES", 2)
    words = write_data(command)
    options = shlex.split(OPTIONS[words[1]])
    code, out = printed(capsys, *words, *options, "--seeds", "0", "--jobs", "1", "--out", "my runs/store")
    assert code == 0, out
    (page,) = Path("my runs/store/pages").glob("*.html")
    text = html.unescape(re.sub(r"<[^>]+>", "", page.read_text().replace("</code>", "\n")))
    commands = set(re.findall(r"posenc run [^\n]*?(?=\. The store|\n|$)", f"{out}\n{text}"))
    own = {each for each in commands if each.split()[2] == words[1] and "data/" in each}
    assert own, text[-2000:]
    for each in own:
        code, planned = printed(capsys, *shlex.split(each)[1:], "--dry-run")
        assert code == 0, f"{each}\n{planned}"
