"""Batched executor: the division of runs into batches, and the lock, events and result of each run."""

from __future__ import annotations

import errno
import io
import os
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest
import torch

from posenc.models.encoder import EncoderConfig
from posenc.workbench import runner
from posenc.workbench.executors.batched import BatchedExecutor
from posenc.workbench.progress import Event
from posenc.workbench.runner import InProcess, pick, run
from posenc.workbench.runs import Batched, Job, RunResult, RunSpec
from posenc.workbench.storage.store import Store
from posenc.workbench.studies.latin_squares import execute, variants
from posenc.workbench.training.loop import TrainingConfig
from posenc.workbench.worker import find_batched

pytestmark = pytest.mark.bare

CALLS: list[list[int]] = []
"""The seeds of every call of the toy's companion."""


@pytest.fixture(autouse=True)
def calls() -> list[list[int]]:
    CALLS.clear()
    return CALLS


def toy(seed: int, name: str = "square", **settings: object) -> RunSpec:
    names = {"procedure": f"toy.{name}", "entry": f"{__name__}:{name}"}
    return RunSpec(study="toy", variant="s", seed=seed, preset="quick", settings=settings, **names)


def square(spec: RunSpec, workdir: Path, report: object) -> RunResult:
    CALLS.append([spec.seed])
    return RunResult(metrics={"square": float(spec.seed**2), "alone": 1.0})


def squares(jobs: Sequence[Job]) -> list[RunResult | Exception]:
    CALLS.append([job.spec.seed for job in jobs])
    what = jobs[0].spec.settings.get("what")
    if what == "no room" and len(jobs) > 2:
        raise torch.OutOfMemoryError("CUDA out of memory.")
    if what == "no room at all":
        raise torch.OutOfMemoryError("CUDA out of memory.")
    if what == "full":
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    if what == "seed 2" and 2 in CALLS[-1]:
        raise ValueError("seed 2 has a negative sigma")
    if what == "broken":
        raise ValueError("These toys cannot be one.")
    for job in jobs:
        assert job.workdir.is_dir()
        job.report(1, 2, 10.0, {"square": 0.0})
    return [
        FloatingPointError("the loss became nan at step 3")
        if job.spec.seed == 13
        else RunResult(metrics={"square": float(job.spec.seed**2), "alone": 0.0})
        for job in jobs
    ]


square_batched = Batched(group=lambda spec: str(spec.settings), memory=lambda spec: 1.0, execute=squares)


def lonely(spec: RunSpec, workdir: Path, report: object) -> RunResult:
    return square(spec, workdir, report)


def done(specs: Sequence[RunSpec], root: Path, members: int = 8) -> tuple[runner.Report, list[Event]]:
    events: list[Event] = []
    return run(specs, Store(root), BatchedExecutor("cpu", members), emit=events.append), events


# division into batches ----------------------------------------------------------------------------------------------


def test_runs_of_one_group_are_divided_into_batches_of_equal_size(tmp_path: Path) -> None:
    specs = [toy(seed, width=width) for seed in range(5) for width in (1, 2)]
    report, _ = done([*specs, toy(20, "lonely"), toy(21, "lonely")], tmp_path, members=4)
    assert len(report.done) == 12
    assert CALLS == [[0, 1, 2], [3, 4], [0, 1, 2], [3, 4], [20], [21]]
    store = Store(tmp_path)
    assert store.read(specs[8].identity).metrics == {"square": 16.0, "alone": 0.0}
    timing = store.read(specs[8].identity).timing
    assert (timing["together"], timing["attempts"], timing["device"]) == (2, 1, "cpu")
    assert "together" not in store.read(toy(20, "lonely").identity).timing


def test_a_run_without_a_group_is_executed_alone(tmp_path: Path) -> None:
    done([toy(0, width=1), toy(1, width=2)], tmp_path)
    assert CALLS == [[0], [1]]
    assert Store(tmp_path).read(toy(1, width=2).identity).metrics["alone"] == 1.0


def test_only_unfinished_runs_are_executed(tmp_path: Path) -> None:
    done([toy(1), toy(2)], tmp_path)
    report, _ = done([toy(seed) for seed in range(4)], tmp_path)
    assert CALLS == [[1, 2], [0, 3]]
    assert (len(report.done), len(report.skipped)) == (2, 2)


