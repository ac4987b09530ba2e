"""Seeds of one variant with different settings: a page averages those of one setting, and names the others."""

from pathlib import Path
from typing import Any

import pytest

from posenc.workbench import provenance
from posenc.workbench.runs import Procedure, RunResult, RunSpec
from posenc.workbench.storage.selected_results import run_metrics
from posenc.workbench.storage.settings_checks import by_settings
from posenc.workbench.storage.store import Store
from posenc.workbench.studies.shared.lr_sweep import chosen_rate
from posenc.workbench.tables.metric_table import tables_of_runs

ORIGIN = {"command": "posenc run toy", "versions": {}, "machine": {}}


def train(spec: RunSpec, workdir: Path, report: object) -> RunResult:
    """Never executed."""
    raise AssertionError


PROCEDURE = Procedure("toy.train", 1, train)


def spec(seed: int, variant: str = "line", **settings: Any) -> RunSpec:
    return PROCEDURE.spec(study="toy", variant=variant, seed=seed, preset="quick", settings=settings)


def finish(store: Store, run: RunSpec, curves: Any = ()) -> RunSpec:
    store.finish(run, RunResult(metrics={"loss": float(run.seed)}, curves=list(curves)), {"seconds": 1.0}, ORIGIN, {})
    return run


def test_a_page_averages_seeds_of_one_setting_and_names_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, days = Store(tmp_path), iter(range(10, 30))
    monkeypatch.setattr(provenance, "now", lambda: f"2026-01-{next(days)}")
    early = [finish(store, spec(seed, training={"lr": 0.001, "epochs": 3})) for seed in (0, 1, 4)]
    late = [finish(store, spec(seed, training={"lr": 0.01})) for seed in (2, 3)]
    other = finish(store, spec(0, "plane", training={"lr": 0.5}))
    waiting = spec(5, training={"lr": 0.1})
    shown = by_settings(store, [*early, *late, other, waiting])
    assert shown.specs == [*late, other, waiting]
    (table,) = tables_of_runs(run_metrics(store, store.selected()))
    assert sorted((line.variant.split(" (")[0], line.seeds) for line in table.lines) == [
        ("line", 2), ("line", 3), ("plane", 1),
    ]  # fmt: skip
    assert len({line.variant for line in table.lines}) == 3
    assert shown.remarks == (
        "Left out, because they have other settings than the seeds that finished last: line, seeds 0 1 4 (training.lr "
        "0.001 in place of 0.01, training.epochs 3 in place of absent). To average all seeds, train them with "
        "the same settings in another store: the same posenc run command with another --out.",
    )


def test_sizes_of_parts_and_what_decides_no_result_may_differ(tmp_path: Path) -> None:
    store = Store(tmp_path)
    runs = [
        finish(store, spec(seed, items={"train": 10 + seed}, split="seed", device=device, lr=0.1))
        for seed, device in enumerate(("cpu", "cuda"))
    ]
    assert by_settings(store, runs) == (runs, ())


def test_a_sweep_chooses_no_rate_whose_score_is_not_a_number(tmp_path: Path) -> None:
    store = Store(tmp_path)
    scores = {0.1: float("nan"), 0.01: 0.4, 0.001: 0.55}
    training = {"best": {"metric": "accuracy", "mode": "max"}}
    sweep = {
        rate: finish(
            store,
            spec(0, training={**training, "lr": rate}),
            curves=[{"epoch": 1, "metric": "accuracy", "value": score}],
        )
        for rate, score in scores.items()
    }
    assert chosen_rate(store, sweep) == chosen_rate(store, dict(reversed(sweep.items()))) == 0.001
