"""Scores without bounds, pictures of pixels, expectations, and the page to watch."""

import io
import math
import re

import numpy as np
import pytest
from PIL import Image

from posenc.workbench.report.dot_plot import dot_plot
from posenc.workbench.report.estimators import difference_across_conditions
from posenc.workbench.report.label_placement import CHARACTER_WIDTH
from posenc.workbench.report.page import FigureGroup, Findings, render_page
from posenc.workbench.report.preregistered import Prediction, judge_predictions, summary_panel
from posenc.workbench.report.raster_image import (
    downsample,
    encode_png,
    error_colors,
    image_figure,
    image_figures,
    image_svg,
)
from posenc.workbench.report.score_plot import Score, score_plots

pytestmark = pytest.mark.bare


def rows(metric, table, setting="main"):
    return [
        {"setting": setting, "scheme": label, "seed": seed, "metric": metric, "value": value}
        for label, each in table.items()
        for seed, value in enumerate(each)
    ]


NEAR = {"multires": [31.0, 31.4, 31.2], "none": [18.0, 18.2, 18.1]}


@pytest.mark.parametrize("shape", [(4, 7), (4, 7, 1), (4, 7, 3), (4, 7, 4)])
def test_a_png_by_hand_is_read_by_others(shape):
    pixels = np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)
    mode = "RGB" if shape[2:] == (3,) else None
    found = np.asarray(Image.open(io.BytesIO(encode_png(pixels))).convert(mode))
    assert (found == pixels.reshape(found.shape)).all()
    assert (np.asarray(Image.open(io.BytesIO(encode_png(pixels / 255.0))).convert(mode)) == found).all()


def test_a_picture_of_few_colors_takes_a_byte_a_pixel():
    scale = np.stack([np.arange(256), np.arange(256)[::-1], np.full(256, 9)], -1).astype(np.uint8)
    pixels = scale[np.random.default_rng(0).integers(0, 256, (40, 50))]
    found = Image.open(io.BytesIO(encode_png(pixels)))
    assert found.mode == "P"
    assert (np.asarray(found.convert("RGB")) == pixels).all()


def test_what_is_no_picture_is_refused():
    with pytest.raises(ValueError, match=r"An image has the shape \(H, W\), .* got \(4, 7, 2\)"):
        encode_png(np.zeros((4, 7, 2)))


def test_a_large_picture_becomes_smaller_by_means():
    pixels = np.arange(24, dtype=np.float64).reshape(4, 6)
    assert downsample(pixels, 3).tolist() == [[3.5, 5.5, 7.5], [15.5, 17.5, 19.5]]
    assert downsample(pixels, 6) is pixels


def test_pixels_stand_inside_the_page():
    shown = image_figure(np.zeros((2, 3, 3)), "Black", "all black")
    assert 'href="data:image/png;base64,' in shown.svg
    assert 'viewBox="0 0 3 2"' in shown.svg
    block = image_figures({"a": np.zeros((2, 2)), "b": np.ones((2, 2))}, key="two", notes={"a": "dark"})
    assert [p.title for p in block.figures] == ["a", "b"]
    assert block.table.rows == (("a", "dark"), ("b", ""))
    assert "image/gif" in image_svg(b"GIF89a", 1, 1, "gif")


def test_a_photograph_is_kept_small():
    y, x = np.mgrid[0:64, 0:64] / 64
    noisy = np.stack([x, y, x * y], -1) + np.random.default_rng(0).normal(0, 0.02, (64, 64, 3))
    exact, small = image_figure(noisy, "a", "a"), image_figure(noisy, "a", "a", photograph=True)
    assert "image/webp" in small.svg
    assert len(small.svg) < len(exact.svg) / 3
    gray = image_figures({"gray": np.zeros((4, 4, 1), np.uint8)}, key="k", photographs=True).figures[0]
    assert "image/webp" in gray.svg


