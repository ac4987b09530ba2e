"""Measurements that stand in for planned ones that cannot be made, because the weights that they need are not stored.

A measurement has its reference among its parents. One that was made before 2d-fixed of its seed was trained, or with
another reference, is therefore another run than the planned one. Packs hold no weights, so that the planned one may
never be made; the page then has the stored one, which lacks the similarity of attention maps at most.
"""

from __future__ import annotations

from collections.abc import Sequence

from posenc.workbench.runs import RunSpec
from posenc.workbench.storage.store import Store
from posenc.workbench.studies.latin_squares import measure
from posenc.workbench.studies.latin_squares.variants import REFERENCES
from posenc.workbench.studies.shared.declarations import MAIN


def measurements(specs: Sequence[RunSpec], store: Store) -> list[RunSpec]:
    """Plan the measurements of all finished runs of the main condition; stored ones instead of those without weights.

    Args:
        specs: The trained runs.
        store: Their store.

    Returns:
        The measuring runs, one of each trained run.
    """
    trained = {spec.identity: spec for spec in specs}
    references = [
        spec.identity for label in REFERENCES for spec in specs if (spec.variant, spec.condition) == (label, MAIN)
    ]
    planned = measure.measurements(specs, store)
    return [_stored(spec, trained[spec.parents["trained"]], references, store) or spec for spec in planned]


def _stored(planned: RunSpec, trained: RunSpec, references: Sequence[str], store: Store) -> RunSpec | None:
    """A finished measurement of the trained run with another reference or none; None if the planned one is used."""
    if store.finished(planned.identity) or all(store.read(each).has_weights for each in planned.parents.values()):
        return None
    parents = [*({"reference": each} for each in references if each != trained.identity), None]
    stand_ins = [measure.MEASURE.measuring(trained, dict(planned.settings), each) for each in parents]
    return next((spec for spec in stand_ins if store.finished(spec.identity)), None)
