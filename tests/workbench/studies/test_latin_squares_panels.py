"""The panels of the Latin-square study: what each needs, what is measured, what a page of all of them shows."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from pathlib import Path

import msgspec
import numpy as np
import pytest
import torch
from small_latin_squares import shrink

from posenc import cli
from posenc.measure.procrustes import aligned
from posenc.models.encoder import EncoderConfig
from posenc.workbench import runner, studies
from posenc.workbench.runs import RunSpec
from posenc.workbench.storage.old_stores import old_key
from posenc.workbench.storage.store import Store, StoreError
from posenc.workbench.studies.latin_squares import (
    STUDY,
    execute,
    further_measures,
    measure,
    panels,
    published,
    results,
    variants,
)
from posenc.workbench.studies.shared.training_run import restored

pytestmark = pytest.mark.bare

ROOT = Path(__file__).parents[3]
SEEDS = (0, 1)


class Trained:
    """A store with every panel's runs at a tiny scale."""

    def __init__(self, root: Path) -> None:
        self.store = Store(root)
        self.request = studies.Request(preset="quick", panels=["all"], seeds=SEEDS)
        self.specs = STUDY.plan(self.request, self.store)
        report = runner.run(self.specs, self.store, runner.InProcess(), emit=lambda event: None)
        assert report.exit_code == 0, report
        self.measured = STUDY.measurements(self.request, self.store, self.specs)
        report = runner.run(self.measured, self.store, runner.InProcess(), emit=lambda event: None)
        assert report.exit_code == 0, report

    def spec(self, scheme: str, seed: int = 0) -> RunSpec:
        (found,) = [u for u in self.specs if (u.condition, u.variant, u.seed) == ("main", scheme, seed)]
        return found

    def measurement(self, scheme: str, seed: int = 0) -> RunSpec:
        measured = [u for u in self.measured if u.procedure == "latin-squares.measure"]
        (found,) = [u for u in measured if (u.variant, u.seed) == (scheme, seed)]
        return found


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trained]:
    patch = pytest.MonkeyPatch()
    shrink(patch)
    patch.setattr(measure, "NOISE_DRAWS", 2)
    yield Trained(tmp_path_factory.mktemp("all"))
    patch.undo()


def test_every_panel_is_drawn_and_says_which_table_it_is() -> None:
    assert set(panels.PANELS) == set(STUDY.panels)
    shown = " ".join(panel.description for panel in STUDY.panels.values())
    for table in ("Table 1", "Table A2", "Table A3", "Table A4", "Tables A5, A6", "1F-H", "2B", "2C", "3A-C", "3D-F",
                  "A6", "A7", "A8", "A9", "A10", "A14"):  # fmt: skip
        assert table in shown


def test_the_stored_results_are_of_units_that_this_code_would_run(tmp_path: Path) -> None:
    with (ROOT / "results" / "latin-squares-quick.csv").open() as file:
        stored = {row["unit"] for row in csv.DictReader(file)}
    # the file is of the first layout, whose keys were made of labels and module paths
    assert stored == {old_key(spec) for spec in STUDY.plan(studies.Request(preset="quick"), Store(tmp_path))}


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"panels": ["sigmas"]}, "there is no panel 'sigmas'. Did you mean sigma"),
    ],
)
def test_a_panel_that_cannot_be_had_is_a_sentence(tmp_path: Path, given: dict, sentence: str) -> None:
    with pytest.raises(ValueError, match=re.escape(sentence)):
        STUDY.plan(studies.Request(**{"preset": "quick", **given}), Store(tmp_path))


