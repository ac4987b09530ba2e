"""Do learned positions recover the modules of channels in recordings whose arrangement is unknown?

    posenc run masked my_recordings.npz              about four minutes on two cores for two dozen channels
    posenc run masked                                the same on a small simulated brain
    posenc run masked folder/ --preset standard      the paper's model: hours per model of 360 channels; asks first
    posenc run masked my_recordings.npz --panels encodings rates

A file holds ``recordings`` (recording, channel, time) and may hold ``channels``, ``coordinates``, ``modules``. A folder
holds one .csv or .parquet file per recording, or brain images with an atlas. Channels are hidden and predicted from the
others; each time point is a sample. Whole recordings are held out for testing. The groups of channels are written to
``PAGE-modules.csv`` in the folder of the page, and the learned positions to ``PAGE-positions.csv``.

Source: arXiv 2406.08272, section 3.4 and Figs. 4, 5, A11 to A13.
"""

from __future__ import annotations

from posenc.workbench.studies.recordings import group_report
from posenc.workbench.studies.recordings.claims import CLAIMS, compared, headline, predictions
from posenc.workbench.studies.recordings.conditions import condition
from posenc.workbench.studies.recordings.execute import TRAIN, run_seconds
from posenc.workbench.studies.recordings.panels import PANELS
from posenc.workbench.studies.recordings.parts import PARTS
from posenc.workbench.studies.recordings.presets import PRESETS
from posenc.workbench.studies.recordings.settings import remarks, run_settings
from posenc.workbench.studies.recordings.stored_model import STORED_MODEL
from posenc.workbench.studies.shared.hidden_tokens.execute import equal_cost, memory_bytes
from posenc.workbench.studies.shared.hidden_tokens.variants import BASELINES, VIEWS
from posenc.workbench.studies.shared.study import Cost, Study

STUDY = Study(
    name="masked",
    question="Do learned positions recover the modules of channels in recordings whose arrangement is unknown?",
    lead=(
        "Some channels of a time point are hidden and predicted from the others, on recordings that were held out. The "
        "model does not know which channels form a module. Its learned positions are compared with the modules of the "
        "channels, if these are known."
    ),
    takes="recordings (.npz, a folder of .csv or .parquet, or of brain images); a simulated brain without it",
    presets=PRESETS,
    panels=PANELS,
    condition=condition,
    procedure=TRAIN,
    stored_model=STORED_MODEL,
    run_settings=run_settings,
    cost=Cost(seconds=run_seconds, memory=memory_bytes, alike=equal_cost),
    metrics=("auc", "mse_90"),
    headline=headline,
    compared=compared,
    first=group_report.answer,
    first_panel="groups",
    modules=group_report.rows,
    baselines=BASELINES,
    predictions=predictions,
    claims=CLAIMS,
    parts=PARTS,
    remarks=remarks,
    scope="quick is a one-layer model of width 32; its verdicts apply to the given recordings only.",
    protocol_limits={
        "quick": (
            "One layer, a high learning rate and a short training: enough for a few dozen channels. Recordings of "
            "hundreds of channels get smaller batches and need the standard preset.",
        )
    },
    views=(VIEWS["places"], VIEWS["index"], VIEWS["graph"]),
)
