"""Nodes that cannot execute runs are refused before anything is queued, each with one sentence."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from posenc.workbench.executors import node_check, slurm_nodes, slurm_queue

pytestmark = pytest.mark.bare


def test_other_versions_are_named() -> None:
    here = node_check.versions()
    assert node_check.other_versions(here, "n1") == ""
    sentence = node_check.other_versions(here | {"torch": "1.0"}, "n1")
    assert sentence.startswith(f"n1 and the command have torch 1.0 and {here['torch']}. Install equal versions")


def test_the_versions_of_a_node_are_known_without_torch(tmp_path: Path) -> None:
    (tmp_path / "token").touch()
    script = "import sys; from posenc.workbench.executors import node_check; node_check.main(sys.argv[1:]); "
    script += "print('torch' in sys.modules)"
    words = [sys.executable, "-c", script, str(tmp_path), "token", str(tmp_path), "/absent"]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    answer, imported = done.stdout.splitlines()
    found = json.loads(answer)
    assert (found["unreadable"], found["store"], imported) == (["/absent"], "", "False")
    assert found["versions"] == node_check.versions()
    assert [path.name for path in tmp_path.iterdir()] == ["token"]


def test_a_folder_that_a_node_cannot_see_or_write_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert node_check.store_trouble(tmp_path, "token") == "cannot see"
    (tmp_path / "token").touch()
    assert node_check.store_trouble(tmp_path, "token") == ""

    def read_only(path: Path, content: bytes) -> int:
        raise OSError(30, "Read-only file system", str(path))

    monkeypatch.setattr(Path, "write_bytes", read_only)
    assert node_check.store_trouble(tmp_path, "token") == "cannot write into (Read-only file system)"


def refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str = "", **answer: Any) -> str:
    """The error about two nodes, of which the second answers in another way than the first."""
    asked = list[Sequence[str]]()

    def ask(program: Sequence[str], flags: Sequence[str]) -> tuple[list[str], str]:
        asked.append(flags)
        right = {"node": "n1", "versions": node_check.versions(), "unreadable": [], "store": ""}
        return ["noise of a profile", json.dumps(right), json.dumps(right | {"node": "n2"} | answer)], said

    monkeypatch.setattr(slurm_queue, "ask_nodes", ask)
    with pytest.raises(ValueError) as error:
        slurm_nodes.refuse_unable_nodes(tmp_path, ["/data/images"], ["--time=60", "--partition=cpu", "--mem=4G"])
    assert asked == [["--partition=cpu"]]
    assert list(tmp_path.iterdir()) == []
    return str(error.value)


def test_each_trouble_of_a_node_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert refused(tmp_path, monkeypatch, store="cannot see") == (
        f"The SLURM node n2 cannot see {tmp_path}, where the jobs store their results. Choose a folder on a disk that "
        "all nodes share: --out FOLDER"
    )
    assert "cannot write into (Read-only" in refused(tmp_path, monkeypatch, store="cannot write into (Read-only)")
    assert refused(tmp_path, monkeypatch, unreadable=["/data/images"]).startswith(
        "The SLURM node n2 cannot read /data/images, which the runs read. Put the data at the same path"
    )
    other = node_check.versions() | {"torch": "1.0"}
    assert "n2 and the command have torch 1.0 and" in refused(tmp_path, monkeypatch, versions=other)
    said = f"srun: error: n2: task 0\nslurmstepd: error: execve(): {sys.executable}: No such file or directory"
    assert "with " + sys.executable + ": No such file or directory. Install" in refused(tmp_path, monkeypatch, said)
    said = "Traceback (most recent call last):\nModuleNotFoundError: No module named 'posenc'"
    assert "No module named 'posenc'. Install it at the same path" in refused(tmp_path, monkeypatch, said)


def test_free_nodes_are_named_and_busy_ones_are_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "srun"
    program.write_text(f'#!{sys.executable}\nimport os, sys\nat = sys.argv.index({sys.executable!r})\n'
                       'open(os.environ["SAID"], "w").write(" ".join(sys.argv[1:at]))\n'
                       "os.execv(sys.argv[at], sys.argv[at:])\n")  # fmt: skip
    program.chmod(0o755)
    store = tmp_path / "runs"
    store.mkdir()
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setenv("SLURMD_NODENAME", "n7")
    monkeypatch.setenv("SAID", str(tmp_path / "said"))
    sentence = slurm_nodes.refuse_unable_nodes(store, [], ["--partition=cpu"])
    assert sentence == "SLURM's free nodes can execute the runs: n7."
    flags = (tmp_path / "said").read_text()
    assert flags.startswith("--partition=cpu --nodes=1-16 ")
    assert "--immediate=10" in flags  # "--immediate 10" would execute a program of the name 10
    program.write_text(
        "#!/bin/sh\necho 'srun: error: Unable to allocate resources: Requested nodes are busy' >&2; exit 1"
    )
    assert slurm_nodes.refuse_unable_nodes(store, [], []) == slurm_nodes.UNASKED
