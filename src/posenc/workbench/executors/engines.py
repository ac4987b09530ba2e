"""Choice of an engine by text, without torch: ``local``, ``ray``, ``ray=ADDRESS``, ``slurm``, ``slurm=PARTITION``."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol, runtime_checkable

from posenc.lookup.name_suggestion import unknown

ENGINES = ("local", "ray", "slurm")


class EngineRequest(NamedTuple):
    """Engine that executes runs, with its options.

    Attributes:
        engine: "ray" or "slurm".
        target: Address of the Ray cluster, or SLURM partition; "" for the default.
        runs_per_job: Runs of one SLURM job; None to divide them into at most 100 jobs.
        minutes: Time limit of a SLURM job.
        options: Further options of sbatch, by name.
    """

    engine: str
    target: str = ""
    runs_per_job: int | None = None
    minutes: int = 60
    options: Mapping[str, str] = {}


@runtime_checkable
class EngineExecutor(Protocol):
    """Executor on an engine, which is checked before anything is queued.

    Attributes:
        ends_at: Moment of ``time.monotonic`` at which an execution cancels its tasks and jobs; None for never.
    """

    ends_at: float | None

    def prepare(self, specs: Sequence[Any], store_root: Path) -> str:
        """Check that the engine can execute runs.

        Args:
            specs: The runs.
            store_root: Folder of the store.

        Returns:
            A sentence on what was checked; "" if nothing was.

        Raises:
            ValueError: It cannot.
        """
        ...

    def run(self, specs: Sequence[Any], store_root: Path, emit: Callable[[Any], None]) -> None:
        """Execute the runs, as ``posenc.workbench.Executor`` describes.

        Args:
            specs: The runs, each once.
            store_root: Folder of the store.
            emit: Called with every progress event.
        """
        ...


def engine_request(on: str, *, runs_per_job: int | None, options: Sequence[str], device: str) -> EngineRequest | None:
    """Read the options of the command line that choose an engine.

    Args:
        on: "local", "ray", "ray=ADDRESS", "slurm" or "slurm=PARTITION".
        runs_per_job: Runs of one SLURM job; None for the default.
        options: Options of sbatch, each as NAME=VALUE; "time" is the time limit of a job.
        device: PyTorch device of the runs.

    Returns:
        The engine; None for "local".

    Raises:
        ValueError: The engine is unknown, or an option is not for it.
    """
    engine, equals, target = on.partition("=")
    if engine not in ENGINES:
        raise ValueError(f"{unknown('engine', engine, ENGINES)} --on takes {', '.join(ENGINES)}.")
    if equals and (engine == "local" or not target):
        raise ValueError(f"--on {on} is incomplete. Write --on local, --on ray=HOST:PORT or --on slurm=PARTITION.")
    given = {"--runs-per-job": runs_per_job, "--slurm-OPTION": options or None}
    for name, value in given.items():
        if value is not None and engine != "slurm":
            raise ValueError(f"{name} is for SLURM alone. Write --on slurm, or leave {name} out.")
    if runs_per_job is not None and runs_per_job < 1:
        raise ValueError(f"--runs-per-job is a number of at least 1; got {runs_per_job}.")
    if engine == "local":
        return None
    if ":" in device:
        raise ValueError(f"--on {engine} chooses the GPU itself; got --device {device}. Write --device cuda.")
    named = dict(map(_option, options))
    return EngineRequest(engine, target, runs_per_job, _minutes(named.pop("time", "60")), named)


def engine_executor(
    request: EngineRequest, jobs: int | None = None, memory: Callable[[Any], float] | None = None
) -> EngineExecutor:
    """Make the executor of an engine.

    Args:
        request: The engine.
        jobs: Largest number of simultaneous runs of a private Ray cluster, or of simultaneous jobs of SLURM; None for
            one run per core, and as many jobs as SLURM allows.
        memory: Bytes that a run needs; None to declare none.

    Returns:
        The executor.

    Raises:
        ValueError: The engine is not installed.
    """
    if request.engine == "ray":
        from posenc.workbench.executors.ray_cluster import refuse_ray_missing
        from posenc.workbench.executors.ray_executor import RayExecutor

        refuse_ray_missing()
        return RayExecutor(request.target, jobs, memory)
    from posenc.workbench.executors.slurm_executor import SlurmExecutor

    limits = {"minutes": request.minutes, "runs_per_job": request.runs_per_job, "parallel_jobs": jobs}
    return SlurmExecutor(request.target, **limits, memory=memory, options=request.options)


def _minutes(text: str) -> int:
    """Minutes of a time of sbatch: M, M:S, H:M:S, D-H, D-H:M or D-H:M:S."""
    found = re.fullmatch(r"(?:(\d{1,3})-)?(\d{1,6})(?::(\d{1,2}))?(?::(\d{1,2}))?", text)
    minutes = 0.0
    if found:
        days, first, second, third = (int(part or 0) for part in found.groups())
        hours = found[1] is not None or found[4] is not None
        minutes = days * 1440 + (first * 60 + second + third / 60 if hours else first + second / 60)
    if minutes < 1:
        raise ValueError(f"--slurm-time is a time of sbatch, of at least a minute; got {text!r}. Write 90 or 4:00:00.")
    return int(minutes)


def _option(text: str) -> tuple[str, str]:
    """Name and value of an option of sbatch, such as ("account", "vision")."""
    name, equals, value = text.partition("=")
    if not equals or not re.fullmatch(r"[a-z][a-z-]*", name) or re.search(r"[\n\r\0]", value):
        raise ValueError(f"--slurm-{text} is not an option of sbatch with a value. Write --slurm-account=NAME.")
    return name, value