def test_a_run_that_another_process_has_locked_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store, specs = Store(tmp_path), [toy(seed) for seed in range(3)]
    lease = store.lease(specs[1].identity)
    assert lease.__enter__()
    monkeypatch.setattr(
        "posenc.workbench.executors.batched.time.sleep", lambda seconds: lease.__exit__(None, None, None)
    )
    report, events = done(specs, tmp_path)
    assert CALLS == [[0, 2], [1]]
    assert len(report.done) == 3
    said = [event.message for event in events if event.key == specs[1].identity and event.kind == "started"]
    assert said == ["another process executes it; waiting for its result", ""]


def test_the_name_of_an_executor(tmp_path: Path) -> None:
    assert str(pick("cpu", 3)) == "up to 3 processes with one thread each on the CPU"
    assert isinstance(pick("mps"), InProcess)
    assert str(pick("cuda:1", members=15)) == (
        "batched training on cuda:1: up to 15 models of one scheme as one batched model, scheme after scheme"
    )
    assert "as many models as fit into its memory of one scheme" in str(pick("cuda"))
    out = io.StringIO()
    run([toy(0), toy(1)], Store(tmp_path), BatchedExecutor("cpu", 8), stream=out)
    assert out.getvalue().startswith(
        "2 runs to execute, 0 finished before; batched training on cpu: up to 8 models of one scheme"
    )
    with pytest.raises(ValueError, match="A batch has at least one model; got members=0"):
        BatchedExecutor("cuda", 0)
    with pytest.raises(ValueError, match=r"memory of cpu is not known\. Give the number of models: BatchedExecutor"):
        list(BatchedExecutor("cpu").groups([toy(0), toy(1)]))


def test_the_free_memory_of_the_device_limits_a_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (10, 100))  # 0.7 of 10 free bytes; a run takes one
    sizes = [len(group) for group in BatchedExecutor("cuda").groups([toy(seed) for seed in range(8)])]
    assert sizes == [4, 4]


# what goes wrong ---------------------------------------------------------------------------------------------------


def test_one_member_fails_alone(tmp_path: Path) -> None:
    report, events = done([toy(seed) for seed in (12, 13, 14)], tmp_path)
    assert [spec.seed for spec in report.done] == [12, 14]
    assert [spec.seed for spec, _ in report.failed] == [13]
    assert report.failed[0][1].startswith("FloatingPointError: the loss became nan at step 3 (where: ")
    kinds = [event.kind for event in events if event.key == toy(12).identity]
    assert kinds == ["started", "progress", "finished"]


def test_a_batch_that_does_not_fit_into_memory_is_divided(tmp_path: Path) -> None:
    report, _ = done([toy(seed, what="no room") for seed in range(5)], tmp_path)
    assert len(report.done) == 5
    assert CALLS == [[0, 1, 2, 3, 4], [0, 1], [2, 3, 4], [2], [3, 4]]
    hopeless, _ = done([toy(seed, what="no room at all") for seed in range(2)], tmp_path)
    assert len(hopeless.done) == 2  # one after the other, as runs that are like no other


def test_an_error_of_a_batch_is_reported_for_each_run(tmp_path: Path) -> None:
    report, _ = done([*(toy(seed, what="broken") for seed in range(2)), toy(5), toy(6)], tmp_path)
    assert [sentence.split(" (where")[0] for _, sentence in report.failed] == ["These toys cannot be one."] * 2
    assert [spec.seed for spec in report.done] == [5, 6]


def test_an_error_of_one_run_is_not_that_of_the_others_of_its_batch(tmp_path: Path) -> None:
    report, _ = done([toy(seed, what="seed 2") for seed in range(4)], tmp_path)
    assert [(spec.seed, sentence.split(" (where")[0]) for spec, sentence in report.failed] == [
        (2, "seed 2 has a negative sigma")
    ]
    assert [spec.seed for spec in report.done] == [0, 1, 3]


def test_a_full_disk_ends_the_run_with_one_sentence(tmp_path: Path) -> None:
    report, _ = done([*(toy(seed, what="full") for seed in range(2)), toy(5), toy(6)], tmp_path)
    assert [len(part) for part in (report.done, report.failed, report.left)] == [0, 2, 2]
    assert report.trouble.startswith("The disk that holds")


def test_a_companion_is_found_by_its_name() -> None:
    assert find_batched(f"{__name__}:square") is square_batched
    assert find_batched(f"{__name__}:lonely") is None
    assert find_batched("nowhere:square") is None


# the Latin-square study --------------------------------------------------------------------------------------------


