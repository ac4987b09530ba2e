"""Groups of channels of own recordings: found where there are some, denied where there are none, handed over."""

import csv
import dataclasses
import re

import msgspec
import numpy as np
import pytest
import torch

from posenc.measure.modularity import adjusted_rand
from posenc.workbench import runner, studies
from posenc.workbench.request_execution import execute_request, report_request
from posenc.workbench.storage.store import Store
from posenc.workbench.studies import recordings
from posenc.workbench.studies.recordings import group_plots, group_report
from posenc.workbench.studies.recordings.channel_groups import ChannelGroups, Grouping, channel_groups
from posenc.workbench.studies.shared import page_records
from posenc.workbench.studies.shared.declarations import OwnDataPlan
from posenc.workbench.studies.shared.hidden_tokens import table_scores
from posenc.workbench.studies.shared.page_data import PageData
from posenc.workbench.study_result import StudyResult
from posenc.workbench.training.loop import TrainingConfig

pytestmark = [pytest.mark.bare, pytest.mark.usefixtures("in_this_process")]

CHANNELS, GROUPS = 24, 4


def own_file(folder, *, related=True, modules=True, gap=False):
    """Six recordings of 24 channels in four hidden groups of six, in no order, or of unrelated channels."""
    chance = np.random.default_rng(3)
    of = chance.permutation(np.repeat(np.arange(GROUPS), CHANNELS // GROUPS))
    series = chance.normal(size=(6, CHANNELS, 200)) + chance.normal(size=(6, GROUPS, 200))[:, of] * related
    if gap:
        series[0, 3, [5, 60, 61, 100, 199]] = np.nan
    arrays = {"recordings": series, "channels": np.array([f"station {n + 1}" for n in range(CHANNELS)])}
    np.savez(folder / "own.npz", **arrays, **({"modules": of} if modules else {}))
    return folder / "own.npz"


def tiny(monkeypatch, steps, seeds=(0, 1)):
    """The quick preset with few steps, without runs at half the budget."""
    preset = recordings.presets.PRESETS["quick"]
    model = msgspec.structs.replace(preset.model, dim=16, hidden=32)
    training = TrainingConfig(epochs=steps, batch=64, lr=1e-2, optimizer="adam", evaluate_every=max(1, steps // 2))
    plan = OwnDataPlan(seeds=seeds, half=False)
    small = dataclasses.replace(preset, own=plan, training=training, model=model, test_frames=40)
    monkeypatch.setitem(recordings.presets.PRESETS, "quick", small)
    monkeypatch.setattr(table_scores, "DRAWS", 5)


def executed(tmp_path, file, **request) -> StudyResult:
    asked = studies.Request(preset="quick", source=file, **request)
    done = execute_request(recordings.STUDY, asked, tmp_path / "runs", confirm=lambda estimate: True, jobs=1)
    assert done is not None
    assert done.exit_code == 0
    return done


def trained(tmp_path, file, **request) -> PageData:
    """The data of a page, without drawing it."""
    asked, store = studies.Request(preset="quick", source=file, **request), Store(tmp_path / "runs")
    specs = recordings.STUDY.plan(asked, store)
    assert runner.run(specs, store, runner.InProcess(), emit=lambda event: None).exit_code == 0
    return recordings.STUDY.page_data(asked, store, specs)


def modules_file(result: StudyResult) -> list[dict[str, str]]:
    with result.path.with_name(f"{result.path.stem}-modules.csv").open() as lines:
        return list(csv.DictReader(lines))


@pytest.mark.full
def test_hidden_groups_are_found_by_the_learned_tables_and_handed_over(tmp_path, monkeypatch, capsys):
    tiny(monkeypatch, steps=400, seeds=(0, 1, 2))
    result = executed(tmp_path, own_file(tmp_path))
    sentence = result.verdict[0]
    assert re.match(r"24 channels fall into 4 groups; [23] of 3 seeds agree.*; leaving out any recording ", sentence)
    assert {row["source"] for row in result.modules} == {"learned-0.1"}
    assert adjusted_rand([row["group"] for row in result.modules], [row["module"] for row in result.modules]) == 1
    printed = capsys.readouterr().out.splitlines()
    at = printed.index(sentence)
    assert printed[at + 1].startswith("Group 1 (6 channels): station ")
    assert [line.partition("-own-")[2][6:] for line in printed[-3:]] == ["-modules.csv", "-positions.csv", ".html"]
    assert printed.count(sentence) == 1
    (same,) = [line for line in printed if line.startswith("These are groups of the learned tables of learned-0.1.")]
    assert "The plain correlation matrix, without training, gives the same groups" in same
    assert "Adjusted Rand index against the given modules: 1.00; of the groups of the correlation matrix: 1.00" in same


@pytest.mark.full
def test_the_page_the_csv_file_and_python_have_the_same_groups(tmp_path, monkeypatch):
    tiny(monkeypatch, steps=1)
    result = executed(tmp_path, own_file(tmp_path, modules=False, gap=True))
    assert {spec.variant for spec in result.specs} == {"learned-0.1", "nope", "mean", "ridge", "nearest"}
    first = (
        "24 channels fall into 4 groups by plain correlation; the training parts of 2 of 2 seeds agree; leaving out "
    )
    assert result.verdict[0].startswith(first)
    html = result.path.read_text()
    assert html.index(first) < html.index("Group 1 (6 channels): station") < html.index("Best in predicting")
    assert html.rindex("Group of each channel") < html.rindex("Differences between variants")
    for text in ("Map of the channels by group", "Agreement by number of groups", "Left out: 5 of 1,200 times",
                 "The learned tables of learned-0.1 have no groups that repeat", "--panels encodings",
                 "nothing is trained"):  # fmt: skip
        assert text in html
    lines = modules_file(result)
    assert [line["channel"] for line in lines] == [f"station {n + 1}" for n in range(CHANNELS)]
    assert list(lines[0]) == [
        "channel", "group", "source", "seeds_agree", "left_out_agree", "nearest_other_group", "group_seed_0",
        "group_seed_1", "learned_group", "correlation_group",
    ]  # fmt: skip
    for line, row in zip(lines, result.modules, strict=True):
        assert line == {name: "" if value is None else str(value) for name, value in row.items()}
        assert (line["source"], line["group"], line["learned_group"]) == ("correlation", line["correlation_group"], "")
        assert line["nearest_other_group"] != line["group"]
        assert 0 <= float(line["left_out_agree"]) <= 1
    again = report_request(recordings.STUDY, studies.Request(preset="quick"), Store(tmp_path / "runs"))
    assert (again.modules, again.verdict[0]) == (result.modules, result.verdict[0])


@pytest.mark.full
def test_unrelated_channels_get_no_groups(tmp_path, monkeypatch):
    tiny(monkeypatch, steps=1)
    data = trained(tmp_path, own_file(tmp_path, related=False, modules=False))
    answer = recordings.STUDY.answer(data)
    assert answer[0].startswith("No groups: the 24 channels do not fall into groups that repeat. Best division")
    assert not any("Group 1" in line for line in answer)
    rows = recordings.STUDY.modules(data)
    assert {row["group"] for row in rows} == {None}
    assert "group_seed_0" not in rows[0]
    titles = [panel.title for panel in group_plots.groups(data)]
    assert titles == ["Groups of channels", "Agreement by number of groups"], "no map with colors of groups"


@pytest.mark.full
def test_named_encodings_come_with_the_baselines_and_their_groups(tmp_path, monkeypatch):
    tiny(monkeypatch, steps=1)
    data = trained(tmp_path, own_file(tmp_path), schemes=("learned-0.2", "rope"), panels=("encodings",))
    assert {spec.variant for spec in data.specs} == {"learned-0.2", "rope", "mean", "ridge", "nearest"}
    assert "The learned tables of learned-0.2 have no groups that repeat" in " ".join(recordings.STUDY.answer(data))
    (panel,) = group_plots.groups_by_encoding(data)
    rows = {row[0]: row[2] for row in panel.blocks[0].rows}
    assert rows == dict.fromkeys(("rope", "mean", "ridge", "nearest"), "–") | {"learned-0.2": "none that repeat"}


@pytest.mark.full
def test_a_store_without_the_recordings_has_the_groups_of_the_tables_alone(tmp_path, monkeypatch):
    tiny(monkeypatch, steps=1)
    file = own_file(tmp_path)
    for values in (trained(tmp_path, file).store.root / "data").glob("recordings-*/train.npy"):
        values.unlink()
    data = trained(tmp_path, file)
    found = channel_groups(data)
    assert found is not None
    assert found.learned is not None
    assert (found.correlation, found.learned.p, found.learned.left_out) == (None, None, {})
    assert recordings.STUDY.answer(data)[0].startswith("No groups: ")


def test_equal_recordings_of_two_subjects_are_counted(tmp_path, monkeypatch):
    tiny(monkeypatch, steps=1)
    with np.load(own_file(tmp_path), allow_pickle=False) as stored:
        arrays = dict(stored)
    arrays["recordings"][4] = arrays["recordings"][1]
    np.savez(tmp_path / "copied.npz", **arrays)
    store = Store(tmp_path / "runs")
    for name, notes in (("own.npz", 0), ("copied.npz", 1)):
        request = studies.Request(preset="quick", source=tmp_path / name, seeds=(0,), schemes=("nope",))
        record = store.record_of(recordings.STUDY.plan(request, store)[0])
        assert [" equal to another" in each for each in record.left_out] == [False, *[True] * notes]
    assert " recordings 2 are equal to another: where one of them is drawn" in record.left_out[1]


def test_other_treatments_of_missing_values_are_other_data(tmp_path, monkeypatch):
    tiny(monkeypatch, steps=1)
    file, store = own_file(tmp_path, gap=True), Store(tmp_path / "runs")

    def planned(**treatment):
        request = studies.Request(preset="quick", source=file, seeds=(0,), schemes=("nope",), reading=treatment)
        (spec,) = [spec for spec in recordings.STUDY.plan(request, store) if spec.variant == "nope"]
        record = store.record_of(spec)
        return spec, record.label, record.left_out, page_records.reading_flags(record)

    left_out, filled, dropped = planned(), planned(fill="linear"), planned(drop=True)
    assert len({spec.identity for spec, *_ in (left_out, filled, dropped)}) == 3
    assert len({label for _, label, *_ in (left_out, filled, dropped)}) == 3
    assert [flags for *_, flags in (left_out, filled, dropped)] == [[], ["--fill", "linear"], ["--drop"]]
    subjects = "Each recording counts as a subject. If one has several, state them in the array subjects."
    assert filled[2] == (f"{subjects} Filled linearly in time: 5 of 28,800 values, which were missing.",)
    assert dropped[2] == (f"Left out (constant or not finite): station 4. {subjects}",)
    assert left_out[0].settings["data"]["tokens"] == 24
    whole = own_file(tmp_path)
    plain = planned()
    assert (planned(fill="linear")[0].identity, planned(drop=True)[1]) == (plain[0].identity, plain[1]), whole


@pytest.mark.parametrize(
    ("study", "treatment", "told"),
    [
        ("latin-squares", {"fill": "linear"}, "--fill linear is for recordings, and latin-squares reads none"),
        ("masked", {"drop": True}, "--drop is for your own data; name them: posenc run masked PATH --drop"),
        ("masked", {"fill": "cubic", "file": True}, "missing values are filled linearly or not at all; got 'cubic'"),
        ("masked", {"blocks": 1, "file": True}, "cut into two blocks or more; got --blocks 1. Use --blocks 10"),
        ("masked", {"blocks": 4}, "--blocks 4 is for your own data; name them: posenc run masked PATH --blocks 4"),
        ("nmar", {"blocks": 4}, "--blocks 4 is for recordings, and nmar reads none"),
        ("masked", {"fil": "linear"}, "there is no reading option 'fil'. Did you mean fill"),
    ],
)
def test_a_treatment_of_missing_values_without_use_is_refused(tmp_path, study, treatment, told):
    source = own_file(tmp_path) if treatment.pop("file", False) else None
    with pytest.raises(ValueError, match=told):
        studies.find(study).plan(studies.Request(preset="quick", reading=treatment, source=source), Store(tmp_path))


@pytest.mark.full
def test_one_long_recording_is_cut_into_blocks(tmp_path, monkeypatch, capsys):
    """No command of its own is needed, the cut is stated, and the number of blocks is a choice."""
    tiny(monkeypatch, steps=1, seeds=(0,))
    file = own_file(tmp_path)
    with np.load(file) as arrays:
        np.savez(file, recordings=arrays["recordings"][:1].repeat(3, axis=2))
    done = executed(tmp_path, file)
    sentence = (
        "The only recording is cut into 10 blocks of 54 times with gaps of 6, and whole blocks are held out: the "
        "results are about this recording alone. --blocks chooses another number."
    )
    page = done.path.read_text()
    assert sentence in capsys.readouterr().out
    assert sentence in page
    assert "--blocks 10" in page
    assert done.specs[0].settings["items"] == {"train": 5, "validation": 2, "test": 3, "unit": "blocks"}
    store, asked = done.store, {"preset": "quick", "source": file, "schemes": ("nope",)}
    same, other = (studies.Request(**asked, reading={"blocks": number}) for number in (10, 6))
    identities = {spec.identity for spec in done.specs}
    assert {spec.identity for spec in recordings.STUDY.plan(same, store)} <= identities
    assert not {spec.identity for spec in recordings.STUDY.plan(other, store)} & identities


def test_the_only_recording_is_planned_in_blocks(tmp_path):
    file = own_file(tmp_path)
    with np.load(file) as arrays:
        np.savez(file, recordings=arrays["recordings"][:1].repeat(3, axis=2))
    specs = recordings.STUDY.plan(studies.Request(preset="quick", source=file), Store(tmp_path / "runs"))
    assert specs[0].settings["items"] == {"train": 5, "validation": 2, "test": 3, "unit": "blocks"}


def test_blocks_of_recordings_of_several_subjects_are_refused(tmp_path):
    request = studies.Request(preset="quick", source=own_file(tmp_path), reading={"blocks": 4})
    with pytest.raises(ValueError, match="blocks are for recordings of one subject; these are of 6"):
        recordings.STUDY.plan(request, Store(tmp_path / "runs"))


@pytest.mark.parametrize(
    ("tested", "words"),
    [
        (4, "; leaving out any recording keeps 3 of 3."),
        (3, "; leaving out each of 3 of 4 recordings keeps 3 of 3."),
    ],
)
def test_a_recording_that_every_seed_was_trained_on_is_not_said_to_be_left_out(tested, words):
    groups = torch.tensor([0, 0, 1])
    left_out = {f"recording {number}": groups for number in range(tested)}
    learned = Grouping(
        name="learned-0.1", agreement={2: 1.0}, number=2, p=0.01, groups=groups, by_seed={0: groups, 1: groups},
        left_out=left_out, distances=torch.zeros(3, 3),
    )  # fmt: skip
    found = ChannelGroups(("a", "b", "c"), None, "recordings", 4, learned, None)
    assert group_report._first_sentence(found, learned).endswith(words)
