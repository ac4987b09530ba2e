"""The panels of the shape study."""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Mapping, Sequence

import numpy as np

from posenc.measure.statistics import mean
from posenc.report.lines import MOST_IN_ONE_PICTURE, Points, lines
from posenc.report.page import Panel, Pictures, Table, Text
from posenc.report.pixels import album
from posenc.report.rows import Row, listed, number, values
from posenc.report.scores import Score, scores
from posenc.studies.beforehand import standing
from posenc.studies.found import Found
from posenc.studies.shape_fit import rows
from posenc.studies.shape_fit.presets import EIKONAL, MAIN, NORMALS, OCCUPANCY, TERMS
from posenc.studies.shape_fit.work import Truth, kept_points, truth
from posenc.tasks import shapes as task

CHAMFER = "chamfer"
THOUSAND, TINY = 1000.0, 1e-4
A_THOUSANDTH = "−3 is a thousandth of the shape's diagonal."
IN_THOUSANDTHS = (CHAMFER, "sdf_error")
LOST = "iou_lost"
SHOWN = (CHAMFER, LOST, "normal_error", "sdf_error", "eikonal_error", "seconds")
METRICS = {
    CHAMFER: Score("Chamfer distance", "thousandths of the diagonal", higher=False, log=True),
    "iou": Score("Intersection over union", "of what is inside", bounds=(None, 1.0)),
    LOST: Score("What IoU lacks of 1", "% of what is inside either", higher=False, log=True),
    "normal_error": Score("Angle between normals", "degrees", higher=False, log=True),
    "sdf_error": Score("Error of the distance", "thousandths of the diagonal", higher=False, log=True),
    "eikonal_error": Score("Slope's distance from 1", "mean of ||grad f| − 1|", higher=False, log=True),
    "seconds": Score("Time of the steps", "seconds on one core", higher=False, log=True),
}
SHORT = {"multires": "linear", "multires-smoothstep": "smooth"}
FLOOR = "marching cubes alone"
STEEP = ("normal_error", "eikonal_error", CHAMFER, "seconds")
BANDS, INSIDE, OUTSIDE = 12, (46, 110, 160), (205, 120, 50)
PALE, LEVEL, TRUE = (247, 246, 242), (20, 20, 20), (20, 150, 70)
GAP = 2


def fit(found: Found) -> list[Panel]:
    return [
        _scores(found, MAIN, "How near", SHOWN, rows.FIT),
        _against_time(found, MAIN, "Nearer with time", "sdf_error", "log10 of the distance's error"),
        pictures(found, MAIN, "The shape from each encoding", rows.FIT),
        sections(found, MAIN, "A cut through each field", rows.FIT),
        film(found, MAIN, "While it trains", rows.FIT),
        files(found, MAIN, rows.FIT),
    ]


def occupancy(found: Found) -> list[Panel]:
    metrics = (CHAMFER, LOST, "normal_error", "seconds")
    return [
        _scores(found, OCCUPANCY, "Inside or outside", metrics, rows.OCCUPANCY),
        _against_time(found, OCCUPANCY, "Occupancy with time", "iou", "log10 of what IoU lacks of 1"),
        pictures(found, OCCUPANCY, "The shape from each occupancy", rows.OCCUPANCY),
        *([] if MAIN in found.settings else [files(found, OCCUPANCY, rows.OCCUPANCY)]),
    ]


def slopes(found: Found) -> list[Panel]:
    """The same rows with and without the terms that ask for derivatives of derivatives, side by side."""
    both = found.labels(EIKONAL)
    together: list[Row] = []
    shown, notes = {}, {}
    for setting in (MAIN, EIKONAL, NORMALS):
        for row in _drawn(found.rows):
            label = _plain(row["scheme"], row["setting"])
            if row["setting"] == setting and label in both:
                together.append({**row, "scheme": _short(label, setting), "setting": MAIN})
        for label in (label for label in _best_first(found, setting, both) if label in both):
            name = _short(label, setting)
            shown[name], notes[name] = _flat(found.arrays(setting, label)["picture"]), _told(found, setting, label)
    normals = (
        f" With normals, {TERMS[NORMALS].normals:g} times the mean of 1 − cos(grad f, n) on the surface besides."
        if NORMALS in found.settings
        else ""
    )
    panel = scores(
        together,
        metrics={name: METRICS[name] for name in STEEP},
        title="The eikonal term",
        caption=f"The slope of a distance is 1: {TERMS[EIKONAL].eikonal:g} times the mean of (|grad f| − 1)² over free "
        "points of the cube is added to the loss. It is trained through the encoding's second derivatives, which takes "
        "time. Between vertices, linear interpolation has a slope that jumps from cell to cell; smooth interpolation "
        "is flat at every vertex." + normals,
    )
    key = "Lowest seed; below, the Chamfer distance in thousandths of the diagonal. Noise of the slope shows as grain."
    title = "Surfaces with and without the term"
    return [panel, Panel(title, (_surfaces(shown, notes, key) if shown else _NOTHING,))]


