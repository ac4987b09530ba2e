"""Functional magnetic resonance images as recordings of brain parcels: read, cleaned, named.

Series of volumes (NIfTI) go with a label atlas, series of grayordinates (CIFTI) with a label file, as Glasser's. Each
parcel is a channel, its time course the mean of its voxels or vertices. A run loses its first frames, mean and trend,
and what its confounds explain. ``read(folder)`` finds all of it by the names of the files (see ``folder``); the
pipeline is that of arXiv 2406.08272, appendix A.2. Reading needs nibabel and nilearn: pip install 'posenc[fmri]'.

A worked example, the regressors of a run of 200 frames:

>>> import numpy as np
>>> chance = np.random.default_rng(0)
>>> motion, white, fluid = chance.normal(size=(200, 6)), chance.normal(size=(200, 50)), chance.normal(size=(200, 30))
>>> nuisance(motion, white, fluid).shape  # 4 (6 + 5 + 5)
(200, 64)
>>> nuisance(motion, None, None).shape
(200, 24)
"""

from __future__ import annotations

from posenc.tasks.brain.atlas import Atlas, read_atlas
from posenc.tasks.brain.confounds import Run, acompcor, cleaned, expanded, nuisance
from posenc.tasks.brain.fetching import HCP, development_fmri
from posenc.tasks.brain.folder import is_brain, read
from posenc.tasks.brain.grayordinates import Labels, grayordinates, parcellated, read_labels
from posenc.tasks.brain.networks import CAB_NP, networks_of, read_networks
from posenc.tasks.brain.volumes import parcels

__all__ = [
    "CAB_NP", "HCP", "Atlas", "Labels", "Run", "acompcor", "cleaned", "development_fmri", "expanded", "grayordinates",
    "is_brain", "networks_of", "nuisance", "parcellated", "parcels", "read", "read_atlas", "read_labels",
    "read_networks",
]  # fmt: skip
