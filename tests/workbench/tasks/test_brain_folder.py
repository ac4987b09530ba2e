"""A folder of brain images: which file is what, what is missing or there twice, and the folder that a fetch makes."""

import builtins
import re
import types

import numpy as np
import pytest

pytest.importorskip("nilearn")

from nilearn import datasets

from posenc import cli
from posenc.workbench.tasks import brain, recordings
from posenc.workbench.tasks.brain import download
from posenc.workbench.tasks.brain import folder as folders
from posenc.workbench.tasks.brain.recording import run_name
from small_brains import FRAMES, PARCELS, SCHAEFER, chance, folder, labels, save, standardised, volumes


@pytest.mark.parametrize(
    ("file", "run"),
    [
        ("sub-01_task-rest_bold.nii.gz", "sub-01_task-rest"),
        ("sub-01_ses-2_task-rest_run-1_space-MNI152NLin2009cAsym_res-2_desc-preproc_bold.nii.gz",
         "sub-01_ses-2_task-rest_run-1"),
        ("sub-01_task-rest_space-fsLR_den-91k_bold.dtseries.nii", "sub-01_task-rest"),
        ("rfMRI_REST1_LR_Atlas_MSMAll_hp2000_clean.dtseries.nii", "rfMRI_REST1_LR"),
        ("monday_bold.nii", "monday"),
        ("bold.nii.gz", "bold"),
        ("a.ptseries.nii", "a"),
    ],
)  # fmt: skip
def test_a_run_is_what_its_name_says(tmp_path, file, run):
    assert run_name(tmp_path / file) == run


@pytest.mark.parametrize(
    ("places", "names", "subjects"),
    [
        (["sub-1/func/sub-1_run-1_bold.nii.gz", "sub-1/func/sub-1_run-2_bold.nii.gz", "sub-2/sub-2_bold.nii.gz"],
         ["sub-1_run-1", "sub-1_run-2", "sub-2"], ["sub-1", "sub-1", "sub-2"]),
        (["100307/a/REST1_LR_bold.nii", "100307/b/REST1_RL_bold.nii", "100408/a/REST1_LR_bold.nii"],
         ["100307_REST1_LR", "100307_REST1_RL", "100408_REST1_LR"], ["100307", "100307", "100408"]),
        (["sub-7/ses-1/monday_bold.nii", "sub-7/ses-2/today_bold.nii"], ["sub-7_monday", "sub-7_today"], ["sub-7"] * 2),
        (["monday_bold.nii", "tuesday_bold.nii"], ["monday", "tuesday"], ["", ""]),
        (["100307_rfMRI_REST1_LR_bold.nii", "100307_rfMRI_REST1_RL_bold.nii", "240131_REST1_bold.nii"],
         ["100307_rfMRI_REST1_LR", "100307_rfMRI_REST1_RL", "240131_REST1"], ["100307", "100307", ""]),
    ],
    ids=["bids", "hcp", "by-folder", "flat", "flat-hcp"],
)  # fmt: skip
def test_runs_know_their_subjects(tmp_path, places, names, subjects):
    for place in places:
        (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / place).touch()
    runs = folders.find_runs(tmp_path, folders.VOLUMES)
    assert [run.name for run in runs] == names
    assert [run.subject for run in runs] == subjects


def test_runs_beside_folders_of_subjects_do_not_part_them(tmp_path):
    save(labels(), tmp_path / "atlas.nii.gz")
    for place in ("100307/REST1_bold.nii", "100307/REST2_bold.nii", "pilot_bold.nii"):
        save(volumes(chance(1).normal(size=(PARCELS, 20))), tmp_path / place)
    found = brain.read_brain_folder(tmp_path)
    assert found.subjects == ("100307", "100307", "pilot")
    assert found.note.startswith("Counted as a subject each: pilot. If one has several, begin their names with sub-")


def test_what_lies_beside_a_run_is_found(tmp_path):
    place = tmp_path / "sub-1" / "func"
    place.mkdir(parents=True)
    names = (
        "sub-1_bold.nii.gz",
        "sub-1_desc-confounds_regressors.tsv",
        "sub-1_motion.tsv",
        "sub-1_run-2_confounds.tsv",
    )
    for name in names:
        (place / name).touch()
    (tmp_path / "white_matter.nii.gz").touch()
    (tmp_path / "sub-1" / "ventricles.nii").touch()
    (run,) = folders.find_runs(tmp_path, folders.VOLUMES)
    assert run.confounds == place / names[1]
    assert run.motion == place / names[2]
    assert run.white_matter == tmp_path / "white_matter.nii.gz"
    assert run.ventricles == tmp_path / "sub-1" / "ventricles.nii"
    (place / "sub-1_confounds.csv").touch()
    with pytest.raises(ValueError, match=r"_desc-confounds_regressors.tsv and sub-1_confounds.csv are both confounds"):
        folders.find_runs(tmp_path, folders.VOLUMES)


