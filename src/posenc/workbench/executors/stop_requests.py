"""Ctrl-C at an engine: once to hand out no further runs, twice to cancel those that run."""

from __future__ import annotations

import signal
import sys
import threading
from types import FrameType
from typing import Any


class StopRequests:
    """Context that counts Ctrl-C instead of raising KeyboardInterrupt. Outside the main thread it counts none.

    Attributes:
        count: Number of times that Ctrl-C was pressed.
    """

    def __init__(self) -> None:
        self.count = 0
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
        return self.count > 0

    @property
    def cancelled(self) -> bool:
        """True if running ones are to be cancelled."""
        return self.count > 1
