"""Positions in segments by hand, and bilevel encoding as the two schemes that it is made of."""

import pytest
import torch

from posenc import (
    PEG,
    ALiBi,
    BiPE,
    CausalNoPE,
    FoX,
    Learned,
    NoPE,
    Positions,
    RoPE,
    Sinusoid,
    attention,
    check,
    segments,
    sequence,
)

SEPARATORS = torch.tensor([False, True, False])


def by_hand(tokens, stop, longest=1024):
    rows, a, b = [], 0, 0
    for token in tokens:
        rows.append([a, min(b, longest - 1)])
        a, b = (a + 1, 0) if token == stop else (a, b + 1)
    return rows


@pytest.mark.parametrize("seed", range(4))
def test_segments_by_hand(seed):
    tokens = torch.randint(4, (3, 30), generator=torch.Generator().manual_seed(seed))
    pos = segments(tokens == 0, longest=5)
    assert pos.coords.tolist() == [by_hand(row, 0, 5) for row in tokens.tolist()]
    assert segments(tokens[0] == 0).coords.tolist() == by_hand(tokens[0].tolist(), 0)


def test_decoding_goes_on_from_two_numbers():
    tokens = torch.tensor([3, 0, 2, 2, 0, 0, 1, 2])
    whole = segments(tokens == 0)
    a, b = 0, 0
    for n, token in enumerate(tokens):
        step = segments(token[None] == 0, start=(a, b))
        assert torch.equal(step.coords, whole.coords[n : n + 1])
        a, b = (a + 1, 0) if token == 0 else (a, b + 1)
    rest = segments(tokens[3:] == 0, start=tuple(whole.coords[3].tolist()))
    assert torch.equal(rest.coords, whole.coords[3:])


@pytest.mark.parametrize("seed", range(8))
def test_padding_at_any_place_is_as_left_out(seed):
    """Padding behind a separator was counted as the first place of the next segment."""
    generator = torch.Generator().manual_seed(seed)
    stops, real = torch.rand(20, generator=generator) < 0.3, torch.rand(20, generator=generator) < 0.6
    assert torch.equal(segments(stops, placed=real).coords[real], segments(stops[real]).coords)


def test_padding_is_not_counted():
    tokens = torch.tensor([[0, 0, 3, 0, 2, 2]])
    real = torch.tensor([[False, False, True, True, True, True]])
    pos = segments(tokens == 0, placed=real)
    assert pos.coords[0, 2:].tolist() == segments(tokens[0, 2:] == 0).coords.tolist()
    assert pos.placed is real


def test_it_is_its_two_schemes():
    torch.manual_seed(0)
    pos = segments(torch.rand(2, 12) < 0.3)
    table, rope = Learned(16, 12, sigma=1.0), RoPE(8)
    scheme = BiPE(table, rope)
    place, segment = Positions(pos.coords[..., 1:]), Positions(pos.coords[..., :1])
    torch.testing.assert_close(scheme.embed(scheme.prepare(pos)), table.embed(table.prepare(place)))
    q, k, v = torch.randn(3, 2, 2, 12, 8).unbind()
    want = attention(q, k, v, scheme=rope, q_pos=segment)
    torch.testing.assert_close(attention(q, k, v, scheme=scheme, q_pos=pos), want)
    assert (scheme.claims.axes, scheme.claims.range) == (2, (None, (0, 11)))


def test_what_a_scheme_between_segments_keeps_is_of_its_own_positions():
    torch.manual_seed(0)
    pos = segments(torch.rand(2, 12) < 0.3)
    fox = FoX(6, 2)
    scheme, segment = BiPE(Sinusoid(6), fox), Positions(pos.coords[..., :1])
    q, k, v = torch.randn(3, 2, 2, 12, 8).unbind()
    x = torch.randn(2, 12, 6)
    want = attention(q, k, v, scheme=fox, q_pos=segment, x=x)
    torch.testing.assert_close(attention(q, k, v, scheme=scheme, q_pos=pos, x=x), want)


def test_the_definition_of_a_mask_between_segments_reads_their_numbers_alone():
    class Noting(CausalNoPE):
        def define_mask(self, at):
            assert at.q_pos.shape[1] == at.k_pos.shape[1] == 1
            return super().define_mask(at)

    report = check(BiPE(Sinusoid(6), Noting()), family="definition")
    assert report.ok, report


def test_fixed_parts_are_translation_invariant():
    assert BiPE(Sinusoid(8), ALiBi(2)).claims.translation == "exact"


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: BiPE(RoPE(8), RoPE(8)), "one that acts in attention, both of one axis, .* got RoPE and RoPE"),
        (lambda: BiPE(Learned(8, 9), Learned(8, 9)), "got Learned and Learned"),
        (lambda: BiPE(Sinusoid(8), PEG(8, axes=1)), "got Sinusoid and PEG"),
        (lambda: BiPE(Sinusoid(8, axes=2), NoPE()), "both of one axis"),
        (lambda: segments(torch.tensor([1, 0])), "True for tokens that end a segment"),
        (lambda: segments(torch.tensor([True]), longest=0), "at least one place; got start=.*, longest=0"),
        (
            lambda: BiPE(Learned(8, 9), RoPE(8)).prepare(sequence(3)),
            r"the number of a segment and the place in it; .* posenc\.segments",
        ),
    ],
)
def test_bad_input(make, sentence):
    with pytest.raises(ValueError, match=sentence):
        make()


@pytest.mark.bare  # The shape hook would refuse these before the sentences do.
@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: segments(SEPARATORS, start=(1.5, 2)), r"got start=\(1\.5, 2\), longest=1024. Write two whole numbers"),
        (lambda: segments(SEPARATORS, start=(1, 2, 3)), r"got start=\(1, 2, 3\)"),
        (lambda: segments(SEPARATORS, start=1), r"got start=1, .* as start=\(1, 0\)"),
        (lambda: segments(SEPARATORS, longest=2.5), r"longest=2\.5"),
        (lambda: segments([True, False]), r"is a tensor, .* got list. Write segments\(torch.tensor\(separators\)\)"),
        (lambda: segments(SEPARATORS, placed=SEPARATORS[:2]), r"got shape \(2,\). Give it shape \(3,\)"),
        (lambda: segments(SEPARATORS, placed=[True] * 3), r"tensor of True and False; got list"),
        (lambda: segments(SEPARATORS, placed=torch.ones(3)), r"got torch\.float32"),
        (lambda: BiPE("Learned", RoPE(16)), r"as BiPE\(Learned\(dim, 1024\), RoPE\(64\)\); got a part of type str"),
        (
            lambda: BiPE(Learned(32, 64), None),
            r"as BiPE\(Learned\(dim, 1024\), RoPE\(64\)\); got a part of type NoneType",
        ),
    ],
)
def test_arguments_of_another_type(make, sentence):
    with pytest.raises(ValueError, match=sentence):
        make()
