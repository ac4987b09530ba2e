"""The studies of simulated networks, permuted pictures and recordings: from plan to page, and what they refuse."""

import csv
import dataclasses

import msgspec
import numpy as np
import pytest
import torch

from posenc import runner, studies
from posenc.report.ledger import judge_claim
from posenc.store import Store
from posenc.studies import masked, nmar, permuted
from posenc.studies.masked import keeping
from posenc.studies.masking import placing
from posenc.studies.masking.rows import BASELINES, PLACED, UNTOLD
from posenc.training.loop import TrainingConfig

ENOUGH = TrainingConfig(epochs=4, batch=16, lr=3e-3, optimiser="adam", evaluate_every=2)


def tiny(monkeypatch, module, dim=12, **changes):
    """The quick preset made tiny: the same rows, settings and panels."""
    preset = module.presets.PRESETS["quick"]
    model = msgspec.structs.replace(preset.own["model"], dim=dim, hidden=16)
    found = dataclasses.replace(preset, seeds=(0, 1), own={**preset.own, "training": ENOUGH, "model": model, **changes})
    monkeypatch.setitem(module.presets.PRESETS, "quick", found)
    monkeypatch.setattr(placing, "DRAWS", 20)
    monkeypatch.setattr(placing, "DRAWS_OF_MANY", 20)


def run(study, request, store):
    units = study.plan(request, store)
    report = runner.run(units, store, runner.InProcess(), emit=lambda event: None)
    assert report.exit_code == 0, report.failed
    return units


def page(study, request, store, units):
    return study.page(request, store, units, {}).read_text()


# simulated networks --------------------------------------------------------------------------------------------------


def test_the_simulated_network_from_plan_to_page(tmp_path, monkeypatch):
    tiny(monkeypatch, nmar)
    monkeypatch.setitem(nmar.presets.DATA, "train", 1200)
    monkeypatch.setitem(nmar.presets.DATA, "test", 300)
    store, study = Store(tmp_path), nmar.STUDY
    request = studies.Request(preset="quick", schemes=["learned-0.1", "learned-1", "random", "ridge", "mean"])
    units = run(study, request, store)
    assert len(units) == 10
    told = {(unit.scheme, unit.seed): store.read(unit.key).metrics for unit in units}
    assert told["ridge", 0]["mse_over_linear"] == 1
    assert told["mean", 0]["mse_over_linear"] > 1
    assert told["ridge", 0]["mse_50"] != told["ridge", 1]["mse_50"], "every seed draws a network of its own"
    found = page(study, request, store, units)
    for said in ("Modules in the learned tables", "F-test over 3 encodings", "diverge", "Where nodes lie", "node 15",
                 "module 3", "When modules appear", "Tree: ", "What is claimed"):  # fmt: skip
        assert said in found
    assert study.verdict(request, store, units)[0].endswith("best linear prediction.")


def test_the_claims_of_the_simulated_network_can_fail():
    def rows(auc):
        return [
            {"setting": "main", "scheme": scheme, "seed": seed, "metric": metric, "value": value + 0.001 * seed}
            for scheme, value in auc.items()
            for metric in ("auc", "auc_initial")
            for seed in range(3)
        ]

    claim = nmar.CLAIMS[0]
    unlearned = {"learned-0.1": 0.5, "learned-1": 0.5, "learned-2": 0.45, "random": 0.5}
    assert judge_claim(claim, rows(unlearned)).verdict == "not upheld"
    held = [row for row in rows({**unlearned, "learned-0.1": 0.97}) if row["metric"] == "auc"]
    held += [{**row, "metric": "auc_initial", "value": 0.5 + 0.001 * row["seed"]} for row in held]
    assert judge_claim(claim, held).verdict == "upheld"


# permuted pictures ---------------------------------------------------------------------------------------------------


