"""Help and lists: their content, and their width of at most 80 columns."""

from __future__ import annotations

import json
import re
import sys

import pytest

from posenc import cli
from posenc.cli import index, name_checks
from posenc.cli.grammar import Positional, arg, command_of
from posenc.cli.parser import UsageError, parse
from posenc.cli.text_table import command_lines, entries, labels, table
from posenc.workbench import studies
from posenc.workbench.studies.shared import changes
from posenc.workbench.studies.shared.planning import panels_of

pytestmark = pytest.mark.bare

WIDE = 80


@pytest.fixture
def printed(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("COLUMNS", "200")  # a wide terminal gets 80 columns too

    def call(*words: str) -> str:
        with pytest.raises(SystemExit) as leaving:
            cli.main(words)
        out, err = capsys.readouterr()
        assert leaving.value.code == 0, err
        return out

    return call


def test_every_help_and_list_fits_80_columns(printed) -> None:
    texts = [printed("--help"), printed("store", "--help"), printed("run")]
    texts += [printed(*name.split(), "--help") for name in cli.COMMANDS]
    texts += [printed("run", study, "--help") for study in studies.studies()]
    texts += [printed("list", subject) for subject in ("schemes", "studies", "panels", "variants", "figures", "data")]
    wide = [line for text in texts for line in text.splitlines() if len(line) > WIDE]
    assert wide == []
    examples = [text.partition("\nexamples\n")[2] for text in texts if "\nexamples\n" in text]
    assert len(examples) > len(cli.COMMANDS)
    assert not any("\n\n" in lines for lines in examples)  # single-spaced


def test_help_of_a_study_has_its_presets_panels_variants_and_an_example(printed) -> None:
    for name, study in studies.studies().items():
        text = " ".join(printed("run", name, "--help").split())
        assert study.question in text
        for preset in study.presets.values():
            assert preset.about in text
        for label, panel in study.panels.items():
            assert f"{label} {panel.about} ({panel.shows})" in text
        assert f" posenc run {name}" in text.partition("examples")[2]
    assert "learned-0.2" in printed("run", "latin-squares", "--help")
    assert "learned-0.3" in printed("run", "latin-squares", "--preset", "standard", "--help")


def test_labels_that_a_shell_divides_are_quoted(printed) -> None:
    assert labels(["rope", "Shaw(values=False)", "gridpe + xyz"]) == 'rope, "Shaw(values=False)", "gridpe + xyz"'
    for text in (printed("run", "points", "--help"), printed("list", "variants", "points")):
        assert '"rope-axial + xyz", "gridpe + xyz"' in " ".join(text.split())


def test_several_defaults_are_explained_where_there_are_any(printed) -> None:
    sentence = "separates the defaults of parts of the study"
    assert sentence in printed("run", "gridpe", "--help")
    assert sentence not in printed("run", "latin-squares", "--help")


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("latin-squares --panels heads --set heads=2", "the panel heads varies heads itself. Choose another panel"),
        ("latin-squares --panels all --set epochs=4", "the panel gap-closes varies epochs itself. Choose others:"),
        ("latin-squares --set epochs=0", "epochs must be at least 1; got 0. The preset has epochs=60."),
        ("latin-squares --set lr=1 --set lr=2", "--set lr is given twice"),
        ("latin-squares --jobs 0", "--jobs is a number of at least 1; got 0"),
        ("latin-squares --data absent", "--data absent is not a folder"),
        ("latin-squares --jobs two", "--jobs takes a whole number; got 'two'. See posenc run --help."),
    ],
)
def test_values_that_the_study_would_refuse_are_refused_before_it_is_loaded(
    line: str, sentence: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "posenc.workbench.commands", None)  # an import of it fails
    with pytest.raises(SystemExit) as leaving:
        cli.main(["run", *line.split()])
    assert leaving.value.code == 2
    assert capsys.readouterr().err.startswith(f"posenc: {sentence}")


@pytest.mark.parametrize("name", studies.studies())
def test_the_index_refuses_the_same_changes_of_settings_as_the_study(name: str) -> None:
    """A count of 0, and for each panel a setting that it varies; a panel of the preset that varies it is left out."""
    study, known = studies.find(name), index.load()
    command = command_of("run", cli.COMMANDS["run"])
    empty = {option.name: None for option in command.options} | {"preset": "quick", "study": name}
    for setting in changes.settings_of(study, "quick"):
        if ";" in setting.default or not setting.default.isdigit():
            continue
        value = "0" if setting.least else str(int(setting.default) + 1)
        for panels in (None, *((panel,) for panel in study.panels)):
            request = studies.Request(preset="quick", panels=panels, changes={setting.name: value})
            early = raised(
                name_checks.refuse_unknown,
                known, command, {**empty, "panels": panels, "changes": (f"{setting.name}={value}",)},
            )  # fmt: skip
            late = raised(lambda request=request: changes.refuse_varied(study, request, panels_of(study, request)))
            assert early == late or (not early and "is not possible" in late), setting.name


def raised(call, *arguments) -> str:
    try:
        call(*arguments)
    except ValueError as error:
        return str(error)
    return ""


def test_exit_codes_are_in_the_help(printed) -> None:
    codes = printed("--help").partition("exit codes\n")[2]
    assert [line.split()[0] for line in codes.splitlines()[:4]] == ["0", "1", "2", "130"]


