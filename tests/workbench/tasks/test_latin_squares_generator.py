"""Generated puzzles: what every set promises, and that a seed means the same everywhere."""

import numpy as np
import pytest

from posenc.workbench.tasks.latin_squares import (
    Dataset,
    Puzzles,
    classify_puzzles,
    clue_counts,
    generate_dataset,
    jaccard_distant,
    probe_cells,
    solve_puzzles,
)

pytestmark = pytest.mark.bare

RULES = ["authors", "entailment"]
FILTERS = ["one-hot", "clue-pairs"]


@pytest.fixture(scope="module", params=[(rule, jaccard) for rule in RULES for jaccard in FILTERS], ids="-".join)
def made(request) -> tuple[str, str, Dataset]:
    rule, jaccard = request.param
    return rule, jaccard, generate_dataset(train=3000, iid=500, ood=120, seed=3, rule=rule, jaccard=jaccard)


def everything(data: Dataset) -> np.ndarray:
    return np.concatenate([part.cells for part in data.splits().values()])


def test_answers_and_classes_are_what_the_clues_imply(made):
    rule, _, data = made
    for part in data.splits().values():
        assert np.array_equal(solve_puzzles(part.cells), part.answer)
        assert np.array_equal(classify_puzzles(part.cells, rule), part.kind)
        assert part.kind.min() == 1


def test_all_puzzles_are_distinct(made):
    assert len(np.unique(everything(made[2]), axis=0)) == 3620


def test_puzzles_are_distinct_where_they_are_few_and_nothing_keeps_them_apart():
    # About 27,500 puzzles of class 1 with 4 clues exist: drawn carelessly, dozens of these would coincide.
    data = generate_dataset(
        train=3000, iid=0, ood=3000, seed=0, jaccard=None, clues=(4, 4), ood_squares=None, ood_turns=3
    )
    assert len(np.unique(everything(data), axis=0)) == 6000


def test_train_and_iid_are_far_from_ood(made):
    _, jaccard, data = made
    assert jaccard_distant(data.train, data.ood, jaccard).all()
    assert jaccard_distant(data.iid, data.ood, jaccard).all()
    assert not jaccard_distant(data.ood, data.ood, jaccard).any()


def test_without_the_filter_most_puzzles_are_close_to_some_held_out_one():
    data = generate_dataset(train=1000, iid=0, ood=120, seed=3, jaccard=None)
    assert jaccard_distant(data.train, data.ood, "one-hot").mean() < 0.2


def counts(part: Puzzles) -> np.ndarray:
    return np.array([[((part.kind == kind) & (clue_counts(part) == n)).sum() for n in range(16)] for kind in (1, 2, 3)])


def test_classes_and_clue_counts_are_balanced_in_every_beginning(made):
    for part in made[2].splits().values():
        for some in (part, part.take(slice(0, 60))):
            table = counts(some)
            assert table[:, :5].sum() == table[:, 10:].sum() == 0
            assert np.ptp(table[:, 5:10]) <= 2
            assert np.ptp(table.sum(1)) <= 2


def test_answers_and_probes_are_spread_evenly():
    data = generate_dataset(train=4000, iid=0, ood=0, seed=5)
    share = np.bincount(data.train.answer, minlength=5)[1:] / 4000
    assert (abs(share - 0.25) < 0.03).all()
    assert (abs(np.bincount(probe_cells(data.train), minlength=16) / 4000 - 1 / 16) < 0.02).all()


def test_unbalanced_clue_counts_keep_the_classes_balanced():
    data = generate_dataset(train=900, iid=90, ood=30, seed=1, clues=(3, 11), balance_clues=False)
    table = counts(data.train)
    assert table.sum(1).tolist() == [300, 300, 300]
    assert np.ptp(table[:, 3:12]) > 30
    assert table[:, 3:12].sum() == 900


def test_ood_squares_bound_the_solutions_of_held_out_puzzles():
    data = generate_dataset(train=30, iid=0, ood=60, seed=2, ood_squares=1)
    for cell in range(16):
        assert len(set(data.ood.cells[:, cell]) - {0, 5}) <= 1
        assert len(set(data.train.cells[:, cell]) - {0, 5}) > 1


def test_ood_turns_hold_out_every_item_in_several_orientations():
    data = generate_dataset(train=300, iid=0, ood=108, seed=2, ood_squares=None, ood_turns=3)
    grids = data.ood.cells.reshape(-1, 4, 4)
    for turn in (1, 2):
        assert np.array_equal(grids[turn::3], np.rot90(grids[::3], turn, axes=(1, 2)))
    assert len(np.unique(data.ood.cells, axis=0)) == 108
    assert np.bincount(data.ood.kind).tolist() == [0, 36, 36, 36]
    assert np.array_equal(classify_puzzles(data.ood.cells), data.ood.kind)


