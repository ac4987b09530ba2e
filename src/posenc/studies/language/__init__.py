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

from posenc.report.expectations import Expected
from posenc.studies.found import Found
from posenc.studies.language import drawing, presets, rows, work
from posenc.studies.language.claims import CLAIMS
from posenc.studies.sweep import Plan, Sweep

PLANS: Mapping[str, Plan] = {
    "loss": Plan(
        about="losses at the trained length and beyond, with unigram and bigram",
        shows="the project's own",
        needs=presets.of_text(rows.MAIN),
        draw=drawing.losses,
    ),
    "rotary": Plan(
        about="nine ways to turn queries, keys, values and outputs",
        shows="Su 2025, kexue.fm/archives/10862",
        needs=presets.of_text(tuple(rows.PUBLISHED)),
        draw=drawing.rotary,
    ),
    "extrapolation": Plan(
        about="loss by context, to many times the trained length",
        shows="Press et al. 2021, Fig. 1",
        needs=presets.of_extrapolation,
        draw=drawing.extrapolation,
    ),
    "recall": Plan(
        about="copies and needles, at the trained length and beyond",
        shows="Kazemnejad et al. 2023, Fig. 2",
        needs=presets.of_recall,
        draw=drawing.recall,
    ),
    "writing": Plan(
        about="what the models write, and how fast",
        shows="the project's own",
        needs=presets.of_text(rows.MAIN),
        draw=drawing.writes,
    ),
    "learning": Plan(
        about="how the models learn", shows="the project's own", needs=presets.nothing, draw=drawing.learning
    ),
    "rows": Plan(about="what each row is", shows="the project's own", needs=presets.nothing, draw=drawing.what),
}

BEYOND = {"alibi": "rope", "t5": "rope", "fire": "rope"}


def expected(found: Found) -> Sequence[Expected]:
    """What was named beforehand, of the rows that were run."""
    run = set(found.labels("main"))
    ahead = [label for label in rows.MAIN if label != "nope" and {label, "nope"} <= run]
    told = [Expected("loss", label, "nope", higher=False) for label in ahead]
    return [
        *told,
        *(
            Expected("loss_at_x8", better, worse, higher=False, words="loss at 8 times the trained length")
            for better, worse in BEYOND.items()
            if {better, worse} <= run
        ),
    ]


STUDY = Sweep(
    name="language",
    question="Which encoding tells the next character best, and which still does in a longer text than any it knew?",
    lead=(
        "Small causal models learn a text from short windows, all alike but for the encoding, and are then asked about "
        "contexts many times as long."
    ),
    takes="a text",
    presets=presets.PRESETS,
    plans=PLANS,
    work=f"{work.__name__}:train_unit",
    settle=presets.settle,
    headline=drawing.headline,
    seconds=work.seconds,
    memory=work.memory,
    expected=expected,
    alike=work.alike,
    claims=CLAIMS,
    belongs=rows.belongs,
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
