"""Noise is what the paper says it is: 64 regressors, of the frames that are kept; a cleaned run has none of it."""

import json

import numpy as np
import pytest

pytest.importorskip("nilearn")

from nilearn.signal import high_variance_confounds

from posenc.workbench.tasks import brain
from posenc.workbench.tasks.brain import confounds
from small_brains import FRAMES, PARCELS, chance, folder, labels, save, standardised, volumes

MOTION = ["trans_x", "trans_y", "trans_z", "rot_x", "rot_y", "rot_z"]


def noise(columns, seed=5, frames=FRAMES):
    return chance(seed).normal(size=(frames, columns))


def test_the_expansion_is_its_formula():
    x = noise(3, frames=6)
    found = brain.expand_confounds(x)
    for time in range(6):
        for column in range(3):
            step = x[time, column] - x[time - 1, column] if time else 0.0
            expected = [x[time, column], step, x[time, column] ** 2, step**2]
            assert found[time, column::3].tolist() == pytest.approx(expected)


def test_the_paper_counts_64():
    motion, white, fluid = noise(6), noise(40, 1), noise(30, 2)
    assert brain.nuisance_regressors(motion, white, fluid).shape == (FRAMES, 64)
    assert brain.nuisance_regressors(motion, None, None).shape == (FRAMES, 24)
    assert brain.nuisance_regressors(None, white, None).shape == (FRAMES, 20)
    assert brain.nuisance_regressors(None, None, None) is None
    assert np.linalg.matrix_rank(brain.nuisance_regressors(motion, white, fluid)) == 64
    twelve = np.hstack([motion, np.diff(motion, axis=0, prepend=0)])  # HCP's tables have derivatives too
    assert np.array_equal(brain.nuisance_regressors(twelve, None, None), brain.nuisance_regressors(motion, None, None))


def test_acompcor_is_the_singular_vectors_of_standardised_voxels():
    voxels = noise(30) * np.linspace(1, 50, 30) + 5 * np.arange(FRAMES)[:, None]
    found = brain.acompcor(voxels)
    vectors = np.linalg.svd(standardised(voxels.T).T)[0][:, :5]
    assert np.allclose(abs(found.T @ vectors), np.eye(5), atol=1e-8)
    # nilearn's, which leaves out the voxels of the least variance: give it one to leave out
    more = np.hstack([standardised(voxels.T).T, 1e-3 * noise(1, 9)])
    theirs = high_variance_confounds(more, n_confounds=5, percentile=100.0, detrend=False)
    assert np.allclose(abs(found.T @ theirs), np.eye(5), atol=1e-6)
    still = np.hstack([voxels, np.full((FRAMES, 4), 7.0)])
    assert np.allclose(brain.acompcor(still), found)
    with pytest.raises(ValueError, match=r"90 frames of 4 voxels that vary. Is the mask on the image"):
        brain.acompcor(voxels[:, :4])


def test_cleaned_is_least_squares():
    series, known = noise(7, 1) + 100, noise(4, 2) + np.arange(FRAMES)[:, None]
    assert np.allclose(brain.clean_series(series, known), standardised(series.T, known), atol=1e-10)
    assert np.allclose(brain.clean_series(series, None), standardised(series.T), atol=1e-10)
    series[:, 2], series[3, 4] = 1000.1, np.nan
    found = brain.clean_series(series, known)
    assert (found[2] == 0).all()  # and not its rounding, standardised
    assert np.isnan(found[4]).all()
    assert np.isfinite(np.delete(found, 4, 0)).all()


def test_noise_that_does_not_fit_is_refused():
    with pytest.raises(ValueError, match=r"confounds have one row per frame: 90 are needed; got 80"):
        brain.clean_series(noise(3), noise(2, frames=80))
    with pytest.raises(ValueError, match=r"88 regressors leave nothing of 90 frames"):
        brain.clean_series(noise(3), noise(88))
    known = noise(2)
    assert np.allclose(brain.clean_series(noise(3, 1), np.hstack([known, np.full((FRAMES, 1), 1000.1)])),
                       brain.clean_series(noise(3, 1), known), atol=1e-12)  # fmt: skip
    assert np.allclose(brain.clean_series(noise(3, 1), np.ones((FRAMES, 1))), brain.clean_series(noise(3, 1), None))
    known[4, 1] = np.nan
    with pytest.raises(ValueError, match=r"confounds have a finite number for every frame; these do not"):
        brain.clean_series(noise(3), known)


