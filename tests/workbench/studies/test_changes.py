"""Changes of settings by a request: names, types, choices, values that follow, refusals, pages and stored runs."""

import dataclasses
import sys
from pathlib import Path

import msgspec
import pytest

from posenc.version import __version__
from posenc.workbench import runner, setting_errors, studies
from posenc.workbench.storage.store import Store
from posenc.workbench.studies import Request, nmar, permuted
from posenc.workbench.studies.shared import changes, own_data
from posenc.workbench.studies.shared.dry_run import dry_run
from posenc.workbench.studies.shared.hidden_tokens import table_scores
from posenc.workbench.training.loop import TrainingConfig

pytestmark = pytest.mark.bare

EVERY = studies.studies()


def changed(study, preset="quick", **values):
    return changes.changed_preset(EVERY[study].presets, Request(preset=preset, changes=values))


def refused(study, preset="quick", panels=None, **values):
    request = Request(preset=preset, changes=values, panels=panels)
    with pytest.raises(ValueError) as error:
        changes.refuse_varied(EVERY[study], request, panels or EVERY[study].presets[preset].panels)
    return str(error.value)


# names and values ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("study", "preset"), [(name, preset) for name in EVERY for preset in EVERY[name].presets])
def test_every_name_stands_for_its_fields_and_every_default_is_a_possible_value(study, preset):
    settings = changes.settings_of(EVERY[study], preset)
    names = [setting.name for setting in settings]
    assert len(set(names)) == len(names) >= 16
    paths = [path for setting in settings for path in setting.paths]
    assert len(set(paths)) == len(paths)
    base = EVERY[study].presets[preset]
    for setting in settings:
        if ";" not in setting.default and setting_errors.COMPUTED not in setting.default:
            assert changed(study, preset, **{setting.name: setting.default}) == base, setting
        for path in setting.paths:
            matches = changes._find(base, Request(preset=preset), path)
            assert [".".join(leaf.path) for leaf in matches] == [path]


@pytest.mark.parametrize("study", EVERY)
def test_steps_and_optimizer_can_be_changed_in_every_study(study):
    names = {setting.name for setting in changes.settings_of(EVERY[study], "quick")}
    training = {field.name for field in msgspec.structs.fields(TrainingConfig)} - {
        "plateau",
        "best",
    }  # of several values each
    assert training - names <= {"epochs", "batch", "seconds"}
    assert changed(study, epochs="4000", optimizer="sgd", batch=8) != EVERY[study].presets["quick"]
    options = changes.options(EVERY[study].presets, Request(preset="quick", changes={"epochs": 4000}))
    assert options in (["--set epochs=4000"], ["--set steps=4000"])


def test_a_name_changes_all_fields_of_its_class_and_a_path_one_of_them():
    both = changed("gridpe", epochs=7)
    assert {recipe.training.epochs for recipe in both.recipes.values()} == {7}
    one = changed("gridpe", **{"recipes.pvt.training.epochs": "7"})
    assert [recipe.training.epochs for recipe in one.recipes.values()] == [4, 7]
    mixed = changed("gridpe", **{"epochs": 7, "recipes.pvt.training.epochs": 9})
    assert [recipe.training.epochs for recipe in mixed.recipes.values()] == [7, 9]
    assert changed("language", window=32).recall == EVERY["language"].presets["quick"].recall
    assert changed("language", **{"recall.window": 16}).recall.window == 16


def test_a_text_and_a_value_of_the_type_are_the_same_change():
    presets = EVERY["nmar"].presets
    for text, value in (("4", 4), ("0.5", 0.5), ("none", None), ("0.9,0.95", (0.9, 0.95)), ("true", True)):
        name = {"4": "epochs", "0.5": "lr", "none": "clip", "0.9,0.95": "betas", "true": "second_activation"}[text]
        as_text, as_value = (Request(preset="quick", changes={name: each}) for each in (text, value))
        assert changes.changed_preset(presets, as_text) == changes.changed_preset(presets, as_value)
        assert changes.preset_label(presets, as_text) == changes.preset_label(presets, as_value)


