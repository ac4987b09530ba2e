"""The numbers of the study of recordings as panels; beside the page, every learned place as a table."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np

from posenc.measure.modularity import adjusted_rand
from posenc.measure.statistics import mean, paired_difference
from posenc.report.expectations import Expected
from posenc.report.glass import glass_brain
from posenc.report.page import Panel, Table, Text
from posenc.report.rows import interval, listed, number, signed, values
from posenc.report.scores import Score, scores
from posenc.store import Store, Unit
from posenc.studies.found import Found, plain_label
from posenc.studies.masked import keeping
from posenc.studies.masked.claims import ERROR
from posenc.studies.masked.presets import MAIN, RATES, TESTED
from posenc.studies.masking import drawing
from posenc.studies.masking.drawing import Known
from posenc.studies.masking.rows import BASELINES
from posenc.studies.masking.work import error_at

POSITIONS = "positions.csv"
UNIT = "mean squared error in units of a channel's variance"
SIMULATED = (
    "These recordings are simulated: 12 networks, or fewer, of which each channel follows one; ridge regression is "
    "nearly the best that can be done with them, by how they are made."
)


def about(found: Found, unit: Unit) -> keeping.About:
    return keeping.about(found.store.root, unit.settings["data"]["recordings"])


def known(found: Found, unit: Unit) -> Known:
    there = about(found, unit)
    return Known(there.channels, there.modules)


def remarks(store: Store, units: Sequence[Unit]) -> tuple[str, ...]:
    """What was left out of these recordings, and whose they are not."""
    digests = dict.fromkeys(unit.settings["data"]["recordings"] for unit in units)
    return tuple(note for digest in digests if (note := keeping.about(store.root, digest).note))


def headline(found: Found) -> str:
    errors = drawing.best(found, ERROR)
    models = [pair for pair in errors if pair[0] not in BASELINES]
    if not models:
        return "Nothing can be said yet: no model has finished."
    told = (
        f"With {TESTED:.0%} of the channels hidden {models[0][0]} errs least of all models, {number(models[0][1], 3)}"
    )
    told += f"{_against_ridge(found, models[0][0])}."
    learned = drawing.beyond_chance(found)
    if learned:
        ari = dict(drawing.best(found, "ari", higher=True)).get(learned[0][0], float("nan"))
        told += (
            f" {learned[0][0]} knows the given modules best: AUC {number(learned[0][1])}, and those found without them "
            f"agree to {number(ari)} (adjusted Rand index)."
        )
    elif drawing.best(found, "auc"):
        told += " No table knows the given modules beyond chance."
    return told


def _against_ridge(found: Found, label: str) -> str:
    """Whether the best model beats the real competitor, by the interval over seeds."""
    by_row = values(found.rows, ERROR)
    if label not in by_row or not by_row.get("ridge", {}).keys() & by_row[label].keys():
        return ""
    apart = paired_difference(by_row[label], by_row["ridge"])
    ridge = number(mean(list(by_row["ridge"].values())), 3)
    if apart.known and not (apart.above(0) or apart.below(0)):
        return f"; it cannot be told from ridge regression, which has {ridge}"
    word = "no model beats ridge regression" if apart.mean > 0 else "it beats ridge regression"
    size = f" (difference {signed(apart.mean, 3)} {interval(apart, 3)})" if apart.known else ""
    return f"; {word}, which has {ridge}{size}"


def expected(found: Found) -> Sequence[Expected]:
    named = [
        Expected(ERROR, "learned-0.1", other, higher=False, words=f"error with {TESTED:.0%} hidden")
        for other in ("learned-1", "nope", "ridge")
    ]
    knows = any(about(found, unit).modules for unit in found.units[:1])
    return [*named, Expected("auc", "learned-0.1", "learned-1", words="AUC of the given modules")] if knows else named


def errors(found: Found) -> list[Panel]:
    main = [unit for unit in found.done if unit.setting == "main"]
    if not main:
        return [Panel("Errors on unseen recordings", (Text(("No unit of this setting has finished.",)),))]
    simulated = f" {SIMULATED}" if found.request.source is None else ""
    return [
        drawing.errors(
            found, (TESTED, MAIN), title="Errors on unseen recordings",
            caption="In units of a channel's variance: predicting nothing has about 1; mean, ridge and nearest train "
            f"no network.{simulated}",
        ),
        drawing.by_recording(found, 0, about(found, main[0]).test, title="Errors by recording", unit=UNIT),
    ]  # fmt: skip


def modules(found: Found) -> list[Panel]:
    """Against the given modules, and whether two seeds find the same ones."""
    given = any(about(found, unit).modules for unit in found.units[:1])
    panels = [drawing.modules(found, title="Modules in the learned tables")] if given else []
    body = []
    for label in found.labels("main"):
        cell = [u for u in found.done if u.setting == "main" and plain_label(u) == label]
        stored = [arrays for u in cell if "modules" in (arrays := found.store.arrays(u.key))]
        alone = [arrays["modules"] for arrays in stored]
        if not alone or (len(stored) > 1 and np.array_equal(stored[0]["table"], stored[1]["table"])):
            continue  # nothing of it, or nothing that was trained or drawn
        agree = [adjusted_rand(a, b) for a, b in combinations(alone, 2)]
        counts = listed([str(len(np.unique(each))) for each in alone])
        body.append((label, counts, number(float(np.mean(agree))) if agree else "–"))
    if not body:
        return panels or [Panel("Modules in the learned tables", (Text((drawing.NO_TABLE,)),))]
    table = Table(
        "Modules found by each seed", ("Encoding", "How many, by seed", "Agreement of two seeds"), tuple(body),
        "Louvain on the graph that joins each channel to its nearest by the first layer's table. Agreement: the mean "
        "adjusted Rand index of all pairs of seeds, 1 for the same modules and about 0 by chance. Seeds that find the "
        "same modules were not told of them by their first numbers.",
    )  # fmt: skip
    return [*panels, Panel("Modules found without being named", (table,))]


def maps(found: Found) -> list[Panel]:
    """Maps, distances and a tree; the file of places is written beside the page."""
    rows = drawing.shown(found)
    panels = drawing.maps(found, known, title="Where channels lie")
    if not rows:
        return panels
    found.folder.mkdir(parents=True, exist_ok=True)
    path = drawing.write_positions(found.beside(POSITIONS), found, known)
    told = f"Every place is in {path.name} beside this page, three axes a channel, a line a channel, row and seed."
    panels[0] = Panel(panels[0].title, (Text((told,)), *panels[0].blocks), panels[0].caption)
    there = about(found, rows[0][1])
    items = [
        (label, tuple(f"module {number + 1}" for number in arrays["modules"]), "modules found")
        for label, _, arrays in rows[:2]
    ]
    if there.modules is not None:
        items = [("given", there.modules, ""), *items]
    places = None if there.coordinates is None else np.array(there.coordinates)
    brain = glass_brain(places, items, there.channels, title="In the brain")
    return [*panels, brain] if brain is not None else panels


def curves(found: Found) -> list[Panel]:
    panels = [
        drawing.over_steps(found, ERROR, title="Errors over time", y_label=f"error, {TESTED:.0%} hidden, some samples")
    ]
    if any(row["metric"] == "auc" for row in found.curves):
        panels.append(
            drawing.over_steps(
                found,
                "auc",
                title="When modules appear",
                y_label="AUC of the given modules",
                bounds=(0.0, 1.0),
                chance=0.5,
            )
        )
    return panels


def rates(found: Found) -> list[Panel]:
    """Figs. A11 to A13: trained with other parts hidden, tested with 90 %."""
    panels = []
    for setting, rate in RATES.items():
        named = {error_at(TESTED): Score(f"{TESTED:.0%} hidden in testing", UNIT, False, (0.0, None))}
        if rate != TESTED:
            named[error_at(rate)] = Score(f"{rate:.0%} hidden, as in training", UNIT, False, (0.0, None))
        title = f"Errors by the part hidden in training: {rate:.0%}"
        panels.append(scores(found.rows, metrics=named, setting=setting, title=title))
    return [Panel("Errors by the part hidden in training", (Text(("One panel a part follows.",)),)), *panels]
