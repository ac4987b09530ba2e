"""Claims judged by intervals: each verdict, the wrong direction, controls, settings, p-values, the document."""

import dataclasses
import math
import re

import pytest

from posenc.workbench import studies
from posenc.workbench.report.claims_document import claims_markdown
from posenc.workbench.report.claims_table import Claim, Quantity, claims_table, judge_claim, judge_claims
from posenc.workbench.report.estimators import (
    difference,
    difference_of_differences,
    equivalence,
    mean_over_seeds,
    rank_correlation,
    rank_correlation_by_seed,
    rank_correlation_with,
)
from posenc.workbench.report.page import Findings, Table, render_page
from posenc.workbench.report.result_rows import read_csv
from posenc.workbench.tables.export import as_csv

pytestmark = pytest.mark.bare


def rows_of(setting="main", metric="score", **scores):
    """scheme=(score of seed 0, of seed 1, ...)."""
    return [
        {"setting": setting, "scheme": name, "seed": seed, "metric": metric, "value": value}
        for name, seeds in scores.items()
        for seed, value in enumerate(seeds)
    ]


def claim(*quantities, controls=(), name="Order"):
    return Claim(
        name=name,
        source="a paper, Table 1",
        quote="a is better",
        about="Which is better.",
        quantities=quantities,
        control="Another setting could turn it round.",
        controls=controls,
        panel="Accuracy",
        command="posenc run latin-squares --preset quick",
    )


def verdict(rows, *quantities, controls=()):
    return judge_claim(claim(*quantities, controls=controls), rows).verdict


HIGH, LOW, NEAR = (0.80, 0.90, 1.00), (0.50, 0.50, 0.50), (0.79, 0.92, 0.98)
ROWS = rows_of(a=HIGH, b=LOW, c=NEAR)
GAP = difference("score", "a", "b")


def test_a_number_comes_from_one_file_where_one_file_has_all_its_seeds():
    first, second = rows_of(b=(0.1, 0.2, 0.3, 0.4)), rows_of(a=(0.9, 0.9, 0.9), b=(0.8, 0.8, 0.8))
    together = [*first, *rows_of(a=(0.9, 0.9, 0.9))]  # b counts once, as in the first file
    quantities = (Quantity("a − b", GAP, low=0.5), Quantity("b", mean_over_seeds("score", "b"), high=0.5))
    apart = judge_claim(claim(*quantities), together, files=[first, second]).measurements
    assert [round(each.estimate.mean, 6) for each in apart] == [0.1, 0.25]
    assert [each.estimate.n for each in apart] == [3, 4]
    mixed = judge_claim(claim(*quantities), together).measurements
    assert [round(each.estimate.mean, 6) for each in mixed] == [0.7, 0.25]
    (of_table, _) = judge_claims([claim(*quantities)], together, files=[first, second])[0].measurements
    assert of_table.estimate == apart[0].estimate
    text = claims_markdown([claim(*quantities)], {"quick": together}, files={"quick": [first, second]})
    assert "0.100 [0.100, 0.100]" in text
    fewer = [rows_of(b=(0.1,)), rows_of(a=(0.9,), b=(0.8,))]  # no file has all seeds of a − b
    (both, _) = judge_claim(claim(*quantities), together, files=fewer).measurements
    assert both == mixed[0]


def test_a_difference_by_hand():
    # 0.3, 0.4, 0.5: mean 0.4, sd 0.1, t(0.975, 2) = 4.3027: ± 0.2484
    found = GAP(ROWS)
    assert found is not None
    assert (found.mean, found.low, found.high) == pytest.approx((0.4, 0.1516, 0.6484), abs=1e-4)
    assert GAP.p_value(ROWS) is None


def test_every_verdict_follows_from_the_interval():
    assert verdict(ROWS, Quantity("a − b", GAP, low=0)) == "supported"
    assert verdict(ROWS, Quantity("a − b", GAP, high=0)) == "contradicted"
    assert verdict(ROWS, Quantity("a − b", GAP, low=0.2)) == "inconclusive"
    assert verdict(ROWS, Quantity("a − d", difference("score", "a", "d"), low=0)) == "not measured"


def test_the_wrong_direction_flips_the_verdict():
    assert verdict(ROWS, Quantity("b − a", difference("score", "b", "a"), low=0)) == "contradicted"
    assert verdict(ROWS, Quantity("b − a", difference("score", "b", "a"), high=0)) == "supported"
    turned = rows_of(a=LOW, b=HIGH, c=NEAR)
    assert verdict(turned, Quantity("a − b", GAP, low=0)) == "contradicted"


