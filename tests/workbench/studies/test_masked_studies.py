"""The studies of simulated networks, permuted images and recordings: from plan to page, and what they refuse."""

import csv
import dataclasses
import shutil
from types import SimpleNamespace

import msgspec
import numpy as np
import pytest
import torch

from posenc.cli import main
from posenc.workbench import runner, studies
from posenc.workbench.report.claims_table import judge_claim
from posenc.workbench.storage.store import Store
from posenc.workbench.studies import nmar, permuted, recordings
from posenc.workbench.studies.nmar.claims import CLAIMS as NMAR_CLAIMS
from posenc.workbench.studies.permuted.settings import images_of, permuted_grid
from posenc.workbench.studies.recordings import stored_recordings
from posenc.workbench.studies.recordings.conditions import CONDITIONS
from posenc.workbench.studies.recordings.presets import Simulation
from posenc.workbench.studies.recordings.stored_recordings import Protocol
from posenc.workbench.studies.shared.declarations import OwnDataPlan
from posenc.workbench.studies.shared.hidden_tokens import table_scores
from posenc.workbench.studies.shared.hidden_tokens.variants import BASELINES, WITH_COORDINATES, WITHOUT_COORDINATES
from posenc.workbench.tasks.recordings import read_recordings
from posenc.workbench.training.loop import TrainingConfig

pytestmark = pytest.mark.bare

ENOUGH = TrainingConfig(epochs=4, batch=16, lr=3e-3, optimizer="adam", evaluate_every=2)


def tiny(monkeypatch, module, dim=12, **changes):
    """The quick preset made tiny: the same variants, conditions and panels."""
    preset = module.presets.PRESETS["quick"]
    model = msgspec.structs.replace(preset.model, dim=dim, hidden=16)
    own = None if preset.own is None else OwnDataPlan(seeds=(0, 1), half=False)
    small = dataclasses.replace(preset, seeds=(0, 1), own=own, training=ENOUGH, model=model, **changes)
    monkeypatch.setitem(module.presets.PRESETS, "quick", small)
    monkeypatch.setattr(table_scores, "DRAWS", 20)
    monkeypatch.setattr(table_scores, "DRAWS_OF_MANY", 20)


def run(study, request, store):
    specs = study.plan(request, store)
    report = runner.run(specs, store, runner.InProcess(), emit=lambda event: None)
    assert report.exit_code == 0, report.failed
    return specs


def page(study, request, store, specs):
    return study.page(request, store, specs, {}).read_text()


# simulated networks --------------------------------------------------------------------------------------------------


def test_the_simulated_network_from_plan_to_page(tmp_path, monkeypatch):
    tiny(monkeypatch, nmar, train_steps=1200, test_steps=300)
    store, study = Store(tmp_path), nmar.STUDY
    request = studies.Request(preset="quick", schemes=["learned-0.1", "learned-1", "random", "ridge", "mean"])
    specs = run(study, request, store)
    assert len(specs) == 10
    metrics = {(spec.variant, spec.seed): store.read(spec.identity).metrics for spec in specs}
    assert metrics["ridge", 0]["mse_over_linear"] == 1
    assert metrics["mean", 0]["mse_over_linear"] > 1
    assert metrics["ridge", 0]["mse_50"] != metrics["ridge", 1]["mse_50"], "every seed draws a network of its own"
    html = page(study, request, store, specs)
    for text in ("Agreement of learned tables with the modules", "F-test that compares 3 encodings", "diverge",
                 "node 15",
                 "Maps of learned positions", "Cosine similarity of learned positions: nodes", "module 3",
                 "Modularity by the distance between two encodings", "Distances as Procrustes of two rows: nodes",
                 "Learning curves: AUC of the modules",
                 "Dendrogram of nodes: ", "Published claims at this scale", "Size of positions at the start",
                 "RMS of positions / RMS of tokens"):  # fmt: skip
        assert text in html
    scales = {spec.variant: store.arrays(spec.identity).get("embedding_scale") for spec in specs}
    assert scales["ridge"] is None
    assert scales["learned-1"][0] > 5 * scales["learned-0.1"][0] > 0
    answer = study.verdict(request, store, specs)[0]
    assert answer.startswith(("Yes: ", "No: ", "Inconclusive: "))
    assert answer.endswith("best linear prediction.")