def test_a_label_has_one_form_and_is_read_back():
    presets = EVERY["gridpe"].presets
    request = Request(preset="standard", changes={"recipes.pvt photographs.training.epochs": "3", "lr": "1e-3"})
    label = changes.preset_label(presets, request)
    assert label == "standard lr=0.001 'recipes.pvt photographs.training.epochs=3'"
    read = changes.request_of(label)
    assert changes.changed_preset(presets, read) == changes.changed_preset(presets, request)
    reversed_order = Request(preset="standard", changes=dict(reversed(request.changes.items())))
    assert changes.preset_label(presets, reversed_order) == label
    assert changes.preset_label(presets, Request(preset="standard", changes={"train_images": "none"})) == "standard"


@pytest.mark.parametrize("study", ["gridpe", "points", "sc-pe"])
def test_epochs_that_equal_the_presets_own_are_asked_for_on_own_data(study):
    presets = EVERY[study].presets
    settings = next(each for each in changes.settings_of(EVERY[study], "quick") if each.name == "epochs")
    for path, own in zip(settings.paths, settings.defaults, strict=True):
        request = Request(preset="quick", source=Path("own"), changes={path: own})
        assert changes.explicit_fields(presets, request, *path.split(".")[:-1]) == {"epochs": int(own)}
        assert changes.preset_label(presets, request).endswith(f"={own}")
        name = "epochs" if len(settings.paths) == 1 else path
        assert changes.differences(presets, request) == [f"{name} {own}"]
        assert changes.request_of(changes.preset_label(presets, request)).changes == {name: own}


def test_wrong_names_and_values_are_refused_with_the_possible_ones():
    assert refused("nmar", epoch=4).startswith("there is no setting 'epoch'. Did you mean epochs")
    assert "weight_decay" in refused("nmar", weight_dekay=0)
    assert refused("gridpe", size=4).endswith("named 'size': recipes.size, augmentation.size. Name one of them.")
    assert changed("image-fit", size=96) == changed("image-fit", longest_side=96) != changed("image-fit")
    message = refused("nmar", optimizer="adamm")
    assert message.startswith("there is no optimizer 'adamm'. Did you mean ")
    assert message.endswith("Choose one of adamw, adam, sgd.")
    assert refused("nmar", epochs="4.5") == ("epochs must be a whole number; got '4.5'. The preset has epochs=3500.")
    assert "whole number" in refused("nmar", epochs=True)
    assert "2 numbers separated by commas or none" in refused("nmar", betas="0.9")
    assert "at least 1" in refused("nmar", depth=0)
    assert "not negative" in refused("nmar", weight_decay="-0.1")
    assert "not negative" in refused("nmar", lr="nan")
    assert "--set heads=3 is not possible: 3 heads do not divide a width of 32" in refused("nmar", heads=3)
    assert "are the same setting" in refused("nmar", **{"epochs": 3, "training.epochs": 4})
    assert "there is no setting 'channels'" in refused("nmar", channels=3)
    assert "there is no setting 'seeds'" in refused("nmar", seeds=3)
    assert changed("latin-squares", warmup_steps=0).main.training.warmup_steps == 0


# values that follow --------------------------------------------------------------------------------------------------


def test_a_cosine_decay_ends_at_the_last_step_unless_it_is_changed_too():
    assert changed("globe", epochs=80).training.decay_steps == 800
    assert changed("globe", train=20_000).training.decay_steps == 800
    assert changed("globe", epochs=80, decay_steps=100).training.decay_steps == 100
    text = changed("language", epochs=100).training
    assert (text.warmup_steps, text.decay_steps, text.evaluate_every) == (10, 100, 5)
    assert changed("language", epochs=100, warmup_steps=3).recall.training.warmup_steps == 3
    described = changes.differences(EVERY["globe"].presets, Request(preset="quick", changes={"epochs": 80}))
    assert described == ["epochs 40 → 80", "decay_steps 400 → 800"]


def test_a_number_of_steps_replaces_a_time_limit_and_a_time_limit_a_number_of_steps():
    limits = changed("image-fit", epochs=50)
    assert {(limit.seconds, limit.steps) for limit in (limits.limit, limits.sweep_limit)} == {(None, 50)}
    timed = changed("image-fit", **{"held_out_limit.seconds": 2}).held_out_limit
    assert (timed.seconds, timed.steps) == (2, None)