PUZZLES = {"rule": "entailment", "jaccard": "clue-pairs", "train": 300, "iid": 60, "ood": 30, "seed": 1}
MODEL = EncoderConfig(channels=6, classes=4, dim=16, depth=2, hidden=32, token_std=0.25)
TRAINING = TrainingConfig(epochs=3, batch=64, lr=1e-3, optimizer="adam", evaluate_every=1)


def planned(*labels: str, **changes: object) -> list[RunSpec]:
    """Two seeds of each variant of the study, small; `changes` go into the training."""
    found = []
    for label in labels:
        row = variants.variant(label)
        training = msgspec.to_builtins(TRAINING) | row.training | changes
        model = msgspec.to_builtins(MODEL) | row.model
        settings = {"data": PUZZLES, "train_size": 100, "row": msgspec.to_builtins(row), "model": model,
                    "training": training, "device": "cpu"}  # fmt: skip
        found += [
            execute.TRAIN.spec(study="s", variant=label, seed=seed, preset="quick", settings=settings)
            for seed in (0, 1)
        ]
    return found


def test_a_study_groups_its_runs() -> None:
    specs = planned("learned-0.2", "2d-fixed", "learned-2", "1d-fixed", "nope")
    found = [[(u.variant, u.seed) for u in group] for group in BatchedExecutor("cpu", 8).groups(specs)]
    assert sorted(map(sorted, found)) == sorted(
        [
            [("learned-0.2", 0), ("learned-0.2", 1), ("learned-2", 0), ("learned-2", 1)],
            [("2d-fixed", 0), ("2d-fixed", 1)],
            [("1d-fixed", 0), ("1d-fixed", 1)],
            [("nope", 0), ("nope", 1)],
        ]
    )
    first, slower, longer = (planned("learned-0.2", **own)[0] for own in ({}, {"lr": 0.1}, {"epochs": 4}))
    rough = msgspec.structs.replace(first, settings={**first.settings, "precision": "bfloat16"})
    assert [execute.group(first) == execute.group(other) for other in (slower, longer, rough)] == [True, False, False]


@pytest.mark.full
def test_runs_of_a_batch_have_the_results_of_single_runs(tmp_path: Path) -> None:
    """Metrics, curves, right answers and weights, of seeds and standard deviations."""
    alone, together = tmp_path / "alone", tmp_path / "together"
    specs = planned("learned-0.2", "learned-2", "relative")
    run(specs, Store(alone), InProcess(), emit=lambda event: None)
    report, _ = done(specs, together)
    assert (len(report.done), report.exit_code) == (6, 0)
    for spec in specs:
        ours, theirs = Store(together).read(spec.identity), Store(alone).read(spec.identity)
        assert ours.timing["together"] in (2, 4)
        assert ours.metrics == pytest.approx(theirs.metrics, abs=1e-5)
        assert [row["value"] for row in ours.curves] == pytest.approx([r["value"] for r in theirs.curves], abs=1e-5)
        assert (ours.arrays["right_ood"] == theirs.arrays["right_ood"]).all()
        assert ours.weights.keys() == theirs.weights.keys()
        for name, weight in theirs.weights.items():
            if not name.endswith("qkv.bias"):  # a key's bias moves no logit, so its gradient is rounding alone
                torch.testing.assert_close(ours.weights[name], weight, rtol=0, atol=1e-4)


def test_a_stopped_batch_continues_as_single_runs(tmp_path: Path) -> None:
    store = Store(tmp_path / "a")
    specs = planned("learned-0.2")

    def stop(event: Event) -> None:
        if event.kind == "progress" and event.step >= 4:
            raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("posenc.workbench.training.batched.REPORT_SECONDS", 0.0)
        patch.setattr("posenc.workbench.worker.PROGRESS_SECONDS", 0.0)
        original = execute.batched.train_batched
        patch.setattr(execute.batched, "train_batched", lambda *a, **k: original(*a, **k, checkpoint_seconds=0))
        with pytest.raises(runner.Interrupted):
            run(specs, store, BatchedExecutor("cpu", 8), emit=stop)
    assert all((store.workdir(spec) / "checkpoint.pt").exists() for spec in specs)
    run(specs, store, InProcess(), emit=lambda event: None)
    run(specs, Store(tmp_path / "b"), InProcess(), emit=lambda event: None)
    for spec in specs:
        assert store.read(spec.identity).metrics == pytest.approx(
            Store(tmp_path / "b").read(spec.identity).metrics, abs=1e-5
        )