def test_a_panel_needs_its_variants_and_no_others(tmp_path: Path) -> None:
    specs = STUDY.plan(studies.Request(preset="quick", panels=["optimizers"], seeds=[3]), Store(tmp_path))
    assert {(spec.condition, spec.variant) for spec in specs} == {
        *(("main", f"learned-{sigma}") for sigma in ("0.01", "0.05", "0.1", "0.2")),
        *(("sgd", f"learned-{sigma}") for sigma in ("0.01", "0.05", "0.1", "0.2")),
    }
    sgd = next(spec for spec in specs if spec.condition == "sgd").settings["training"]
    assert (sgd["optimiser"], sgd["lr"]) == ("sgd", 0.2)
    long = STUDY.plan(studies.Request(preset="paper", panels=["optimizers"], seeds=[3]), Store(tmp_path))
    assert {(u.settings["training"]["optimiser"], u.settings["training"]["epochs"]) for u in long} == {
        ("adam", 4000), ("sgd", 4000)
    }  # fmt: skip
    part = STUDY.plan(
        studies.Request(preset="quick", panels=["weight-decay"], schemes=["learned-0.2"], seeds=[3]), Store(tmp_path)
    )
    assert [(spec.condition, spec.variant) for spec in part] == [
        ("main", "learned-0.2"), ("weight decay 0.1", "learned-0.2")
    ]  # fmt: skip
    beyond = STUDY.plan(studies.Request(preset="quick", panels=["noise"], schemes=["rope"], seeds=[3]), Store(tmp_path))
    assert [(spec.condition, spec.variant) for spec in beyond] == [("main", "rope")]
    gap = STUDY.plan(studies.Request(preset="standard", panels=["gap-closes"], seeds=[3]), Store(tmp_path))
    closed = next(spec.settings for spec in gap if spec.condition == "gap closes")
    assert (closed["model"]["norm"], closed["model"]["dim"], closed["training"]["lr"]) == ("pre", 160, 3e-4)
    assert {spec.settings["training"]["epochs"] for spec in gap} == {200}


@pytest.mark.full
def test_a_page_of_all_panels_has_every_one(trained: Trained) -> None:
    path = STUDY.page(trained.request, trained.store, trained.specs, {})
    assert path.name == "latin-squares-quick-all.html"
    html = path.read_text()
    for words in (
        "Accuracy by encoding", "Condition in which the gap closes", "Accuracy by initial standard deviation",
        "cosine similarity with 2d-fixed", "Jensen-Shannon divergence", "Attention maps",
        "Procrustes distance from 2d-fixed by", "disparity", "Distances between tokens", "Layouts of learned",
        "by noise on the token embeddings", "Adam and SGD", "without weight decay by initial",
        "Accuracy by number of heads",
        "Accuracy of encodings as released and as published", "Generalization by encoding", "Published claims",
        "Training accuracy: comparison with Tables 1 and A2", "Training accuracy: comparison with Tables A5 and A6",
        "Learning curves with weight decay 0.1", "Learning curves with SGD", "Learning curves with two heads",
        "Learning curves with four heads", "Accuracy by initial standard deviation and number of heads",
        "Puzzles and their solutions", "The square as a sequence of tokens", "Similarity to 2d-fixed by encoding",
        "Learned tables before and after alignment with 2d-fixed", "Distances between tokens: Procrustes of two rows",
        "Distances between tokens: Procrustes of two columns",
        "Jensen-Shannon divergence from 2d-fixed by initial standard deviation",
    ):  # fmt: skip
        assert words in html, words
    figures = html[html.index(">Generalization by encoding</h2>") : html.index(">Conditions</h2>")]
    assert "the store does not have" not in figures
    order = [html.index(f">{title}</h2>") for title in (
        "Published claims at this scale", "Generalization by encoding", "Accuracy by encoding",
        "Accuracy by initial standard deviation",
        "Attention maps: cosine similarity with 2d-fixed by initial standard deviation",
        "Procrustes distance from 2d-fixed by initial standard deviation", "Accuracy by noise on the token embeddings",
        "Accuracy with Adam and SGD by initial standard deviation",
        "Accuracy with and without weight decay by initial standard deviation",
        "Accuracy by number of heads", "Accuracy of encodings as released and as published", "Conditions",
    )]  # fmt: skip
    assert order == sorted(order)
    assert path.stat().st_size < 1.2 * 2**20


