"""Files are replaced whole or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from posenc.workbench.files.atomic_files import replaced_file, write_whole

pytestmark = pytest.mark.bare


def test_a_file_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "state.bin"
    path.write_bytes(b"old")
    write_whole(path, b"new")
    assert path.read_bytes() == b"new"
    assert list(tmp_path.iterdir()) == [path]


def test_an_error_leaves_the_old_content_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "state.npz"
    path.write_bytes(b"old")
    with pytest.raises(RuntimeError, match="in mid-write"):
        _write_a_part(path)
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_missing_folder_is_not_made(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        write_whole(tmp_path / "removed" / "state.bin", b"new")
    assert not (tmp_path / "removed").exists()


def _write_a_part(path: Path) -> None:
    with replaced_file(path) as partial:
        assert partial.suffix == ".npz"
        partial.write_bytes(b"ne")
        raise RuntimeError("in mid-write")
