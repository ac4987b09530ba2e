"""Pages on a user's own data state only what more training will keep, and name the command that decides the rest."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from posenc.workbench import (
    MAIN,
    Cost,
    Panel,
    PanelSpec,
    Prediction,
    Preset,
    Procedure,
    Request,
    RunResult,
    RunSpec,
    Store,
    Study,
)  # fmt: skip
from posenc.workbench.dataset_record import DatasetRecord
from posenc.workbench.report.claims_table import Claim, Quantity
from posenc.workbench.report.estimators import difference
from posenc.workbench.report.page import Text
from posenc.workbench.studies import studies
from posenc.workbench.studies.shared import own_data_page, study_page
from posenc.workbench.studies.shared.changes import changed_preset, with_twice_the_budget
from posenc.workbench.studies.shared.compared_score import ComparedScore, compared
from posenc.workbench.studies.shared.declarations import HALF, OwnDataPlan
from posenc.workbench.studies.shared.own_data import with_half_budget
from posenc.workbench.studies.shared.page_data import PageData

SEEDS = (0, 1, 2, 3, 4)
SHIFTS = {"nope": (0.01, -0.01, 0.0, 0.01, -0.01), "": (0.0, 0.01, -0.01, -0.01, 0.01)}
STEPS = 350
RECORD = DatasetRecord(kind="clouds", name="my clouds", digest="0123456789abcdef", own=True)
ORIGIN = {"command": "posenc run toy", "machine": {"cores": 2}, "versions": {}, "commit": "0" * 40, "dirty": False}
ACCURACY = ComparedScore(
    metric="accuracy", name="accuracy", chance=0.5, proportion=True, references=("nope",), controls=("nope",)
)


def train(spec: RunSpec, workdir: Path, report: Any) -> RunResult:
    raise NotImplementedError


TRAIN = Procedure("toy.train", 1, train)


def toy_study(scores: Sequence[ComparedScore] = (ACCURACY,), **changes: Any) -> Study:
    preset = Preset(about="toy", seeds=SEEDS, panels=("all",), own=OwnDataPlan())
    study = Study(
        name="toy",
        question="Which encoding is best?",
        lead="A toy.",
        presets={"quick": preset},
        panels={
            "all": PanelSpec(
                about="all", shows="none", needs=lambda *_: {}, draw=lambda data: [Panel("Toy", (Text(("Toy.",)),))]
            )
        },
        procedure=TRAIN,
        run_settings=lambda *_: {},
        cost=Cost(seconds=lambda spec, store: 1.0),
        headline=lambda data: "The headline of built-in data.",
        compared=lambda data: list(scores),
        takes="a folder",
    )
    return replace(study, **changes)


def settings(steps: int, *, test: int = 36, split: str = "seed") -> dict[str, Any]:
    items = {"train": max(100, 4 * test), "validation": 20, "test": test, "unit": "clouds"}
    return {
        "dataset": RECORD.key,
        "folder": "digest",
        "split": split,
        "items": items,
        "training": {"epochs": steps},
        "device": "cpu",
    }


def fill(
    store: Store,
    scores: Mapping[str, tuple[float, float]],
    *,
    seeds: Sequence[int] = SEEDS,
    metric: str = "accuracy",
    half: bool = True,
    **kind: Any,
) -> list[RunSpec]:
    """Finish runs of variants with scores at the full and at half the budget, which differ a little between seeds."""
    specs = []
    for label, (full, at_half) in scores.items():
        shifts = SHIFTS.get(label, SHIFTS[""])
        budgets = [(MAIN, STEPS, full)] + ([(HALF, STEPS // 2, at_half)] if half else [])
        for condition, steps, center in budgets:
            for seed in seeds:
                spec = TRAIN.spec(
                    study="toy", preset="quick", condition=condition, variant=label, seed=seed,
                    settings=settings(steps, **kind) | {"row": label},
                )  # fmt: skip
                value = min(center + shifts[seed], 1.0) if metric == "accuracy" else center + shifts[seed]
                curves = [{"epoch": step, "metric": metric, "value": center / 2 + step / 2e3} for step in (100, steps)]
                trained = {"steps": steps, "examples": 32 * steps, "training_seconds": 50.0, "chosen_step": steps - 50}
                result = RunResult(metrics={metric: value}, curves=curves, trained=trained)
                store.finish(spec, result, {"seconds": 60.0 * steps / STEPS, **trained}, ORIGIN)
                specs.append(spec)
    return specs


@pytest.fixture(autouse=True)
def no_sync(monkeypatch) -> None:
    """Files of these tests need not survive a power failure."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)


