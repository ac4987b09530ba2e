"""Panels say what their rows say, sort by what they show, and name what is missing."""

import pytest

from posenc.measure.statistics import Estimate, t_interval
from posenc.workbench.report.accuracy_panels import (
    accuracy_by_class,
    accuracy_by_scheme,
    condition_contrast,
    learning_curves,
)
from posenc.workbench.report.number_format import interval, number, signed_number
from posenc.workbench.report.page import Facts, FigureGroup, Findings, Table, Text
from posenc.workbench.report.provenance_panel import provenance_panel
from posenc.workbench.report.published_tables import published_comparison, reproduction_table
from posenc.workbench.report.result_rows import values_by_scheme

pytestmark = pytest.mark.bare


def block_of(panel, kind):
    return next(block for block in panel.blocks if isinstance(block, kind))


def row(scheme, seed, value, setting="main", metric="accuracy_ood"):
    return {"scheme": scheme, "seed": seed, "metric": metric, "setting": setting, "value": value}


def test_numbers_as_text():
    assert (number(0.876), number(-0.04), number(-0.001), number(float("nan"))) == ("0.88", "−0.04", "0.00", "–")
    assert (number(2.14e-8, 6), number(2.14e-8, 3), number(-1e-17, 6)) == ("2.1e−08", "0.000", "0.000000")
    assert signed_number(-2.14e-8, 6) == "−2.1e−08"
    assert (signed_number(0.1), signed_number(-0.1), signed_number(-0.001)) == ("+0.10", "−0.10", "+0.00")


def test_interval_is_cut_to_what_an_accuracy_can_be():
    assert t_interval([0.99, 0.90, 0.95]).high > 1
    assert interval(t_interval([0.99, 0.90, 0.95], bounds=(0, 1))).replace("\u00a0", " ").endswith(", 1.00]")
    rows = [row("rope", 0, 0.99), row("rope", 1, 0.90), row("nope", 0, 0.02), row("nope", 1, 0.5)]
    table = block_of(accuracy_by_scheme(rows, metrics={"accuracy_ood": "Unseen"}, chance=0.25), FigureGroup).table
    assert [line[4].replace("\u00a0", " ") for line in table.rows] == ["[0.373, 1.000]", "[0.000, 1.000]"]


def test_two_values_for_one_unit_are_refused():
    with pytest.raises(ValueError, match="filter the rows by study and preset"):
        values_by_scheme([row("rope", 0, 0.5), row("rope", 0, 0.6)], "accuracy_ood")


def test_accuracy_shows_every_seed_of_both_metrics_best_scheme_first(study):
    panel = accuracy_by_scheme(study.results, metrics={"accuracy_ood": "Unseen", "accuracy_iid": "Seen"}, chance=0.25)
    pictures = block_of(panel, FigureGroup)
    assert [picture.title for picture in pictures.figures] == ["Unseen", "Seen"]
    table = pictures.table
    assert len(table.rows) == 22
    means = [float(cells[2]) for cells in table.rows if cells[1] == "Unseen"]
    assert means == sorted(means, reverse=True)
    assert all(cells[5].count(":") == 3 for cells in table.rows)


def test_a_scheme_without_a_seed_in_one_metric_keeps_its_row():
    rows = [row("rope", 0, 0.5), row("rope", 1, 0.6), row("nope", 0, 0.3, metric="accuracy_iid")]
    panel = accuracy_by_scheme(rows, metrics={"accuracy_ood": "Unseen", "accuracy_iid": "Seen"}, chance=0.25)
    svg = block_of(panel, FigureGroup).figures[0].svg
    assert "no finished run" in svg
    assert "nope" in svg


def test_classes_keep_one_order(study):
    panel = accuracy_by_class(
        study.results,
        metrics={f"accuracy_ood_{k}": f"{k}-vector" for k in (1, 2, 3)},
        chance=0.25,
        order_by="accuracy_ood",
    )
    order = [
        [cells[0] for cells in block_of(panel, FigureGroup).table.rows if cells[1] == f"{k}-vector"] for k in (1, 2)
    ]
    assert order[0] == order[1]
    assert order[0][0] == "2d-fixed"


@pytest.mark.full
def test_learning_curves_have_one_picture_per_scheme_and_a_band_for_many_seeds(study, new_study):
    metrics = {"accuracy_ood": "unseen", "accuracy_train": "training"}
    together, few = learning_curves(study.curves, metrics=metrics).blocks
    many = learning_curves(new_study(seeds=8).curves, metrics=metrics).blocks[1]
    assert len(together.figures) == 1  # all encodings on one axis, as papers draw them
    assert [cells[0] for cells in together.table.rows] == [figure.title for figure in few.figures]
    assert together.figures[0].svg.count("learned-0.2") == 1
    (alone,) = learning_curves([row for row in study.curves if row["scheme"] == "rope"], metrics=metrics).blocks
    assert len(alone.figures) == 1
    assert len(few.figures) == len(many.figures) == 11
    assert "Thin lines: single seeds" in few.key
    assert "Band: minimum to maximum over seeds" in many.key
    assert few.table.columns[2:] == tuple(f"Epoch {epoch}" for epoch in range(10, 90, 10))


