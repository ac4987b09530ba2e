"""posenc.load: the trained model of a run, as a module that scores what the run scored."""

from __future__ import annotations

import contextlib
import dataclasses
import html
import io
import math
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import posenc
from posenc.workbench import PageData, Request, RunResult, RunSpec, Store, draw_image, execute_runs, merge, pack
from posenc.workbench.executors.processes import InProcess
from posenc.workbench.model_loading import choose_run
from posenc.workbench.studies.globe import execute as globe
from posenc.workbench.studies.graphs import execute as graphs
from posenc.workbench.studies.image_fit import execute as image_fit
from posenc.workbench.studies.language import execute as language
from posenc.workbench.studies.latin_squares import execute as latin_squares
from posenc.workbench.studies.nmar import execute as nmar
from posenc.workbench.studies.permuted import execute as permuted
from posenc.workbench.studies.places import execute as places
from posenc.workbench.studies.points import execute as points
from posenc.workbench.studies.recordings import execute as recordings
from posenc.workbench.studies.scene import execute as scene
from posenc.workbench.studies.series import execute as series
from posenc.workbench.studies.shape_fit import execute as shape_fit
from posenc.workbench.studies.shared import classification
from posenc.workbench.studies.shared.hidden_tokens.execute import MaskedModel
from posenc.workbench.studies.shared.loading_panel import best_run, loading_panel
from tiers import full_except
from workbench.studies.small_studies import EVERY, few_examples, small_data, small_request, two_steps

pytestmark = pytest.mark.bare

__all__ = ["few_examples", "small_data"]

VARIANTS = {
    "globe": "xyz",
    "graphs": "rwse + messages",
    "gridpe": "GridPE",
    "image-fit": "multires",
    "language": "rope",
    "latin-squares": "2d-fixed",
    "masked": "learned-0.2",
    "nmar": "learned-0.2",
    "permuted": "learned-0.2",
    "places": "fourier",
    "points": "gridpe",
    "sc-pe": "SCPE",
    "scene": "multires",
    "series": "both-rows",
    "shape-fit": "gaussian-10",
}
"""A variant of each study."""


def _masked(module: Any) -> Callable[[RunSpec, Path, None], Any]:
    return lambda spec, root, folder: MaskedModel(spec, module.read_tokens(root, spec))


ON_DATA: dict[str, Callable[[RunSpec, Path, None], Any]] = {
    "globe": globe.build,
    "graphs": graphs.build,
    "gridpe": classification.build,
    "image-fit": image_fit.ImageField,
    "language": language.build,
    "latin-squares": latin_squares.build,
    "masked": _masked(recordings),
    "nmar": _masked(nmar),
    "permuted": _masked(permuted),
    "places": places.build,
    "points": points.build,
    "sc-pe": classification.build,
    "scene": scene.build,
    "series": series.build,
    "shape-fit": shape_fit.ShapeField,
}
"""The function of each study that builds the model of a run on its data, with which the run was scored."""
TIMES = ("second", "roughness")
"""Parts of names of metrics that a model alone does not decide."""


def trained(study: str, data: Path, root: Path, variant: str = "") -> tuple[Store, RunSpec]:
    store = Store(root)
    planned = EVERY[study].plan(small_request(study, data, schemes=[variant or VARIANTS[study]]), store)
    spec = two_steps(planned[0])
    report = execute_runs([spec], store, InProcess(), emit=lambda event: None)
    assert not report.failed, report.failed
    return store, spec


def scores(study: str, model: torch.nn.Module, store: Store, spec: RunSpec) -> dict[str, float]:
    """Scores of a model on the data of a run, computed as the run computed them."""
    with torch.random.fork_rng():
        on_data = ON_DATA[study](spec, store.root, None)
        on_data.model = model
        return on_data.result(store.read(spec.identity).curves).metrics


@pytest.mark.parametrize("study", full_except(EVERY, "image-fit", "latin-squares", "globe"))
def test_a_loaded_model_has_the_stored_scores(study: str, tmp_path: Path, small_data: Path, few_examples: None) -> None:
    assert set(VARIANTS) == set(EVERY) == set(ON_DATA)
    store, spec = trained(study, small_data, tmp_path / "runs")
    before = torch.get_rng_state()
    model: Any = posenc.load(store.root, study=study, variant=VARIANTS[study], seed=0)
    assert torch.equal(before, torch.get_rng_state())
    assert not model.training
    assert model.run_spec.identity == spec.identity
    assert "Input: " in model.convention
    assert "Output: " in model.convention
    stored = store.read(spec.identity).metrics
    again = scores(study, model, store, spec)
    compared = {name for name in again if not any(part in name for part in TIMES)}
    assert any(stored[name] % 1 for name in compared), "no score that a small difference of the weights would change"
    for name in compared:
        assert again[name] == pytest.approx(stored[name], rel=1e-6, abs=1e-9, nan_ok=True), name