@pytest.mark.parametrize(
    ("aucs", "answer"),
    [
        ((0.9, 0.92, 0.94), "Yes: learned-0.1 separates the modules, AUC 0.92 "),
        ((0.5, 0.52, 0.54), "No: no learned table separates the modules beyond chance. AUC of learned-0.1 0.52 "),
        ((0.5, 0.7, 0.9), "Inconclusive: learned-0.1 has an AUC of 0.70 "),
        ((0.9,), "Inconclusive: learned-0.1 has an AUC of 0.90 "),
        ((), "No answer yet: no run has finished."),
    ],
)
def test_the_verdict_answers_the_question_by_the_interval(aucs, answer):
    values = {"auc": aucs, "auc_null_high": [0.6] * len(aucs), "mse_over_linear": [1.01] * len(aucs)}
    preset = nmar.presets.PRESETS["quick"]
    specs = [
        SimpleNamespace(
            condition="main",
            variant=label,
            settings={
                "row": {"scheme": "Learned"},
                "model": msgspec.to_builtins(preset.model),
                "data": {"tokens": 15},
            },
        )
        for label in ("learned-0.1", "learned-1")
    ]
    data = SimpleNamespace(
        specs=specs,
        rows=[
            {"setting": "main", "scheme": "learned-0.1", "seed": seed, "metric": metric, "value": value}
            for metric, each in values.items()
            for seed, value in enumerate(each)
        ],
    )
    assert nmar.STUDY.headline(data).startswith(answer)
    if len(aucs) == 3 and not answer.startswith("Yes"):  # with a second table, the first has the highest AUC
        data.rows += [{**row, "scheme": "learned-1", "value": row["value"] - 0.01} for row in data.rows]
        several = answer.replace("AUC of learned-0.1 0.52", "Highest AUC: learned-0.1, 0.52")
        assert nmar.STUDY.headline(data).startswith(several.replace("an AUC of 0.70", "the highest AUC, 0.70"))


def test_the_verdict_on_baselines_alone_is_no_answer():
    row = {"setting": "main", "scheme": "ridge", "seed": 0, "metric": "mse_over_linear", "value": 1.0}
    answer = nmar.STUDY.headline(SimpleNamespace(rows=[row], specs=[]))
    assert answer.startswith("No answer yet: no encoding with a learned table has finished. Only baselines ")


def test_the_claims_of_the_simulated_network_can_fail():
    def rows(auc):
        return [
            {"setting": "main", "scheme": scheme, "seed": seed, "metric": metric, "value": value + 0.001 * seed}
            for scheme, value in auc.items()
            for metric in ("auc", "auc_initial")
            for seed in range(3)
        ]

    claim = NMAR_CLAIMS[0]
    unlearned = {"learned-0.1": 0.5, "learned-1": 0.5, "learned-2": 0.45, "random": 0.5}
    assert judge_claim(claim, rows(unlearned)).verdict == "contradicted"
    held = [row for row in rows({**unlearned, "learned-0.1": 0.97}) if row["metric"] == "auc"]
    held += [{**row, "metric": "auc_initial", "value": 0.5 + 0.001 * row["seed"]} for row in held]
    assert judge_claim(claim, held).verdict == "supported"


# permuted images -----------------------------------------------------------------------------------------------------


