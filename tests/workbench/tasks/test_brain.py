"""Volumes become parcels: their means, cleaned of what is known, with names, places and networks."""

import doctest

import numpy as np
import pytest

pytest.importorskip("nilearn")

import nibabel
from nilearn.plotting import find_parcellation_cut_coords

from posenc.workbench.tasks import brain
from posenc.workbench.tasks.brain import atlas as atlases
from posenc.workbench.tasks.brain import networks
from posenc.workbench.tasks.brain.volumes import parcel_means
from small_brains import (
    AFFINE,
    FRAMES,
    PARCELS,
    SCHAEFER,
    chance,
    folder,
    labels,
    save,
    standardised,
    volumes,
)  # fmt: skip


@pytest.fixture
def courses():
    return chance(7).normal(size=(PARCELS, FRAMES)) * 10


@pytest.fixture
def atlas(tmp_path):
    return brain.read_atlas(save(labels(), tmp_path / "atlas.nii.gz"))


def test_the_worked_examples():
    for module in (brain, networks):
        found = doctest.testmod(module)
        assert found.attempted > 1
        assert found.failed == 0


# means and cleaning --------------------------------------------------------------------------------------------------


def test_a_parcel_is_the_mean_of_its_voxels(tmp_path, courses, atlas):
    path = save(volumes(courses, noise=20.0), tmp_path / "a_bold.nii.gz")
    assert np.allclose(parcel_means(path, atlas), 1000 + courses.T, atol=1e-3)
    assert np.allclose(parcel_means(path, atlas, 7), 1000 + courses.T[7:], atol=1e-3)


def test_a_series_longer_than_a_block_is_read_in_blocks(tmp_path, atlas, monkeypatch):
    monkeypatch.setattr("posenc.workbench.tasks.brain.nibabel_images.BLOCK_VALUES", 16_000)
    courses = chance(1).normal(size=(PARCELS, 70))
    path = save(volumes(courses, noise=1.0), tmp_path / "a_bold.nii.gz")
    assert np.allclose(parcel_means(path, atlas, 3), 1000 + courses.T[3:], atol=1e-6)


def test_runs_lose_their_first_frames_mean_trend_and_confounds(tmp_path, courses, atlas):
    noise = chance(2).normal(size=(FRAMES, 2))
    dirty = courses + 500 * noise.T[0] - 300 * noise.T[1] + 3 * np.arange(FRAMES) + 100
    dirty[:, :5] += 1e5  # not steady yet
    path = save(volumes(dirty, noise=5.0), tmp_path / "sub-3_task-rest_bold.nii.gz")
    table = tmp_path / "noise.tsv"
    np.savetxt(table, noise, delimiter="\t", header="a\tb", comments="")
    found = brain.read_volumes([brain.Run(path, confounds=table)], atlas)
    assert found.names == ("sub-3_task-rest",)
    assert found.subjects == ("sub-3",)
    assert found.series[0].shape == (PARCELS, FRAMES - 5)
    assert np.allclose(found.series[0], standardised(courses[:, 5:], noise[5:]), atol=2e-3)
    left = brain.read_volumes([path], atlas)  # without the table the noise stays
    assert abs(np.corrcoef(left.series[0])[0, 1]) > 0.9 > 0.5 > abs(np.corrcoef(found.series[0])[0, 1])
    every = brain.read_volumes([save(volumes(courses), tmp_path / "b_bold.nii")], atlas, first_frames=0)
    assert np.allclose(every.series[0], standardised(courses), atol=1e-4)


def test_an_atlas_of_another_resolution_is_resampled(tmp_path, courses):
    fine = np.kron(labels(), np.ones((2, 2, 2), np.int16))
    affine = AFFINE.copy()
    affine[:3, :3] /= 2
    affine[:3, 3] -= 1  # the corners stay where they are
    path = save(volumes(courses, noise=1.0), tmp_path / "a_bold.nii.gz")
    finer = brain.read_atlas(save(fine, tmp_path / "fine.nii.gz", affine))
    assert np.allclose(parcel_means(path, finer), 1000 + courses.T, atol=1e-3)
    assert np.allclose(finer.coordinates, brain.read_atlas(save(labels(), tmp_path / "a.nii.gz")).coordinates)


# atlases -------------------------------------------------------------------------------------------------------------


