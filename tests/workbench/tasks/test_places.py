"""Task of places: folds without a block, group or span in two parts, views across 180 degrees, columns and targets."""

from __future__ import annotations

import dataclasses
from itertools import pairwise

import numpy as np
import pytest

from posenc.workbench.tasks import places as task

TABLE = task.made_places(600, seed=0)
DAY = 86_400.0


def test_no_block_is_in_two_parts_and_every_row_is_tested_once() -> None:
    blocks = task.block_numbers(TABLE.coords, 1.0)
    tested = []
    for seed in range(5):
        parts = task.fold_parts(TABLE, "blocks", 1.0, seed)
        sets = [set(blocks[part].tolist()) for part in parts]
        assert not sets[0] & sets[1]
        assert not sets[0] & sets[2]
        assert not sets[1] & sets[2]
        tested.append(parts.test)
    assert sorted(np.concatenate(tested).tolist()) == list(range(len(TABLE)))
    assert max(map(len, tested)) - min(map(len, tested)) <= 0.2 * len(TABLE)


def test_seeds_above_four_have_other_folds() -> None:
    first, later = (task.fold_parts(TABLE, "random", 0.0, seed).test for seed in (0, 5))
    assert not np.array_equal(first, later)


def divided(whole: np.ndarray, table: task.PlaceTable, split: task.Split) -> set[int]:
    """Blocks or groups with rows in the test part of a fold and in its training or validation part."""
    found = set()
    for seed in range(5):
        parts = task.fold_parts(table, split, 1.0, seed)
        found |= set(whole[np.concatenate([parts.train, parts.validation])]) & set(whole[parts.test])
    return found


def test_groups_that_go_everywhere_stay_together_and_the_blocks_that_they_divide_are_counted() -> None:
    groups = np.arange(len(TABLE)) % 60
    table = dataclasses.replace(TABLE, groups=groups)
    blocks = task.block_numbers(TABLE.coords, 1.0)
    for split in ("random", "blocks"):
        assert not divided(groups, table, split), split
    count = len(divided(blocks, table, "blocks"))
    assert count > 0
    assert task.divided_units(table, "blocks", 1.0) == ("blocks", count, blocks.max() + 1)
    assert task.divided_units(table, "random", 0.0) is None


def test_blocks_that_share_a_group_are_held_out_together() -> None:
    blocks = task.block_numbers(TABLE.coords, 1.0)
    pairs = task.block_numbers(TABLE.coords, 2.0)  # groups of four blocks at most
    table = dataclasses.replace(TABLE, groups=pairs)
    assert len(np.unique(pairs)) < len(np.unique(blocks))
    assert not divided(pairs, table, "blocks")
    assert not divided(blocks, table, "blocks")
    assert task.divided_units(table, "blocks", 1.0) is None


