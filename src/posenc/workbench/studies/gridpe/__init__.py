"""Do grid-cell encodings help vision transformers?

    posenc run gridpe --data DIR                       a small ViT and PVT on Fashion-MNIST: 15 minutes
    posenc run gridpe FOLDER                           the same on your own class folders
    posenc run gridpe --data DIR --panels resolution heads attention-distance as-released
    posenc run gridpe FOLDER --preset paper            ImageNet-100, as the text of the paper: several GPUs
    posenc run gridpe FOLDER --preset as-released      the same with the training of the released code

Predicted before the first run: a learned table and GridPE are more accurate than no encoding. The simplex form is more
accurate than the merged form. As released, where waves are drawn anew at each call, each form is less accurate than as
published.

Source: Li et al. 2024, arXiv 2406.07049, and its released code, github BoyangL1/gridpe-vision.
"""

from __future__ import annotations

from posenc.workbench.studies.gridpe.claims import CLAIMS, compared, headline, predictions
from posenc.workbench.studies.gridpe.conditions import condition
from posenc.workbench.studies.gridpe.panels import PANELS
from posenc.workbench.studies.gridpe.parts import PARTS
from posenc.workbench.studies.gridpe.presets import PRESETS
from posenc.workbench.studies.gridpe.remarks import remarks
from posenc.workbench.studies.gridpe.settings import run_settings
from posenc.workbench.studies.shared.classification import TRAIN, cost_key, memory_bytes, run_seconds
from posenc.workbench.studies.shared.classification_model import STORED_MODEL
from posenc.workbench.studies.shared.patch_views import VIEWS
from posenc.workbench.studies.shared.study import Cost, Study

STUDY = Study(
    name="gridpe",
    question="Do grid-cell encodings help vision transformers?",
    lead=(
        "Vision transformers learn to classify images. They differ in the encoding of the row and the column of a "
        "patch, and in nothing else."
    ),
    takes="labeled images (a folder of class folders, or a CSV of labels)",
    data={
        "fashion_mnist": "Fashion-MNIST, needed unless FILE is given; posenc data fashion-mnist downloads it",
        "caltech100": "Caltech-100, at the preset standard",
    },
    presets=PRESETS,
    panels=PANELS,
    condition=condition,
    procedure=TRAIN,
    stored_model=STORED_MODEL,
    passes=True,
    run_settings=run_settings,
    cost=Cost(seconds=run_seconds, memory=memory_bytes, alike=cost_key),
    metrics=("accuracy", "accuracy_train"),
    headline=headline,
    compared=compared,
    predictions=predictions,
    claims=CLAIMS,
    parts=PARTS,
    remarks=remarks,
    limits={name: preset.limits for name, preset in PRESETS.items()},
    views=VIEWS,
)