def _short(label: str, setting: str) -> str:
    """A row of many levels by how it is interpolated, and what it was trained by besides the distance."""
    return SHORT.get(label, label) + {MAIN: "", EIKONAL: ", eikonal", NORMALS: ", normals"}[setting]


def _flat(picture: np.ndarray) -> np.ndarray:
    """A picture in steps of four: half as large a file, and the eye sees no difference."""
    return picture // 4 * 4 + 2


_NOTHING = Text(("No unit of this setting has finished.",))


def sigma(found: Found) -> list[Panel]:
    series: dict[str, dict[float, dict[int, float]]] = {"gaussian": {}}
    for name, seeds in values(found.rows, CHAMFER, MAIN).items():
        if name in rows.OF_SIGMA:
            series["gaussian"][rows.OF_SIGMA[name]] = {seed: math.log10(max(v, TINY)) for seed, v in seeds.items()}
    return [
        lines(
            series,
            title="How fast the features should turn",
            x_label="sigma, cycles across the cube",
            y_label="log10 of the Chamfer distance",
            bounds=None,
            log_x=True,
            note=A_THOUSANDTH,
            caption=f"The other panels have {rows.GAUSSIAN}, chosen on Spot at the quick scale"
            f"{standing(series['gaussian'], rows.OF_SIGMA[rows.GAUSSIAN], higher=False)}. The authors' sigma for "
            "shapes is 12, with wider networks and longer trainings (arXiv 2006.10739).",
        )
    ]


def truth_of(found: Found) -> Truth | None:
    """The shape itself, as large as the fits' pictures are; nothing where no unit has finished."""
    if not found.done:
        return None
    unit = found.done[0]
    settings, arrays = unit.settings, found.store.arrays(unit.key)
    sizes = settings["resolution"], len(arrays["picture"]), len(arrays["section"])
    return truth(found.store.root, settings["points"], *sizes)


def reached(found: Found, setting: str, metric: str) -> dict[str, float]:
    """The mean of every row, best first."""
    means = {
        _plain(name, setting): mean(list(seeds.values()))
        for name, seeds in values(_drawn(found.rows), metric, setting).items()
    }
    sign = -1 if METRICS[metric].higher else 1
    return dict(sorted(means.items(), key=lambda pair: (sign * pair[1], pair[0])))


def _scores(found: Found, setting: str, title: str, metrics: Sequence[str], labels: Sequence[str]) -> Panel:
    shape = truth_of(found)
    lost = _lost(found, setting)
    kept = [
        row
        for row in _drawn(found.rows)
        if _plain(row["scheme"], setting) in labels or not of_any_row(_plain(row["scheme"], setting))
    ]
    near = f" Distances are those near the surface, cut at {TERMS[MAIN].clamp:g} of the cube's side."
    near = near if "sdf_error" in metrics else ""
    floors = {} if shape is None else {CHAMFER: shape.chamfer * THOUSAND, "normal_error": shape.normal_error}
    panel = scores(
        kept,
        metrics={name: METRICS[name] for name in metrics},
        setting=setting,
        lines={name: {FLOOR: value} for name, value in floors.items() if np.isfinite(value)},
        title=title,
        caption="Every encoding has about as many parameters and the same steps. Surfaces are compared "
        f'by the exact distance of points on each to the other; "{FLOOR}" is what the true field loses when it is '
        "meshed as coarsely as the fits are." + near + (f" {lost}" if lost else ""),
    )
    return dataclasses.replace(panel, blocks=(*panel.blocks, _sizes(found, setting)))


def of_any_row(label: str) -> bool:
    """Whether a row belongs to a panel, and was not asked for by name alone."""
    return label in (*rows.FIT, *rows.OCCUPANCY, *rows.OF_SIGMA)


