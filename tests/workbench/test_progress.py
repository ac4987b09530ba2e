"""Progress displays: plain lines, the live table, the confirmation of a long preset."""

import io
import math

import msgspec
import pytest

from posenc.workbench import progress
from posenc.workbench.runner import ConsentError, CostEstimate, Event, Report, confirm
from toy_work import toys

pytestmark = pytest.mark.bare


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_plain_lines_have_a_heartbeat_and_an_eta() -> None:
    (a, b), clock, out = toys(2), Clock(), io.StringIO()
    lines = progress.PlainDisplay(progress.ProgressState([a, b], {a.identity: 3.0}, clock), out)
    with lines:
        lines.emit(Event(key=a.identity, kind="started"))
        lines.emit(Event(key=a.identity, kind="progress", step=0, steps=100, rate=1000.0))
        clock.now = 9.0
        lines.emit(Event(key=a.identity, kind="progress", step=30, steps=100, rate=1000.0))
        assert out.getvalue() == ""
        clock.now = 15.0
        lines.emit(
            Event(key=a.identity, kind="progress", step=50, steps=100, rate=1000.0, metrics={"accuracy_ood": 0.5})
        )
        # 1.5 of 4 parts of the work in 15 s: 25 s more
        assert (
            out.getvalue()
            == "0 of 2 done, 1 running, 1 waiting, 1,000 samples/s, about 25 s left; line seed 0: accuracy_ood 0.500\n"
        )
        lines.emit(Event(key=a.identity, kind="finished", metrics={"b": 1.0, "accuracy_ood": 0.25}))
        lines.emit(Event(key=b.identity, kind="failed", message="No."))
    assert out.getvalue().splitlines()[1:] == [
        "[1/2] line seed 0: accuracy_ood 0.250, b 1.000",
        "[2/2] line seed 1: FAILED: No.",
    ]


def test_small_numbers_keep_their_digits() -> None:
    told = progress.format_metrics({"accuracy": 0.98765, "iou": 0.0004, "psnr": -0.0123456})
    assert told == "accuracy 0.988, iou 0.0004, psnr -0.0123"
    assert progress.format_metrics({"parameters": 77726.0}) == "parameters 77,726"
    assert (
        progress.format_metrics({"psnr": 31.4159, "iou": 0.0, "loss": math.nan}) == "iou 0.000, loss nan, psnr 31.416"
    )


def test_a_resumed_run_is_credited_with_its_new_steps_only() -> None:
    (spec,), clock = toys(1), Clock()
    tally = progress.ProgressState([spec], {}, clock)
    tally.add(Event(key=spec.identity, kind="progress", step=80, steps=100))
    assert tally.eta() is None
    clock.now = 10.0
    tally.add(Event(key=spec.identity, kind="progress", step=90, steps=100))
    assert tally.eta() == pytest.approx(10.0)


def test_a_terminal_gets_a_live_table() -> None:
    from rich.console import Console

    (a, b), out = toys(2), io.StringIO()
    console = Console(file=out, force_terminal=True, width=100)
    table = progress.LiveTable(progress.ProgressState([a, b], {}, Clock()), console)
    with table:
        table.emit(Event(key=a.identity, kind="progress", step=5, steps=10, rate=1234.0, metrics={"accuracy_ood": 0.5}))
        table.live.refresh()
        table.emit(Event(key=a.identity, kind="finished", metrics={"accuracy_ood": 0.75}))
        table.emit(Event(key=b.identity, kind="failed", message="No [such] thing."))
    for text in ("line seed 0", "5/10", "1,234", "accuracy_ood 0.500", "accuracy_ood 0.750", "No [such] thing."):
        assert text in out.getvalue()


def test_the_display_follows_the_stream() -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    assert isinstance(progress.make_display(toys(1), {}, io.StringIO()), progress.PlainDisplay)
    assert isinstance(progress.make_display(toys(1), {}, Terminal()), progress.LiveTable)


