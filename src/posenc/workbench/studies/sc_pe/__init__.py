"""Does a spherical encoding of the pixels help a LeNet?

    posenc run sc-pe --data DIR                       Fashion-MNIST (and CIFAR-10 if DIR has it): about five minutes
    posenc run sc-pe FOLDER                           the same on your own class folders
    posenc run sc-pe --data DIR --panels tokens       in a small vision transformer, against the sinusoid
    posenc run sc-pe --data DIR --preset standard     30 epochs, ten seeds: about five hours on one core

Predicted before the first run: an encoding that is concatenated with the features is as accurate as a trained vector of
its width, because it acts as a bias. The improvement in the note is due to the padding and the learning rate, which
differed between its two networks.

Source: the seed note, Cui 2024, "CNN with SC PE", and its code, github Cui-Peng-624/SC-Position-Encoding.
"""

from __future__ import annotations

from posenc.workbench.studies.sc_pe.claims import CLAIMS, compared, headline, predictions
from posenc.workbench.studies.sc_pe.conditions import condition
from posenc.workbench.studies.sc_pe.panels import PANELS
from posenc.workbench.studies.sc_pe.parts import PARTS
from posenc.workbench.studies.sc_pe.presets import PRESETS
from posenc.workbench.studies.sc_pe.settings import run_settings
from posenc.workbench.studies.shared.classification import TRAIN, cost_key, memory_bytes, run_seconds
from posenc.workbench.studies.shared.classification_model import STORED_MODEL
from posenc.workbench.studies.shared.patch_views import VIEWS
from posenc.workbench.studies.shared.study import Cost, Study

STUDY = Study(
    name="sc-pe",
    question="Does a spherical encoding of the pixels help a LeNet?",
    lead=(
        "The row and the column of a pixel become a point on the unit sphere, and a small network, the readout, turns "
        "the point into one value. The values are concatenated with the features of a LeNet, or multiply its pixels. "
        "Controls replace them by a trained vector or by padding, or leave them out."
    ),
    takes="labeled images (a folder of class folders, or a CSV of labels)",
    data={
        "fashion_mnist": "Fashion-MNIST, needed unless FILE is given; posenc data fashion-mnist downloads it",
        "cifar-10-batches-py": "CIFAR-10, in addition",
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
    limits={name: preset.limits for name, preset in PRESETS.items()},
    views=VIEWS,
)
