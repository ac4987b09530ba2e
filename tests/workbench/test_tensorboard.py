"""TensorBoard: every point of a curve as a scalar at its step, read back by TensorBoard's own reader."""

import builtins
import math
from pathlib import Path

import pytest

from posenc.workbench.progress import Event
from posenc.workbench.runner import InProcess, run
from posenc.workbench.storage.store import Store
from posenc.workbench.tensorboard import TensorBoardLogger
from toy_ranks import SAMPLES, spec


def test_every_point_of_a_learning_curve_is_logged(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard", reason="TensorBoard is not installed: pip install 'posenc[tb]'")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    own, store = spec("train"), Store(tmp_path / "store")
    run([own], store, InProcess(), emit=lambda event: None, tensorboard=tmp_path / "events")
    folder = tmp_path / "events" / "toy" / "main" / "train" / "seed-3"
    found = EventAccumulator(str(folder)).Reload()
    logged = {(tag, event.step): event.value for tag in found.Tags()["scalars"] for event in found.Scalars(tag)}
    steps = math.ceil(SAMPLES / 8)
    curve = {(row["metric"], row["epoch"] * steps): row["value"] for row in store.read(own.identity).curves}
    assert logged == pytest.approx(curve, rel=1e-6)
    assert len(logged) == 9


def test_folder_names_have_no_special_characters(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard", reason="TensorBoard is not installed: pip install 'posenc[tb]'")
    own = spec("a/b: c")
    logger = TensorBoardLogger(tmp_path, [own])
    logger.emit(Event(key=own.identity, kind="progress", step=4, metrics={"loss": 0.5}))
    logger.emit(Event(key=own.identity, kind="progress", step=5))
    logger.emit(Event(key=own.identity, kind="failed", message="No."))
    assert not logger.open
    assert [path.name for path in (tmp_path / "toy" / "main").iterdir()] == ["a_b_ c"]


def test_without_tensorboard_one_sentence_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def refuse(name: str, *arguments: object, **options: object) -> object:
        if name.startswith("torch.utils.tensorboard"):
            raise ModuleNotFoundError(name)
        return real(name, *arguments, **options)

    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(ValueError, match=r"pip install 'posenc\[tb\]'"):
        run([spec("train")], Store(tmp_path), InProcess(), emit=lambda event: None, tensorboard=tmp_path / "events")
    assert not (tmp_path / "work").exists()  # before anything was trained
