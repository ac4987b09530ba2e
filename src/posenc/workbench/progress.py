"""Progress of runs: events, remaining time, and displays (a live table in a terminal, plain lines elsewhere)."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Literal, Protocol, TextIO, runtime_checkable

import msgspec

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

    from posenc.workbench.runs import RunSpec

SCORES = ("accuracy", "psnr", "iou", "rmse", "loss")
"""Prefixes of the metrics that are shown first."""
HEARTBEAT = 10.0
"""Seconds between plain lines while no run finishes."""
SHORTEST_WINDOW, WINDOW_SHARE = 30.0, 0.25
"""Part of the time whose speed counts for the remaining time: seconds at least, and share of the time so far."""
BUSY_FACTOR = 1.2
"""From this factor on, an estimate names the time with the present load and the time without."""


class Event(msgspec.Struct, kw_only=True):
    """Progress event of one run.

    Attributes:
        key: Identity of the run.
        kind: Type of the event. "skipped" means that the result was stored before.
        step: Training steps made.
        steps: Training steps in total.
        rate: Samples per second.
        metrics: New measurements.
        message: Error of a failed run, or the reason for waiting.

    Example:
        >>> from posenc.workbench import Event
        >>> event = Event(key="1f9a", kind="progress", step=20, steps=100, metrics={"loss": 0.5})
        >>> event.step / event.steps
        0.2
    """

    key: str
    kind: Literal["started", "progress", "finished", "skipped", "failed"]
    step: int = 0
    steps: int = 0
    rate: float = 0.0
    metrics: dict[str, float] = {}
    message: str = ""


class ProgressState:
    """State of all runs, updated by events: running, finished, speed and remaining time.

    The remaining time is the remaining work over the work of the last part of the time, so that it follows a machine
    that becomes busier. The work of a run is the time that finished runs of its variant took. Before any of them has
    finished, work is taken to be proportional to the costs. A resumed run is credited only with the steps made since it
    resumed.

    Args:
        specs: The runs.
        costs: Identity -> relative cost of a run, on any scale; 1 by default.
        clock: Function that returns the time in seconds.
    """

    def __init__(self, specs: Sequence[RunSpec], costs: Mapping[str, float], clock: Callable[[], float]) -> None:
        self.specs = {spec.identity: spec for spec in specs}
        self.costs = {key: costs.get(key, 1.0) for key in self.specs}
        self.clock = clock
        self.running: dict[str, Event] = {}
        self.ended: dict[str, Event] = {}
        self.started: dict[str, float] = {}
        self.first: dict[str, float] = {}
        self.took: dict[str, float] = {}
        self.history: deque[tuple[float, dict[str, float]]] = deque()
        self.began: float | None = None

    def add(self, event: Event) -> None:
        """Update the state with one event."""
        key, now, fraction = event.key, self.clock(), event.step / max(event.steps, 1)
        if event.kind == "started" and event.message:  # Another process executes this run, and this process waits.
            return
        if event.kind in ("started", "progress"):
            self.started.setdefault(key, now)
            if event.kind == "progress":
                self.first.setdefault(key, fraction)
                event.metrics = (self.running[key].metrics if key in self.running else {}) | event.metrics
            self.running[key] = event
        else:
            self.running.pop(key, None)
            self.ended[key] = event
            if event.kind == "finished" and key in self.started and not self.first.get(key):
                self.took[key] = now - self.started[key]
        self._remember(now)

    def _remember(self, now: float) -> None:
        """Keep the fractions of the last part of the time. Time before the first progress is not training."""
        if not self.first and not self.ended:
            return
        self.began = now if self.began is None else self.began
        if not self.history or now - self.history[-1][0] >= 1.0:
            self.history.append((now, self._fractions()))
        window = max(SHORTEST_WINDOW, WINDOW_SHARE * (now - self.began))
        while len(self.history) > 1 and now - self.history[1][0] >= window:
            self.history.popleft()

    def name(self, key: str) -> str:
        """Name of a run: "rope seed 0 (weight decay 0.1)"."""
        spec = self.specs[key]
        return f"{spec.variant} seed {spec.seed}" + ("" if spec.condition == "main" else f" ({spec.condition})")

    @property
    def left(self) -> int:
        """Number of runs that have not ended."""
        return len(self.specs) - len(self.ended)

    @property
    def rate(self) -> float:
        """Samples per second of all running runs together."""
        return sum(event.rate for event in self.running.values())

    def eta(self) -> float | None:
        """Remaining time in seconds at the speed of the last part of the time; None before the first progress."""
        if not self.history:
            return None
        work, (since, before), fractions = self._work(), self.history[0], self._fractions()
        made = sum(work[key] * (part - before.get(key, self.first.get(key, 0.0))) for key, part in fractions.items())
        left = sum(work[key] * (1 - fractions.get(key, 0.0)) for key in self.specs if key not in self.ended)
        elapsed = self.clock() - since
        return left * elapsed / made if made > 0 and elapsed > 0 else None

    def _fractions(self) -> dict[str, float]:
        """Fraction of each run that is made; runs that have not started are left out."""
        inside = {key: event.step / event.steps for key, event in self.running.items() if event.steps}
        return inside | {key: 1.0 for key, event in self.ended.items() if event.kind == "finished"}

    def _work(self) -> dict[str, float]:
        """Work of each run: seconds of the finished runs of its variant, otherwise in proportion to its cost."""
        known = dict[tuple[str, str], list[float]]()
        for key, took in self.took.items():
            known.setdefault(self._kind(key), []).append(took)
        costs = sum(self.costs[key] for key in self.took)
        scale = sum(self.took.values()) / costs if costs and sum(self.took.values()) else 1.0
        alike = {key: known.get(self._kind(key)) for key in self.specs}
        return {key: sum(some) / len(some) if some else scale * self.costs[key] for key, some in alike.items()}

    def _kind(self, key: str) -> tuple[str, str]:
        return self.specs[key].variant, self.specs[key].condition

    def summary(self) -> str:
        """One line: "12 of 33 done, 2 running, 19 waiting, 10,400 samples/s, about 2 min left"."""
        parts = [f"{len(self.ended)} of {len(self.specs)} done", f"{len(self.running)} running"]
        parts.append(f"{self.left - len(self.running)} waiting")
        if self.rate:
            parts.append(f"{self.rate:,.0f} samples/s")
        if (eta := self.eta()) is not None:
            parts.append(f"about {format_duration(eta)} left")
        return ", ".join(parts)

    def latest(self, most: int = 2) -> list[str]:
        """Latest metric of the first few running runs: "multires seed 0: psnr 31.204"."""
        measured = {key: event.metrics for key, event in self.running.items() if event.metrics}
        return [f"{self.name(key)}: {format_metrics(metrics, 1)}" for key, metrics in list(measured.items())[:most]]


@runtime_checkable
class Display(Protocol):
    """Display of events; a context manager, so that the terminal is restored after an error."""

    def __enter__(self) -> Display: ...
    def __exit__(self, *exception: object) -> None: ...
    def emit(self, event: Event) -> None:
        """Show an event."""
        ...


class Watcher(Protocol):
    """Observer of an execution beside the display, such as the live page of a study."""

    def begin(self, specs: Sequence[RunSpec], costs: Mapping[str, float]) -> str:
        """Start to observe runs.

        Args:
            specs: The runs that are executed now.
            costs: Identity to relative cost of a run.

        Returns:
            A line to print; may be empty.
        """
        ...

    def shown(self, spec: RunSpec) -> RunSpec:
        """Run under the labels that the display shows.

        Args:
            spec: The run.

        Returns:
            The run, with the same identity.
        """
        ...

    def emit(self, event: Event) -> None:
        """Observe an event.

        Args:
            event: The event.
        """
        ...


class PlainDisplay:
    """Plain-text display: one line per finished run, and one line every ten seconds while none finishes.

    Args:
        tally: State of the runs.
        stream: Stream of the lines.
    """

    def __init__(self, tally: ProgressState, stream: TextIO) -> None:
        self.tally, self.stream, self.last = tally, stream, tally.clock()

    def __enter__(self) -> PlainDisplay:
        return self

    def __exit__(self, *exception: object) -> None:
        return None

    def emit(self, event: Event) -> None:
        """Show an event."""
        self.tally.add(event)
        now, name = self.tally.clock(), self.tally.name(event.key)
        if event.kind in ("finished", "skipped", "failed"):
            detail = event.message if event.kind == "failed" else format_metrics(event.metrics)
            note = {"finished": "", "skipped": "already done", "failed": "FAILED"}[event.kind]
            text = ": ".join(part for part in (name, note, detail) if part)
            self._line(f"[{len(self.tally.ended)}/{len(self.tally.specs)}] {text}", now)
        elif event.kind == "started" and event.message:
            self._line(f"{name}: {event.message}", now)
        elif now - self.last >= HEARTBEAT:
            self._line("; ".join([self.tally.summary(), *self.tally.latest()]), now)

    def _line(self, text: str, now: float) -> None:
        print(text, file=self.stream, flush=True)
        self.last = now


class LiveTable:
    """Live table in a terminal: one row per running run, then a summary line; finished runs are printed above.

    Args:
        tally: State of the runs.
        console: Console of the terminal.
    """

    def __init__(self, tally: ProgressState, console: Console) -> None:
        from rich.live import Live

        self.tally, self.console = tally, console
        self.live = Live(console=console, get_renderable=self._render, refresh_per_second=4, transient=True)

    def __enter__(self) -> LiveTable:
        self.live.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self.live.stop()

    def emit(self, event: Event) -> None:
        """Show an event."""
        self.tally.add(event)
        name = self.tally.name(event.key)
        if event.kind == "finished":
            self.console.print(f"{name}: {format_metrics(event.metrics)}", markup=False, highlight=False)
        elif event.kind == "failed":
            self.console.print(f"{name}: FAILED: {event.message}", markup=False, highlight=False, style="bold red")

    def _render(self) -> RenderableType:
        from rich.console import Group
        from rich.progress_bar import ProgressBar
        from rich.table import Table as Grid
        from rich.text import Text

        grid = Grid(box=None, pad_edge=False)
        for title in ("running", "", "step", "samples/s", "latest"):
            grid.add_column(title, justify="right" if title in ("step", "samples/s") else "left", no_wrap=True)
        for key, event in list(self.tally.running.items()):
            bar = ProgressBar(total=max(event.steps, 1), completed=event.step, width=20)
            latest = event.message or format_metrics(event.metrics)
            name = Text(self.tally.name(key))
            grid.add_row(name, bar, f"{event.step}/{event.steps}", f"{event.rate:,.0f}", Text(latest))
        return Group(grid, Text(self.tally.summary()))


def format_metrics(metrics: Mapping[str, float], most: int = 3) -> str:
    """Format metrics: "accuracy_iid 0.981, accuracy_ood 0.714", scores first, at most `most` of them."""

    def rank(name: str) -> tuple[bool, int, str]:
        return not name.startswith(SCORES), name.count("_"), name

    ranked = sorted(metrics.items(), key=lambda item: rank(item[0]))
    return ", ".join(f"{name} {_short(value)}" for name, value in ranked[:most])


def _short(value: float) -> str:
    """Format with three decimals; below 0.1 with three significant digits; counts from 100 without decimals."""
    if math.isfinite(value) and (abs(value) >= 1e4 or (abs(value) >= 100 and float(value).is_integer())):
        return f"{value:,.0f}"
    return f"{value:.3f}" if value == 0 or abs(value) >= 0.1 or not math.isfinite(value) else f"{value:.3g}"


def format_duration(seconds: float) -> str:
    """Format a duration: "45 s", "12 min", "3 h 20 min", "4 days 2 h"."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    if minutes < 60:
        return f"{minutes} min"
    if minutes < 48 * 60:
        return f"{minutes // 60} h {minutes % 60} min"
    return f"{minutes // 1440} days {minutes % 1440 // 60} h"


