"""What a person sees while units of work run: a live table in a terminal, plain lines anywhere else."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Literal, Protocol, TextIO, runtime_checkable

import msgspec

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

    from posenc.store import Unit

SCORES = ("accuracy", "psnr", "iou", "rmse", "loss")
HEARTBEAT = 10.0  # seconds between plain lines while nothing finishes


class Event(msgspec.Struct, kw_only=True):
    """Something that happened to the unit `key`. `rate` is in samples per second; `metrics` are what is new."""

    key: str
    kind: Literal["started", "progress", "finished", "skipped", "failed"]
    step: int = 0
    steps: int = 0
    rate: float = 0.0
    metrics: dict[str, float] = {}
    message: str = ""


class Tally:
    """The state of all units, told by events: what runs, what is done, how fast, how long still.

    `costs` weigh the units against each other (any scale; equal when absent). A unit that resumes is
    only credited with the steps made since.
    """

    def __init__(self, units: Sequence[Unit], costs: Mapping[str, float], clock: Callable[[], float]) -> None:
        self.units = {unit.key: unit for unit in units}
        self.costs = {key: costs.get(key, 1.0) for key in self.units}
        self.clock, self.began = clock, clock()
        self.running: dict[str, Event] = {}
        self.ended: dict[str, Event] = {}
        self.first: dict[str, float] = {}
        self.credit = 0.0

    def add(self, event: Event) -> None:
        key, fraction = event.key, event.step / max(event.steps, 1)
        if event.kind == "started" and event.message:  # another run holds it: it waits here
            return
        if event.kind in ("started", "progress"):
            if event.kind == "progress":
                if not self.first and not self.ended:  # what came before, as reading data, is not its pace
                    self.began = self.clock()
                self.first.setdefault(key, fraction)
                event.metrics = (self.running[key].metrics if key in self.running else {}) | event.metrics
            self.running[key] = event
            return
        self.running.pop(key, None)
        self.ended[key] = event
        if event.kind == "finished":
            self.credit += self.costs[key] * (1 - self.first.get(key, 0.0))

    def name(self, key: str) -> str:
        unit = self.units[key]
        return f"{unit.scheme} seed {unit.seed}" + ("" if unit.setting == "main" else f" ({unit.setting})")

    @property
    def left(self) -> int:
        return len(self.units) - len(self.ended)

    @property
    def rate(self) -> float:
        return sum(event.rate for event in self.running.values())

    def eta(self) -> float | None:
        """Seconds still needed if the work goes on as fast as it went so far; None before anything is known."""
        inside = {key: event.step / event.steps for key, event in self.running.items() if event.steps}
        made = self.credit + sum(self.costs[k] * (f - self.first.get(k, f)) for k, f in inside.items())
        remaining = sum(cost * (1 - inside.get(k, 0.0)) for k, cost in self.costs.items() if k not in self.ended)
        elapsed = self.clock() - self.began
        return remaining * elapsed / made if made > 0 and elapsed > 0 else None

    def summary(self) -> str:
        """`12 of 33 done, 2 running, 19 left, 10,400 samples/s, about 2 min left`."""
        parts = [f"{len(self.ended)} of {len(self.units)} done", f"{len(self.running)} running"]
        parts.append(f"{self.left - len(self.running)} waiting")
        if self.rate:
            parts.append(f"{self.rate:,.0f} samples/s")
        if (eta := self.eta()) is not None:
            parts.append(f"about {duration(eta)} left")
        return ", ".join(parts)

    def latest(self, most: int = 2) -> list[str]:
        """`multires seed 0: psnr 31.204`, of the first few that run and have been measured."""
        known = {key: event.metrics for key, event in self.running.items() if event.metrics}
        return [f"{self.name(key)}: {describe(found, 1)}" for key, found in list(known.items())[:most]]


@runtime_checkable
class Display(Protocol):
    """Shows events; a context manager, so that the terminal is given back whatever happens."""

    def __enter__(self) -> Display: ...
    def __exit__(self, *exception: object) -> None: ...
    def emit(self, event: Event) -> None: ...


class Lines:
    """One plain line per finished unit, and one every ten seconds while none finishes."""

    def __init__(self, tally: Tally, stream: TextIO) -> None:
        self.tally, self.stream, self.last = tally, stream, tally.clock()

    def __enter__(self) -> Lines:
        return self

    def __exit__(self, *exception: object) -> None:
        return None

    def emit(self, event: Event) -> None:
        self.tally.add(event)
        now, name = self.tally.clock(), self.tally.name(event.key)
        if event.kind in ("finished", "skipped", "failed"):
            detail = event.message if event.kind == "failed" else describe(event.metrics)
            note = {"finished": "", "skipped": "already done", "failed": "FAILED"}[event.kind]
            text = ": ".join(part for part in (name, note, detail) if part)
            self._line(f"[{len(self.tally.ended)}/{len(self.tally.units)}] {text}", now)
        elif event.kind == "started" and event.message:
            self._line(f"{name}: {event.message}", now)
        elif now - self.last >= HEARTBEAT:
            self._line("; ".join([self.tally.summary(), *self.tally.latest()]), now)

    def _line(self, text: str, now: float) -> None:
        print(text, file=self.stream, flush=True)
        self.last = now


class Table:
    """A live table: one row per running unit above one line for all; finished units scroll by."""

    def __init__(self, tally: Tally, console: Console) -> None:
        from rich.live import Live

        self.tally, self.console = tally, console
        self.live = Live(console=console, get_renderable=self._render, refresh_per_second=4, transient=True)

    def __enter__(self) -> Table:
        self.live.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self.live.stop()

    def emit(self, event: Event) -> None:
        self.tally.add(event)
        name = self.tally.name(event.key)
        if event.kind == "finished":
            self.console.print(f"{name}: {describe(event.metrics)}", markup=False, highlight=False)
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
            latest = event.message or describe(event.metrics)
            name = Text(self.tally.name(key))
            grid.add_row(name, bar, f"{event.step}/{event.steps}", f"{event.rate:,.0f}", Text(latest))
        return Group(grid, Text(self.tally.summary()))


def describe(metrics: Mapping[str, float], most: int = 3) -> str:
    """`accuracy_iid 0.981, accuracy_ood 0.714`: scores first, short names before long; the rest is in tables."""

    def rank(name: str) -> tuple[bool, int, str]:
        return not name.startswith(SCORES), name.count("_"), name

    named = sorted(metrics.items(), key=lambda item: rank(item[0]))
    return ", ".join(f"{name} {_short(value)}" for name, value in named[:most])


def _short(value: float) -> str:
    """Three decimals; of large numbers none, of a number that has nothing in the first of them three digits."""
    if abs(value) >= 1e4 and math.isfinite(value):
        return f"{value:,.0f}"
    return f"{value:.3f}" if value == 0 or abs(value) >= 0.1 or not math.isfinite(value) else f"{value:.3g}"


def duration(seconds: float) -> str:
    """`45 s`, `12 min`, `3 h 20 min`, `4 days 2 h`."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    if minutes < 60:
        return f"{minutes} min"
    if minutes < 48 * 60:
        return f"{minutes // 60} h {minutes % 60} min"
    return f"{minutes // 1440} days {minutes % 1440 // 60} h"


