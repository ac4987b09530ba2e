"""The command line, called in this process: what it prints, what it refuses, and with which exit status."""

import csv
import io
import json
import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from posenc import cli
from posenc.schemes import catalogue
from posenc.workbench import runner
from posenc.workbench.studies.latin_squares import presets
from workbench.studies.small_latin_squares import new_preset

pytestmark = pytest.mark.bare

COMMANDS = ("run", "advise", "report", "results", "export", "list", "show", "explore", "check", "new", "cite", "bench",
            "data", "data look", "store pack", "store merge", "store verify", "store compact", "store gc", "doctor",
            "completion")  # fmt: skip

GOOD = '''
"""My scheme: nothing at all."""
from posenc import Claims, Scheme

class Mine(Scheme):
    """``s_ij = q_i . k_j``."""

    examples = ({},)

    def __init__(self) -> None:
        super().__init__()
        self.claims = Claims(translation="exact", isometric=True, learned=False, range=None, axes=None,
                             sites=frozenset(), sharing="model", cacheable=True)

    def prepare(self, pos):
        self._take(pos)
'''


def call(*words: object) -> int:
    with pytest.raises(SystemExit) as leaving:
        cli.main([str(word) for word in words])
    return int(leaving.value.code or 0)


@pytest.fixture
def said(capsys, monkeypatch):
    """Run one command and return its exit status and output: ``status, out, err = said("list")``."""

    monkeypatch.delenv("POSENC_DATA", raising=False)  # these tests bring their own data or none

    def run(*words: object) -> tuple[int, str, str]:
        status = call(*words)
        out, err = capsys.readouterr()
        return status, out, err

    return run


# help --------------------------------------------------------------------------------------------------------------


def test_the_commands_are_these_and_every_ones_help_has_an_example(said):
    status, out, _ = said("--help")
    assert status == 0
    listed = out.partition("commands\n")[2].partition("\n\n")[0]
    assert tuple(re.findall(r"^  (\w+(?: \w+)?)  ", listed, re.MULTILINE)) == COMMANDS
    for command in COMMANDS:
        status, out, _ = said(*command.split(), "--help")
        assert status == 0
        assert re.search(rf"^  posenc {command}\b", out, re.MULTILINE), command
        assert out.startswith(f"usage: posenc {command}")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ((), "no command is given."),
        (("frobnicate",), "there is no command 'frobnicate'."),
        (("reprt",), "there is no command 'reprt'. Did you mean report or export?"),
        (("--versio",), "posenc has no flag --versio. Did you mean --version?"),
        (("store",), "there is no command posenc store ''. The commands are pack, merge, verify, compact, gc."),
        (("store", "pck"), "there is no command posenc store 'pck'. Did you mean pack? The commands are pack, merge"),
        (("check",), "WHAT is missing."),
        (("check", "rope", "xpos"), "posenc check takes WHAT; 'xpos' is too much."),
        (("run", "nmar", "--set", "a=1", "b=2", "c=3"), "posenc run takes STUDY FILE; 'c=3' is too much."
                                                        " Each --set takes one value: write --set c=3."),
        (("check", "rope", "--all=yes"), "--all takes no value; got 'yes'."),
        (("list", "--format", "xml"), "--format is one of table, json; got 'xml'."),
        (("list", "schemas"), "SUBJECT is one of schemes, studies, panels, variants, figures, data; got 'schemas'."
                              " Did you mean schemes?"),
        (("run", "x", "--seeds", "a"), "--seeds takes a whole number; got 'a'."),
        (("run", "x", "--seeds"), "--seeds needs a value: --seeds N .."),
        (("run", "x", "--presett", "quick"), "posenc run has no flag --presett. Did you mean --preset?"),
        (("run", "x", "--preset", "quick", "--preset", "paper"), "--preset is given twice."),
    ],
)  # fmt: skip
def test_wrong_words_are_refused_in_one_sentence(said, words, sentence):
    status, out, err = said(*words)
    assert status == 2
    assert err.startswith(f"posenc: {sentence}")
    assert err.count("\n") == 1
    assert "--help" in err or "twice" in err
    assert out == ""


# list --------------------------------------------------------------------------------------------------------------


