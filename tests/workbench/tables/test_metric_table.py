"""Tables of means: intervals, metrics of the answer, metrics that are left out; curves with one row per point."""

from __future__ import annotations

import csv
import io
import math

import numpy as np
import pytest

from posenc.workbench import ResultTable, RunResult, RunSpec, Store, results, studies
from posenc.workbench.tables.curve_table import ArrayAxis, as_csv, curve_rows
from posenc.workbench.tables.metric_table import main_metrics, mean_text, metric_tables

pytestmark = pytest.mark.bare


def rows(study: str, values: dict[str, tuple[float, ...]], **labels: str) -> list[dict]:
    plain = {"study": study, "preset": "quick", "setting": "main", "scheme": "rope", "unit": "1f"} | labels
    return [
        plain | {"seed": seed, "metric": metric, "value": value}
        for metric, each in values.items()
        for seed, value in enumerate(each)
    ]


@pytest.mark.parametrize(
    ("values", "metric", "text"),
    [
        ((2.10, 2.14, 2.18), "loss", "2.14 [2.04, 2.24]"),
        ((0.98, 1.0), "accuracy", "0.99 [0.86, 1.00]"),
        ((95552.0, 95552.0), "parameters", "95,552"),
        ((1211.4, 1230.9), "tokens_a_second", "1,221 [1,097, 1,345]"),
        ((2.48, 2.48), "loss", "2.480"),
        ((0.4525,), "accuracy", "0.453"),
        ((1.34e-4,), "chamfer", "0.000134"),
        ((5e-10, 5e-10), "chamfer", "5.0e-10"),
        ((0.1, math.nextafter(0.1, 1)), "accuracy", "0.100"),
        ((2e9, 2e9 + 1e-6), "parameters", "2,000,000,000"),
        ((1.0, math.nan), "chamfer", "1.000 (1 of 2 seeds finite)"),
        ((math.nan,), "chamfer", "not finite (0 of 1 seeds finite)"),
        ((), "loss", ""),
    ],
)
def test_a_mean_has_its_interval_or_none(values: tuple[float, ...], metric: str, text: str) -> None:
    assert mean_text(values, metric) == text


def test_the_metrics_of_the_answer_are_shown_and_the_others_are_named() -> None:
    known = dict.fromkeys(("loss", "loss_at_x1", "loss_at_x16", "loss_at_x8", "moved", "parameters"), (1.0, 2.0))
    (table,) = metric_tables(rows("language", known), {"language": studies.find("language").metrics})
    assert table.metrics == ("loss", "loss_at_x16")
    assert table.left_out == ("loss_at_x1", "loss_at_x8", "moved", "parameters")
    assert table.omission == "Left out: 4 of 6 metrics (loss_at_x1, loss_at_x8, moved, parameters)."
    (every,) = metric_tables(rows("language", known), every=True)
    assert (len(every.metrics), every.omission) == (6, "")
    (chosen,) = metric_tables(rows("language", known), metrics=["moved"])
    assert chosen.metrics == ("moved",)
    with pytest.raises(ValueError, match=r"no metric 'loss_at_x7' in these results\. Did you mean loss_at_x"):
        metric_tables(rows("language", known), metrics=["loss_at_x7"])


def test_studies_presets_and_copies_are_apart() -> None:
    both = [*rows("toy", {"a": (1.0, 2.0)}), *rows("toy", {"a": (5.0, 6.0)}, unit="1f.2"), *rows("own", {"b": (1.0,)})]
    first, second = metric_tables(both)
    assert [(line.variant, line.seeds) for line in first.lines] == [("rope", 2), ("rope (copy 2)", 2)]
    assert second.metrics == ("b",)


