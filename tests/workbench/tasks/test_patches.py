"""Permuted pictures: the permutation is undone exactly, and the true places go with the tokens."""

import doctest

import pytest
import torch

from posenc.workbench.tasks import patches
from posenc.workbench.tasks.patches import permute_patches


def test_the_worked_example() -> None:
    result = doctest.testmod(patches)
    assert (result.failed, result.attempted > 2) == (0, True)


def pictures(*shape: int) -> torch.Tensor:
    return torch.randint(0, 256, shape, dtype=torch.uint8, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize(("shape", "side"), [((3, 28, 28), 4), ((2, 1, 6, 9), 3), ((1, 2, 4), 2)])
def test_each_token_is_the_patch_at_its_place(shape, side) -> None:
    given = pictures(*shape)
    found = permute_patches(given, seed=1, side=side)
    flat = given.reshape(len(given), *given.shape[-2:])
    for n, (row, column) in enumerate(found.positions.int().tolist()):
        patch = flat[:, side * row : side * row + side, side * column : side * column + side]
        torch.testing.assert_close(found.values[:, n], patch.reshape(len(flat), -1) / 255)
    torch.testing.assert_close(found.images() * 255, flat.float())
    torch.testing.assert_close(found.images(1 - found.values) * 255, 255 - flat.float())


def test_the_permutation_is_secret_and_of_a_seed() -> None:
    found = permute_patches(pictures(2, 28, 28), seed=0)
    assert sorted(found.order.tolist()) == list(range(49))
    assert found.order.tolist() == permute_patches(pictures(5, 28, 28), seed=0).order.tolist()
    assert found.order.tolist() != permute_patches(pictures(2, 28, 28), seed=1).order.tolist()
    beside = (found.positions[1:] - found.positions[:-1]).abs().sum(1) == 1
    assert int(beside.sum()) < 12  # 4 of 48 by chance: the order of the tokens tells nothing


def test_neighbours_share_an_edge() -> None:
    found = permute_patches(pictures(1, 8, 12), seed=0)
    assert found.shape == (2, 3)
    assert sorted(found.neighbors.sum(1).tolist()) == [2, 2, 2, 2, 3, 3]
    assert torch.equal(found.neighbors, found.neighbors.T)
    for i, j in found.neighbors.nonzero().tolist():
        assert float((found.positions[i] - found.positions[j]).abs().sum()) == 1
    views = found.views()
    assert torch.equal(views["grid"].coords, found.positions)
    assert views["index"].coords.flatten().tolist() == list(range(6))


@pytest.mark.parametrize(
    ("given", "side", "told"),
    [
        (torch.zeros(2, 28, 28), 4, "of whole numbers from 0 to 255; got torch.float32"),
        (torch.zeros(2, 3, 28, 28, dtype=torch.uint8), 4, r"got torch.uint8 of shape \(2, 3, 28, 28\)"),
        (torch.zeros(2, 28, 28, dtype=torch.uint8), 5, "patches of 5 x 5 do not divide images of 28 x 28"),
        (torch.zeros(2, 4, 4, dtype=torch.uint8), 4, "into two or more"),
    ],
)
def test_pictures_that_cannot_be_cut_are_refused(given, side, told) -> None:
    with pytest.raises(ValueError, match=told):
        permute_patches(given, seed=0, side=side)