@pytest.mark.full
def test_a_model_with_scaled_frequencies_is_loaded_with_them(
    tmp_path: Path, small_data: Path, few_examples: None
) -> None:
    store, spec = trained("language", small_data, tmp_path / "runs", "rope-yarn")
    model: Any = posenc.load(store.root, study="language")
    tokens = torch.arange(12)[None] % 20
    plain, _ = trained("language", small_data, tmp_path / "plain", "rope")
    with torch.no_grad():
        scaled = model(tokens)
        unscaled = posenc.load(plain.root)(tokens)
    assert not torch.allclose(scaled, unscaled)  # equal weights, other frequencies
    for name, value in plain.read(plain.specs()[0].identity).weights.items():
        if name in store.read(spec.identity).weights and "scheme" not in name:
            assert torch.equal(value, store.read(spec.identity).weights[name]), name


def test_the_models_of_latin_squares_read_the_positions_that_they_carry(
    tmp_path: Path, small_data: Path, few_examples: None
) -> None:
    store, _ = trained("latin-squares", small_data, tmp_path / "runs")
    model: Any = posenc.load(store.root)
    cells, probe = torch.zeros(3, 16, model.run_spec.settings["model"]["channels"]), torch.tensor([0, 5, 15])
    assert model(cells, model.positions, probe).shape == (3, 4)


def test_a_picture_of_any_size_and_the_stored_psnr_at_its_own(
    tmp_path: Path, small_data: Path, few_examples: None
) -> None:
    image = pytest.importorskip("PIL.Image")
    store, spec = trained("image-fit", small_data, tmp_path / "runs")
    field: Any = posenc.load(store.root, study="image-fit")
    truth = np.asarray(image.open(small_data / "photo.png")) / 255
    drawn = draw_image(field, 16, 16).double().numpy()
    psnr = -10 * np.log10(((drawn - truth) ** 2).mean())
    assert psnr == pytest.approx(store.read(spec.identity).metrics["psnr"], abs=1e-5)
    assert draw_image(field, 5, 9).shape == (5, 9, 3)
    # the convention, by hand: pixel (3, 7) of 5 x 9 pixels, in the order (row, column)
    by_hand = field(posenc.Positions(torch.tensor([[3.5 / 5, 7.5 / 9]])))[0].clamp(0, 1)
    assert torch.allclose(draw_image(field, 5, 9)[3, 7], by_hand, atol=1e-6)
    for height in (0, 6.5):
        with pytest.raises(ValueError, match="an image has rows and columns, 1 or more of each"):
            draw_image(field, height, 4)  # pyright: ignore


def stored_runs(root: Path, **labels: Any) -> Store:
    """A store with toy runs of globe without weights, with two variants and two seeds."""
    store = Store(root)
    for variant in ("xyz", "fourier"):
        for seed in (0, 1):
            spec = RunSpec(
                study="globe", variant=variant, seed=seed, preset="quick epochs=3", procedure="globe.train",
                entry="nowhere:train", settings={"of": variant}, **labels,
            )  # fmt: skip
            store.finish(spec, RunResult(metrics={"rmse": 0.5}), {"seconds": 1.0}, {"command": "posenc run globe"})
    return store


@pytest.mark.parametrize(
    ("names", "sentence"),
    [
        ({}, r"4 runs of .* fit\. Name variant \(fourier, xyz\) and seed \(0, 1\)\."),
        ({"variant": "xyz"}, r"2 runs of .* fit\. Name seed \(0, 1\)\."),
        ({"variant": "xzy"}, r"there is no variant 'xzy'\. Did you mean xyz\? They have fourier, xyz\."),
        ({"variant": "xyz", "seed": 7}, r"there is no seed 7\. They have 0, 1\."),
        ({"study": "scene"}, r"there is no study 'scene'\. They have globe\."),
        ({"study": "globe", "condition": "half"}, r"there is no condition 'half'\. They have main\."),
        ({"preset": "standard"}, r"there is no preset 'standard'\. They have quick epochs=3\."),
        ({"preset": "quick", "seed": 0}, r"2 runs of .* fit\. Name variant"),
        ({"source": "photo.jpg"}, r"no such run about photo\.jpg\. These runs are about no own data"),
        ({"run": "00"}, r"no run of .* begins with '00'; give at least 4 digits"),
        ({"variant": "xyz", "seed": 0}, r"globe, xyz, seed 0, has no weights: it is a baseline"),
    ],
)
def test_a_request_that_does_not_name_one_run_is_one_sentence(
    names: dict[str, Any], sentence: str, tmp_path: Path
) -> None:
    store = stored_runs(tmp_path / "runs")
    with pytest.raises(ValueError, match=sentence) as refused:
        posenc.load(store.root, **names)
    assert "\n" not in str(refused.value)


