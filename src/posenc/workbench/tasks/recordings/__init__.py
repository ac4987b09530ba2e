"""Recordings of many channels with unknown arrangement: predict hidden channels from visible ones.

Channels are brain regions, weather stations, neurons or machines, and each time point is a sample. How the channels
are related must be learned from their covariance. Each sample hides some channels at random, and the model predicts
them in recordings that were not used for training. Baselines without a network (mean, ridge regression, nearest
channels) give the scale of the error.

>>> import numpy as np
>>> rng = np.random.default_rng(0)
>>> shared = np.repeat(rng.normal(size=(5, 2, 400)), 4, axis=1)  # 5 recordings, 2 modules of 4 channels
>>> series = shared + rng.normal(size=shared.shape)
>>> recordings = Recordings(tuple(series), tuple("abcde"), modules=tuple("11112222"))
>>> parts = split(recordings, held=0.4, seed=0)
>>> parts.train.names, parts.test.names
(('a', 'c', 'd'), ('b', 'e'))
>>> train, test = standardized_frames(parts.train), standardized_frames(parts.test)
>>> hidden = random_masks(len(test), 8, 0.5, seed=0)
>>> errors = baselines(train, test, hidden)
>>> {name: [round(float(error), 1) for error in each] for name, each in errors.items()}
{'mean': [1.0, 1.0], 'ridge': [0.7, 0.7], 'nearest': [0.9, 1.0]}

References:
    arXiv 2406.08272, section 3.4.
"""

from __future__ import annotations

from posenc.workbench.tasks.recordings.baselines import NEAREST, baselines, choose_penalty, ridge
from posenc.workbench.tasks.recordings.reader import contents_of, read_recordings
from posenc.workbench.tasks.recordings.samples import Frames, random_masks, standardized_frames
from posenc.workbench.tasks.recordings.series import Recordings, subject_from_name
from posenc.workbench.tasks.recordings.splits import Split, cut_into_blocks, cut_one_subject, one_subject, split
from posenc.workbench.tasks.recordings.writer import write_recordings

__all__ = [
    "NEAREST",
    "Frames",
    "Recordings",
    "Split",
    "baselines",
    "choose_penalty",
    "contents_of",
    "cut_into_blocks",
    "cut_one_subject",
    "one_subject",
    "random_masks",
    "read_recordings",
    "ridge",
    "split",
    "standardized_frames",
    "subject_from_name",
    "write_recordings",
]