@pytest.mark.parametrize(
    ("seconds", "text"), [(45, "45 s"), (750, "12 min"), (12000, "3 h 20 min"), (190000, "2 days 4 h")]
)
def test_durations(seconds: float, text: str) -> None:
    assert progress.format_duration(seconds) == text


@pytest.mark.parametrize(("answer", "goes"), [("y", True), ("Yes ", True), ("", False), ("no", False)])
def test_a_long_preset_asks(answer: str, goes: bool) -> None:
    told, asked = [], []
    estimate = CostEstimate(seconds=12000, memory_bytes=3 * 2**30, runs=165)

    def ask(question: str) -> str:
        asked.append(question)
        return answer

    assert confirm(estimate, yes=False, interactive=True, ask=ask, show=told.append) is goes
    assert told == ["This preset takes 165 runs, about 3 h 20 min, about 3.0 GiB of memory."]
    assert len(asked) == 1
    assert confirm(estimate, yes=True, interactive=False, ask=ask, show=told.append)
    assert len(asked) == 1


def test_a_long_preset_refuses_where_nobody_can_be_asked() -> None:
    estimate = CostEstimate(seconds=12000, memory_bytes=3 * 2**30, runs=165)
    with pytest.raises(ConsentError, match=r"165 runs, about 3 h 20 min.*Add --yes to start it\."):
        confirm(estimate, yes=False, interactive=False, show=lambda text: None)


def test_a_report_without_trouble_is_one_line() -> None:
    assert str(Report(done=toys(2))) == "2 done, 0 done before."


def test_a_run_that_another_process_has_locked_counts_as_waiting() -> None:
    (spec,) = toys(1)
    tally = progress.ProgressState([spec], {}, Clock())
    tally.add(Event(key=spec.identity, kind="started", message="another process executes it; waiting for its result"))
    assert tally.summary() == "0 of 1 done, 0 running, 1 waiting"


def test_the_time_before_the_first_step_is_not_part_of_the_speed() -> None:
    (spec,), clock = toys(1), Clock()
    tally = progress.ProgressState([spec], {}, clock)
    tally.add(Event(key=spec.identity, kind="started"))
    clock.now = 600.0  # ten minutes of reading data
    tally.add(Event(key=spec.identity, kind="progress", step=0, steps=1000, metrics={"accuracy": 0.01}))
    clock.now = 610.0
    tally.add(Event(key=spec.identity, kind="progress", step=100, steps=1000, rate=1280.0))
    assert tally.eta() == pytest.approx(90.0)
    assert tally.summary() == "0 of 1 done, 1 running, 0 waiting, 1,280 samples/s, about 2 min left"
    assert tally.running[spec.identity].metrics == {"accuracy": 0.01}  # until something new is measured


def test_the_remaining_time_follows_finished_runs_of_a_variant_and_the_present_speed() -> None:
    slow, fast = toys(4), [msgspec.structs.replace(spec, variant="fast") for spec in toys(8)[4:]]
    clock = Clock()
    tally = progress.ProgressState([*slow, *fast], {}, clock)

    def execute(spec, seconds: float) -> None:
        for step in range(10):
            tally.add(Event(key=spec.identity, kind="progress", step=step, steps=10))
            clock.now += seconds / 10
        tally.add(Event(key=spec.identity, kind="finished"))

    execute(slow[0], 100.0)
    execute(fast[0], 10.0)
    # three slow and three fast runs are left
    assert tally.eta() == pytest.approx(330.0, rel=0.1)
    for spec in slow[1:]:
        execute(spec, 200.0)  # the machine became busier
    left = tally.eta()
    assert left is not None
    assert 3 * 10.0 * 1.1 < left < 3 * 20.0


def test_an_estimate_states_the_present_load_where_it_matters() -> None:
    free = CostEstimate(seconds=300, memory_bytes=2**30, runs=6, busy_seconds=320)
    assert str(free) == "6 runs, about 5 min, about 1.0 GiB of memory"
    busy = msgspec.structs.replace(free, busy_seconds=720)
    assert "about 12 min as busy as the processors are now (5 min if they were free)" in str(busy)