def test_a_run_is_named_by_the_first_digits_of_its_identity_alone(tmp_path: Path) -> None:
    store = stored_runs(tmp_path / "runs")
    (first, *_) = store.specs()
    names = dict.fromkeys(("study", "preset", "variant", "seed", "condition"))
    assert choose_run(store, names, run=first.identity[:10]).identity == first.identity
    with pytest.raises(ValueError, match="run= names one run"):
        posenc.load(store.root, run=first.identity, seed=0)
    with pytest.raises(ValueError, match="There are no results in"):
        posenc.load(tmp_path / "nothing")


def test_a_damaged_run_is_named_where_no_run_fits(tmp_path: Path) -> None:
    store = stored_runs(tmp_path / "runs")
    for folder in (store.root / "units").iterdir():
        (folder / "metrics.jsonl").unlink()
    with pytest.raises(
        ValueError, match=r"no trained model.* left out: globe.*metrics\.jsonl is missing and \d more\."
    ):
        posenc.load(store.root)


def test_the_main_condition_at_the_full_budget_is_the_default(tmp_path: Path) -> None:
    store = Store(tmp_path / "runs")
    for label in ("main", "main, half", "other"):
        spec = RunSpec(
            study="globe", variant="xyz", seed=0, preset="quick", procedure="globe.train", condition=label,
            settings={"condition": label},
        )  # fmt: skip
        store.finish(spec, RunResult(metrics={}), {})
    chosen = choose_run(store, dict.fromkeys(("study", "preset", "variant", "seed", "condition")))
    assert chosen.spec.condition == "main"


def test_a_run_of_a_pack_names_the_command_that_trains_it(tmp_path: Path) -> None:
    store = stored_runs(tmp_path / "runs")
    (packed,) = pack(store, tmp_path / "packs")
    merged = Store(tmp_path / "merged")
    merge(merged, packed)
    with pytest.raises(ValueError, match=r"packs hold none\. .*trains it with them: posenc run globe --out NEW$"):
        posenc.load(merged.root, variant="xyz", seed=1)


def test_a_run_of_a_pack_without_a_command_names_its_preset_and_settings(tmp_path: Path) -> None:
    store = Store(tmp_path / "runs")
    spec = RunSpec(
        study="globe", variant="xyz", seed=1, preset="standard lr=0.5", procedure="globe.train",
        entry="nowhere:train", settings={},
    )  # fmt: skip
    store.finish(spec, RunResult(metrics={"rmse": 0.5}), {"seconds": 1.0}, {"command": "__main__.py run globe"})
    (packed,) = pack(store, tmp_path / "packs")
    merge(merged := Store(tmp_path / "merged"), packed)
    with pytest.raises(ValueError, match=r": posenc run globe --preset standard --set lr=0\.5 --out NEW$"):
        posenc.load(merged.root)


@pytest.mark.full
def test_importing_posenc_does_not_load_the_workbench() -> None:
    code = "import sys, posenc; posenc.grid; print([name for name in sys.modules if name.startswith('posenc.workb')])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def printed_lines(page: str) -> str:
    """The lines of Python that a page prints to load its best run."""
    section = page.partition("Load the best model</h2>")[2]
    found = re.search(r"<pre[^>]*><code>(.*?)</code></pre>", section, re.DOTALL)
    assert found is not None, "the page has no lines that load a model"
    return html.unescape(found[1]).strip()


@pytest.mark.parametrize("study", full_except(EVERY, "image-fit", "language"))
def test_the_lines_of_a_page_load_its_best_run(
    study: str, tmp_path: Path, small_data: Path, few_examples: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    store, spec = trained(study, small_data, Path("runs"))
    page = EVERY[study].page(small_request(study, small_data), store, [spec], {}).read_text()
    lines = printed_lines(page)
    assert len(lines.splitlines()) == 3
    names: dict[str, Any] = {}
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(lines, names)
    assert names["model"].run_spec.identity == spec.identity
    assert printed.getvalue().strip() == names["model"].convention
    assert names["model"].convention in html.unescape(page)


def test_the_best_run_has_the_best_score_in_the_main_condition(tmp_path: Path) -> None:
    store, specs = Store(tmp_path / "runs"), []
    for number, (condition, rmse, weights) in enumerate(
        [("main", 0.5, True), ("main", 0.3, True), ("main", 0.1, False), ("other", 0.0, True), ("main", math.nan, True)]
    ):
        spec = RunSpec(
            study="globe", variant="xyz", seed=number, preset="quick", procedure="globe.train", condition=condition,
            settings={},
        )  # fmt: skip
        kept = {"w": torch.zeros(3)} if weights else {}
        store.finish(spec, RunResult(metrics={"rmse": rmse, "accuracy": 1.0}, weights=kept), {})
        specs.append(spec)
    data = PageData(request=Request(preset="quick"), preset=EVERY["globe"].presets["quick"], store=store, specs=specs)
    declared = EVERY["globe"].stored_model
    assert declared is not None
    best, metric = best_run(declared, data)
    assert best is not None
    assert (best.spec.seed, metric) == (1, "rmse")
    assert loading_panel(None, data) is None
    bare = dataclasses.replace(data, specs=specs[2:3])
    assert loading_panel(declared, bare) is None
