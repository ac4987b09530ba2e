"""The simulated brain: its sizes, its order, and how much of it ridge regression explains."""

import numpy as np
import pytest

from posenc.workbench.tasks.recordings import baselines, random_masks, split, standardized_frames
from posenc.workbench.tasks.simulated_brain import NETWORKS, simulate

pytestmark = pytest.mark.bare


def test_sizes_are_the_published_ones_in_a_scrambled_order() -> None:
    found = simulate(2, 20, seed=0)
    assert list(NETWORKS.values()) == [6, 54, 39, 56, 23, 23, 50, 15, 77, 7, 4, 6]
    assert found.modules is not None
    assert {name: found.modules.count(name) for name in NETWORKS} == dict(NETWORKS)
    beside = np.mean([a == b for a, b in zip(found.modules, found.modules[1:], strict=False)])
    assert beside < 0.2  # by chance .13: neighbours in the order are not neighbours in the brain
    assert found.series[0].dtype == np.float32
    assert (found.names, found.series[0].shape, found.series[1].shape) == (
        ("subject 1", "subject 2"),
        (360, 20),
        (360, 20),
    )
    assert not np.array_equal(found.series[0], found.series[1])
    np.testing.assert_array_equal(simulate(2, 20, seed=0).series, found.series)
    assert simulate(2, 20, seed=1).modules != found.modules


@pytest.mark.full
def test_ridge_explains_about_two_fifths_of_unseen_subjects_at_half_the_channels_masked() -> None:
    parts = split(simulate(10, 1000, seed=0), seed=0)
    train, test = standardized_frames(parts.train), standardized_frames(parts.test)
    at = test.sample(60, seed=0)
    found = baselines(train, test, random_masks(len(at), 360, 0.5, seed=0), at=at)
    explained = 1 - found["ridge"].mean() / found["mean"].mean()
    assert 0.36 < explained < 0.44
    assert found["ridge"].mean() < found["nearest"].mean() < found["mean"].mean()


def test_channels_go_with_their_network_and_frames_with_the_one_before() -> None:
    found = simulate(1, 4000, seed=0, networks={"a": 6, "b": 4})
    x, own = found.series[0], np.array(found.modules)
    correlation, same = np.corrcoef(x), own[:, None] == own
    inside, between = correlation[same & ~np.eye(10, dtype=bool)], correlation[~same]
    assert inside.min() > 0.3
    assert 0.03 < between.mean() < 0.15  # what all share
    lag = [np.corrcoef(each[1:], each[:-1])[0, 1] for each in x]
    assert np.mean(lag) == pytest.approx(0.8, abs=0.03)


def test_a_simulation_of_nothing_is_refused() -> None:
    for asked in (
        {"subjects": 0},
        {"frames": 1},
        {"networks": {"a": 1}},
        {"networks": {"a": 3, "b": 0}},
        {"noise": -1.0},
    ):
        with pytest.raises(ValueError, match="a simulation has at least one subject, two frames and two channels"):
            simulate(**{"subjects": 1, "frames": 10, "seed": 0, **asked})
