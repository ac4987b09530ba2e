"""Panels of measured models: their attention beside that of 2d-fixed, their positions beside the true grid."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from statistics import fmean, stdev

import numpy as np

from posenc.measure.distances import token_distances
from posenc.report.layouts import layouts
from posenc.report.lines import lines
from posenc.report.matrices import matrices
from posenc.report.page import Panel, Text
from posenc.report.relation import relation
from posenc.report.rows import BySeed, values
from posenc.studies.latin_squares import published
from posenc.studies.latin_squares.drawing import OOD, Found
from posenc.studies.latin_squares.measuring import SHAPE, true_positions
from posenc.studies.latin_squares.rows import TABLE_1, learned
from posenc.studies.latin_squares.sweeps import SIGMA
from posenc.tasks import latin_squares as task

SHOWN = ("2d-fixed", "learned-0.1", "learned-0.2", "learned-1", "learned-2", "1d-fixed", "rope", "relative", "random")
OOD_ACCURACY = "accuracy out of distribution"


def attention(found: Found) -> list[Panel]:
    """Table A3, Figs. 3A-C, A8 and A9."""
    labels = found.needs("attention")
    rows = [row for row in found.of(labels) if row["setting"] == "main"]
    cosine = values(rows, "attention_cosine")
    if not cosine:
        return [_absent("Attention beside that of 2d-fixed", "2d-fixed of the same seeds")]
    learnt = {label: cosine[label] for label in cosine if label.startswith("learned-")}
    untrained = [value for seeds in values(rows, "attention_cosine_untrained").values() for value in seeds.values()]
    null = (fmean(untrained), stdev(untrained)) if len(untrained) > 1 else None
    where = "Table A3" if found.same_model else "Table A3 (another model)"
    ceiling = cosine.get("2d-fixed", {})
    others = [label for label in cosine if (label in TABLE_1 and label != "2d-fixed") or label == "learned-0.2"]
    accuracies = values(rows, OOD)
    sigmas = {label: float(label.removeprefix("learned-")) for label in learnt}
    told = f" Two 2d-fixed models with other seeds agree to {fmean(ceiling.values()):.2f}." if ceiling else ""
    return [
        lines(
            {
                "learned tables": found.by_sigma("attention_cosine", found.preset.sigmas),
                "the same, untrained": found.by_sigma("attention_cosine_untrained", found.preset.sigmas),
            },
            title="Agreement of attention with 2d-fixed, along the initial standard deviation",
            x_label=SIGMA,
            y_label="cosine similarity of attention maps",
            under={where: {s: (mean, 0.0) for s, mean in published.TABLE_A3.items()}},
            note="Per puzzle and layer with the 2d-fixed model of the same seed, then averaged." + told,
        ),
        relation(
            learnt,
            {label: accuracies[label] for label in learnt},
            title="Attention agreement against accuracy",
            x_label="cosine similarity with 2d-fixed",
            y_label=OOD_ACCURACY,
            null=null,
            null_label="untrained models",
            given=sigmas,
            given_label="the initial standard deviation",
            published="The paper reports rho = .96 over twenty standard deviations (Fig. 3C).",
        ),
        relation(
            {label: seeds for label, seeds in values(rows, "attention_jsd").items() if label in learnt},
            {label: accuracies[label] for label in learnt},
            title="Jensen-Shannon divergence of attention against accuracy",
            x_label="divergence from 2d-fixed, bits",
            y_label=OOD_ACCURACY,
            published="The paper shows this in Fig. A8, without a number.",
        ),
        relation(
            {label: cosine[label] for label in others},
            {label: accuracies[label] for label in others},
            title="Other encodings: attention agreement against accuracy",
            x_label="cosine similarity with 2d-fixed",
            y_label=OOD_ACCURACY,
            null=null,
            null_label="untrained models",
            published="The paper: 1d-fixed nearest, then learned-0.2 (Fig. A9C-D).",
        ),
        _attention_maps(found),
    ]


def _attention_maps(found: Found) -> Panel:
    groups = []
    for label in SHOWN:
        arrays = found.arrays(label)
        if "attention" in arrays:
            groups += [(f"{label}, layer {layer + 1}", each) for layer, each in enumerate(arrays["attention"])]
    if not groups:
        return _absent("Attention maps", "the rows that it shows")
    return matrices(
        groups,
        title="Attention maps",
        caption=(
            "Rows are queries and columns keys, both cell by cell of the 4 x 4 grid, row-major; mean over the "
            "out-of-distribution puzzles, first seed. 2d-fixed, the truth of the paper, stands first."
        ),
        low_label="0",
        high_label="largest weight of each map",
        shared_scale=False,
    )


def positions(found: Found) -> list[Panel]:
    """Figs. 1F-H and 3D-F."""
    sigmas = found.preset.sigmas
    rows = [row for row in found.of([learned(s) for s in sigmas]) if row["setting"] == "main"]
    if not values(rows, "procrustes_distance"):
        return [_absent("Learned positions", "measured learned tables")]
    accuracies, norms = values(rows, OOD), values(rows, "position_norm")
    given = {label: fmean(seeds.values()) for label, seeds in norms.items()}
    panels = [
        lines(
            {
                "trained": found.by_sigma("procrustes_distance", sigmas),
                "before training": found.by_sigma("procrustes_distance_initial", sigmas),
            },
            title="Distance of the learned table from 2d-fixed, before and after training",
            x_label=SIGMA,
            y_label="Frobenius distance after rotation",
            bounds=None,
            note=(
                "The paper's distance (orthogonal Procrustes, no scaling). Where both curves run together the distance "
                "tells how large the table is and not what was learned."
            ),
        ),
        lines(
            {
                "trained": found.by_sigma("procrustes_disparity", sigmas),
                "before training": found.by_sigma("procrustes_disparity_initial", sigmas),
                "random tables": found.by_sigma("procrustes_null_disparity", sigmas),
            },
            title="The same without scale: disparity from 2d-fixed",
            x_label=SIGMA,
            y_label="Procrustes disparity",
            bounds=None,
            note="Both tables centred and of norm 1, so that size cannot matter; 0 is the same arrangement.",
        ),
    ]
    for metric, name, said in (
        ("procrustes_distance", "distance from 2d-fixed", "The paper reports rho = -.98 (Fig. 3F)."),
        (
            "procrustes_disparity",
            "scale-free disparity from 2d-fixed",
            "The paper does not report this: it is the control.",
        ),
    ):
        x = values(rows, metric)
        panels.append(
            relation(
                x,
                {label: accuracies[label] for label in x},
                title=f"Accuracy against the {name}",
                x_label=name,
                y_label=OOD_ACCURACY,
                null=_null(rows) if metric == "procrustes_disparity" else None,
                given={label: given[label] for label in x},
                given_label="the norm of the table",
                published=said,
            )
        )
    return [*panels, _distances(found), _planes(found)]


def _null(rows: list[dict]) -> tuple[float, float]:
    means = [value for seeds in values(rows, "procrustes_null_disparity").values() for value in seeds.values()]
    spreads = [value for seeds in values(rows, "procrustes_null_disparity_sd").values() for value in seeds.values()]
    return fmean(means), fmean(spreads)


def _distances(found: Found) -> Panel:
    """Token-distance matrices: the truth, the sinusoids, learned tables before and after training."""
    truth = task.views()["grid"].coords.double()
    groups = [("true grid", token_distances(truth).numpy())]
    dim = found.preset.main.model.dim
    groups.append(("2d-fixed", token_distances(true_positions(dim)).numpy()))
    for label in ("1d-fixed", "learned-0.1", "learned-0.2", "learned-1", "learned-2"):
        arrays = found.arrays(label)
        if "distances_after" not in arrays:
            continue
        if label.startswith("learned"):
            groups += [(f"{label}, {when}", arrays[f"distances_{when}"]) for when in ("before", "after")]
        else:
            groups.append((label, arrays["distances_after"]))
    return matrices(
        groups,
        title="Distances between tokens",
        caption=(
            "Euclidean distance between the encodings of every two cells (row-major), each matrix on its own scale; "
            "learned ones: first layer, first seed, before and after training."
        ),
        low_label="0",
        high_label="largest distance of each matrix",
        shared_scale=False,
    )


def _planes(found: Found) -> Panel:
    items, residuals = [], {}
    for label in ("1d-fixed", "learned-0.1", "learned-0.2", "learned-1", "learned-2", "2d-fixed"):
        arrays = found.arrays(label)
        if "plane_after" in arrays:
            items.append((label, _as_read(arrays["plane_before"]), _as_read(arrays["plane_after"])))
            residuals[label] = (_mean(found, label, "_initial"), _mean(found, label, ""))
    return layouts(
        items,
        _as_read(np.asarray(task.views()["grid"].coords, dtype=float)),
        shape=SHAPE,
        title="Positions unrolled on the plane",
        caption=(
            "The two directions in which the first layer's encodings differ most (multidimensional scaling), turned, "
            "mirrored and scaled onto the true grid; first seed. Lines join neighbours of the true grid."
        ),
        residuals=residuals,
    )


def _as_read(places: np.ndarray) -> np.ndarray:
    """(row, column) as a page has them: columns to the right, rows downwards."""
    return places[:, ::-1]


def _mean(found: Found, label: str, when: str) -> float:
    seeds: BySeed = values(found.rows, f"position_residual{when}_layer_0").get(label, {})
    return fmean(seeds.values())


def _absent(title: str, what: str) -> Panel:
    return Panel(title, (Text((f"This needs {what}, which the store does not hold.",)),))


DRAWN: Mapping[str, Callable[[Found], list[Panel]]] = {"attention": attention, "positions": positions}