def test_list_as_json_is_the_catalogue_with_its_claims(said):
    status, out, _ = said("list", "--format", "json")
    rows = {row["name"]: row for row in json.loads(out)}
    assert status == 0
    assert list(rows) == list(catalogue())
    assert rows["Sinusoid"]["axes"] == [1, 2, 3]
    assert rows["NoPE"]["axes"] == ["any"]
    assert rows["Learned"]["range"] == [0, 23]
    by_option = {name: (row["axes_from"], row["range_by"], row["made_of"]) for name, row in rows.items()}
    assert by_option["RWSE"] == by_option["Sinusoid"] == (1, "", "")
    assert by_option["GraphDistance"] == (None, "nodes", "")  # its examples have graphs of 24 nodes
    assert [by_option[name][1] for name in ("Learned", "SwinBias", "XPos")] == ["max_len", "window", "extent"]
    assert by_option["Sum"] == (None, "parts", "parts")
    assert by_option["SectionedRoPE"] == by_option["RoPE"] == (None, "", "")
    assert rows["RoPE"]["sites"] == ["k", "q"]
    assert all(row["summary"][:1].isalnum() and row["summary"].endswith(".") for row in rows.values())


def test_list_as_a_table_and_its_filters(said):
    def named(*words: str) -> list[str]:
        status, out, _ = said("list", *words)
        assert status == 0
        assert max(map(len, out.splitlines())) <= 80
        return re.findall(r"^(\w+) ", out, re.MULTILINE)[1:]  # the other lines are indented

    assert named() == named("schemes") == list(catalogue())
    assert {"RWSE", "Sum", "NoPE"} <= set(named("--axes", "16"))
    assert not {"RoPE", "SectionedRoPE", "SwinBias"} & set(named("--axes", "16"))
    (_, table, _) = said("list", "--axes", "16")
    assert re.search(r"^RWSE +embed +from 1 +none +yes +any ", table, re.MULTILINE)
    assert not re.search(r"0 to 23", said("list")[1])
    unbounded, flat, bias = named("--unbounded"), named("--axes", "2"), named("--site", "bias")
    assert "RoPE" in unbounded
    assert "Learned" not in unbounded
    assert "Sinusoid" in flat
    assert "NoPE" in flat
    assert "RoPE" not in flat
    assert "ALiBi" in bias
    assert "RoPE" not in bias
    assert set(named("--site", "qk")) == set(named("--site", "q")) & set(named("--site", "k"))
    every = set(unbounded) & set(flat) & set(bias)
    assert set(named("schemes", "--unbounded", "--axes", "2", "--site", "bias")) == every


# check -------------------------------------------------------------------------------------------------------------


def test_check_by_name(said):
    status, out, _ = said("check", "nope")
    assert status == 0
    assert re.fullmatch(r"NoPE: (\d+) of \1 checks passed on 1 example\n", out)


@pytest.mark.full
@pytest.mark.compile
def test_check_compiling(said):
    quick, slow = (said("check", "NoPE", *more)[1].split()[1] for more in ((), ("--compiling",)))
    assert int(slow) > int(quick)


def test_check_of_a_file_that_is_right_and_of_one_that_is_not(said, tmp_path):
    # named like a module of the standard library, whose place it must not take
    (tmp_path / "json.py").write_text(GOOD)
    assert said("check", tmp_path / "json.py")[0] == 0
    assert sys.modules["json"] is json
    (tmp_path / "bad.py").write_text(GOOD.replace('translation="exact"', 'translation="none"'))
    status, out, _ = said("check", tmp_path / "bad.py")
    assert status == 1
    assert "Mine: " in out
    assert "claims.translation_is_as_claimed: Mine(): claims translation='none'" in out


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("x = 1", r"bad\.py defines no scheme\. Subclass posenc\.Scheme and write its abstract `prepare`\."),
        ("import nowhere_to_be_found", r"bad\.py cannot be imported: ModuleNotFoundError in line 1: No module named"),
        ("def f(:", r"bad\.py cannot be imported: SyntaxError"),
        (GOOD.replace("examples = ({},)", ""), r"Mine declares no `examples`\. Write a tuple of constructor arguments"),
        (None, r"there is no file .*bad\.py\. Give a Python file with a class that subclasses posenc\.Scheme\."),
    ],
)
def test_check_of_what_is_no_scheme_file(said, tmp_path, text, sentence):
    if text is not None:
        (tmp_path / "bad.py").write_text(text)
    status, _, err = said("check", tmp_path / "bad.py")
    assert status == 2
    assert re.search(sentence, err)


