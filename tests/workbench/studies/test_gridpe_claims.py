"""The grid-cell study: its answer and its claims on made-up numbers."""

from types import SimpleNamespace

import numpy as np

from posenc.workbench import studies
from posenc.workbench.report.claims_table import judge_claim
from posenc.workbench.studies.gridpe import STUDY, claims, conditions, variants
from posenc.workbench.studies.gridpe.claims import CLAIMS


def made_up(levels, metric="accuracy", setting="main", seeds=5):
    """Rows of a store: each label's level, with what a seed adds to all."""
    noise = np.random.default_rng(0).normal(0, 0.0005, (len(levels), seeds))
    return [
        {"study": "gridpe", "preset": "quick", "setting": setting, "seed": seed, "metric": metric,
         "scheme": label,
         "value": level + 0.01 * seed + noise[place, seed]}
        for place, (label, level) in enumerate(levels.items()) for seed in range(seeds)
    ]  # fmt: skip


def verdict(name, found):
    (claim,) = [claim for claim in CLAIMS if claim.name == name]
    return judge_claim(claim, found).verdict


def test_a_vit_is_improved_or_not():
    name, four = "grid-cell encodings improve a ViT", {f"grid-{v}": 0.8 for v in variants.GRID_FORMS}
    others = {"learned-0.02": 0.7, "nope": 0.6, "rope-axial": 0.72}
    assert verdict(name, made_up(four | others)) == "supported"
    assert verdict(name, made_up(four | {**others, "rope-axial": 0.9})) == "contradicted"
    assert verdict(name, made_up(four | {**others, "nope": 0.75})) == "contradicted"
    assert verdict(name, made_up(four | others)[:20]) == "not measured"
    deep = made_up(four | {"grid-deep": 0.9, "grid-deep-literal": 0.5})
    assert verdict("deep is the best of the four", deep) == "supported"


def test_what_was_released_is_judged_against_its_own_model():
    name, four = "the released variants encode position", {f"grid-{v}-literal": 0.7 for v in variants.GRID_FORMS}
    assert verdict(name, made_up(four | {"nope-literal": 0.6, "learned-literal": 0.7})) == "supported"
    assert verdict(name, made_up(four | {"nope-literal": 0.8, "learned-literal": 0.9})) == "contradicted"
    assert verdict(name, made_up(four | {"nope": 0.6})) == "not measured"


def test_a_pvt_and_larger_pictures():
    name, setting = "a PVT hardly depends on its encoding", conditions.PVT
    same = {"pvt-o": 0.8, "cpvt": 0.81, "gridpe": 0.79, "nope": 0.7}
    assert verdict(name, made_up(same, setting=setting)) == "supported"
    assert verdict(name, made_up({**same, "cpvt": 0.9}, setting=setting)) == "contradicted"
    name = "grid-cell encodings generalize to larger images"
    at = {"gridpe": 0.6, "rope-axial": 0.5, "rope-mixed": 0.5, "learned-0.02": 0.4}
    found = made_up(at, "accuracy_at_x2.29") + made_up(at, "kept_at_x2.29")
    assert verdict(name, found) == "supported"
    kept = made_up({**at, "rope-axial": 0.9}, "kept_at_x2.29")
    assert verdict(name, made_up(at, "accuracy_at_x2.29") + kept) == "contradicted"


def test_photographs_are_judged_by_their_own_runs():
    four = {f"grid-{form}": 0.5 for form in variants.GRID_FORMS}
    vit = {**four, "grid-deep": 0.55, "learned-0.02": 0.45, "nope": 0.4, "rope-axial": 0.48, "gridpe": 0.5}
    rows = made_up(vit, setting=conditions.PHOTOGRAPHS)
    for name in ("grid-cell encodings improve a ViT", "deep is the best of the four"):
        assert verdict(f"{name} on photographs", rows) == "supported"
        assert verdict(f"{name} on photographs", made_up(vit)) == "not measured"
    better = made_up({**vit, "gridpe": 0.6}, setting=conditions.PHOTOGRAPHS)
    assert verdict("deep is the best of the four on photographs", better) == "contradicted"
    name = "a PVT hardly depends on its encoding on photographs"
    pvt = {**four, "pvt-o": 0.5, "cpvt": 0.51, "pvt-abs": 0.49, "nope": 0.4}
    assert verdict(name, made_up(pvt, setting=conditions.PVT_PHOTOGRAPHS)) == "supported"
    unlearned = {label: level - 0.39 for label, level in pvt.items()}
    assert verdict(name, made_up(unlearned, setting=conditions.PVT_PHOTOGRAPHS)) == "contradicted"


