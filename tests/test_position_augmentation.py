"""Positions drawn anew: order kept, every choice as likely, one draw a sample, tokens without a position left alone."""

import itertools
import math

import pytest
import torch

from posenc.graph_data.builders import graph
from posenc.position_augmentation import augmented, flipped, randomized
from posenc.positions import Positions, grid, sequence


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_every_choice_of_positions_is_as_likely_and_sorted():
    drawn = randomized(sequence(2), 5, batch=20_000, generator=seeded()).coords[..., 0]
    assert drawn.shape == (20_000, 2)
    assert drawn.dtype == torch.int64
    pairs = list(itertools.combinations(range(5), 2))  # 10 of them, all sorted
    counts = [int(((drawn[:, 0] == a) & (drawn[:, 1] == b)).sum()) for a, b in pairs]
    assert sum(counts) == 20_000
    # each count is binomial(20000, 1/10): mean 2000, deviation 42.4
    assert max(abs(count - 2000) for count in counts) < 5 * math.sqrt(20_000 * 0.1 * 0.9)


def test_all_positions_are_drawn_where_there_are_no_more():
    drawn = randomized(sequence(6), 6, generator=seeded())
    assert torch.equal(drawn.coords, sequence(6).coords)
    assert drawn.lattice == (6,)


def test_rows_and_columns_of_a_grid_stay_rows_and_columns():
    drawn = randomized(grid(3, 4), 20, batch=8, generator=seeded()).coords.view(8, 3, 4, 2)
    assert bool((drawn[..., 0] == drawn[:, :, :1, 0]).all())
    assert bool((drawn[..., 1] == drawn[:, :1, :, 1]).all())
    assert bool((drawn[:, :, 0, 0].diff(dim=1) > 0).all())
    assert bool((drawn[:, 0, :, 1].diff(dim=1) > 0).all())
    assert len({tuple(rows.tolist()) for rows in drawn[:, :, 0, 0]}) > 1


def test_a_rank_is_among_different_coordinates_whatever_they_are():
    pos = Positions(torch.tensor([[7.5], [-2.0], [7.5], [30.0]]))
    drawn = randomized(pos, 3, generator=seeded())  # three different ones of three: 0, 1, 2
    assert drawn.coords[:, 0].tolist() == [1, 0, 1, 2]
    assert drawn.coords.dtype == torch.float32
    assert randomized(Positions(pos.coords.bfloat16()), 5000).coords.dtype == torch.float32


def test_samples_of_different_lengths_draw_from_all_positions():
    # a sample with one placed token draws it uniformly: the first of five sorted ones would be small
    placed = torch.arange(5)[None] < torch.tensor([5, 1]).repeat(4000)[:, None]
    drawn = randomized(Positions(sequence(5).coords, placed), 9, generator=seeded())
    alone = drawn.coords[1::2, 0, 0].double()
    assert float(alone.mean()) == pytest.approx(4, abs=5 * math.sqrt(60 / 9 / 4000))  # variance (81 - 1) / 12
    assert bool((drawn.coords[1::2, 1:, 0] == torch.arange(1, 5)).all()), (
        "tokens without a position keep their coordinates"
    )
    assert bool((drawn.coords[::2, :, 0].diff(dim=1) > 0).all())


def test_the_generator_decides():
    one, same, other = (randomized(sequence(9), 100, batch=3, generator=seeded(s)).coords for s in (0, 0, 1))
    assert torch.equal(one, same)
    assert not torch.equal(one, other)
    assert not torch.equal(one[0], one[1])


@pytest.mark.parametrize("draw", [lambda p, b: randomized(p, 8, batch=b), lambda p, b: augmented(p, shift=1, batch=b),
                                  lambda p, b: flipped(p, batch=b)])  # fmt: skip
def test_batch_and_no_tokens(draw):
    assert draw(sequence(0), None).coords.shape == (0, 1)
    assert draw(sequence(3), None).coords.shape == (3, 1)
    assert draw(sequence(3), 1).coords.shape == (1, 3, 1)
    assert draw(Positions(torch.rand(2, 3, 2)), None).coords.shape == (2, 3, 2)
    marked = Positions(sequence(3).coords, torch.tensor([True, False, True]))
    assert torch.equal(draw(marked, 4).placed, marked.placed)
    assert draw(marked, 4).coords[:, 1].flatten().tolist() == [1] * 4
    with pytest.raises(ValueError, match=r"positions have 2 samples already; got batch=3\. Leave `batch` out"):
        draw(Positions(torch.rand(2, 3, 2)), 3)


def test_more_places_than_max_len_are_refused():
    with pytest.raises(ValueError, match=r"9 different positions cannot be drawn from 8\. Use a max_len of at least"):
        randomized(sequence(9), 8)


def test_augmented_moves_and_stretches_all_tokens_of_a_sample_together():
    pos = Positions(torch.tensor([[0.0, 0.0], [1.0, 1.0], [-1.0, 0.5]], dtype=torch.float64))
    shifted = augmented(pos, shift=2, batch=4000, generator=seeded()).coords - pos.coords
    assert float((shifted - shifted[:, :1]).abs().max()) < 1e-12
    moves = shifted[:, 0]
    assert float(moves.abs().max()) <= 2
    assert float(moves.var()) == pytest.approx(4 / 3, rel=0.1)
    assert not torch.equal(moves[:, 0], moves[:, 1])
    scaled = augmented(pos, rescale=2, batch=4000, generator=seeded()).coords[:, 1]
    assert torch.equal(scaled[:, 0], scaled[:, 1]), "rescale is the same on all axes"
    assert 0.5 <= float(scaled.min()) < 0.51
    assert 1.97 < float(scaled.max()) <= 2
    assert float(scaled.log().mean()) == pytest.approx(0, abs=5 * math.log(2) / math.sqrt(3 * 4000))
    stretched = augmented(pos, jitter=2, batch=4000, generator=seeded()).coords[:, 1]
    assert not torch.equal(stretched[:, 0], stretched[:, 1])
    assert float((augmented(pos, generator=seeded()).coords - pos.coords).abs().max()) < 1e-12
    # first the shift, then the stretch: (p + u) r, so differences between tokens are r times those of pos
    both = augmented(pos, shift=2, rescale=2, batch=3, generator=seeded()).coords
    ratio = (both[:, 1] - both[:, 0])[:, 0]
    moved = both[:, 0, 0] / ratio
    assert float(moved.abs().max()) <= 2


def test_flipped_changes_signs_of_whole_axes_alone():
    pos = graph(torch.tensor([[0, 1], [1, 2], [2, 3]]), axes=2)
    drawn = flipped(pos, batch=400, generator=seeded()).coords
    signs = drawn / pos.coords
    assert torch.equal(signs, signs[:, :1].expand_as(signs))
    found = {tuple(s.tolist()) for s in signs[:, 0]}
    assert found == {(a, b) for a in (1.0, -1.0) for b in (1.0, -1.0)}


@pytest.mark.parametrize("wrong", [{"shift": -1}, {"jitter": 0.5}, {"rescale": 0}])
def test_wrong_ranges_are_refused(wrong):
    with pytest.raises(
        ValueError, match=r"are shifted by up to `shift` >= 0 and scaled by up to `jitter` >= 1 and `rescale` >= 1"
    ):
        augmented(sequence(3), **wrong)
