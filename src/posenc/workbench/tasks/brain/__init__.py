"""Functional magnetic resonance images (fMRI) as recordings of brain parcels, with confounds removed.

Series of volumes (NIfTI) need a label atlas, series of grayordinates (CIFTI) a label file, such as Glasser's. Each
parcel is a channel, and its time course is the mean of its voxels or vertices. The first frames, the mean, the trend
and the confounds of a run are removed. ``read_brain_folder`` finds all files by their names (see ``folder``). The
pipeline is that of arXiv 2406.08272, appendix A.2. Reading needs nibabel and nilearn: pip install 'posenc[fmri]'.

Example, the nuisance regressors of a run of 200 frames:

>>> import numpy as np
>>> rng = np.random.default_rng(0)
>>> motion, white, fluid = rng.normal(size=(200, 6)), rng.normal(size=(200, 50)), rng.normal(size=(200, 30))
>>> nuisance_regressors(motion, white, fluid).shape  # 4 (6 + 5 + 5)
(200, 64)
>>> nuisance_regressors(motion, None, None).shape
(200, 24)
"""

from __future__ import annotations

from posenc.workbench.tasks.brain.atlas import Atlas, read_atlas
from posenc.workbench.tasks.brain.confounds import Run, acompcor, clean_series, expand_confounds, nuisance_regressors
from posenc.workbench.tasks.brain.download import HCP_INSTRUCTIONS, download_development_fmri
from posenc.workbench.tasks.brain.folder import has_brain_images, read_brain_folder
from posenc.workbench.tasks.brain.grayordinates import Labels, read_grayordinates, read_labels, read_parcellated
from posenc.workbench.tasks.brain.networks import CAB_NP_NETWORKS, networks_from_names, read_networks
from posenc.workbench.tasks.brain.volumes import read_volumes

__all__ = [
    "CAB_NP_NETWORKS",
    "HCP_INSTRUCTIONS",
    "Atlas",
    "Labels",
    "Run",
    "acompcor",
    "clean_series",
    "download_development_fmri",
    "expand_confounds",
    "has_brain_images",
    "networks_from_names",
    "nuisance_regressors",
    "read_atlas",
    "read_brain_folder",
    "read_grayordinates",
    "read_labels",
    "read_networks",
    "read_parcellated",
    "read_volumes",
]  # fmt: skip