def test_permuted_pictures_from_plan_to_page(tmp_path, monkeypatch, fashion):
    tiny(monkeypatch, permuted, dim=32, images=None, test=20)
    store, study = Store(tmp_path / "runs"), permuted.STUDY
    request = studies.Request(preset="quick", data=fashion, schemes=["learned-0.1", "2d-fixed", "rope", "mean"])
    units = run(study, request, store)
    told = {(unit.scheme, unit.seed): store.read(unit.key).metrics for unit in units}
    assert told["2d-fixed", 0]["neighbours"] > 0.8, "it is told the true cells, whatever the order"
    assert told["2d-fixed", 1]["residual"] < 0.2 < told["learned-0.1", 1]["residual"]
    assert "neighbours" not in told["rope", 0]
    assert permuted.presets.order_of(0).tolist() != permuted.presets.order_of(1).tolist()
    found = page(study, request, store, units)
    for said in (
        "True neighbours found",
        "The sheet that was learned",
        "chance",
        "Errors",
        "When neighbours are found",
    ):
        assert said in found
    with pytest.raises(ValueError, match="relative"):
        study.plan(studies.Request(preset="quick", data=fashion, schemes=["relativ"]), store)


# recordings ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def file(tmp_path):
    """Five recordings of twelve channels in three modules, with names and places."""
    chance = np.random.default_rng(0)
    of = chance.permutation(np.repeat(np.arange(3), 4))
    series = chance.normal(size=(5, 3, 120))[:, of] + 0.5 * chance.normal(size=(5, 12, 120))
    path = tmp_path / "own.npz"
    np.savez(
        path, recordings=series, channels=np.array([f"station {n}" for n in range(12)]),
        modules=np.array([f"valley {n}" for n in of]), coordinates=chance.normal(size=(12, 3)),
    )  # fmt: skip
    return path


def test_recordings_from_a_file_to_page_and_places(tmp_path, monkeypatch, file):
    tiny(monkeypatch, masked, each=30)
    store, study = Store(tmp_path / "runs"), masked.STUDY
    labels = ["learned-0.1", "learned-1", "laplacian", "sinusoid-xyz", "nope", "ridge", "mean"]
    request = studies.Request(preset="quick", source=file, schemes=labels)
    units = run(study, request, store)
    found = page(study, request, store, units)
    for said in ("Errors on unseen recordings", "Errors by recording", "recording ", "Modules in the learned tables",
                 "station 3", "valley 2", "positions.csv", "Modules found without being named", "Tree: "):  # fmt: skip
        assert said in found
    (beside,) = (tmp_path / "runs" / "pages").glob(f"masked-quick-{file.stem}-positions.csv")
    with beside.open() as places:
        lines = list(csv.DictReader(places))
    assert list(lines[0]) == ["scheme", "seed", "channel", "module", "x", "y", "z"]
    assert {(line["scheme"], line["seed"]) for line in lines} >= {("learned-0.1", "0"), ("learned-1", "1")}
    assert {line["channel"] for line in lines} == {f"station {n}" for n in range(12)}
    assert all(np.isfinite(float(line["z"])) for line in lines)
    # a page made again needs neither the file nor the training
    file.unlink()
    assert {u.key for u in study.stored(dataclasses.replace(request, source=None), store)} == {u.key for u in units}
    assert "predicting nothing has about 1" in found


def test_without_coordinates_there_are_no_rows_of_places(tmp_path, monkeypatch, file):
    tiny(monkeypatch, masked, each=30)
    with np.load(file) as arrays:
        bare = {name: arrays[name] for name in ("recordings", "channels")}
    np.savez(tmp_path / "bare.npz", **bare)
    store = Store(tmp_path / "runs")
    labels = {u.scheme for u in masked.STUDY.plan(studies.Request(preset="quick", source=tmp_path / "bare.npz"), store)}
    assert labels == {*UNTOLD, *BASELINES}
    asked = {u.scheme for u in masked.STUDY.plan(studies.Request(preset="quick", source=file), store)}
    assert asked == {*UNTOLD, *PLACED, *BASELINES}
    with pytest.raises(ValueError, match="needs coordinates of the channels, and these have none"):
        masked.STUDY.plan(studies.Request(preset="quick", source=tmp_path / "bare.npz", schemes=["gridpe-xyz"]), store)


