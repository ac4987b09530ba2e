"""Panels of surfaces: rendered images, cross-sections, surfaces during training, mesh files."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import numpy as np

from posenc.measure.statistics import mean
from posenc.workbench.report.number_format import number
from posenc.workbench.report.page import Panel, Table, Text
from posenc.workbench.report.raster_image import image_figures
from posenc.workbench.report.result_rows import values_by_scheme
from posenc.workbench.studies.shape_fit.conditions import stored_terms
from posenc.workbench.studies.shape_fit.stored_shape import Reference, load_points, reference
from posenc.workbench.studies.shape_fit.variants import FIT, LATTICES, OCCUPANCY, SIGMA_OF
from posenc.workbench.studies.shared.page_data import PageData
from posenc.workbench.tasks import shapes

CHAMFER = "chamfer"
THOUSAND = 1000.0
MAX_FRAMES = 6
BANDS = 12
"""Bands of equal distance on each side of the surface, up to the clamp of the distance."""
INSIDE_COLOR, OUTSIDE_COLOR, NEAR_COLOR = (46, 110, 160), (205, 120, 50), (247, 246, 242)
ZERO_COLOR, TRUE_COLOR = (20, 20, 20), (20, 150, 70)
NO_RUN = Text(("No run of this condition has finished.",))
NO_IMAGES = Text(
    (
        "The finished runs came from packs, which hold no images and meshes. Train them in another store to see them: "
        "the same command with another --out.",
    )
)


def reference_of(data: PageData) -> Reference | None:
    """The true shape with the resolution and image sizes of the stored fits; None without a fit that has its images."""
    for spec in data.done:
        settings, arrays = spec.settings, data.store.arrays(spec.identity)
        if {"picture", "section"} <= arrays.keys():
            sizes = settings["resolution"], len(arrays["picture"]), len(arrays["section"])
            return reference(data.store.root, settings["points"], *sizes)
    return None


def is_panel_variant(label: str) -> bool:
    """Return True if a panel lists a variant. Other variants were asked for by name and are shown in all panels."""
    return label in (*FIT, *OCCUPANCY, *SIGMA_OF, *LATTICES)


def finished_variants(data: PageData, condition: str, variants: Sequence[str]) -> list[str]:
    """Variants of a panel with a finished run, by Chamfer distance; those without a surface last."""
    values = values_by_scheme(data.rows, CHAMFER, condition)
    distance = {label: mean(list(seeds.values())) for label, seeds in values.items()}
    labels = [label for label in data.labels(condition) if label in variants or not is_panel_variant(label)]
    finished = [label for label in labels if data.first(condition, label) is not None]
    return sorted(finished, key=lambda label: (distance.get(label, np.inf), label))


def images(data: PageData, condition: str, title: str, variants: Sequence[str]) -> Panel:
    """Rendered surfaces of the variants, after the true shape."""
    order = finished_variants(data, condition, variants)
    if not order:
        return Panel(title, (NO_RUN,))
    if (true := reference_of(data)) is None:
        return Panel(title, (NO_IMAGES,))
    return images_of_cells(data, title, {label: (condition, label) for label in order}, true)


def images_of_cells(
    data: PageData, title: str, cells: Mapping[str, tuple[str, str]], true: Reference | None = None
) -> Panel:
    """Rendered surfaces of some runs.

    Args:
        data: Data of the page.
        title: Title of the panel.
        cells: Name to condition and variant.
        true: The true shape, shown first.

    Returns:
        The panel.
    """
    if not cells:
        return Panel(title, (NO_RUN,))
    stored = {name: data.arrays(condition, label).get("picture") for name, (condition, label) in cells.items()}
    drawn = {name: _fewer_levels(image) for name, image in stored.items() if image is not None}
    if not drawn:
        return Panel(title, (NO_IMAGES,))
    figures = ({} if true is None else {"true shape": _fewer_levels(true.image)}) | drawn
    notes = {name: _scores_of(data, *cells[name]) if name in cells else "" for name in figures}
    key = (
        "Zero level of each field by marching cubes, lowest seed. Chamfer distances are in thousandths of the diagonal."
    )
    return Panel(title, (image_figures(figures, key=key, notes=notes, size="wide", photographs=True),))


def _fewer_levels(image: np.ndarray) -> np.ndarray:
    """An image with 64 levels of brightness, which halves the size of its file without a visible difference."""
    return image // 4 * 4 + 2


def _scores_of(data: PageData, condition: str, label: str) -> str:
    spec = data.first(condition, label)
    assert spec is not None
    metrics = data.store.read(spec.identity).metrics
    if not np.isfinite(metrics[CHAMFER]):
        return "no surface"
    return f"Chamfer distance {number(metrics[CHAMFER] * THOUSAND)}, IoU {number(metrics['iou'], 3)}"


def sections(data: PageData, condition: str, title: str, variants: Sequence[str]) -> Panel:
    """Cross-sections of the fields, after the true signed distance."""
    order, terms = finished_variants(data, condition, variants), stored_terms(data, condition)
    if terms is None or not order:
        return Panel(title, (NO_RUN,))
    if (true := reference_of(data)) is None:
        return Panel(title, (NO_IMAGES,))
    figures, notes = {"true distance": section_image(true.section, None, terms.clamp)}, {"true distance": ""}
    for label in order:
        if (field := data.arrays(condition, label).get("section")) is not None:
            figures[label] = section_image(field.astype(np.float32), true.section, terms.clamp)
            notes[label] = _scores_of(data, condition, label)
    key = (
        f"Plane through the middle of the x axis, y upwards. Blue: inside; orange: outside. A band is "
        f"{terms.clamp / BANDS:.2g} of the cube's side wide; beyond the last band, the loss does not depend on the "
        "true distance. Black: zero level of the field. Green: true surface where the two differ."
    )
    return Panel(title, (image_figures(figures, key=key, notes=notes, size="wide"),))


def section_image(values: np.ndarray, true: np.ndarray | None, clamp: float) -> np.ndarray:
    """Image of a cross-section: bands of equal distance, the zero level and the true surface.

    Args:
        values: Field ``(H, W)``, negative inside.
        true: True signed distance ``(H, W)``; None to draw the zero level alone.
        clamp: Distance of the last band.

    Returns:
        Colors ``(2 H, 2 W, 3)`` as bytes.
    """
    step = np.clip(np.floor(np.nan_to_num(values) / clamp * BANDS), -BANDS, BANDS - 1)
    t = np.where(step < 0, -step, step + 1)[..., None] / BANDS
    side = np.where(step[..., None] < 0, np.array(INSIDE_COLOR), np.array(OUTSIDE_COLOR))
    pixels = np.kron((1 - t) * np.array(NEAR_COLOR) + t * side, np.ones((2, 2, 1)))
    for level, color in (() if true is None else ((true, TRUE_COLOR),)) + ((values, ZERO_COLOR),):
        inside = np.kron(level < 0, np.ones((2, 2), bool))
        edge = np.zeros_like(inside)
        edge[1:] |= inside[1:] != inside[:-1]
        edge[:, 1:] |= inside[:, 1:] != inside[:, :-1]
        pixels[edge] = color
    return pixels.round().astype(np.uint8)


def frames(data: PageData, condition: str, title: str, variants: Sequence[str]) -> Panel:
    """Surfaces during the training."""
    strips, order = {}, finished_variants(data, condition, variants)
    for label in order:
        if (stored := data.arrays(condition, label).get("film")) is None:
            continue
        indices = np.linspace(0, len(stored) - 1, min(MAX_FRAMES, len(stored))).round().astype(int)
        strips[label] = np.concatenate([stored[i] for i in indices], 1)
    if not strips:
        return Panel(title, (NO_IMAGES if order else NO_RUN,))
    key = (
        "From the initial weights (left) to the final ones (right), with a coarser mesh than the final one. An empty "
        "frame has no surface."
    )
    return Panel(title, (image_figures(strips, key=key, max_side=800, size="wide", photographs=True),))


def mesh_files(data: PageData, condition: str, variants: Sequence[str]) -> Panel:
    """Write the surface of each variant to a file, in the coordinates of the user's mesh, and list the files."""
    title, order = "Surfaces as mesh files", finished_variants(data, condition, variants)
    if not order:
        return Panel(title, (NO_RUN,))
    body, stored = [], {label: data.arrays(condition, label) for label in order}
    if not any("faces" in arrays for arrays in stored.values()):
        return Panel(title, (NO_IMAGES,))
    written = [label for label, arrays in stored.items() if len(arrays.get("faces", ())) and "vertices" in arrays]
    shape = load_points(data.store.root, data.done[0].settings["points"]).shape if written else None
    for label in order:
        spec = data.first(condition, label)
        if shape is not None and label in written:
            mesh = shapes.Mesh(shape.placement.from_cube(stored[label]["vertices"]), stored[label]["faces"])
            path = data.beside(_file_name(f"{condition}-{label}") + ".ply")
            shapes.write_mesh(mesh, path)
            body.append((label, path.name, f"{len(mesh.faces):,}"))
        elif faces := 0.0 if spec is None else data.store.read(spec.identity).metrics.get("faces", 0.0):
            reason = "noise in every cell" if "faces" in stored[label] else "the run came from a pack"
            body.append((label, f"not stored: {reason}", f"{faces:,.0f}"))
    table = Table("Mesh files in the folder of this page", ("Encoding", "File", "Faces"), tuple(body))
    if shape is None:
        return Panel(title, (table,))
    text = (
        f"{shape.name} was mapped into the unit cube by {shape.placement}, with y in the file and x in the cube. The "
        f"files have the surfaces of the lowest seed in the coordinates of {shape.name}. {' '.join(shape.notes)}"
    )
    return Panel(title, (Text((text.strip(),)), table))


def _file_name(label: str) -> str:
    return re.sub(r"[^a-z0-9.]+", "-", label.lower()).strip("-")
