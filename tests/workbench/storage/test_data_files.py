"""Files of data are compared with what was first there; a damaged one is moved away and written again."""

import os
import time
from pathlib import Path

import numpy as np
import pytest

from posenc.workbench import Store, run
from posenc.workbench.storage import data_files
from posenc.workbench.storage.data_files import DataFiles
from posenc.workbench.storage.result_checks import move_damaged_file


@pytest.fixture
def files(tmp_path: Path) -> DataFiles:
    """Two noted files, one of them in a folder."""
    (tmp_path / "data" / "recordings-1").mkdir(parents=True)
    np.save(tmp_path / "data" / "picture-1.npy", np.arange(9))
    np.save(tmp_path / "data" / "recordings-1" / "train.npy", np.arange(9))
    found = DataFiles(tmp_path)
    found.note()
    assert not found.notes.exists()  # Another command may still be writing them.
    for path in (tmp_path / "data").rglob("*.npy"):
        settled(path)
    found.note()
    return found


def settled(path: Path) -> None:
    """Give a file a time of modification that lies far enough back."""
    before = time.time_ns() - 2 * data_files.UNSETTLED_NS
    os.utime(path, ns=(before, before))


def changed(path: Path) -> None:
    """Change one byte, and keep the times as a tool may do that restores them."""
    content, state = bytearray(path.read_bytes()), path.stat()
    content[-1] ^= 1
    path.write_bytes(content)
    os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns))


def test_intact_and_copied_files_are_right(files: DataFiles) -> None:
    path = files.folder / "picture-1.npy"
    content = path.read_bytes()
    path.unlink()
    path.write_bytes(content)  # another inode and other times
    for every in (False, True):
        files.check(every)
        assert files.damaged == {}


@pytest.mark.parametrize("name", ["picture-1.npy", "recordings-1/train.npy"])
def test_a_changed_byte_is_named_until_the_file_is_away(files: DataFiles, name: str) -> None:
    changed(files.folder / name)
    files.check()
    assert list(files.damaged) == [files.folder / name]
    store = Store(files.folder.parent)
    store.verify()
    assert [path for path, _ in store.damaged_files()] == [files.folder / name]
    moved = move_damaged_file(store, files.folder / name)
    assert moved.parent.name == "damaged"
    assert moved.exists()
    assert not (files.folder / name).exists()
    assert not store.damaged_files()


@pytest.mark.full
def test_a_run_writes_its_damaged_data_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The second seed is trained on the pixels that the user's file has, not on those of the damaged copy."""
    from PIL import Image

    source = tmp_path / "own.png"
    Image.fromarray(np.arange(192, dtype=np.uint8).reshape(8, 8, 3)).save(source)
    asked = {"schemes": ["none"], "out": tmp_path / "runs", "changes": {"steps": 2}, "jobs": 1}
    run("image-fit", source, seeds=[0], **asked)
    for path in (tmp_path / "runs" / "data").glob("*.npy"):
        settled(path)
    Store(tmp_path / "runs").data_files.note()
    (stored,) = (tmp_path / "runs" / "data").glob("picture-*.npy")
    intact = stored.read_bytes()
    changed(stored)
    capsys.readouterr()
    run("image-fit", source, seeds=[1], **asked)
    assert f"data/{stored.name}: it has another content than was written. It is moved to" in capsys.readouterr().out
    assert stored.read_bytes() == intact
