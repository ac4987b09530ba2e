"""The live page of runs: drawn from what is finished, written again and again, and never in the way of a run."""

import io
import re
import time
from pathlib import Path

import numpy as np
import pytest
import torch

from posenc.workbench.progress import Event
from posenc.workbench.report import live_page
from posenc.workbench.report.live_page import LivePage, snapshot_path, write_snapshot
from posenc.workbench.report.live_status import LiveStatus, insert_status
from posenc.workbench.report.page import Panel, Text, render_page
from posenc.workbench.runner import InProcess, Interrupted, Local, run
from posenc.workbench.storage.store import Store
from toy_work import assert_same, toys

pytestmark = pytest.mark.bare


def html(text: str) -> str:
    return render_page(
        title="Toys", lead="Toys.", panels=[Panel("Results", (Text((text,)),))], footer="posenc run toy."
    )


@pytest.fixture
def at_every_event(monkeypatch: pytest.MonkeyPatch) -> None:
    """Draw whenever a run has finished, however short ago the last drawing was."""
    monkeypatch.setattr(live_page, "DRAW_SECONDS", 0.0)
    monkeypatch.setattr(live_page, "DRAW_SHARE", 1e9)


def page_of(tmp_path: Path, store: Store, texts: list[str]) -> LivePage:
    """A live page that shows how many toys are finished, and keeps every text of its file."""

    def draw() -> str | None:
        if live.path.exists():
            texts.append(live.path.read_text())
        done = sum(store.finished(spec.identity) for spec in toys(3))
        return html(f"{done} finished") if done else None

    live = LivePage(tmp_path / "pages" / "toy.html", html("nothing yet"), draw)
    return live


def test_the_address_is_printed_at_the_start_and_the_page_follows_the_runs(tmp_path: Path, at_every_event) -> None:
    store, out, texts = Store(tmp_path / "store"), io.StringIO(), list[str]()
    with page_of(tmp_path, store, texts) as live:
        run(toys(3), store, Local(1), stream=out, live=live)
        texts.append(live.path.read_text())
    assert out.getvalue().splitlines()[1] == f"Live page: {live.path.as_uri()}"
    assert "nothing yet" in texts[0]
    assert "0 of 3 done" in texts[0]
    assert "2 finished" in texts[-1]
    assert "Preliminary: drawn at " in texts[-1]
    assert "All runs have ended. The final page is being written." in live.path.read_text()
    assert [path.name for path in live.path.parent.iterdir()] == ["toy.html"]


@pytest.mark.full
def test_drawing_changes_no_result(tmp_path: Path, at_every_event) -> None:
    plain, watched = Store(tmp_path / "plain"), Store(tmp_path / "watched")
    run(toys(3), plain, InProcess(), emit=lambda event: None)
    drawings = []

    def draw() -> str:
        drawings.append(torch.rand(3))
        torch.manual_seed(7)
        return html("drawn")

    with LivePage(tmp_path / "toy.html", html(""), draw) as live:
        run(toys(3), watched, InProcess(), emit=lambda event: None, live=live)
    assert len(drawings) >= 3
    assert_same(watched, plain)


def test_an_error_of_drawing_is_on_the_page_and_fails_no_run(tmp_path: Path, at_every_event) -> None:
    def draw() -> str:
        raise KeyError("one <seed>")

    with LivePage(tmp_path / "toy.html", html(""), draw) as live:
        report = run(toys(2), Store(tmp_path / "store"), InProcess(), emit=lambda event: None, live=live)
        live._write()
        assert (
            "cannot be drawn from the finished runs yet (KeyError: &#x27;one &lt;seed&gt;&#x27;)"
            in live.path.read_text()
        )
    assert len(report.done) == 2


def test_a_folder_that_cannot_be_written_fails_no_run(tmp_path: Path) -> None:
    (tmp_path / "pages").write_text("a file, not a folder")
    with LivePage(tmp_path / "pages" / "toy.html", html(""), lambda: None) as live:
        report = run(toys(2), Store(tmp_path / "store"), InProcess(), emit=lambda event: None, live=live)
    assert len(report.done) == 2


