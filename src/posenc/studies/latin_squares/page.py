"""The page of the Latin-square study: the verdict, the panels that were asked for, the ledger, what was run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from posenc.report.ledger import ledger
from posenc.report.page import Panel, Table, write_page
from posenc.report.provenance import what_was_run
from posenc.report.published import reproduction
from posenc.report.rows import Row
from posenc.report.verdict import Verdict, judge, verdict
from posenc.store import Store, Unit
from posenc.studies import Request
from posenc.studies.latin_squares import drawing, maps, planning, published, sweeps
from posenc.studies.latin_squares.claims import CLAIMS
from posenc.studies.latin_squares.drawing import IID, OOD, Found
from posenc.studies.latin_squares.panels import PANELS, chosen, needed

EXPECTED = (("2d-fixed", "1d-fixed"), ("learned-0.2", "learned-2"), ("learned-0.2", "1d-fixed"))
DRAWN = {**drawing.DRAWN, **sweeps.DRAWN, **maps.DRAWN}

LIMITS = {
    "quick": (
        "A two-layer model of width 32 on 3,000 generated puzzles. Its setting was chosen to show the gap (panel "
        "gap-closes: where it closes), and the puzzles' seed after another had left a run of 2d-fixed unfinished at "
        "80 epochs.",
        "Held-out puzzles were drawn first and training puzzles kept away from them (Jaccard distance above 0.8), "
        "which makes rules that ignore positions score differently on the two sets: their scores are the dashed lines.",
    ),
}


def judgement(request: Request, store: Store, units: Sequence[Unit]) -> Verdict:
    """The verdict in words, for a terminal."""
    found = Found(request, store, units)
    return judge(found.rows, expected=_expected(units), **_bar(found))


def write(question: str, request: Request, store: Store, units: Sequence[Unit], failures: Mapping[str, str]) -> Path:
    """The page of one request; units: all trained ones that were planned or found."""
    found = Found(request, store, units)
    names = chosen(request.panels, found.preset)
    own = "" if names == found.preset.panels else "-all" if len(names) > 5 else "-" + "-".join(names)
    path = store.root / "pages" / f"{planning.STUDY_NAME}-{request.preset}{own}.html"
    path.parent.mkdir(parents=True, exist_ok=True)
    panels = [verdict(found.rows, expected=_expected(units), limits=LIMITS.get(request.preset, ()), **_bar(found))]
    for name in names:
        panels += DRAWN[name](found)
    found_beside = beside(request.preset, found.rows)
    panels += [Panel("Beside the authors' own runs", tuple(found_beside))] if found_beside else []
    panels.append(ledger(CLAIMS, found.rows, title="What the paper claims, at this scale"))
    panels.append(_provenance(found, names, failures))
    asked = f" --panels {' '.join(names)}" if own else ""
    return write_page(
        path,
        title=question,
        lead=(
            "Each puzzle is a half-empty 4 x 4 Latin square of 16 tokens; the network names the symbol of one marked "
            "cell. Nothing but the positional encoding tells it which cells share a row or a column. "
            f"Scale: {found.preset.scale}."
        ),
        panels=panels,
        footer=(
            f"posenc run {planning.STUDY_NAME} --preset {request.preset}{asked}. Every number is in the store beside "
            "this page: posenc results."
        ),
    )


def beside(preset: str, rows: Sequence[Row]) -> Sequence[Table]:
    """The authors' own runs at epoch 200, where the standard preset ends."""
    if preset != "standard":
        return ()
    table = reproduction(
        rows,
        published={OOD: published.EPOCH_200["ood"], IID: published.EPOCH_200["iid"]},
        named={OOD: "108 human puzzles (OOD)", IID: "held-out generated puzzles (IID)"},
        source="the authors' 15 runs of each at epoch 200 (summary of github ljhearne/LSTNN_public)",
        n_published=published.SEEDS_PUBLISHED,
    )
    return () if table is None else (table,)


def _expected(units: Sequence[Unit]) -> tuple[tuple[str, str], ...]:
    """The differences that were named beforehand and whose rows are part of this run."""
    run = {unit.scheme for unit in units}
    return tuple(pair for pair in EXPECTED if run.issuperset(pair)) or EXPECTED


def _provenance(found: Found, names: Sequence[str], failures: Mapping[str, str]) -> Panel:
    units, store = [*found.units, *found.measured], found.store
    stored = [store.read(key) for key in sorted({unit.key for unit in units}) if store.finished(key)]
    return what_was_run(
        [{**each.provenance, **each.timing, "unit": each.key} for each in stored],
        planned=len({unit.key for unit in units}),
        missing=[
            {"unit": f"{unit.scheme}, seed {unit.seed}", "reason": failures[unit.key]}
            for unit in units
            if unit.key in failures
        ],
        not_run=_not_run(found, names),
    )


def _not_run(found: Found, names: Sequence[str]) -> tuple[str, ...]:
    told = []
    run = {unit.scheme for unit in found.units}
    planned = needed(names, found.preset)
    left_out = [label for label in planned.get("main", ()) if label not in run]
    if left_out:
        told.append(f"The rows {', '.join(left_out)} of these panels.")
    others = [name for name in chosen(["all"], found.preset) if name not in names]
    if others:
        told.append("Panels " + "; ".join(f"{name} ({PANELS[name].shows})" for name in others) + ".")
    if not found.same_model:
        told.append("The paper's model (width 160, four layers, 8,100 puzzles): presets standard and paper.")
    return tuple(told)


def _bar(found: Found) -> dict[str, Any]:
    scores = found.baselines().get(OOD, {})
    rule = max(scores, key=lambda name: scores[name], default="")
    if not rule or scores[rule] < drawing.CHANCE:
        return {"metric": OOD, "bar": drawing.CHANCE, "bar_name": "guessing"}
    named = {"rarest symbol": "answering the rarest clue, the best rule that ignores positions",
             "commonest at the cell": "answering the commonest symbol of the cell"}  # fmt: skip
    return {"metric": OOD, "bar": scores[rule], "bar_name": named[rule]}
