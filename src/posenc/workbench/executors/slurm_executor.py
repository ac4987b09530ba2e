"""Executor on a SLURM cluster by submitit: arrays of jobs, each with some runs. All nodes see the store.

    STORE/slurm/jobs/JOB.json        runs of a job that was submitted, and its file of events
    STORE/slurm/events/NAME.jsonl    events of the runs of a job, which it appends
    STORE/slurm/log/                 scripts, pickled work and output of the jobs

A command that was closed finds its jobs in these files, asks the queue which of them are still there, and submits only
the runs that no job has. A job that ends without results, because its node failed, is submitted again at most three
times.
"""

from __future__ import annotations

import subprocess
import time
import uuid
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

import msgspec

from posenc.workbench.executors import procedures_by_value, slurm_nodes, slurm_queue
from posenc.workbench.executors.processes import codes_of
from posenc.workbench.executors.run_files import RunFiles
from posenc.workbench.executors.slurm_job import JobLine, RunsOfJob
from posenc.workbench.executors.stop_requests import StopRequests, TimeIsOver
from posenc.workbench.files.atomic_files import write_whole
from posenc.workbench.progress import Event
from posenc.workbench.runs import RunSpec
from posenc.workbench.storage.store import Store
from posenc.workbench.worker import Emit

RETRIES = 3
"""Number of times that a run is submitted again because its job ended without a result."""
MOST_JOBS = 100
"""Number of jobs into which runs are divided by default."""
POLL_SECONDS, QUEUE_SECONDS = 0.5, 5.0
"""Time between two looks at the events, and between two questions to SLURM."""
CLOSE_SECONDS = 15.0
"""Time in which a job whose runs have ended must leave the queue."""
LONGEST_WARNING = 90
"""Largest number of seconds before the time limit at which a job is told to continue in a new one."""
TIMEOUTS = 1000
"""Number of times that a job may reach its time limit."""
MIB = 1 << 20


class SubmittedJob(msgspec.Struct):
    """Job that was submitted.

    Attributes:
        job: Its identifier.
        keys: Identities of its runs.
        events: Name of its file of events.
    """

    job: str
    keys: list[str]
    events: str


