"""Training on a user's own data: steps, parts by seed, the chosen step, half the budget, and a sweep of rates."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from posenc.cli import main
from posenc.workbench import commands, find_study, runner, studies
from posenc.workbench.commands import run
from posenc.workbench.storage.store import Store
from posenc.workbench.studies import points, shape_fit
from posenc.workbench.studies.points import presets, stored_clouds
from posenc.workbench.studies.recordings import stored_recordings
from posenc.workbench.studies.recordings.stored_recordings import Protocol
from posenc.workbench.studies.shared import changes, own_data
from posenc.workbench.studies.shared.declarations import HALF, MAIN, OwnDataPlan, full_budget_of, half_budget_of
from posenc.workbench.studies.shared.dry_run import dry_run
from posenc.workbench.studies.shared.image_parts import divide_images
from posenc.workbench.studies.shared.lr_sweep import study_condition, sweep_label, swept_condition
from posenc.workbench.tasks import points as task
from posenc.workbench.tasks.images import ImageSet, Splits
from posenc.workbench.tasks.recordings import Recordings
from posenc.workbench.training.config import Best, TrainingConfig
from tiny_data import WRITERS

pytestmark = [pytest.mark.bare, pytest.mark.usefixtures("in_this_process")]

STUDY = points.STUDY
STEPS = 20
OWN_STUDIES = ("graphs", "gridpe", "language", "masked", "places", "points", "sc-pe", "series")


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """The quick preset of the points study made tiny."""
    tiny = dataclasses.replace(
        presets.PRESETS["quick"],
        own=OwnDataPlan(seeds=(0, 1)),
        points=16,
        own_steps=STEPS,
        model=presets.ModelSizes(dim=24, depth=1, heads=1, hidden=24),
        training=TrainingConfig(epochs=1, batch=8, lr=1e-3, optimizer="adam", clip=1.0),
    )
    monkeypatch.setitem(presets.PRESETS, "quick", tiny)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Boxes and cones in class folders without a test part, and a class of a single mesh."""
    return meshes(tmp_path / "shapes", {"box": 8, "cone": 8, "rod": 1})


def meshes(root: Path, sizes: dict[str, int], part: str = "") -> Path:
    rng = np.random.default_rng(0)
    for name, count in sizes.items():
        (root / name / part).mkdir(parents=True, exist_ok=True)
        for number in range(count):
            mesh = task.make_solid("cone" if name == "cone" else "box", rng)
            vertices = "\n".join(" ".join(f"{x:.6f}" for x in v) for v in mesh.vertices.tolist())
            faces = "\n".join(f"3 {a} {b} {c}" for a, b, c in mesh.faces.tolist())
            text = f"OFF\n{len(mesh.vertices)} {len(mesh.faces)} 0\n{vertices}\n{faces}\n"
            (root / name / part / f"{number}.off").write_text(text)
    return root


def execute(specs: Sequence[Any], store: Store) -> None:
    report = runner.run(specs, store, runner.InProcess(), emit=lambda event: None)
    assert report.exit_code == 0, report.failed


# the plan -----------------------------------------------------------------------------------------------------------


def test_own_data_is_trained_in_steps_with_a_validation_part_and_again_with_half(
    tmp_path: Path, folder: Path, small: None
) -> None:
    store = Store(tmp_path / "runs")
    request = studies.Request(preset="quick", schemes=["nope"], source=folder)
    specs = STUDY.plan(request, store)
    assert [(spec.condition, spec.seed) for spec in specs] == [
        ("shapes", 0), ("shapes", 1), ("shapes, half budget", 0), ("shapes, half budget", 1),
    ]  # fmt: skip
    full, half = specs[0].settings, specs[2].settings
    assert full["split"] == half["split"] == "seed"
    assert full["items"] == {"train": 11, "validation": 2, "test": 4, "unit": "clouds", "untested": ["rod"]}
    assert full["training"]["best"] == {"metric": "accuracy", "mode": "max"}
    schedule = ("epochs", "warmup_steps", "decay_steps", "evaluate_every")
    assert [full["training"][name] for name in schedule] == [20, 1, 20, 2]
    assert [half["training"][name] for name in schedule] == [10, 1, 10, 1]
    assert {**half, "training": full["training"]} == full, "nothing else differs"
    lines = dry_run(STUDY, request, store, 1)
    assert "  nope, shapes, half budget: seeds 0 1" in lines
    assert lines[0].startswith("4 runs of points")


