"""Files that a user names as output: what is never replaced, and what is with ``force``."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from posenc.cli import main
from posenc.workbench.files.output_files import refuse_output, write_output
from posenc.workbench.files.user_files import UserFileError
from posenc.workbench.storage.store import Store, StoreError

pytestmark = pytest.mark.bare


def test_a_new_file_is_written_whole_and_alone(tmp_path: Path) -> None:
    path = write_output(tmp_path / "deeper" / "a.csv", b"1")
    assert path.read_bytes() == b"1"
    assert [each.name for each in path.parent.iterdir()] == ["a.csv"]
    with pytest.raises(UserFileError, match=r"a\.csv exists and is left unchanged.* --force"):
        write_output(path, b"2")
    assert path.read_bytes() == b"1"
    write_output(path, b"3", force=True)
    assert path.read_bytes() == b"3"


@pytest.mark.parametrize("force", [False, True])
@pytest.mark.parametrize("kind", ["a link", "a device", "a named pipe", "a folder"])
def test_nothing_but_a_file_is_ever_replaced(tmp_path: Path, kind: str, force: bool) -> None:
    path = tmp_path / "a"
    if kind == "a link":
        (tmp_path / "mine").write_text("mine")
        path.symlink_to("mine")
    elif kind == "a named pipe":
        os.mkfifo(path)
    elif kind == "a folder":
        path.mkdir()
    path = Path("/dev/null") if kind == "a device" else path
    with pytest.raises(UserFileError, match=f"is {kind}, which is never replaced"):
        write_output(path, b"2", force=force)
    assert kind != "a link" or (tmp_path / "mine").read_text() == "mine"


@pytest.mark.parametrize("name", ["/dev/stdout", "/dev/stderr", "/dev/fd/1", "/proc/self/fd/1"])
def test_the_terminal_is_no_file(name: str) -> None:
    with pytest.raises(UserFileError, match="Leave --to out to print"):
        refuse_output(name, force=True)


@pytest.mark.parametrize(
    "words",
    [
        ["results", "--format", "csv", "--to"],
        ["new", "my_scheme", "--to"],
        ["data", "latin-squares", "--train", "6", "--iid", "0", "--ood", "3", "--to"],
        ["show", "rope", "--out"],
    ],
)
def test_every_command_leaves_a_file_of_the_user(tmp_path: Path, words: list[str], capsys, monkeypatch) -> None:
    path = tmp_path / ("mine.html" if words[0] == "show" else "mine.npz")
    path.write_text("mine")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as leaving:
        main([*words, str(path)])
    assert leaving.value.code == 2
    assert "exists and is left unchanged" in capsys.readouterr().err
    assert path.read_text() == "mine"


@pytest.mark.parametrize("stated", ["0", "-7", "1.9", "true", "99"])
def test_a_store_of_an_unknown_format_is_refused(tmp_path: Path, stated: str) -> None:
    (tmp_path / "format.json").write_text(f'{{"format": {stated}}}')
    with pytest.raises(StoreError, match=r"has format|damaged"):
        Store(tmp_path)