def test_a_control_can_refute_and_can_leave_open():
    said = Quantity("a − b", GAP, low=0)
    assert (
        verdict(ROWS, said, controls=(Quantity("level of b", mean_over_seeds("score", "c"), low=0.3),)) == "supported"
    )
    refuted = judge_claim(claim(said, controls=(Quantity("c", mean_over_seeds("score", "c"), high=0.2),)), ROWS)
    assert refuted.verdict == "contradicted"
    assert "the control c is 0.897" in refuted.reason
    open_ = judge_claim(claim(said, controls=(Quantity("c", mean_over_seeds("score", "c"), low=0.9),)), ROWS)
    assert open_.verdict == "inconclusive"
    assert open_.reason.replace("\u00a0", " ").endswith("the interval contains 0.9.")
    assert verdict(ROWS, said, controls=(Quantity("d", mean_over_seeds("score", "d"), low=0),)) == "not measured"


def test_all_quantities_have_to_agree_and_what_is_missing_is_named():
    up, down = Quantity("a − b", GAP, low=0), Quantity("a − c", difference("score", "a", "c"), low=0.5)
    assert verdict(ROWS, up, down) == "contradicted"
    gone = Quantity("a − d", difference("score", "a", "d"), low=0)
    judged = judge_claim(claim(up, down, gone), ROWS)
    assert judged.reason.startswith("no runs for a − d. The present runs contradict it: a − c is")


def test_one_seed_tells_nothing():
    judged = judge_claim(claim(Quantity("a − b", GAP, low=0)), rows_of(a=(0.9,), b=(0.1,)))
    assert judged.verdict == "inconclusive"
    assert "one seed, no interval" in judged.reason


def test_an_equivalence_is_judged_by_the_ninety_percent_interval():
    # c − a: −0.01, 0.02, −0.02; mean −0.00333, sd 0.02082, t(0.95, 2) = 2.9200: [−0.0384, 0.0318]
    near = equivalence("score", "c", "a")
    found = near(ROWS)
    assert found is not None
    assert (found.low, found.high, found.level) == pytest.approx((-0.0384, 0.0318, 0.9), abs=1e-4)
    assert verdict(ROWS, Quantity("c − a", near, -0.04, 0.04)) == "supported"
    assert verdict(ROWS, Quantity("c − a", near, -0.03, 0.03)) == "inconclusive"
    assert verdict(ROWS, Quantity("a − b", equivalence("score", "a", "b"), -0.1, 0.1)) == "contradicted"


def test_schemes_of_another_setting_are_found_by_their_label():
    rows = ROWS + rows_of("more data", a=(0.9, 0.9, 0.9), b=(0.8, 0.8, 0.8))
    there, across = difference("score", "a", "b", "more data"), difference("score", "b", "b", "more data", "main")
    assert dataclasses.astuple(there(rows)) == pytest.approx((0.1, 0, 0.1, 0.1, 3, 0.95))
    assert dataclasses.astuple(across(rows)) == pytest.approx((0.3, 0, 0.3, 0.3, 3, 0.95))
    level = mean_over_seeds("score", "a", "more data")(rows)
    assert level is not None
    assert level.mean == pytest.approx(0.9)
    # gaps 0.3, 0.4, 0.5 in the main setting and 0.1 each in the other: 0.3 on average
    shrinks = difference_of_differences("score", ("a", "b"), "main", "more data")(rows)
    assert shrinks is not None
    assert (shrinks.mean, shrinks.n) == (pytest.approx(0.3), 3)
    assert difference_of_differences("score", ("a", "b"), "main", "elsewhere")(rows) is None


