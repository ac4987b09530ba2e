"""Which encoding predicts the next token best, at the training length and in longer contexts?

    posenc run language my_text.txt                     your own text: about four minutes
    posenc run language --data DIR                      tiny-shakespeare
    posenc run language --data DIR --panels rotary --seeds 0 1 2 3 4        nine rotary encodings, as published
    posenc run language --data DIR --panels extrapolation                   seventeen encodings in longer contexts
    posenc run language --data DIR --panels recent                          twelve encodings since 2024, and RoPE, ALiBi
    posenc run language --panels recall                                     copying, sorting, retrieval; reads no file:
                                                                            four encodings, a quarter of an hour
    posenc run language --data DIR --preset standard --yes                  all panels, contexts up to 4,096: hours

Small causal models are trained on short windows of a text and tested on longer contexts. They differ in the encoding
alone. Unigram and bigram models are the baselines. Predicted before the first run: at the training length every
encoding has a lower loss than none; in longer contexts, biases that fall with distance keep their loss, and the loss of
sinusoids and RoPE rises.
"""

from __future__ import annotations

from posenc.workbench.studies.language.claims import CLAIMS, compared, headline, predictions
from posenc.workbench.studies.language.conditions import condition
from posenc.workbench.studies.language.execute import TRAIN, equal_cost, memory, seconds
from posenc.workbench.studies.language.panels import PANELS
from posenc.workbench.studies.language.parts import PARTS
from posenc.workbench.studies.language.presets import LIMITS, PRESETS
from posenc.workbench.studies.language.settings import remarks, run_settings
from posenc.workbench.studies.language.stored_model import STORED_MODEL
from posenc.workbench.studies.language.variants import DESCRIPTIONS, VIEWS
from posenc.workbench.studies.shared.study import Cost, Study
from posenc.workbench.tables.curve_table import ArrayAxis

STUDY = Study(
    name="language",
    question="Which encoding predicts the next token best, at the training length and in longer contexts?",
    lead=(
        "Small causal models learn to predict the next token of a text from short windows, and are tested on contexts "
        "many times as long. They differ in the encoding alone."
    ),
    takes="a text: a file, a folder of .txt files, train.txt and val.txt, .jsonl, .parquet, .fasta, or token ids",
    data={"text/tinyshakespeare.txt.gz": "tiny-shakespeare, needed unless FILE is given"},
    presets=PRESETS,
    panels=PANELS,
    condition=condition,
    procedure=TRAIN,
    stored_model=STORED_MODEL,
    run_settings=run_settings,
    cost=Cost(seconds=seconds, memory=memory, alike=equal_cost),
    arrays={"loss_by_context": ArrayAxis("loss", "context length (tokens)", 1, 1)},
    meanings=DESCRIPTIONS,
    metrics=("loss", "loss_at_x*", "accuracy_at_x2", "bits_per_byte"),
    headline=headline,
    compared=compared,
    predictions=predictions,
    claims=CLAIMS,
    parts=PARTS,
    scope="models of 10^5 to 10^6 parameters on one text.",
    limits=LIMITS,
    remarks=remarks,
    views=VIEWS,
)