def test_panels_are_drawn_in_a_small_share_of_the_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now, drawn = [0.0], []

    def draw() -> str:
        drawn.append(now[0])
        now[0] += 2.0  # seconds of a slow drawing
        return html("")

    monkeypatch.setattr(live_page.time, "monotonic", lambda: now[0])
    live, (spec,) = LivePage(tmp_path / "toy.html", html(""), draw), toys(1)
    live.tally = live_page.ProgressState([spec], {}, lambda: now[0])
    while now[0] < 1000:
        live.emit(Event(key=spec.identity, kind="finished"))
        live.emit(Event(key=spec.identity, kind="progress"))
        now[0] += 0.1
    assert 2.0 * len(drawn) <= 1.05 * live_page.DRAW_SHARE * 1000
    assert len(drawn) > 10


def test_nothing_is_drawn_while_no_run_has_ended(tmp_path: Path, at_every_event) -> None:
    drawn = []
    live, (spec,) = LivePage(tmp_path / "toy.html", html(""), lambda: drawn.append(1)), toys(1)
    live.tally = live_page.ProgressState([spec], {}, time.monotonic)
    for step in range(50):
        live.emit(Event(key=spec.identity, kind="progress", step=step, steps=50))
    assert len(drawn) == 1  # at the start, for results of earlier commands


def test_the_status_is_written_again_without_an_event(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_page, "WRITE_SECONDS", (0.05, 0.05))
    with LivePage(tmp_path / "toy.html", html(""), lambda: None) as live:
        live.begin(toys(1), {})
        first, deadline = live.path.stat().st_mtime_ns, time.monotonic() + 60
        while live.path.stat().st_mtime_ns == first:
            assert time.monotonic() < deadline, "the page was not written again"
            time.sleep(0.02)


@pytest.mark.parametrize(
    ("error", "reason"),
    [(Interrupted("stop"), ""), (OSError("disk full"), " The command ended with OSError: disk full.")],
)
def test_a_command_that_ends_early_says_when_and_how_to_continue(tmp_path: Path, error, reason: str) -> None:
    live = LivePage(tmp_path / "toy.html", html(""), lambda: None)
    live.begin(toys(3), {})
    live.emit(Event(key=toys(1)[0].identity, kind="finished"))
    with pytest.raises(type(error)), live:
        raise error
    text = live.path.read_text()
    assert re.search(r'<b class="state">Stopped at \d\d:\d\d:\d\d\.</b> 1 of 3 runs are done\.', text)
    assert f"Run the same command again to continue: finished runs are kept.{reason}</p>" in text
    assert "refresh" not in text


def test_a_stopped_page_says_that_its_panels_are_older_than_the_newest_run(tmp_path: Path, at_every_event) -> None:
    live = LivePage(tmp_path / "toy.html", html(""), lambda: html("drawn"))
    first, second, third = toys(3)
    live.begin([first, second, third], {})
    live.emit(Event(key=first.identity, kind="finished"))
    live.emit(Event(key=second.identity, kind="started"))  # the panels are drawn now
    live.emit(Event(key=second.identity, kind="finished"))
    with pytest.raises(Interrupted), live:
        raise Interrupted("stop")
    text = live.path.read_text()
    assert "2 of 3 runs are done." in text
    assert "The panels below were drawn before the last of them finished; the command draws them again." in text


def test_without_runs_nothing_is_written(tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    run(toys(1), store, InProcess(), emit=lambda event: None)
    with LivePage(tmp_path / "toy.html", html(""), lambda: None) as live:
        run(toys(1), store, InProcess(), emit=lambda event: None, live=live)
    assert not live.path.exists()


def test_labels_are_escaped_and_a_snapshot_that_does_not_exist_is_left_out(tmp_path: Path) -> None:
    write_snapshot(tmp_path, "one", np.zeros((2, 3), np.uint8))
    images = {"a <b>": snapshot_path(tmp_path, "one"), "later": snapshot_path(tmp_path, "two")}
    status = LiveStatus(state="running", summary="1 < 2", runs=["<i>"], hint="&", written=0.0, pause=5.0, images=images)
    text = insert_status(html("content"), status)
    assert text.count("data:image/png;base64,") == 1
    for part in ("a &lt;b&gt;", "1 &lt; 2", "<li>&lt;i&gt;</li>", '<p class="note hint">&amp;</p>', "content"):
        assert part in text
    assert "later" not in text
