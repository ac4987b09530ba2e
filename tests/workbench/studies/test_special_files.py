"""A named pipe or a device in place of a user's file is refused by every study at once: reading it waits forever."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from hostile_files import SPECIAL
from posenc import cli

FILES = {
    "masked": ("a.npz", "a/rec.csv"),
    "nmar": ("a.npz",),
    "permuted": ("a.npz",),
    "places": ("a.csv", "a.parquet"),
    "image-fit": ("a.png", "a.tif"),
    "graphs": ("a.csv", "a/a_A.txt"),
    "series": ("a.csv", "a.parquet"),
    "points": ("a/x/1.ply", "a/x/1.npy", "a/x/1.off"),
    "language": ("a.txt", "a.txt.gz", "a.jsonl", "a.npy", "a/1.txt"),
    "gridpe": ("a.parquet", "a.npz", "a/x/1.png"),
    "sc-pe": ("a.csv",),
    "latin-squares": ("a.csv",),
    "scene": ("a/transforms.json",),
    "shape-fit": ("a.ply", "a.obj", "a.npz"),
    "globe": ("a.tif", "a.csv"),
}
"""Study to files of the forms that it may be given; the first part of a name is the path in the command."""
KINDS = ("a named pipe", "a link to a named pipe", "a device")


@pytest.mark.timeout(60)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("study", "name"), [(study, name) for study, names in FILES.items() for name in names])
def test_a_study_refuses_it_with_one_sentence(
    study: str,
    name: str,
    kind: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("POSENC_DATA", raising=False)
    file = tmp_path / name
    file.parent.mkdir(parents=True, exist_ok=True)
    SPECIAL[kind](file)
    with pytest.raises(SystemExit) as leaving:
        cli.main(["run", study, Path(name).parts[0], "--dry-run", "--out", "runs"])
    printed = capsys.readouterr()
    assert leaving.value.code == 2, printed
    assert printed.err.startswith("posenc: ")
    assert printed.err.count("\n") == 1
    mode = os.lstat(file).st_mode
    assert stat.S_ISFIFO(mode) or stat.S_ISLNK(mode), "what was there is there"
