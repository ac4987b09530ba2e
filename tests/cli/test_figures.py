"""Figures of papers by name: what each spelling means, and what is refused."""

import pytest

from posenc import cli
from posenc.cli.figures import _parts, runs_of_figures
from posenc.workbench.studies import Request, studies
from posenc.workbench.studies.gridpe import published as gridpe
from posenc.workbench.studies.latin_squares import published
from posenc.workbench.studies.shared import planning

pytestmark = pytest.mark.bare


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("Table 1", {"table 1"}),
        ("Figs. 3A-C", {"3a", "3b", "3c"}),
        ("Fig. 2C, Table A2", {"2c", "table a2"}),
        ("Fig. A14A, B, E, F", {"a14a", "a14b", "a14e", "a14f"}),
        ("A7A", {"a7a"}),
    ],
)
def test_a_name_means_its_parts(name: str, parts: set[str]) -> None:
    assert _parts(name) == parts


@pytest.mark.parametrize(
    ("study", "figure", "panels"),
    [
        ("latin-squares", "Table 1", ("accuracy",)),
        ("latin-squares", "a7a", ("weight-decay",)),
        ("latin-squares", "Figs. 1F-H", ("positions",)),
        ("gridpe", "Table 1", ("pvt", "accuracy")),
        ("masked", "A12B", ("rates",)),
        ("sc-pe", "Fig. 5", ("tokens",)),
    ],
)
def test_a_figure_has_panels(study: str, figure: str, panels: tuple[str, ...]) -> None:
    assert runs_of_figures(study, [figure]).panels == panels


def test_a_figure_of_some_variants_of_its_panel_runs_these() -> None:
    table = runs_of_figures("latin-squares", ["Table 1"])
    assert table.conditions is None
    assert set(table.variants or ()) == set(published.TABLE_1)
    both = runs_of_figures("latin-squares", ["Table 1", "Fig. 1F-H"])
    assert both.panels == ("accuracy", "positions")
    assert both.variants == table.variants  # 2d-fixed and 1d-fixed are among them
    assert runs_of_figures("latin-squares", ["Table 1", "Table A4"]).variants is None
    assert runs_of_figures("latin-squares", ["A7A", "A7C"]).conditions == ("weight decay 0.1",)


def test_a_figure_on_other_data_is_meant_by_its_full_name_alone() -> None:
    assert runs_of_figures("gridpe", ["Table 1"]).conditions == ("pvt", "main")
    assert runs_of_figures("sc-pe", ["Fig. 2"]).figures == ("Fig. 2, Fashion-MNIST",)
    assert runs_of_figures("sc-pe", ["Fig. 2, CIFAR-10"]).conditions == ("cifar-10",)
    assert runs_of_figures("latin-squares", ["Fig. 2"]).figures == ("Fig. 2B", "Fig. 2C, Table A2")


@pytest.mark.parametrize(
    ("words", "needed"),
    [
        (("gridpe", "Table 1, upper half, on photographs"), "--preset standard --data DIR"),
        (("sc-pe", "Fig. 3, CIFAR-10"), "posenc data cifar-10"),
    ],
)
def test_what_a_figure_needs_is_said(words: tuple[str, str], needed: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        cli.main(["run", words[0], "--figure", words[1], "--dry-run"])
    assert stop.value.code == 2
    told = capsys.readouterr().err
    assert f"needs {'the preset standard' if 'standard' in needed else 'CIFAR-10'}" in told
    assert needed in told


def test_a_figure_of_one_condition_runs_that(capsys: pytest.CaptureFixture[str]) -> None:
    halves = runs_of_figures("gridpe", ["Table 1, upper half, on photographs"])
    assert halves.panels == ("pvt",)
    assert halves.conditions == ("pvt photographs",)
    assert set(halves.variants or ()) == set(gridpe.TABLE_1["pvt"])
    with pytest.raises(SystemExit) as stop:
        cli.main(["run", "latin-squares", "--figure", "Fig. 1F-H", "--dry-run"])
    assert stop.value.code == 0
    told = capsys.readouterr().out
    assert "1d-fixed" in told
    assert "learned" not in told


@pytest.mark.parametrize("study", [study for study in studies().values() if study.parts], ids=lambda study: study.name)
def test_the_variants_of_a_figure_are_of_its_panel(study) -> None:
    for part in study.parts:
        if part.variants:
            planned = {
                label
                for preset in study.presets
                for labels in planning.needed(study, Request(preset=preset, panels=(part.panel,))).values()
                for label in labels
            }
            assert planned.issuperset(part.variants)
            assert runs_of_figures(study.name, [part.name]).variants == part.variants


@pytest.mark.parametrize(
    ("study", "figure", "told"),
    [
        ("latin-squares", "A7D", "there is no figure 'A7D'"),
        ("latin-squares", "2A", r"no panel of latin-squares redraws Fig. 2A. Not drawn: a sketch"),
        ("gridpe", "Fig. 2", r"no panel of gridpe redraws Fig. 2. Draw it: posenc show"),
        ("points", "1", "points redraws no figure of a paper. Name its panels: posenc list panels points"),
    ],
)
def test_a_figure_without_a_panel_is_refused(study: str, figure: str, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        runs_of_figures(study, [figure])


@pytest.mark.parametrize(("task", "command"), [("cifar-10", "posenc run sc-pe"), ("imagenet-100", "posenc run gridpe")])
def test_the_data_of_a_figure_that_a_user_brings_is_named(
    task: str, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stop:
        cli.main(["data", task])
    assert stop.value.code == 0
    told = capsys.readouterr().out
    assert "https://" in told
    assert command in told