def test_places_are_centres_of_mass(atlas):
    found = atlas.coordinates
    assert found[0].tolist() == [-8.0, -8.0, -8.0]
    assert found[1].tolist() == [8.0, -8.0, -8.0]
    theirs = find_parcellation_cut_coords(atlas.image)
    assert np.allclose(found[1::2], theirs[1::2])
    assert not np.allclose(found[::2], theirs[::2])  # it cuts the left ones off at the voxel of x = 0


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.txt", "\n".join(SCHAEFER)),
        ("a.txt", "\n".join(["Background", *SCHAEFER])),
        ("a.txt", "\n".join(f"{i}\t{name}\t1\t2\t3\t0" for i, name in enumerate(SCHAEFER, 1))),
        ("a.txt", "# FreeSurfer\n" + "\n".join(f"{i}  {name}  1 2 3 0" for i, name in enumerate(SCHAEFER, 1))),
        ("a.tsv", "index\tname\tcolor\n0\tBackground\tx\n"
                  + "\n".join(f"{i}\t{name}\t#fff" for i, name in reversed(list(enumerate(SCHAEFER, 1))))
                  + "\n99\tnot there\t#fff"),
        ("a.csv", "name,index\n" + "\n".join(f"{name},{i}" for i, name in enumerate(SCHAEFER, 1))),
    ],
)  # fmt: skip
def test_names_are_read_as_they_are_written(tmp_path, name, text):
    (tmp_path / name).write_text(text)
    found = brain.read_atlas(save(labels(), tmp_path / "atlas.nii.gz"), tmp_path / name)
    assert list(found.names) == SCHAEFER
    assert found.networks == ("Vis", "Vis", "Default", "Default") * 2


def test_an_atlas_without_names_is_numbered(tmp_path, atlas):
    assert atlas.names[7] == "parcel 8"
    assert atlas.networks is None
    gaps = brain.read_atlas(save(labels() * 10, tmp_path / "gaps.nii.gz"))
    assert gaps.names[:2] == ("parcel 10", "parcel 20")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("a\nb", "has 2 names and the atlas 8 parcels. Write one name per line"),
        ("index\tname\n1\ta\n2\tb", "has no name for number 3 of the atlas, one of 6. Add its row"),
    ],
)
def test_names_that_do_not_fit_are_refused(tmp_path, text, sentence):
    (tmp_path / "a.tsv").write_text(text)
    with pytest.raises(ValueError, match=sentence):
        brain.read_atlas(save(labels(), tmp_path / "atlas.nii.gz"), tmp_path / "a.tsv")


def test_what_is_no_atlas_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"not a label image: its voxels are whole numbers"):
        brain.read_atlas(save(labels() / 3.0, tmp_path / "a.nii.gz"))
    with pytest.raises(ValueError, match=r"is an atlas \(x, y, z\) of whole numbers; got an image of shape"):
        brain.read_atlas(save(volumes(np.ones((8, 3))), tmp_path / "a.nii.gz"))
    with pytest.raises(ValueError, match=r"has 1 parcels; an atlas has two at least"):
        brain.read_atlas(save(labels() > 0, tmp_path / "a.nii.gz"))


# spaces --------------------------------------------------------------------------------------------------------------


def shifted(by):
    affine = AFFINE.copy()
    affine[:3, 3] += by
    return affine


@pytest.mark.parametrize(
    ("image", "atlas_name", "affine", "codes", "sentence"),
    [
        (
            "a_bold.nii.gz",
            "atlas.nii.gz",
            shifted(200),
            (2, 2),
            "lie in different spaces: 0% of the atlas is in the field of view",
        ),
        (
            "a_bold.nii.gz",
            "atlas.nii.gz",
            shifted(24),
            (2, 2),
            "lie in different spaces: 5% of the atlas is in the field of view",
        ),
        ("a_space-T1w_bold.nii.gz", "atlas.nii.gz", AFFINE, (2, 2), "is in its subject's own space"),
        ("a_space-T1w_bold.nii.gz", "tpl-MNI152_dseg.nii.gz", AFFINE, (2, 2), "is in its subject's own space"),
        ("a_space-fsLR_bold.nii.gz", "FSLMNI152.nii.gz", AFFINE, (2, 2), "is in fsLR space and the atlas .* in MNI"),
        ("a_bold.nii.gz", "atlas.nii.gz", AFFINE, (3, 4), "is in Talairach space and the atlas .* in MNI"),
    ],
)
def test_an_atlas_in_another_space_is_refused(tmp_path, courses, image, atlas_name, affine, codes, sentence):
    path = save(volumes(courses), tmp_path / image, code=codes[0])
    atlas = brain.read_atlas(save(labels(), tmp_path / atlas_name, affine, codes[1]))
    with pytest.raises(ValueError, match=sentence):
        brain.read_volumes([path], atlas)


