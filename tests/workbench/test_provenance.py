"""Provenance: command, commit, versions and machine of a result."""

import json
import subprocess
from pathlib import Path

import torch

from posenc.workbench import provenance


def test_provenance_names_commit_versions_and_machine(tmp_path: Path) -> None:
    found = provenance.gather()
    assert set(found) == {"command", "commit", "dirty", "versions", "machine", "device", "date"}
    assert found["versions"]["torch"] == torch.__version__
    assert found["machine"]["cores"] >= 1
    assert json.loads(json.dumps(found)) == found


def test_an_untracked_package_does_not_borrow_a_commit(tmp_path: Path) -> None:
    git = ["git", "-C", str(tmp_path), "-c", "user.name=x", "-c", "user.email=x@example.org"]
    subprocess.run([*git, "init", "-q"], check=True)
    inside, tracked = tmp_path / "site-packages", tmp_path / "src"
    for folder in (inside, tracked):
        folder.mkdir()
        (folder / "module.py").write_text("")
    assert provenance.git_state(tracked) == (None, None)
    subprocess.run([*git, "add", "src"], check=True)
    subprocess.run([*git, "commit", "-qm", "x"], check=True)
    commit, dirty = provenance.git_state(tracked)
    assert commit is not None
    assert len(commit) == 40
    assert dirty is False
    assert provenance.git_state(inside) == (None, None)
    (tracked / "module.py").write_text("changed")
    assert provenance.git_state(tracked) == (commit, True)
