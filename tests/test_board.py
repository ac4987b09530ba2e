"""TensorBoard: every point of a curve as a scalar at its step, read back by TensorBoard's own reader."""

import builtins
import math
from pathlib import Path

import pytest

from posenc.board import Board
from posenc.progress import Event
from posenc.runner import InProcess, run
from posenc.store import Store
from toy_ranks import SAMPLES, unit


def test_a_units_curve_is_on_the_board(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard", reason="TensorBoard is not installed: pip install 'posenc[tb]'")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    own, store = unit("train"), Store(tmp_path / "store")
    run([own], store, InProcess(), emit=lambda event: None, board=tmp_path / "board")
    folder = tmp_path / "board" / "toy" / "main" / "train" / "seed-3"
    found = EventAccumulator(str(folder)).Reload()
    told = {(tag, event.step): event.value for tag in found.Tags()["scalars"] for event in found.Scalars(tag)}
    steps = math.ceil(SAMPLES / 8)
    curve = {(row["metric"], row["epoch"] * steps): row["value"] for row in store.read(own.key).curves}
    assert told == pytest.approx(curve, rel=1e-6)
    assert len(told) == 9


def test_names_are_fit_for_folders(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard", reason="TensorBoard is not installed: pip install 'posenc[tb]'")
    own = unit("a/b: c")
    board = Board(tmp_path, [own])
    board.emit(Event(key=own.key, kind="progress", step=4, metrics={"loss": 0.5}))
    board.emit(Event(key=own.key, kind="progress", step=5))
    board.emit(Event(key=own.key, kind="failed", message="No."))
    assert not board.open
    assert [path.name for path in (tmp_path / "toy" / "main").iterdir()] == ["a_b_ c"]


def test_without_tensorboard_one_sentence_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def refuse(name: str, *arguments: object, **options: object) -> object:
        if name.startswith("torch.utils.tensorboard"):
            raise ModuleNotFoundError(name)
        return real(name, *arguments, **options)

    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(ValueError, match=r"pip install 'posenc\[tb\]'"):
        run([unit("train")], Store(tmp_path), InProcess(), emit=lambda event: None, board=tmp_path / "board")
    assert not (tmp_path / "work").exists()  # before anything was trained
