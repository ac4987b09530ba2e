"""The Latin-square study: its plan, one unit from end to end, its page."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
import torch

from posenc import runner, studies
from posenc.models.encoder import EncoderConfig
from posenc.store import Store, Unit
from posenc.studies.latin_squares import STUDY, presets, rows, work


def new_preset() -> presets.Preset:
    """The quick preset, every run of it over in a moment."""
    preset = presets.PRESETS["quick"]
    data = {"rule": "entailment", "jaccard": "clue-pairs", "train": 300, "iid": 60, "ood": 30, "seed": 1}
    training = msgspec.structs.replace(preset.main.training, epochs=2, evaluate_every=1)
    main = msgspec.structs.replace(preset.main, data=data, train_size=256, training=training)
    changes = {
        name: msgspec.structs.replace(
            change,
            train_size=256 if change.train_size else None,
            training={**change.training, **({"epochs": 2} if "epochs" in change.training else {})},
        )
        for name, change in preset.changes.items()
    }
    return msgspec.structs.replace(preset, main=main, changes=changes, sigmas=(0.1, 0.2, 0.6, 1.0, 2.0))


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> presets.Preset:
    small = new_preset()
    monkeypatch.setitem(presets.PRESETS, "quick", small)
    return small


def test_the_quick_plan_is_eleven_rows_by_three_seeds_and_the_second_setting(tmp_path: Path) -> None:
    units = STUDY.plan(studies.Request(preset="quick"), Store(tmp_path))
    main = [unit for unit in units if unit.setting == "main"]
    assert {unit.scheme for unit in main} == {
        "2d-fixed", "1d-fixed", "rope", "relative", "random", "nope", "causal-nope",
        "learned-0.1", "learned-0.2", "learned-1", "learned-2",
    }  # fmt: skip
    assert len(main) == 33
    others = {unit.scheme for unit in units if unit.setting != "main"}
    assert others == {"learned-0.2, gap closes", "learned-2, gap closes"}
    assert len({unit.key for unit in units}) == len(units) == 39
    assert [u.key for u in STUDY.plan(studies.Request(preset="quick"), Store(tmp_path))] == [u.key for u in units]


@pytest.mark.parametrize("preset", ["standard", "paper"])
def test_the_long_presets_train_the_papers_model_clean_and_literal(tmp_path: Path, preset: str) -> None:
    units = STUDY.plan(studies.Request(preset=preset, seeds=[29]), Store(tmp_path))
    by_scheme = {unit.scheme: unit.settings for unit in units}
    assert {"2d-fixed-literal", "1d-fixed-literal", "relative-literal", "causal-nope-literal"} <= set(by_scheme)
    model = by_scheme["learned-0.2"]["model"]
    assert (model["dim"], model["depth"], model["hidden"], model["norm"]) == (160, 4, 640, "post")
    assert model["read_out"] == "last"
    assert model["second_activation"]
    literal = by_scheme["2d-fixed-literal"]
    assert literal["model"]["encoding_dropout"] == 0.1
    assert literal["training"]["evaluate_in_train_mode"]
    assert not by_scheme["relative-literal"]["model"]["output_projection"]
    row = msgspec.convert(by_scheme["learned-0.2"]["row"], rows.Row)
    built = work.make_model(row, msgspec.convert(model, EncoderConfig))
    # 1.239 M and four tables of 16 x 160, as published
    assert sum(p.numel() for p in built.parameters()) == 1_238_724 + 10_240


def test_the_authors_puzzles_are_used_where_they_are(authors_folder: Path, tmp_path: Path) -> None:
    request = studies.Request(preset="paper", schemes=["nope"], seeds=[1], data=authors_folder.parent)
    (unit,) = STUDY.plan(request, Store(tmp_path))
    data = work.obtain(tmp_path, unit.settings["data"])
    assert [len(part) for part in (data.train, data.iid, data.ood)] == [8100, 900, 108]


test_the_authors_puzzles_are_used_where_they_are = pytest.mark.data(test_the_authors_puzzles_are_used_where_they_are)


def test_a_label_names_its_row() -> None:
    assert rows.row("learned-0.35").options == {"sigma": 0.35}
    assert rows.row("shaw(values=False)") == rows.Row(scheme="Shaw", options={"values": False})
    for label, sentence in {
        "learnt-0.2": "Did you mean learned-0.2",
        "2dfixd": "Did you mean 2d-fixed",
        "learned-small": "'small' is no number",
        "Shaw(values=x)": "must be plain values",
    }.items():
        with pytest.raises(ValueError, match=sentence):
            rows.row(label)


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
    units = STUDY.plan(request, store)
    report = runner.run(units, store, runner.InProcess(), emit=lambda event: None)
    assert report.exit_code == 0, report
    found = {(row["scheme"], row["seed"], row["setting"], row["metric"]) for row in store.results()}
    for metric in ("accuracy_ood", "accuracy_iid", "accuracy_train", "accuracy_ood_1", "accuracy_iid_3", "loss_ood"):
        assert ("relative", 1, "main", metric) in found
    assert ("learned-0.2, gap closes", 0, "gap closes", "accuracy_ood") in found
    right = store.arrays(units[0].key)["right_ood"]
    assert right.mean() == pytest.approx(store.read(units[0].key).metrics["accuracy_ood"])
    html = STUDY.page(request, store, units, {}).read_text()
    for words in ("Which encodings generalise", "3-vector", "Where the gap closes", "another model, another scale"):
        assert words in html
    assert "was not run" not in html.split("Where the gap closes")[-1].split("What was run")[0]
    assert any("2d-fixed" in line for line in STUDY.verdict(request, store, units))


def test_a_stopped_unit_goes_on_to_the_same_last_digit(tmp_path: Path, quick: presets.Preset) -> None:
    request = studies.Request(preset="quick", schemes=["1d-fixed"], seeds=[5])
    (unit,) = STUDY.plan(request, Store(tmp_path))
    literal = msgspec.structs.replace(
        unit, settings={**unit.settings, "model": {**unit.settings["model"], "encoding_dropout": 0.1}}
    )

    def stop_at(step: int):
        def report(now: int, *_: object) -> None:
            if now >= step:
                raise KeyboardInterrupt

        return report

    whole = work.train_unit(literal, Store(tmp_path).workdir("whole"), lambda *_: None)
    part = Store(tmp_path).workdir("part")
    dataset = work.obtain(tmp_path, literal.settings["data"])
    torch.manual_seed(0)
    trained = work.Trained(literal, dataset)
    fit = work.Fit(trained.model, 256, trained.loss, trained.evaluate)
    calls = []
    fit.evaluate = lambda: (calls.append(1), trained.evaluate())[1] if len(calls) < 2 else stop_at(0)(1)
    with pytest.raises(KeyboardInterrupt):
        work.train(fit, trained.training, seed=5, workdir=part, checkpoint_seconds=0)
    again = work.train_unit(literal, part, lambda *_: None)
    assert again.curves == whole.curves
    assert all(torch.equal(again.weights[name], value) for name, value in whole.weights.items())


def test_one_dataset_serves_every_process(tmp_path: Path, quick: presets.Preset) -> None:
    first = work.obtain(tmp_path, quick.main.data)
    second = work.obtain(tmp_path, quick.main.data)
    assert first.train.digest() == second.train.digest()
    with pytest.raises(ValueError, match="no longer at"):
        work.obtain(tmp_path, {"authors": {"train": "gone"}})


def test_every_unit_is_plain_json(tmp_path: Path) -> None:
    for unit in STUDY.plan(studies.Request(preset="quick"), Store(tmp_path)):
        assert msgspec.json.decode(msgspec.json.encode(unit), type=Unit) == unit


def test_a_catalogue_name_of_a_row_is_that_row() -> None:
    assert rows.row("RoPE") == rows.row("rope")
    assert rows.row("CausalNoPE") == rows.row("causal-nope")
    assert rows.row("Shaw").model == {}


def test_a_head_width_that_does_not_fit_is_said_before_anything_runs(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="acts on heads of width 16"):
        STUDY.plan(studies.Request(preset="quick", schemes=["RoPE(head_dim=16)"]), Store(tmp_path))


def test_the_estimate_of_one_unit_is_not_shared_among_cores(tmp_path: Path, quick: presets.Preset) -> None:
    store = Store(tmp_path)
    (unit,) = STUDY.plan(studies.Request(preset="quick", schemes=["nope"], seeds=[0]), store)
    assert STUDY.estimate([unit], store, 64).memory_bytes == STUDY.estimate([unit], store, 1).memory_bytes
    assert STUDY.estimate([], store, 2).runs == 0