@pytest.fixture
def store(tmp_path) -> Store:
    store = Store(tmp_path / "my runs")
    store.records.add(RECORD)
    return store


def page_data(study: Study, store: Store, specs: Sequence[RunSpec], request: Request | None = None) -> PageData:
    return study.page_data(request or Request(preset="quick"), store, specs)


# The case of the 72 meshes: fourier starts fastest; three others are at chance after 24 steps and reach 1.000 later.
FASTEST = {"nope": (0.53, 0.52), "fourier": (0.944, 0.75), "rope-axial": (0.54, 0.51), "gridpe": (0.56, 0.51)}


def test_the_variant_that_starts_fastest_is_not_called_best(store) -> None:
    study, specs = toy_study(), fill(store, FASTEST)
    headline, *details = study.answer(page_data(study, store, specs))
    assert headline.startswith(
        "Best: cannot be told yet. Of the trained encodings fourier has the highest accuracy 0.944 after"
    )
    assert headline.endswith("better than gridpe, rope-axial (not shown to be above chance at half the steps).")
    text = " ".join(details)
    assert "Better than nope in accuracy: fourier +0.41" in text, "the control at chance counts as finished"
    assert "Differences from nope in accuracy that cannot be told yet: gridpe, rope-axial" in text


def test_a_difference_that_lasts_is_stated_with_its_interval(store) -> None:
    study, specs = (
        toy_study(),
        fill(store, {"nope": (0.62, 0.60), "rope": (0.93, 0.91), "gridpe": (0.78, 0.75)}, test=400),
    )
    headline, *details = study.answer(page_data(study, store, specs))
    assert re.match(
        r"Best: rope, accuracy 0\.930 after 350 steps; difference from the second, gridpe: \+0\.150 \[0\.\d+,", headline
    )
    assert details[0].startswith("Better than nope in accuracy: rope +0.31")
    assert "gridpe +0.16" in details[0]
    assert "cannot be told" not in " ".join((headline, *details))


def test_baselines_that_are_ahead_of_every_trained_encoding_are_named(store) -> None:
    """A page called index-rows the best at 0.316, and boosting, which it drew, had 0.047."""
    specs = fill(store, {"nope": (0.62, 0.60), "rope": (0.93, 0.91)}, test=400)
    for label, score in (("boosting", 0.97), ("mean", 0.5)):
        plain = {name: value for name, value in settings(STEPS, test=400).items() if name != "training"}
        for seed in SEEDS:
            spec = TRAIN.spec(
                study="toy", preset="quick", condition=MAIN, variant=label, seed=seed, settings=plain | {"row": label}
            )
            store.finish(spec, RunResult(metrics={"accuracy": score}), {"seconds": 1.0}, ORIGIN)
            specs.append(spec)
    data = page_data(toy_study(), store, specs)
    (compared_by,) = toy_study().compared(data)
    found = compared(data, compared_by).compare("rope", "mean")
    assert found is not None
    assert found.stated, "a baseline without training is done, at chance too"
    headline, *_ = toy_study().answer(data)
    assert headline.startswith("Best: rope, accuracy 0.930")
    assert headline.endswith("The baseline boosting 0.970 has a higher mean than every trained encoding.")


def test_a_lead_that_shrinks_with_training_names_the_command_and_its_time(store) -> None:
    specs = fill(store, {"nope": (0.85, 0.65), "rope": (0.92, 0.91)}, test=400)
    study = replace(studies()["points"], compared=lambda data: [ACCURACY], predictions=lambda data: ())
    data = page_data(study, store, specs)
    headline, *details = study.answer(data)
    assert headline.startswith(
        "Best: cannot be told yet. Of the trained encodings rope has the highest accuracy 0.920 after"
    )
    assert "nope (the difference still changes)" in headline
    (command,) = [each for each in details if each.startswith("More training may decide")]
    full = 2 * len(SEEDS) * 60.0
    assert f"twice the steps, about {2 * full / 60 / ORIGIN['machine']['cores']:.0f} minutes more)" in command
    words = shlex.split(command.partition("more): ")[2])
    assert words[:4] == ["posenc", "run", "points", "my clouds"]
    assert words[words.index("--set") + 1] == "own_steps=700"
    assert Path(words[words.index("--out") + 1]).resolve() == store.root.resolve()


