"""The GPU day's comparisons and timings of kernels, rehearsed interpreted on the CPU; a wrong kernel is found."""

import sys
from pathlib import Path
from types import ModuleType

import pytest
import torch
from interpreted import interpreted

pytestmark = [pytest.mark.bare, pytest.mark.compile, interpreted]


@pytest.fixture
def kernels(monkeypatch) -> ModuleType:
    monkeypatch.syspath_prepend(Path(__file__).parents[3] / "benchmarks" / "gpu")
    monkeypatch.delitem(sys.modules, "kernels", raising=False)
    import kernels

    return kernels


def wrong(found: dict) -> list[str]:
    return [name for name, each in found.items() if not each["difference"] <= each["allowed"]]


def test_every_kernel_is_compared_and_agrees(kernels):
    found = kernels.differences("cpu")
    assert wrong(found) == []
    assert len(found) > 50
    assert any("two calls" in name for name in found)


def test_a_wrong_kernel_and_one_that_stops_are_found(kernels, monkeypatch):
    from posenc.kernels.triton_forms import grid, rotary

    launch = rotary._launch
    monkeypatch.setattr(rotary, "_launch", lambda x, by, out, back, at=None: launch(x, by, out, False, at))
    monkeypatch.setattr(grid, "interpolate", lambda *given: 1 / 0)
    monkeypatch.setattr(kernels, "PAIRINGS", ("half",))
    found = kernels.differences("cpu")
    assert all("error" not in found[name] for name in found if name.startswith("rotation"))
    rotations = {name for name in wrong(found) if name.startswith("rotation")}
    assert {name for name in found if "gradient of input 0" in name} == rotations  # a rotation on instead of back
    assert {found[name]["error"] for name in wrong(found) if name.startswith("grid")} == {"division by zero"}


def test_forms_are_timed_after_they_are_compared(kernels, monkeypatch):
    (rotation, *_), grids = kernels.rotations((1, 2, 4, 4), (torch.float32,), ("half",)), kernels.grids
    grid = next(iter(grids(9, 2, 8, 2**6, (torch.float32,), (2,))))
    assert set(kernels.time_forms(rotation, False, True)["forms"]) == {"torch", "triton"}
    timed = kernels.time_forms(grid, True, True)
    assert set(timed["forms"]) == {"torch", "triton", "triton, deterministic", "torch.compile"}
    assert all(each["median_ms"] > 0 for each in timed["forms"].values())
    from posenc.kernels.triton_forms import rotary

    launch = rotary._launch
    monkeypatch.setattr(rotary, "_launch", lambda *given: launch(*given) * 1.1)
    with pytest.raises(
        ValueError, match=r"half, torch.float32, triton: differs from the torch form by 1.0e-01; it was not"
    ):
        kernels.time_forms(rotation, False, True)
