"""A scheme of one's own in every command that takes the name of a scheme."""

from __future__ import annotations

import html
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from own_scheme_files import write_bias, write_package
from posenc import cli
from posenc.workbench.storage.own_scheme_records import records_of
from posenc.workbench.storage.store import Store
from posenc.workbench.studies.latin_squares import presets
from workbench.studies.small_latin_squares import new_preset

pytestmark = pytest.mark.bare


def run(*words: str) -> int:
    with pytest.raises(SystemExit) as stop:
        cli.main(list(words))
    return int(stop.value.code or 0)


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(cli.index, "load", _index)  # built once: this checkout's index may be older than the source
    for name in ("mypkg", "mypkg.bias"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return tmp_path


_kept: list = []


def _index(*_):
    from posenc.cli.index_of_source import build

    if not _kept:
        _kept.append(build())
    return _kept[0]


def test_show_prints_formula_claims_plot_and_source(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_bias(here / "my_bias.py")
    assert run("show", "my_bias.py") == 0
    printed = capsys.readouterr().out
    for words in (f"Source: {here / 'my_bias.py'}", "s_ij =", "translation exact holds", "█", "no paper of"):
        assert words in " ".join(printed.split()), words
    assert run("show", "my_bias.py:MyBias(heads=2)", "--out", "page.html") == 0
    assert "class MyBias(Scheme)" in (here / "page.html").read_text()


def test_a_scheme_without_examples_is_shown_without_its_claims(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_bias(here / "bare.py")
    lines = [line for line in path.read_text().splitlines() if not line.strip().startswith("examples =")]
    path.write_text("\n".join(lines))
    assert run("show", "bare.py:MyBias(heads=2)") == 0
    assert "declares no `examples`, so its claims are not measured" in " ".join(capsys.readouterr().out.split())
    assert run("list", "schemes", "bare.py") == 2
    assert "MyBias declares no `examples`" in capsys.readouterr().err


def test_check_list_cite_and_bench(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_bias(here / "my_bias.py")
    path.write_text(path.read_text().replace('cite = ""', 'cite = "@misc{mine, title={Mine}}"'))
    assert run("check", "my_bias.py:MyBias(heads=3)") == 0
    assert "checks passed on 1 example" in capsys.readouterr().out
    assert run("list", "schemes", "my_bias.py", "--format", "json") == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert (row["name"], row["sites"], row["file"]) == ("MyBias", ["bias"], "my_bias.py")
    assert run("cite", "my_bias.py", "Sum([RoPE, my_bias.py:MyBias])") == 0
    printed = capsys.readouterr().out
    assert printed.count("@misc{mine") == 1
    assert "su2021roformer" in printed
    assert run("bench", "my_bias.py:MyBias", "--tokens", "8", "--heads", "2", "--head-dim", "4") == 0
    assert "MyBias_" in capsys.readouterr().out


def test_an_installed_package_is_listed_by_name_and_used(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.syspath_prepend(write_package(here / "site", {"MyBias": "mypkg.bias:MyBias"}))
    assert run("list", "schemes") == 0
    assert "schemes of installed packages" in (printed := capsys.readouterr().out)
    assert "mypkg.bias:MyBias" in printed
    assert "mypkg.bias" not in sys.modules
    assert run("check", "MyBias") == 0
    assert run("cite", "mypkg.bias:MyBias") == 0
    assert run("cite", "MyBais") == 2
    assert "Did you mean MyBias?" in capsys.readouterr().err


def test_variants_of_a_study_are_listed_with_its_views(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("list", "variants", "latin-squares") == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert '--schemes "GridPE@grid" @grid 2 axes: row and column of a cell @index 1 axis:' in printed


@pytest.mark.parametrize(
    ("label", "sentence"),
    [
        ("GridPE@gird", "there is no view 'gird'. Did you mean grid? The views of this study are grid (2 axes"),
        ("RoPE@grid", "RoPE() reads positions of 1 axis, and the view grid has 2. The views of this study are"),
        ("absent.py", "there is no file absent.py"),
        ("MyBias", "there is no variant 'MyBias'"),
    ],
)
def test_run_refuses_in_one_sentence(label: str, sentence: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("run", "latin-squares", "--schemes", label, "--out", "runs") == 2
    assert sentence in capsys.readouterr().err


@pytest.mark.full
def test_run_names_source_digest_contract_and_view_on_the_page(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(presets.PRESETS, "quick", new_preset())
    write_bias(here / "my_bias.py")
    path = write_bias(here / "wrong.py", "Wrong")
    path.write_text(path.read_text().replace('translation="exact"', 'translation="none"'))
    texts = ("my_bias.py:MyBias(heads=1)", "Sum([NoPE, my_bias.py:MyBias])@index", "wrong.py")
    words = ("run", "latin-squares", "--panels", "accuracy", "--seeds", "0", "--jobs", "1", "--out", "runs")
    assert run(*words, "--schemes", *texts) == 0
    printed = capsys.readouterr().out
    assert "is the scheme of my_bias.py:MyBias; contract: all" in printed
    assert "wrong.py:Wrong; contract: failed: claims.translation_is_as_claimed" in printed
    store = Store("runs")
    labels = [row["scheme"] for row in store.results()]
    good, wrong = sorted(records_of(store, labels), key=lambda record: record.source)
    assert (good.source, good.failed, len(good.digest)) == ("my_bias.py:MyBias", (), 64)
    (page,) = (here / "runs" / "pages").glob("*.html")
    html = page.read_text()
    for shown in (good.source, good.digest, wrong.digest, "index (1 axis", "fails its contract (claims.translation"):
        assert shown in html, shown
    path.unlink()
    assert run("report", "latin-squares", "--out", "runs") == 0  # no code is needed for the page


def test_a_scheme_that_no_study_can_prepare_is_a_sentence_with_its_file(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "other.py").write_text(
        "import posenc\n\nclass Other(posenc.ALiBi):\n    def prepare(self, q, k):\n        return self.slopes\n"
    )
    for study in (["language", "--panels", "recall"], ["latin-squares"]):
        assert run("run", *study, "--schemes", "other.py", "--dry-run") == 2
        said = capsys.readouterr().err
        assert said.startswith("posenc: the scheme of other.py:Other fails at the positions of this study: TypeError")
        assert "`posenc check other.py` says what to mend." in said


@pytest.mark.full
def test_the_model_of_an_own_scheme_is_loaded_and_exported_with_its_file(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_bias(here / "my_bias.py")
    (here / "book.txt").write_text("to be or not to be, that is the question. " * 60)
    small = ("epochs=2", "window=8", "max_multiple=2", "dim=16", "targets=16", "depth=1", "hidden=16")
    words = [word for each in small for word in ("--set", each)]
    assert run("run", "language", "book.txt", "--schemes", "my_bias.py", "--seeds", "0", "--jobs", "1", *words) == 0
    page = html.unescape(Path(capsys.readouterr().out.splitlines()[-1]).read_text())
    line = re.search(r"model = posenc\.load\('runs', run='(\w+)', schemes=\['my_bias\.py:MyBias'\]\)", page)
    assert line is not None
    assert f"posenc export {line[1]} --to FILE --schemes my_bias.py:MyBias, with FILE ending in" in page
    load = "import posenc; model = posenc.load('runs', run={!r}{}); print(model.run_spec.seed)"
    fresh = [sys.executable, "-c", load.format(line[1], ", schemes=['my_bias.py:MyBias']")]
    assert subprocess.run(fresh, capture_output=True, text=True, check=True).stdout == "0\n"
    without = subprocess.run([*fresh[:2], load.format(line[1], "")], capture_output=True, text=True, check=False)
    assert "Pass the scheme with the code of the run: schemes=[..] in Python" in without.stderr
    assert run("export", line[1], "--to", "a.safetensors", "--schemes", "my_bias.py") == 0
    assert Path("a.safetensors").stat().st_size > 1000
