"""Work of one SLURM job: execute some runs in the store, which lies on a file system in common, and note its events."""

from __future__ import annotations

import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

import msgspec

from posenc.lookup import own_scheme
from posenc.workbench.executors import node_check
from posenc.workbench.executors.batched import BatchedExecutor
from posenc.workbench.executors.processes import InProcess, keep_freed_memory
from posenc.workbench.progress import Event
from posenc.workbench.runs import Execute, RunSpec
from posenc.workbench.storage.store import Store
from posenc.workbench.worker import find_procedure


class JobLine(msgspec.Struct, omit_defaults=True):
    """Line of the file of events of a job.

    Attributes:
        event: Event of a run; None for a line on the job.
        refused: Why the job executes nothing; "" if it does.
        ended: True for the last line.
    """

    event: Event | None = None
    refused: str = ""
    ended: bool = False


class RunsOfJob:
    """Callable that a job executes. A job that reaches its time limit continues from the checkpoints in a new one.

    Args:
        specs: The runs.
        store_root: Folder of the store.
        events: File of events, below the store.
        codes: Code of the user's schemes, by name.
        procedures: Procedures that are not part of posenc, by entry.
        paths: Paths outside the store that the runs read.
    """

    def __init__(
        self,
        specs: Sequence[RunSpec],
        store_root: Path,
        events: Path,
        codes: Mapping[str, str],
        procedures: Mapping[str, Execute],
        paths: Sequence[str] = (),
    ) -> None:
        self.specs, self.store_root, self.events, self.paths = list(specs), store_root, events, list(paths)
        self.codes, self.procedures, self.versions = codes, procedures, node_check.versions()
        self.import_path, self.arguments = list(sys.path), list(sys.argv)

    def __call__(self) -> None:
        """Execute the runs, and append their events to the file of events."""
        sys.argv = self.arguments  # for the provenance of the results
        sys.path += [folder for folder in self.import_path if folder not in sys.path]  # for digests of source files
        Store(self.store_root, create=False).ensure_writable()  # The log of the job has the sentence of an error.
        with self.events.open("ab", buffering=0) as file:

            def write(line: JobLine) -> None:
                file.write(msgspec.json.encode(line) + b"\n")

            if sentence := self._why_not():
                write(JobLine(refused=sentence))
            else:
                self._execute(write)
            write(JobLine(ended=True))

    def _why_not(self) -> str:
        """Why this node cannot execute the runs; "" if it can."""
        node = node_check.node_name()
        if sentence := node_check.other_versions(self.versions, node):
            return sentence
        missing = node_check.unreadable(self.paths)
        return node_check.unreadable_sentence(missing[0], f"The SLURM node {node}") if missing else ""

    def _execute(self, write: Any) -> None:
        import torch

        if signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL and "submitit" in sys.modules:
            signal.signal(signal.SIGTERM, _end)
        keep_freed_memory()
        torch.set_num_threads(1)
        own_scheme.add_codes(self.codes)
        device = self.specs[0].device

        def emit(event: Event) -> None:
            write(JobLine(event=event))

        if device.startswith("cuda"):
            BatchedExecutor(device).run(self.specs, self.store_root, emit)
        else:
            InProcess(1, self._procedure).run(self.specs, self.store_root, emit)

    def _procedure(self, entry: str) -> Execute:
        return self.procedures.get(entry) or find_procedure(entry)

    def checkpoint(self) -> Any:
        """Return the work of the job that continues this one; submitit calls it before the time limit.

        Returns:
            The same runs: those that are finished are skipped, and the others continue from their checkpoints.
        """
        from submitit.helpers import DelayedSubmission

        return DelayedSubmission(self)


def _end(number: int, frame: FrameType | None) -> None:
    """End the process for SIGTERM, by which SLURM cancels or preempts a job. The checkpoint is on the disk."""
    sys.exit(128 + number)