# refusals ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("study", EVERY)
def test_what_a_panel_varies_are_settings_of_the_preset(study):
    for name in EVERY[study].presets:
        request = Request(preset=name)
        known = {".".join(leaf.fields) for leaf in changes._leaves(EVERY[study].presets[name])}
        for panel in EVERY[study].panels:
            if panel != "gap-closes" or name == "quick":  # other presets do not have this panel
                assert changes.varied_settings(EVERY[study], request, panel) <= known


@pytest.mark.parametrize(
    ("study", "panel", "name", "value"),
    [
        ("latin-squares", "weight-decay", "weight_decay", 0.5),
        ("latin-squares", "heads", "heads", 4),
        ("latin-squares", "gap-closes", "token_std", 2),
        ("latin-squares", "accuracy", "projection_bias", False),
        ("sc-pe", "rates", "lr", 0.1),
        ("image-fit", "parameters", "parameters", 5000),
        ("scene", "samples", "cells", 8),
    ],
)
def test_a_setting_that_a_panel_varies_is_refused_for_this_panel(study, panel, name, value, tmp_path):
    message = refused(study, panels=[panel], **{name: value})
    assert message == f"the panel {panel} varies {name} itself. Choose another panel, or leave the change out."
    with pytest.raises(ValueError, match=f"the panel {panel} varies {name} itself"):
        EVERY[study].plan(Request(preset="quick", panels=[panel], changes={name: value}), Store(tmp_path))


def test_the_refusal_names_the_panels_that_remain():
    assert refused("latin-squares", epochs=4) == (
        "the panel gap-closes varies epochs itself. Choose others: --panels accuracy."
    )


# from plan to page ---------------------------------------------------------------------------------------------------


@pytest.fixture
def study(monkeypatch: pytest.MonkeyPatch):
    """The study of simulated networks with runs of a moment."""
    preset = nmar.presets.PRESETS["quick"]
    model = msgspec.structs.replace(preset.model, dim=12, hidden=16)
    training = TrainingConfig(epochs=4, batch=16, lr=3e-3, optimizer="adam", evaluate_every=2)
    small = dataclasses.replace(
        preset, seeds=(0, 1), training=training, model=model, train_steps=600, test_steps=200, panels=("errors",)
    )
    monkeypatch.setitem(nmar.presets.PRESETS, "quick", small)
    monkeypatch.setattr(table_scores, "DRAWS", 20)
    monkeypatch.setattr(table_scores, "DRAWS_OF_MANY", 20)
    return nmar.STUDY


def executed(study, store: Store, **values: object) -> tuple[Request, list, Path]:
    request = Request(preset="quick", schemes=["learned-1", "random", "mean"], changes=values)
    specs = study.plan(request, store)
    report = runner.run(specs, store, runner.InProcess(), emit=lambda event: None)
    assert report.exit_code == 0, report.failed
    return request, specs, study.page(request, store, specs, {})


@pytest.mark.full
def test_changed_runs_have_a_page_of_their_own_and_a_report_finds_each(study, tmp_path):
    store = Store(tmp_path)
    plain, plain_specs, plain_page = executed(study, store)
    request, specs, page = executed(study, store, epochs="2", optimizer="sgd")
    assert page.name == "nmar-quick-epochs=2-optimizer=sgd.html"
    assert plain_page.name == "nmar-quick.html"
    assert {spec.preset for spec in specs} == {"quick epochs=2 optimizer=sgd"}
    trained = [{spec.identity for spec in each if "training" in spec.settings} for each in (plain_specs, specs)]
    assert not trained[0] & trained[1]
    text, plain_text = page.read_text(), plain_page.read_text()
    assert "Changed from the preset: epochs 4 → 2, optimizer adam → sgd." in text
    assert "posenc run nmar --preset quick --set epochs=2 --set optimizer=sgd" in text
    assert "Changed from the preset" not in plain_text
    assert "--set" not in plain_text
    assert study.announce(request, store, specs)[0].startswith("Changed from the preset: epochs 4 → 2")
    for asked, planned, file in ((plain, plain_specs, plain_page), (request, specs, page)):
        stored = study.stored(dataclasses.replace(asked, schemes=None), store)
        assert {(spec.identity, spec.variant, spec.seed) for spec in stored} == {
            (spec.identity, spec.variant, spec.seed) for spec in planned
        }
        assert study.page(asked, store, stored, {}) == file
    assert file.read_text() == text
    assert {spec.seed for spec in store.specs() if spec.variant == "mean"} == {0, 1}


