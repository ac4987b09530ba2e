"""A private Ray cluster of two CPUs: the same bytes, one failure told once, and a worker that dies."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import toy_work
from posenc.workbench.executors import node_check, ray_cluster
from posenc.workbench.executors.ray_executor import groups
from posenc.workbench.runner import InProcess, run
from posenc.workbench.storage.store import Store
from toy_work import assert_same, toys

pytest.importorskip("ray")
pytestmark = pytest.mark.bare

COMMAND = """
import os, socket, subprocess, sys, tempfile, threading
from pathlib import Path
from toy_work import toys
from posenc.workbench.executors.ray_executor import RayExecutor
from posenc.workbench.runner import run
from posenc.workbench.storage.store import Store

def listening():
    addresses = set()
    for name in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{name}").read_text().splitlines()[1:]:
            _, local, _, state, *rest = line.split()
            if state == "0A":
                addresses.add(local)
    return addresses

before, during = listening(), set()
def emit(event):
    if event.kind == "finished":
        during.update(listening())

root = Path(sys.argv[1])
specs = [*toys(2), *toys(1, "fail"), *toys(1, "die")]
if len(specs) == int(sys.argv[2]):  # a second cluster in one process has another token
    run(specs[:1], Store(root), RayExecutor(cpus=2), emit=emit)