def choose(units: Sequence[Unit], costs: Mapping[str, float], stream: TextIO) -> Display:
    """A live table if `stream` is a terminal, plain lines if not."""
    tally = Tally(units, costs, time.monotonic)
    if not stream.isatty():
        return Lines(tally, stream)
    from rich.console import Console

    return Table(tally, Console(file=stream))


class Estimate(msgspec.Struct, frozen=True, kw_only=True):
    """What a preset will take: wall-clock seconds on this machine, peak memory of all processes, number of runs."""

    seconds: float
    memory_bytes: float
    runs: int

    def __str__(self) -> str:
        memory = f"{self.memory_bytes / 2**30:.1f} GiB of memory"
        return f"{self.runs} runs, about {duration(self.seconds)}, about {memory}"


class ConsentError(ValueError):
    """A long preset was started where nobody can be asked."""


def confirm(
    estimate: Estimate,
    yes: bool,
    interactive: bool,
    ask: Callable[[str], str] = input,
    tell: Callable[[str], None] = print,
) -> bool:
    """Tells the estimate and asks whether to start; True without asking if `yes`.

    Errors: ConsentError without a terminal, unless `yes`.
    """
    tell(f"This preset takes {estimate}.")
    if yes:
        return True
    if not interactive:
        raise ConsentError(f"This preset takes {estimate}, and there is no terminal to ask at. Add --yes to start it.")
    try:
        return ask("Start? [y/N] ").strip().lower() in ("y", "yes")
    except EOFError:
        return False
