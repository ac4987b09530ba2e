"""Where the patches of a picture stand, and which layer gets which scheme."""

import pytest
import torch

from posenc.lookup.scheme_text import parse
from posenc.models.pvt import pvt
from posenc.models.sites import Site, at_sites, patch_positions
from posenc.schemes.grid_pe import GridPE
from posenc.schemes.learned import Learned
from posenc.schemes.nope import NoPE
from posenc.schemes.peg import PEG
from posenc.schemes.xpos import XPos


def test_patches_stand_on_their_grid_and_a_class_token_nowhere():
    pos = patch_positions((2, 3), 2, before=1)
    assert pos.coords.tolist() == [[0, 0], [0, 0], [0, 1], [0, 2], [1, 0], [1, 1], [1, 2]]
    assert pos.placed is not None
    assert pos.placed.tolist() == [False] + [True] * 6
    assert pos.lattice == (2, 3)
    line = patch_positions((2, 3), 1)
    assert line.coords[:, 0].tolist() == list(range(6))
    assert line.lattice == (6,)
    assert not line.coords.is_floating_point()


def test_keys_of_several_patches_stand_at_their_centre():
    centre = patch_positions((4, 6), 2, cells=2)
    assert centre.coords.tolist() == [[r, c] for r in (0.5, 2.5) for c in (0.5, 2.5, 4.5)]
    assert centre.lattice == (2, 3)
    grid = patch_positions((4, 6), 2).coords.double()
    cell = [n for n in range(24) if n // 6 in (2, 3) and n % 6 in (4, 5)]  # the last one's patches
    torch.testing.assert_close(centre.coords[-1].double(), grid[cell].mean(0))
    assert patch_positions((4, 6), 2, cells=2, keys="corner").coords.tolist() == [
        [r, c] for r in (1, 3) for c in (1, 3, 5)
    ]
    assert patch_positions((9, 9), 2, cells=3).coords.dtype == torch.int64
    assert patch_positions((4, 6), 1, cells=2).coords[:, 0].tolist() == [3.5, 5.5, 7.5, 15.5, 17.5, 19.5]


def test_other_views():
    unit = patch_positions((2, 4), 2, "unit")
    assert unit.coords.tolist() == [[r, c] for r in (0.25, 0.75) for c in (0.125, 0.375, 0.625, 0.875)]
    assert patch_positions((2, 4), 2, "unit", cells=2).coords.tolist() == [[0.5, 0.25], [0.5, 0.75]]
    pixels = patch_positions((14, 14), 2, "pixels", before=1, pixels=224)
    assert pixels.coords.tolist() == [[0, n] for n in range(197)]
    assert pixels.placed is None
    counted = patch_positions((2, 3), 2, "counted", before=1)
    assert counted.coords.tolist() == [[0, 0], [0, 1], [0, 2], [1, 0], [1, 1], [1, 2], [2, 0]]
    assert patch_positions((2, 3), 1, "counted", before=1).coords[:, 0].tolist() == list(range(7))


def site(**changes) -> Site:
    given = {"layer": 0, "stage": 0, "first": True, "embeds": True, "dim": 64, "heads": 2, "shape": (7, 9)}
    return Site(**(given | changes))


def test_what_a_site_knows():
    known = site().scheme_arguments(GridPE)
    assert known["head_dim"] == 32
    assert known["max_len"] == 63
    assert known["extent"] == 9
    assert known["window"] == (7, 9)
    assert site().scheme_arguments(XPos)["extent"] == 63  # one axis, which all patches share


def test_a_scheme_is_shared_by_a_stage_or_made_for_each_layer():
    config = pvt("tiny", classes=10, image=64)
    shared = at_sites(parse("GridPE"), config.sites)
    made = [shared(layer) for layer in range(8)]
    assert len({id(scheme) for scheme in made}) == 4
    assert made[0] is made[1]
    assert made[1] is not made[2]
    deep = [*map(at_sites(parse("GridDeep"), config.sites), range(8))]  # all alive, or an id comes twice
    assert len({id(scheme) for scheme in deep}) == 8
    tables = [at_sites(parse("Learned"), config.sites)(layer) for layer in (0, 2, 4, 6)]
    assert [tuple(table.table.shape) for table in tables if isinstance(table, Learned)] == [
        (256, 64), (64, 128), (16, 320), (4, 512)]  # fmt: skip


@pytest.mark.parametrize(("text", "kind", "first_only"), [("PEG", PEG, False), ("GridPE", GridPE, True)])
def test_some_act_in_the_first_layer_of_a_stage_alone(text, kind, first_only):
    config = pvt("tiny", classes=10, image=64)
    made = [*map(at_sites(parse(text), config.sites, first_only=first_only), range(8))]
    assert [type(scheme) for scheme in made] == [kind, NoPE] * 4