def make_display(specs: Sequence[RunSpec], costs: Mapping[str, float], stream: TextIO) -> Display:
    """Create the display for a stream.

    Args:
        specs: The runs.
        costs: Identity -> relative cost of a run.
        stream: Where to print.

    Returns:
        A live table if the stream is a terminal, a text that is replaced in a notebook, otherwise plain lines.
    """
    tally = ProgressState(specs, costs, time.monotonic)
    if type(stream).__module__.startswith("ipykernel."):
        from posenc.workbench.notebook_display import NotebookDisplay

        return NotebookDisplay(tally)
    if not stream.isatty():
        return PlainDisplay(tally, stream)
    from rich.console import Console

    return LiveTable(tally, Console(file=stream))


class CostEstimate(msgspec.Struct, frozen=True, kw_only=True):
    """Estimated cost of a preset on this machine.

    Attributes:
        seconds: Wall-clock time if no other program uses the processors.
        memory_bytes: Peak memory of all processes together.
        runs: Number of runs.
        busy_seconds: Wall-clock time if other programs use the processors as much as now; 0 if this was not measured.

    Example:
        >>> from posenc.workbench import CostEstimate
        >>> print(CostEstimate(seconds=5400, memory_bytes=3 * 2**30, runs=15))
        15 runs, about 1 h 30 min, about 3.0 GiB of memory
        >>> print(CostEstimate(seconds=300, memory_bytes=2**30, runs=6, busy_seconds=720))
        6 runs, about 12 min as busy as the processors are now (5 min if they were free), about 1.0 GiB of memory
    """

    seconds: float
    memory_bytes: float
    runs: int
    busy_seconds: float = 0.0

    @property
    def time(self) -> str:
        """The time in words: with the present load if it matters, and without."""
        if self.busy_seconds < BUSY_FACTOR * self.seconds:
            return f"about {format_duration(self.busy_seconds or self.seconds)}"
        busy, free = format_duration(self.busy_seconds), format_duration(self.seconds)
        return f"about {busy} as busy as the processors are now ({free} if they were free)"

    def __str__(self) -> str:
        memory = f"{self.memory_bytes / 2**30:.1f} GiB of memory"
        runs = f"{self.runs} run" if self.runs == 1 else f"{self.runs} runs"
        return f"{runs}, {self.time}, about {memory}"


class ConsentError(ValueError):
    """Raised if a long preset is started without --yes (``yes=True``) where no terminal can confirm it.

    Example:
        >>> from posenc.workbench import ConsentError
        >>> issubclass(ConsentError, ValueError)
        True
    """


def confirm(
    estimate: CostEstimate,
    yes: bool,
    interactive: bool,
    ask: Callable[[str], str] = input,
    show: Callable[[str], None] = print,
) -> bool:
    """Show the estimated cost of a preset and ask for confirmation.

    Args:
        estimate: The estimated cost.
        yes: Start without asking.
        interactive: True if a terminal can answer.
        ask: Function that asks a question and returns the answer.
        show: Function that prints a line.

    Returns:
        True if the preset may start.

    Raises:
        ConsentError: There is no terminal and `yes` is not set.
    """
    show(f"This preset takes {estimate}.")
    if yes:
        return True
    if not interactive:
        raise ConsentError(f"This preset takes {estimate}, and there is no terminal to ask at. Add --yes to start it.")
    try:
        return ask("Start? [y/N] ").strip().lower() in ("y", "yes")
    except EOFError:
        return False
