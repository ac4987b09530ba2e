"""Curves over a number: the numbers drawn are those passed, names never meet, many series part into small pictures."""

import itertools
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posenc.workbench.report.label_placement import place_point_labels, place_stacked_labels
from posenc.workbench.report.line_plot import line_plot
from posenc.workbench.report.page import FigureGroup, Text

pytestmark = pytest.mark.bare

DRAWN = {"title": "Noise", "x_label": "noise", "y_label": "accuracy"}


def block(panel):
    return next(found for found in panel.blocks if isinstance(found, FigureGroup))


def flat(value, seeds=3):
    return {0.0: dict.fromkeys(range(seeds), value), 1.0: dict.fromkeys(range(seeds), value)}


def test_names_that_would_meet_are_pushed_apart_about_their_middle():
    assert place_stacked_labels([0, 0], [2, 2], -10, 10) == [-1, 1]
    # 5 and 5.5 with a height of 1 want lower edges 4.5 and 5; together their block starts at (4.5 + 4) / 2
    assert place_stacked_labels([5, 5.5, 0], [1, 1, 1], -10, 10) == pytest.approx([4.75, 5.75, 0])
    assert place_stacked_labels([9.9], [1], 0, 10) == pytest.approx([9.5])
    assert place_stacked_labels([10, 9], [2, 2], 0, 10) == pytest.approx([9, 7])


@given(st.lists(st.floats(0, 100), min_size=1, max_size=8))
def test_spans_never_meet_and_keep_their_order(wanted):
    placed = place_stacked_labels(wanted, [10] * len(wanted), 0, 100)
    order = sorted(range(len(wanted)), key=lambda i: (wanted[i], i))
    for below, above in itertools.pairwise(order):
        assert placed[above] - placed[below] >= 10 - 1e-6
    assert min(placed) >= 5 - 1e-6
    assert max(placed) <= 95 + 1e-6


def test_names_beside_points_stay_off_each_other_and_off_the_points():
    points = [(50.0 + 3 * i, 50.0) for i in range(5)]
    places = place_point_labels(points, ["name"] * 5, 10, (0, 0, 200, 100))
    boxes = [(left, middle - 6.25, left + 24, middle + 6.25) for left, middle in places]
    for i, a in enumerate(boxes):
        assert not any(a[0] < x < a[2] and a[1] < y < a[3] for x, y in points)
        for b in boxes[:i]:
            assert min(a[2], b[2]) <= max(a[0], b[0]) + 1e-9 or min(a[3], b[3]) <= max(a[1], b[1]) + 1e-9


def test_a_hair_to_a_name_runs_through_no_other_point():
    # the nearest free places are 30 to the right, behind the other point, and 30 above: a name 30 wide, 12.5 high
    points, wall = [(50.0, 50.0), (70.0, 50.0)], (20.0, 10.0, 78.0, 75.0)
    first, _ = place_point_labels(points, ["a" * 5, "b"], 10, (0, 0, 200, 100), [wall])
    assert first == pytest.approx((35, 86.25))
    alone, *_ = place_point_labels(points[:1], ["a" * 5], 10, (0, 0, 200, 100), [wall])
    assert alone == pytest.approx((80, 50))


def test_the_line_runs_through_the_means_on_the_axis():
    panel = line_plot({"a": {0.0: {0: 0.2, 1: 0.3}, 2.0: {0: 0.7, 1: 0.8}}}, **DRAWN)
    svg = block(panel).figures[0].svg
    # the plot is 280 − 10 − 42 = 228 high from y = 10: 0.25 lies at 181, 0.75 at 67; it starts at x = 54
    assert re.search(r"M 54 181\s+L [\d.]+ 67\b", svg)


def test_numbers_and_intervals_are_those_of_the_seeds():
    panel = line_plot({"a": {0.5: {0: 0.1, 1: 0.2, 2: 0.3}}}, **DRAWN)
    # mean 0.2, sd 0.1, t(0.975, 2) = 4.3027: 0.2 ± 0.2484, cut at 0
    cells = [cell.replace("\u00a0", " ") for cell in block(panel).table.rows[0]]
    assert cells == ["a", "0.5", "0.200", "0.100", "[0.000, 0.448]", "0: 0.100, 1: 0.200, 2: 0.300"]
    free = line_plot({"a": {0.5: {0: 0.1, 1: 0.2, 2: 0.3}}}, bounds=None, **DRAWN)
    assert block(free).table.rows[0][4].startswith("[−0.048")


