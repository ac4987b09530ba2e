"""How should a model be told the time of a reading?

    posenc run series                              about ten minutes on one core, no data needed
    posenc run series weather.csv                  your own table: columns date and values, one series or many
    posenc run series sales.parquet --time day --id shop --target sales
    posenc run series --panels learned             Time2Vec and a convolution, which are trained
    posenc run series --preset standard --yes      more and longer series, 5 seeds: about two hours

A small transformer forecasts the readings after an origin, or fills in hidden readings. Variants differ only in how
time is told: not at all, by the index of a reading, by its true time, by the periods of the calendar, or by both; as
added rows, a rotation or a bias. Predicted before the first run: a calendar helps series that have its periods, and
does not help series without periods; true time without its periods is worth no more than the index.

Sources: Zhou et al. 2021, arXiv 2012.07436; Zeng et al. 2023, arXiv 2205.13504.
"""

from __future__ import annotations

from posenc.workbench.studies.series.claims import CLAIMS, compared, first, headline, predictions
from posenc.workbench.studies.series.conditions import condition
from posenc.workbench.studies.series.execute import TRAIN, memory_bytes, run_seconds
from posenc.workbench.studies.series.panels import PANELS
from posenc.workbench.studies.series.presets import LIMITS, PRESETS, PROTOCOL_LIMITS
from posenc.workbench.studies.series.settings import remarks, run_settings
from posenc.workbench.studies.series.stored_model import STORED_MODEL
from posenc.workbench.studies.series.variants import BASELINES, MEANINGS, VIEWS
from posenc.workbench.studies.shared.study import Cost, Study

STUDY = Study(
    name="series",
    question="How should a model be told the time of a reading?",
    lead=(
        "A small transformer forecasts the next readings of time series, or fills in hidden ones. Readings may be "
        "irregular in time. The variants differ only in how they are told the time."
    ),
    takes="a table of time series (.csv, .tsv or .parquet) with a column of times",
    presets=PRESETS,
    panels=PANELS,
    condition=condition,
    procedure=TRAIN,
    stored_model=STORED_MODEL,
    run_settings=run_settings,
    cost=Cost(seconds=run_seconds, memory=memory_bytes, smaller="Ask for a shorter context or a smaller batch."),
    metrics=("mse", "mase"),
    headline=headline,
    first=first,
    compared=compared,
    baselines=BASELINES,
    meanings=MEANINGS,
    predictions=predictions,
    claims=CLAIMS,
    remarks=remarks,
    scope="series are generated; the model is a small transformer on windows of 32 readings at quick.",
    limits=dict.fromkeys(PRESETS, LIMITS),
    protocol_limits=dict.fromkeys(PRESETS, PROTOCOL_LIMITS),
    views=VIEWS,
)