def test_a_store_keeps_recordings_once_split_by_subject(tmp_path, monkeypatch, file):
    made = []

    def make():
        made.append(1)
        return masked.presets.read(file)

    first, again = (keeping.keep(tmp_path, "x", make, held=0.3, each=20, seed=0) for _ in range(2))
    assert first == again
    assert len(made) == 1
    tokens, about = keeping.kept(tmp_path, first), keeping.about(tmp_path, first)
    assert tokens.train.shape == (sum(about.lengths), 12, 1)
    assert not set(about.train) & set(about.test)
    assert tokens.test.shape == (20 * len(about.test), 12, 1)
    assert tokens.frames is not None
    assert float(tokens.train.mean()) == pytest.approx(0, abs=1e-6)
    assert tokens.views["graph"].coords.shape == (12, 8)
    away = torch.cdist(*(tokens.views["places"].coords,) * 2).fill_diagonal_(torch.inf)
    assert float(away.min(1).values.median()) == pytest.approx(1, rel=1e-4)
    with pytest.raises(ValueError, match=r"no longer in .* Run the same command again with the file"):
        keeping.about(tmp_path / "elsewhere", first)


def test_a_single_recording_is_refused_with_a_way_out(tmp_path, monkeypatch):
    np.savez(tmp_path / "one.npz", recordings=np.random.default_rng(0).normal(size=(1, 5, 60)))
    request = studies.Request(preset="quick", source=tmp_path / "one.npz")
    with pytest.raises(ValueError, match=r"nothing unseen is left to test with. Add recordings of others, or cut it"):
        masked.STUDY.plan(request, Store(tmp_path / "runs"))


def test_a_simulated_brain_takes_the_place_of_a_file_and_other_masks_are_settings(tmp_path, monkeypatch):
    networks = {"A": 5, "B": 4, "C": 3}
    tiny(monkeypatch, masked, each=20, simulated={"subjects": 3, "frames": 60, "networks": networks})
    store, study = Store(tmp_path / "runs"), masked.STUDY
    request = studies.Request(preset="quick", schemes=["learned-0.1", "random", "ridge"], panels=["rates"], seeds=[0])
    units = run(study, request, store)
    assert {unit.setting for unit in units} == set(masked.presets.RATES)
    (at_90,) = [u for u in units if u.setting == "trained at 90%" and u.scheme.startswith("learned")]
    assert store.read(at_90.key).metrics.keys() >= {"mse_90"}
    assert "mse_15" in store.read(units[3].key).metrics
    found = page(study, request, store, units)
    assert "Errors by the part hidden in training: 15%" in found
    assert "These recordings are simulated" not in found, "the panel that says so was not asked for"


def test_the_studies_are_found_and_say_how_long_they_take(tmp_path, monkeypatch):
    tiny(monkeypatch, nmar)
    monkeypatch.setitem(nmar.presets.DATA, "train", 100)
    monkeypatch.setitem(nmar.presets.DATA, "test", 50)
    for module in (nmar, permuted, masked):
        assert studies.find(module.STUDY.name) is module.STUDY
        assert set(module.STUDY.scales["quick"].panels) <= set(module.STUDY.plans)
        assert "quick" not in module.STUDY.asks
        for claim in module.CLAIMS:
            assert claim.controls
    store = Store(tmp_path)
    units = nmar.STUDY.plan(studies.Request(preset="quick", schemes=["learned-1", "mean"], seeds=[0]), store)
    assert 0 < nmar.STUDY.estimate(units, store, 2).seconds < 60