def test_rank_correlations_over_schemes_by_hand():
    y = {"a": 0.2, "b": 0.1, "c": 0.4, "d": 0.3, "e": 0.5}
    rows = rows_of(**{name: (value, value) for name, value in y.items()})
    rows += rows_of(metric="distance", **{name: (place, place + 1) for place, name in enumerate(y)})
    rows += rows_of(metric="norm", **dict(zip(y, ((1,), (2,), (3,), (5,), (4,)), strict=True)))
    plain = rank_correlation("distance", "score", [*y, "gone"])
    found, parameter = plain(rows), rank_correlation_with("score", dict(zip(y, range(5), strict=True)))(rows)
    partial = rank_correlation("distance", "score", list(y), "norm")(rows)
    assert found is not None
    assert parameter is not None
    assert partial is not None
    assert (found.rho, found.n) == (pytest.approx(0.8), 5)  # 1 − 6 · 4 / (5 · 24)
    assert parameter.rho == pytest.approx(0.8)
    assert partial.rho == pytest.approx(0.26 / math.sqrt(0.19 * 0.64))
    assert plain([row for row in rows if row["scheme"] in "abc"]) is None
    judged = judge_claim(claim(Quantity("ρ", plain, low=0.99)), rows)
    assert judged.verdict == "inconclusive"
    assert "5 of 6 encodings" in judged.measurements[0].text.replace("\u00a0", " ")
    assert judged.seeds == "2"


def test_rank_agreement_is_of_each_seed_by_hand():
    order = dict(zip("abcde", range(5), strict=True))
    rows = rows_of(a=(0.2, 1.0), b=(0.1, 2.0), c=(0.4, 3.0), d=(0.3, 4.0), e=(0.5, 5.0))
    found = rank_correlation_by_seed("score", order)(rows)
    assert found is not None
    assert (found.mean, found.n) == (pytest.approx(0.9), 2)  # 0.8 and 1
    assert rank_correlation_by_seed("score", {**order, "gone": 9})(rows) is None
    norms = dict(zip("abcde", ((1, 1), (2, 2), (3, 4), (5, 5), (4, 3)), strict=True))
    partial = rank_correlation_by_seed("score", order, "norm")(rows + rows_of(metric="norm", **norms))
    assert partial is not None
    assert partial.mean == pytest.approx((0.26 / math.sqrt(0.19 * 0.64) + 1) / 2)


def test_p_values_need_five_seeds_and_are_corrected_over_the_table():
    # differences of 1 … 5: t = 3 / (1.5811 / √5) = 4.2426, p = 0.01324 with 4 degrees of freedom
    five = rows_of(a=(1.0, 2.0, 3.0, 4.0, 5.0), b=(0.0,) * 5, c=(0.2, 0.1, -0.2, -0.1, 0.1), d=(0, 0))
    claims = [
        claim(Quantity("a − b", GAP, low=0), name="one"),
        claim(Quantity("b − c", difference("score", "b", "c"), low=0), name="two"),
        claim(Quantity("a − d", difference("score", "a", "d"), low=0), name="three"),
    ]
    alone = judge_claim(claims[0], five).measurements[0]
    assert (alone.p, alone.corrected) == (pytest.approx(0.01324, abs=1e-5), False)
    one, two, three = (judged.measurements[0] for judged in judge_claims(claims, five))
    assert one.p == pytest.approx(2 * 0.01324, abs=1e-5)
    assert one.text.endswith("n = 5 seeds, p = 0.026 (Holm)")
    assert two.p is not None
    assert two.p > 0.5
    assert three.p is None


def test_the_panel_shows_every_claim_and_renders():
    claims = [
        claim(Quantity("a − b", GAP, low=0), name="Upper <b>"),
        claim(Quantity("a − b", GAP, high=0), name="Lower"),
        claim(Quantity("a − b", GAP, low=0.2), name="Large"),
        claim(Quantity("a − d", difference("score", "a", "d"), low=0), name="Gone"),
    ]
    panel = claims_table(claims, ROWS)
    findings = next(block for block in panel.blocks if isinstance(block, Findings))
    assert findings.title == "1 of 4 claims supported, 1 contradicted, 1 inconclusive, 1 not measured"
    assert [(item.tone, item.word) for item in findings.items] == [
        ("yes", "Supported"),
        ("no", "Contradicted"),
        ("unsure", "Inconclusive"),
        ("absent", "Not measured"),
    ]
    table = next(block for block in panel.blocks if isinstance(block, Table))
    assert table.rows[1][2:] == ("< 0", "0.400\u00a0[0.152,\u00a00.648], n = 3 seeds", "outside")
    text = render_page(title="T", lead="L", panels=[panel], footer="F")
    assert "“a is better” (a paper, Table 1)" in text
    assert "Upper &lt;b&gt;" in text
    assert "Control: Another setting" in text
    shown, folded = text.split("<details><summary>Not measured: 1</summary>")
    assert "<b>Large:</b>" in shown
    assert "<b>Gone:</b>" in folded
    assert "<b>Gone:</b>" not in shown


