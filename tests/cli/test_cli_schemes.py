"""Commands about encodings: show, cite, new, check and bench."""

from __future__ import annotations

import inspect
import json
import re
from pathlib import Path

import pytest

from posenc import cli, frequencies
from posenc.contract import check, claims_measured
from posenc.lookup.cited_functions import functions
from posenc.lookup.own_files import schemes_of_file
from posenc.lookup.scheme_text import parse
from posenc.measure.distance_decay import (
    example_scheme,
    heads_of,
    logit_by_distance,
    logit_on_plane,
    logits_by_head,
    make_shown,
    reachable_distance,
    shown_call,
)
from posenc.measure.run_time import consecutive_positions, cost
from posenc.schemes import catalogue
from posenc.schemes.alibi import ALiBi
from posenc.schemes.pope import PoPE
from posenc.schemes.rope import RoPE
from posenc.schemes.shaw import Shaw
from posenc.schemes.t5_bias import T5Bias
from posenc.workbench.report.page import FigureGroup
from posenc.workbench.report.scheme_page import logit_plot

pytestmark = pytest.mark.bare


def run(*words: str) -> int:
    with pytest.raises(SystemExit) as stop:
        cli.main(list(words))
    return int(stop.value.code or 0)


def test_show_prints_formula_claims_picture_and_citation(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("show", "rope") == 0
    told = capsys.readouterr().out
    assert "theta_i = base^(-2i/d)" in told
    assert re.search(r"translation +exact +holds", told)
    assert re.search(r"▁.*█", told)
    assert "@article{su2021roformer" in told


def test_show_writes_a_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "rope.html"
    assert run("show", "RoPE", "--out", str(page)) == 0
    assert f"--out {page.name}" in page.read_text(encoding="utf-8"), (
        "the command names the file, not its temporary name"
    )
    html = page.read_text()
    for words in ("theta_i = base", "Logit by distance", "class RoPE(Scheme)", "su2021roformer", "<pre"):
        assert words in html
    assert capsys.readouterr().out.strip() == str(page)


def test_show_draws_the_call_with_its_distances(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("show", "RoPE(128, base=500000)", "--distances", "4096") == 0
    told = capsys.readouterr().out
    assert "RoPE(head_dim=128, base=500000)\nLogit of two equal tokens" in told
    assert re.search(r"-4096 [▁▂▃▄▅▆▇█]{65} 4096", told)
    assert run("show", "rope", "--distances", "0") == 2
    assert "--distances is a number of at least 1; got 0" in capsys.readouterr().err


def test_defaults_are_drawn_and_every_head_with_its_slope(capsys: pytest.CaptureFixture[str]) -> None:
    assert shown_call(T5Bias) == parse("T5Bias(heads=4)")
    assert reachable_distance(example_scheme(T5Bias)) == 128
    alibi = shown_call(ALiBi)
    by_head = logits_by_head(make_shown(alibi), 24, heads=heads_of(alibi))
    assert list(by_head) == [f"head {n + 1}, slope 1/{4 ** (n + 1)}" for n in range(4)]
    for number, rows in enumerate(by_head.values()):
        assert rows[0] == {"distance": -24, "logit": pytest.approx(1 - 24 / 4 ** (number + 1))}
    assert list(logits_by_head(make_shown(shown_call(PoPE)), 4, heads=4)) == ["every head"]


def test_captions_are_calls_and_values_have_no_columns_of_seeds() -> None:
    panel = logit_plot({"ALiBi": parse("ALiBi(heads=4)")})
    assert panel.caption == "ALiBi(heads=4)"
    (group,) = panel.blocks
    assert isinstance(group, FigureGroup)
    assert group.table.columns == ("Curve", "Distance, key position − query position", "Value")
    assert len(logit_plot({"RoPE": parse("RoPE(8)")}, 4096).blocks[0].table.rows) <= 200
    flat = logit_plot({"CausalNoPE": parse("CausalNoPE()")}).blocks[0].figures[0].svg
    labels = re.findall(r">([−\d.]+)</text>", flat)
    assert len(labels) == len(set(labels)) > 6


def test_the_title_of_an_axis_with_long_labels_is_inside_the_figure() -> None:
    svg = logit_plot({"GridPE": parse("GridPE(head_dim=64)")}).blocks[0].figures[0].svg
    (place,) = re.findall(r'<text[^>]*transform="translate\(([\d.-]+) [^>]*>logit<|x="([\d.-]+)"[^>]*>logit<', svg)
    assert float(place[0] or place[1]) > 12  # the height of its letters


@pytest.mark.full
def test_show_writes_the_format_that_the_file_is_called(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for ending, first in (("png", b"\x89PNG"), ("svg", b"<?xml"), ("pdf", b"%PDF")):
        file = tmp_path / f"alibi.{ending}"
        assert run("show", "alibi", "--out", str(file)) == 0
        assert file.read_bytes().startswith(first)
        assert capsys.readouterr().out.strip() == str(file)
    assert run("show", "alibi", "--out", str(tmp_path / "alibi.txt")) == 2
    assert "--out writes a page (.html) or a figure (.png, .svg, .pdf); got" in capsys.readouterr().err


@pytest.mark.full
def test_schedules_are_shown_and_cited(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("show", "yarn") == 0
    told = capsys.readouterr().out
    assert "RoPE(head_dim=64, frequencies=yarn(count=32, factor=4.0, trained=64, alpha=0.5, beta=2.0))" in " ".join(
        told.split()
    )
    assert "@inproceedings{peng2024yarn" in told
    assert run("show", "Randomized", "--out", str(tmp_path / "page.html")) == 0
    assert "ruoss2023randomized" in (tmp_path / "page.html").read_text()
    for name in (*functions(), "Sum([RoPE(64, frequencies=ntk(32, factor=2)), ALiBi(8)])"):
        assert run("cite", name) == 0
    keys = re.findall(r"@\w+{(\w+),", capsys.readouterr().out)
    assert {"peng2024yarn", "bloc972023ntk", "chen2023extending", "ding2024longrope", "grattafiori2024llama3",
            "ruoss2023randomized", "press2022train", "su2021roformer"} <= set(keys)  # fmt: skip
    assert run("cite", "--all") == 0
    everything = re.findall(r"@\w+{(\w+),", capsys.readouterr().out)
    assert len(everything) == len(set(everything))
    assert set(keys) <= set(everything)
    assert run("cite", "yarm") == 2
    assert "Did you mean yarn" in capsys.readouterr().err


def test_every_schedule_has_an_entry() -> None:
    public = {name for name, value in vars(frequencies).items() if inspect.isfunction(value) and name[0] != "_"}
    assert public - {"periods", "from_span"} == set(frequencies.CITATIONS)  # these two have no paper
    assert frequencies.CITATIONS["geometric"] == catalogue()["Sinusoid"].cite


def test_one_call_is_checked(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("check", "Scaled(Sinusoid(12, axes=2), 0.02)") == 0
    assert capsys.readouterr().out.startswith("Scaled(Sinusoid(12, axes=2), 0.02): ")


def test_what_nobody_has_is_a_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    for command in ("show", "cite", "bench"):
        assert run(command, "ropee") == 2
        assert "there is no encoding 'ropee'. Did you mean RoPE" in capsys.readouterr().err


def test_cite_prints_each_entry_once(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("cite", "rope", "shaw", "RoPE") == 0
    told = capsys.readouterr()
    assert told.out.count("@article{su2021roformer") == 1
    assert told.out.count("@") == 2
    assert run("cite", "nope", "rope") == 0


def test_new_makes_a_file_and_leaves_what_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run("new", "my_scheme") == 0
    assert "class MyScheme(Scheme)" in (tmp_path / "my_scheme.py").read_text()
    assert "posenc check my_scheme.py" in capsys.readouterr().out
    assert run("new", "my_scheme") == 2
    assert "exists and is left unchanged" in capsys.readouterr().err
    assert run("new", "my-scheme") == 2
    assert "cannot name a Python file" in capsys.readouterr().err


PREPARE = 'raise NotImplementedError("prepare: make the rows here, zero for tokens without a position (pos.placed)")'
DEFINE = 'raise NotImplementedError("define_embed: the formula for one position, loops allowed, float64")'
ROWS = "rows = pos.precise().to(pos.table_dtype).expand(*pos.coords.shape[:-1], self.dim)\n        return rows"
FIXES = [
    ("isometric=False", "isometric=True", r"write next: prepare: make the rows here, .* \(ramp_rows\.py, line \d+\)$"),
    (PREPARE, ROWS, r"write next: define_embed: the formula for one position, .* line \d+\)$"),
    (
        DEFINE,
        "return torch.stack([self.scale * p[0]] * self.dim)",
        r"fix next: definition\.embed.*: RampRows\(dim=12, scale=0\.5\): embed differs from .*\n +\d+ more checks",
    ),
    (
        "rows = pos.precise()",
        "rows = self.scale * pos.precise()",
        r"fix next: claims\.iso.* but lengths change by up to",
    ),
    ("isometric=True", "isometric=False", r"fix next: placement\.tokens_w.* size [\d.e+]+; it must be zero\.\n"),
    (
        "return rows\n",
        "return rows if pos.placed is None else rows * pos.placed[..., None]\n",
        r"RampRows: (\d+) of \1 checks passed on 2 examples$",
    ),
]


@pytest.mark.full
def test_each_point_that_is_mended_leads_to_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    run("new", "ramp_rows")
    path = tmp_path / "ramp_rows.py"
    for there, written, told in FIXES:
        text = path.read_text()
        assert there in text
        path.write_text(text.replace(there, written, 1))
        capsys.readouterr()
        status = run("check", "ramp_rows.py")
        said = capsys.readouterr().out.strip()
        assert re.search(told, said), said
        assert said.count("next:") == status  # one point at a time, or none


def test_check_says_every_failure_where_it_is_asked_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    run("new", "my_scheme")
    capsys.readouterr()
    assert run("check", "my_scheme.py", "--all") == 1
    said = capsys.readouterr().out
    assert said.count("prepare: make the rows here") > 10
    assert "claims.translation_is_as_claimed: MyScheme(dim=12)" in said


def test_bench_prints_ratios_beside_the_floor(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("bench", "rope", "Sinusoid(dim=32)", "--tokens", "32", "--heads", "2", "--head-dim", "16") == 0
    told = capsys.readouterr().out
    assert re.search(r"rope +with backward +\d+\.\d{3} +\d+\.\d{3} +\d+\.\d{2} +\d+\.\d{3}", told)
    assert re.search(r"Sinusoid\(dim=32\) +embed", told)


@pytest.mark.full
def test_bench_builds_heads_and_grids_for_what_needs_them(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("bench", "gridpe", "peg", "T5Bias", "--tokens", "16", "--heads", "2", "--head-dim", "24") == 0
    told = capsys.readouterr().out
    assert re.search(r"gridpe +q and k", told)
    assert re.search(r"peg +mix", told)
    assert run("bench", "rope", "--device", "nowhere") == 2
    assert "there is no device 'nowhere'. Use cpu, cuda or cuda:N." in capsys.readouterr().err


def test_cost_is_measured_at_the_sites_that_a_scheme_has() -> None:
    rows = cost(
        Shaw(16, max_distance=4), consecutive_positions(Shaw(16, max_distance=4), 8), heads=2, head_dim=16, rounds=2
    )
    assert [row["what"] for row in rows] == ["prepare", "attention", "with backward"]
    assert all(row["milliseconds"] > 0 and row["floor"] > 0 for row in rows)


def test_claims_are_measured_and_a_wrong_one_is_named() -> None:
    assert [claim.trouble for claim in claims_measured(RoPE)] == [""] * 8

    class Boast(RoPE):  # a fault on purpose
        examples = ({"head_dim": 12},)

        def __init__(self, head_dim: int) -> None:
            super().__init__(head_dim)
            from dataclasses import replace

            self.claims = replace(self.claims, learned=True)

    found = {claim.name: claim for claim in claims_measured(Boast)}
    assert found["learned"].claimed == "yes"
    assert "claims learned=True" in found["learned"].trouble
    assert not found["translation"].trouble


def test_one_family_of_checks_can_be_run() -> None:
    with pytest.raises(ValueError, match=r"there is no family of checks 'definitions'. The families are .*definition"):
        check(ALiBi, family="definitions")
    names = {result.check.split(".")[0] for result in check(RoPE(12), family="definition").results}
    assert names == {"definition"}


@pytest.mark.parametrize("kind", catalogue().values(), ids=catalogue())
def test_every_scheme_can_be_looked_at(kind) -> None:
    scheme, heads = example_scheme(kind), heads_of(shown_call(kind))
    far = reachable_distance(scheme, 4)
    rows = logit_by_distance(scheme, far, heads=heads)
    step = rows[far + 1]["distance"]
    assert [row["distance"] for row in rows] == pytest.approx([(d - far) * step for d in range(2 * far + 1)])
    assert all(row["logit"] is None or abs(row["logit"]) < 1e3 for row in rows)
    if scheme.claims.axes != 1:
        plane = logit_on_plane(scheme, 1, heads=heads)
        assert [len(row) for row in plane] == [3] * 3


def test_a_plane_of_an_isotropic_scheme_is_symmetric() -> None:
    plane = logit_on_plane(catalogue()["GridPE"](48, heads=1).double(), 3)
    assert plane[3][3] == pytest.approx(1)
    for row in range(7):
        for column in range(7):
            assert plane[row][column] == pytest.approx(plane[6 - row][6 - column], abs=1e-9)


@pytest.mark.parametrize("axes", ["1", "2", "3"])
@pytest.mark.parametrize("site", ["bias", "qk", "embed"])
def test_a_skeleton_of_a_site_passes_the_contract_as_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], site: str, axes: str
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run("new", "my_scheme", "--site", site, "--axes", axes) == 0
    assert run("check", "my_scheme.py") == 0
    (scheme,) = schemes_of_file(Path("my_scheme.py"))
    sites = {"bias": {"bias"}, "qk": {"q", "k"}, "embed": {"embed"}}[site]
    assert all((case.claims.axes, case.claims.sites) == (int(axes), sites) for case in _examples(scheme))
    assert re.search(r"MyScheme: (\d+) of \1 checks passed on 2 examples", capsys.readouterr().out)


def _examples(scheme: type) -> list:
    return [scheme(**options) for options in scheme.examples]


def test_a_skeleton_has_at_most_three_axes(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("new", "my_scheme", "--site", "bias", "--axes", "4") == 2
    assert "from 1 to 3; got 4" in capsys.readouterr().err


def test_a_fast_check_is_of_one_example_and_a_report_can_be_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("check", "rope", "--fast") == 0
    assert "checks passed on 1 example" in capsys.readouterr().out
    assert run("check", "causal-nope", "--format", "json") == 0
    report = json.loads(capsys.readouterr().out)["CausalNoPE"]
    assert report["ok"] is True
    assert {row["example"] for row in report["results"]} > {"CausalNoPE()"}
    assert {row["failure"] for row in report["results"]} == {""}


def test_a_check_reports_its_progress() -> None:
    seen: list[tuple[int, int]] = []
    report = check(ALiBi, family="placement", on_result=lambda done, of: seen.append((done, of)))
    assert seen == [(number, len(report.results)) for number in range(1, len(report.results) + 1)]
