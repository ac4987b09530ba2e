"""Ends of an execution on an engine: Ctrl-C once to hand out no further runs, twice to cancel all; or a time."""

from __future__ import annotations

import signal
import sys
import threading
import time
from types import FrameType
from typing import Any


class TimeIsOver(Exception):  # noqa: N818 - the end of a given time is no error
    """Raised when the time for an execution is over. Its running tasks and jobs are cancelled."""


class StopRequests:
    """Context that counts Ctrl-C instead of raising KeyboardInterrupt. Outside the main thread it counts none.

    Args:
        ends_at: Moment of ``time.monotonic`` at which running ones are cancelled; None for never.

    Attributes:
        count: Number of times that Ctrl-C was pressed.
    """

    def __init__(self, ends_at: float | None = None) -> None:
        self.count, self.ends_at = 0, ends_at
        self._before: Any = None

    def __enter__(self) -> StopRequests:
        if threading.current_thread() is threading.main_thread():
            self._before = signal.signal(signal.SIGINT, self._add)
        return self

    def __exit__(self, *exception: object) -> None:
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)

    def _add(self, number: int, frame: FrameType | None) -> None:
        self.count += 1
        if self.count == 1:
            print(
                "Stopping: no further run starts, and the results of running ones are stored. "
                "Press Ctrl-C again to cancel these too. The same command continues later.",
                file=sys.stderr,
                flush=True,
            )

    @property
    def stopping(self) -> bool:
        """True if no further run is to be started."""
        return self.count > 0 or self.over

    @property
    def cancelled(self) -> bool:
        """True if running ones are to be cancelled."""
        return self.count > 1 or self.over

    @property
    def over(self) -> bool:
        """True if the time is over."""
        return self.ends_at is not None and time.monotonic() >= self.ends_at

    def raise_if_stopped(self) -> None:
        """Report why an execution has ended early.

        Raises:
            KeyboardInterrupt: Ctrl-C was pressed.
            TimeIsOver: The time is over.
        """
        if self.count:
            raise KeyboardInterrupt
        if self.over:
            raise TimeIsOver