# wrong input --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("check rop", r"there is no encoding 'rop'\. Did you mean RoPE"),
        ("run latin-squars", r"no study 'latin-squars'\. Did you mean latin-squares\? The studies are .*latin-squares"),
        (
            "run latin-squares --preset quik",
            r"no preset 'quik'\. Did you mean quick\? The presets of latin-squares are quick",
        ),
        ("report latin-squars", r"Did you mean latin-squares\?"),
        ("run latin-squares --schemes 2d-fixd", r"no variant '2d-fixd'\. Did you mean 2d-fixed or 1d-fixed"),
        ("run latin-squares --schemes learned--0.2", r"sigma is the standard deviation .* >= 0; got -0\.2"),
        ("run latin-squares --schemes learned-big", r"as learned-0\.2; 'big' is not a number"),
        ("run latin-squares --schemes RoPE(head_dim=5)", r"`head_dim` must be even; got 5\. Use 6"),
        ("run latin-squares --schemes Learned(dim=5)", r"rows of width 5 .* width 32\. Build it with dim=32"),
        ("run latin-squares --schemes nope rope nope", r"scheme nope is given twice; .* Name it once"),
        (
            "run latin-squares --seeds 3 1 3",
            r"seed 3 is given twice; a second run of it would be the same\. Name it once",
        ),
        ("run latin-squares --device gpu9", r"there is no device 'gpu9'\. Use cpu, cuda or cuda:N\."),
        ("run latin-squares --data nowhere", r"--data nowhere is not a folder\. Give the one that holds lst/"),
        ("results --out nowhere", r"There are no results in nowhere\. Make some first: posenc run --help"),
        ("report latin-squares --out nowhere", r"There are no results in nowhere\."),
        ("data latin-squares", r"pass either --to FILE, which makes puzzles, or --read FILE\.csv, which checks"),
        ("data latin-squares --read a.csv --to b.npz", r"pass either --to FILE"),
        ("data latin-squares --read nowhere.csv", r"there is no file nowhere\.csv"),
        ("data latin-squares --to x.npz --train -5", r"--train is a number of puzzles, 1 or more; got -5\."),
        ("data latin-squares --to x.npz --train 0", r"--train is a number of puzzles, 1 or more; got 0\."),
        ("data latin-squares --to x.npz --iid -1", r"--iid is a number of puzzles, 0 or more; got -1\."),
    ],
)
def test_bad_input(said, tmp_path, monkeypatch, words, sentence):
    monkeypatch.chdir(tmp_path)
    status, _, err = said(*words.split(" "))
    assert status == 2
    assert err.startswith("posenc: ")
    assert err.count("\n") == 1
    assert re.search(sentence, err)
    assert not (tmp_path / "runs" / "units").exists()


def test_a_store_of_a_newer_format_is_refused_by_every_command_that_reads_it(said, tmp_path):
    (tmp_path / "format.json").write_text('{"format": 99}')
    for words in (("results",), ("report", "latin-squares"), ("run", "latin-squares", "--schemes", "nope")):
        status, _, err = said(*words, "--out", tmp_path)
        assert status == 2
        assert re.search(r"has format 99, and posenc \S+ reads up to 1\. Update posenc", err)
    assert [path.name for path in tmp_path.iterdir()] == ["format.json"]


def test_a_folder_that_cannot_be_written_is_a_sentence(said, tmp_path):
    (tmp_path / "file").write_text("")
    for words in (
        ("data", "latin-squares", "--to", tmp_path / "file" / "x.npz", "--train", 5, "--iid", 5, "--ood", 5),
    ):
        status, _, err = said(*words)
        assert status == 2
        assert err.startswith("posenc: ")
        assert str(tmp_path / "file") in err


@pytest.mark.full
def test_a_long_preset_is_not_started_without_a_terminal_and_yes(said, tmp_path):
    status, out, err = said("run", "latin-squares", "--preset", "standard", "--schemes", "nope", "--seeds", 0,
                            "--out", tmp_path)  # fmt: skip
    assert status == 2
    assert "The authors' puzzles were not available (--data DIR with a folder lst)" in out
    assert re.search(r"posenc: This preset takes 1 run.*no terminal to ask at\. Add --yes to start it\.", err)
    assert not (tmp_path / "units").exists()