def test_claims_point_at_panels_and_rows_that_there_are():
    assert {claim.panel for claim in CLAIMS} <= set(STUDY.panels)
    for claim in CLAIMS:
        assert set(claim.command.split("--panels ")[1].split()) <= set(STUDY.panels)
    assert studies.find("gridpe") is STUDY
    assert set(conditions.CONDITIONS) == {"main", "photographs", "pvt", "pvt photographs"}


def answer(**levels):
    labels = {label: "learned-0.02" if label == "learned" else label.replace("_", "-") for label in levels}
    by_label = {labels[label]: dict(enumerate(values)) for label, values in levels.items()}
    return claims._answer(by_label, "ViT").replace("\N{NO-BREAK SPACE}", " ")


def test_the_answer_is_that_of_the_simplex_form_against_the_model_s_own_encoding():
    simplex, own = (0.82, 0.83, 0.84), (0.78, 0.79, 0.80)
    yes = answer(gridpe=simplex, grid_deep=(0.5, 0.5, 0.5), learned=own, nope=(0.9, 0.9, 0.9))
    assert yes == "Yes for the ViT: gridpe against learned-0.02, accuracy +0.040 [0.040, 0.040] (3 seeds)."
    assert answer(gridpe=own, learned=simplex).startswith(
        "No for the ViT: gridpe against learned-0.02, accuracy −0.040 ["
    )
    assert answer(gridpe=(0.8, 0.9, 0.8), learned=simplex).startswith("Inconclusive for the ViT: gridpe against")
    assert answer(grid_merge=simplex, nope=own).startswith("Yes for the ViT: grid-merge against nope")
    assert answer(gridpe=(0.9,), learned=(0.8,)).startswith("Inconclusive for the ViT: gridpe against learned")
    assert answer(gridpe=simplex).startswith("No answer yet for the ViT: this needs a grid-cell encoding and one of")


def test_at_a_length_whose_order_does_not_last_no_encoding_is_called_the_best():
    preset = STUDY.presets["quick"]

    def still(condition="main", **changes):
        data = SimpleNamespace(preset=preset, request=studies.Request(preset="quick", changes=changes))
        return claims._still_learning(data, condition)

    assert still()
    assert not still(conditions.PVT)
    assert still(epochs=2)
    assert not still(epochs=16)
    said = claims._highest({"gridpe": {0: 0.8, 1: 0.82}, "nope": {0: 0.7, 1: 0.72}}, "ViT")
    assert said.startswith("Best for the ViT: cannot be told")
    assert said.endswith("Highest now: gridpe, accuracy 0.810; without an encoding: 0.710.")
    levels = {"gridpe": {0: 0.8, 1: 0.81, 2: 0.82}, "learned-0.02": {0: 0.75, 1: 0.76, 2: 0.775}}
    said = claims._answer(levels, "ViT after 1,252 steps", still=True)
    assert said.startswith("Cannot be told for the ViT after 1,252 steps: gridpe against learned-0.02, accuracy +0.04")
    assert said.endswith(" (3 seeds), which shrinks with more epochs.")
    one_seed = {"gridpe": {0: 0.8}, "learned-0.02": {0: 0.8}}
    said = claims._answer(one_seed, "ViT", still=True)
    assert said.startswith("Inconclusive for the ViT: gridpe against learned-0.02, accuracy +0.000")
    assert "shrinks" not in said
    levels["nope"] = levels.pop("learned-0.02")
    assert claims._answer(levels, "ViT", still=True).startswith("Yes for the ViT: gridpe against nope")
