"""Checkpoints: written completely or not at all, and refused if damaged."""

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from posenc.workbench.training import checkpoint


def test_a_checkpoint_comes_back(tmp_path: Path) -> None:
    path = tmp_path / "state.pt"
    assert checkpoint.load(path) is None
    checkpoint.save(path, {"step": 3, "rng": torch.get_rng_state(), "curve": [{"value": 0.5}]})
    (tmp_path / ".state.pt.1.partial").write_bytes(b"torn")
    state = checkpoint.load(path)
    assert state is not None
    assert (state["step"], state["curve"]) == (3, [{"value": 0.5}])
    assert torch.equal(state["rng"], torch.get_rng_state())
    assert [file.name for file in tmp_path.iterdir()] == ["state.pt"]


def test_a_checkpoint_is_replaced_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "state.pt"
    checkpoint.save(path, {"step": 1})

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="No space left") as raised:
            checkpoint.save(path, {"step": 2})
    assert raised.value.errno == errno.ENOSPC
    assert checkpoint.load(path) == {"step": 1}


def flip(data: bytes) -> bytes:
    where = data.index(torch.arange(1000.0).numpy().tobytes()) + 100
    return data[:where] + bytes([data[where] ^ 1]) + data[where + 1 :]


@pytest.mark.parametrize("damage", [flip, lambda data: data[:-50], lambda data: b"", lambda data: b"abc"])
def test_a_damaged_checkpoint_is_refused(tmp_path: Path, damage: Callable[[bytes], bytes]) -> None:
    path = tmp_path / "state.pt"
    checkpoint.save(path, {"weights": torch.arange(1000.0)})
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(checkpoint.CheckpointError, match="Delete it and the run starts again") as raised:
        checkpoint.load(path)
    assert "\n" not in str(raised.value)