def test_a_foreign_quotation_stands_after_what_it_says_in_english():
    foreign = dataclasses.replace(
        claim(Quantity("a − b", GAP, low=0)), quote="a更好", english="a is good", lang="zh-Hans"
    )
    text = render_page(title="T", lead="L", panels=[claims_table([foreign], ROWS)], footer="F")
    first = text.index("“a is good” (translated; a paper, Table 1)")
    assert first < text.index('<p class="note" lang="zh-Hans">“a更好”</p>')
    assert "> “a is good” (translated)\n>\n> “a更好”\n>\n> a paper, Table 1\n" in claims_markdown(
        [foreign], {"quick": ROWS}
    )


def test_every_foreign_quotation_of_a_study_is_translated():
    for study in studies.studies().values():
        for each in study.claims:
            in_english, _, _ = each.quote.partition("(")  # what follows may be the original
            assert each.english or not re.search("[\u4e00-\u9fff]", in_english), each.name


def test_the_document_has_a_verdict_per_scale_and_is_the_same_twice():
    claims = [claim(Quantity("a − b", GAP, low=0)), claim(Quantity("a − b", GAP, low=0.5, high=2), name="Gap | wide")]
    scales = {"quick": ROWS, "paper": rows_of(a=(0.9, 0.91, 0.92, 0.93, 0.9), b=(0.1, 0.2, 0.1, 0.1, 0.2))}
    text = claims_markdown(claims, scales, notes=("A note. " * 40,))
    assert text == claims_markdown(claims, scales, notes=("A note. " * 40,))
    lines = text.splitlines()
    assert "| claim | quick | paper |" in lines
    assert "| [Order](#order) | supported | supported |" in lines
    assert "| [Gap \\| wide](#gap--wide) | inconclusive | supported |" in lines
    assert text.endswith("```\n")
    beside = {"paper": [Table("Again", ("Row", "Here"), (("a", "1 | 2"),), "A note.")]}
    with_table = claims_markdown(claims, scales, notes=("A note. " * 40,), tables=beside)
    assert with_table == text + "\n## Again (paper)\n\n| Row | Here |\n| --- | --- |\n| a | 1 \\| 2 |\n\nA note.\n"
    assert not text.endswith("\n\n")
    assert max(len(line) for line in lines if not line.startswith("|")) <= 120
    row = next(line for line in lines if line.startswith("| quick | 3 |"))
    assert row == (
        "| quick | 3 | 0.400 [0.152, 0.648], n = 3 seeds | **supported** | a − b is 0.400 [0.152, 0.648], > 0. |"
    )
    assert "> “a is better”\n>\n> a paper, Table 1\n" in text
    assert "1. a − b between 0.5 and 2\n" in text
    assert "```sh\nposenc run latin-squares --preset quick\n```" in text
    assert re.search(r"^Control: Another", text, re.MULTILINE)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: claim(), "no quantity, so nothing could refute it"),
        (lambda: dataclasses.replace(claim(Quantity("a", GAP, low=0)), lang="fr"), "gives lang alone"),
        (lambda: Quantity("a", GAP), "The claimed range of 'a' must exclude some numbers"),
        (lambda: Quantity("a", GAP, low=1, high=0), "low below high"),
        (lambda: judge_claims([claim(Quantity("a", GAP, low=0))] * 2, ROWS), "called 'Order'"),
        (lambda: claims_markdown([], {"quick": ROWS}), "got 0 and 1"),
    ],
)
def test_invalid_claims_are_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_no_claims_are_said():
    assert "No claims" in claims_table([], ROWS).blocks[0].paragraphs[0]


def test_a_file_of_results_reads_back(tmp_path):
    path = tmp_path / "results.csv"
    stored = [{"study": "s", "preset": "quick", "unit": "u", **row} for row in ROWS]
    stored[0]["value"] = 1 / 3
    path.write_text(as_csv(stored), encoding="utf-8")
    assert read_csv(path) == [row | {"data": "", "digest": "", "code": ""} for row in stored]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,b\n1,2\n", "lacks the columns setting, scheme"),
        ("", "has no rows"),
        ("setting,scheme,seed,metric,value\nmain,a,one,m,2\n", "line 2: seed 'one' and value '2' are not both numbers"),
    ],
)
def test_a_file_of_something_else_is_refused(tmp_path, text, message):
    path = tmp_path / "results.csv"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=message):
        read_csv(path)
    with pytest.raises(ValueError, match=r"there is no file .*none.csv"):
        read_csv(tmp_path / "none.csv")
