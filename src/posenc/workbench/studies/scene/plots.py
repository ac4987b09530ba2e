"""Plots and tables of the scene study: scores, PSNR by time, sizes, view directions, sampling, and sigma."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from posenc.measure.statistics import mean
from posenc.workbench.report.line_plot import MAX_LINES_PER_PLOT, Points, line_plot
from posenc.workbench.report.number_format import join_words
from posenc.workbench.report.page import Panel, Table, Text
from posenc.workbench.report.result_rows import BySeed, values_by_scheme
from posenc.workbench.report.score_plot import Score, score_plots
from posenc.workbench.studies.scene import turntable
from posenc.workbench.studies.scene.claims import ON_OBJECT, SCORE_NAMES, WHOLE_VIEWS, compared_scenes, main_metric
from posenc.workbench.studies.scene.conditions import (
    IMPORTANCE,
    IMPORTANCE_NO_OCCUPANCY,
    NO_DIRECTIONS,
    NO_HIGHLIGHTS,
    NO_HIGHLIGHTS_OR_DIRECTIONS,
    NO_OCCUPANCY,
    TORUS,
    UNCHANGED,
    SceneCondition,
)
from posenc.workbench.studies.scene.execute import scene_path
from posenc.workbench.studies.scene.variants import BY_SIGMA, CURVES, FOURIER
from posenc.workbench.studies.scene.view_plots import view_panels
from posenc.workbench.studies.shared.best_of_sweep import judge_choice
from posenc.workbench.studies.shared.page_data import PageData

SCORES = {
    ON_OBJECT: Score("PSNR on the object", "dB"),
    WHOLE_VIEWS: Score("PSNR of whole views", "dB"),
    "ssim": Score("Structural similarity of whole views", "SSIM"),
    "steps": Score("Training steps", "steps", higher=None),
}


def render_turntables(data: PageData) -> Iterator[str]:
    """Render the turntable of the best encoding of each scene of a page; lines on the progress."""
    for scene in compared_scenes(data.rows):
        firsts = (data.first(scene, label) for label in mean_scores(data, scene))
        spec = next((spec for spec in firsts if spec is not None), None)
        if spec is None or turntable.stored_frames(data.store.root, spec, turntable.SIDE) is not None:
            continue
        if (
            not data.store.read(spec.identity).has_weights
            or not scene_path(data.store.root, spec.settings["scene"]).exists()
        ):
            continue
        yield f"Rendering the turntable of {spec.variant}, which the page still lacks; finished frames are kept."
        yield from turntable.render_run(data.store, spec)


def _ending(data: PageData, scene: str) -> str:
    """Ending of a panel's title: the scene, if a page has several."""
    return "" if len(compared_scenes(data.rows)) == 1 else f": {scene}"


def mean_scores(data: PageData, scene: str) -> dict[str, float]:
    """Encoding to its mean PSNR, the best first."""
    scores = values_by_scheme(data.rows, main_metric(data.rows, scene), scene)
    means = {label: mean(list(seeds.values())) for label, seeds in scores.items()}
    return dict(sorted(means.items(), key=lambda pair: -pair[1]))


def encodings(data: PageData) -> list[Panel]:
    """Scores, PSNR by time and rendered views of each compared scene."""
    panels = []
    for scene in compared_scenes(data.rows):
        means, ending = mean_scores(data, scene), _ending(data, scene)
        panels += [
            _score_panel(data, scene, f"Scores on held-out views{ending}"),
            _time_panel(data, scene, f"PSNR by training time{ending}"),
            *view_panels(data, scene, means, ending),
        ]
    return panels or [Panel("Scores on held-out views", (Text(("No run of these encodings has finished.",)),))]


def _score_panel(data: PageData, scene: str, title: str) -> Panel:
    without_object = main_metric(data.rows, scene) != ON_OBJECT
    panel = score_plots(
        data.rows,
        metrics={name: score for name, score in SCORES.items() if name != ON_OBJECT or not without_object},
        condition=scene,
        title=title,
        caption="All encodings have the same training time on one core and, except those called small, a matched "
        "parameter count. Scores are of every pixel of views that were not used in training. The hash encoding of "
        "instant-ngp is called multires here; hash is its finest level alone.",
    )
    return Panel(panel.title, (*panel.blocks, _sizes(data, scene)), panel.caption)


def _time_panel(data: PageData, scene: str, title: str) -> Panel:
    curves = time_curves(data, scene)
    others = [label for label in mean_scores(data, scene) if label not in curves]
    absent = f" Only in the panel above: {join_words(others)}." if others else ""
    return line_plot(
        curves,
        title=title,
        x_label="training time on one core (s)",
        y_label=f"{SCORE_NAMES[main_metric(data.rows, scene)]} (dB)",
        bounds=None,
        log_x=True,
        note="Evaluated on evenly spaced rays of every held-out view." + absent,
    )


