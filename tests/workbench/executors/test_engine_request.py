"""The choice of an engine: what is refused, and that nothing is queued or made before."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from posenc.cli import main
from posenc.workbench.executors import ray_cluster, slurm_queue
from posenc.workbench.executors.engines import EngineRequest, engine_request
from posenc.workbench.executors.stop_requests import StopRequests

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
    for time, minutes in {"90": 90, "90:30": 90, "1-2": 1560, "1-2:03": 1563, "0-0:03:00": 3}.items():
        slurm = request("slurm", options=(f"time={time}",))
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