def _lost(found: Found, setting: str) -> str:
    """Which fits have no surface at all, and so no distance from the true one."""
    lost = sorted({
        _plain(row["scheme"], setting)
        for row in found.rows
        if row["setting"] == setting and row["metric"] == CHAMFER and not np.isfinite(row["value"])
    })  # fmt: skip
    return f"No surface at all, in at least one seed: {', '.join(lost)}." if lost else ""


def _sizes(found: Found, setting: str) -> Table:
    """How large each field is, and how its numbers are spent."""
    body = []
    for label in found.labels(setting):
        unit = found.first(setting, label)
        if unit is None:
            continue
        row, metrics = unit.settings["row"], found.store.read(unit.key).metrics
        network = f"{row['network']['depth']} x {row['network']['width']}"
        told = ", ".join(f"{name}={value}" for name, value in row["options"].items())
        body.append((label, f"{metrics['parameters']:,.0f}", f"{row['scheme']}({told})", network))
    columns = ("Encoding", "Numbers trained", "Scheme", "Hidden layers")
    return Table("Parameters", columns, tuple(body), prose=True, folded=True)


def _against_time(found: Found, setting: str, title: str, metric: str, y_label: str) -> Panel:
    """Errors as powers of ten, for they differ by as much; of an intersection over union, what it lacks of 1."""
    order = [label for label in reached(found, setting, metric) if label not in rows.OF_SIGMA or label in rows.FIT]
    labels = sorted(order, key=lambda label: label not in rows.COMPARED)[:MOST_IN_ONE_PICTURE]
    others = [label for label in order if label not in labels]
    over_time, share = found.over_time(setting, metric), metric == "iou"
    series: Mapping[str, Points] = {
        label: {
            moment: {seed: math.log10(max(1 - value if share else value, TINY)) for seed, value in seeds.items()}
            for moment, seeds in over_time.get(label, {}).items()
        }
        for label in order
        if label in labels
    }
    note = "On held-out points of the shape's box." + ("" if share else f" {A_THOUSANDTH}")
    return lines(
        series,
        title=title,
        x_label="seconds of training",
        y_label=y_label,
        bounds=None,
        log_x=True,
        note=note + (f" In the panel above alone: {listed(others)}." if others else ""),
    )


def _best_first(found: Found, setting: str, labels: Sequence[str]) -> list[str]:
    """The rows that have something to show: those with a surface by their distance from it, the others after them."""
    near = reached(found, setting, CHAMFER)
    have = [label for label in found.labels(setting) if label in labels or not of_any_row(label)]
    have = [label for label in have if found.first(setting, label) is not None]
    return sorted(have, key=lambda label: (near.get(label, np.inf), label))


def _told(found: Found, setting: str, label: str) -> str:
    unit = found.first(setting, label)
    assert unit is not None
    metrics = found.store.read(unit.key).metrics
    if not np.isfinite(metrics[CHAMFER]):
        return "no surface"
    return f"{number(metrics[CHAMFER] * THOUSAND)}, IoU {number(metrics['iou'], 3)}"


def pictures(found: Found, setting: str, title: str, labels: Sequence[str]) -> Panel:
    shape, order = truth_of(found), _best_first(found, setting, labels)
    if shape is None or not order:
        return Panel(title, (_NOTHING,))
    shown, notes = {"the shape": _flat(shape.picture)}, {"the shape": "itself"}
    for label in order:
        shown[label], notes[label] = _flat(found.arrays(setting, label)["picture"]), _told(found, setting, label)
    key = (
        "The zero level of each field, by marching cubes, lowest seed; Chamfer distance in thousandths of the diagonal."
    )
    return Panel(title, (_surfaces(shown, notes, key),))


def _surfaces(shown: Mapping[str, np.ndarray], notes: Mapping[str, str], key: str) -> Pictures:
    return album(shown, key=key, notes=notes, size="wide", photographs=True)