@pytest.mark.full
def test_what_is_measured_stands_in_the_results(trained: Trained) -> None:
    keys = {trained.measurement("learned-0.2").identity}
    of = {row["metric"]: row["value"] for row in trained.store.results(keys=keys)}
    assert {"attention_cosine", "attention_jsd", "procrustes_distance", "procrustes_disparity", "position_norm",
            "accuracy_ood_noise_0.5"} <= set(of)  # fmt: skip
    clean = trained.store.read(trained.spec("learned-0.2").identity).metrics["accuracy_ood"]
    assert of["accuracy_ood_noise_0"] == pytest.approx(clean)
    assert of["accuracy_ood_lost_to_noise_0.5"] == pytest.approx(clean - of["accuracy_ood_noise_0.5"])
    nope = {row["metric"] for row in trained.store.results(keys={trained.measurement("nope").identity})}
    assert "attention_cosine" in nope
    assert not any(metric.startswith("procrustes") for metric in nope)


@pytest.mark.full
def test_noise_is_measured_at_twenty_scales_and_tables_are_aligned(trained: Trained) -> None:
    data = STUDY.page_data(trained.request, trained.store, trained.specs)
    for scale in further_measures.ALL_SCALES:
        metric = further_measures.noise_metric(scale)
        found = [row for row in data.rows if (row["scheme"], row["metric"]) == ("rope", metric)]
        assert sorted(row["seed"] for row in found) == list(SEEDS), metric
    start = {row["scheme"]: row["value"] for row in data.rows if row["metric"] == further_measures.START_COSINE}
    assert start["2d-fixed"] == pytest.approx(1)
    assert start["1d-fixed"] > 0.5
    assert abs(start["learned-0.2"]) < 0.2
    assert "rope" not in start  # it adds no encoding
    arrays = results.measured_arrays(data, "learned-0.2", "table_after")
    table = torch.from_numpy(arrays["table_after"]).double()
    truth = measure.true_positions(table.shape[1])
    metrics = trained.store.read(trained.measurement("learned-0.2").identity).metrics
    distance = float((aligned(table, truth) - truth).norm())
    assert distance == pytest.approx(metrics["procrustes_distance_layer_0"], rel=1e-4)
    assert distance < float((table - truth).norm())


@pytest.mark.full
def test_a_table_before_training_is_the_one_that_the_seed_draws(trained: Trained) -> None:
    spec = trained.spec("learned-0.2", seed=1)
    before, after = (
        restored(trained.store, spec.identity, execute.build, weights=weights) for weights in (False, True)
    )
    torch.manual_seed(1)
    config = msgspec.convert(spec.settings["model"], EncoderConfig)
    again = execute.make_model(variants.variant("learned-0.2"), config)
    assert all(torch.equal(a, b) for a, b in zip(before.model.state_dict().values(), again.state_dict().values(),
                                                 strict=True))  # fmt: skip
    arrays = trained.store.arrays(trained.measurement("learned-0.2", 1).identity)
    table = before.model.schemes[0].embed(before.model.schemes[0].prepare(before.pos)).detach().double()
    assert arrays["distances_before"] == pytest.approx(torch.cdist(table, table).numpy(), abs=1e-4)
    assert not np.allclose(arrays["distances_after"], arrays["distances_before"])
    assert torch.equal(after.model.head.weight, trained.store.weights(spec.identity)["head.weight"])


@pytest.mark.full
def test_the_reference_of_2d_fixed_is_another_seed_of_it(trained: Trained) -> None:
    parents = trained.measurement("2d-fixed", 0).parents
    assert parents["trained"] == trained.spec("2d-fixed", 0).identity
    assert parents["reference"] == trained.spec("2d-fixed", 1).identity
    assert trained.measurement("rope", 1).parents["reference"] == trained.spec("2d-fixed", 1).identity
    last = trained.measurement("2d-fixed", 1)
    assert last.parents["reference"] == trained.spec("2d-fixed", 0).identity
    metrics = trained.store.read(last.identity).metrics
    assert metrics["attention_cosine"] < 1