def test_permuted_images_from_plan_to_page(tmp_path, monkeypatch, fashion):
    tiny(monkeypatch, permuted, dim=32, images=None, test_images=20)
    store, study = Store(tmp_path / "runs"), permuted.STUDY
    request = studies.Request(preset="quick", data=fashion, schemes=["learned-0.1", "2d-fixed", "rope", "mean"])
    specs = run(study, request, store)
    metrics = {(spec.variant, spec.seed): store.read(spec.identity).metrics for spec in specs}
    assert metrics["2d-fixed", 0]["neighbours"] > 0.8, "it reads the true cells, whatever the order"
    assert metrics["2d-fixed", 1]["residual"] < 0.2 < metrics["learned-0.1", 1]["residual"]
    assert "neighbours" not in metrics["rope", 0]
    images = images_of(specs[0])
    assert permuted_grid(images, 0).order.tolist() != permuted_grid(images, 1).order.tolist()
    html = page(study, request, store, specs)
    for text in (
        "Neighbor recall and Procrustes disparity",
        "Layouts of learned tables",
        "chance",
        "Prediction error on held-out images",
        "Learning curves: neighbor recall",
        f"training: {images.train} images; test: {images.test} images",
    ):
        assert text in html
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
    tiny(monkeypatch, recordings, test_frames=30)
    store, study = Store(tmp_path / "runs"), recordings.STUDY
    labels = ["learned-0.1", "learned-1", "laplacian", "sinusoid-xyz", "nope", "ridge", "mean"]
    request = studies.Request(preset="quick", source=file, schemes=labels)
    specs = run(study, request, store)
    html = page(study, request, store, specs)
    for text in ("Prediction error on test recordings", "Prediction error by test recording", "recording ", "station 3",
                 "Agreement of learned tables with the given modules", "valley 2", "positions.csv",
                 "Modules detected in learned tables", "Dendrogram of channels: "):  # fmt: skip
        assert text in html
    (beside,) = (tmp_path / "runs" / "pages").glob(f"masked-quick-{file.stem}-*-positions.csv")
    with beside.open() as places:
        lines = list(csv.DictReader(places))
    assert list(lines[0]) == ["scheme", "seed", "channel", "module", "x", "y", "z"]
    assert {(line["scheme"], line["seed"]) for line in lines} >= {("learned-0.1", "0"), ("learned-1", "1")}
    assert {line["channel"] for line in lines} == {f"station {n}" for n in range(12)}
    assert all(np.isfinite(float(line["z"])) for line in lines)
    assert "Predicting the mean of every channel has an error of about 1" in html


@pytest.fixture
def refused(monkeypatch):
    """From the call on, recordings are neither read, simulated nor put into a store."""

    def refuse(*_, **__):
        raise AssertionError("a report makes no data")

    def start():
        monkeypatch.setattr(recordings.settings, "read_recordings", refuse)
        monkeypatch.setattr(recordings.settings.simulated_brain, "simulate", refuse)
        monkeypatch.setattr(stored_recordings, "store", refuse)
        monkeypatch.setattr(stored_recordings, "read_tokens", refuse)

    return start


def files_of(folder):
    return {path: path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()}


@pytest.mark.full
def test_a_report_without_the_file_is_about_the_users_recordings_and_makes_no_data(
    tmp_path, monkeypatch, file, refused, capsys
):
    tiny(monkeypatch, recordings, test_frames=30)
    store, study = Store(tmp_path / "runs"), recordings.STUDY
    request = studies.Request(preset="quick", source=file, schemes=["learned-0.1", "nope", "ridge"], seeds=[0])
    specs = run(study, request, store)
    file.unlink()
    before = files_of(store.root / "data")
    record = store.record_of(specs[0])
    assert (store.root / "data" / f"record-{record.key}.json") in before
    refused()
    for panels in ([], ["--panels", "errors"]):
        with pytest.raises(SystemExit) as ended:
            main(["report", "masked", "--out", str(store.root), *panels])
        assert ended.value.code == 0, capsys.readouterr().err
    assert files_of(store.root / "data") == before
    assert {spec.identity for spec in study.stored(studies.Request(preset="quick"), store)} == {
        spec.identity for spec in specs
    }
    for name in (f"masked-quick-{record.label}.html", f"masked-quick-{record.label}-errors.html"):
        html = (store.root / "pages" / name).read_text()
        assert "imulated" not in html
        assert "given: modules and coordinates; recordings: 5; time points: 600; split: by subject, drawn by" in html
        assert "test: 2 recordings" in html
        assert "/own.npz --preset quick" in html  # the path of the file
        assert "if these are known. Data: own.npz. Scale: " in html