# tables --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    ["1 2.5\n-3 nan\n", "a\tb\n1\t2.5\n-3\tn/a\n", "a,b\n1,2.5\n-3,\n", "  1.0   2.5  \n -3.0  NaN\n\n"],
    ids=["spaces", "tabs", "commas", "aligned"],
)
def test_tables_are_read_as_they_are_written(tmp_path, text):
    (tmp_path / "a.tsv").write_text(text)
    found = confounds.read_table(tmp_path / "a.tsv")
    assert np.array_equal(found, [[1, 2.5], [-3, np.nan]], equal_nan=True)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "has no rows of numbers"),
        ("a\tb\n", "has no rows of numbers"),
        ("a\tb\n1\t2\n1\n", "row 2 of numbers is 1 ..; 2 numbers are needed"),
        ("a\tb\n1\t2\n1\tx\n", "row 2 of numbers is 1, x"),
    ],
)
def test_tables_that_cannot_be_read_are_refused(tmp_path, text, sentence):
    (tmp_path / "a.tsv").write_text(text)
    with pytest.raises(ValueError, match=sentence):
        confounds.read_table(tmp_path / "a.tsv")


def write(path, table, header=None):
    lines = ["\t".join("n/a" if np.isnan(value) else repr(float(value)) for value in row) for row in table]
    path.write_text("\n".join([*(["\t".join(header)] if header else []), *lines]) + "\n")
    return path


def test_a_run_and_its_table_go_together(tmp_path):
    folder(tmp_path, ("sub-01",))
    place = tmp_path / "sub-01" / "func"
    table = write(place / "sub-01_task-rest_confounds.tsv", noise(3, frames=FRAMES - 1))
    with pytest.raises(ValueError, match=r"has 89 rows and its run has 90 frames; it needs one row per frame"):
        brain.read_brain_folder(tmp_path)
    gap = noise(3)
    gap[40, 1] = np.nan
    write(table, gap)
    with pytest.raises(
        ValueError, match=r"no number in column 2 of frame 41; a regressor needs a number for every frame"
    ):
        brain.read_brain_folder(tmp_path)
    write(place / "sub-01_task-rest_motion.txt", noise(4))
    table.unlink()
    with pytest.raises(ValueError, match=r"has the six motion parameters first; got 4 columns"):
        brain.read_brain_folder(tmp_path)


def test_the_first_frame_has_no_derivative(tmp_path):
    first = noise(2)
    first[0, 1] = np.nan
    table = write(tmp_path / "a.tsv", first)
    found, kept = confounds.run_regressors(brain.Run(tmp_path / "a_bold.nii.gz", confounds=table), FRAMES, 0)
    assert found[0, 1] == 0
    assert np.array_equal(found[1:], first[1:])
    assert kept.tolist() == list(range(FRAMES))
    first[5, 0] = np.nan  # the first frame that is kept, which is not the first
    write(table, first)
    with pytest.raises(ValueError, match=r"no number in column 1 of frame 6"):
        confounds.run_regressors(brain.Run(tmp_path / "a_bold.nii.gz", confounds=table), FRAMES, 5)
    assert confounds.run_regressors(brain.Run(tmp_path / "a_bold.nii.gz"), FRAMES, 5)[0] is None


# what is known is removed, end to end --------------------------------------------------------------------------------


def masks():
    """Two slabs of voxels outside the atlas's box."""
    white, fluid = np.zeros((2, 10, 10, 10), np.int16)
    white[0], fluid[9] = 1, 1
    return white, fluid


def test_motion_and_masks_are_removed_from_a_folder(tmp_path):
    frames, motion = 160, noise(6, frames=160).cumsum(0)
    both = [noise(5, seed, 160) for seed in (11, 12)]
    known = np.hstack([brain.expand_confounds(motion[5:]), *(source[5:] for source in both)])
    courses = chance(3).normal(size=(PARCELS, frames)) * 10
    dirty = courses.copy()
    dirty[:, 5:] += (known @ chance(4).normal(size=(34, PARCELS))).T * 20
    bold = volumes(dirty, noise=1.0)
    for mask, source, seed in zip(masks(), both, (5, 6), strict=True):
        bold[mask > 0] = 500 + (source @ chance(seed).normal(size=(5, 100))).T
    save(bold, tmp_path / "sub-01" / "sub-01_bold.nii.gz")
    save(labels(), tmp_path / "atlas.nii.gz")
    write(tmp_path / "sub-01" / "sub-01_motion.par", motion)
    for mask, name in zip(masks(), ("white_matter", "ventricles"), strict=True):
        save(mask, tmp_path / f"{name}.nii.gz")
    (run,) = brain.folder.find_runs(tmp_path, brain.folder.VOLUMES)
    found, kept = confounds.run_regressors(run, frames, 5)
    assert found.shape == (155, 64)
    assert kept[0] == 5
    series = brain.read_brain_folder(tmp_path).series[
        0
    ]  # the masks' components span their sources, whatever their rotation
    assert np.allclose(series, standardised(courses[:, 5:], found), atol=1e-3)
    left = brain.read_volumes([run.series], brain.read_atlas(tmp_path / "atlas.nii.gz")).series[0]
    assert abs(left - series).max() > 1
    (tmp_path / "ventricles.nii.gz").unlink()
    (run,) = brain.folder.find_runs(tmp_path, brain.folder.VOLUMES)
    assert confounds.run_regressors(run, frames, 5)[0].shape[1] == 44


