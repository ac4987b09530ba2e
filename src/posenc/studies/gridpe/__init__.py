"""Do grid-cell encodings help vision transformers to tell pictures apart?

    posenc run gridpe --data DIR                       a small ViT and PVT on Fashion-MNIST: 15 minutes
    posenc run gridpe pictures/                        the same on your own class folders
    posenc run gridpe --data DIR --panels resolution heads reach literal
    posenc run gridpe FOLDER --preset paper            ImageNet-100, the paper's models: several GPUs

Expected before anything was run: every encoding that knows rows and columns is ahead of none; the variants as released,
whose waves are drawn anew at every call, are not ahead of none; the simplex form is the best of the grid-cell ones.

Source: Li et al. 2024, arXiv 2406.07049, and its released code, github BoyangL1/gridpe-vision.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from posenc.report.expectations import Expected
from posenc.studies import classifying
from posenc.studies.found import Found
from posenc.studies.gridpe import drawing, presets, rows
from posenc.studies.gridpe.claims import CLAIMS
from posenc.studies.picture_sets import left_out
from posenc.studies.sweep import Plan, Sweep

PLANS: Mapping[str, Plan] = {
    "accuracy": Plan(
        about="a ViT with each encoding, its equations clean",
        shows="the paper's Table 1, its lower half",
        needs=presets.chosen_rows("rows", rows.CLEAN),
        draw=drawing.accuracy,
    ),
    "literal": Plan(
        about="the same as the released code runs them",
        shows="the paper's Table 1 as it was made",
        needs=presets.chosen_rows("literal", rows.BOTH),
        draw=drawing.literal,
    ),
    "pyramid": Plan(
        about="a PVT with each encoding",
        shows="the paper's Table 1, its upper half",
        needs=presets.pyramid,
        draw=drawing.pyramid,
    ),
    "curves": Plan(about="accuracy by epoch", shows="the paper's Fig. 4", needs=presets.both, draw=drawing.curves),
    "resolution": Plan(
        about="pictures smaller and larger than those learned from",
        shows="the table of its third version",
        needs=presets.chosen_rows("resolution", rows.RESIZED),
        draw=drawing.resolution,
        measured=presets.asked_of_other_sizes,
    ),
    "heads": Plan(
        about="one head to eight",
        shows="the ablation of its third version",
        needs=presets.chosen_rows("heads", rows.OF_HEADS),
        draw=drawing.heads,
    ),
    "reach": Plan(
        about="how far attention looks and how widely",
        shows="the measures of its third version",
        needs=presets.chosen_rows("rows", rows.CLEAN),
        draw=drawing.reach,
    ),
    "rows": Plan(about="what each row is", shows="the project's own", needs=presets.nothing, draw=drawing.what),
}


def expected(found: Found) -> Sequence[Expected]:
    """What was named beforehand, of the rows that were run."""
    pairs = [("learned", "nope"), ("gridpe", "nope"), ("gridpe", "grid-merge")]
    pairs += [(f"grid-{name}", f"grid-{name}-literal") for name in rows.VARIANTS]
    run = set(found.labels("main"))
    return [Expected("accuracy", better, worse) for better, worse in pairs if {better, worse} <= run]


STUDY = Sweep(
    name="gridpe",
    question="Do grid-cell encodings help vision transformers?",
    lead=(
        "Vision transformers learn to classify pictures; they differ in how a patch is told its row and column, and in "
        "nothing else."
    ),
    takes="a folder of class folders",
    presets=presets.PRESETS,
    plans=PLANS,
    work=f"{classifying.__name__}:train_unit",
    settle=presets.settle,
    headline=drawing.headline,
    seconds=classifying.seconds,
    memory=classifying.memory,
    expected=expected,
    alike=classifying.alike,
    claims=CLAIMS,
    belongs=presets.belongs,
    remarks=left_out,
    limits={
        "quick": (
            "A small ViT on a sixth of Fashion-MNIST, whose pictures are centred and of one kind: what is near the top "
            "here says little about photographs.",
            "Batch and rate were chosen by the learned table alone, with two seeds that are not among these: 32 at "
            "2e-3 reached 0.800, 32 at 1.5e-3 0.794, 32 at 3e-3 0.785, 64 at 4e-3 0.788, 64 at 3e-3 0.783. Other rows "
            "have the same.",
            "Rows as released are trained for four epochs, the paper's for 200, in which a network may learn to make "
            "little of what is drawn anew.",
        ),
    },
)
