"""Modularity against bctpy, the Brain Connectivity Toolbox. It is under the GPL: compared with, never shipped."""

import numpy as np
import pytest
import torch

from posenc.measure.modularity import modularity

pytestmark = pytest.mark.oracles


@pytest.fixture
def bct():
    return pytest.importorskip("bct")


def drawn(seed: int, signed: bool) -> tuple[torch.Tensor, np.ndarray]:
    chance = np.random.default_rng(seed)
    w = chance.normal(size=(40, 40))
    w = w + w.T if signed else abs(w + w.T)
    return torch.from_numpy(w), chance.integers(1, 6, 40)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("diagonal", [True, False])
def test_modularity(bct, seed, diagonal):
    w, modules = drawn(seed, signed=False)
    if not diagonal:
        w.fill_diagonal_(0)
    _, theirs = bct.modularity_und(w.numpy(), kci=modules)
    assert abs(modularity(w, modules) - theirs) < 1e-12


@pytest.mark.parametrize("seed", range(4))
def test_signed_modularity_is_theirs_of_gomez(bct, seed):
    w, modules = drawn(seed, signed=True)
    _, theirs = bct.modularity_und_sign(w.numpy(), modules, qtype="gja")
    assert abs(modularity(w, modules, signed=True) - theirs) < 1e-12
