"""Toy runs that packs are made of."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import torch

from posenc.workbench.runs import RunResult, RunSpec
from posenc.workbench.storage.store import Store

ORIGIN = {"commit": "c0ffee", "dirty": False, "versions": {"torch": "2"}, "machine": {"cores": 2}, "device": "cpu"}
TIMING = {"seconds": 1.5, "device": "cpu", "attempts": 1}


def spec(seed: int = 0, **changes: object) -> RunSpec:
    values = {"study": "toy", "variant": "line", "preset": "quick", "procedure": "toy.train", "entry": "a:b"}
    return RunSpec(**(values | {"seed": seed, "settings": {"sigma": 0.2}} | changes))


def result(seed: int = 0, loss: float | None = None) -> RunResult:
    """A result with everything that a pack must keep apart: nan, integers, points of two kinds, large arrays."""
    random = np.random.default_rng(seed)
    curves = [
        {"epoch": 1, "metric": "loss", "value": 0.5 + seed},
        {"epoch": 1, "metric": "psnr", "value": math.nan, "size": 64},
        {"epoch": 2, "metric": "psnr", "value": 31.25, "size": None},
        {"metric": "loss", "epoch": 2, "value": 1 / 3},
    ]
    arrays = {
        "right": np.array([True, False, True]),
        "small": random.normal(size=(2, 3)).astype(np.float32),
        "counts": np.array([[2**40], [-1]]),
        "scalar": np.array(math.nan),
        "empty": np.zeros((0, 4)),
        "picture": random.normal(size=(64, 64)).astype(np.float32),
    }
    metrics = {"loss": 1 / 3 + seed if loss is None else loss, "psnr": math.nan}
    return RunResult(metrics=metrics, curves=curves, arrays=arrays, weights={"w": torch.ones(2) * seed})


def stored(root: Path, *specs: RunSpec) -> Store:
    store = Store(root)
    for each in specs:
        store.finish(each, result(each.seed), TIMING, ORIGIN)
    return store
