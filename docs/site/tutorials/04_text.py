"""
A text of your own
==================

Which encoding predicts your texts best, and which still does on longer ones? ``posenc run language`` takes a file or a
folder. This makes a folder of small texts, looks at what posenc reads in it, and compares three encodings.
"""

# %%
# Forty texts, each about two people of six. Put your own ``.txt`` files in their place.
import contextlib
import io
import random
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import torch

import posenc
from posenc.cli.data import look
from posenc.models.generation import generate
from posenc.workbench import run

draw = random.Random(0)
people, verbs = ("Ada", "Ben", "Eva", "Ivo", "Lea", "Max"), ("sees", "calls", "meets", "helps", "asks")
places = ("at home", "in town", "by the sea", "on the hill")
folder = Path(tempfile.mkdtemp())
(folder / "texts").mkdir()
for number in range(40):
    pair, sentences = draw.sample(people, 2), []
    for _ in range(60):
        one, two = draw.sample(pair, 2)
        sentences.append(f"{one} {draw.choice(verbs)} {two} {draw.choice(places)}.")
    (folder / "texts" / f"{number:02}.txt").write_text(" ".join(sentences))

# %%
# What is it read as? This is ``posenc data look texts`` of the command line.
with contextlib.chdir(folder):
    look(Path("texts"))

# %%
# ``posenc run language texts`` trains eight encodings with five seeds for minutes. Here are three with one seed,
# smaller and for fewer steps; what the command prints while it trains is left out. Whole documents are held out. Models
# learn from 32 characters and are tested on up to 128.
size = {
    "window": 32,
    "max_multiple": 4,
    "targets": 512,
    "dim": 48,
    "depth": 2,
    "heads": 4,
    "key_heads": 2,
    "hidden": 96,
}
with contextlib.redirect_stdout(io.StringIO()):
    result = run(
        "language", folder / "texts", schemes=["nope", "rope", "alibi"], seeds=1, panels=["loss", "extrapolation"],
        changes={**size, "epochs": 200}, jobs=1, out=folder / "runs",
    )  # fmt: skip
print(result.verdict[0])

# %%
# The loss of the same held-out characters, by the length of the text before them. One seed and one text are an example,
# no evidence: this is why the sentence above tells no difference.
lengths = {"loss_at_x1": "17 to 32", "loss_at_x2": "33 to 64", "loss_at_x4": "65 to 128"}
figure, axis = plt.subplots(figsize=(7, 3.2), layout="constrained")
for scheme in ("nope", "rope", "alibi"):
    losses = {row["metric"]: row["value"] for row in result.table if row["scheme"] == scheme}
    print(f"{scheme:6}", *(f"{losses[name]:.3f}" for name in lengths))
    axis.plot(list(lengths.values()), [losses[name] for name in lengths], marker="o", label=scheme)
axis.set(xlabel="length of the context (characters); trained at 32", ylabel="loss (nats)", title="Loss by length")
axis.legend()
plt.show()

# %%
# A trained model is loaded by its names. It continues a text:
model = posenc.load(folder / "runs", study="language", variant="rope", seed=0)
start = model.encode("Ada meets Ben at home. ")
new = generate(model, start[None], 60, generator=torch.Generator().manual_seed(0))
print(model.decode(start) + model.decode(new[0]))

# %%
# "Text" lists the forms that are read (``.jsonl``, token ids, FASTA, ..), tokenizers, and the settings of the model.
