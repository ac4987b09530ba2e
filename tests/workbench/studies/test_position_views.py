"""Views of the positions: which view a scheme gets, by its own axes or by name, in every study that has room for it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from posenc.lookup.scheme_text import Specification, build, parse
from posenc.models.encoder import EncoderConfig
from posenc.positions import Positions, grid, sequence
from posenc.schemes import catalogue
from posenc.workbench.executors.processes import InProcess
from posenc.workbench.runner import run as execute_runs
from posenc.workbench.runs import RunSpec
from posenc.workbench.storage.store import Store
from posenc.workbench.studies import Request
from posenc.workbench.studies.shared import position_views
from posenc.workbench.studies.shared.hidden_tokens.variants import variant as masked_variant
from posenc.workbench.studies.shared.position_views import PositionView, view_in
from workbench.studies.small_studies import EVERY, few_examples, small_data, small_request, two_steps

__all__ = ["few_examples", "small_data"]

CALLS = {
    "BiPE": "BiPE(Sinusoid, ALiBi)",
    "ChunkedAttention": "ChunkedAttention(4)",
    "ConvPE": "ConvPE(kernel=3, groups=2)",
    "Concat": "Concat([Sinusoid, Random])",
    "DAPE": "DAPE(ALiBi)",
    "DenseGrid": "DenseGrid(resolution=4)",
    "GeoCLIP": "GeoCLIP(features=8, hidden=8)",
    "HashGrid": "HashGrid(resolution=4, table_size=64)",
    "GraphDistance": "GraphDistance(edges=[(0, 1), (1, 2)])",
    "KPlanes": "KPlanes(resolutions=(3,))",
    "PermutohedralGrid": "PermutohedralGrid(scales=(2.0,), table_size=64)",
    "Scaled": "Scaled(Sinusoid, 0.5)",
    "SectionedRoPE": "SectionedRoPE(sections=(8, 8))",
    "SlidingWindow": "SlidingWindow(4)",
    "SphericalHarmonics": "SphericalHarmonics(degree=2)",
    "Sum": "Sum([RoPE, ALiBi])",
    "TensoRF": "TensoRF(resolution=3)",
}
"""Calls of schemes that need more than the sizes of a model."""
VIEWS = (PositionView("grid", 2, "row and column"), PositionView("index", 1, "number"))
POSITIONS = {"grid": grid(4, 4), "index": sequence(16)}
SIZES: dict[str, Any] = {"dim": 96, "head_dim": 48, "heads": 2}


def chosen(text: str, asked: str = "") -> str:
    return position_views.choose(parse(text), SIZES, POSITIONS, VIEWS, asked)


@pytest.mark.parametrize(
    ("text", "view"),
    [
        ("GridPE", "grid"),
        ("AxialRoPE", "grid"),
        ("GridPE(axes=1)", "index"),
        ("Sinusoid", "index"),
        ("Sinusoid(axes=2)", "grid"),
        ("SwinBias", "grid"),
        ("XPos", "index"),
        ("Sum([GridPE, NoPE])", "grid"),
        ("Sum([RoPE, ALiBi])", "index"),
    ],
)
def test_a_scheme_reads_the_richest_view_that_its_own_axes_fit(text: str, view: str) -> None:
    assert chosen(text) == view


def test_a_label_names_another_view() -> None:
    assert chosen("Sinusoid", "grid") == "grid"
    assert chosen("GridPE", "index") == "index"


@pytest.mark.parametrize(
    ("text", "asked", "sentence"),
    [
        (
            "RoPE",
            "grid",
            r"RoPE\(\) reads positions of 1 axis, and the view grid has 2\. The views of this study are grid",
        ),
        ("RoPE", "gird", r"no view 'gird'\. Did you mean grid\? The views .* index \(1 axis: number\)"),
        ("SCPE(axes=3)", "", "SCPE: there is no option 'axes'"),
        (
            "SectionedRoPE(sections=(8, 8, 8))",
            "",
            r"reads positions of 3 axes, which no view of this study has\. The views",
        ),
    ],
)
def test_a_scheme_that_fits_no_view_is_refused_with_the_views(text: str, asked: str, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        chosen(text, asked)


def test_a_scheme_that_cannot_be_built_is_not_put_on_fewer_axes() -> None:
    with pytest.raises(ValueError, match="channels"):  # a head of 4 channels has no group of 6
        position_views.choose(parse("GridPE"), {**SIZES, "head_dim": 4}, POSITIONS, VIEWS)


def test_a_class_is_built_for_other_axes_only_if_its_own_fit_nowhere() -> None:
    (line,) = VIEWS[1:]
    assert position_views.choose(parse("GridPE"), SIZES, {"index": sequence(9)}, [line]) == "index"
    sizes = position_views.sizes_at(SIZES, POSITIONS["grid"])
    assert build(Specification("SwinBias"), sizes).claims.axes == 2
    assert "extent" not in sizes(catalogue()["GridPE"])  # it has a default, with which runs are stored


def test_channels_with_coordinates_offer_them_first() -> None:
    config = EncoderConfig(channels=1, classes=1, dim=96, depth=1, hidden=8, heads=2)
    places = Positions(sequence(5).coords.float().repeat(1, 3))
    views = {"index": sequence(5), "places": places}
    for label, view in (("GridPE", "places"), ("Sinusoid", "index"), ("Sinusoid@places", "places"), ("rope", "index")):
        assert masked_variant(label, config, views, axes=3).view == view, label
    assert masked_variant("GridPE", config, {"index": sequence(5)}, axes=1).view == "index"
    assert masked_variant("GridPE@grid", config, views, axes=3).view == "grid"  # require_fit names what is missing


def test_every_study_lists_its_views_and_reads_them_from_its_settings() -> None:
    for name, study in EVERY.items():
        names = [view.name for view in study.views]
        assert names, name
        assert len(set(names)) == len(names)
    assert view_in({"row": {"view": "grid"}}, VIEWS) == "grid (2 axes: row and column)"
    assert view_in({"row": {"config": {"options": {"view": "index"}}}}, VIEWS) == "index (1 axis: number)"
    assert view_in({"row": {"scheme": "RoPE"}}, VIEWS[1:]) == "index (1 axis: number)"
    assert view_in({"baseline": "mean"}, VIEWS) == ""


# every scheme on every study --------------------------------------------------------------------------------------


def placed(study: str, texts: list[str], data: Path, store: Store) -> tuple[list[RunSpec], dict[str, str]]:
    """Short runs of the schemes that a study has room for, and the sentence with which it refuses each other one."""
    specs, refused = [], {}
    for text in texts:
        request = small_request(study, data, schemes=[text])
        try:
            planned = EVERY[study].plan(request, store)
        except ValueError as error:
            refused[text] = str(error)
            continue
        if "training" not in planned[0].settings:
            continue
        specs.append(two_steps(planned[0]))
    return specs, refused


def check_views(study: str, texts: list[str], data: Path, store: Store) -> dict[str, str]:
    """Train the schemes on the study, and read the view of each from the page. Returns the refusals."""
    specs, refused = placed(study, texts, data, store)
    report = execute_runs(specs, store, InProcess(), emit=lambda event: None)
    assert not report.failed, [sentence for _, sentence in report.failed]
    page_of = EVERY[study].page_data(small_request(study, data), store, specs)
    shown = {spec.variant: view_in(spec.settings, EVERY[study].views) for spec in page_of.done}
    assert len(shown) == len(specs)
    for text, view in shown.items():
        axes = next(each.axes for each in EVERY[study].views if str(each) == view)
        calls = store.read(next(s for s in specs if s.variant == text).identity).timing["calls"]
        asked = text.partition("@")[0].partition("(")[0]  # a model may have a table of its own besides
        call = next((each for each in calls if each.partition("(")[0] == asked), calls[0])
        # the call of a scheme that is made of others has no sizes of them
        nested = call.startswith(("Sum(", "Scaled(", "Concat(", "BiPE(", "DAPE("))
        reads = axes if nested else build(parse(call), {}).claims.axes
        fits = {axes, 1} if view.startswith("grid (2 axes: row and column; ") else {axes}
        assert axes is None or reads is None or reads in fits, (text, view, reads)
    return refused


@pytest.mark.full
def test_some_schemes_on_the_squares_with_their_views_on_the_page(
    tmp_path: Path, small_data: Path, few_examples: None
) -> None:
    store, study = Store(tmp_path / "runs"), EVERY["latin-squares"]
    texts = ["GridPE", "AxialRoPE@index", "Sinusoid@grid", "XPos"]
    specs, refused = placed("latin-squares", texts, small_data, store)
    assert not refused
    execute_runs(specs, store, InProcess(), emit=lambda event: None)
    page = study.page(Request(preset="quick", schemes=texts, seeds=[0], panels=["accuracy"]), store, specs, {})
    html = page.read_text()
    assert "view of the positions" in html
    for view in ("grid (2 axes: row and column of a cell)", "index (1 axis: number of a cell in reading order)"):
        assert html.count(view) == 2, view


ROOM = dict.fromkeys(EVERY, 10)
"""Least number of schemes of the catalogue that a study has room for."""


@pytest.mark.full
@pytest.mark.parametrize("study", EVERY)
def test_every_scheme_on_every_study_that_has_room(
    study: str, tmp_path: Path, small_data: Path, few_examples: None
) -> None:
    pytest.importorskip("PIL")
    texts = [CALLS.get(name, name) for name in catalogue()]
    refused = check_views(study, texts, small_data, Store(tmp_path / "runs"))
    assert len(texts) - len(refused) >= ROOM[study], refused
    for text, sentence in refused.items():
        assert len(sentence) < 600, (text, sentence)
        assert "Error" not in sentence
