"""Which encoding of coordinates predicts a column of a table?

    posenc run places                              about four minutes on two free cores, no data
    posenc run places houses.csv --target price    your own table: columns of coordinates, a target, features
    posenc run places houses.csv --coordinates longitude latitude --target price --features rooms age
    posenc run places trips.parquet --target fare --time pickup --groups driver

A small network reads an encoding of the coordinates beside the other columns. Variants differ in the encoding alone.
Each is scored with a random split and with a split by blocks of space (and by time), in five folds. Baselines of
scikit-learn read the same columns: neighbors, kriging, ridge, boosting, and the last two on the rows of encodings.

Sources: Tancik et al. 2020, arXiv 2006.10739; Mai et al. 2023, arXiv 2306.17624; Roberts et al. 2017, Ecography 40,
913-929 (splits by blocks).
"""

from __future__ import annotations

from posenc.workbench.studies.places.answer import compared, first, headline
from posenc.workbench.studies.places.conditions import condition
from posenc.workbench.studies.places.execute import TRAIN, memory_bytes, run_seconds
from posenc.workbench.studies.places.panels import PANELS
from posenc.workbench.studies.places.presets import LIMITS, PRESETS, PROTOCOL_LIMITS
from posenc.workbench.studies.places.settings import remarks, run_settings
from posenc.workbench.studies.places.stored_model import STORED_MODEL
from posenc.workbench.studies.places.variants import BASELINES, VIEWS
from posenc.workbench.studies.shared.study import Cost, Study

STUDY = Study(
    name="places",
    question="Which encoding of coordinates predicts a column of a table?",
    own_question=lambda record: (
        f"Which encoding of coordinates predicts {record.options.get('target', 'a column of a table')}?"
    ),
    lead=(
        "A small network predicts a column of a table from coordinates and other columns. The variants differ in the "
        "encoding of the coordinates. Each is scored at random held-out rows and in held-out blocks of space."
    ),
    takes="a table of places (.csv, .tsv or .parquet) with columns of coordinates and a target",
    presets=PRESETS,
    panels=PANELS,
    condition=condition,
    procedure=TRAIN,
    stored_model=STORED_MODEL,
    run_settings=run_settings,
    cost=Cost(seconds=run_seconds, memory=memory_bytes, smaller="Ask for fewer rows: --set rows=10000."),
    metrics=("r2", "accuracy"),
    headline=headline,
    first=first,
    compared=compared,
    baselines=BASELINES,
    remarks=remarks,
    scope="places are generated; the model is a small network of 10,000 parameters at quick.",
    limits=dict.fromkeys(PRESETS, LIMITS),
    protocol_limits=dict.fromkeys(PRESETS, PROTOCOL_LIMITS),
    views=VIEWS,
)
