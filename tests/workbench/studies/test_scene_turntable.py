"""The turntable of the scene study: after the page, kept frame by frame, exported; and the side of images."""

from __future__ import annotations

import dataclasses
import io
import shutil
import subprocess
import sys

import numpy as np
import pytest
from small_scenes import folder_of, planned, shrink

from posenc.workbench import runner, studies
from posenc.workbench.report.animation import write_mp4
from posenc.workbench.request_execution import execute_request, report_request
from posenc.workbench.run_export import export_run
from posenc.workbench.storage.store import Store
from posenc.workbench.studies.scene import STUDY, turntable

pytestmark = pytest.mark.bare


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both presets, every run of them over in a moment."""
    shrink(monkeypatch)


@pytest.mark.full
def test_the_page_comes_before_the_turntable_whose_finished_frames_are_kept(tmp_path, tiny, monkeypatch, capsys):
    pytest.importorskip("PIL.Image")
    request = studies.Request(preset="quick", schemes=["none"], seeds=[0])
    plain, made = turntable._frame, []

    def frame(*given):
        if len(made) == 2:
            raise KeyboardInterrupt
        made.append(plain(*given))
        return made[-1]

    monkeypatch.setattr(turntable, "_frame", frame)
    with pytest.raises(runner.Interrupted, match="The page is written, and what was rendered is kept"):
        execute_request(STUDY, request, tmp_path, confirm=lambda estimate: True, jobs=1)
    (page,) = (tmp_path / "pages").glob("*.html")
    assert ">Held-out views<" in page.read_text()
    assert str(page) in capsys.readouterr().out
    monkeypatch.setattr(turntable, "_frame", lambda *given: made.append(plain(*given)) or made[-1])
    report_request(STUDY, request, Store(tmp_path))
    assert len(made) == 4  # The two finished frames are not rendered again.
    assert "data:image/gif;base64," in page.read_text()
    assert "Turntable: 4 of 4 frames of 16 x 16 pixels." in capsys.readouterr().out


def test_the_estimate_includes_the_frames_of_the_page(tmp_path, tiny):
    specs, store = planned(tmp_path / "runs", schemes=["none", "hash"], seeds=[0, 1]), Store(tmp_path / "runs")
    frames = turntable.page_seconds(specs)
    assert frames == max(turntable.page_seconds([spec]) for spec in specs) > 0  # one scene, one turntable
    without = dataclasses.replace(STUDY, cost=dataclasses.replace(STUDY.cost, page=lambda specs: 0.0))
    difference = STUDY.estimate(specs, store, 1).seconds - without.estimate(specs, store, 1).seconds
    assert difference == pytest.approx(frames)


def test_a_turntable_is_exported_in_a_size_and_form_of_choice(tmp_path, tiny, monkeypatch):
    image = pytest.importorskip("PIL.Image")
    store, (spec,) = Store(tmp_path / "runs"), planned(tmp_path / "runs", schemes=["none"], seeds=[0])
    runner.run([spec], store, runner.InProcess(), stream=io.StringIO())
    with image.open(export_run(store.root, tmp_path / "turn.gif", size=20)) as opened:
        assert (opened.size, opened.n_frames) == ((20, 20), 4)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ValueError, match=r"\.mp4 needs the program ffmpeg, which is not installed.*write a \.gif"):
        export_run(store.root, tmp_path / "turn.mp4")
    program = tmp_path / "ffmpeg"  # It stands in for the real one, and writes how many bytes of frames it was given.
    program.write_text(
        f'#!{sys.executable}\nimport sys\nopen(sys.argv[-1], "w").write(str(len(sys.stdin.buffer.read())))\n'
    )
    program.chmod(0o755)
    assert export_run(store.root, tmp_path / "turn.mp4", size=20).read_text() == str(4 * 20 * 20 * 3)
    with pytest.raises(ValueError, match=r"the size of \.gif is 8 to 2048 pixels per side; got 4"):
        export_run(store.root, tmp_path / "small.gif", size=4)


@pytest.mark.skipif(shutil.which("ffmpeg") is None, reason="needs the program ffmpeg")
def test_an_mp4_has_every_frame_and_even_sides(tmp_path):
    film, told = tmp_path / "turn.mp4", ["-show_entries", "stream=codec_name,width,height,nb_frames", "-of", "csv=p=0"]
    write_mp4(film, np.random.default_rng(0).integers(0, 256, (6, 21, 31, 3), np.uint8), 100)
    probe = subprocess.run(["ffprobe", "-v", "error", *told, film], capture_output=True, text=True, check=True)
    assert probe.stdout.strip() == "h264,32,22,6"


def test_the_side_of_images_can_be_set(tmp_path, tiny):
    for source in (None, folder_of(tmp_path)):
        plain, large = (
            STUDY.plan(
                studies.Request(preset="quick", schemes=["none"], seeds=[0], source=source, changes=changes),
                Store(tmp_path / "store"),
            )[0]
            for changes in ({}, {"longest_side": 10})
        )
        assert (plain.settings["scene"]["side"], large.settings["scene"]["side"]) == (12, 10)