def test_published_numbers_are_labelled_and_ranked_among_shared_schemes():
    rows = [row(name, seed, value) for name, value in (("a", 0.9), ("b", 0.8), ("own", 0.7)) for seed in (0, 1)]
    panel = published_comparison(
        rows, metric="accuracy_ood", published={"b": (0.95, 0.01), "a": (0.9, 0.02), "c": (0.5, 0.1)}, source="a paper"
    )
    table = block_of(panel, Table)
    assert "different model and scale" in table.caption
    assert "different model and scale" in table.columns[2]
    by_name = {cells[0]: cells[1:] for cells in table.rows}
    assert by_name["a"][2:] == ("1", "2", "+0.0")
    assert by_name["b"][2:] == ("2", "1", "−15.0")  # (0.80 − 0.95) / 0.01
    assert by_name["own"][1:] == ("not published", "–", "–", "–")
    assert by_name["c"][:2] == ("not run", "0.500 ± 0.100")


def test_published_runs_give_a_bound_and_a_corrected_test():
    near, far = (0.89, 0.92, 0.90, 0.93, 0.91), (0.70, 0.80, 0.75, 0.78, 0.72)
    rows = [row(name, seed, value) for name, own in (("a", near), ("b", far)) for seed, value in enumerate(own)]
    rows += [row("few", seed, 0.5) for seed in range(3)]
    published = {"a": (0.95, 0.05), "b": (0.95, 0.05), "few": (0.5, 0.1)}
    panel = published_comparison(rows, metric="accuracy_ood", published=published, source="a paper", n_published=15)
    by_name = {cells[0]: cells[5:] for cells in block_of(panel, Table).rows}
    # the mean of a is 0.91, of b 0.75; 2 · 0.05 · √(1/15 + 1/5) = 0.0516
    assert by_name["a"][0] == "−0.8"
    assert by_name["b"][0] == "−4.0"
    assert by_name["a"][1].replace("\u00a0", " ") == "yes: 0.040 ≤ 0.052"
    assert by_name["b"][1].replace("\u00a0", " ") == "no: 0.200 > 0.052"
    # Welch for a: se² = 0.05²/15 + 0.0158²/5 = 0.000217, t = −0.04 / 0.0147 = −2.72 with 17.9 degrees of freedom,
    # p = 0.0141; of two tests the larger p stays as it is
    assert by_name["a"][2] == "p = 0.014"
    assert by_name["b"][2] == "p < 0.001"
    assert by_name["few"][2] == "–"
    assert "over 2 rows. No p-value with fewer than 5 seeds" in block_of(panel, Table).note


def test_a_model_trained_again_is_held_against_every_published_number_at_once():
    published = {"far": {"a": (0.9, 0.05), "b": (0.5, 0.1)}, "near": {"a": (0.99, 0.01), "b": (0.7, 0.1)}}
    rows = [row("a", seed, 0.8 + 0.01 * seed) | {"metric": "far"} for seed in range(3)]
    rows += [row("b", seed, 0.72) | {"metric": "near"} for seed in range(3)]
    rows += [row("b", 0, 0.1) | {"metric": "far", "setting": "elsewhere"}]
    named = {"far": "far puzzles", "near": "near puzzles"}
    table = reproduction_table(rows, published=published, metric_names=named, source="a paper", n_published=15)
    assert table is not None
    # a: 0.81 - 0.90 = -0.09; bound 2 * 0.05 * sqrt(1/3 + 1/15) = 0.0632; t = -2.846, p = 0.0129, twice by Holm
    # b: 0.72 - 0.70; t = 0.02 / 0.0632 = 0.316, p = 0.756
    assert [cells[:2] + cells[4:] for cells in table.rows] == [
        ("a", "far puzzles", "−0.090", "0.063", "no", "p = 0.026"),
        ("b", "near puzzles", "+0.020", "0.126", "yes", "p = 0.756"),
    ]
    assert "14 degrees of freedom and is corrected by Holm's method over 2 rows" in table.note
    assert reproduction_table([], published=published, metric_names=named, source="a paper", n_published=15) is None


