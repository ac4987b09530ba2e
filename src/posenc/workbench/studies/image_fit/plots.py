"""Panels of fits to every pixel: PSNR, learning curves, time to equal PSNR, images, error spectra."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from statistics import median

import numpy as np

from posenc.workbench.report.line_plot import Points, line_plot
from posenc.workbench.report.number_format import number
from posenc.workbench.report.page import Panel, Table, Text
from posenc.workbench.report.raster_image import downsample, image_figures
from posenc.workbench.report.score_plot import Score, score_plots
from posenc.workbench.studies.image_fit.conditions import FIT, image_title
from posenc.workbench.studies.image_fit.image_means import PSNR, conditions_of, image_table, mean_psnr, one_sigma
from posenc.workbench.studies.image_fit.picture_files import picture_panels
from posenc.workbench.studies.image_fit.scale_selection import select_scales
from posenc.workbench.studies.image_fit.time_to_psnr import GRID, crossings
from posenc.workbench.studies.shared.declarations import MAIN
from posenc.workbench.studies.shared.page_data import PageData
from posenc.workbench.training.config import EVALUATION_FRACTIONS

SCORE = Score("PSNR", "dB")
STEPS = Score("Training steps", "steps", higher=None)
STRIP_SIDE = 96
"""Pixels per side of an image in a strip, and of a frame if there are several photographs."""
MAX_FRAMES = 6


def _same_budget(data: PageData) -> str:
    """Equal budget of the trainings of a page: the time, or the number of steps."""
    trainings = [spec.settings["training"] for spec in data.done if "training" in spec.settings]
    in_time = all(training.get("seconds") is not None for training in trainings)
    return "the same training time on one core" if in_time else "the same number of steps"


def fit(data: PageData) -> list[Panel]:
    """All panels of the first image, and a table and the predicted images of the other images."""
    conditions = conditions_of(data, FIT)
    if not conditions:
        return []
    first, *others = conditions
    photograph = "" if first == MAIN else f"Photograph: {first}."
    caption = (
        f"All encodings have about the same parameter count and {_same_budget(data)}. Every pixel is trained on and "
        "tested. A grid takes many short steps, a network without a grid few long ones. "
    )
    scores = score_plots(
        data.rows,
        metrics={PSNR: SCORE, "steps": STEPS},
        condition=first,
        title="PSNR by encoding",
        caption=(caption + photograph).strip(),
    )
    curves = line_plot(
        one_sigma(data, data.over_time(first, PSNR)),
        title="Learning curves: PSNR by training time",
        x_label="training time (s)",
        y_label="PSNR (dB), on a grid of pixels",
        bounds=None,
        log_x=True,
        caption=photograph,
    )
    return [
        dataclasses.replace(scores, blocks=(*scores.blocks, parameter_table(data, first))),
        *([photograph_panel(data, conditions)] if others else []),
        curves,
        time_panel(data),
        image_panel(data, first, alone=not others),
        *picture_panels(data, first),
        frame_panel(data, first, alone=not others),
        spectrum_panel(data, first),
    ]


def parameter_table(data: PageData, condition: str) -> Table:
    """Table of each field's parameter count, scheme and hidden layers."""
    body = []
    for label in mean_psnr(data, condition):
        spec = data.first(condition, label)
        if spec is None:
            continue
        row, size = spec.settings["row"], data.store.read(spec.identity).metrics["parameters"]
        options = ", ".join(f"{name}={value}" for name, value in row["options"].items() if name != "resolutions")
        network = f"{row['network']['depth']} x {row['network']['width']}"
        body.append((label, f"{size:,.0f}", f"{row['scheme']}({options})", network))
    columns = ("Encoding", "Parameters", "Scheme", "Hidden layers x width")
    return Table("Parameter counts", columns, tuple(body), folded=True)


def photograph_panel(data: PageData, conditions: Sequence[str]) -> Panel:
    """Table of PSNR by photograph, and the predicted images of all photographs but the first."""
    finished = [name for name in conditions if mean_psnr(data, name)]
    table = image_table(data, finished, "PSNR (dB) by photograph")
    order = [row[0] for row in table.rows]
    strips = {}
    for name in finished[1:]:
        arrays_of = one_sigma(data, {label: data.arrays(name, label) for label in order})
        parts = [downsample(_displayable(arrays["picture"]), STRIP_SIDE) for arrays in arrays_of.values() if arrays]
        if parts:
            strips[image_title(name)] = np.concatenate(parts, 1)
    key = f"Lowest seed. From left to right: {', '.join(one_sigma(data, dict.fromkeys(order)))}."
    blocks = (
        (table, image_figures(strips, key=key, max_side=800, size="wide", photographs=True)) if strips else (table,)
    )
    return Panel("PSNR by photograph", blocks, "The panels below show the first photograph alone.")