def time_curves(data: PageData, scene: str) -> dict[str, Points]:
    """Learning curves for one plot: of the encodings in ``CURVES``, then of the best others."""
    order = mean_scores(data, scene)
    chosen = sorted(order, key=lambda label: label not in CURVES)[:MAX_LINES_PER_PLOT]
    over_time = data.over_time(scene, main_metric(data.rows, scene))
    return {label: over_time[label] for label in order if label in chosen and label in over_time}


def _sizes(data: PageData, scene: str) -> Table:
    """Parameters, scheme, network and steps of each encoding."""
    body = []
    for label in mean_scores(data, scene):
        spec = data.first(scene, label)
        if spec is None:
            continue
        encoding, metrics = spec.settings["row"], data.store.read(spec.identity).metrics
        network = f"{encoding['network']['depth']} x {encoding['network']['width']}"
        options = ", ".join(f"{name}={_short(value)}" for name, value in encoding["options"].items())
        scheme = f"{encoding['scheme']}({options})"
        body.append((label, f"{metrics['parameters']:,.0f}", scheme, network, f"{metrics['steps']:,.0f}"))
    columns = ("Encoding", "Parameters", "Scheme", "Hidden layers (layers x units)", "Steps (lowest seed)")
    return Table("Schemes and sizes", columns, tuple(body), folded=True)


def _short(value: object) -> str:
    return f"{value[0]} .. {value[-1]}" if isinstance(value, Sequence) and not isinstance(value, str) else str(value)


def directions(data: PageData) -> list[Panel]:
    """multires with and without view directions, with and without highlights."""
    names = {
        "with directions": UNCHANGED,
        "without directions": NO_DIRECTIONS,
        "no highlights, with directions": NO_HIGHLIGHTS,
        "no highlights, without directions": NO_HIGHLIGHTS_OR_DIRECTIONS,
    }
    return _changes(
        data,
        names,
        "Scores with and without view directions",
        "The encoding is multires. With spherical harmonics of the view direction as an input, the color of a place "
        "can change with the direction, as in a highlight; without them it is constant. Without highlights, the true "
        "color does not depend on the direction, so a gain there has another cause. The scene without highlights is a "
        "different scene, so compare differences, not scores.",
    )


def samples(data: PageData) -> list[Panel]:
    """multires with each way to place samples on a ray."""
    names = {
        "occupied cells": UNCHANGED,
        "even": NO_OCCUPANCY,
        "importance, occupied cells": IMPORTANCE,
        "importance": IMPORTANCE_NO_OCCUPANCY,
    }
    return _changes(
        data,
        names,
        "Scores by sampling along rays",
        "The encoding is multires. Samples per ray, training time and the rendering of views are the same. Occupied "
        "cells: an occupancy grid leaves out samples in empty space, as in the other panels. Importance: half of the "
        "samples are evenly spaced, and a first pass through the same field places the others; arXiv 2003.08934 uses a "
        "second network for this pass, and no occupancy grid. A step has as many rays as give about the same number of "
        "samples, so fewer samples per ray mean more rays per step.",
    )


def _changes(data: PageData, names: Mapping[str, SceneCondition], title: str, caption: str) -> list[Panel]:
    """Scores of multires in several conditions of each scene, side by side under these names."""
    panels = []
    for scene in compared_scenes(data.rows):
        by_label = {change.for_scene(scene).label: name for name, change in names.items()}
        renamed = [
            {**row, "scheme": by_label[row["setting"]], "setting": scene}
            for row in data.rows
            if row["setting"] in by_label and row["scheme"] == "multires"
        ]
        metrics = {name: SCORES[name] for name in (ON_OBJECT, WHOLE_VIEWS, "steps")}
        ending = _ending(data, scene)
        panels.append(score_plots(renamed, metrics=metrics, condition=scene, title=f"{title}{ending}", caption=caption))
    return panels or [Panel(title, (Text(("No run of these conditions has finished.",)),))]


def sigma(data: PageData) -> list[Panel]:
    """PSNR of Gaussian features by their sigma, on the torus."""
    scores: Mapping[str, BySeed] = values_by_scheme(data.rows, ON_OBJECT, TORUS)
    points = {BY_SIGMA[label]: dict(seeds) for label, seeds in scores.items() if label in BY_SIGMA}
    return [
        line_plot(
            {"gaussian": points},
            title="PSNR by sigma of Gaussian features",
            x_label="sigma (cycles per side of the cube)",
            y_label="PSNR on the object (dB)",
            bounds=None,
            log_x=True,
            caption=f"Gaussian features on the {TORUS}. The comparison uses {FOURIER}, which was chosen among a few in "
            f"the quick preset{judge_choice(points, BY_SIGMA[FOURIER], higher=True)}.",
        )
    ]
