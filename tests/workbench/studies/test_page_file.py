"""File of a page: a page that shows fewer runs never replaces one that shows more; the runs stand on the page."""

from pathlib import Path

import numpy as np
import pytest

from posenc.workbench import request_execution
from posenc.workbench.runs import RunResult, RunSpec
from posenc.workbench.storage.store import Store
from posenc.workbench.studies import Request, find
from posenc.workbench.studies.shared import page_file

pytestmark = pytest.mark.bare

STUDY = find("latin-squares")
CHANGES = {"epochs": 1, "train": 100, "train_size": 100, "iid": 20, "ood": 10}


def request(**options: object) -> Request:
    return Request(**{"preset": "quick", "panels": ("accuracy",), "changes": CHANGES} | options)


def finish(store: Store, *schemes: str, seeds: tuple[int, ...] = (0, 1)) -> list[RunSpec]:
    """Store made-up results."""
    specs = STUDY.plan(request(schemes=schemes, seeds=seeds), store)
    for spec in specs:
        metrics = dict.fromkeys(("accuracy_iid", "accuracy_ood", "accuracy_train", "loss_iid", "loss_ood"), 0.5)
        metrics |= {f"accuracy_{part}_{kind}": 0.5 for part in ("iid", "ood") for kind in (1, 2, 3)}
        curve = [{"epoch": 1, "metric": name, "value": value} for name, value in metrics.items()]
        arrays = {f"right_{part}": np.ones(10, dtype=np.uint8) for part in ("iid", "ood")}
        store.finish(spec, RunResult(metrics=metrics, curves=curve, arrays=arrays), {"seconds": 1.0})
    return specs


@pytest.mark.full
def test_a_report_of_some_variants_keeps_the_page_of_all(tmp_path: Path) -> None:
    store = Store(tmp_path)
    specs = finish(store, "rope", "nope")
    every = request_execution.report_request(STUDY, request(), store).path
    assert page_file.runs_of(every) == {spec.identity for spec in specs}
    content = every.read_text()
    one = request_execution.report_request(STUDY, request(schemes=("rope",)), store).path
    assert one != every
    assert one.stem.startswith(every.stem)
    assert every.read_text() == content
    assert len(page_file.runs_of(one)) == 2
    assert request_execution.report_request(STUDY, request(schemes=("rope",)), store).path == one
    assert request_execution.report_request(STUDY, request(), store).path == every


@pytest.mark.full
def test_a_page_of_more_runs_replaces_one_of_fewer(tmp_path: Path) -> None:
    store = Store(tmp_path)
    finish(store, "rope", seeds=(0,))
    first = request_execution.report_request(STUDY, request(), store).path
    finish(store, "rope", "nope")
    assert request_execution.report_request(STUDY, request(), store).path == first
    assert len(page_file.runs_of(first)) == 4


@pytest.mark.full
def test_a_page_whose_other_runs_are_gone_is_replaced(tmp_path: Path) -> None:
    store = Store(tmp_path)
    specs = finish(store, "rope", "nope")
    every = request_execution.report_request(STUDY, request(), store).path
    for spec in specs:
        if spec.variant == "nope":
            store.set_aside(spec.identity, "a test")
    assert request_execution.report_request(STUDY, request(), store).path == every


def test_the_page_lists_the_identity_of_each_run(tmp_path: Path) -> None:
    store = Store(tmp_path)
    specs = finish(store, "rope")
    text = request_execution.report_request(STUDY, request(), store).path.read_text()
    assert all(f"<td>{spec.identity}</td>" in text for spec in specs)
    assert "posenc results --run RUN" in text


@pytest.mark.parametrize("file", ["metrics.jsonl", "arrays.safetensors"])
def test_a_damaged_run_is_named_and_the_page_shows_the_others(
    file: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = Store(tmp_path)
    specs = finish(store, "rope", "nope")
    path = tmp_path / "units" / specs[0].identity / file
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    result = request_execution.report_request(STUDY, request(), Store(tmp_path))
    assert result.exit_code == 1
    assert f"{file} has another content than was stored" in capsys.readouterr().out
    assert page_file.runs_of(result.path) == {spec.identity for spec in specs[1:]}
