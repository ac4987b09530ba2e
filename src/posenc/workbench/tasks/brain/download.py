"""Download of a public fMRI data set by nilearn, and instructions for obtaining another.

nilearn saves downloads in its own data folder (``$NILEARN_DATA``, or ``~/nilearn_data``), shared by all its users. The
folder made here has copies, under names that ``read_brain_folder`` understands.
"""

from __future__ import annotations

import csv
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from posenc.workbench.tasks.brain.nibabel_images import EXTRA

PARCELS, NETWORKS = 100, 7
ABOUT = """\
Films watched by children and adults, one run each, a frame every 2 s, preprocessed by fMRIPrep, at 4 mm.
Source: OpenNeuro ds000228; the preprocessed copy, https://osf.io/5hju4, fetched by nilearn's fetch_development_fmri,
whose terms of use are: "usage is unrestricted for non-commercial research purposes."
Cite: Richardson et al. 2018, Nature Communications 9, 1027.
Confounds: nilearn's 15 of fMRIPrep's (motion, framewise displacement, aCompCor, white matter, ventricles).
Atlas: Schaefer et al. 2018, Cerebral Cortex 28, 3095: 100 parcels in the 7 networks of Yeo et al. 2011. License: MIT.
"""
HCP_INSTRUCTIONS = """\
The Human Connectome Project's data are open to everybody who accepts its terms; posenc has none of them.

1. Young adults: https://www.humanconnectome.org/study/hcp-young-adult
   Register there, and accept the "WU-Minn HCP Consortium Open Access Data Use Terms". Family structure and the like
   also need the Restricted Data Use Terms; this study uses no such data.
2. Take resting-state runs as grayordinates, one .dtseries.nii per run, and beside each its Movement_Regressors.txt:
   rfMRI_REST*_Atlas_MSMAll_hp2000_clean.dtseries.nii, which ICA-FIX has cleaned already; or, as arXiv 2406.08272,
   rfMRI_REST*_Atlas_MSMAll.dtseries.nii, minimally preprocessed, with rfMRI_REST*.nii.gz beside it and masks
   white_matter.nii.gz and ventricles.nii.gz for aCompCor.
3. Glasser's 360 parcels as a .dlabel.nii: https://balsa.wustl.edu/study/RVVG, under BALSA's terms.
4. CAB-NP's networks, cortex_parcel_network_assignments.txt: https://github.com/ColeLab/ColeAnticevicNetPartition,
   under the terms of its LICENSE.

Put the .dlabel.nii and the networks into one folder, the runs below it, and: posenc run masked FOLDER
"""


def download_development_fmri(folder: Path, subjects: int = 10) -> Path:
    """Download runs of nilearn's development set with Schaefer's atlas.

    Args:
        folder: Folder for copies, which ``read_brain_folder`` reads.
        subjects: Number of subjects, 2 to 155, children and adults in proportion.

    Returns:
        The folder.

    Raises:
        ValueError: nilearn is missing, the number is out of range, or the network or the disk refuses.
    """
    if not 2 <= subjects <= 155:
        raise ValueError(f"the set has 155 subjects, and a study needs 2 at least; got {subjects}. As --subjects 10")
    try:
        from nilearn import datasets
    except ImportError as error:
        raise ValueError(f"development-fmri is fetched by nilearn: {EXTRA}") from error
    try:
        downloaded = datasets.fetch_development_fmri(n_subjects=subjects, reduce_confounds=True, verbose=0)
        atlas = datasets.fetch_atlas_schaefer_2018(
            n_rois=PARCELS, yeo_networks=NETWORKS, resolution_mm=2, verbose=0
        )  # fmt: skip
    except (OSError, ValueError, RuntimeError) as error:  # requests' errors are OSErrors
        raise ValueError(
            f"development-fmri could not be downloaded ({type(error).__name__}). The first download needs a connection "
            "to osf.io and raw.githubusercontent.com. Try again, or use runs of your own: docs/brain.md states the "
            "layout of the folder."
        ) from error
    try:
        return _copy_to_bids(folder, downloaded.func, downloaded.confounds, Path(atlas.maps), atlas.labels)
    except OSError as error:
        raise ValueError(
            f"{folder} cannot be written to ({error.strerror or error}). Name another folder: --to DIR"
        ) from error


def _copy_to_bids(folder: Path, runs: Sequence[str], tables: Sequence[str], atlas: Path, labels: Sequence[Any]) -> Path:
    """Copy the files into the layout of BIDS, the atlas last, so that an interrupted copy is not read as whole."""
    folder.mkdir(parents=True, exist_ok=True)
    for run, table in zip(runs, tables, strict=True):
        place = folder / Path(run).name.split("_")[0] / "func"
        place.mkdir(parents=True, exist_ok=True)
        for path in (run, table):
            shutil.copyfile(path, place / Path(path).name)
    (folder / "README.txt").write_text(ABOUT, encoding="utf-8")
    names = [label.decode() if isinstance(label, bytes) else str(label) for label in labels]
    names = [name for name in names if name != "Background"]
    with (folder / "atlas.tsv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, delimiter="\t", lineterminator="\n")
        writer.writerows([("index", "name"), *enumerate(names, 1)])
    shutil.copyfile(atlas, folder / "atlas_space-MNI152NLin6Asym.nii.gz")
    return folder