@pytest.mark.full
def test_a_report_of_simulated_recordings_says_so_and_simulates_nothing(tmp_path, monkeypatch, refused):
    tiny(monkeypatch, recordings, test_frames=20, simulation=Simulation(3, 60, {"A": 5, "B": 4, "C": 3}))
    store, study = Store(tmp_path / "runs"), recordings.STUDY
    request = studies.Request(preset="quick", schemes=["learned-0.1", "ridge"], seeds=[0])
    run(study, request, store)
    refused()
    again = studies.Request(preset="quick")
    html = page(study, again, store, study.stored(again, store))
    assert "The recordings are simulated, because no file was given." in html
    assert "networks.A: 5; networks.B: 4" in html
    assert "posenc run masked --preset quick" in html
    # A record of an earlier version does not say so itself, but the store has noted what was simulated.
    (record,) = (store.root / "data").glob("recordings-*/about.json")
    plain = msgspec.json.decode(record.read_bytes())
    del plain["simulated"]
    record.write_bytes(msgspec.json.encode(plain))
    for described in (store.root / "data").glob("record-*.json"):
        described.unlink()
    assert "The recordings are simulated" in page(study, again, Store(store.root), study.stored(again, store))


@pytest.mark.full
def test_a_page_without_the_record_of_its_recordings_says_what_is_missing(tmp_path, monkeypatch, file):
    tiny(monkeypatch, recordings, test_frames=30)
    store, study = Store(tmp_path / "runs"), recordings.STUDY
    request = studies.Request(preset="quick", source=file, schemes=["learned-0.1", "ridge"], seeds=[0])
    specs = run(study, request, store)
    shutil.rmtree(stored_recordings.folder_of(store.root, specs[0].settings["data"]["recordings"]))
    html = page(study, request, store, specs)
    assert "The store lacks the recordings, so channels are numbered and modules are unknown." in html
    assert "channel 12" in html


def test_without_coordinates_there_are_no_variants_that_read_them(tmp_path, monkeypatch, file):
    tiny(monkeypatch, recordings, test_frames=30)
    with np.load(file) as arrays:
        bare = {name: arrays[name] for name in ("recordings", "channels")}
    np.savez(tmp_path / "bare.npz", **bare)
    store = Store(tmp_path / "runs")

    def planned(source, panels=("encodings",)):
        request = studies.Request(preset="quick", source=source, panels=panels)
        return {spec.variant for spec in recordings.STUDY.plan(request, store)}

    assert planned(tmp_path / "bare.npz") == {*WITHOUT_COORDINATES, *BASELINES}
    assert planned(file) == {*WITHOUT_COORDINATES, *WITH_COORDINATES, *BASELINES}
    assert planned(file, panels=None) == {"learned-0.1", "nope", *BASELINES}, "quick starts with a few"
    with pytest.raises(ValueError, match="needs coordinates of the channels, and these have none"):
        recordings.STUDY.plan(
            studies.Request(preset="quick", source=tmp_path / "bare.npz", schemes=["gridpe-xyz"]), store
        )


def test_a_store_keeps_recordings_once_split_by_subject(tmp_path, monkeypatch, file):
    reads = []

    def read():
        reads.append(1)
        return read_recordings(file)

    protocol = Protocol(held_out=0.3, test_frames=20, seed=0)
    first, again = (stored_recordings.store(tmp_path, "x", read, protocol) for _ in range(2))
    assert first == again
    assert len(reads) == 1
    tokens, record = stored_recordings.read_tokens(tmp_path, first), stored_recordings.record_of(tmp_path, first)
    assert tokens.train.shape == (sum(record.train_lengths), 12, 1)
    assert not set(record.train) & set(record.test)
    assert tokens.test.shape == (20 * len(record.test), 12, 1)
    assert tokens.frames is not None
    assert float(tokens.train.mean()) == pytest.approx(0, abs=1e-6)
    assert tokens.views["graph"].coords.shape == (12, 8)
    away = torch.cdist(*(tokens.views["places"].coords,) * 2).fill_diagonal_(torch.inf)
    assert float(away.min(1).values.median()) == pytest.approx(1, rel=1e-4)
    with pytest.raises(ValueError, match=r"no longer in .* Run the same command again with the file"):
        stored_recordings.record_of(tmp_path / "elsewhere", first)


def test_a_single_recording_that_is_too_short_is_refused_with_a_way_out(tmp_path):
    np.savez(tmp_path / "one.npz", recordings=np.random.default_rng(0).normal(size=(1, 5, 30)))
    request = studies.Request(preset="quick", source=tmp_path / "one.npz")
    with pytest.raises(ValueError, match=r"has 30 times, and 4 blocks of at least 10 .* Give a longer recording"):
        recordings.STUDY.plan(request, Store(tmp_path / "runs"))