def test_intervals_of_another_kind_are_drawn_and_named():
    rows = [row(name, seed, value) for name, value in (("a", 0.9), ("b", 0.5)) for seed in range(10)]
    plain = accuracy_by_scheme(rows, metrics={"accuracy_ood": "Unseen"}, chance=0.25)
    wide = Estimate(0.9, 0.0, 0.61, 0.97, 10, 0.95)
    both = {"accuracy_ood": {"a": wide, "b": Estimate(0.5, 0.0, 0.33, 0.62, 10, 0.95)}}
    other, mixed = (
        block_of(
            accuracy_by_scheme(rows, metrics={"accuracy_ood": "Unseen"}, chance=0.25, intervals=given), FigureGroup
        )
        for given in (both, {"accuracy_ood": {"a": wide}})
    )
    assert "95% t-interval of the mean over seeds" in block_of(plain, FigureGroup).key
    assert "hierarchical bootstrap over seeds and items, clipped" in other.key
    assert "t-interval" not in other.key
    assert "marked t in the table: 95% t-interval" in mixed.key
    cells = [row[4].replace("\u00a0", " ") for row in mixed.table.rows]
    assert cells == ["[0.610, 0.970]", "[0.500, 0.500] t"]
    # the axis is 360 − 52 − 40 wide and starts at 52: 0.61 lies at 215.5
    assert "215.48" in other.figures[0].svg
    assert "215.48" not in block_of(plain, FigureGroup).figures[0].svg


@pytest.mark.parametrize(
    ("second", "sentence"),
    [
        ((0.80, 0.82, 0.79), "the gap is smaller and its interval contains 0"),
        ((0.70, 0.71, 0.70), "the gap is smaller but remains"),
        ((0.10, 0.11, 0.12), "the gap is larger, by +0.30"),
        ((0.40, 0.44, 0.40), "a change is not shown (+0.00"),
        ((0.95, 0.96, 0.96), "the order is reversed"),
    ],
)
def test_contrast_says_what_became_of_the_gap(second, sentence):
    high, low = (0.80, 0.81, 0.80), (0.40, 0.42, 0.41)
    rows = [row("a", seed, high[seed], setting) for setting in ("main", "more") for seed in range(3)]
    rows += [row("b", seed, low[seed]) for seed in range(3)]
    rows += [row("b", seed, second[seed], "more") for seed in range(3)]
    panel = condition_contrast(
        rows, metric="accuracy_ood", conditions={"main": "Few", "more": "Many"}, pairs=[("a", "b")], chance=0.25
    )
    text = block_of(panel, Text)
    assert "was selected" in text.paragraphs[0]
    assert sentence in text.paragraphs[1]


def test_contrast_without_its_second_setting_says_so(study):
    rows = [cells for cells in study.results if cells["setting"] == "main"]
    panel = condition_contrast(
        rows, metric="accuracy_ood", conditions={"main": "Few", "more": "Many"}, pairs=[], chance=0.25
    )
    assert "was not run" in block_of(panel, Text).paragraphs[1]


def test_provenance_names_what_is_missing_and_mixed(study):
    specs = [dict(study.specs[0]), {**study.specs[1], "commit": "abc", "dirty": True}, {"unit": "bare"}]
    panel = provenance_panel(specs, planned=6, missing=[{"unit": "main/rope/2", "reason": "diverged"}])
    facts = dict(block_of(panel, Facts).items)
    assert facts["Runs"] == ("3 of 6 finished, 1 without a result",)
    assert "abc, with uncommitted changes (1 run)" in facts["Code"]
    assert "This page shows runs of different code versions." in facts["Code"]
    assert "recorded by 2 of 3 runs" in facts["Computing time"][0]
    assert block_of(panel, Table).rows == (("main/rope/2", "diverged"),)
    assert "2 planned runs neither finished nor failed" in block_of(panel, Text).paragraphs[0]


def test_provenance_of_nothing_is_not_recorded():
    facts = dict(block_of(provenance_panel([]), Facts).items)
    assert facts["Command"] == facts["Versions"] == facts["Finished"] == ("not recorded",)


def test_the_first_panel_judges_the_predictions(study, new_panels):
    findings = block_of(new_panels(study)[0], Findings)
    assert findings.title == "Predictions made before the run"
    assert findings.intro.startswith("3 of 5 came true, 1 reversed, 1 inconclusive.")


def test_a_gap_that_grows_below_zero_is_not_reversed():
    """It was called reversed, because the second difference is the lower one."""
    low, high, lower = (0.40, 0.41, 0.39), (0.50, 0.52, 0.50), (0.30, 0.31, 0.29)
    rows = [row("a", seed, low[seed]) for seed in range(3)] + [row("b", seed, high[seed]) for seed in range(3)]
    rows += [row("a", s, lower[s], "more") for s in range(3)] + [row("b", s, high[s], "more") for s in range(3)]
    panel = condition_contrast(
        rows, metric="accuracy_ood", conditions={"main": "Few", "more": "Many"}, pairs=[("a", "b")], chance=0.25
    )
    assert "the gap is larger, by −0.10" in block_of(panel, Text).paragraphs[1]
