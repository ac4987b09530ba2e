"""Remarks on the data of the grid-cell study's runs, printed at the start and on the page."""

from __future__ import annotations

from collections.abc import Sequence

from posenc.workbench.runs import RunSpec
from posenc.workbench.store import Store
from posenc.workbench.studies.shared.image_data import data_remarks

CENTERED_DATA = "fashion-mnist"


def remarks(store: Store, specs: Sequence[RunSpec]) -> tuple[str, ...]:
    """Sentences on the data sets of these runs."""
    names = {spec.settings["pictures"]["name"] for spec in specs}
    centered = (
        "Every image of Fashion-MNIST shows one centered piece of clothing; on photographs the order of the "
        "variants may differ.",
    )
    return (*data_remarks(store, specs), *(centered if CENTERED_DATA in names else ()))
