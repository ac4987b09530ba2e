"""run, report and results in Python: the result of a study, in a script and in a real Jupyter kernel."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
import warnings
from xml.etree import ElementTree

import numpy as np
import pytest
from PIL import Image

from posenc.workbench import (
    ConsentError,
    ResultTable,
    RunResult,
    RunSpec,
    Store,
    StudyResult,
    commands,
    pack,
    report,
    request_execution,
    results,
    run,
    study_result,
)  # fmt: skip
from posenc.workbench.report.page import Figure
from posenc.workbench.storage.stored import StoreError
from posenc.workbench.studies.image_fit import presets

pytestmark = pytest.mark.bare

SMALL = """
import dataclasses
from posenc.workbench.studies.image_fit import presets
presets.PRESETS["quick"] = dataclasses.replace(
    presets.PRESETS["quick"], limit=presets.Limit(steps=2), parameters=6000
)
"""
"""Python code that makes the quick preset of image-fit a matter of seconds."""


@pytest.fixture(scope="module")
def photo(tmp_path_factory):
    pixels = np.random.default_rng(0).integers(0, 255, (8, 8, 3), dtype=np.uint8)
    path = tmp_path_factory.mktemp("image") / "photo.png"
    Image.fromarray(pixels).save(path)
    return path


@pytest.fixture
def small(monkeypatch):
    quick = dataclasses.replace(presets.PRESETS["quick"], limit=presets.Limit(steps=2), parameters=6000)
    monkeypatch.setitem(presets.PRESETS, "quick", quick)


def test_the_function_is_not_hidden_by_the_package_report():
    import posenc.workbench.report.page

    assert posenc.workbench.report is report is commands.report
    assert sys.modules["posenc.workbench.report.page"].Figure is Figure


@pytest.mark.full
@pytest.mark.usefixtures("in_this_process")
def test_variants_and_seeds_added_later_join_the_page_of_the_store(tmp_path, photo, small, capsys):
    store, options = tmp_path / "runs", {"panels": "fit", "out": tmp_path / "runs"}
    first = run("image-fit", photo, schemes=["none"], seeds=[0], **options)
    other = run("image-fit", photo, schemes=["gaussian-10"], seeds=[0], changes={"limit.steps": 3}, **options)
    later = run("image-fit", photo, schemes=["positional"], seeds=[0, 1], **options)
    assert later.path == first.path
    assert [(spec.variant, spec.seed) for spec in later.specs] == [("positional", 0), ("positional", 1), ("none", 0)]
    assert "The page also shows 1 finished run of earlier commands: none." in capsys.readouterr().out
    page = later.path.read_text(encoding="utf-8")
    assert "positional" in page
    assert "none" in later.verdict[0]
    assert {spec.variant for spec in other.specs} == {"gaussian-10"}
    assert {spec.variant for spec in report("image-fit", photo, panels="fit", out=store).specs} == {
        "none",
        "positional",
    }


@pytest.mark.usefixtures("in_this_process")
def test_a_result_has_table_figures_verdict_and_page(tmp_path, photo, small, capsys):
    result = run("image-fit", str(photo), schemes=["none", "positional"], seeds=2, panels="fit", out=tmp_path / "runs")
    assert result.exit_code == 0
    assert result.path.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    assert {(row["scheme"], row["seed"]) for row in result.table} == {
        (scheme, seed) for scheme in ("none", "positional") for seed in (0, 1)
    }
    assert list(result.table.to_pandas().columns) == list(result.table.rows[0])
    assert result.verdict[0] in capsys.readouterr().out
    assert result.figures
    assert all(ElementTree.fromstring(svg).tag == "{http://www.w3.org/2000/svg}svg" for svg in result.figures.values())
    assert not any("var(" in svg or "currentColor" in svg for svg in result.figures.values())
    html = result._repr_html_()
    assert "positional" in html
    assert next(iter(result.figures.values())) in html

    again = run("image-fit", photo, schemes=["none", "positional"], seeds=2, panels="fit", out=tmp_path / "runs")
    assert "runs to execute" not in capsys.readouterr().out
    assert again.table.rows == result.table.rows

    one = report("image-fit", photo, schemes=["none"], panels=["fit"], out=tmp_path / "runs")
    assert {row["scheme"] for row in one.table} == {"none"}
    with pytest.raises(ValueError, match=r"holds no results of 'hash' in these panels. It holds none, positional"):
        report("image-fit", photo, schemes=["hash"], panels=["fit"], out=tmp_path / "runs")
    stored = results("image-fit", out=tmp_path / "runs")
    assert isinstance(stored, ResultTable)
    assert len(stored) == len(result.table)
    check_saved_figures(result, tmp_path)


def check_saved_figures(result: StudyResult, folder):
    files = {format: result.save_figures(folder / format, format) for format in ("pdf", "svg", "png")}
    for format, written in files.items():
        assert [path.stem for path in written] == list(result.figures), format
    pdf = files["pdf"][0].read_bytes()
    assert pdf.startswith(b"%PDF")
    texts = [path for path in files["svg"] if path.read_text(encoding="utf-8").count("<text")]
    assert texts == []  # the letters are outlines
    with Image.open(files["png"][0]) as image:
        width = image.width / 300
    assert 0.9 < width < 7.2  # inches: up to both columns of a paper
    with pytest.raises(ValueError, match="pdf, svg or png; got 'jpg'"):
        result.save_figures(folder, "jpg")  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"study": "image-fitt"}, "Did you mean image-fit"),
        ({"study": "image-fit", "preset": "fast"}, "The presets of image-fit are"),
        ({"study": "latin-squares", "source": "photo.png"}, "takes no file or folder"),
        (
            {"study": "latin-squares", "source": "dim=32"},
            r"no file dim=32\. If it is a setting, .* --set dim=32",
        ),
        ({"study": "image-fit", "source": "absent.png"}, "absent.png does not exist"),
        ({"study": "image-fit", "seeds": 0}, "At least one seed is needed; got seeds=0"),
        ({"study": "image-fit", "jobs": 0}, "got jobs=0"),
        ({"study": "image-fit", "schemes": [object()]}, "takes names as text; got object"),
        ({"study": "image-fit", "data": "absent"}, "is not a folder"),
    ],
)
def test_wrong_arguments_are_refused_before_anything_starts(tmp_path, arguments, sentence):
    with pytest.raises(ValueError, match=sentence):
        run(**arguments, out=tmp_path / "runs")


def test_a_long_preset_needs_yes(tmp_path, photo):
    with pytest.raises(ConsentError, match="Start it with yes=True"):
        run("image-fit", photo, preset="standard", schemes=["none"], seeds=1, panels=["fit"], out=tmp_path / "runs")


def test_an_absent_package_is_named():
    with pytest.raises(ImportError, match="pip install posenc_absent"):
        study_result._import("posenc_absent")


@pytest.mark.full
def test_a_script_needs_no_guard_of_its_main_part(tmp_path, photo):
    script = tmp_path / "script.py"
    call = f"result = run('image-fit', {str(photo)!r}, schemes=['none'], seeds=2, panels=['fit'], jobs=1, out='runs')"
    script.write_text(f"from posenc.workbench import run\n{SMALL}\nprint('begin')\n{call}\nprint(len(result.table))")
    done = subprocess.run([sys.executable, script], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("begin") == 1  # the worker processes do not execute the script
    assert done.stdout.splitlines()[-1].isdigit()


@pytest.mark.full
def test_a_scheme_of_a_script_is_trained_in_worker_processes(tmp_path, photo):
    """The worker processes get the code of a class in ``__main__``; an edited class is another variant."""
    source = """
