"""Progress of runs in a Jupyter notebook: one output that is replaced while runs go on."""

from __future__ import annotations

import importlib
from html import escape
from typing import Any

from posenc.workbench.progress import Event, ProgressState, format_metrics

REFRESH = 0.5
"""Shortest time between two updates, in seconds."""


class NotebookDisplay:
    """Display of a notebook: a bar with a summary, the running runs, and the messages of failed runs.

    Args:
        tally: State of the runs.
    """

    def __init__(self, tally: ProgressState) -> None:
        self.tally, self.last = tally, 0.0
        self.shown: Any = None
        self.failures: list[str] = []

    def __enter__(self) -> NotebookDisplay:
        self._show()
        return self

    def __exit__(self, *exception: object) -> None:
        self._show()

    def emit(self, event: Event) -> None:
        """Show an event.

        Args:
            event: The event.
        """
        self.tally.add(event)
        if event.kind == "failed":
            self.failures.append(f"{self.tally.name(event.key)}: FAILED: {event.message}")
        if self.tally.clock() - self.last >= REFRESH:
            self._show()

    def _repr_html_(self) -> str:
        done, total = len(self.tally.ended), len(self.tally.specs)
        running = [
            f"{self.tally.name(key)}, step {event.step}/{event.steps}: {event.message or format_metrics(event.metrics)}"
            for key, event in self.tally.running.items()
        ]
        lines = "".join(f"<div>{escape(line)}</div>" for line in (*running, *self.failures))
        return f"<progress value='{done}' max='{total}'></progress> {escape(self.tally.summary())}{lines}"

    def _show(self) -> None:
        self.last = self.tally.clock()
        if self.shown is None:
            self.shown = importlib.import_module("IPython.display").display(self, display_id=True)
        else:
            self.shown.update(self)