def test_spaces_that_agree_or_are_not_said_are_taken(tmp_path, courses):
    for number, (image, name) in enumerate(
        [("a_space-MNI152NLin2009cAsym_bold.nii.gz", "Schaefer_FSLMNI152_2mm.nii.gz"),
         ("a_space-T1w_bold.nii.gz", "a_space-T1w_dseg.nii.gz"), ("a_bold.nii.gz", "tpl-MNI152NLin6Asym_dseg.nii.gz")]
    ):  # fmt: skip
        place = tmp_path / str(number)
        path = save(volumes(courses[:, :20]), place / image, code=1)
        found = brain.read_volumes([path], brain.read_atlas(save(labels(), place / name)))
        assert found.series[0].shape == (PARCELS, 15)
    image = nibabel.Nifti1Image(labels(), AFFINE)
    image.set_sform(AFFINE, 4)
    assert atlases.template_space(tmp_path / "a.nii", image) == "MNI"


def test_parcels_outside_are_named_or_left_out(tmp_path, courses, atlas):
    bold = volumes(courses, noise=1.0)
    bold[labels() == 3] = 0  # brought to nothing by a mask of the brain
    path = save(bold[:, :, :9], tmp_path / "a_bold.nii.gz")
    with pytest.raises(
        ValueError, match=r"1 of 8 parcels of atlas .* have no signal in a, such as parcel 3: .*drop=True"
    ):
        brain.read_volumes([path], atlas)
    found = brain.read_volumes([path], atlas, drop=True)
    assert found.dropped == ("parcel 3",)
    assert found.channels == tuple(f"parcel {i}" for i in (1, 2, 4, 5, 6, 7, 8))
    assert np.allclose(found.coordinates[2], atlas.coordinates[3])
    assert np.allclose(found.series[0][2], standardised(courses[:, 5:])[3], atol=1e-4)
    half = save(volumes(courses)[:, :, :5], tmp_path / "half_bold.nii.gz")
    lower = brain.read_volumes([half], atlas, drop=True)
    assert lower.channels == tuple(f"parcel {i}" for i in (1, 2, 3, 4))


# images that cannot be read ------------------------------------------------------------------------------------------


def test_images_that_cannot_be_read_are_refused(tmp_path, courses, atlas):
    path = save(volumes(courses, noise=9.0), tmp_path / "a_bold.nii.gz")
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ValueError, match=r"is damaged or cut short"):
        brain.read_volumes([path], atlas)
    path.write_bytes(b"nothing")
    with pytest.raises(ValueError, match=r"cannot be read as a brain image"):
        brain.read_volumes([path], atlas)
    with pytest.raises(ValueError, match=r"there is no file"):
        brain.read_volumes([tmp_path / "b_bold.nii.gz"], atlas)
    with pytest.raises(ValueError, match=r"is a series of volumes"):
        brain.read_volumes([save(labels(), tmp_path / "c_bold.nii.gz")], atlas)
    with pytest.raises(ValueError, match=r"has 6 frames, of which the first 5 are dropped"):
        brain.read_volumes([save(volumes(courses[:, :6]), tmp_path / "d_bold.nii.gz")], atlas)
    with pytest.raises(ValueError, match=r"there is no run to read"):
        brain.read_volumes([], atlas)


def test_a_folder_is_its_runs(tmp_path):
    courses = folder(tmp_path, noise=4.0)
    found = brain.read_brain_folder(tmp_path)
    assert found.names == ("sub-01_task-rest", "sub-02_task-rest")
    assert found.modules == ("Vis", "Vis", "Default", "Default") * 2
    for series, run in zip(found.series, courses, strict=True):
        assert np.allclose(series, standardised(courses[run][:, 5:]), atol=1e-4)