def test_epochs_asked_for_count_passes_over_the_users_training_items(tmp_path: Path, folder: Path, small: None) -> None:
    store = Store(tmp_path / "runs")
    asked = {"preset": "quick", "schemes": ["nope"], "source": folder}
    epochs = STUDY.plan(studies.Request(**asked, changes={"epochs": 3}), store)[0].settings["training"]
    once = STUDY.plan(studies.Request(**asked, changes={"epochs": 1}), store)[0].settings["training"]
    steps = STUDY.plan(studies.Request(**asked, changes={"own_steps": 7}), store)[0].settings["training"]
    assert (epochs["epochs"], epochs["decay_steps"]) == (6, 6), "two batches of 8 hold 11 clouds"
    assert once["epochs"] == 2, "also where the preset has this number for its own data"
    assert (steps["epochs"], steps["decay_steps"]) == (7, 7)


def test_built_in_data_and_other_presets_have_no_parts_of_this_kind(tmp_path: Path, small: None) -> None:
    specs = STUDY.plan(studies.Request(preset="quick", schemes=["nope"]), Store(tmp_path / "runs"))
    assert not any({"split", "items"} & spec.settings.keys() for spec in specs)
    assert {spec.condition for spec in specs} == {"solids"}
    assert {name for name, study in studies.studies().items() if study.presets["quick"].own} == {
        *OWN_STUDIES, "shape-fit",
    }  # fmt: skip
    assert all(presets.PRESETS[name].own is None for name in ("large",))


def test_quick_on_own_data_has_five_seeds() -> None:
    for name in OWN_STUDIES:
        own = studies.find(name).presets["quick"].own
        assert own is not None
        assert (own.seeds, own.parts, own.half) == ((0, 1, 2, 3, 4), True, True)


def test_a_mesh_is_fitted_with_half_the_steps_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    preset = shape_fit.STUDY.presets["quick"]
    assert preset.own == OwnDataPlan(seeds=(0, 1, 2), parts=False)
    training = {"epochs": 1000, "decay_steps": None, "evaluate_every": 100, "warmup_steps": 0}
    halved = own_data.with_half_budget({"training": training, "points": "x"})
    assert halved == {"training": {**training, "epochs": 500, "evaluate_every": 50}, "points": "x"}
    assert own_data.with_half_budget({"baseline": "mean"}) is None


