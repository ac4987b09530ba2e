"""Do learned positions recover the modules of a simulated network?

    posenc run nmar                          about two minutes on two cores, no data needed
    posenc run nmar --preset standard --yes  the paper's model, 5,000 steps at a higher learning rate
    posenc run nmar --preset paper --yes     the paper's model and length: days

Fifteen nodes in three modules come in a random order; half of them are hidden and predicted from the others. Expected
at the quick preset, as means over 3 networks: an AUC of the modules above 0.9 for learned-0.1 and below 0.65 for
learned-1; errors of all encodings within 3% of each other and near that of the best linear prediction.

Source: arXiv 2406.08272, appendix A.4 and Fig. A15.
"""

from __future__ import annotations

from posenc.workbench.studies.nmar.claims import CLAIMS, headline, predictions
from posenc.workbench.studies.nmar.execute import TRAIN, run_seconds
from posenc.workbench.studies.nmar.panels import PANELS
from posenc.workbench.studies.nmar.parts import PARTS
from posenc.workbench.studies.nmar.presets import PRESETS
from posenc.workbench.studies.nmar.settings import run_settings
from posenc.workbench.studies.nmar.stored_model import STORED_MODEL
from posenc.workbench.studies.shared.hidden_tokens.execute import equal_cost, memory_bytes
from posenc.workbench.studies.shared.hidden_tokens.variants import VIEWS
from posenc.workbench.studies.shared.study import Cost, Study

STUDY = Study(
    name="nmar",
    question="Do learned positions recover the modules of a simulated network?",
    lead=(
        "The nodes of a simulated network of three modules come in a random order. Half of them are hidden and "
        "predicted from the others. The model does not know which nodes form a module."
    ),
    presets=PRESETS,
    panels=PANELS,
    procedure=TRAIN,
    stored_model=STORED_MODEL,
    run_settings=run_settings,
    cost=Cost(seconds=run_seconds, memory=memory_bytes, alike=equal_cost),
    metrics=("auc", "mse_over_linear"),
    headline=headline,
    predictions=predictions,
    claims=CLAIMS,
    parts=PARTS,
    limits={
        "quick": (
            "One layer at a high learning rate. These values were chosen among about twenty, because modules appear "
            "with them within 4,000 steps.",
        )
    },
    scope="quick is a one-layer model of width 32 on networks of 15 nodes; every seed draws another network.",
    views=(VIEWS["index"],),
)