def test_six_series_share_a_picture_and_seven_do_not():
    series = {f"series {k}": flat(0.1 * k) for k in range(1, 8)}
    seven = block(line_plot(series, **DRAWN))
    assert [picture.title for picture in seven.figures] == list(series)
    del series["series 7"]
    six = block(line_plot(series, **DRAWN))
    assert len(six.figures) == 1
    assert all(f">{name}<" in six.figures[0].svg for name in series)
    colors = set(re.findall(r"stroke: (var\(--\w+\)|currentColor)", six.figures[0].svg))
    assert {"var(--first)", "var(--second)", "var(--third)", "var(--fourth)", "currentColor"} <= colors


def test_published_curves_are_named_and_stand_in_the_table():
    under = {"a paper, Table 2": {0.0: (0.9, 0.1), 1.0: (0.5, 0.2)}}
    one = block(line_plot({"ours": flat(0.5)}, reference=under, **DRAWN))
    assert "Gray: a paper, Table 2, mean ± 1 SD" in one.key
    assert ("a paper, Table 2", "1", "0.500", "0.200", "–", "reference") in one.table.rows
    assert "a paper, Table 2" in one.figures[0].svg


def test_a_published_curve_goes_into_the_picture_of_its_series():
    series = {f"series {k}": flat(0.1 * k) for k in range(1, 8)}
    with_curve = block(line_plot(series, reference={"series 3": {0.0: (0.9, 0.1), 1.0: (0.5, 0.2)}}, **DRAWN)).figures
    without = block(line_plot(series, **DRAWN)).figures
    changed = [a.title for a, b in zip(with_curve, without, strict=True) if a.svg != b.svg]
    assert changed == ["series 3"]


def test_rings_up_to_five_seeds_and_none_beyond():
    few, many = block(line_plot({"a": flat(0.5, 5)}, **DRAWN)), block(line_plot({"a": flat(0.5, 6)}, **DRAWN))
    assert "Circles: single seeds" in few.key
    assert "Circles" not in many.key
    assert "6 seeds" in many.key
    assert few.figures[0].svg.count("<use") > many.figures[0].svg.count("<use") + 8


def test_no_runs_are_said_and_zero_has_no_logarithm():
    assert isinstance(line_plot({"a": {}}, **DRAWN).blocks[0], Text)
    with pytest.raises(ValueError, match=r"above 0; got 0\. Use log_x=False"):
        line_plot({"a": flat(0.5)}, log_x=True, **DRAWN)


def test_large_numbers_of_an_axis_are_read_at_a_glance():
    points = {x: {0: 1.0, 1: 2.0} for x in (14_663.0, 53_960.0, 239_871.0)}
    (block,) = line_plot(
        {"a": points}, title="Sizes", x_label="parameters", y_label="PSNR in dB", bounds=None, log_x=True
    ).blocks
    assert isinstance(block, FigureGroup)
    svg = block.figures[0].svg
    assert ">14,700<" in svg
    assert ">240,000<" in svg
    assert "e+" not in svg


def test_a_long_title_of_the_vertical_axis_has_two_lines_and_stays_beside_it():
    """Before, its ends were cut off, and it ran into the title of the figure."""
    long = "mean squared error (variances of the training part)"
    short, wide = (
        line_plot({"a": flat(0.5)}, title="Steps", x_label="steps", y_label=label) for label in ("error", long)
    )
    first, second = (block(panel).figures[0].svg for panel in (short, wide))
    size = re.compile(r'viewBox="0 0 ([\d.]+)')
    narrower, wider = (float(size.search(svg)[1]) for svg in (first, second))  # type: ignore[index]  # it is there
    assert wider > narrower + 5, "the second line has room beside the tick labels"
    assert "mean squared error (variances of" in second
    assert f">{long}<" not in second
