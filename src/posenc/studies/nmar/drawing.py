"""The numbers of the study of simulated networks as panels."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from posenc.measure.variance import f_test
from posenc.report.expectations import Expected
from posenc.report.matrices import matrices
from posenc.report.page import Panel, Text
from posenc.report.rows import listed, number, p_value, values
from posenc.report.scores import Score, scores
from posenc.store import Unit
from posenc.studies.found import Found
from posenc.studies.masking import drawing
from posenc.studies.masking.drawing import Known
from posenc.studies.masking.rows import BASELINES
from posenc.studies.masking.work import error_at
from posenc.studies.nmar.presets import TASK
from posenc.studies.nmar.work import EXCESS
from posenc.tasks.nmar import NMAR, diverges_at, simulate

MODULES = "Modules in the learned tables"
EXAMPLE = 5000
"""Steps of a network whose correlations are shown."""


def known(found: Found, unit: Unit) -> Known:
    """The names of a network's nodes, and the modules that its seed hid them in."""
    network = simulate(NMAR(), 1, unit.seed)
    names = tuple(f"node {number + 1}" for number in range(len(network.modules)))
    return Known(names, tuple(f"module {number + 1}" for number in network.modules))


def headline(found: Found) -> str:
    auc = dict(drawing.best(found, "auc", higher=True))
    excess = [pair for pair in drawing.best(found, EXCESS) if pair[0] not in BASELINES]
    if not auc or not excess:
        return "Nothing can be said yet: no unit has finished."
    learned = drawing.beyond_chance(found)
    told = "No table knows the modules beyond chance"
    if learned:
        told = f"{learned[0][0]} knows the modules best, AUC {number(learned[0][1])}"
        told += f"; learned-1 has {number(auc['learned-1'])}" if "learned-1" in auc else ""
    low, high = excess[0], excess[-1]
    return (
        f"{told}. Errors are {number(100 * (low[1] - 1), 1)} % ({low[0]}) to {number(100 * (high[1] - 1), 1)} % "
        f"({high[0]}) above that of the best linear prediction."
    )


def expected(found: Found) -> Sequence[Expected]:
    return [Expected("auc", "learned-0.1", other, words="AUC") for other in ("learned-1", "learned-2", "random")]


def modules(found: Found) -> list[Panel]:
    return [drawing.modules(found, title=MODULES)]


def errors(found: Found) -> list[Panel]:
    named = {
        error_at(TASK.asked[0]): Score("Half of the nodes hidden", "mean squared error", False, (0.0, None)),
        EXCESS: Score("Over the best linear prediction", "ratio", False, (0.0, None)),
    }
    rows = [row for row in found.rows if row["scheme"] != "mean"]  # it would flatten all the others
    panel = scores(rows, metrics=named, title="Errors", caption=_without_mean(found))
    return [Panel(panel.title, (Text((_tested(found),)), *panel.blocks), panel.caption)]


def _without_mean(found: Found) -> str:
    mean = dict(drawing.best(found, EXCESS)).get("mean")
    ridge = "ridge is the best linear prediction from the training covariance, with a penalty as good as none"
    return ridge + (f"; mean, which predicts nothing, has {number(mean)} and is left out." if mean else ".")


def _tested(found: Found) -> str:
    groups = {
        label: list(seeds.values()) for label, seeds in values(found.rows, EXCESS).items() if label not in BASELINES
    }
    if len(groups) < 2 or sum(map(len, groups.values())) <= len(groups):
        return "An F-test needs two rows of two seeds or more."
    test = f_test(groups)
    return (
        f"F-test over {len(groups)} encodings, of errors over the best linear one: F({test.between}, {test.within}) = "
        f"{number(test.f)}, {p_value(test.p)}. The paper reports F = 0.24, p = 0.97 over six. Such a test cannot show "
        "that errors are equal; the ledger below asks that as a test of equivalence."
    )


def maps(found: Found) -> list[Panel]:
    return drawing.maps(found, known, title="Where nodes lie")


def curves(found: Found) -> list[Panel]:
    return [
        drawing.over_steps(
            found, "auc", title="When modules appear", y_label="AUC of the modules", bounds=(0.0, 1.0), chance=0.5
        ),
        drawing.over_steps(
            found, error_at(TASK.asked[0]), title="Errors over time", y_label="mean squared error, some test samples"
        ),
    ]


def network(found: Found) -> list[Panel]:
    """What was simulated, and what the paper's coefficients do when they are taken as they stand."""
    seeds = sorted({unit.seed for unit in found.units})[:3] or [0]
    steps = [diverges_at(NMAR(reading="literal"), seed) for seed in seeds]
    passed = listed([f"{step} (seed {seed})" for seed, step in zip(seeds, steps, strict=True) if step])
    told = (
        "The coefficients as printed diverge: the weights of the lags sum to 1.05 on average. "
        f"The network passes 1e12 at step {passed}. Here they are divided by the number of lags, with which the best "
        "linear prediction has the error that the paper reports; that this is what was run is inferred."
    )
    made = simulate(NMAR(), EXAMPLE, seeds[0])
    order = np.argsort(made.modules, kind="stable")
    between = np.array(np.corrcoef(made.series[order]))
    np.fill_diagonal(between, np.nan)
    names = [f"module {made.modules[place] + 1}" for place in order]
    panel = matrices(
        [(f"seed {seeds[0]}", between)], title="The network", labels=names, low_label="correlation", size="small",
        high_label="correlation", caption="Correlations of nodes over time, sorted by module for this picture alone.",
    )  # fmt: skip
    return [Panel(panel.title, (Text((told,)), *panel.blocks), panel.caption)]
