"""``posenc doctor`` and ``posenc run --dry-run``."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from posenc import cli
from posenc.cli import doctor
from posenc.cli.dry_run import print_plan
from posenc.workbench import studies

pytestmark = pytest.mark.bare


def test_doctor_prints_versions_extras_machine_data_and_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "lst").mkdir()
    monkeypatch.setenv("POSENC_DATA", str(tmp_path))
    assert doctor.doctor(out=tmp_path / "runs") == 0
    text = capsys.readouterr().out
    for line in (
        r"torch +\d+\.\d+",
        r"cores +\d+",
        r"memory +[\d.]+ GiB free",
        r"GPU +\S",
        r"analysis +present",
        r"lst +present, for latin-squares",
        r"photos +absent",
        r"does not exist; the first run makes it, wri",
    ):
        assert re.search(line, " ".join(text.split())), line
    assert max(map(len, text.splitlines())) <= 80 + len(str(tmp_path))


def test_doctor_names_the_command_for_a_missing_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    version = doctor._version
    monkeypatch.setattr(
        doctor, "_version", lambda package: "" if package in ("duckdb", "msgspec") else version(package)
    )
    assert doctor.missing_of_extras()["analysis"] == ["duckdb"]
    assert "msgspec" in doctor.required_packages()
    assert doctor.doctor(out=tmp_path) == 1
    text = capsys.readouterr().out
    assert re.search(r"analysis +missing duckdb: pip install 'posenc\[analysis\]'", text)
    assert text.endswith("Required packages are missing: pip install msgspec\n")


def test_doctor_reports_a_store_that_cannot_be_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("")
    assert doctor.doctor(out=tmp_path / "file" / "runs") == 1
    assert "not writable" in " ".join(capsys.readouterr().out.split())


def test_a_dry_run_prints_the_runs_and_starts_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    study = studies.find("nmar")
    request = studies.Request(preset="quick", schemes=("nope",), seeds=(0, 1))
    print_plan(study, request, tmp_path / "runs", 1)
    text = capsys.readouterr().out
    assert f"2 runs of nmar, 0 finished, results in {tmp_path / 'runs'}.\n" in text
    assert re.search(r"nope.*: seeds 0 1\n", text)
    assert re.search(r"To execute: 2 runs, about .*, 1 at a time\.", text)
    assert text.endswith("Nothing was started.\n")
    assert not (tmp_path / "runs").exists()


def test_dry_run_and_jobs_are_flags_of_run(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    with pytest.raises(SystemExit) as leaving:
        cli.main(["run", "nmar", "--schemes", "nope", "--seeds", "0", "--dry-run", "--out", str(tmp_path / "r")])
    assert leaving.value.code == 0
    assert "1 run of nmar, 0 finished" in capsys.readouterr().out
    with pytest.raises(SystemExit) as leaving:
        cli.main(["run", "nmar", "--jobs", "0"])
    assert leaving.value.code == 2
    assert "--jobs is a number of at least 1; got 0." in capsys.readouterr().err


@pytest.mark.full
def test_one_seed_that_may_have_been_meant_as_a_number_of_seeds_is_explained(tmp_path, capsys, monkeypatch):
    def err(*seeds: str) -> str:
        with pytest.raises(SystemExit):
            cli.main(["run", "nmar", "--schemes", "nope", "--seeds", *seeds, "--dry-run", "--out", str(tmp_path / "r")])
        return capsys.readouterr().err

    assert err("3") == "--seeds 3 is one seed, number 3. For 3 seeds write --seeds 0 1 2.\n"
    assert err("0") == err("0", "1") == err("2026") == ""
