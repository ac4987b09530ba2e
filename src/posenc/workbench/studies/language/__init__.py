"""Which encoding tells the next character best, and which still does where the text is longer than any it knew?

    posenc run language my_text.txt                     your own text: about four minutes
    posenc run language --data DIR                      tiny-shakespeare
    posenc run language --data DIR --panels rotary --seeds 0 1 2 3 4        nine ways to turn, against a published order
    posenc run language --data DIR --panels extrapolation                   sixteen ways to read on
    posenc run language --data DIR --panels recall                          copies and needles: right or wrong
    posenc run language --data DIR --preset standard --yes                  all of it: windows of 256, asked to 4,096

Small causal models are trained on short windows of a text, all alike but for the encoding, and told from longer
contexts in the end; counted single tokens and pairs stand beside them. Expected before anything was run: at the trained
length every encoding is ahead of none; beyond it biases that fall with distance stay where they were, and the
sinusoid, RoPE and no encoding rise.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from posenc.workbench.report.preregistered import Prediction
from posenc.workbench.studies.language import drawing, presets, rows, work
from posenc.workbench.studies.language.claims import CLAIMS
from posenc.workbench.studies.shared.declarations import Condition, PanelSpec
from posenc.workbench.studies.shared.page_data import PageData
from posenc.workbench.studies.shared.study import Cost, Study, settings_key

PANELS: Mapping[str, PanelSpec] = {
    "loss": PanelSpec(
        about="losses at the trained length and beyond, with unigram and bigram",
        shows="the project's own",
        needs=presets.of_text(rows.MAIN),
        draw=drawing.losses,
    ),
    "rotary": PanelSpec(
        about="nine ways to turn queries, keys, values and outputs",
        shows="Su 2025, kexue.fm/archives/10862",
        needs=presets.of_text(tuple(rows.PUBLISHED)),
        draw=drawing.rotary,
    ),
    "extrapolation": PanelSpec(
        about="loss by context, to many times the trained length",
        shows="Press et al. 2021, Fig. 1",
        needs=presets.of_extrapolation,
        draw=drawing.extrapolation,
    ),
    "recall": PanelSpec(
        about="copies and needles, at the trained length and beyond",
        shows="Kazemnejad et al. 2023, Fig. 2",
        needs=presets.of_recall,
        draw=drawing.recall,
    ),
    "writing": PanelSpec(
        about="what the models write, and how fast",
        shows="the project's own",
        needs=presets.of_text(rows.MAIN),
        draw=drawing.writes,
    ),
    "learning": PanelSpec(
        about="how the models learn", shows="the project's own", needs=presets.nothing, draw=drawing.learning
    ),
    "rows": PanelSpec(about="what each row is", shows="the project's own", needs=presets.nothing, draw=drawing.what),
}

BEYOND = {"alibi": "rope", "t5": "rope", "fire": "rope"}


def expected(found: PageData) -> Sequence[Prediction]:
    """What was named beforehand, of the rows that were run."""
    run = set(found.labels("main"))
    ahead = [label for label in rows.MAIN if label != "nope" and {label, "nope"} <= run]
    told = [Prediction("loss", label, "nope", higher=False) for label in ahead]
    return [
        *told,
        *(
            Prediction("loss_at_x8", better, worse, higher=False, metric_name="loss at 8 times the trained length")
            for better, worse in BEYOND.items()
            if {better, worse} <= run
        ),
    ]


STUDY = Study(
    name="language",
    question="Which encoding tells the next character best, and which still does in a longer text than any it knew?",
    lead=(
        "Small causal models learn a text from short windows, all alike but for the encoding, and are then asked about "
        "contexts many times as long."
    ),
    takes="a text",
    presets=presets.PRESETS,
    panels=PANELS,
    procedure=work.TRAIN,
    run_settings=presets.settle,
    cost=Cost(seconds=work.seconds, memory=work.memory, alike=work.alike),
    data_key=settings_key("text", "digest"),
    headline=drawing.headline,
    predictions=expected,
    claims=CLAIMS,
    condition=lambda label: Condition(label=label, has_variant=partial(rows.belongs, label)),
    scope="these are models of some 10^5 to 10^6 parameters on one text, told character by character.",
    limits={
        "quick": (
            "Models of a hundred thousand parameters, still learning when they are compared; intervals are over seeds "
            "on one text.",
        ),
        "standard": ("Models of a hundred thousand parameters on one text; intervals are over seeds, not over texts.",),
        "paper": ("Models of a million parameters on one text; intervals are over seeds, not over texts.",),
    },
)