def test_stopping_is_a_sentence_and_its_own_status(said, monkeypatch):
    def stopped(found: Exception):
        def catalogue_of_nothing() -> None:
            raise found

        return catalogue_of_nothing

    monkeypatch.setattr(cli.lists.index_file, "load", stopped(KeyboardInterrupt()))
    assert said("list") == (130, "", "posenc: stopped.\n")
    monkeypatch.setattr(cli.lists.index_file, "load", stopped(runner.Interrupted("Stopped: 1 of 2 units are done.")))
    assert said("list") == (130, "", "")  # the runner has said it already


# data --------------------------------------------------------------------------------------------------------------

HEADER = "ID,LST_num,condition,puzzles,solutions\n"


def test_reading_puzzles_that_are_right(said, tmp_path):
    path = tmp_path / "p.csv"
    path.write_text(HEADER + "0,,Binary,2000500234001000,4\n1,,Ternary,0300340102454032,3\n")
    status, out, _ = said("data", "latin-squares", "--read", path)
    assert status == 0
    assert re.match(rf"{re.escape(str(path))}: 2 puzzles, each with one answer: .*'1-vector': 1, '2-vector': 1", out)


@pytest.mark.parametrize(
    ("row", "sentence"),
    [
        ("0,,Binary,200050023400100,4", r"p\.csv, line 2: puzzle '200050023400100' has 15 characters"),
        ("0,,Binary,2000500734001000,4", r"line 2: .*'?7"),
        ("0,,Binary,2000500534001000,4", r"line 2: .*2 probes|line 2: .*probe"),
        ("0,,Binary,0000500000000000,4", r"line 2: "),
        ("0,,Binary,2000500234001000,3", r"line 2: the file states solution 3, but puzzle .* implies 4"),
        (
            "0,,Quaternary,2000500234001000,4",
            r"line 2: the file states Quaternary, but puzzle .* is Binary by the rule",
        ),
    ],
)
def test_reading_puzzles_that_are_not(said, tmp_path, row, sentence):
    (tmp_path / "p.csv").write_text(HEADER + row + "\n")
    status, _, err = said("data", "latin-squares", "--read", tmp_path / "p.csv")
    assert status == 2
    assert err.startswith("posenc: p.csv, line 2: ")
    assert re.search(sentence, err)


def test_making_puzzles(said, tmp_path):
    status, out, _ = said("data", "latin-squares", "--to", tmp_path / "p.npz", "--train", 30, "--iid", 6, "--ood", 6)
    assert status == 0
    assert out.splitlines()[-1] == str(tmp_path / "p.npz")
    assert (tmp_path / "p.npz").is_file()
    manifest = json.loads(out[: out.rindex("}") + 1])
    assert manifest["arguments"]["seed"] == 0
    assert [manifest["counts"][split]["puzzles"] for split in ("train", "iid", "ood")] == [30, 6, 6]


# one real run, and everything that reads its store -----------------------------------------------------------------


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> Iterator[tuple[Path, str]]:
    """A store with one model that was trained for two epochs, and what making it printed."""
    out, printed = tmp_path_factory.mktemp("runs"), tmp_path_factory.mktemp("printed") / "stdout"
    with pytest.MonkeyPatch.context() as patch, printed.open("w") as stream:
        patch.delenv("POSENC_DATA", raising=False)
        patch.setitem(presets.PRESETS, "quick", new_preset())
        patch.setattr(runner, "pick", lambda *arguments, **options: runner.InProcess())
        with pytest.MonkeyPatch.context() as output:
            output.setattr(sys, "stdout", stream)
            status = call("run", "latin-squares", "--schemes", "nope", "--seeds", 0, "--out", out)
        stream.flush()
        assert status == 0, printed.read_text()
        yield out, printed.read_text()