def test_errors_go_from_black_to_white():
    colors = error_colors(np.array([[0.0, 1.0, 2.0, np.nan]]), 1.0)
    assert colors[0, 0].tolist() == [0, 0, 0]
    assert colors[0, 1].tolist() == colors[0, 2].tolist() == [1, 1, 1]
    assert colors[0, 3].tolist() == [0, 0, 0]


def test_the_best_row_stands_first_whichever_way_is_better():
    table = rows("psnr", NEAR) + rows("error", {"multires": [0.01, 0.02], "none": [0.5, 0.6]})
    panel = score_plots(table, metrics={"error": Score("Error", "units", higher=False), "psnr": Score("PSNR", "dB")})
    numbers = panel.blocks[0].table.rows
    assert [row[0] for row in numbers] == ["multires", "multires", "none", "none"]
    assert "31.200" in " ".join(numbers[1])
    assert "lower is better" in panel.blocks[0].figures[0].svg
    render_page(title="t", lead="l", panels=[panel], footer="f")


def test_errors_of_all_sizes_stand_on_a_logarithmic_axis():
    table = rows("error", {"multires": [0.0004, 0.0005], "none": [0.003, 0.0031], "hash": [0.098, 0.4]})
    score = Score("Error", "units", higher=False, log=True)
    svg = score_plots(table, metrics={"error": score}, lines={"error": {"floor": 0.0003}}).blocks[0].figures[0].svg
    assert all(f">{told}<" in svg for told in ("0.000450", "0.00305", "0.249", "0.001", "0.01", "0.1"))
    assert "floor 0.000300" in svg
    zero = score_plots(rows("error", {"a": [0.0, 1.0]}), metrics={"error": score}).blocks[0].figures[0].svg
    assert ">0.01<" not in zero  # what is 0 has no place on such an axis
    with pytest.raises(ValueError, match="logarithmic axis needs numbers above 0"):
        dot_plot({"a": {0: 1.0}}, ["a"], prefix="p", lines={}, bounds=(0.0, 1.0), log=True)


def test_rows_of_a_setting_go_by_their_own_names():
    panel = score_plots(rows("psnr", NEAR, "astronaut"), metrics={"psnr": Score("PSNR", "dB")}, condition="astronaut")
    assert {row[0] for row in panel.blocks[0].table.rows} == {"multires", "none"}
    assert "No run" in score_plots([], metrics={"psnr": Score("PSNR", "dB")}).blocks[0].paragraphs[0]


def test_expected_differences_are_judged_by_their_intervals():
    table = rows("psnr", NEAR)
    shown, backwards, absent = judge_predictions(
        table,
        [
            Prediction("psnr", "multires", "none", unit="dB"),
            Prediction("psnr", "none", "multires"),
            Prediction("psnr", "multires", "siren"),
        ],
    )
    assert (shown.word, backwards.word, absent.word) == ("Came true", "Reversed", "Not measured")
    assert re.search(r"\+13\.\d+ dB \[", shown.text)
    (lower,) = judge_predictions(table, [Prediction("psnr", "none", "multires", higher=False)])
    assert lower.word == "Came true"
    (torn,) = judge_predictions(rows("psnr", {"a": [1, 3, 2], "b": [2, 2, 2]}), [Prediction("psnr", "a", "b")])
    assert torn.word == "Inconclusive"
    panel = summary_panel(
        ["A headline."], judge_predictions(table, [Prediction("psnr", "multires", "none")]), ["A limit."]
    )
    assert panel.blocks[0].headline
    assert isinstance(panel.blocks[1], Findings)
    assert panel.blocks[1].intro.startswith("1 of 1 came true. In brackets: 95%")
    partly = [Prediction("psnr", "multires", "none"), Prediction("psnr", "multires", "siren")]
    intro = summary_panel(["A headline."], judge_predictions(table, partly), []).blocks[1].intro
    assert intro.startswith("1 of 1 came true, 1 not measured.")
    intro = summary_panel(["A headline."], judge_predictions(table, partly[1:]), []).blocks[1].intro
    assert intro.startswith("1 not measured.")  # not a prediction that failed


