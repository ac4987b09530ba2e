"""Groups by average linkage, their stability, and the test of groups in other recordings."""

import doctest

import numpy as np
import pytest
import torch

from posenc.measure import stable_groups
from posenc.measure.modularity import adjusted_rand
from posenc.measure.stable_groups import (
    combined_p,
    correlation_distances,
    correlation_within_groups_p,
    groups_by_number,
    matched_groups,
    mean_distances,
    most_stable,
    nearest_other_group,
    numbers_of_groups,
    share_of_agreement,
    stability,
)

SIZES = (3, 4, 6, 8)
TRUE = torch.from_numpy(np.random.default_rng(0).permutation(np.repeat(np.arange(4), SIZES)))


def correlations(seed: int, *, related: bool = True, frames: int = 400) -> torch.Tensor:
    """Correlations of 21 channels in four hidden groups of 3 to 8, or of unrelated ones."""
    chance = np.random.default_rng(seed)
    own = chance.normal(size=(len(TRUE), frames))
    return torch.from_numpy(np.corrcoef(own + chance.normal(size=(4, frames))[TRUE] * related))


def division(seed: int, *, related: bool = True) -> dict[int, torch.Tensor]:
    distances = correlation_distances(correlations(seed, related=related))
    return groups_by_number(distances, numbers_of_groups(len(TRUE)))


def test_the_worked_example() -> None:
    result = doctest.testmod(stable_groups)
    assert (result.failed, result.attempted > 0) == (0, True)


def test_the_number_of_groups_is_the_one_that_repeats() -> None:
    a, b, c = (division(seed) for seed in range(3))
    agreement = stability([(a, b), (a, c), (b, c)])
    assert list(agreement) == list(range(2, 11))
    assert most_stable(agreement) == 4
    assert agreement[4] == 1
    assert max(agreement[3], agreement[5]) < 0.98
    assert adjusted_rand(a[4], TRUE) == 1
    assert torch.bincount(a[4]).tolist() == sorted(SIZES, reverse=True), "group 0 is the largest"
    assert most_stable({2: 1.0, 3: 0.5, 4: 1.0, 5: 0.9}) == 4
    assert stability([]) == {}


def test_unrelated_channels_neither_repeat_nor_hold_elsewhere() -> None:
    divisions = [division(seed, related=False) for seed in range(4)]
    agreement = stability([(divisions[0], each) for each in divisions[1:]])
    assert max(agreement.values()) < 0.25
    held = [correlation_within_groups_p(correlations(9 + seed, related=False), divisions[0][5]) for seed in range(20)]
    assert sum(p <= 0.05 for p in held) <= 3
    assert correlation_within_groups_p(correlations(9), division(0)[4]) == 1 / 200
    assert correlation_within_groups_p(correlations(9), torch.arange(len(TRUE))) == 1.0


def test_p_values_are_combined_by_twice_their_median() -> None:
    assert combined_p([0.03]) == 0.03
    assert combined_p([0.01, 0.9, 0.02]) == 0.04
    assert combined_p([0.01, 0.2]) == 0.4
    assert combined_p([0.8, 0.9]) == 1


def test_groups_are_matched_and_shares_counted() -> None:
    reference = torch.tensor([0, 0, 0, 1, 1, 2])
    renamed = torch.tensor([2, 2, 2, 0, 0, 1])
    assert matched_groups(renamed, reference).tolist() == reference.tolist()
    moved = matched_groups(torch.tensor([2, 2, 0, 0, 0, 1]), reference)
    assert moved.tolist() == [0, 0, 1, 1, 1, 2]
    more = matched_groups(torch.tensor([0, 0, 0, 1, 2, 3]), reference)
    assert len(more.unique()) == 4
    assert more[:3].tolist() == [0, 0, 0]
    assert share_of_agreement([reference, moved], reference).tolist() == [1, 1, 0.5, 1, 1, 1]


def test_the_nearest_other_group_and_the_mean_of_distances() -> None:
    places = torch.tensor([[0.0], [1], [5], [6], [20]])
    distances = torch.cdist(places, places)
    assert nearest_other_group(distances, torch.tensor([0, 0, 1, 1, 2])).tolist() == [1, 1, 0, 0, 1]
    torch.testing.assert_close(mean_distances([distances, 7 * distances]), mean_distances([distances]))
    assert torch.equal(correlation_distances(torch.eye(3)).diagonal(), torch.zeros(3))
    with pytest.raises(ValueError, match="5 tokens form 1 to 5 groups; got 6"):
        groups_by_number(distances, [2, 6])


def test_one_token_and_no_p_value() -> None:
    assert [list(numbers_of_groups(tokens)) for tokens in (0, 1, 2, 3)] == [[], [], [2], [2]]
    assert groups_by_number(torch.zeros(1, 1), [1])[1].tolist() == [0]
    with pytest.raises(ValueError, match="one or more; got none"):
        combined_p([])


def test_distances_with_gradients_are_divided_too() -> None:
    rows = torch.tensor([[0.0], [0.1], [5.0]], requires_grad=True)
    assert groups_by_number((rows - rows.T).abs(), [2])[2].tolist() == [0, 0, 1]