def test_a_mask_that_is_not_there_is_refused(tmp_path):
    folder(tmp_path, ("sub-01",))
    save(labels() * 0, tmp_path / "white_matter.nii.gz")
    with pytest.raises(ValueError, match=r"has no voxel above 0.5 on"):
        brain.read_brain_folder(tmp_path)


# fMRIPrep ------------------------------------------------------------------------------------------------------------


def fmriprep(place, frames=FRAMES, steady=0):
    """A table of fMRIPrep and its .json, and the columns that matter."""
    components = [f"a_comp_cor_{i:02}" for i in range(18)]
    names = [*MOTION, *components, "cosine00", "cosine01", "global_signal", "trans_x_derivative1", "csf"]
    values = noise(len(names), 8, frames)
    values[0, names.index("trans_x_derivative1")] = np.nan
    if steady:
        names.append("non_steady_state_outlier00")
        values = np.hstack([values, np.eye(frames)[:, [steady]]])
    place.mkdir(parents=True, exist_ok=True)
    stem = place / "sub-01_task-rest_desc-confounds_timeseries"
    write(stem.with_suffix(".tsv"), values, names)
    kinds = ["combined"] * 6 + ["WM"] * 6 + ["CSF"] * 6
    stem.with_suffix(".json").write_text(
        json.dumps({name: {"Mask": kind, "Method": "aCompCor", "Retained": True}
                    for name, kind in zip(components, kinds, strict=True)})
    )  # fmt: skip
    chosen = [*MOTION, *components[6:11], *components[12:17]]
    return values[:, [names.index(name) for name in chosen]], values[
        :, [names.index("cosine00"), names.index("cosine01")]
    ]


def test_fmriprep_gives_the_same_64_and_its_cosines(tmp_path):
    place = tmp_path / "sub-01" / "func"
    base, slow = fmriprep(place, frames=120)
    known = np.hstack([brain.expand_confounds(base[5:]), slow[5:]])
    courses = chance(1).normal(size=(PARCELS, 120)) * 10
    courses[:, 5:] += (known @ chance(2).normal(size=(66, PARCELS))).T * 30
    save(labels(), tmp_path / "atlas.nii.gz")
    image = place / "sub-01_task-rest_space-MNI152NLin2009cAsym_desc-preproc_bold.nii.gz"
    save(volumes(courses), image)
    (run,) = brain.folder.find_runs(tmp_path, brain.folder.VOLUMES)
    found, _ = confounds.run_regressors(run, 120, 5)
    assert found.shape == (115, 66)
    order, theirs = np.argsort(known[9]), np.argsort(found[9])  # the ventricles may come first
    assert np.allclose(found[:, theirs], known[:, order])
    series = brain.read_brain_folder(tmp_path).series[0]
    assert np.allclose(series, standardised(courses[:, 5:], known), atol=1e-3)
    fmriprep(place, frames=120, steady=6)
    assert brain.read_brain_folder(tmp_path).series[0].shape == (PARCELS, 114)
    assert 6 not in confounds.run_regressors(run, 120, 5)[1]


@pytest.mark.parametrize("beside", ["motion", "white_matter", "ventricles"])
def test_what_would_count_twice_beside_fmriprep_is_refused(tmp_path, beside):
    fmriprep(tmp_path)
    table = tmp_path / "sub-01_task-rest_desc-confounds_timeseries.tsv"
    run = brain.Run(tmp_path / "sub-01_bold.nii.gz", confounds=table, **{beside: tmp_path / "more.nii.gz"})
    with pytest.raises(ValueError, match=r"is fMRIPrep's and has .* of its own, so more.nii.gz would count .* twice"):
        confounds.run_regressors(run, FRAMES, 5)


def test_fmriprep_without_its_words_is_refused(tmp_path):
    fmriprep(tmp_path)
    table = tmp_path / "sub-01_task-rest_desc-confounds_timeseries.tsv"
    run = brain.Run(tmp_path / "sub-01_task-rest_space-MNI_desc-preproc_bold.nii.gz", confounds=table)
    with pytest.raises(ValueError, match=r"has 90 rows and its run has 91 frames"):
        confounds.run_regressors(run, FRAMES + 1, 5)
    write(table, noise(2), ["trans_x", "a"])
    with pytest.raises(ValueError, match=r"cannot be used: .*missing: .*'rot_z'"):
        confounds.run_regressors(run, FRAMES, 5)
    table.with_suffix(".json").unlink()
    with pytest.raises(ValueError, match=r"needs its .json beside it.*: sub-01_task-rest_confounds.tsv"):
        confounds.run_regressors(run, FRAMES, 5)
