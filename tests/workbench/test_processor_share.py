"""Share of the processors that busy processes get, and its use in an estimate."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from posenc.workbench import processor_share
from posenc.workbench.progress import CostEstimate
from posenc.workbench.studies.shared import study_page

pytestmark = pytest.mark.bare


def test_busy_threads_get_some_cores_and_no_more_than_there_are_threads() -> None:
    assert 0.05 <= processor_share.available_cores(1, seconds=0.2) <= 1.0


def test_an_estimate_is_longer_where_other_programs_use_the_processors(monkeypatch) -> None:
    monkeypatch.setattr(processor_share, "cores", lambda: 2)
    monkeypatch.setattr(processor_share, "available_cores", lambda processes: 0.5)
    estimate = CostEstimate(seconds=60, memory_bytes=0, runs=6)
    assert processor_share.with_present_load(estimate, 2).busy_seconds == pytest.approx(240.0)
    assert processor_share.with_present_load(estimate, 1).busy_seconds == pytest.approx(120.0)
    short = CostEstimate(seconds=2, memory_bytes=0, runs=1)
    assert processor_share.with_present_load(short, 2) == short


def test_the_share_is_that_of_as_many_processes_as_there_are_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside three busy programs on two cores, a single run gets half a core, and two runs get 0.8 together."""
    monkeypatch.setattr(processor_share, "cores", lambda: 2)
    monkeypatch.setattr(processor_share, "available_cores", {1: 0.5, 2: 0.8}.__getitem__)
    one, more = (CostEstimate(seconds=60.0, memory_bytes=1, runs=runs) for runs in (1, 6))
    assert processor_share.with_present_load(one, 2).busy_seconds == pytest.approx(120.0)
    assert processor_share.with_present_load(more, 2).busy_seconds == pytest.approx(150.0)


def test_one_thread_is_used_within_and_the_number_before_it_after() -> None:
    before, seen = torch.get_num_threads(), list[int]()

    @processor_share.one_thread()
    def broken() -> None:
        seen.append(torch.get_num_threads())
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        broken()
    assert seen == [1]
    assert torch.get_num_threads() == before


def test_a_page_is_drawn_with_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    monkeypatch.setattr(study_page.planning, "panels_of", lambda *_: seen.append(torch.get_num_threads()) or 1 / 0)
    study: Any = SimpleNamespace(page_data=lambda *_: None)
    nothing: Any = None
    with pytest.raises(ZeroDivisionError):
        study_page.html(study, nothing, nothing, [], {})
    assert seen == [1]