def test_given_puzzles_are_held_out_as_they_are():
    given = Puzzles.from_strings(["2000500234001000", "0300340102454032", "1020050120040000"])
    data = generate_dataset(train=300, iid=30, ood=given, seed=0)
    assert data.ood.digest() == given.digest()
    assert jaccard_distant(data.train, given, "one-hot").all()
    assert data.manifest["arguments"]["ood"] == {"given": 3, "digest": given.digest()}


@pytest.mark.parametrize(
    ("arguments", "train", "ood"),
    [
        ({}, "707e9fa9d937f8fc", "68189d2fad37d72f"),
        ({"rule": "entailment", "jaccard": "clue-pairs"}, "9919c32c1fca034c", "208bd3570d6daa68"),
        (
            {"jaccard": None, "clues": (3, 11), "balance_clues": False, "ood_turns": 3, "ood_squares": None},
            "b58d047dea948dd4",
            "66250996e6b9ae61",
        ),
    ],
)
def test_a_seed_gives_the_same_puzzles_everywhere(arguments, train, ood):
    # Written down from a run, since class 3 of the authors' rule is any hidden single: recomputed then for that rule,
    # unchanged for entailment. A change here means that every published seed now names other puzzles.
    data = generate_dataset(train=300, iid=30, ood=30, seed=7, **arguments)
    assert (data.train.digest()[:16], data.ood.digest()[:16]) == (train, ood)


def test_another_seed_gives_other_puzzles():
    one, again, other = (generate_dataset(train=60, iid=6, ood=6, seed=seed) for seed in (1, 1, 2))
    assert one.manifest == again.manifest
    assert one.train.digest() != other.train.digest()
    assert one.ood.digest() != other.ood.digest()


def test_the_manifest_says_how_the_set_was_made():
    data = generate_dataset(train=60, iid=15, ood=9, seed=4, rule="entailment", jaccard="clue-pairs")
    assert data.manifest["arguments"] == {
        "train": 60, "iid": 15, "ood": 9, "seed": 4, "rule": "entailment", "jaccard": "clue-pairs", "ood_squares": 8,
        "ood_turns": 1, "clues": [5, 9], "balance_clues": True,
    }  # fmt: skip
    assert data.manifest["counts"]["iid"]["class"] == {"1": 5, "2": 5, "3": 5}
    assert data.manifest["counts"]["iid"]["clues"] == {"5": 3, "6": 3, "7": 3, "8": 3, "9": 3}
    assert data.manifest["digests"] == {name: part.digest() for name, part in data.splits().items()}


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (
            {"clues": (1, 2)},
            "candidates gave only 0 of .* puzzles of class 1 with 1 clue, since 8 squares",
        ),
        (
            {"clues": (1, 2), "ood": 0},
            "with 1 clue, since too few exist; ask for fewer puzzles, balance_clues",
        ),
        ({"clues": (1, 2), "ood": 0, "balance_clues": False}, "puzzles of class 1 with 1 to 2 clues, since"),
        (
            {"ood": 300, "ood_squares": None, "jaccard": "clue-pairs"},
            "too few are far enough from the 300 out-of-distribution puzzles; "
            "ask for fewer out-of-distribution puzzles, fewer ood_sq",
        ),
    ],
)
def test_a_request_that_can_not_be_met_ends_with_a_sentence(arguments, reason):
    with pytest.raises(ValueError, match=reason):
        generate_dataset(seed=0, **arguments)


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({"train": 0}, "`train` is a number of at least 1; got 0."),
        ({"iid": -1}, "`iid` is a number of at least 0; got -1."),
        ({"ood": -3}, "`ood` is a number of at least 0; got -3."),
        ({"seed": -1}, "`seed` is a number of at least 0; got -1."),
        ({"clues": (9, 5)}, "within 1 to 15, such as (5, 9); got (9, 5)."),
        ({"clues": (5, 16)}, "within 1 to 15, such as (5, 9); got (5, 16)."),
        ({"ood_squares": 0}, "`ood_squares` is 1 to 576, or None for all of them; got 0."),
        ({"ood": 10, "ood_turns": 3}, "`ood_turns` is 1 to 4 and divides `ood`, here 10; got 3."),
        ({"ood_turns": 5}, "`ood_turns` is 1 to 4"),
        ({"rule": "strict"}, "'authors' or 'entailment'; got 'strict'."),
        ({"jaccard": "cosine"}, "'one-hot' or 'clue-pairs'; got 'cosine'."),
    ],
)
def test_wrong_arguments_are_refused(arguments, reason):
    with pytest.raises(ValueError) as caught:
        generate_dataset(**{"seed": 0, **arguments})
    assert reason in str(caught.value)