def test_a_split_by_time_counts_the_groups_that_it_divides() -> None:
    times = np.random.default_rng(0).permutation(len(TABLE)) * DAY
    groups = np.arange(len(TABLE)) % 60
    table = dataclasses.replace(TABLE, times=times, groups=groups)
    assert task.divided_units(table, "time", 0.0) == ("groups", len(divided(groups, table, "time")), 60)
    in_order = dataclasses.replace(table, groups=(times // (DAY * 10)).astype(np.int64))
    few = task.divided_units(in_order, "time", 0.0)
    assert few is None or few.divided <= 4


def test_a_fold_without_rows_is_refused_with_the_cause() -> None:
    few = dataclasses.replace(TABLE, times=np.arange(len(TABLE)) % 3 * DAY)
    with pytest.raises(ValueError, match="The column of times has 3 different times; leave --time out"):
        task.fold_parts(few, "time", 0.0, 4)
    one = dataclasses.replace(TABLE, groups=np.zeros(len(TABLE), np.int64))
    with pytest.raises(ValueError, match="The column of groups has 1 different group; leave --groups out"):
        task.fold_parts(one, "random", 0.0, 4)


def test_folds_by_time_are_spans() -> None:
    times = np.random.default_rng(0).permutation(len(TABLE)) * DAY
    table = dataclasses.replace(TABLE, times=times)
    ends = []
    for seed in range(5):
        tested = times[task.fold_parts(table, "time", 0.0, seed).test]
        ends.append((tested.min(), tested.max()))
    assert all(last < first for (_, last), (first, _) in pairwise(ends))


def test_the_side_of_blocks_is_a_round_twentieth_of_the_region() -> None:
    region = task.region_of("sphere", TABLE.coords)
    assert region.middle[0] == pytest.approx(178, abs=3), "the region crosses the meridian of 180 degrees"
    assert task.usual_side(TABLE.coords, region) == 1.0
    assert float(region.view(TABLE.coords, "region").abs().max()) == pytest.approx(1.0)
    xyz = region.view(TABLE.coords, "xyz")
    assert xyz.norm(dim=-1).numpy() == pytest.approx(np.ones(len(TABLE)), abs=1e-5)


def test_places_beside_each_other_across_180_are_near_in_a_region() -> None:
    region = task.region_of("sphere", TABLE.coords)
    east, west = region.view(np.array([[179.9, -40.0], [-179.9, -40.0]]), "region").numpy()
    assert np.abs(east - west).max() < 0.05


def test_columns_are_standardized_by_the_training_rows_and_missing_ones_are_marked() -> None:
    numeric = TABLE.numeric.copy()
    numeric[5, 0] = np.nan
    table = dataclasses.replace(TABLE, numeric=numeric)
    train = np.arange(0, 400)
    made = task.standardized_columns(table, train)
    assert made.shape == (len(TABLE), 3)
    assert made[5, 0] == 0
    assert made[5, 2] == 1
    assert made[train, 1].mean() == pytest.approx(0, abs=1e-5)
    assert made[train, 1].std() == pytest.approx(1, abs=1e-2)
    assert np.isnan(task.plain_columns(table)[5, 0])
    small = dataclasses.replace(table, numeric=1e-13 * numeric)  # in a unit in which all are tiny
    np.testing.assert_allclose(task.standardized_columns(small, train), made, atol=1e-5)
    constant = dataclasses.replace(table, numeric=np.full_like(numeric, 0.1))
    assert not task.standardized_columns(constant, train).any()


def test_cycles_of_the_calendar_count_where_times_show_them() -> None:
    days = np.arange(1000, dtype=np.float64) * DAY
    assert task.cycles_of(days) == ("week", "year")
    assert task.cycles_of(np.arange(100, dtype=np.float64) * DAY / 24) == ("day",)
    table = dataclasses.replace(TABLE, times=days[: len(TABLE)])
    assert task.plain_columns(table).shape[1] == TABLE.numeric.shape[1] + 1 + 2, "time, and a week as sine and cosine"


def test_perfect_outputs_have_r2_1_and_the_mean_has_r2_0() -> None:
    rows = np.arange(len(TABLE))
    targets = task.Targets(TABLE, rows, logarithm=False)
    true = targets.learned(rows)
    assert targets.scores(true, rows)["r2"] == pytest.approx(1)
    assert targets.scores(0 * true, rows)["r2"] == pytest.approx(0, abs=1e-6)
    assert targets.scores(0 * true, rows)["rmse"] == pytest.approx(float(np.std(TABLE.targets)), rel=1e-5)


def test_a_skewed_positive_target_is_learned_as_its_logarithm() -> None:
    draw = np.random.default_rng(0)
    assert task.wants_logarithm(np.exp(draw.normal(size=500)))
    assert not task.wants_logarithm(draw.normal(size=500))


@pytest.mark.bare
@pytest.mark.full
@pytest.mark.parametrize("name", ["knn", "gp", "ridge", "boosting"])
def test_baselines_predict_better_than_the_mean(name: str) -> None:
    pytest.importorskip("sklearn")
    parts = task.fold_parts(TABLE, "random", 0.0, 0)
    targets = task.Targets(TABLE, parts.train, logarithm=False)
    places = task.region_of("sphere", TABLE.coords).view(TABLE.coords, "region").numpy()
    learned = targets.learned(np.arange(len(TABLE)))[:, 0].numpy().astype(float)
    columns = task.standardized_columns(TABLE, parts.train)
    made = task.predicted(name, task.BaselineRows(places, columns, learned, parts.train, parts.test), seed=0)
    error = float(((made.outputs[:, 0] - learned[parts.test]) ** 2).mean())
    assert error < 0.9 * float(learned[parts.test].var()), name
    assert (made.deviations is not None) == (name == "gp")
    if made.deviations is not None:
        covered = task.interval_coverage(learned[parts.test], made.outputs[:, 0], made.deviations)
        assert 0.35 < covered["covered_50"] < 0.65
        assert covered["covered_95"] > 0.85


def test_normal_targets_are_covered_as_stated_and_narrow_intervals_cover_fewer() -> None:
    draw = np.random.default_rng(0)
    deviations = draw.uniform(0.5, 2, 20_000)
    true = deviations * draw.normal(size=len(deviations))
    covered = task.interval_coverage(true, np.zeros(len(true)), deviations, unit=10.0)
    for level in task.LEVELS:
        assert abs(covered[f"covered_{100 * level:.0f}"] - level) < 0.015
    assert covered["width_95"] == pytest.approx(10 * 3.92 * deviations.mean(), rel=1e-3)
    narrow = task.interval_coverage(true, np.zeros(len(true)), deviations / 2)
    assert narrow["covered_95"] < 0.75
