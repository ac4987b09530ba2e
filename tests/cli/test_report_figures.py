"""posenc report: the figures as files, and some of the variants."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from PIL import Image

from posenc import cli
from posenc.workbench.studies.image_fit import presets

pytestmark = pytest.mark.bare


def run(*words: str) -> int:
    with pytest.raises(SystemExit) as stop:
        cli.main(list(words))
    return int(stop.value.code or 0)


@pytest.mark.usefixtures("in_this_process")
def test_report_writes_figures_of_the_chosen_variants(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Image.fromarray(np.random.default_rng(0).integers(0, 255, (8, 8, 3), dtype=np.uint8)).save("photo.png")
    small = dataclasses.replace(presets.PRESETS["quick"], limit=presets.Limit(steps=2), parameters=6000)
    monkeypatch.setitem(presets.PRESETS, "quick", small)
    words = ("image-fit", "photo.png", "--panels", "fit")
    assert run("run", *words, "--schemes", "none", "positional", "--seeds", "0", "--jobs", "1") == 0
    capsys.readouterr()
    assert run("report", *words, "--schemes", "none", "--figures", "figures", "--format", "svg") == 0
    *_, page, sentence = capsys.readouterr().out.splitlines()
    files = sorted((tmp_path / "figures").iterdir())
    assert sentence == f"{len(files)} figures in figures."
    assert files
    assert {path.suffix for path in files} == {".svg"}
    assert '<th scope="row">positional</th>' not in (tmp_path / page).read_text(encoding="utf-8")
    assert run("report", *words, "--schemes", "siren") == 2
    assert "no results of 'siren' in these panels. It holds none, positional." in capsys.readouterr().err