def test_an_interval_with_zero_asks_for_more_seeds_or_for_more_data(store) -> None:
    study = toy_study()
    specs = fill(store, {"nope": (0.800, 0.790), "rope": (0.806, 0.796)}, test=20)
    _, *details = study.answer(page_data(study, store, specs))
    assert any("rope (the interval contains 0)" in each for each in details)
    assert details[-2] == (
        "More seeds cannot decide where the interval contains 0, because the held-out items are few: add data."
    )
    other = Store(store.root / "other")
    specs = fill(other, {"nope": (0.800, 0.790), "rope": (0.810, 0.800)}, test=4)
    _, *details = study.answer(page_data(study, other, specs))
    assert "--seeds 0 1 2 3 4 5 6 7 8 9" in next(each for each in details if each.startswith("More seeds may decide"))


@pytest.mark.parametrize(("split", "words"), [("seed", "each seed"), ("given", "the test part")])
def test_few_held_out_items_state_the_smallest_difference(store, split, words) -> None:
    study, specs = toy_study(), fill(store, FASTEST, test=15, split=split)
    details = study.answer(page_data(study, store, specs))[1:]
    assert re.fullmatch(
        rf"Only 15 clouds are held out in {words}\. With 5 seeds, four of five repetitions would show a true "
        r"difference in accuracy of 0\.\d+ or more for the pair of variants that differs least between seeds, and of "
        r"0\.\d+ or more for the pair that differs most\.",
        details[-1],
    )
    many = Store(store.root / "many")
    details = study.answer(page_data(study, many, fill(many, FASTEST, test=100, split=split)))[1:]
    assert not any("four of five" in each for each in details)


def test_with_two_seeds_seeds_and_not_steps_are_asked_for(store) -> None:
    """The intervals of two seeds are wide, so that "not above chance" says nothing of the training."""
    specs = fill(store, {"gridpe": (0.60, 0.53), "fourier": (0.70, 0.54)}, seeds=(0, 1))
    text = " ".join(toy_study().answer(page_data(toy_study(), store, specs)))
    said = [each in text for each in ("not shown to be above chance", "More seeds may decide (twice", "More training")]
    assert said == [True, True, False]


def test_identical_seeds_take_the_spread_of_the_items(store) -> None:
    """Three seeds that classify 14 and 15 of 15 photographs alike have no interval of width 0."""
    specs = fill(store, {"nope": (14 / 15, 14 / 15), "rope": (1.0, 1.0)}, test=15, seeds=(0,))
    for spec in [spec for spec in specs if spec.seed == 0]:
        value = store.rows_of([spec])[0]["value"]
        for seed in (1, 2):
            again = TRAIN.spec(
                study="toy", preset="quick", condition=spec.condition, variant=spec.variant, seed=seed,
                settings=spec.settings,
            )  # fmt: skip
            store.finish(again, RunResult(metrics={"accuracy": value}), {"seconds": 1.0}, ORIGIN)
            specs.append(again)
    headline, *_ = toy_study().answer(page_data(toy_study(), store, specs))
    assert headline.startswith("Best: cannot be told yet.")
    assert "nope (the interval contains 0)" in headline


def test_one_seed_and_missing_half_budget_runs_are_said(store) -> None:
    study = replace(studies()["points"], compared=lambda data: [ACCURACY], predictions=lambda data: ())
    specs = fill(store, {"nope": (0.6, 0.6), "rope": (0.9, 0.9)}, half=False)
    headline, *details = study.answer(page_data(study, store, specs))
    assert "nope (runs with half the steps are missing)" in headline
    assert any(each.startswith("Runs with half the steps are missing (about") for each in details)
    one = Store(store.root / "one")
    headline, *details = study.answer(
        page_data(study, one, fill(one, {"nope": (0.6, 0.6), "rope": (0.9, 0.9)}, seeds=(3,)))
    )
    assert "nope (no interval)" in headline
    assert any("--seeds 0 1" in each for each in details)


def test_built_in_data_keep_their_headline(store) -> None:
    study, specs = toy_study(), []
    for label in ("nope", "rope"):
        spec = TRAIN.spec(study="toy", preset="quick", condition=MAIN, variant=label, seed=0, settings={"row": label})
        store.finish(spec, RunResult(metrics={"accuracy": 0.9}), {"seconds": 1.0}, ORIGIN)
        specs.append(spec)
    assert study.answer(page_data(study, store, specs)) == ("The headline of built-in data.",)