def sections(found: Found, setting: str, title: str, labels: Sequence[str]) -> Panel:
    shape, order = truth_of(found), _best_first(found, setting, labels)
    if shape is None or not order:
        return Panel(title, (_NOTHING,))
    clamp = TERMS[setting].clamp
    shown, notes = {"the distance": section(shape.section, None, clamp)}, {"the distance": "itself"}
    for label in order:
        field = found.arrays(setting, label)["section"].astype(np.float32)
        shown[label], notes[label] = section(field, shape.section, clamp), _told(found, setting, label)
    key = (
        f"The plane through the middle of x, y upwards. Blue is inside, orange outside, a band is {clamp / BANDS:.2g} "
        "of the cube's side; beyond the last nothing was asked. Black: the field's zero level; green: the true one "
        "where it runs elsewhere."
    )
    return Panel(title, (album(shown, key=key, notes=notes, size="wide"),))


def section(values: np.ndarray, true: np.ndarray | None, clamp: float) -> np.ndarray:
    """A field ``(H, W)`` as bytes ``(2 H, 2 W, 3)``: bands of equal distance, its zero level and the true one."""
    step = np.clip(np.floor(np.nan_to_num(values) / clamp * BANDS), -BANDS, BANDS - 1)
    t = np.where(step < 0, -step, step + 1)[..., None] / BANDS
    side = np.where(step[..., None] < 0, np.array(INSIDE), np.array(OUTSIDE))
    pixels = np.kron((1 - t) * np.array(PALE) + t * side, np.ones((2, 2, 1)))
    for level, colour in (() if true is None else ((true, TRUE),)) + ((values, LEVEL),):
        inside = np.kron(level < 0, np.ones((2, 2), bool))
        edge = np.zeros_like(inside)
        edge[1:] |= inside[1:] != inside[:-1]
        edge[:, 1:] |= inside[:, 1:] != inside[:, :-1]
        pixels[edge] = colour
    return pixels.round().astype(np.uint8)


def film(found: Found, setting: str, title: str, labels: Sequence[str]) -> Panel:
    order = _best_first(found, setting, labels)
    strips, notes = {}, {}
    for label in order:
        frames = found.arrays(setting, label)["film"]
        keep = np.linspace(0, len(frames) - 1, min(6, len(frames))).round().astype(int)
        strips[label] = np.concatenate([frames[i] for i in keep], 1)
        notes[label] = "from the first weights to the last"
    key = "The surface when it was measured, taken out more coarsely than in the end; an empty frame has none."
    block = album(strips, key=key, notes=notes, largest=800, size="wide", photographs=True) if strips else _NOTHING
    return Panel(title, (block,))


def files(found: Found, setting: str, labels: Sequence[str]) -> Panel:
    """Writes the surface of every row beside the page, in the file's own coordinates, and says where."""
    title, order = "The surfaces as files", _best_first(found, setting, labels)
    if not order:
        return Panel(title, (_NOTHING,))
    body, shape = [], kept_points(found.store.root, found.units[0].settings["points"]).shape
    for label in order:
        arrays, unit = found.arrays(setting, label), found.first(setting, label)
        if not len(arrays["faces"]):
            faces = 0.0 if unit is None else found.store.read(unit.key).metrics.get("faces", 0.0)
            if faces:
                body.append((label, "not kept: foam, noise in every cell", f"{faces:,.0f}"))
            continue
        mesh = task.Mesh(shape.placement.back(arrays["vertices"]), arrays["faces"])
        beside = found.beside(_file_name(f"{setting}-{label}") + ".ply")
        task.write(mesh, beside)
        body.append((label, beside.name, f"{len(mesh.faces):,}"))
    told = f"{shape.name} went into the unit cube by {shape.placement}; the surfaces, of the lowest seed, are back in "
    told += f"its own coordinates. {' '.join(shape.notes)}"
    table = Table("Meshes beside this page", ("Encoding", "File", "Faces"), tuple(body))
    return Panel(title, (Text((told.strip(),)), table))


def _file_name(label: str) -> str:
    return re.sub(r"[^a-z0-9.]+", "-", label.lower()).strip("-")


def _drawn(found: Sequence[Row]) -> list[Row]:
    """The rows as they are drawn: small lengths in thousandths of the diagonal, and what an IoU lacks in percent."""
    small = [{**row, "value": row["value"] * THOUSAND} if row["metric"] in IN_THOUSANDTHS else row for row in found]
    lost = [{**row, "metric": LOST, "value": 100 * (1 - row["value"])} for row in found if row["metric"] == "iou"]
    return [*small, *lost]


def _plain(scheme: str, setting: str) -> str:
    return scheme.removesuffix(f", {setting}")