from posenc import Claims, Scheme
from posenc.workbench import run

class Line(Scheme):
    examples = ({"dim": 4},)

    def __init__(self, dim, slope=1.0):
        super().__init__()
        self.dim, self.slope = dim, slope
        self.claims = Claims(translation="none", isometric=False, learned=False, range=None, axes=2,
                             sites=frozenset({"embed"}), sharing="model", cacheable=True)

    @property
    def out_dim(self):
        return self.dim

    def prepare(self, pos):
        return (self.slope * self._take(pos).coords.float().sum(-1, keepdim=True)).expand(-1, self.dim)

    def embed(self, where):
        return where

"""
    call = (
        f"run('image-fit', {str(photo)!r}, schemes=[Line(8, slope=2.0), 'none'], seeds=2, panels=['fit'], jobs=1,"
        " out='runs')"
    )
    labels = []
    for text in (source, source.replace("sum(", "mean(")):
        script = tmp_path / "script.py"
        script.write_text(f"{SMALL}{text}\nprint(*{call}.request.schemes, sep='; ')")
        done = subprocess.run([sys.executable, script], cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        labels.append(done.stdout.splitlines()[-1].removesuffix("; none"))
    assert all(label.endswith("(dim=8, slope=2.0)") for label in labels)
    assert labels[0] != labels[1]
    assert {*labels, "none"} == {row["scheme"] for row in results(out=tmp_path / "runs")}
    kept = [path.name for path in (tmp_path / "runs" / "schemes").iterdir()]
    assert sorted(kept) == sorted(f"{label.partition('(')[0]}{end}" for label in labels for end in (".json", ".py"))


@pytest.mark.full
def test_a_notebook_shows_progress_and_continues_after_a_restart(tmp_path, photo):
    """A real Jupyter kernel executes two runs in a worker process; a second kernel finds them finished."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the notebook packages
        nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
        pytest.importorskip("ipykernel")
    call = f"run('image-fit', {str(photo)!r}, schemes=['none'], seeds=2, panels=['fit'], jobs=1, out='runs')"
    cells = [f"from posenc.workbench import run\n{SMALL}", call]
    others = ["from posenc import RoPE, check\nRoPE(8)", "check('NoPE', family='definition')"]
    outputs = []
    for executed in ([*cells, *others], cells):
        notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in executed])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            client = nbclient.NotebookClient(
                notebook, timeout=120, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}
            )
            client.execute()
        outputs.append([cell["outputs"] for cell in notebook.cells])
    first, second = outputs
    displayed = [output["data"]["text/html"] for output in first[1] if "data" in output]
    assert "2 of 2 done" in displayed[0]  # the progress, in its last state
    assert "none" in displayed[-1]
    assert "<svg" in displayed[-1]
    printed = "".join(output["text"] for output in second[1] if output["output_type"] == "stream")
    assert "runs to execute" not in printed  # the second kernel reads the results of the first
    assert "RoPE" in first[2][0]["data"]["text/html"]
    assert "checks passed" in first[3][0]["data"]["text/html"]


