"""
Advice: which encoding for my data?
===================================

``posenc advise`` compares encodings on your data within a time that you give, and recommends one. In a terminal:

.. code-block:: sh

   posenc advise --explain --axes 2 --relative --unbounded         # trains nothing: schemes by their claims
   posenc advise california.csv --target median_house_value --budget 1h

In Python ``advise`` returns the same answer, with the code to copy and the address of its page:

.. code-block:: python

   from posenc.workbench import advise

   advice = advise("california.csv", target="median_house_value", budget="1h")
   print(advice)  # the answer in sentences
   print(advice.code)  # the encoding in scikit-learn or PyTorch
   print(advice.path)  # the page of the race, an HTML file

It is a race. This page runs the rules of the race again on stored scores of 40 real trainings, so that it needs no data
and no hour: four candidates on 20,640 census blocks of California, five seeds, half of the steps and all of them.
"""

# %%
# The scores, R2 on three parts of the data. The file is ``results/advice-scores-california.json`` of the repository.
import json
from collections.abc import Sequence
from pathlib import Path

import matplotlib.pyplot as plt

from posenc.workbench.advice.kinds import KINDS
from posenc.workbench.advice.race import RacePlan, Rung, Score, Scores, run_race
from posenc.workbench.advice.sentences import Scale, look_sentences, recommendation

stored = json.loads(Path("advice-scores-california.json").read_text())
items = stored["items"]
print({part: items[part] for part in ("train", "validation", "test")}, items["unit"])
print(list(stored["scores"]["1.0"]))


# %%
# The race asks for a rung: a share of the training and a number of seeds. ``posenc advise`` trains then. Here the
# stored scores are read.
def train(candidates: Sequence[str], rung: Rung) -> Scores:
    """Scores of some candidates after a share of their training."""
    scores = stored["scores"][str(rung.fraction)]
    return {name: {seed: Score(*scores[name][str(seed)]) for seed in range(rung.seeds)} for name in candidates}


# Each seed splits the same rows anew, so seeds share rows. The two ratios make the intervals as wide as that asks for.
plan = RacePlan(
    rungs=(Rung(0.5, 3), Rung(1.0, 3), Rung(1.0, 5)),
    validation_ratio=items["validation"] / items["train"],
    test_ratio=items["test"] / (items["train"] + items["validation"]),
)
race = run_race(list(stored["scores"]["1.0"]), train, plan)
assert race is not None, "there are two seeds of each candidate"

# %%
# After each rung candidates that are surely worse are dropped: the interval of their difference from the leader lies
# below 0, corrected for the number of comparisons, and more training would keep the sign. The answer comes from the
# test part, which no choice has seen.
(metric,) = (kind.metrics[0] for kind in KINDS if kind.study == stored["study"])
scale = Scale(metric, "held-out rows")
print("\n".join([*look_sentences(race.looks, scale), recommendation(race, scale)]))

# %%
# The race, drawn: one line for each candidate, one point for each seed, and a cross where a candidate was dropped.
titles = [f"{look.rung.fraction:.0%} of the steps,\n{look.rung.seeds} seeds" for look in race.looks]
figure, axis = plt.subplots(figsize=(7, 4), layout="constrained")
for number, name in enumerate(race.looks[0].scores):
    looks = [look for look in race.looks if name in look.scores]
    places = [race.looks.index(look) + 0.06 * (number - 1.5) for look in looks]
    means = [look.means()[name] for look in looks]
    (line,) = axis.plot(places, means, marker="_", markersize=14, label=name)
    for place, look in zip(places, looks, strict=True):
        values = [score.validation for score in look.scores[name].values()]
        axis.scatter([place] * len(values), values, s=12, color=line.get_color())
        if name in look.dropped:
            axis.scatter([place], [look.means()[name]], marker="x", s=90, color="black", zorder=3)
axis.set(xticks=range(len(titles)), ylabel="R2, validation part", title="A race of four candidates")
axis.set_xticklabels(titles)
axis.legend(loc="center right")
plt.show()

# %%
# Two encodings of places are far above no encoding of places, and apart from each other by less than these seeds can
# show. "Advice on your data" explains the answers and their limits; ``posenc run places california.csv --target
# median_house_value`` compares all encodings.