@pytest.mark.parametrize("steps", [7, 25, 350, 3000])
def test_half_of_twice_the_budget_is_the_budget(steps: int) -> None:
    training = TrainingConfig(epochs=1, batch=8, lr=0.1)
    best = Best(metric="loss")
    once, twice = (own_data.training_in_steps(training, n * steps, best, {}, 100).plain for n in (1, 2))
    if steps >= own_data.EVALUATIONS:
        assert own_data.with_half_budget({"training": twice}) == {"training": once}
    else:  # at least one step between two evaluations
        assert own_data.with_half_budget({"training": once}) == {
            "training": {**once, "epochs": steps // 2, "evaluate_every": 1}
        }


def test_labels_of_half_budget_and_of_a_sweep_lead_back_to_their_condition() -> None:
    for label in (MAIN, "pvt", "my shapes, v2"):
        assert full_budget_of(half_budget_of(label)) == label
        assert swept_condition(sweep_label(0.003, label)) == label
        assert study_condition(half_budget_of(label)) == study_condition(sweep_label(1e-05, label)) == label
        assert full_budget_of(label) is None is swept_condition(label)
    assert half_budget_of(MAIN) == HALF


# parts ----------------------------------------------------------------------------------------------------------------


def test_the_test_part_of_a_seed_is_drawn_and_a_given_one_is_kept(tmp_path: Path, folder: Path) -> None:
    clouds = task.read_class_folders(folder, task.CloudReading(16))
    assert (len(clouds.train), len(clouds.test)) == (17, 0)
    by_seed = [stored_clouds.divide_clouds(clouds, "seed", seed) for seed in (0, 1)]
    assert [len(parts.test) for parts in by_seed] == [4, 4]
    assert not torch.equal(by_seed[0].test.points, by_seed[1].test.points)
    given = meshes(tmp_path / "given", {"box": 6, "cone": 6}, "train")
    meshes(given, {"box": 3, "cone": 3}, "test")
    clouds = task.read_class_folders(given, task.CloudReading(16))
    by_seed = [stored_clouds.divide_clouds(clouds, "given", seed) for seed in (0, 1)]
    assert torch.equal(by_seed[0].test.points, clouds.test.points)
    assert [(len(parts.train), len(parts.validation or ()), len(parts.test)) for parts in by_seed] == [(10, 2, 6)] * 2
    assert not torch.equal(by_seed[0].train.points, by_seed[1].train.points)
    few = task.Splits(clouds.train.take([0, 6]), clouds.train.take([]))
    with pytest.raises(
        ValueError, match=r"none is left to choose the step of the training with\. Give at least 3 clouds"
    ):
        stored_clouds.divide_clouds(few, "seed", 0)


def test_given_validation_clouds_are_kept_and_stored(tmp_path: Path) -> None:
    root = meshes(tmp_path / "given", {"box": 4, "cone": 4}, "train")
    meshes(root, {"box": 2, "cone": 1}, "val")
    meshes(root, {"box": 3, "cone": 3}, "test")
    clouds = task.read_class_folders(root, task.CloudReading(16))
    task.save_clouds(clouds, tmp_path / "clouds.npz")
    parts = stored_clouds.divide_clouds(task.load_clouds(tmp_path / "clouds.npz"), "given", 1)
    assert [len(parts.train), len(parts.validation or ()), len(parts.test)] == [8, 3, 6]


def test_images_without_a_test_part_are_drawn_from_all_of_them() -> None:
    pixels, labels = (
        np.arange(40, dtype=np.uint8)[:, None, None, None] * np.ones((1, 1, 2, 2), np.uint8),
        np.arange(40) % 2,
    )
    whole = ImageSet.from_arrays("own", ("a", "b"), pixels, labels)
    read = Splits(whole.take(range(30)), whole.take([]), whole.take(range(30, 40)), given=False)

    def numbers(images: ImageSet) -> set[int]:
        return {int(value) for value in images.read(range(len(images)))[:, 0, 0, 0]}

    parts = [divide_images(read, "seed", seed) for seed in (0, 1)]
    for each in parts:
        assert numbers(each.train) | numbers(each.validation) | numbers(each.test) == set(range(40))
        assert [len(part) for part in (each.train, each.validation, each.test)] == [26, 6, 8]
    assert numbers(parts[0].test) != numbers(parts[1].test)
    given = divide_images(dataclasses.replace(read, given=True), "given", 0)
    assert numbers(given.test) == set(range(30, 40))
    assert (len(given.train), len(given.validation)) == (24, 6)
    own_validation = dataclasses.replace(read, validation=whole.take([1, 2]))
    assert divide_images(own_validation, "given", 0) is own_validation


@pytest.mark.parametrize(("subjects", "counts"), [(6, (3, 1, 2)), (2, (1, 0, 1))])
def test_whole_subjects_are_held_out_and_with_two_the_ends_of_recordings(
    tmp_path: Path, subjects: int, counts: tuple[int, int, int]
) -> None:
    rng, names = np.random.default_rng(0), [f"sub-{n // 2}_run-{n % 2}" for n in range(2 * subjects)]
    own = Recordings(tuple(rng.normal(size=(3, 40)) for _ in names), tuple(names))
    digest = stored_recordings.store(tmp_path, "own", lambda: own, Protocol(0.0, 0, 0), simulated=False)
    record, tested = stored_recordings.record_of(tmp_path, digest), []
    for seed in range(3):
        parts = stored_recordings.subject_parts(record, seed)
        assert parts.counts == dict(zip(("train", "validation", "test"), counts, strict=True))
        subjects_of = [{names[n].partition("_")[0] for n in part} for part in parts[:3]]
        assert sum(map(len, subjects_of)) == len(set.union(*subjects_of)), "no subject is in two parts"
        tokens = stored_recordings.read_parts(tmp_path, digest, seed, test_frames=5)
        assert tokens.rows is not None
        assert tokens.validation is not None
        assert len(tokens.test) == 5 * len(parts.test)
        trained = {int(n) for n in tokens.frames.recording[tokens.rows]}  # type: ignore[union-attr]
        assert trained == set(parts.train)
        held = tokens.train[tokens.rows].flatten(1)
        for samples in (tokens.test, tokens.validation):
            assert float(torch.cdist(samples.flatten(1), held).min()) > 0, "no held-out sample is in training"
        assert tokens.recordings == tuple(names[n] for n in parts.test)
        tested.append(parts.test)
        assert len(tokens.baseline_errors(0.34)["ridge"]) == len(parts.test)
    assert len(set(tested)) > 1


# from runs to the page ------------------------------------------------------------------------------------------------


@pytest.mark.full
def test_scores_are_of_the_test_part_at_the_step_that_validation_chose(
    tmp_path: Path, folder: Path, small: None
) -> None:
    store = Store(tmp_path / "runs")
    request = studies.Request(preset="quick", schemes=["xyz", "nope"], seeds=[0], source=folder)
    specs = STUDY.plan(request, store)
    execute(specs, store)
    for spec in specs:
        stored, steps = store.read(spec.identity), spec.settings["training"]["epochs"]
        curve = {row["epoch"]: row["value"] for row in stored.curves if row["metric"] == "accuracy"}
        assert {value * 2 for value in curve.values()} <= {0, 1, 2}, "curves are of the two validation clouds"
        assert (stored.metrics["accuracy"] * 4).is_integer(), "scores are of the four test clouds"
        best = max(value for step, value in curve.items() if step)
        chosen = max(step for step, value in curve.items() if step and value == best)
        trained = {name: stored.timing[name] for name in ("steps", "examples", "chosen_step")}
        assert trained == {"steps": steps, "examples": 8 * steps, "chosen_step": chosen}
        assert stored.timing["training_seconds"] > 0
    data = STUDY.page_data(request, store, specs)
    assert data.conditions == ["shapes"], "no panel draws half the budget as a condition of its own"
    assert {row["setting"] for row in data.rows} == {"shapes"}
    assert {row["setting"] for row in data.half_rows} == {"shapes, half budget"}
    assert {row["setting"] for row in data.half_curves} == {"shapes, half budget"}
    page = STUDY.page(request, store, specs, {}).read_text()
    assert "Classes without held-out clouds, shown by a training cloud: rod. The parts are those of seed 0" in page
    assert "half budget" not in page.split("Provenance")[0]
    assert {spec.identity for spec in STUDY.stored(request, store)} == {spec.identity for spec in specs}
    asked = dataclasses.replace(request, panels=["accuracy"])
    assert {spec.condition for spec in STUDY.stored(asked, store)} == {"shapes", "shapes, half budget"}


@pytest.mark.full
def test_a_sweep_chooses_a_rate_for_each_variant_on_validation_data(
    tmp_path: Path, folder: Path, small: None, capsys: pytest.CaptureFixture[str]
) -> None:
    rates = (1e-9, 3e-2)
    options = {"schemes": ["xyz", "blind"], "seeds": [0], "lr_sweep": rates, "out": tmp_path / "runs"}
    result = run("points", folder, jobs=1, **options)
    assert result.exit_code == 0
    assert "Estimate: 8 runs, about" in capsys.readouterr().out
    store = Store(tmp_path / "runs")
    swept = [spec for spec in result.specs if swept_condition(spec.condition)]
    assert {(spec.condition, spec.variant, spec.seed) for spec in swept} == {
        (f"shapes, lr {rate:g}", variant, 0) for rate in rates for variant in ("xyz", "blind")
    }
    assert {spec.settings["training"]["epochs"] for spec in swept} == {STEPS // 2}
    for variant in ("xyz", "blind"):
        best = {
            spec.settings["training"]["lr"]: max(
                row["value"] for row in store.read(spec.identity).curves if row["metric"] == "accuracy" and row["epoch"]
            )
            for spec in swept
            if spec.variant == variant
        }
        chosen = max(best, key=lambda rate: (best[rate], -rate))
        used = {
            spec.settings["training"]["lr"]
            for spec in result.specs
            if spec.variant == variant and swept_condition(spec.condition) is None
        }
        assert used == {chosen}
    page = result.path.read_text()
    assert "Learning rates" in page
    assert "rate 1e-09" in page
    assert "chosen rate" in page
    assert {spec.preset for spec in result.specs} == {"quick lr_sweep=1e-09,0.03"}
    assert changes.request_of("quick lr_sweep=1e-09,0.03").lr_sweep == rates
    again = commands.report("points", folder, lr_sweep=rates, out=tmp_path / "runs")
    assert {spec.identity for spec in again.specs} == {spec.identity for spec in result.specs}
    more = run("points", folder, jobs=1, **{**options, "seeds": [1]})  # another seed has the rate of the first sweep
    rates_of = {(spec.variant, spec.settings["training"]["lr"]) for spec in result.specs if spec not in swept}
    assert {(spec.variant, spec.settings["training"]["lr"]) for spec in more.specs if spec.seed == 1} == rates_of
    assert {spec.seed for spec in more.specs if swept_condition(spec.condition)} == {0}


@pytest.mark.parametrize(
    ("study", "options", "sentence"),
    [
        ("points", {"lr_sweep": [0.1]}, "two different learning rates or more; got 0.1. Use --lr-sweep"),
        ("points", {"lr_sweep": [0.1, 0.1]}, "two different learning rates or more; got 0.1, 0.1"),
        ("points", {"lr_sweep": [0.1, -1]}, "a learning rate is a number above 0; got -1"),
        ("points", {"lr_sweep": ["much", 0.1]}, "a learning rate is a number above 0; got 'much'"),
        ("points", {"lr_sweep": 0.1}, r"takes a list of learning rates; got 0.1. Write lr_sweep=\[0.001, 0.003\]"),
        (
            "points",
            {"lr_sweep": [0.1, 0.2]},
            r"data alone. Name your data: posenc run points PATH --lr-sweep",
        ),
        (
            "nmar",
            {"lr_sweep": [0.1, 0.2]},
            "and nmar holds none out. Change the rate of all variants instead: --set lr",
        ),
    ],
)
def test_a_sweep_that_is_not_possible_is_refused_in_one_sentence(
    tmp_path: Path, study: str, options: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(ValueError, match=sentence):
        run(study, out=tmp_path / "runs", **options)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["points", "--lr-sweep", "0.1"], "two different learning rates or more; got 0.1"),
        (["points", "--lr-sweep", "0.1", "-1"], "a learning rate is a number above 0; got -1"),
        (["points", "--lr-sweep", "fast"], "--lr-sweep takes a number; got 'fast'"),
        (["nmar", "--lr-sweep", "0.1", "0.2", "--dry-run"], "nmar holds none out"),
    ],
)
def test_the_command_refuses_a_wrong_sweep_with_exit_code_2(
    tmp_path: Path, words: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["run", *words, "--out", str(tmp_path / "runs")])
    assert ended.value.code == 2
    assert sentence in " ".join(capsys.readouterr().err.split())


def test_a_training_in_steps_has_no_item_twice_in_a_batch() -> None:
    training = TrainingConfig(epochs=9, batch=64, lr=0.1)
    best = Best(metric="accuracy", mode="max")
    few = own_data.training_in_steps(training, 350, best, {}, items=20)
    assert (few.epochs, few.batch, few.evaluate_every, few.best) == (350, 20, 35, best)


@pytest.mark.parametrize(
    ("study", "file", "name"),
    [
        ("series", "readings.csv", "readings"),
        ("graphs", "molecules", "train"),
        ("gridpe", "photos", "train_images"),
        ("sc-pe", "photos", "train_images"),
    ],
)
def test_settings_of_generated_data_are_refused_on_own_data(study: str, file: str, name: str, tmp_path: Path) -> None:
    WRITERS[file](tmp_path / file)
    request = studies.Request(preset="quick", source=tmp_path / file, seeds=(0,), changes={name: 20})
    with pytest.raises(ValueError, match=rf"--set {name} is a setting of generated or built-in data, and yours are"):
        find_study(study).plan(request, Store(tmp_path / "runs"))
