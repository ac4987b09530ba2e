"""Live page: the page of a study while its runs go on, redrawn from the finished runs; snapshots of running runs."""

from __future__ import annotations

import os
import threading
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType

import numpy as np
import torch

from posenc.workbench.progress import Event, ProgressState, format_metrics
from posenc.workbench.report.live_status import LiveStatus, insert_status
from posenc.workbench.report.page import write_text
from posenc.workbench.report.raster_image import encode_png
from posenc.workbench.runs import RunSpec

WRITE_SECONDS = (5.0, 60.0)
"""Shortest and longest pause between two writes of the status; it grows to a sixtieth of the time so far."""
DRAW_SECONDS = 5.0
"""Shortest pause between two drawings of the panels."""
DRAW_SHARE = 0.04
"""Largest share of the time that is spent on drawing panels."""
FINAL_PAUSE = 60.0
"""Pause in seconds that is announced before the final page is written, which may take long."""


def snapshot_path(root: Path, key: str) -> Path:
    """Path of the newest snapshot of a run.

    Args:
        root: Folder of the store.
        key: Identity of the run.

    Returns:
        The PNG file below the store's pages. It remains after the run has finished.
    """
    return root / "pages" / "now" / f"{key}.png"


def write_snapshot(root: Path, key: str, frame: np.ndarray) -> None:
    """Write the newest snapshot of a run, atomically.

    A snapshot is for watching only; it is not part of the run's result.

    Args:
        root: Folder of the store.
        key: Identity of the run.
        frame: Image, as in `encode_png`.
    """
    path = snapshot_path(root, key)
    path.parent.mkdir(parents=True, exist_ok=True)
    for abandoned in path.parent.glob(f".{path.name}.*"):  # Left by a process that was killed.
        abandoned.unlink(missing_ok=True)
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    partial.write_bytes(encode_png(frame))
    partial.replace(path)


class LivePage:
    """Live page of a study, for ``runner.run``. The final page is written to the same file afterwards.

    The panels are drawn in the process that starts the runs, between two events. A thread writes the status of the runs
    again and again, so that a reader can tell a run that has died. An error of drawing or writing is shown on the page,
    or ignored; it never reaches a run.

    Use it as a context manager: an exception writes "Stopped at .." with its reason.

    Args:
        path: The HTML file.
        blank: HTML of the page without panels, shown until the first run has finished.
        draw: Returns the HTML of the page, drawn from the finished runs; None if no run is finished.
        snapshots: Label to snapshot file, for runs that write snapshots.
    """

    def __init__(
        self, path: Path, blank: str, draw: Callable[[], str | None], snapshots: Mapping[str, Path] | None = None
    ) -> None:
        self.path, self.html, self.draw, self.snapshots = path, blank, draw, snapshots or {}
        self.hint = "The panels appear when the first run has finished. This page reloads itself."
        self.tally: ProgressState | None = None
        self.began, self.drawn_at, self.draw_cost, self.stale = time.monotonic(), -float("inf"), 0.0, True
        self.lock, self.ended, self.thread = threading.Lock(), threading.Event(), threading.Thread(target=self._repeat)
        self.thread.daemon = True

    def __enter__(self) -> LivePage:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.tally is None:
            return
        self.ended.set()
        self.thread.join()
        if error is None:
            self.hint = "All runs have ended. The final page is being written."
            self._write(pause=FINAL_PAUSE)
            return
        reason = (
            "" if isinstance(error, KeyboardInterrupt) else f" The command ended with {type(error).__name__}: {error}."
        )
        outdated = self.stale and self.drawn_at > 0
        older = " The panels below were drawn before the last of them finished; the command draws them again."
        self.hint = f"Run the same command again to continue: finished runs are kept.{older * outdated}{reason}"
        self._write(stopped=True)

    def shown(self, spec: RunSpec) -> RunSpec:
        """Run under the labels that the display shows.

        Args:
            spec: The run.

        Returns:
            The run, with the same identity.
        """
        return spec

    def begin(self, specs: Sequence[RunSpec], costs: Mapping[str, float]) -> str:
        """Start to show runs, and write the page.

        Args:
            specs: The runs that are executed now.
            costs: Identity to relative cost of a run.

        Returns:
            The line to print: the address of the page; empty if it was printed before.
        """
        first = self.tally is None
        with self.lock:
            self.tally = ProgressState(specs, costs, time.monotonic)
        self._write()
        if not first:
            return ""
        self.thread.start()
        return f"Live page: {self.path.resolve().as_uri()}"

    def emit(self, event: Event) -> None:
        """Update the page with one event.

        Args:
            event: The event.
        """
        assert self.tally is not None
        with self.lock:
            self.tally.add(event)
        if event.kind in ("finished", "skipped", "failed"):
            # The panels are drawn at the next event of another run: the worker of this one has its next run by then.
            self.stale = True
        elif self.stale and time.monotonic() - self.drawn_at >= max(DRAW_SECONDS, self.draw_cost / DRAW_SHARE):
            self._draw()
            self._write()

    def _draw(self) -> None:
        """Draw the panels. The random state is kept, because this process may be training a model."""
        began = time.monotonic()
        try:
            with warnings.catch_warnings(), torch.random.fork_rng(devices=()):
                warnings.simplefilter("ignore")  # Few results give empty means; the final page shows its warnings.
                html = self.draw()
            if html is not None:
                self.html = html
                at = time.strftime("%H:%M:%S")
                self.hint = f"Preliminary: drawn at {at} from the runs finished by then. This page reloads itself."
        except Exception as error:
            self.hint = f"The panels cannot be drawn from the finished runs yet ({type(error).__name__}: {error})."
        self.drawn_at, self.stale = time.monotonic(), False
        self.draw_cost = self.drawn_at - began

    def _repeat(self) -> None:
        while not self.ended.wait(self._pause()):
            self._write()

    def _pause(self) -> float:
        shortest, longest = WRITE_SECONDS
        return min(longest, max(shortest, (time.monotonic() - self.began) / 60))

    def _write(self, *, pause: float | None = None, stopped: bool = False) -> None:
        """Write the page with its present status; a page that cannot be written is left as it is."""
        assert self.tally is not None
        with self.lock, suppress(ValueError, OSError):
            running = {} if stopped else dict(self.tally.running)
            status = LiveStatus(
                state="stopped" if stopped else "running",
                summary=self._summary(stopped),
                runs=[f"{self.tally.name(key)}: {_progress(event)}" for key, event in running.items()],
                hint=self.hint,
                written=time.time(),
                pause=pause or self._pause(),
                images=self.snapshots,
            )
            write_text(self.path, insert_status(self.html, status))

    def _summary(self, stopped: bool) -> str:
        assert self.tally is not None
        if stopped:
            return f"{len(self.tally.ended)} of {len(self.tally.specs)} runs are done."
        return f"{self.tally.summary()}."


def _progress(event: Event) -> str:
    """Progress of a run: "step 900 of 2,820, accuracy_ood 0.310"."""
    if not event.steps:
        return "starting"
    return ", ".join(filter(None, (f"step {event.step:,} of {event.steps:,}", format_metrics(event.metrics, 2))))
