"""Remarks on the data of the grid-cell study's runs, printed at the start and on the page."""

from __future__ import annotations

from collections.abc import Sequence

from posenc.workbench.runs import RunSpec
from posenc.workbench.storage.store import Store
from posenc.workbench.studies.shared import page_records

CENTERED_DATA = "fashion-mnist"


def remarks(store: Store, specs: Sequence[RunSpec]) -> tuple[str, ...]:
    """Sentence on the images of Fashion-MNIST, if runs were trained on them."""
    if not any(record.name == CENTERED_DATA and not record.own for record in page_records.records_of(store, specs)):
        return ()
    return (
        "Every image of Fashion-MNIST shows one centered piece of clothing; on photographs the order of the variants "
        "may differ.",
    )
