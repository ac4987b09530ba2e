"""The Latin-square study: its plan, one unit from end to end, its page."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
import torch
from small_latin_squares import shrink

from posenc.models.encoder import EncoderConfig
from posenc.workbench import runner, studies
from posenc.workbench.runs import RunSpec
from posenc.workbench.storage.store import Store
from posenc.workbench.studies.latin_squares import (
    STUDY,
    conditions,
    execute,
    presets,
    published,
    results,
    settings,
    variants,
)
from posenc.workbench.training import loop
from tiers import full_except

pytestmark = pytest.mark.bare


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> presets.Preset:
    return shrink(monkeypatch)


def test_the_quick_plan_is_eleven_variants_by_three_seeds_and_the_second_condition(tmp_path: Path) -> None:
    specs = STUDY.plan(studies.Request(preset="quick"), Store(tmp_path))
    main = [spec for spec in specs if spec.condition == "main"]
    assert {spec.variant for spec in main} == {
        "2d-fixed", "1d-fixed", "rope", "relative", "random", "nope", "causal-nope",
        "learned-0.1", "learned-0.2", "learned-1", "learned-2",
    }  # fmt: skip
    assert len(main) == 33
    others = {(spec.condition, spec.variant) for spec in specs if spec.condition != "main"}
    assert others == {("gap closes", "learned-0.2"), ("gap closes", "learned-2")}
    assert len({spec.identity for spec in specs}) == len(specs) == 39
    assert [u.identity for u in STUDY.plan(studies.Request(preset="quick"), Store(tmp_path))] == [
        u.identity for u in specs
    ]


@pytest.mark.parametrize("preset", full_except(("standard", "replicate", "paper"), "standard"))
def test_the_long_presets_train_the_papers_model_clean_and_literal(tmp_path: Path, preset: str) -> None:
    specs = STUDY.plan(studies.Request(preset=preset, seeds=[29]), Store(tmp_path))
    by_scheme = {spec.variant: spec.settings for spec in specs}
    assert {"2d-fixed-literal", "1d-fixed-literal", "relative-literal", "causal-nope-literal"} <= set(by_scheme)
    model = by_scheme["learned-0.2"]["model"]
    assert (model["dim"], model["depth"], model["hidden"], model["norm"]) == (160, 4, 640, "post")
    assert model["read_out"] == "last"
    assert model["second_activation"]
    literal = by_scheme["2d-fixed-literal"]
    assert literal["model"]["encoding_dropout"] == 0.1
    assert literal["training"]["evaluate_in_train_mode"]
    assert not by_scheme["relative-literal"]["model"]["output_projection"]
    variant = msgspec.convert(by_scheme["learned-0.2"]["row"], variants.Variant)
    built = execute.make_model(variant, msgspec.convert(model, EncoderConfig))
    # 1.239 M and four tables of 16 x 160, as published
    assert sum(p.numel() for p in built.parameters()) == 1_238_724 + 10_240


def test_the_authors_puzzles_are_used_where_they_are(authors_folder: Path, tmp_path: Path) -> None:
    request = studies.Request(preset="paper", schemes=["nope"], seeds=[1], data=authors_folder.parent)
    (spec,) = STUDY.plan(request, Store(tmp_path))
    data = execute.load_or_generate(tmp_path, spec.settings["data"])
    assert [len(part) for part in (data.train, data.iid, data.ood)] == [8100, 900, 108]


test_the_authors_puzzles_are_used_where_they_are = pytest.mark.data(test_the_authors_puzzles_are_used_where_they_are)


@pytest.mark.data
def test_the_preset_replicate_ends_where_the_authors_curves_have_converged(authors_folder: Path) -> None:
    """At its last epoch each mean accuracy is within the bound of that at 4,000 epochs, and at 200 it is not."""
    path = authors_folder / "lst_reference_summary.csv"
    end = published.authors_curves(path, presets.PRESETS["paper"].main.training.epochs)["ood"]

    def farthest(epoch: int) -> float:
        now = published.authors_curves(path, epoch)["ood"]
        return max(abs(now[label][0] - end[label][0]) for label in end)

    last = presets.PRESETS["replicate"].main.training.epochs
    assert len(end) == 21
    assert last == presets.CONVERGED_EPOCHS
    assert all(farthest(epoch) <= presets.CONVERGED for epoch in range(last, 4001, 200))
    assert farthest(last - 200) > presets.CONVERGED


def test_presets_that_differ_in_length_alone_share_their_other_settings(tmp_path: Path) -> None:
    """Runs count for every preset with the same settings: replicate of 200 epochs is standard."""
    asked = studies.Request(preset="replicate", schemes=["nope"], seeds=[29], changes={"epochs": "200"})
    standard = studies.Request(preset="standard", schemes=["nope"], seeds=[29])
    (one,), (other,) = (STUDY.plan(request, Store(tmp_path)) for request in (asked, standard))
    assert one.identity == other.identity
    (paper,) = STUDY.plan(studies.Request(preset="paper", schemes=["nope"], seeds=[29]), Store(tmp_path))
    assert (paper.settings["training"]["optimiser"], paper.settings["training"]["epochs"]) == ("adam", 4000)


def test_a_label_names_its_variant() -> None:
    assert variants.variant("learned-0.35").options == {"sigma": 0.35}
    assert variants.variant("shaw(values=False)") == variants.Variant(scheme="Shaw", options={"values": False})
    for label, sentence in {
        "learnt-0.2": "Did you mean learned-0.2",
        "2dfixd": "Did you mean 2d-fixed",
        "learned-small": "'small' is not a number",
        "Shaw(values=x)": "must be plain values",
    }.items():
        with pytest.raises(ValueError, match=sentence):
            variants.variant(label)


@pytest.mark.parametrize(
    ("request_of", "sentence"),
    [
        ({"schemes": ["learned--1"]}, "sigma is the standard deviation"),
        ({"schemes": ["Shaw(valeus=False)"]}, "Did you mean values"),
        ({"preset": "quik"}, "Did you mean quick"),
    ],
)
def test_what_cannot_be_run_is_said_before_anything_runs(tmp_path: Path, request_of: dict, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        STUDY.plan(studies.Request(**{"preset": "quick", **request_of}), Store(tmp_path))


def test_seeds_and_schemes_are_named_once() -> None:
    with pytest.raises(ValueError, match="seed 3 is given twice"):
        studies.Request(preset="quick", seeds=[3, 4, 3])
    with pytest.raises(ValueError, match="scheme rope is given twice"):
        studies.Request(preset="quick", schemes=["rope", "rope"])


def test_units_end_in_results_by_class_and_a_page(tmp_path: Path, quick: presets.Preset) -> None:
    store = Store(tmp_path)
    request = studies.Request(
        preset="quick", schemes=["2d-fixed", "relative", "learned-0.2", "learned-2"], seeds=[0, 1]
    )
    specs = STUDY.plan(request, store)
    report = runner.run(specs, store, runner.InProcess(), emit=lambda event: None)
    assert report.exit_code == 0, report
    found = {(row["scheme"], row["seed"], row["setting"], row["metric"]) for row in store.results()}
    for metric in ("accuracy_ood", "accuracy_iid", "accuracy_train", "accuracy_ood_1", "accuracy_iid_3", "loss_ood"):
        assert ("relative", 1, "main", metric) in found
    assert ("learned-0.2", 0, "gap closes", "accuracy_ood") in found
    right = store.arrays(specs[0].identity)["right_ood"]
    assert right.mean() == pytest.approx(store.read(specs[0].identity).metrics["accuracy_ood"])
    html = STUDY.page(request, store, specs, {}).read_text()
    for words in (
        "Which encodings generalize",
        "3-vector",
        "Condition in which the gap closes",
        "another model, another scale",
    ):
        assert words in html
    assert "was not run" not in html.split("Condition in which the gap closes")[-1].split("What was run")[0]
    assert any("2d-fixed" in line for line in STUDY.verdict(request, store, specs))


def test_a_stopped_unit_goes_on_to_the_same_last_digit(tmp_path: Path, quick: presets.Preset) -> None:
    request = studies.Request(preset="quick", schemes=["1d-fixed"], seeds=[5])
    (spec,) = STUDY.plan(request, Store(tmp_path))
    literal = msgspec.structs.replace(
        spec, settings={**spec.settings, "model": {**spec.settings["model"], "encoding_dropout": 0.1}}
    )

    def stop_at(step: int):
        def report(now: int, *_: object) -> None:
            if now >= step:
                raise KeyboardInterrupt

        return report

    undisturbed, part = tmp_path / "work" / "whole", tmp_path / "work" / "part"
    undisturbed.mkdir(parents=True)
    part.mkdir()
    whole = execute.train(literal, undisturbed, lambda *_: None)
    dataset = execute.load_or_generate(tmp_path, literal.settings["data"])
    torch.manual_seed(0)
    trained = execute.EncoderOnPuzzles(literal, dataset)
    fit = trained.fit()
    calls = []
    fit.evaluate = lambda: (calls.append(1), trained.evaluate())[1] if len(calls) < 2 else stop_at(0)(1)
    with pytest.raises(KeyboardInterrupt):
        loop.train(fit, trained.training, seed=5, workdir=part, checkpoint_seconds=0)
    again = execute.train(literal, part, lambda *_: None)
    assert again.curves == whole.curves
    assert all(torch.equal(again.weights[name], value) for name, value in whole.weights.items())


def test_one_dataset_serves_every_process(tmp_path: Path, quick: presets.Preset) -> None:
    arguments = msgspec.to_builtins(quick.main.data)
    first = execute.load_or_generate(tmp_path, arguments)
    second = execute.load_or_generate(tmp_path, arguments)
    assert first.train.digest() == second.train.digest()
    with pytest.raises(ValueError, match=r"no longer at .*\. posenc run latin-squares --data DIR, with the same"):
        execute.load_or_generate(tmp_path, {"authors": {"train": "gone"}})


def test_every_unit_is_plain_json(tmp_path: Path) -> None:
    for spec in STUDY.plan(studies.Request(preset="quick"), Store(tmp_path)):
        assert msgspec.json.decode(msgspec.json.encode(spec), type=RunSpec) == spec


def test_a_catalog_name_of_a_variant_is_that_variant() -> None:
    assert variants.variant("RoPE") == variants.variant("rope")
    assert variants.variant("CausalNoPE") == variants.variant("causal-nope")
    assert variants.variant("Shaw").model == {}


def test_a_head_width_that_does_not_fit_is_said_before_anything_runs(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="acts on heads of width 16"):
        STUDY.plan(studies.Request(preset="quick", schemes=["RoPE(head_dim=16)"]), Store(tmp_path))


def test_the_estimate_of_one_unit_is_not_shared_among_cores(tmp_path: Path, quick: presets.Preset) -> None:
    store = Store(tmp_path)
    (spec,) = STUDY.plan(studies.Request(preset="quick", schemes=["nope"], seeds=[0]), store)
    assert STUDY.estimate([spec], store, 64).memory_bytes == STUDY.estimate([spec], store, 1).memory_bytes
    assert STUDY.estimate([], store, 2).runs == 0


def test_schemes_named_without_panels_are_trained_in_the_main_condition(tmp_path: Path) -> None:
    specs = STUDY.plan(studies.Request(preset="quick", schemes=["rope", "learned-0.2"], seeds=[0]), Store(tmp_path))
    assert [(spec.condition, spec.variant) for spec in specs] == [
        ("main", "rope"), ("main", "learned-0.2"), ("gap closes", "learned-0.2")
    ]  # fmt: skip


def test_a_condition_is_what_it_changes(tmp_path: Path) -> None:
    """The settings of a run differ from those of the main condition in the changed places alone."""
    specs = STUDY.plan(studies.Request(preset="quick", panels=["all"], seeds=[0]), Store(tmp_path))
    plain = {(spec.condition, spec.variant): spec.settings for spec in specs}
    for (label, variant), own in plain.items():
        condition, main = conditions.condition(label), plain["main", variant]
        change = condition.change_at("quick") if isinstance(condition, conditions.ChangedTraining) else None
        differing = {path for path in _paths(own) if _at(own, path) != _at(main, path)}
        assert differing == {path for path in (change.paths if change else ()) if _at(own, path) != _at(main, path)}


def _paths(settings: dict) -> Iterator[tuple[str, ...]]:
    for name, value in settings.items():
        yield from ((name, inner) for inner in value) if name in ("model", "training") else ((name,),)


def _at(settings: dict, path: tuple[str, ...]) -> object:
    for name in path:
        settings = settings[name]
    return settings


def test_a_page_prints_what_each_condition_changes_from_its_runs(tmp_path: Path, quick: presets.Preset) -> None:
    request, store = studies.Request(preset="quick", panels=["all"], seeds=[0]), Store(tmp_path)
    data = STUDY.page_data(request, store, STUDY.plan(request, store))
    texts = {label: dict(STUDY.condition(label).changes_in(data)) for label in data.conditions}
    assert texts["main"] == {}
    assert texts["weight decay 0.1"] == {"optimizer": "adam → adamw", "weight decay": "0 → 0.1"}
    assert texts["4 heads"] == {"heads": "1 → 4"}
    assert texts["gap closes"]["layer norm"] == "post → pre"
    assert texts["sgd"] == {"optimizer": "adam → sgd", "learning rate": "0.001 → 0.2"}  # epochs are 2 in both here


def test_where_the_authors_puzzles_are_missing_a_remark_says_what_was_generated(tmp_path: Path) -> None:
    store, request = Store(tmp_path), studies.Request(preset="paper", schemes=["nope"], seeds=[1])
    (spec,) = STUDY.plan(request, store)
    assert spec.settings["data"] == settings.GENERATED_PUZZLES
    (remark,) = STUDY.remarks(store, [spec])
    assert "--data DIR" in remark
    quick = STUDY.plan(studies.Request(preset="quick", schemes=["nope"], seeds=[1]), store)
    assert STUDY.remarks(store, quick) == ()


def test_a_report_makes_no_puzzles(tmp_path: Path, quick: presets.Preset, monkeypatch: pytest.MonkeyPatch) -> None:
    store, request = Store(tmp_path), studies.Request(preset="quick", schemes=["nope"], seeds=[0])
    specs = STUDY.plan(request, store)
    runner.run(specs, store, runner.InProcess(), emit=lambda event: None)
    for path in (tmp_path / "data").iterdir():
        path.unlink()
    monkeypatch.setattr(execute.task, "generate_dataset", lambda **_: pytest.fail("a report generated puzzles"))
    report = studies.Request(preset="quick")
    found = STUDY.stored(report, store)
    assert [spec.variant for spec in found] == ["nope"]
    html = STUDY.page(report, store, found, {}).read_text()
    assert "Variants of these panels without runs on this page. main: 2d-fixed, 1d-fixed" in html
    assert "gap closes: learned-0.2, learned-2." in html
    assert not list((tmp_path / "data").iterdir())
    headline = STUDY.verdict(report, store, found)[0]
    assert "0.25, the accuracy of guessing (the store lacks the puzzles" in headline  # not those of a preset


@pytest.mark.parametrize("preset", ["quick", "paper", pytest.param("authors", marks=pytest.mark.data)])
def test_rules_that_ignore_positions_score_the_same_without_the_puzzles(
    tmp_path: Path, preset: str, request: pytest.FixtureRequest
) -> None:
    """A page of a store that was merged from packs has the same threshold."""
    folder = request.getfixturevalue("authors_folder").parent if preset == "authors" else None
    asked = studies.Request(preset=preset.replace("authors", "paper"), schemes=["nope"], seeds=[0], data=folder)
    store = Store(tmp_path)
    data = STUDY.page_data(asked, store, STUDY.plan(asked, store))
    scored = results.baselines(data)
    for path in (tmp_path / "data").glob("*.npz"):
        path.unlink()
    assert results.baselines(data).keys() == scored.keys()
    for metric, scores in scored.items():
        assert results.baselines(data)[metric] == pytest.approx(scores, abs=1e-6)