def test_predictions_on_own_data_come_true_only_if_the_difference_is_stated(store) -> None:
    predictions = [Prediction("accuracy", "rope", "nope"), Prediction("accuracy", "gridpe", "rope")]
    predictions.append(Prediction("accuracy", "ridge", "nope"))
    study = toy_study(predictions=lambda data: predictions)
    specs = fill(store, {"nope": (0.60, 0.58), "rope": (0.70, 0.69), "gridpe": (0.80, 0.60)}, test=400)
    findings = own_data_page.judged_predictions(study, page_data(study, store, specs))
    assert [each.word for each in findings] == ["Came true", "Came true", "Not measured"]
    assert "after 350 steps" in findings[0].text
    other = Store(store.root / "other")
    specs = fill(other, {"nope": (0.60, 0.58), "rope": (0.85, 0.58), "gridpe": (0.95, 0.94)}, test=400)
    findings = own_data_page.judged_predictions(study, page_data(study, other, specs))
    assert [each.word for each in findings[:2]] == ["Came true", "Cannot be told yet"]
    assert findings[1].tone == "unsure"
    assert findings[1].text.endswith("after 350 steps; the difference still changes.")


CLAIM = Claim(
    name="rope improves a toy", source="a paper", quote="rope", about="rope is better.",
    quantities=(Quantity("rope − nope", difference("accuracy", "rope", "nope"), low=0.0),),
    control="none", controls=(), panel="all", command="posenc run toy",
)  # fmt: skip


def test_the_page_has_differences_curves_and_the_amount_of_training(store) -> None:
    study, specs = toy_study(claims=(CLAIM,)), fill(store, FASTEST)
    html = study_page.html(study, Request(preset="quick"), store, specs, {})
    panels = re.findall(r"<h2[^>]*>(?:<[^>]*>)*([^<]+)", html)
    for title in ("Differences between variants", "Learning curves: accuracy", "Amount of training"):
        assert title in panels
    assert "Contradicted" not in html
    assert "Supported" not in html
    assert "They are not judged on your data." in html
    rows = dict.fromkeys(FASTEST)
    table = html[html.index("Training of each variant") :]
    for label in rows:
        assert re.search(rf"{label}.*?5.*?350.*?11,200.*?50.*?300.*?60", table, re.DOTALL)
    differences = html[html.index("Differences between variants</h2>") :]
    assert re.search(r"fourier − nope.*?\+0\.41.*?\+0\.23.*?fourier is better than nope", differences, re.DOTALL)
    assert re.search(r"gridpe − nope.*?cannot be told yet: ", differences, re.DOTALL)


def test_panels_that_a_study_has_are_not_drawn_twice(store) -> None:
    study, specs = toy_study(), fill(store, FASTEST)
    data = page_data(study, store, specs)
    titles = [panel.title for panel in own_data_page.own_data_panels(study, data, ["all", "curves"])]
    assert titles == ["Differences between variants", "Amount of training"]


@pytest.mark.parametrize(
    "name", ["graphs", "gridpe", "language", "masked", "places", "points", "sc-pe", "series", "shape-fit"]
)
def test_twice_the_budget_doubles_the_steps_of_every_study_with_own_data(name) -> None:
    study = studies()[name]
    request = with_twice_the_budget(study.presets, Request(preset="quick"))
    before, after = study.presets["quick"], changed_preset(study.presets, request)
    assert steps_of(after) == [2 * steps for steps in steps_of(before)]
    assert len(steps_of(before)) >= 1
    again = with_twice_the_budget(study.presets, request)
    assert steps_of(changed_preset(study.presets, again)) == [4 * steps for steps in steps_of(before)]


def steps_of(preset: Any) -> list[int]:
    """Steps on a user's own data, as the settings of the studies read them."""
    if hasattr(preset, "recipes"):
        return [recipe.own_steps for recipe in preset.recipes.values()]
    return [getattr(preset, "own_steps", None) or getattr(preset, "steps", None) or preset.training.epochs]


def test_epochs_that_a_request_changes_are_doubled() -> None:
    presets = studies()["gridpe"].presets
    request = with_twice_the_budget(presets, Request(preset="quick", changes={"recipes.main.training.epochs": 7}))
    changed = changed_preset(presets, request)
    assert changed.recipes["main"].training.epochs == 14
    assert changed.recipes["main"].own_steps == presets["quick"].recipes["main"].own_steps
    assert changed.recipes["pvt"].own_steps == 2 * presets["quick"].recipes["pvt"].own_steps