@pytest.mark.full
def test_a_report_of_other_changes_names_those_of_the_store(study, tmp_path):
    store = Store(tmp_path)
    executed(study, store, epochs=2)
    with pytest.raises(ValueError) as error:
        study.stored(Request(preset="quick"), store)
    assert "It holds results of quick epochs=2. Show them: posenc report " in str(error.value)
    assert " --preset quick --set epochs=2 --out " in str(error.value)
    with pytest.raises(ValueError, match="posenc run nmar --preset quick --set epochs=3 --out"):
        study.stored(Request(preset="quick", changes={"epochs": 3}), store)


@pytest.mark.full
def test_a_report_of_another_preset_names_that_of_the_store(study, tmp_path):
    store = Store(tmp_path)
    executed(study, store)
    with pytest.raises(ValueError, match=r"It holds results of --preset quick\. Make them: posenc run nmar"):
        study.stored(Request(preset="standard"), store)


@pytest.mark.full
def test_the_footer_names_the_data_that_the_stored_command_named(study, tmp_path, monkeypatch):
    _, _, without = executed(study, Store(tmp_path / "a"))
    assert "--data" not in without.read_text()
    assert f"posenc results prints them. Drawn by posenc {__version__}" in without.read_text()
    monkeypatch.setattr(sys, "argv", ["posenc", "run", "nmar", "--data", "somewhere"])
    _, _, page = executed(study, Store(tmp_path / "b"))
    assert "posenc run nmar --preset quick --data DIR --schemes" in page.read_text()


@pytest.mark.full
def test_a_dry_run_lists_runs_finished_runs_and_the_estimate(study, tmp_path):
    store = Store(tmp_path)
    request, specs, _ = executed(study, store, epochs=2)
    more = dataclasses.replace(request, seeds=(0, 1, 2))
    lines = dry_run(study, more, store, processes=2)
    assert lines[0] == f"9 runs of nmar, 6 finished, results in {store.root}."
    assert lines[1] == "Changed from the preset: epochs 4 → 2."
    assert lines[2].startswith("To execute: 3 runs, about ")
    assert lines[2].endswith(" at a time.")
    assert "  random: seeds 0 1 2 (finished: 0 1)" in lines
    assert not any(line.startswith("To execute") for line in dry_run(study, request, store, processes=2))
    assert len(store.specs()) == len(specs)


def test_a_long_or_unusual_change_gets_a_file_name_of_letters(tmp_path):
    presets = EVERY["gridpe"].presets
    files = {
        changes.file_suffix(presets, Request(preset="quick", changes={"data": data}))
        for data in ("a/b", "a:b", "a" * 200)
    }
    assert len(files) == 3
    assert all("/" not in file and len(file) < 100 for file in files)
    assert changes.file_suffix(permuted.STUDY.presets, Request(preset="quick")) == ""


def test_a_time_limit_is_halved_and_doubled_with_the_steps() -> None:
    presets = EVERY["places"].presets
    request = changes.with_twice_the_budget(presets, Request(preset="quick", changes={"training.seconds": 1.5}))
    assert changes.changed_preset(presets, request).training.seconds == 3.0
    limited = {"epochs": 700, "decay_steps": 700, "seconds": 3.0}
    halved = {"epochs": 350, "decay_steps": 350, "seconds": 1.5}
    assert own_data.with_half_budget({"training": limited}) == {"training": halved}
    assert own_data.with_half_budget({"training": {"epochs": 4, "seconds": None}}) == {
        "training": {"epochs": 2, "seconds": None}
    }