def test_run_without_a_study_lists_all_with_their_data_and_time(printed) -> None:
    text = " ".join(printed("run").split())
    for name, study in studies.studies().items():
        assert f"{name} {study.question}" in text
        assert study.presets["quick"].about.rpartition(": ")[2] in text
    assert "photographs, needed unless FILE is given" in text


def test_lists_as_json(printed) -> None:
    panels = json.loads(printed("list", "panels", "latin-squares", "--format", "json"))
    assert list(panels["latin-squares"]) == list(studies.find("latin-squares").panels)
    variants = json.loads(printed("list", "variants", "latin-squares", "--format", "json"))
    assert variants["latin-squares"]["gap-closes"]["quick"]["main"] == ["learned-0.2", "learned-2"]
    data = json.loads(printed("list", "data", "--format", "json"))
    assert list(data["shape-fit"]) == ["mesh/spot.npz"]
    assert list(json.loads(printed("list", "studies", "--format", "json"))) == list(studies.studies())


@pytest.mark.parametrize("name", studies.studies())
def test_a_label_that_a_panel_needs_is_never_refused(name: str) -> None:
    known = index.load()
    command = command_of("run", cli.COMMANDS["run"])
    empty = {option.name: None for option in command.options} | {"preset": "quick", "study": name}
    labels = name_checks.variants_of(known.studies[name])
    assert labels
    name_checks.refuse_unknown(known, command, {**empty, "schemes": [*labels, "RoPE", "rope", "Shaw(values=False)"]})
    with pytest.raises(ValueError, match="there is no variant 'qzxwv'"):
        name_checks.refuse_unknown(known, command, {**empty, "schemes": ["qzxwv"]})


@pytest.mark.parametrize(
    ("study", "labels"),
    [
        ("latin-squares", ["learned-0.123", "learned-big", "2D_fixed"]),
        ("image-fit", ["gaussian-3", "dense@60000", "multires-coarse-to-fine", "my_scheme.py"]),
        ("language", ["rope-randomized", "alibi-randomized"]),
    ],
)
def test_a_label_that_only_the_study_can_read_is_left_to_it(study: str, labels: list[str]) -> None:
    known = index.load()
    command = command_of("run", cli.COMMANDS["run"])
    empty = {option.name: None for option in command.options} | {"preset": "quick", "study": study}
    name_checks.refuse_unknown(known, command, {**empty, "schemes": labels})


# parser ------------------------------------------------------------------------------------------------------------


def example(what: Positional[str], names: tuple[str, ...] | None = None, count: int = 3, all: bool = False) -> int:
    """Summary of the command.

    For example:

    posenc example what

    Args:
        what: First.
        names: Several.
        count: Number of things.
        all: Switch.
    """
    return 0


def test_values_are_read_from_words() -> None:
    command = command_of("example", example)
    assert command.summary == "Summary of the command."
    assert command.examples == ("posenc example what",)
    nothing = {"what": "x", "names": None, "count": 3, "all": False}
    assert parse(command, ["x"]) == nothing
    assert parse(command, ["--names", "a", "b", "--all", "x"]) == {**nothing, "names": ("a", "b"), "all": True}
    assert parse(command, ["x", "--count=-5"]) == parse(command, ["x", "--count", "-5"]) == {**nothing, "count": -5}
    with pytest.raises(UsageError, match="--count takes a whole number; got 'a'"):
        parse(command, ["x", "--count", "a"])


def test_a_flag_that_is_repeated_gathers_its_values() -> None:
    command = command_of("run", cli.COMMANDS["run"])
    values = parse(command, ["nmar", "--set", "epochs=4", "--set", "lr=0.1", "--yes"])
    assert values["changes"] == ("epochs=4", "lr=0.1")
    assert values["yes"] is True
    assert name_checks.changes_by_name(values["changes"]) == {"epochs": "4", "lr": "0.1"}
    for words, sentence in ((("epochs",), "takes NAME=VALUE"), (("a=1", "a=2"), "--set a is given twice")):
        with pytest.raises(ValueError, match=sentence):
            name_checks.changes_by_name(words)
    assert arg(flag="--set").flag == "--set"


def test_tables_wrap_their_cells() -> None:
    assert command_lines("posenc list") == "  posenc list"
    long = "posenc run " + "word " * 30
    assert " ".join(command_lines(long).replace("\\\n", "").split()) == long.strip()
    assert table(("a", "b"), [("one two", "x")], (4, 2)).splitlines() == ["a     b", "one   x", "two"]
    lines = entries([("name", "text " * 40), ("a name that is too wide", "about")]).splitlines()
    assert max(map(len, lines)) <= WIDE
    assert re.match(r"  name  text", lines[0])
    assert lines[-2:] == ["  a name that is too wide", "        about"]


@pytest.mark.parametrize(
    ("study", "sentence"),
    [
        ("series", "An epoch is one training step."),
        ("gridpe", "An epoch is a pass over the training data; own_steps: steps on your data."),
    ],
)
def test_the_help_of_a_study_says_what_an_epoch_is(study: str, sentence: str, capsys) -> None:
    with pytest.raises(SystemExit) as leaving:
        cli.main(["run", study, "--help"])
    assert leaving.value.code in (0, None)
    assert f"\n  {sentence}\n" in capsys.readouterr().out
