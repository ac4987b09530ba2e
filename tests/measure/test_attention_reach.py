"""How far attention looks: hand-made maps whose distance and entropy are known."""

import math

import pytest
import torch

from posenc.measure.attention_reach import attention_distance, attention_entropy, attention_reach
from posenc.positions import Positions, grid, sequence


def test_distance_and_entropy_of_known_maps():
    # the first head looks at the token itself, the second at all three alike
    maps = torch.stack([torch.eye(3), torch.full((3, 3), 1 / 3)])[None, None]
    rows = attention_reach(maps, sequence(3))
    assert [(row["layer"], row["head"]) for row in rows] == [(0, 0), (0, 1), (0, "all")]
    assert rows[0]["distance"] == 0
    assert rows[0]["entropy"] == 0
    assert rows[1]["distance"] == pytest.approx((3 / 3 + 2 / 3 + 3 / 3) / 3)
    assert rows[1]["entropy"] == pytest.approx(math.log2(3))
    assert rows[2]["distance"] == pytest.approx(rows[1]["distance"] / 2)


def test_distance_is_the_sum_of_the_paper():
    pos, maps = grid(3, 4), torch.rand(2, 3, 4, 12, 12, dtype=torch.float64).softmax(-1)
    i, found = 7, attention_distance(maps, pos)
    x = pos.coords.double()
    wanted = sum(maps[1, 2, 3, i, j] * (x[i] - x[j]).norm() for j in range(12))
    torch.testing.assert_close(found[1, 2, 3, i], torch.as_tensor(wanted))


def test_a_class_token_has_no_distance_and_is_left_out():
    coords = torch.tensor([[50.0], [0.0], [1.0]])
    pos = Positions(coords, torch.tensor([False, True, True]))
    maps = torch.tensor([[0.2, 0.4, 0.4], [0.5, 0.25, 0.25], [1.0, 0.0, 0.0]])[None, None, None]
    distance = attention_distance(maps, pos)[0, 0, 0]
    assert bool(distance[0].isnan())
    assert distance[1] == 0.5  # half of what is left goes one step
    assert bool(distance[2].isnan())  # nothing but the class token
    row = attention_reach(maps, pos)[0]
    assert row["distance"] == 0.5
    assert row["entropy"] == pytest.approx((1.5 + 0) / 2)
    both = Positions(coords.expand(1, -1, -1), pos.placed[None])
    assert attention_reach(maps, both) == attention_reach(maps, pos)


def test_samples_may_stand_elsewhere_and_keys_too():
    maps = torch.full((1, 2, 1, 2, 1), 1.0)
    queries = Positions(torch.tensor([[[0.0], [1.0]], [[0.0], [3.0]]]))
    found = attention_distance(maps, queries, Positions(torch.tensor([[1.0]])))
    assert found[0, :, 0].tolist() == [[1.0, 0.0], [1.0, 2.0]]


def test_entropy_is_in_bits():
    assert attention_entropy(torch.full((1, 8), 1 / 8)).item() == pytest.approx(3)


def test_what_does_not_fit_is_refused():
    maps = torch.full((1, 1, 1, 3, 3), 1 / 3)
    with pytest.raises(ValueError, match=r"maps \(1, 1, 1, 3, 3\) with 4 and 4 positions. Pass q_pos and k_pos"):
        attention_reach(maps, sequence(4))
    with pytest.raises(ValueError, match=r"queries have 1 and keys 2. Pass both on one grid"):
        attention_distance(maps, sequence(3), grid(1, 3))


def test_weights_that_are_not_numbers_are_not_left_out_of_a_mean():
    maps = torch.rand(1, 2, 2, 4, 4).softmax(-1)
    maps[0, 0, 0] = math.nan
    first, second, both = attention_reach(maps, sequence(4))
    assert math.isnan(first["distance"])
    assert math.isnan(both["entropy"])
    assert second["distance"] > 0


def test_distances_keep_their_digits_at_unix_times_and_with_many_tokens() -> None:
    times = torch.arange(40, dtype=torch.float64)[:, None] * 0.5
    maps = torch.eye(40).roll(1, 1)
    maps[-1] = 0
    maps[-1, -2] = 1
    for first in (0.0, 1.7e9):
        assert attention_reach(maps[None, None, None], times + first)[0]["distance"] == 0.5


@pytest.mark.bare
def test_maps_of_one_layer_without_its_axis_are_refused() -> None:
    with pytest.raises(ValueError, match=r"maps have shape \(layers, B, H, Q, K\)"):
        attention_reach(torch.eye(4)[None, None], torch.zeros(4, 1))
