"""Training in two processes: the losses of one process, failures in one of them, and the death of one."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import toy_ranks
from posenc.cli.torchrun import team_of
from posenc.workbench.runner import InProcess, run
from posenc.workbench.storage.store import Store
from posenc.workbench.training import checkpoint, distributed
from posenc.workbench.training.distributed import OtherProcessError, ProcessGroup, SyncPoint
from toy_ranks import spec

TOY = Path(toy_ranks.__file__)
PATIENCE = 200  # seconds until a test gives up on other processes; no result depends on it


def two_processes(folder: Path, *works: str) -> tuple[int, str]:
    """Run the toy under torchrun on this machine; return its exit code and its output."""
    own = {"PYTHONPATH": os.pathsep.join(sys.path), "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--local-addr", "127.0.0.1"]
    command += ["--nproc-per-node", "2", str(TOY), str(folder), *works]
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    process = subprocess.Popen(command, env=os.environ | own, **streams)
    try:
        said, _ = process.communicate(timeout=PATIENCE)
    finally:
        process.kill()  # its processes die with it
        process.wait()
    return process.returncode, said


@pytest.fixture(scope="module")
def together(tmp_path_factory: pytest.TempPathFactory) -> tuple[Store, str]:
    """Store and output of three runs in two processes; the second run fails in one of them."""
    folder = tmp_path_factory.mktemp("together")
    status, said = two_processes(folder, "fails", "train", "dropout")
    assert status == 1, said
    return Store(folder), said


@pytest.mark.bare
def test_two_processes_have_the_losses_of_one(together: tuple[Store, str], tmp_path: Path) -> None:
    alone, store = Store(tmp_path), together[0]
    run([spec("train")], alone, InProcess(), emit=lambda event: None)
    ours, theirs = store.read(spec("train").identity), alone.read(spec("train").identity)
    assert [(row["epoch"], row["metric"]) for row in ours.curves] == [(r["epoch"], r["metric"]) for r in theirs.curves]
    assert [row["value"] for row in ours.curves] == pytest.approx([row["value"] for row in theirs.curves], abs=1e-6)
    for name, weight in theirs.weights.items():
        torch.testing.assert_close(ours.weights[name], weight, rtol=1e-4, atol=1e-6)
    assert ours.timing["processes"] == 2
    assert "processes" not in theirs.timing


@pytest.mark.bare
def test_a_failure_in_one_process_is_reported_and_the_next_run_starts(together: tuple[Store, str]) -> None:
    store, said = together
    assert "2 done, 0 done before, 1 FAILED." in said
    assert said.count("It failed in process 1 of 2: RuntimeError: no picture 17") == 2  # at once, and at the end
    assert {each.variant for each in store.specs()} == {"train", "dropout"}


@pytest.mark.bare
@pytest.mark.full
def test_a_process_that_dies_ends_the_run_and_costs_a_few_steps(together: tuple[Store, str], tmp_path: Path) -> None:
    status, said = two_processes(tmp_path, "dies")
    assert status != 0
    reason = "another process of this run ended, or all processes were asked to end"
    assert f"Stopped ({reason}): 0 of 1 runs are finished" in said
    assert "Run the same command again to continue from the last checkpoints." in said
    assert 'toy_ranks.py", line' not in said  # no traceback but torchrun's own
    saved = checkpoint.load(tmp_path / "work" / spec("dies").identity / "checkpoint.pt")
    assert saved is not None
    assert saved["state"]["step"] == 8
    assert len(saved["random_others"]) == 1
    status, said = two_processes(tmp_path, "dies")
    assert status == 0, said
    calm, resumed = together[0].read(spec("dropout").identity), Store(tmp_path).read(spec("dies").identity)
    assert [row["value"] for row in resumed.curves] == [row["value"] for row in calm.curves]
    assert resumed.timing["attempts"] == 2


# -- without other processes --------------------------------------------------------------------------------------


def test_a_single_process_never_waits() -> None:
    team, values = ProcessGroup(), torch.ones(2)
    assert team.leads
    assert team.meet(SyncPoint.STEP, 1) == 1
    assert team.share("a") == "a"
    assert team.gather(3) == [3]
    assert team.end("it broke") == ["it broke"]
    team.add(values)
    team.spread(values)
    team.leave()
    assert values.tolist() == [1.0, 1.0]
    assert distributed.current().size == 1


def test_all_processes_notice_a_process_that_has_ended_its_work(monkeypatch: pytest.MonkeyPatch) -> None:
    def places(team: ProcessGroup, place: SyncPoint, word: int = 0) -> tuple[list[int], list[int]]:
        return [place, SyncPoint.END], [word, 7]

    monkeypatch.setattr(ProcessGroup, "_places", places)
    with pytest.raises(OtherProcessError, match="failed in another process"):
        ProcessGroup(0, 2).meet(SyncPoint.STEP)
    monkeypatch.setattr(ProcessGroup, "_places", lambda team, place, word=0: ([place, place], [5, 7]))
    assert ProcessGroup(1, 2).meet(SyncPoint.STEP, 7) == 5  # the leader's word


def test_a_lost_connection_ends_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(*arguments: object) -> None:
        raise RuntimeError("Connection closed by peer")

    monkeypatch.setattr(torch.distributed, "all_reduce", gone)
    before = signal.getsignal(signal.SIGTERM)
    try:
        with pytest.raises(distributed.LostProcess, match="another process of this run ended"):
            ProcessGroup(0, 2).add(torch.ones(1))
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGTERM, before)


def test_several_processes_without_their_numbers_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    for name in ("RANK", "LOCAL_RANK"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(ValueError, match=r"WORLD_SIZE=2 .* RANK LOCAL_RANK .* torchrun"), team_of("cpu"):
        pass
    monkeypatch.setenv("WORLD_SIZE", "1")
    with team_of("cpu") as team:
        assert team.size == 1


def test_more_processes_than_devices_are_refused() -> None:
    here = torch.cuda.device_count()
    with pytest.raises(ValueError, match=rf"a CUDA device of its own, and there are {here}\. Use torchrun"):
        distributed.join(here, here + 1, here, "cuda")
    with pytest.raises(ValueError, match=r"got 'cuda:1'\. Use --device cuda"):
        distributed.join(0, 2, 0, "cuda:1")