def test_lines_stand_in_the_order_of_the_first_run_of_each_though_runs_alternate() -> None:
    labels = [
        ("rope", "1f", "aa"),
        ("none", "2f", "aa"),
        ("rope", "3f", "bb"),
        ("rope", "4f.2", "bb"),
        ("none", "5f", ""),
    ]
    every = [
        row | {"seed": seed, "code": code}
        for seed, (scheme, unit, code) in enumerate(labels)
        for row in rows("toy", {"a": (1.0 + seed,), "b": (2.0,)}, scheme=scheme, unit=unit)
        if (scheme, row["metric"], code) != ("rope", "b", "bb")
    ]
    (table,) = metric_tables(every, every=True)
    assert [(line.variant, dict(line.values), line.runs) for line in table.lines] == [
        ("rope (code aa)", {"a": {0: 1.0}}, ("1f",)),
        ("rope", {"b": {0: 2.0}}, ("1f",)),
        ("none", {"a": {1: 2.0, 4: 5.0}, "b": {1: 2.0, 4: 2.0}}, ("2f", "5f")),
        ("rope (code bb)", {"a": {2: 3.0}}, ("3f",)),
        ("rope (copy 2) (code bb)", {"a": {3: 4.0}}, ("4f.2",)),
    ]


def test_rows_are_written_as_they_come_and_no_file_without_rows(tmp_path) -> None:
    store, written = Store(tmp_path / "runs"), tmp_path / "table.csv"
    open_files = list[int]()

    def every():
        for row in rows("toy", {"a": (1.0, 2.0)}):
            open_files.append(len([*tmp_path.glob(".table*.part.csv")]))
            yield row | {"data": "", "digest": "", "code": ""}

    store.write_rows(every(), written, "csv")
    assert open_files == [0, 1]  # The file is begun before the second row is made.
    assert len(written.read_text().splitlines()) == 3
    with pytest.raises(ValueError, match="There is nothing to export"):
        store.write_rows([], tmp_path / "none.csv", "csv")
    assert not (tmp_path / "none.csv").exists()


def stored_names() -> dict[str, set[str]]:
    """Study to the names of the metrics in the committed results."""
    from pathlib import Path

    known: dict[str, set[str]] = {}
    for path in (Path(__file__).parents[3] / "results").glob("*.csv"):
        for row in csv.DictReader(io.StringIO(path.read_text(encoding="utf-8"))):
            known.setdefault(row["study"], set()).add(row["metric"])
    return known


def test_every_study_names_metrics_that_it_stores() -> None:
    known = stored_names()
    known["language"].add("bits_per_byte")  # The stored pages were made before it was measured.
    known["places"].add("accuracy")  # The stored table has values to predict, no classes.
    for name, study in studies.studies().items():
        assert study.metrics, name
        for metric in study.metrics:
            assert main_metrics([metric], sorted(known[name])), (name, metric)


def test_predicted_metrics_are_stored_and_can_be_shown(tmp_path) -> None:
    store = Store(tmp_path / "runs")
    for seed in (0, 1):
        spec = RunSpec(study="toy", variant="rope", seed=seed, preset="quick", procedure="toy.train", settings={})
        curve = [{"epoch": 1, "metric": "loss", "value": 2.0}]
        arrays = {"loss_by_context": np.array([3.0, 2.5 - seed]), "other": np.zeros(3)}
        store.finish(spec, RunResult(metrics={"loss": 2.0 + seed}, curves=curve, arrays=arrays), {"seconds": 1.0})
    about = {"toy": {"loss_by_context": ArrayAxis("loss", "context length (tokens)", 1, 1)}}
    points = list(csv.DictReader(io.StringIO(as_csv(curve_rows(store, about)))))
    assert [(row["seed"], row["axis"], row["x"], row["value"]) for row in points] == [
        ("0", "epoch", "1", "2.0"),
        ("1", "epoch", "1", "2.0"),
        ("0", "context length (tokens)", "1", "3.0"),
        ("0", "context length (tokens)", "2", "2.5"),
        ("1", "context length (tokens)", "1", "3.0"),
        ("1", "context length (tokens)", "2", "1.5"),
    ]
    assert curve_rows(store, about, study="other") == []
    assert [row["metric"] for row in results(metrics=["loss"], out=store.root)] == ["loss", "loss"]
    with pytest.raises(ValueError, match=r"no metric 'los'.*Did you mean loss"):
        results(metrics=["los"], out=store.root)
    html = ResultTable(store.results())._repr_html_()
    assert "<td>2.5 [0.0, 8.9]</td>" in html
    assert "Mean over seeds [95% t-interval]" in html