report = run(specs[:int(sys.argv[2])], Store(root), RayExecutor(cpus=2), emit=emit)
print(len(report.done), len(report.failed), *[sentence for _, sentence in report.failed], sep="\\n")
loopback = ("0100007F:", "0000000000000000FFFF00000100007F:")
print("elsewhere", [each for each in during - before if not each.startswith(loopback)])
print("left", list(Path(tempfile.gettempdir()).glob("posenc-*/*")), "RAY_AUTH_MODE" in os.environ)
"""


def executed(root: Path, count: int, folder: Path) -> list[str]:
    """Lines of the command in a process of its own, as Ray leaves threads behind."""
    folder.mkdir()
    words = [sys.executable, "-c", COMMAND, str(root), str(count)]
    path = [str(Path(toy_work.__file__).parent), *sys.path]
    variables = {"PYTHONPATH": ":".join(path), "TMPDIR": str(folder), "PATH": "/usr/bin:/bin", "HOME": str(folder)}
    done = subprocess.run(words, capture_output=True, text=True, timeout=240, check=False, env=variables)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def check(tmp_path: Path, count: int) -> list[str]:
    reference = Store(tmp_path / "reference")
    run(toys(2), reference, InProcess(), emit=lambda event: None)
    lines = executed(tmp_path / "store", count, tmp_path / "t")
    store = Store(tmp_path / "store")
    assert_same(store, reference)
    assert "elsewhere []" in lines  # every port of the cluster is on 127.0.0.1
    assert "left [] False" in lines
    assert "posenc" not in store.read(toys(1)[0].identity).provenance["command"]
    return lines


def test_ray_gives_the_same_bytes_and_a_failing_run_says_why(tmp_path: Path) -> None:
    lines = check(tmp_path, 3)
    assert lines[:2] == ["2", "1"]
    assert lines[2].startswith("The toy fails on purpose; ask for `train` instead. (on 127.0.0.1-")
    (trace,) = (tmp_path / "store" / "work").glob("*/failure.txt")
    assert "in fail" in trace.read_text()


@pytest.mark.full
def test_a_worker_that_dies_is_replaced_but_not_for_ever(tmp_path: Path) -> None:
    lines = check(tmp_path, 4)
    assert lines[:2] == ["1", "2"]
    assert "A machine failed 4 times under it" in "\n".join(lines)


class SmallCluster:
    """A cluster whose largest node has 4 GiB and no GPU."""

    def nodes(self) -> list[dict[str, object]]:
        return [{"Alive": True, "Resources": {"CPU": 2.0, "memory": 4.0 * 2**30}}]


def test_a_run_for_which_no_node_is_large_enough_is_refused() -> None:
    ray_cluster.refuse_too_small(SmallCluster(), gpu=False, memory=2**30)
    with pytest.raises(ValueError, match=r"A run needs 8\.0 GiB of memory, and no node .* has more than 4\.0"):
        ray_cluster.refuse_too_small(SmallCluster(), gpu=False, memory=8 * 2**30)
    with pytest.raises(ValueError, match="No node of the Ray cluster has a GPU"):
        ray_cluster.refuse_too_small(SmallCluster(), gpu=True, memory=0)


def test_runs_on_the_cpu_are_tasks_of_their_own() -> None:
    assert [len(group) for group in groups(toys(3))] == [1, 1, 1]


class AskedCluster:
    """A cluster of one node that gives an answer, or none, to the question before anything is queued."""

    def __init__(self, *answers: tuple[dict[str, str], list[str]] | Exception) -> None:
        self.answers = list(answers)

    def nodes(self) -> list[dict[str, object]]:
        return [
            {"Alive": True, "NodeID": "ab" * 28, "NodeManagerAddress": "10.0.0.2", "Resources": {"CPU": 2.0}},
            {"Alive": False, "NodeID": "cd" * 28, "NodeManagerAddress": "10.0.0.3", "Resources": {"CPU": 2.0}},
        ]

    def remote(self, function: object) -> AskedCluster:
        return self

    def options(self, **options: object) -> SimpleNamespace:
        return SimpleNamespace(remote=lambda paths: "the question")

    def wait(self, questions: list[str], num_returns: int, timeout: float) -> tuple[list[str], list[str]]:
        return (questions, []) if self.answers else ([], questions)

    def get(self, question: str) -> tuple[dict[str, str], list[str]]:
        answer = self.answers.pop()
        if isinstance(answer, Exception):
            raise answer
        return answer


@pytest.mark.parametrize(
    ("answers", "sentence"),
    [
        (
            [(node_check.versions() | {"torch": "1.0"}, [])],
            r"10\.0\.0\.2 \(abababab\) and the command have torch 1\.0 and",
        ),
        ([(node_check.versions(), ["/data/images"])], r"10\.0\.0\.2 \(abababab\) cannot read /data/images, which"),
        ([ImportError("No module named 'msgspec'")], r"\(abababab\) cannot execute posenc: No module named 'msgspec'"),
        ([], r"The Ray node 10\.0\.0\.2 \(abababab\) does not answer"),
    ],
)
def test_a_node_of_ray_that_cannot_execute_the_runs_is_named(answers: list[Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        ray_cluster.refuse_unable_nodes(AskedCluster(*answers), ["/data/images"])
    able = AskedCluster((node_check.versions(), []))
    assert ray_cluster.refuse_unable_nodes(able, []) == ["10.0.0.2 (abababab)"]


class DyingCluster(AskedCluster):
    """A cluster of two nodes, the second of which dies before it answers."""

    def __init__(self, others: int = 1) -> None:
        self.asked, self.others = 0, others

    def nodes(self) -> list[dict[str, object]]:
        self.asked += 1
        dying = {"NodeID": "ef" * 28, "NodeManagerAddress": "10.0.0.4", "Resources": {"CPU": 2.0}}
        return [*super().nodes()[: self.others], dying | {"Alive": self.asked == 1}]

    def options(self, **options: Any) -> SimpleNamespace:
        return SimpleNamespace(remote=lambda paths: options["scheduling_strategy"].node_id)

    def wait(self, questions: list[str], num_returns: int, timeout: float) -> tuple[list[str], list[str]]:
        return questions, []

    def get(self, question: str) -> tuple[dict[str, str], list[str]]:
        if question.startswith("ef"):
            raise RuntimeError("The task is not schedulable: the node does not exist any more")
        return node_check.versions(), []


def test_a_node_that_dies_before_it_answers_is_left_out() -> None:
    assert ray_cluster.refuse_unable_nodes(DyingCluster(), []) == ["10.0.0.2 (abababab)"]
    with pytest.raises(ValueError, match="The Ray cluster has no node with a CPU"):
        ray_cluster.refuse_unable_nodes(DyingCluster(others=0), [])
