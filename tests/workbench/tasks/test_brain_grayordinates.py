"""Grayordinates become labels, whatever the order and the medial wall of either file; networks find their parcels."""

import numpy as np
import pytest

pytest.importorskip("nilearn")

import nibabel
from nibabel import cifti2

from posenc.workbench.tasks import brain
from posenc.workbench.tasks.brain.grayordinates import label_means
from small_brains import (
    AFFINE,
    FRAMES,
    LEFT,
    VERTICES,
    chance,
    models,
    save_dense,
    save_labels,
    save_surface,
    standardised,
)  # fmt: skip

TABLE = {0: "???", 1: "R_V1_ROI", 2: "R_A1_ROI", 3: "L_V1_ROI", 4: "L_A1_ROI", 7: "THALAMUS_L"}
"""The right side first, as in Glasser's own file."""
VOXELS = [[5, 5, 5], [5, 5, 6], [5, 6, 5], [2, 2, 2]]
WALL = 6
"""The first vertices of each side, which a series leaves out and a label file may have."""


def keys_of(axis):
    """Vertices below the half are of V1, above of A1; all voxels but the last of the thalamus."""
    keys = np.zeros(len(axis), int)
    for structure, part, own in axis.iter_structures():
        if "CORTEX" in structure:
            keys[part] = np.where(own.vertex < WALL, 0, (3 if structure == LEFT else 1) + (own.vertex >= VERTICES // 2))
        else:
            keys[part] = [7 if voxel != VOXELS[3] else 0 for voxel in own.voxel.tolist()]
    return keys


@pytest.fixture
def whole():
    return models(range(VERTICES), range(VERTICES), VOXELS)


@pytest.fixture
def part():
    """No medial wall, another order of vertices and voxels, the right side shuffled."""
    right = chance(3).permutation(np.arange(WALL, VERTICES))
    return models(range(WALL, VERTICES), right, VOXELS[::-1])


def write(tmp_path, whole, part, courses, run="sub-01_task-rest", name="Glasser.dlabel.nii"):
    save_labels(keys_of(whole), tmp_path / name, whole, TABLE)
    keys = keys_of(part)
    data = np.full((courses.shape[1], len(part)), 1e6)
    for number, key in enumerate((1, 2, 3, 4, 7)):
        if (keys == key).any():
            own = chance(number).normal(size=(courses.shape[1], (keys == key).sum()))
            data[:, keys == key] = 1000 + courses[number][:, None] + own - own.mean(1, keepdims=True)
    return save_dense(data, tmp_path / run.split("_")[0] / f"{run}_space-fsLR_den-91k_bold.dtseries.nii", part)


@pytest.fixture
def courses():
    return chance(9).normal(size=(5, FRAMES)) * 10


def test_labels_are_matched_by_vertex_and_voxel(tmp_path, whole, part, courses, monkeypatch):
    path = write(tmp_path, whole, part, courses)
    labels = brain.read_labels(tmp_path / "Glasser.dlabel.nii")
    assert labels.names == tuple(TABLE[key] for key in (1, 2, 3, 4, 7))
    assert np.allclose(label_means(path, labels), 1000 + courses.T, atol=1e-3)
    monkeypatch.setattr("posenc.workbench.tasks.brain.nibabel_images.BLOCK_VALUES", 32 * len(part))
    assert np.allclose(label_means(path, labels, 5), 1000 + courses.T[5:], atol=1e-3)


def test_a_folder_is_read_and_placed(tmp_path, whole, part, courses):
    write(tmp_path, whole, part, courses)
    write(tmp_path, whole, part, courses[::-1], "sub-02_task-rest")
    place = chance(4).normal(size=(2, VERTICES, 3)) + np.array([[[-50, 0, 0]], [[50, 0, 0]]])
    for side, points in zip("LR", place, strict=True):
        save_surface(points, tmp_path / f"S1200.{side}.midthickness_MSMAll.32k_fs_LR.surf.gii")
    found = brain.read_brain_folder(tmp_path)
    assert found.names == ("sub-01_task-rest", "sub-02_task-rest")
    assert np.allclose(found.series[0], standardised(courses[:, 5:]), atol=1e-3)
    assert np.allclose(found.series[1], standardised(courses[::-1, 5:]), atol=1e-3)
    assert found.modules is None
    expected = [place[1, WALL:20].mean(0), place[1, 20:].mean(0), place[0, WALL:20].mean(0), place[0, 20:].mean(0),
                (AFFINE @ [*np.mean(VOXELS[:3], 0), 1])[:3]]  # fmt: skip
    assert np.allclose(found.coordinates, expected, atol=1e-5)


def test_places_need_both_sides_of_one_mesh(tmp_path, whole, part, courses):
    path = write(tmp_path, whole, part, courses)
    labels = brain.read_labels(tmp_path / "Glasser.dlabel.nii")
    left = save_surface(chance().normal(size=(VERTICES, 3)), tmp_path / "a.L.midthickness.surf.gii")
    with pytest.raises(
        ValueError, match=r"has labels without coordinates, such as R_V1_ROI. Give the surfaces of both sides"
    ):
        brain.read_grayordinates([path], labels, surfaces=[left])
    other = save_surface(chance().normal(size=(30, 3)), tmp_path / "a_hemi-R_midthickness.surf.gii")
    with pytest.raises(ValueError, match=r"the R surface has 30 vertices and .* has 40"):
        brain.read_grayordinates([path], labels, surfaces=[left, other])
    with pytest.raises(ValueError, match=r"states no hemisphere"):
        brain.read_grayordinates([path], labels, surfaces=[left.rename(tmp_path / "midthickness.surf.gii")])
    assert brain.read_grayordinates([path], labels).coordinates is None


def test_other_meshes_grids_and_files_are_refused(tmp_path, whole, part, courses):
    path = write(tmp_path, whole, part, courses)
    labels = brain.read_labels(tmp_path / "Glasser.dlabel.nii")
    data = np.ones((FRAMES, 30))
    finer = cifti2.BrainModelAxis.from_surface(np.arange(30), 99, LEFT)
    with pytest.raises(ValueError, match=r"has 99 vertices in CIFTI_STRUCTURE_CORTEX_LEFT and Glasser.dlabel.nii 40"):
        brain.read_grayordinates([save_dense(data, tmp_path / "a.dtseries.nii", finer)], labels)
    coarse = cifti2.BrainModelAxis(whole.name[-1], voxel=VOXELS, affine=2 * AFFINE, volume_shape=(10, 10, 10))
    with pytest.raises(ValueError, match=r"lie on one grid in b.dtseries.nii and on another"):
        brain.read_grayordinates([save_dense(data[:, :4], tmp_path / "b.dtseries.nii", coarse)], labels)
    elsewhere = cifti2.BrainModelAxis.from_surface(np.arange(30), VERTICES, "CIFTI_STRUCTURE_CEREBELLUM")
    with pytest.raises(ValueError, match=r"has no grayordinate with a label of Glasser"):
        brain.read_grayordinates([save_dense(data, tmp_path / "c.dtseries.nii", elsewhere)], labels)
    with pytest.raises(ValueError, match=r"is not a label file of grayordinates"):
        brain.read_labels(path)
    with pytest.raises(ValueError, match=r"is not a series of grayordinates"):
        brain.read_grayordinates([tmp_path / "Glasser.dlabel.nii"], labels)
    with pytest.raises(ValueError, match=r"has the key 9, which its table does not name"):
        brain.read_labels(save_labels(np.full(len(whole), 9), tmp_path / "d.dlabel.nii", whole, TABLE))


def test_a_label_without_grayordinates_is_named_or_left_out(tmp_path, whole, courses):
    some = models(range(WALL, VERTICES), range(WALL, 20), VOXELS)  # the right A1 was not scanned
    path = write(tmp_path, whole, some, courses)
    labels = brain.read_labels(tmp_path / "Glasser.dlabel.nii")
    with pytest.raises(
        ValueError, match=r"1 of 5 parcels of Glasser.dlabel.nii have no signal in .*, such as R_A1_ROI"
    ):
        brain.read_grayordinates([path], labels)
    assert brain.read_grayordinates([path], labels, drop=True).dropped == ("R_A1_ROI",)


def test_motion_is_removed_and_masks_ask_for_volumes(tmp_path, whole, part, courses):
    motion = chance(5).normal(size=(FRAMES, 12))
    known = brain.expand_confounds(motion[5:, :6])
    dirty = courses.copy()
    dirty[:, 5:] += (known @ chance(6).normal(size=(24, 5))).T * 20
    path = write(tmp_path, whole, part, dirty)
    np.savetxt(path.parent / "Movement_Regressors.txt", motion)
    assert np.allclose(brain.read_brain_folder(tmp_path).series[0], standardised(courses[:, 5:], known), atol=2e-3)
    nibabel.save(nibabel.Nifti1Image(np.ones((4, 4, 4)), np.eye(4)), tmp_path / "white_matter.nii.gz")
    with pytest.raises(ValueError, match=r"aCompCor takes the voxels of volumes, and .* has none. Put the same run"):
        brain.read_brain_folder(tmp_path)
    bold = nibabel.Nifti1Image(chance(7).normal(size=(4, 4, 4, FRAMES)), np.eye(4))
    nibabel.save(bold, path.parent / "sub-01_task-rest.nii.gz")
    found = brain.read_brain_folder(tmp_path)
    (run,) = brain.folder.find_runs(tmp_path, brain.folder.DENSE)
    assert run.volume is not None
    assert brain.confounds.run_regressors(run, FRAMES, 5)[0].shape == (85, 44)
    assert np.isfinite(found.series[0]).all()


def test_series_of_parcels_have_their_names(tmp_path, courses):
    axis = cifti2.ParcelsAxis.from_brain_models(
        [(f"7Networks_LH_Vis_{i}", cifti2.BrainModelAxis.from_surface([i], VERTICES, LEFT)) for i in range(5)]
    )
    for number in (1, 2):
        image = cifti2.Cifti2Image(
            (100 + courses * number).T.astype(np.float32), (cifti2.SeriesAxis(0, 1, FRAMES), axis)
        )
        nibabel.save(image, tmp_path / f"sub-{number}_task-rest.ptseries.nii")
    found = brain.read_brain_folder(tmp_path)
    assert found.channels == tuple(f"7Networks_LH_Vis_{i}" for i in range(5))
    assert found.modules == ("Vis",) * 5
    assert found.subjects == ("sub-1", "sub-2")
    assert np.allclose(found.series[0], standardised(courses[:, 5:]), atol=1e-4)


# networks ------------------------------------------------------------------------------------------------------------

GLASSER = [f"{side}_{i}_ROI" for side in "RL" for i in range(180)]


def test_cab_np_goes_by_hemisphere(tmp_path):
    """The file has the left side first and the labels may have the right one first: numbers follow the sides."""
    numbers = chance(1).integers(1, 13, 360)
    path = tmp_path / "cortex_parcel_network_assignments.txt"
    path.write_text("\n".join(map(str, numbers)) + "\n")
    found = brain.read_networks(path, GLASSER)
    assert found == tuple(brain.CAB_NP_NETWORKS[i - 1] for i in [*numbers[180:], *numbers[:180]])
    swapped = brain.read_networks(path, [*GLASSER[180:], *GLASSER[:180]])
    assert swapped == tuple(brain.CAB_NP_NETWORKS[i - 1] for i in numbers)
    assert brain.read_networks(path, [f"parcel {i}" for i in range(360)]) == swapped
    other = path.rename(tmp_path / "networks.txt")  # the user's own in the atlas's order, or CAB-NP's renamed
    with pytest.raises(ValueError, match=r"networks.txt has 360 numbers, .* does not state which. Name CAB-NP's"):
        brain.read_networks(other, GLASSER)
    assert brain.read_networks(other, [*GLASSER[180:], *GLASSER[:180]]) == swapped


@pytest.mark.parametrize(
    ("name", "side"),
    [("L_V1_ROI", "L"), ("R_V1_ROI", "R"), ("V1_L", "L"), ("Visual1-04_R-Ctx", "R"), ("7Networks_LH_Vis_1", "L"),
     ("17Networks_RH_VisCent_1", "R"), ("parcel 3", None), ("Lingual", None)],
)  # fmt: skip
def test_sides_are_read_off_names(name, side):
    assert brain.networks.hemisphere(name) == side


@pytest.mark.parametrize(
    ("names", "networks"),
    [
        (["7Networks_LH_Vis_1", "7Networks_RH_SomMot_12"], ("Vis", "SomMot")),
        (["17Networks_LH_VisCent_ExStr_1", "17Networks_RH_DefaultA_IPL_1"], ("VisCent", "DefaultA")),
        (["Visual1-04_L-Ctx", "Cingulo-Opercular-30_R-Ctx"], ("Visual1", "Cingulo-Opercular")),
        (["7Networks_LH_Vis_1", "hippocampus"], None),
        ([], None),
    ],
)
def test_networks_are_read_off_names(names, networks):
    assert brain.networks_from_names(names) == networks


def test_networks_of_a_file(tmp_path):
    path = tmp_path / "networks.tsv"
    path.write_text("name\tnetwork\nb\tVis\na\tDMN\n")
    assert brain.read_networks(path, ["a", "b"]) == ("DMN", "Vis")
    with pytest.raises(ValueError, match=r"states no network of 'c', one of 1"):
        brain.read_networks(path, ["a", "c"])
    path.write_text('"name","network"\n"b","Vis"\n"a","DMN"\n')  # as R writes it
    assert brain.read_networks(path, ["a", "b"]) == ("DMN", "Vis")
    path.write_text("Vis\nDMN\n")
    assert brain.read_networks(path, ["a", "b"]) == ("Vis", "DMN")
    path.write_text("3\n14\n")
    assert brain.read_networks(path, ["a", "b"]) == ("network 3", "network 14")
    with pytest.raises(ValueError, match=r"has 2 lines; one per parcel is needed, 3"):
        brain.read_networks(path, ["a", "b", "c"])