def test_a_report_merges_its_pack_first(tmp_path):
    spec = RunSpec(study="toy", variant="rope", seed=0, preset="quick", procedure="toy.train", settings={})
    source = Store(tmp_path / "a")
    source.finish(spec, RunResult(metrics={"loss": 0.5}), {"seconds": 1.0})
    (file,) = pack(source, tmp_path / "packs")
    assert request_execution.store_of_report(tmp_path / "b", file).finished(spec.identity)
    assert request_execution.store_of_report(tmp_path / "b", None).specs() == [spec]
    with pytest.raises(StoreError, match=r"absent\.pack is not there\. Name a pack, a folder of packs or a store"):
        request_execution.store_of_report(tmp_path / "c", tmp_path / "absent.pack")
    assert not (tmp_path / "c").exists()


@pytest.mark.parametrize("executor", [5, object, {"jobs": 2}])
def test_what_is_no_executor_is_refused_before_anything_is_made(tmp_path, executor):
    with pytest.raises(ValueError, match=r"an executor is the name of an engine, .* got .*write jobs=2"):
        run("latin-squares", executor=executor, out=tmp_path / "runs")
    assert not (tmp_path / "runs").exists()


@pytest.mark.usefixtures("in_this_process", "small")
def test_a_run_whose_arrays_are_damaged_is_trained_again_by_the_same_command(tmp_path, photo, capsys):
    """The command ended with an error that advised the same command."""
    request = {"schemes": ["none"], "seeds": 1, "panels": ["fit"], "jobs": 1, "out": tmp_path / "runs"}
    first = run("image-fit", photo, **request)
    (arrays,) = (tmp_path / "runs" / "units").glob("*/arrays.safetensors")
    arrays.write_bytes(bytes(arrays.stat().st_size))
    capsys.readouterr()
    again = run("image-fit", photo, **request)
    assert again.exit_code == 0
    assert "arrays.safetensors has another content than was stored" in capsys.readouterr().out
    assert (tmp_path / "runs" / "damaged" / first.specs[0].identity / "reason.json").is_file()
    assert again.store.verify() == (1, [])