def time_panel(data: PageData) -> Panel:
    """Table of the time that the multi-resolution grid needs to reach the best network without a grid."""
    title, body = f"Time for {GRID} to reach the best network without a grid", []
    crossing_of = crossings(data.rows)
    if not crossing_of:
        needs = f"This table needs {GRID} and a network without a grid, both trained for a limited time."
        return Panel(title, (Text((needs,)),))
    for condition, crossing in crossing_of.items():
        spec = data.first(condition, GRID)
        limit = spec.settings["training"]["seconds"] if spec else 0.0
        cells = ("not reached", "below 1 (censored)")
        if crossing.speed_up:
            cells = (f"{crossing.fraction * limit:.3g} s", f"{crossing.speed_up:.3g} x")
        if crossing.fraction == EVALUATION_FRACTIONS[0]:  # reached at or before the first evaluation
            cells = (f"at most {cells[0]}", f"at least {cells[1]}")
        final = f"{number(crossing.psnr)} dB after {limit:g} s"
        body.append((image_title(condition), crossing.rival, final, *cells))
    middle = median(crossing.speed_up for crossing in crossing_of.values())
    table = Table(
        "Time to equal PSNR",
        ("Image", "Best network without a grid", "Final PSNR of that network", f"Time of {GRID}", "Speed-up"),
        tuple(body),
        f"Median speed-up over {len(crossing_of)} {'image' if len(crossing_of) == 1 else 'images'}: {middle:.3g} x. "
        f"{select_scales(data.rows).sentences}",
    )
    return Panel(
        title,
        (table,),
        "PSNR is the mean over seeds on the pixels that are evaluated during training. Between two evaluations, the "
        "logarithm of the time is interpolated. Scales that were not selected are left out.",
    )


def image_panel(data: PageData, condition: str, alone: bool) -> Panel:
    """Predicted image and absolute error of each variant."""
    images: dict[str, np.ndarray] = {}
    notes: dict[str, str] = {}
    for label, psnr in one_sigma(data, mean_psnr(data, condition)).items():
        arrays = data.arrays(condition, label)
        error = arrays["error"][..., 0]
        images[label], notes[label] = _displayable(arrays["picture"]), f"PSNR {number(psnr)} dB"
        images[f"{label}, error x 4"] = error if alone else downsample(error, max(error.shape) // 2)
        notes[f"{label}, error x 4"] = "black: no error"
    key = "Predicted image of each encoding (lowest seed), and four times its absolute error, mean over channels."
    return Panel("Predicted images", (image_figures(images, key=key, notes=notes, photographs=True, max_side=320),))


def frame_panel(data: PageData, condition: str, alone: bool) -> Panel:
    """Predicted images during the training."""
    strips = {}
    for label in one_sigma(data, mean_psnr(data, condition)):
        frames = data.arrays(condition, label)["film"]
        indices = np.linspace(0, len(frames) - 1, min(MAX_FRAMES, len(frames))).round().astype(int)
        images = [_displayable(frames[i]) for i in indices]
        strips[label] = np.concatenate(images if alone else [downsample(image, STRIP_SIDE) for image in images], 1)
    figures = image_figures(
        strips,
        key="Prediction on a coarse grid of pixels, from the initial weights (left) to the final ones (right).",
        max_side=800,
        size="wide",
        photographs=True,
    )
    return Panel("Predicted images during training", (figures,))


def spectrum_panel(data: PageData, condition: str) -> Panel:
    """Power of the error by spatial frequency, relative to the image."""
    series = {label: _octaves(data, condition, label) for label in data.labels(condition)}
    return line_plot(
        one_sigma(data, {label: points for label, points in series.items() if points}),
        title="Error spectrum: power of the error by spatial frequency",
        x_label="spatial frequency (cycles per image)",
        y_label="power of the error relative to the image (dB)",
        bounds=None,
        log_x=True,
        note="At 0 dB, the error has as much power as the image at this frequency.",
    )


def _octaves(data: PageData, condition: str, label: str) -> Points:
    """Octave of spatial frequency to seed to power of the error relative to the image, in dB."""
    points: dict[float, dict[int, float]] = {}
    for spec in data.done:
        if (spec.condition, spec.variant) != (condition, label):
            continue
        arrays = data.store.arrays(spec.identity)
        if "error_power" not in arrays:
            continue
        octave = np.floor(np.log2(arrays["cycles"])).astype(int)
        for band in np.unique(octave):
            inside = octave == band
            ratio = arrays["error_power"][inside].sum() / max(arrays["truth_power"][inside].sum(), 1e-12)
            points.setdefault(float(2**band), {})[spec.seed] = 10 * np.log10(max(ratio, 1e-12))
    return points


def _displayable(pixels: np.ndarray) -> np.ndarray:
    """Pixels with one, three or four channels; the alpha channel of a gray image is dropped."""
    return pixels[..., :1] if pixels.shape[-1] == 2 else pixels
