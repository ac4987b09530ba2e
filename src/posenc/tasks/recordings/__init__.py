"""Recordings of many channels whose true arrangement nobody knows: predict the hidden channels from the visible ones.

Brain regions, weather stations, neurons, machines: each is a channel, each time point a sample, and what belongs with
what must be learned from how the channels vary together. A sample hides some channels at random; recordings that were
never seen are predicted. Baselines that need no network say what the prediction is worth. The task is that of arXiv
2406.08272, section 3.4.

>>> import numpy as np
>>> chance = np.random.default_rng(0)
>>> shared = np.repeat(chance.normal(size=(5, 2, 400)), 4, axis=1)  # 5 recordings, 2 modules of 4 channels
>>> series = shared + chance.normal(size=shared.shape)
>>> recordings = Recordings(tuple(series), tuple("abcde"), modules=tuple("11112222"))
>>> parts = split(recordings, held=0.4, seed=0)
>>> parts.train.names, parts.test.names
(('a', 'c', 'd'), ('b', 'e'))
>>> train, test = frames(parts.train), frames(parts.test)
>>> hidden = masks(len(test), 8, 0.5, seed=0)
>>> errors = baselines(train, test, hidden)
>>> {name: [round(float(error), 1) for error in each] for name, each in errors.items()}
{'mean': [1.0, 1.0], 'ridge': [0.7, 0.7], 'nearest': [0.9, 1.0]}
"""

from __future__ import annotations

from posenc.tasks.recordings.baselines import NEAREST, baselines, chosen_penalty, ridge
from posenc.tasks.recordings.reading import read
from posenc.tasks.recordings.samples import Frames, frames, masks
from posenc.tasks.recordings.series import Recordings, subject_of
from posenc.tasks.recordings.splitting import Split, in_blocks, split
from posenc.tasks.recordings.writing import write

__all__ = [
    "NEAREST",
    "Frames",
    "Recordings",
    "Split",
    "baselines",
    "chosen_penalty",
    "frames",
    "in_blocks",
    "masks",
    "read",
    "ridge",
    "split",
    "subject_of",
    "write",
]