def test_a_run_that_is_there_twice_or_has_no_confounds_is_refused(tmp_path):
    for space in ("MNI152NLin6Asym", "T1w"):
        (tmp_path / f"sub-1_space-{space}_bold.nii.gz").touch()
    with pytest.raises(
        ValueError, match=r"are one run, sub-1, twice. Keep in .* only the file in the space of the atlas"
    ):
        folders.find_runs(tmp_path, folders.VOLUMES)
    (tmp_path / "sub-1_space-T1w_bold.nii.gz").rename(tmp_path / "sub-2_space-T1w_bold.nii.gz")
    (tmp_path / "sub-1_confounds.tsv").touch()
    with pytest.raises(ValueError, match=r"sub-1_.* has a table of confounds or masks beside it and sub-2_.* has none"):
        folders.find_runs(tmp_path, folders.VOLUMES)


def test_a_folder_has_one_atlas_and_series_for_it(tmp_path):
    folder(tmp_path, ("sub-01",))
    (tmp_path / "x.dlabel.nii").touch()
    with pytest.raises(ValueError, match=r"has an atlas of volumes, atlas.nii.gz, and of grayordinates, x.dlabel.nii"):
        brain.read_brain_folder(tmp_path)
    (tmp_path / "x.dlabel.nii").unlink()
    (tmp_path / "b_dseg.nii.gz").touch()
    with pytest.raises(ValueError, match=r"has more than one atlas: atlas.nii.gz, b_dseg.nii.gz. Keep one"):
        brain.read_brain_folder(tmp_path)
    for atlas in ("atlas.nii.gz", "b_dseg.nii.gz"):
        (tmp_path / atlas).unlink()
    with pytest.raises(ValueError, match=r"has brain images and no atlas. Put one beside them: atlas.nii.gz"):
        brain.read_brain_folder(tmp_path)
    save(labels(), tmp_path / "empty" / "atlas.nii.gz")
    with pytest.raises(
        ValueError, match=r"has an atlas and no series for it. Name the series \*_bold.nii or \*_bold.nii.gz"
    ):
        brain.read_brain_folder(tmp_path / "empty")


def test_the_reader_of_recordings_reads_it(tmp_path):
    courses = folder(tmp_path / "brains")
    (tmp_path / "brains" / "networks.txt").write_text("\n".join("aabbccdd"))
    found = recordings.read_recordings(tmp_path / "brains")
    assert found.modules == tuple("aabbccdd")
    assert found.channels == tuple(SCHAEFER)
    assert found.coordinates.shape == (PARCELS, 3)
    assert np.allclose(found.series[1], standardised(courses["sub-02"][:, 5:]), atol=1e-4)
    with pytest.raises(ValueError, match=r"a folder of brain images with their atlas \(docs/brain.md\)"):
        recordings.read_recordings(tmp_path / "brains" / "atlas.nii.gz")
    silent = volumes(courses["sub-02"])
    silent[labels() == 2] = 1000
    save(silent, tmp_path / "brains" / "sub-02" / "func" / "sub-02_task-rest_bold.nii.gz")
    with pytest.raises(
        ValueError, match=r"1 of 8 parcels .* have no signal in sub-02_task-rest, such as 7Networks_LH_Vis_2"
    ):
        recordings.read_recordings(tmp_path / "brains")
    assert recordings.read_recordings(tmp_path / "brains", drop=True).dropped == (SCHAEFER[1],)


def test_without_nibabel_a_sentence_says_what_to_install(tmp_path, monkeypatch):
    folder(tmp_path, ("sub-01",))
    real = builtins.__import__

    def without(name, *args):
        if name.split(".")[0] in ("nibabel", "nilearn"):
            raise ImportError(name)
        return real(name, *args)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ValueError, match=r"pip install 'posenc\[fmri\]'"):
        brain.read_brain_folder(tmp_path)
    with pytest.raises(ValueError, match=r"is fetched by nilearn: pip install 'posenc\[fmri\]'"):
        brain.download_development_fmri(tmp_path / "new")