@pytest.mark.full
def test_a_report_draws_again_and_asks_for_what_is_missing(
    tmp_path: Path, trained: Trained, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stop:
        cli.main(["report", "latin-squares", "--panels", "positions", "noise", "--out", str(trained.store.root)])
    assert stop.value.code == 0
    page = Path(capsys.readouterr().out.split()[-1])
    assert page.name == "latin-squares-quick-positions-noise.html"
    store = Store(tmp_path / "few")
    request = studies.Request(preset="quick", schemes=["learned-1"], seeds=[0])
    runner.run(STUDY.plan(request, store), store, runner.InProcess(), emit=lambda event: None)
    with pytest.raises(SystemExit) as stop:
        cli.main(["report", "latin-squares", "--panels", "heads", "--out", str(store.root)])
    assert stop.value.code == 2
    told = capsys.readouterr().err
    assert "the panel heads needs runs that" in told
    assert "posenc run latin-squares --preset quick --panels heads" in told


@pytest.mark.full
def test_a_tampered_weight_file_is_refused(tmp_path: Path, trained: Trained) -> None:
    store = Store(tmp_path)
    request = studies.Request(preset="quick", schemes=["learned-0.2"], seeds=[0])
    specs = [spec for spec in STUDY.plan(request, store) if spec.condition == "main"]
    runner.run(specs, store, runner.InProcess(), emit=lambda event: None)
    path = tmp_path / "units" / specs[0].identity / "weights.safetensors"
    content = bytearray(path.read_bytes())
    content[-3] ^= 1
    path.write_bytes(content)
    with pytest.raises(
        StoreError, match=r"has another content than was stored\. Set the run aside: posenc store verify"
    ):
        store.weights(specs[0].identity)


def test_the_published_tables_are_whole() -> None:
    assert len(published.TABLE_A2) == len(published.TABLE_A3) == len(published.TABLE_A5) == 20
    assert set(published.TABLE_1) == {*variants.TABLE_1, "learned-0.2"}
    for mean, sd in [*published.ACCURACY.values(), *published.WEIGHT_DECAY.values()]:
        assert 0.25 < mean < 1
        assert 0 < sd < 0.25


@pytest.mark.data
def test_the_authors_summary_at_its_last_epoch_is_table_a2(authors_folder: Path) -> None:
    summary = authors_folder / published.SUMMARY
    found = published.authors_curves(summary, 4000)["ood"]
    for sigma, (mean, sd) in published.TABLE_A2.items():
        assert found[variants.learned(sigma)] == pytest.approx((mean, sd), abs=6e-4)
    assert found["2d-fixed-literal"] == pytest.approx(published.TABLE_1["2d-fixed"], abs=6e-4)
    assert published.authors_curves(summary, 7) == {}
    for split, numbers in published.authors_curves(summary, 200).items():
        assert {label: numbers[label] for label in published.EPOCH_200[split]} == published.EPOCH_200[split]
    assert published.authors_curves(authors_folder / "none.csv", 200) == {}


def test_another_file_in_the_summarys_place_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / published.SUMMARY).write_text("a,b\n1,2\n")
    with pytest.raises(ValueError, match="is not the authors' summary"):
        published.authors_curves(tmp_path / published.SUMMARY, 200)


@pytest.mark.data
def test_a_store_keeps_the_authors_summary_for_its_pages(authors_folder: Path, tmp_path: Path) -> None:
    request = studies.Request(preset="standard", schemes=["nope"], seeds=[1], data=authors_folder.parent)
    for _ in range(2):
        STUDY.plan(request, Store(tmp_path))
    assert published.authors_curves(published.summary_path(tmp_path), 200)["ood"]


def test_the_puzzles_need_no_run_and_are_shown_in_the_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    request, store = studies.Request(preset="quick", panels=["puzzles"]), Store(tmp_path)
    specs = STUDY.plan(request, store)
    assert specs == []
    page = STUDY.page(request, store, specs, {}).read_text()
    assert "3-vector puzzle" in page
    for words, code in ((["latin-squares"], 0), (["latin-squares", "--out", str(tmp_path / "puzzles.png")], 2)):
        with pytest.raises(SystemExit) as stop:
            cli.main(["show", *words])
        assert stop.value.code == code
    told = capsys.readouterr()
    assert "  2...     2...\n  ?..2     4..2\n" in told.out
    assert "Use --out puzzles.html" in told.err
    with pytest.raises(SystemExit) as stop:
        cli.main(["show", "latin-squares", "--out", str(tmp_path / "puzzles.html")])
    assert "The symbol at row 2, column 1 is a cross." in (tmp_path / "puzzles.html").read_text()