def test_too_few_channels_are_refused_before_anything_starts(tmp_path):
    rng = np.random.default_rng(0)
    np.savez(tmp_path / "few.npz", recordings=rng.normal(size=(4, 3, 60)))
    request = studies.Request(preset="quick", source=tmp_path / "few.npz")
    with pytest.raises(ValueError, match=r"have 3 channels, .* 50% and 90% of them hidden.* Record 5 channels or more"):
        recordings.STUDY.plan(request, Store(tmp_path / "runs"))


@pytest.mark.full
def test_a_simulated_brain_takes_the_place_of_a_file_and_other_masks_are_conditions(tmp_path, monkeypatch):
    tiny(monkeypatch, recordings, test_frames=20, simulation=Simulation(3, 60, {"A": 5, "B": 4, "C": 3}))
    store, study = Store(tmp_path / "runs"), recordings.STUDY
    request = studies.Request(
        preset="quick", schemes=["learned-0.1", "random", "ridge"], panels=["rates", "rate-curves", "rate-modules"],
        seeds=[0],
    )  # fmt: skip
    specs = run(study, request, store)
    measured = study.measurements(request, store, specs)
    report = runner.run(measured, store, runner.InProcess(), emit=lambda event: None)
    assert report.exit_code == 0, report.failed
    assert len(measured) == 2 * len(CONDITIONS)  # the baseline has no model
    errors = [store.read(spec.identity).metrics["mse_90_train"] for spec in measured]
    assert all(0 < error < 10 for error in errors)
    assert {spec.condition for spec in specs} == set(CONDITIONS)
    (at_90,) = [u for u in specs if u.condition == "trained at 90%" and u.variant.startswith("learned")]
    assert store.read(at_90.identity).metrics.keys() >= {"mse_90"}
    assert "mse_15" in store.read(specs[3].identity).metrics
    html = page(study, request, store, specs)
    for title in ("Prediction error, trained with 15% of the channels hidden",
                  "Training and test error, 75% of the channels hidden in training",
                  "Training curves, 90% of the channels hidden in training",
                  "Agreement with the given modules, 15% of the channels hidden in training"):  # fmt: skip
        assert title in html
    assert "share of the channels hidden in training: 15%" in html


def test_the_order_of_the_channels_needs_no_training(tmp_path, monkeypatch):
    tiny(monkeypatch, recordings, test_frames=20, simulation=Simulation(3, 60, {"A": 5, "B": 4, "C": 3}))
    store, request = Store(tmp_path / "runs"), studies.Request(preset="quick", panels=["order"], seeds=[0])
    specs = run(recordings.STUDY, request, store)
    assert [spec.variant for spec in specs] == ["mean"]
    html = page(recordings.STUDY, request, store, specs)
    assert "Modules by number: 1: A; 2: B; 3: C." in html


def test_the_simulated_network_is_drawn_without_a_run(tmp_path):
    store, request = Store(tmp_path / "runs"), studies.Request(preset="quick", panels=["network"], seeds=[3])
    html = page(nmar.STUDY, request, store, nmar.STUDY.plan(request, store))
    for text in ("Graph of the simulated network", "15 nodes in 3 modules", "Series of three nodes", "seed 3",
                 "Correlations of the simulated network"):  # fmt: skip
        assert text in html


def test_the_studies_are_found_and_say_how_long_they_take(tmp_path, monkeypatch):
    tiny(monkeypatch, nmar, train_steps=100, test_steps=50)
    for module in (nmar, permuted, recordings):
        study = module.STUDY
        assert studies.find(study.name) is study
        assert set(study.presets["quick"].panels) <= set(study.panels)
        assert not study.asks("quick")
        for claim in study.claims:
            assert claim.controls
            assert claim.panel in study.panels
    store = Store(tmp_path)
    specs = nmar.STUDY.plan(studies.Request(preset="quick", schemes=["learned-1", "mean"], seeds=[0]), store)
    assert 0 < nmar.STUDY.estimate(specs, store, 2).seconds < 60
