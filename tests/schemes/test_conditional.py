"""PEG against torch's convolution on a picture, and by hand."""

import math

import pytest
import torch

from posenc.attention import attend_at
from posenc.positions import Positions, grid, sequence
from posenc.schemes.peg import PEG


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def mixed(scheme: PEG, x: torch.Tensor, pos: Positions) -> torch.Tensor:
    return scheme.mix(x, scheme.prepare(pos))


@pytest.mark.parametrize(
    ("padding", "mode"), [("zeros", "zeros"), ("replicate", "replicate"), ("circular", "circular")]
)
@pytest.mark.parametrize("shape", [(7,), (4, 6), (2, 3, 4)])
@pytest.mark.parametrize("kernel", [1, 3])
def test_it_is_a_depthwise_convolution_of_the_picture_added_to_it(shape, padding, mode, kernel):
    scheme = PEG(5, axes=len(shape), kernel=kernel, padding=padding)
    scheme.shift.data.normal_()
    kind = [torch.nn.Conv1d, torch.nn.Conv2d, torch.nn.Conv3d][len(shape) - 1]
    conv = kind(5, 5, kernel, padding=kernel // 2, groups=5, padding_mode=mode)
    conv.load_state_dict({"weight": scheme.weight.data, "bias": scheme.shift.data})
    picture = torch.randn(2, 5, *shape)
    wanted = (picture + conv(picture)).flatten(2).mT
    torch.testing.assert_close(mixed(scheme, picture.flatten(2).mT, grid(*shape)), wanted)


def test_by_hand_on_a_row():
    scheme = PEG(1, axes=1)
    scheme.weight.data = torch.tensor([[[100.0, 10.0, 1.0]]])  # the left neighbour, itself, the right one
    scheme.shift.data.fill_(0.5)
    x = torch.tensor([[[1.0], [2.0], [3.0]]])
    assert mixed(scheme, x, sequence(3)).flatten().tolist() == [13.5, 125.5, 233.5]
    scheme.padding = "circular"
    assert mixed(scheme, x, sequence(3)).flatten().tolist() == [313.5, 125.5, 234.5]
    scheme.padding = "replicate"
    assert mixed(scheme, x, sequence(3)).flatten().tolist() == [113.5, 125.5, 236.5]


def test_zeros_outside_tell_where_a_token_stands_and_a_circle_does_not():
    x = torch.ones(1, 20, 3)
    for padding, places in (("zeros", 9), ("replicate", 1), ("circular", 1)):
        rows = mixed(PEG(3, padding=padding, generator=seeded()), x, grid(4, 5))[0]
        assert len(rows.mul(1e4).round().unique(dim=0)) == places  # zeros: 4 corners, 4 sides, the middle


def test_a_grid_longer_one_way_is_not_the_other_way_round():
    # rope-vit#15, timm#2317: sqrt(N) rows. The neighbour below is `width` tokens further on.
    scheme = PEG(1)
    scheme.weight.data.zero_()[0, 0, 2, 1] = 1  # what stands one row below
    x = torch.arange(6.0).view(1, 6, 1)
    assert mixed(scheme, x, grid(2, 3)).flatten().tolist() == [3, 5, 7, 3, 4, 5]
    assert mixed(scheme, x, grid(3, 2)).flatten().tolist() == [2, 4, 6, 8, 4, 5]


@pytest.mark.parametrize("first", [True, False])
def test_tokens_without_a_place_stay_as_they_are_and_are_seen_by_none(first):
    scheme, pos = PEG(3, generator=seeded()), grid(2, 3)
    placed = torch.ones(8, dtype=torch.bool)
    placed[[0, 1] if first else [3, 7]] = False
    marked = Positions(torch.zeros(8, 2), placed, (2, 3))
    x = torch.randn(4, 8, 3)
    out = mixed(scheme, x, marked)
    assert torch.equal(out[:, ~placed], x[:, ~placed])
    torch.testing.assert_close(out[:, placed], mixed(scheme, x[:, placed], pos))
    # said for each sample, in other places
    each = torch.stack([placed, placed.flip(0)])
    out = mixed(scheme, x[:2], Positions(torch.zeros(8, 2), each, (2, 3)))
    for b in range(2):
        torch.testing.assert_close(out[b, each[b]], mixed(scheme, x[b : b + 1, each[b]], pos)[0])


def test_the_first_weights():
    scheme = PEG(4000, generator=seeded())
    n = scheme.weight.numel()
    assert float(scheme.weight.detach().double().var()) == pytest.approx(2 / 9, abs=5 * 2 / 9 * math.sqrt(2 / n))
    assert not bool(scheme.shift.any())
    volume = PEG(2000, axes=3, generator=seeded()).weight.detach().double()
    assert float(volume.var()) == pytest.approx(2 / 27, rel=0.05)


def test_attention_is_left_alone():
    q, k, v = torch.randn(3, 2, 4, 6, 8)
    out = attend_at(q, k, v, scheme=PEG(3), q_pos=grid(2, 3))
    torch.testing.assert_close(out, (q @ k.mT / math.sqrt(8)).softmax(-1) @ v)


def test_shifted_positions_of_a_grid_change_nothing():
    scheme, x = PEG(3), torch.randn(1, 6, 3)
    assert torch.equal(mixed(scheme, x, grid(2, 3) + 100.5), mixed(scheme, x, grid(2, 3)))


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: PEG(0), r"convolves dim >= 1 channels over 1 to 3 axes; got dim=0, axes=2"),
        (lambda: PEG(3, axes=4), r"1 to 3 axes; got dim=3, axes=4"),
        (lambda: PEG(3, kernel=2), r"kernel has a middle, so its side is odd; got 2\. The paper's is 3"),
        (lambda: PEG(3).prepare(sequence(4)), r"PEG here reads 2 axes per position; these positions have 1"),
        (
            lambda: PEG(3).prepare(Positions(torch.rand(4, 2))),
            r"neighbors on a full grid of 2 axes; these positions have lattice=None\. Use grid\(h, w\), or",
        ),
        (lambda: PEG(3, axes=1).prepare(sequence(9)[3:4]), r"nor one token while decoding"),
        (
            lambda: mixed(PEG(3), torch.zeros(2, 6, 4), grid(2, 3)),
            r"this PEG acts on tokens of width 3; these have 4 channels\. Build it for that width",
        ),
        (
            lambda: mixed(PEG(3), torch.zeros(2, 7, 1), Positions(torch.zeros(7, 2), torch.arange(7) > 0, (2, 3))),
            r"acts on tokens of width 3; these have 1 channels",
        ),
        (
            lambda: mixed(PEG(3), torch.zeros(2, 7, 3), grid(2, 3)),
            r"this PEG was prepared at 6 positions and meets 7 tokens\. Prepare one position per token; tokens wi",
        ),
        (
            lambda: PEG(3).prepare(Positions(torch.rand(7, 2), torch.arange(7) > 1, (2, 3))),
            r"grid of shape \(2, 3\) has 6 points; \[5\] tokens are placed\. Place one at each point",
        ),
    ],
)
def test_bad_input(make, sentence):
    with pytest.raises(ValueError, match=sentence):
        make()


@pytest.mark.bare  # the shape hook would refuse the word before the sentence does
def test_an_unknown_padding():
    with pytest.raises(ValueError, match=r"padding is 'zeros', 'replicate' or 'circular'; got 'reflect'"):
        PEG(3, padding="reflect")


def test_another_number_of_tokens_is_refused_with_and_without_places():
    for pos in (grid(3, 3), Positions(torch.zeros(10, 2), torch.arange(10) > 0, (3, 3))):
        peg = PEG(4)
        with pytest.raises(ValueError, match=rf"this PEG was prepared at {pos.count} positions and meets 15 tokens"):
            peg.mix(torch.randn(1, 15, 4), peg.prepare(pos))