@pytest.mark.bare
def test_a_run_prints_the_page_last_and_does_nothing_twice(said, trained):
    out, printed = trained
    page = out / "pages" / "latin-squares-quick.html"
    assert printed.splitlines()[-1] == str(page)
    assert "nope seed 0: " in printed
    assert page.read_text().startswith("<!DOCTYPE html>")
    before = {path: path.stat().st_mtime_ns for path in (out / "units").rglob("*")}
    status, again, _ = said("run", "latin-squares", "--schemes", "nope", "--seeds", 0, "--out", out)
    assert status == 0
    assert again.splitlines()[-1] == str(page)
    assert {path: path.stat().st_mtime_ns for path in (out / "units").rglob("*")} == before


@pytest.mark.bare
def test_report_writes_the_page_again(said, trained):
    out, _ = trained
    page = out / "pages" / "latin-squares-quick.html"
    page.unlink()
    assert said("report", "latin-squares", "--out", out)[:2] == (0, f"{page}\n")
    assert page.is_file()
    status, _, err = said("report", "latin-squares", "--preset", "paper", "--out", out)
    assert status == 2
    assert "holds no results of latin-squares --preset paper. It holds results of --preset quick. " in err
    words = shlex.split(err.partition("Make them: ")[2].strip())
    assert words[:6] == ["posenc", "run", "latin-squares", "--preset", "paper", "--out"]
    assert Path(words[6].rstrip(".")).resolve() == out.resolve()


@pytest.mark.bare
def test_results_in_every_format(said, trained, tmp_path):
    out, _ = trained
    status, text, _ = said("results", "--format", "csv", "--out", out)
    assert status == 0
    rows = list(csv.DictReader(io.StringIO(text)))
    columns = ["study", "preset", "setting", "scheme", "seed", "metric", "value", "unit", "data", "digest", "code"]
    assert list(rows[0]) == columns
    value = {row["metric"]: float(row["value"]) for row in rows}
    assert {"accuracy_ood", "accuracy_iid"} <= set(value)
    assert len(value) == len(rows)
    assert {(row["study"], row["scheme"], row["seed"]) for row in rows} == {("latin-squares", "nope", "0")}

    status, table, _ = said("results", "--out", out)
    assert status == 0
    assert f"{value['accuracy_ood']:.3f}" in next(line for line in table.splitlines() if " nope " in line).split()
    assert max(map(len, table.splitlines())) <= 80
    status, latex, _ = said("results", "--format", "latex", "--out", out)
    assert latex.startswith(r"\begin{tabular}")
    assert f"${value['accuracy_ood']:.3f}$" in latex
    assert "% Left out: accuracy_iid_1" in latex
    assert "Left out: " in table
    assert "Mean over seeds [95% t-interval]." in table
    every = said("results", "--all", "--out", out)[1]
    assert all(f" {name} " in every for name in value)
    assert "Left out" not in every
    only = said("results", "--metrics", "loss_ood", "--format", "csv", "--out", out)[1]
    assert {row["metric"] for row in csv.DictReader(io.StringIO(only))} == {"loss_ood"}
    assert "Did you mean loss_ood" in said("results", "--metrics", "loss_od", "--out", out)[2]
    curves = list(csv.DictReader(io.StringIO(said("results", "--curves", "--out", out)[1])))
    assert {(row["axis"], row["scheme"]) for row in curves} == {("epoch", "nope")}
    assert "Leave one out" in said("results", "--all", "--metrics", "loss_ood", "--out", out)[2]
    assert "as CSV. Use it alone" in said("results", "--curves", "--format", "latex", "--out", out)[2]

    assert said("results", "--format", "csv", "--out", out, "--to", tmp_path / "r.csv")[1] == f"{tmp_path / 'r.csv'}\n"
    assert (tmp_path / "r.csv").read_text() == text
    status, _, err = said("results", "--format", "parquet", "--out", out)
    assert status == 2
    assert "parquet is a binary file. Name it: posenc results --format parquet --to results.parquet" in err
    duckdb = pytest.importorskip("duckdb")
    assert said("results", "--format", "parquet", "--out", out, "--to", tmp_path / "r.parquet")[0] == 0
    count = duckdb.sql(f"select count(*), min(scheme) from '{tmp_path / 'r.parquet'}'").fetchall()
    assert count == [(len(rows), "nope")]


@pytest.mark.bare
def test_results_of_another_study_are_none(said, trained):
    out, _ = trained
    assert said("results", "--preset", "paper", "--out", out)[:2] == (
        0,
        "The store has no finished run of that study and preset.\n",
    )
