"""Which encodings recover the grid of images whose patches were permuted?

    posenc run permuted --data DIR                          Fashion-MNIST: about five minutes on two cores
    posenc run permuted --data DIR --preset standard --yes  four layers, all images: days

An image is 49 patches of 4 x 4 pixels, in one permuted order that is the same for all images. Some patches are hidden
and predicted from the others. Only the encoding 2d-fixed reads the true cell of a patch; the order of the tokens, which
other encodings read, is arbitrary. The learned tables are then compared with the true neighbors.

The study tests a claim of arXiv 2406.08272 for which the paper has no data with a known arrangement.
"""

from __future__ import annotations

from posenc.workbench.studies.permuted.claims import CLAIMS, headline, predictions
from posenc.workbench.studies.permuted.execute import TRAIN, memory_bytes, run_seconds
from posenc.workbench.studies.permuted.panels import PANELS
from posenc.workbench.studies.permuted.presets import PRESETS
from posenc.workbench.studies.permuted.settings import run_settings
from posenc.workbench.studies.permuted.stored_model import STORED_MODEL
from posenc.workbench.studies.shared.hidden_tokens.execute import equal_cost
from posenc.workbench.studies.shared.hidden_tokens.variants import VIEWS
from posenc.workbench.studies.shared.study import Cost, Study

STUDY = Study(
    name="permuted",
    question="Which encodings recover the grid of images whose patches were permuted?",
    data={"fashion_mnist": "Fashion-MNIST, needed; posenc data fashion-mnist downloads it"},
    lead=(
        "The 49 patches of an image come in one permuted order, the same for all images. Some patches are hidden and "
        "predicted from the others. Only the measurements use the true position of a patch."
    ),
    presets=PRESETS,
    panels=PANELS,
    procedure=TRAIN,
    stored_model=STORED_MODEL,
    run_settings=run_settings,
    cost=Cost(seconds=run_seconds, memory=memory_bytes, alike=equal_cost),
    metrics=("neighbours", "mse_50"),
    headline=headline,
    predictions=predictions,
    claims=CLAIMS,
    limits={
        "quick": (
            "One layer at a high learning rate and a short training, with the values of the study of simulated "
            "networks; no others were tried. Neighbor recall is still rising at the end.",
        )
    },
    scope="quick is a one-layer model of width 32 on Fashion-MNIST; every seed has another permutation.",
    views=(VIEWS["grid"], VIEWS["index"]),
)