class SlurmExecutor:
    """Executor that executes runs as jobs of SLURM.

    Args:
        partition: The partition; "" for the default one.
        minutes: Time limit of a job. A run that needs longer continues from its checkpoint in a new job.
        runs_per_job: Runs of one job, one after the other; None to divide the runs into at most 100 jobs.
        parallel_jobs: Largest number of jobs at the same time; None for as many as SLURM allows.
        memory: Bytes that a run needs, which its job declares; None to declare none.
        options: Further options of sbatch, such as ``{"account": "vision"}``.
        cluster: "slurm"; "local" for processes of this machine, or "debug" for this process, to try it without SLURM.

    Raises:
        ValueError: submitit or SLURM is not installed.

    Example:
        >>> from posenc.workbench.executors.slurm_executor import SlurmExecutor
        >>> str(SlurmExecutor("cpu", minutes=240, cluster="debug"))
        'jobs of submitit (debug), up to 240 min each'
    """

    def __init__(
        self,
        partition: str = "",
        minutes: int = 60,
        runs_per_job: int | None = None,
        parallel_jobs: int | None = None,
        memory: Callable[[RunSpec], float] | None = None,
        options: Mapping[str, str] | None = None,
        cluster: Literal["slurm", "local", "debug"] = "slurm",
    ) -> None:
        if cluster == "slurm":
            slurm_queue.refuse_slurm_missing()
        self.partition, self.minutes, self.runs_per_job, self.parallel_jobs = (
            partition,
            minutes,
            runs_per_job,
            parallel_jobs,
        )
        self.memory, self.options, self.cluster = memory, dict(options or {}), cluster
        self.checked = False
        self.ends_at: float | None = None

    def __str__(self) -> str:
        place = f"jobs of submitit ({self.cluster})"
        if self.cluster == "slurm":
            place = f"SLURM, partition {self.partition}" if self.partition else "SLURM"
        return f"{place}, up to {self.minutes} min each"

    def prepare(self, specs: Sequence[RunSpec], store_root: Path) -> str:
        """Check before anything is queued that SLURM takes the jobs and that its free nodes can execute the runs.

        Args:
            specs: The runs.
            store_root: Folder of the store, or a folder beside it.

        Returns:
            A sentence on what was checked; "" if nothing was.

        Raises:
            ValueError: SLURM does not answer, or refuses the partition or an option; or a node has other versions,
                cannot read the data, or cannot write the folder.
        """
        if self.cluster != "slurm":
            return ""
        self.checked = True
        slurm_queue.refuse_partition(self.partition)
        named = {"time": str(self.minutes), **({"partition": self.partition} if self.partition else {})}
        flags = [f"--{name}={value}" for name, value in (named | self.options).items()]
        slurm_queue.refuse_options(flags)
        return slurm_nodes.refuse_unable_nodes(store_root, RunFiles(store_root).outside(specs), flags) if specs else ""

    def run(self, specs: Sequence[RunSpec], store_root: Path, emit: Emit) -> None:
        """Execute the runs. Jobs of an earlier command on the same store are waited for, not submitted again.

        Args:
            specs: The runs, each once.
            store_root: Folder of the store, which every node sees under the same path.
            emit: Called with every progress event.

        Raises:
            ValueError: SLURM refuses the jobs, or a node cannot execute them.
        """
        if not self.checked:
            self.prepare(specs, store_root)
        SlurmRuns(self, store_root.absolute(), emit).run(specs)

    def submit(self, work: Sequence[RunsOfJob], folder: Path) -> list[Any]:
        """Submit jobs as one array.

        Args:
            work: The work of each job.
            folder: Folder of scripts, pickled work and output.

        Returns:
            The jobs of submitit.

        Raises:
            ValueError: SLURM refuses them.
        """
        import submitit
        from submitit.core.utils import FailedJobError

        options: dict[str, Any] = {"timeout_min": self.minutes}
        if self.cluster == "slurm":
            options |= self._slurm_options(work)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # submitit warns of values that it converts
            executor = submitit.AutoExecutor(folder, cluster=self.cluster, slurm_max_num_timeout=TIMEOUTS)
            executor.update_parameters(**options)
            try:
                with executor.batch():
                    jobs = [executor.submit(each) for each in work]
            except (subprocess.SubprocessError, FailedJobError) as error:
                text = " ".join(str(error).split())[-300:]
                raise ValueError(f"SLURM refuses the jobs: {text}") from None
        return jobs

    def _slurm_options(self, work: Sequence[RunsOfJob]) -> dict[str, Any]:
        specs = [spec for each in work for spec in each.specs]
        delay = min(LONGEST_WARNING, self.minutes * 60 // 4)
        options: dict[str, Any] = {"cpus_per_task": 1, "slurm_signal_delay_s": delay, "name": "posenc"}
        extra: dict[str, Any] = {"requeue": True, **self.options}
        if self.partition:
            options["slurm_partition"] = self.partition
        if self.parallel_jobs:
            options["slurm_array_parallelism"] = self.parallel_jobs
        if specs[0].device != "cpu":
            options["gpus_per_node"] = 1
        if self.memory and not any(name.startswith("mem") for name in extra):
            extra["mem"] = f"{int(max(map(self.memory, specs)) / MIB) + 1}M"
        return options | {"slurm_additional_parameters": extra}


class SlurmRuns:
    """Runs of one execution: submits jobs, and follows their events until every run has ended.

    Args:
        executor: The executor.
        store_root: Folder of the store.
        emit: Called with every progress event.
    """

    def __init__(self, executor: SlurmExecutor, store_root: Path, emit: Emit) -> None:
        self.executor, self.store, self.emit = executor, Store(store_root), emit
        self.folder = store_root / "slurm"
        self.waiting: dict[str, RunSpec] = {}
        self.jobs: dict[str, SubmittedJob] = {}
        self.handles: dict[str, Any] = {}
        self.read: dict[str, int] = {}
        self.failures: dict[str, int] = {}
        self.ended: set[str] = set()

    def run(self, specs: Sequence[RunSpec]) -> None:
        """Execute the runs.

        Args:
            specs: The runs, each once.

        Raises:
            ValueError: SLURM refuses the jobs, or a node cannot execute them.
            KeyboardInterrupt: Ctrl-C was pressed.
            TimeIsOver: It is later than the executor's ``ends_at``.
        """
        self.waiting = {spec.identity: spec for spec in specs}
        self.codes, self.procedures = codes_of(specs), procedures_by_value.procedures_of(specs)
        self.paths = RunFiles(self.store.root).outside(specs)
        for folder in ("jobs", "events", "log"):
            (self.folder / folder).mkdir(parents=True, exist_ok=True)
        self._adopt()
        taken = {key for job in self.jobs.values() for key in job.keys}
        with StopRequests(self.executor.ends_at) as stop:
            self._submit([spec for spec in specs if spec.identity not in taken])
            asked, stopped = time.monotonic(), False
            while self.waiting and self.jobs and not stop.cancelled:
                time.sleep(POLL_SECONDS)
                if stop.stopping and not stopped:
                    stopped = True
                    self._cancel(pending=True)
                try:
                    self._follow()
                except TimeIsOver:
                    self._cancel(pending=False)
                    raise
                if time.monotonic() - asked >= (QUEUE_SECONDS if self.executor.cluster == "slurm" else 0.0):
                    self._ask_queue(resubmit=not stopped)
                    asked = time.monotonic()
            if stop.cancelled:
                self._cancel(pending=False)
        self._close()
        stop.raise_if_stopped()

    def _adopt(self) -> None:
        """Find the jobs of earlier commands that are still in the queue; forget the others."""
        known = {}
        for path in (self.folder / "jobs").glob("*.json"):
            with suppress(msgspec.DecodeError, OSError):
                job = msgspec.json.decode(path.read_bytes(), type=SubmittedJob)
                known[job.job] = job
        present = slurm_queue.queued(known) if self.executor.cluster == "slurm" and known else set()
        for key, job in known.items():
            if present is None or key in present:
                self.jobs[key] = job
            else:
                self._forget(job)

    def _submit(self, specs: Sequence[RunSpec]) -> None:
        """Submit jobs for runs, in arrays that SLURM allows."""
        size = self.executor.runs_per_job or -(-len(specs) // MOST_JOBS)
        parts = [specs[start : start + size] for start in range(0, len(specs), max(1, size))]
        longest = slurm_queue.longest_array() if self.executor.cluster == "slurm" and len(parts) > 1 else 1000
        for start in range(0, len(parts), longest):
            work, root = list[RunsOfJob](), self.store.root
            for part in parts[start : start + longest]:
                events = self.folder / "events" / f"{uuid.uuid4().hex}.jsonl"
                work.append(RunsOfJob(part, root, events, self.codes, self.procedures, self.paths))
            for each, handle in zip(work, self.executor.submit(work, self.folder / "log"), strict=True):
                job = SubmittedJob(str(handle.job_id), [spec.identity for spec in each.specs], each.events.name)
                self.jobs[job.job], self.handles[job.job] = job, handle
                write_whole(self.folder / "jobs" / f"{job.job}.json", msgspec.json.encode(job))

    def _follow(self) -> None:
        """Read new events of every job."""
        for job in list(self.jobs.values()):
            self._read_events(job)

    def _read_events(self, job: SubmittedJob) -> None:
        path = self.folder / "events" / job.events
        try:
            with path.open("rb") as file:
                file.seek(self.read.get(job.job, 0))
                content = file.read()
        except FileNotFoundError:
            return
        whole = content[: content.rfind(b"\n") + 1]
        self.read[job.job] = self.read.get(job.job, 0) + len(whole)
        for line in whole.splitlines():
            with suppress(msgspec.DecodeError):  # A node that failed may have written half a line.
                self._take(job, msgspec.json.decode(line, type=JobLine))

    def _take(self, job: SubmittedJob, line: JobLine) -> None:
        if line.ended:
            self.ended.add(job.job)
        if line.refused:
            self._cancel(pending=False)
            raise ValueError(line.refused)
        if line.event is None or line.event.key not in self.waiting:
            return
        if line.event.kind in ("finished", "skipped", "failed"):
            del self.waiting[line.event.key]
        self.emit(line.event)

    def _ask_queue(self, resubmit: bool) -> None:
        """Forget the jobs that have left the queue; submit the runs of those that ended without a result again."""
        left: list[RunSpec] = []
        present = self._present()
        for key, job in list(self.jobs.items()):
            if present is None or key in present:
                continue
            self._read_events(job)
            left += self._without_result(job)
            self._forget(job)
            del self.jobs[key]
        if left and resubmit:
            self._submit(left)

    def _present(self) -> set[str] | None:
        if self.executor.cluster == "slurm":
            return slurm_queue.queued(self.jobs)
        return {key for key, handle in self.handles.items() if key in self.jobs and not handle.done()}

    def _without_result(self, job: SubmittedJob) -> list[RunSpec]:
        """Runs of a job that has ended without their results; those that are not to be submitted again fail here."""
        specs = [self.waiting[key] for key in job.keys if key in self.waiting]
        again, cancelled = list[RunSpec](), None
        for spec in specs:
            key = spec.identity
            if self.store.finished(key):
                del self.waiting[key]
                self.emit(Event(key=key, kind="finished", metrics=self.store.read(key).metrics))
                continue
            if cancelled is None:
                cancelled = self.executor.cluster == "slurm" and slurm_queue.was_cancelled(job.job)
            self.failures[key] = self.failures.get(key, 0) + 1
            if not cancelled and self.failures[key] <= RETRIES:
                again.append(spec)
                continue
            del self.waiting[key]
            self.emit(Event(key=key, kind="failed", message=self._why(job, cancelled)))
        return again

    def _why(self, job: SubmittedJob, cancelled: bool) -> str:
        if cancelled:
            return f"Its job {job.job} was cancelled. Run the same command again: it continues from the checkpoint."
        if not (self.folder / "events" / job.events).exists():
            return (
                f"Its job {job.job} wrote nothing into {self.store.root}: its node cannot see or write this folder. "
                f"Choose a folder that all nodes share with --out. The output of the job is in {self.folder / 'log'}."
            )
        return (
            f"Its job {job.job} ended {RETRIES + 1} times without a result; the output is in {self.folder / 'log'}. "
            "Run the same command again: it continues from the checkpoint."
        )

    def _close(self) -> None:
        """Wait until the jobs that have executed all their runs leave the queue; cancel those that SLURM has lost."""
        deadline = time.monotonic() + CLOSE_SECONDS
        while (done := self.ended & self.jobs.keys()) and time.monotonic() < deadline:
            present = self._present()
            for key in done - (present or set()):
                self._forget(self.jobs.pop(key))
            time.sleep(POLL_SECONDS if present else 0.0)
        lost = [key for key in self.jobs if key in self.ended]
        if self.executor.cluster == "slurm":
            slurm_queue.cancel(lost)
        for key in lost:
            self._forget(self.jobs.pop(key))

    def _forget(self, job: SubmittedJob) -> None:
        for path in (self.folder / "jobs" / f"{job.job}.json", self.folder / "events" / job.events):
            path.unlink(missing_ok=True)

    def _cancel(self, pending: bool) -> None:
        """Cancel the jobs; only those that have not started, if ``pending``."""
        if self.executor.cluster == "slurm":
            slurm_queue.cancel(list(self.jobs), pending)
        elif not pending:
            for handle in self.handles.values():
                handle.cancel()