# posenc data ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def fetched(tmp_path, monkeypatch):
    """What nilearn's fetchers return, of small files: the network is not asked."""
    runs, tables, asked = [], [], {}
    for number in range(3):
        stem = tmp_path / "nilearn_data" / f"sub-pixar00{number}_task-pixar"
        data = volumes(chance(number).normal(size=(PARCELS, FRAMES)), noise=1.0)
        runs.append(str(save(data, stem.with_name(f"{stem.name}_space-MNI152NLin2009cAsym_desc-preproc_bold.nii.gz"))))
        tables.append(str(stem.with_name(f"{stem.name}_desc-reducedConfounds_regressors.tsv")))
        table = chance(number).normal(size=(FRAMES, 15))
        table[0, 6] = np.nan  # framewise displacement
        np.savetxt(tables[-1], table, delimiter="\t", header="\t".join(f"c{i}" for i in range(15)), comments="")
    atlas = save(labels(), tmp_path / "nilearn_data" / "Schaefer2018_FSLMNI152_2mm.nii.gz", code=1)

    def fetch_runs(n_subjects, **options):
        asked.update(options, subjects=n_subjects)
        return types.SimpleNamespace(func=runs, confounds=tables)

    def fetch_atlas(n_rois, **options):
        asked.update(options, parcels=n_rois)
        return types.SimpleNamespace(maps=str(atlas), labels=["Background", *SCHAEFER])

    monkeypatch.setattr(datasets, "fetch_development_fmri", fetch_runs)
    monkeypatch.setattr(datasets, "fetch_atlas_schaefer_2018", fetch_atlas)
    return asked


def ran(capsys, *words):
    """Exit status, standard output and standard error of one command."""
    with pytest.raises(SystemExit) as stopped:
        cli.main([str(word) for word in words])
    return (stopped.value.code, *capsys.readouterr())


def test_a_fetched_folder_is_read_as_it_is(tmp_path, fetched, capsys):
    made = tmp_path / "brains"
    assert ran(capsys, "data", "development-fmri", "--to", made, "--subjects", 3)[:2] == (0, f"{made}\n")
    assert fetched["subjects"] == 3
    assert (fetched["parcels"], fetched["yeo_networks"], fetched["reduce_confounds"]) == (100, 7, True)
    found = recordings.read_recordings(made)
    assert found.subjects == ("sub-pixar000", "sub-pixar001", "sub-pixar002")
    assert found.modules == ("Vis", "Vis", "Default", "Default") * 2
    assert found.series[0].shape == (PARCELS, FRAMES - 5)
    run = folders.find_runs(made, folders.VOLUMES)[0]
    assert brain.confounds.run_regressors(run, FRAMES, 5)[0].shape == (85, 15)
    assert "Richardson" in (made / "README.txt").read_text()


def test_fetching_without_a_network_is_a_sentence(tmp_path, monkeypatch, capsys):
    def unreachable(**options):
        raise ConnectionError(sorted(options))

    monkeypatch.setattr(datasets, "fetch_development_fmri", unreachable)
    status, _, said = ran(capsys, "data", "development-fmri", "--to", tmp_path / "brains")
    assert status == 2
    assert re.search(r"development-fmri could not be downloaded \(ConnectionError\)\. The first download needs", said)
    assert not (tmp_path / "brains").exists()
    with pytest.raises(ValueError, match=r"the set has 155 subjects, and a study needs 2 at least; got 1"):
        brain.download_development_fmri(tmp_path, 1)
    status, _, said = ran(capsys, "data", "development-fmri", "--read", tmp_path)
    assert status == 2
    assert "posenc run masked DIR" in said


def test_a_folder_that_cannot_be_written_is_a_sentence(tmp_path, fetched):
    (tmp_path / "file").touch()
    with pytest.raises(ValueError, match=r"cannot be written to .*Name another folder: --to DIR"):
        brain.download_development_fmri(tmp_path / "file" / "brains", 3)


def test_where_hcp_is_had(capsys):
    status, said, _ = ran(capsys, "data", "hcp")
    assert status == 0
    assert said == download.HCP_INSTRUCTIONS
    assert "Open Access Data Use Terms" in said
    assert "posenc run masked FOLDER" in said
