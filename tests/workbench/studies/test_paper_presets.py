"""The presets paper and as-released of the vision studies have the settings of their documents."""

import pytest

from posenc.workbench import studies
from posenc.workbench.storage.store import Store
from posenc.workbench.studies import gridpe, sc_pe

pytestmark = pytest.mark.bare


@pytest.mark.full
def test_the_paper_s_text_and_the_released_recipe_are_two_presets(tmp_path, class_folders):
    def planned(preset):
        request = studies.Request(preset=preset, source=class_folders, panels=["pvt", "as-released"], seeds=[0])
        return {(u.condition, u.variant): u.settings for u in gridpe.STUDY.plan(request, Store(tmp_path))}

    text, released = planned("paper"), planned("as-released")
    assert text.keys() == released.keys()
    for settings in text.values():  # AdamW, 200 epochs, batches of 32, the rate halved after 10 epochs without gain
        training = settings["training"]
        assert (training.get("optimiser", "adamw"), training["epochs"], training["batch"]) == ("adamw", 200, 32)
        assert (training["plateau"]["factor"], training["plateau"]["patience"]) == (0.5, 10)
        assert settings["augmentation"].get("mixup", 0.0) == settings["row"]["config"]["options"].get("dropout", 0) == 0
    vit, pvt = released["main", "nope-literal"], released["pvt", "pvt-o"]
    assert vit["row"]["config"]["options"]["dropout"] == 0.1
    assert (pvt["training"].get("plateau"), pvt["augmentation"]["mixup"]) == (None, 0.8)
    asked = studies.Request(
        preset="quick", source=class_folders, schemes=["nope"], seeds=[0], changes={"recipes.main.dropout": "0.1"}
    )
    assert gridpe.STUDY.plan(asked, Store(tmp_path))[0].settings["row"]["config"]["options"]["dropout"] == 0.1


def test_the_preset_paper_evaluates_each_epoch_and_has_the_readouts_of_note_and_code(tmp_path, fashion):
    specs = sc_pe.STUDY.plan(
        studies.Request(preset="paper", data=fashion, seeds=[0], panels=["concatenation"]), Store(tmp_path)
    )
    assert {(spec.settings["training"]["epochs"], spec.settings["training"]["evaluate_every"]) for spec in specs} == {
        (100, 1)
    }
    options = {spec.variant: spec.settings["row"]["scheme"] for spec in specs}
    assert options["note-linear"]["options"] == {"hidden": (128,), "relu": False}
    assert options["as-released"]["options"] == {"variant": "code", "hidden": (256, 64), "relu": (True, False)}
    asked = studies.Request(preset="paper", data=fashion, seeds=[0], schemes=["plain"], changes={"evaluations": "10"})
    (spec,) = sc_pe.STUDY.plan(asked, Store(tmp_path))
    assert spec.settings["training"]["evaluate_every"] == 10
