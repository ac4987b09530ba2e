"""The choice of an engine: what is refused, and that nothing is queued or made before."""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from posenc.cli import main
from posenc.workbench.executors import ray_cluster, slurm_queue
from posenc.workbench.executors.engines import EngineRequest, engine_request
from posenc.workbench.executors.ray_executor import RayExecutor
from posenc.workbench.executors.stop_requests import StopRequests
from posenc.workbench.storage.store import Store
from toy_work import toys

pytestmark = pytest.mark.bare


def request(on: str, device: str = "cpu", **given: Any) -> EngineRequest | None:
    options: dict[str, Any] = {"runs_per_job": None, "options": ()} | given
    return engine_request(on, device=device, **options)


def test_an_engine_with_its_place_and_options() -> None:
    assert request("local") is None
    assert request("ray") == EngineRequest("ray")
    assert request("ray=head:6379", "cuda") == EngineRequest("ray", "head:6379")
    given = {"runs_per_job": 8, "options": ("account=vision", "time=4:30:00", "qos=low")}
    expected = EngineRequest("slurm", "cpu", 8, 270, {"account": "vision", "qos": "low"})
    assert request("slurm=cpu", **given) == expected
    for limit, minutes in {"90": 90, "90:30": 90, "1-2": 1560, "1-2:03": 1563, "0-0:03:00": 3}.items():
        slurm = request("slurm", options=(f"time={limit}",))
        assert slurm is not None
        assert (slurm.minutes, slurm.options) == (minutes, {})


@pytest.mark.parametrize(
    ("on", "given", "sentence"),
    [
        ("slrum", {}, "there is no engine 'slrum'. Did you mean slurm?"),
        ("ray=", {}, "--on ray= is incomplete"),
        ("local=4", {}, "--on local=4 is incomplete"),
        ("ray", {"runs_per_job": 3}, "--runs-per-job is for SLURM alone"),
        ("local", {"options": ("qos=low",)}, "--slurm-OPTION is for SLURM alone"),
        ("slurm", {"runs_per_job": 0}, "--runs-per-job is a number of at least 1; got 0"),
        ("slurm", {"options": ("time=soon",)}, "--slurm-time is a time of sbatch, of at least a minute; got 'soon'"),
        ("slurm", {"options": ("qos=a\n#SBATCH",)}, "is not an option of sbatch with a value"),
        ("ray", {"device": "cuda:1"}, "--on ray chooses the GPU itself; got --device cuda:1"),
    ],
)
def test_what_is_refused(on: str, given: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError) as error:
        request(on, **given)
    assert sentence in str(error.value)


def command(*words: str, out: Path) -> None:
    main(["run", "latin-squares", "--seeds", "0", "--schemes", "rope", "--out", str(out), *words])


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--on", "ray=127.0.0.1:9"), "There is no Ray cluster at 127.0.0.1:9 (Connection refused)."),
        (("--on", "ray=127.0.0.1:9", "--dry-run"), "There is no Ray cluster at 127.0.0.1:9 (Connection refused)."),
        (("--on", "ray=nowhere"), "'nowhere' is not the address of a Ray cluster. Write --on ray=HOST:PORT"),
        (("--slurm-qos", "low"), "--slurm-qos needs a value: --slurm-qos=VALUE."),
    ],
)
def test_the_command_ends_with_a_sentence_and_makes_no_store(
    words: tuple[str, ...], sentence: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        command(*words, out=tmp_path / "runs")
    assert ended.value.code == 2
    assert sentence in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_the_address_of_the_environment_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("ray")
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:9")
    with pytest.raises(ValueError, match=r"There is no Ray cluster at 127\.0\.0\.1:9"):
        RayExecutor().prepare(toys(1), Store(tmp_path).root)


def test_torchrun_and_an_engine_exclude_each_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    team = SimpleNamespace(size=2, leads=True)
    monkeypatch.setattr("posenc.cli.workbench.team_of", lambda device: nullcontext(team))
    with pytest.raises(SystemExit) as ended:
        command("--on", "ray", out=tmp_path / "runs")
    assert ended.value.code == 2
    assert "--on ray and torchrun exclude each other. Leave one out." in capsys.readouterr().err


@contextmanager
def program(answer: bytes) -> Iterator[str]:
    """Address of a program that is no Ray cluster: it gives an answer to whatever comes, or none."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            opened, _ = server.accept()
            with opened:
                opened.recv(64)
                opened.sendall(answer)
                time.sleep(0.0 if answer else 0.5)

        thread = threading.Thread(target=serve)
        thread.start()
        yield f"127.0.0.1:{server.getsockname()[1]}"
        thread.join()


@pytest.mark.parametrize("answer", [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"-ERR unknown command\r\n", b""])
def test_a_program_that_is_no_ray_cluster_is_refused(answer: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray_cluster, "CONNECT_SECONDS", 0.2)
    with program(answer) as address, pytest.raises(ValueError, match=f"The program at {address} is not a Ray cluster"):
        ray_cluster.refuse_unreachable(address)


def test_a_server_of_http2_is_left_to_ray() -> None:
    with program(b"\0\0\x06\x04\0\0\0\0\0\0\x05\0\0\x40\0") as address:
        ray_cluster.refuse_unreachable(address)


class Nodes:
    """A cluster of two nodes."""

    def nodes(self) -> list[dict[str, Any]]:
        return [{"NodeID": letter * 56, "Alive": True, "Resources": {"CPU": 1.0}} for letter in "ab"]


def test_a_run_is_started_again_on_a_node_where_it_has_not_failed() -> None:
    pytest.importorskip("ray")
    from posenc.workbench.executors.ray_cluster import other_node

    assert other_node(Nodes(), set(), 0) is None
    place = other_node(Nodes(), {"127.0.0.3-aaaaaaaa"}, 5)
    assert (place.node_id, place.soft) == ("b" * 56, True)
    assert other_node(Nodes(), {"127.0.0.3-aaaaaaaa", "127.0.0.2-bbbbbbbb"}, 0) is None


def test_an_engine_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray_cluster.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ValueError, match=r"needs Ray, which is not installed: pip install 'posenc\[ray\]'"):
        ray_cluster.refuse_ray_missing()
    with pytest.raises(ValueError, match=r"needs submitit, which is not installed: pip install 'posenc\[slurm\]'"):
        slurm_queue.refuse_slurm_missing()
    monkeypatch.setattr(slurm_queue.importlib.util, "find_spec", lambda name: name)
    monkeypatch.setattr(slurm_queue.shutil, "which", lambda name: None)
    with pytest.raises(ValueError, match="needs the commands of SLURM, and sbatch is not there"):
        slurm_queue.refuse_slurm_missing()


def test_ctrl_c_once_stops_and_twice_cancels(capsys: pytest.CaptureFixture[str]) -> None:
    before = signal.getsignal(signal.SIGINT)
    with StopRequests() as stop:
        assert not stop.stopping
        os.kill(os.getpid(), signal.SIGINT)
        assert stop.stopping
        assert not stop.cancelled
        os.kill(os.getpid(), signal.SIGINT)
        assert stop.cancelled
    assert signal.getsignal(signal.SIGINT) is before
    assert capsys.readouterr().err.count("Press Ctrl-C again to cancel") == 1