def test_half_of_twice_the_budget_is_the_budget() -> None:
    """The runs at the budget are then the half-budget runs of the larger one, and are not trained again."""
    schedule = {"epochs": 350, "warmup_steps": 17, "decay_steps": 350, "evaluate_every": 35}
    twice = {"training": {"epochs": 700, "warmup_steps": 35, "decay_steps": 700, "evaluate_every": 70}}
    assert with_half_budget(twice) == {"training": schedule}


def fill_text(store: Store, losses: dict[str, float], differs_by_seed: float = 0.01) -> list[RunSpec]:
    """Runs on a text of 40 characters. Its test part differs between seeds, by as much for every model."""
    study, specs = studies()["language"], []
    text = {"digest": "digest", "vocabulary": 40, "multiple": 8, "unit": "characters"}
    for label, loss in losses.items():
        for condition, steps in ((MAIN, 600), (HALF, 300)):
            trained = {"training": {"epochs": steps}} if label in ("nope", "rope") else {}
            for seed in (0, 1, 2) if trained or condition == MAIN else ():
                spec = study.procedure.spec(
                    study="language", preset="quick", condition=condition, variant=label, seed=seed,
                    settings=settings(steps, test=400) | {"text": text, "window": 64, "row": label} | trained
                    if trained else {"text": text, "window": 64, "row": label, "split": "seed"},
                )  # fmt: skip
                value = loss + differs_by_seed * seed + 0.001 * SHIFTS["" if label == "rope" else "nope"][seed]
                metrics = {"loss": value, "loss_at_x8": value + 0.1}
                store.finish(spec, RunResult(metrics=metrics), {"seconds": 1.0, "steps": steps}, ORIGIN)
                specs.append(spec)
    return specs


def test_a_text_is_judged_at_the_training_length_and_at_the_longest_context(store) -> None:
    """The bigram has no training, so its loss is the same at both budgets, and it is not ranked."""
    study = studies()["language"]
    specs = fill_text(store, {"nope": 2.60, "rope": 2.20, "bigram": 2.50, "unigram": 3.10})
    headline, *details = study.answer(page_data(study, store, specs))
    assert headline.startswith("Best at the training length: rope, loss 2.210 nats after 600 steps; difference from")
    assert "Best at 8 times the training length: rope, loss 2.310 nats" in headline
    assert "bigram" not in headline
    assert any(
        each.startswith("Better than bigram in loss at the training length: rope −0.300 nats") for each in details
    )


@pytest.mark.parametrize(
    ("rope", "stated"), [(3.095, False), (3.085, True)], ids=["at the unigram", "below the unigram on every seed"]
)
def test_models_at_the_level_of_the_unigram_have_no_verdict_on_a_text(store, rope, stated) -> None:
    """ln 40 = 3.69 is far above both models; frequencies of tokens alone reach 3.095, and other texts differ by 0.2."""
    study = studies()["language"]
    specs = fill_text(store, {"nope": 3.10, "rope": rope, "unigram": 3.095}, differs_by_seed=0.2)
    data = page_data(study, store, specs)
    first, last = (compared(data, score) for score in study.compared(data))
    assert first.score.mean_chance == pytest.approx(3.295, abs=0.01)
    for variants in (first, last):
        comparison = variants.compare("rope", "nope")
        assert comparison is not None
        assert comparison.difference.below(0), "the interval of the two models excludes 0"
        assert (comparison.stated, comparison.reason) == ((True, None) if stated else (False, "at chance"))
    text = " ".join(study.answer(data))
    assert ("nope (not shown to be better than the unigram)" in text) != stated
    assert ("Better than nope in loss at 8 times the training length: rope" in text) == stated


@pytest.mark.parametrize(("metric", "split", "is_said"), [("mse", "given", True), ("mse", "seed", False),
                                                          ("accuracy", "given", False)])  # fmt: skip
def test_intervals_of_an_error_on_one_test_part_are_said_not_to_cover_its_items(store, metric, split, is_said) -> None:
    """The variance of an item is known of an accuracy alone; folds have other items each."""
    error = ComparedScore(metric="mse", name="mean squared error", higher=False, references=("nope",))
    scores = {"nope": (0.62, 0.60), "rope": (0.93, 0.91)}
    study = toy_study((error if metric == "mse" else ACCURACY,))
    answer = " ".join(study.answer(page_data(study, store, fill(store, scores, metric=metric, split=split, test=400))))
    said = "All seeds are tested on the same 400 clouds. The intervals cover the randomness of the training, and not "
    assert (said in answer) is is_said