def test_over_several_settings_a_pair_is_a_setting():
    table = []
    for name, shift in (("a", 0), ("b", 5), ("c", 9)):
        near = {label: [value + shift * (label == "multires") for value in each] for label, each in NEAR.items()}
        table += rows("psnr", near, name)
    found = difference_across_conditions("psnr", "multires", "none", ("a", "b", "c", "absent"))(table)
    assert found.n == 3
    assert found.mean == pytest.approx(13.1 + 14 / 3)
    (told,) = judge_predictions(table, [Prediction("psnr", "multires", "none", conditions=("a", "b", "c"))])
    assert "3 conditions" in told.text
    (one,) = judge_predictions(table, [Prediction("psnr", "multires", "none", conditions=("a", "absent"))])
    assert one.text.endswith("[one condition, no interval], 1 condition.")
    assert difference_across_conditions("psnr", "multires", "none", ("absent",))(table) is None


def test_a_score_that_is_not_finite_is_not_called_a_seed_that_is_missing() -> None:
    table = rows("psnr", {"multires": [math.nan, None], "none": [20.0, 21.0]})
    (absent,) = judge_predictions(table, [Prediction("psnr", "multires", "none")])
    assert absent.word == "Not measured"
    assert "psnr of multires is not finite in any run" in absent.text


def test_an_interval_stays_where_its_quantity_can_be():
    table = rows("accuracy", {"a": [0.4, 0.9, 1.0]})
    panel = score_plots(table, metrics={"accuracy": Score("Accuracy", "of 1", True, (0.0, 1.0))})
    (block,) = panel.blocks
    assert isinstance(block, FigureGroup)
    (row,) = block.table.rows
    assert re.search(r"[^\d]1(\.0+)?\]$", row[3]), "cut at 1, where t would reach beyond"


@pytest.mark.parametrize("name", ["a-name-of-eighteen", "multires-coarse-to-fine"])
def test_long_names_stay_inside_the_picture_and_leave_the_axis_its_length(name):
    svg = dot_plot({name: {0: 0.5}}, [name], prefix="p", lines={})
    size, end = re.search(rf'font-size: ([\d.]+)px; text-anchor: end[^>]* x="([\d.]+)"[^>]*>{name}<', svg).groups()
    assert CHARACTER_WIDTH * float(size) * len(name) <= float(end)
    low, high = re.search(r'<path d="M ([\d.]+) [\d.]+ +L ([\d.]+) ', svg).groups()
    assert float(high) - float(low) == pytest.approx(360 - 132 - 40)


def test_long_means_clear_the_largest_value_and_leave_rows_level():
    pictures = [dot_plot({"a": {0: 1.0}}, ["a"], prefix="p", lines={}, digits=digits) for digits in (2, 6)]
    sizes = [re.search(r'viewBox="([^"]+)"', svg).group(1) for svg in pictures]
    assert sizes[0] == sizes[1], "pictures of one size, whose rows stay level side by side"
    size, end = re.search(
        r'font-size: ([\d.]+)px; text-anchor: end[^>]* x="([\d.]+)"[^>]*>1\.000000<', pictures[1]
    ).groups()
    ring = re.search(r'<use href="[^"]+" x="([\d.]+)" [^>]*fill-opacity: 0', pictures[1]).group(1)
    assert float(end) - CHARACTER_WIDTH * float(size) * len("1.000000") >= float(ring) + 4.6 / 2


@pytest.mark.parametrize(
    ("bounds", "ticks"),
    [
        ((0.13, 0.21), ["0.14", "0.16", "0.18", "0.2"]),  # less than a decade, and neither 1, 2 nor 5 in it twice
        ((1.0, 5.0), ["1", "2", "5"]),
        ((0.09, 300.0), ["0.1", "1", "10", "100"]),
    ],
)
def test_a_logarithmic_axis_has_few_round_ticks_however_short_it_is(bounds, ticks):
    svg = dot_plot({"a": {0: bounds[1]}}, ["a"], prefix="p", lines={}, bounds=bounds, log=True)
    *found, mean = re.findall(r">([\d.]+)<", svg)
    assert found == ticks
    assert float(mean) == bounds[1]
