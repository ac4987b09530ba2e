"""Rotations gathered from a table by integer positions, and rotations in place: the torch forms and their refusals."""

import pytest
import torch

from posenc import SectionedRoPE, XPos, grid, sequence
from posenc.kernels.rotary import PAIRINGS, Rotation, prepare_rotation, rotate, rotate_in_place
from posenc.kernels.rotary_table import gather_rotation, rotate_by_table
from posenc.positions import Positions


def draw(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("pairing", PAIRINGS)
def test_the_table_of_a_scheme_on_three_axes_gives_its_rotations(pairing):
    scheme = SectionedRoPE(12, sections=(2, 3, 1), pairing=pairing)
    pos, x = grid(2, 3, 4), draw(2, 4, 24, 12)
    same_on_all_axes = torch.arange(4.0)[:, None].expand(-1, 3)
    table, index = scheme.prepare(Positions(same_on_all_axes)), pos.coords.long()
    by = gather_rotation(table, index, scheme.axis_of)
    assert by.pairing == pairing
    assert torch.equal(by.cos_sin, scheme.prepare(pos).cos_sin)
    assert torch.equal(rotate_by_table(x, table, index, scheme.axis_of), scheme.transform(x, scheme.prepare(pos), "q"))
    batched = torch.stack([index, index.flip(0)])
    expected = torch.stack(
        [rotate(x[:1], by)[0], rotate(x[1:], gather_rotation(table, index.flip(0), scheme.axis_of))[0]]
    )
    assert torch.equal(rotate_by_table(x, table, batched, scheme.axis_of), expected)
    back = rotate_by_table(expected, table, batched, scheme.axis_of, back=True)
    torch.testing.assert_close(back, x)


@pytest.mark.parametrize("pairing", PAIRINGS)
@pytest.mark.parametrize("size", [0.5, 1, 2, torch.tensor([[3.0, 0.25]], dtype=torch.float64)], ids=str)
def test_rotations_of_any_size_leave_pairs_that_do_not_turn(pairing, size):
    """With "across" the head is twice as wide as the turned channels."""
    angle, pos = draw(3, 2).double(), Positions(torch.tensor([[1.0], [2.0], [3.0]]), torch.tensor([True, False, True]))
    factor = torch.where(pos.placed[:, None], torch.ones(3, 2, dtype=torch.float64) * size, 1.0)
    angle_here = angle * pos.placed[:, None]
    cos, sin = angle_here.cos() * factor, angle_here.sin() * factor
    if pairing == "across":
        cos, sin = torch.cat([cos, torch.ones_like(cos)], -1), torch.cat([sin, torch.zeros_like(sin)], -1)
    wanted = torch.stack([cos, sin], -1 if pairing == "interleaved" else -2).float()
    found = prepare_rotation(angle, pos, pairing, size=size, of=8 if pairing == "across" else 0)
    torch.testing.assert_close(found.cos_sin, wanted)


def test_a_table_has_gradients():
    numbers = draw(5, 2, 2).double().requires_grad_()
    index = torch.tensor([[0, 4], [3, 3], [4, 0]])
    x = draw(1, 2, 3, 4).double().requires_grad_()

    def call(x, numbers):
        return rotate_by_table(x, Rotation(numbers, "interleaved"), index, (0, 1))

    assert torch.autograd.gradcheck(call, (x, numbers))


def test_what_does_not_belong_together_is_refused():
    table, index = Rotation(draw(5, 2, 3), "half"), torch.zeros(4, 2, dtype=torch.long)
    cases = {
        "with one axis per pair and positions": (index, (0, 1)),
        r"got \(5, 2, 3\), 3 axes of pairs and \(4,\)": (index[:, 0], (0, 1, 0)),
        r"integers on the axes 0 to 1; got torch.int64 and pairs on the axes \[0, 2\]": (index, (0, 2, 0)),
        "got torch.float32 and pairs": (index.float(), (0, 1, 0)),
        "the positions 0 to 4; got 0 to 5. Make it with 6 rows": (index + torch.tensor([0, 5]), (0, 1, 0)),
        "got -1 to 0": (index - torch.tensor([0, 1]), (0, 1, 0)),
    }
    for message, (positions, axis_of) in cases.items():
        for call in (
            lambda p, a: gather_rotation(table, p, a),
            lambda p, a: rotate_by_table(draw(1, 1, 4, 6), table, p, a),
        ):
            with pytest.raises(ValueError, match=message):
                call(positions, axis_of)
    assert gather_rotation(table, index[:0], (0, 1, 0)).cos_sin.shape == (0, 2, 3)


@pytest.mark.parametrize("pairing", PAIRINGS)
def test_in_place_rotation_writes_the_same_values_into_the_same_memory(pairing):
    by = Rotation(draw(5, 3, 2) if pairing == "interleaved" else draw(5, 2, 3), pairing)
    for x in (draw(2, 4, 5, 6), draw(2, 5, 4, 6).transpose(1, 2), draw(2, 4, 5, 8), draw(2, 4, 5, 6).bfloat16()):
        expected, memory = rotate(x, by, back=True), x.data_ptr()
        assert rotate_in_place(x, by, back=True) is x
        assert x.data_ptr() == memory
        assert torch.equal(x, expected)


def test_in_place_rotation_is_refused_where_a_gradient_or_memory_forbids_it():
    by, x = Rotation(draw(5, 3, 2), "interleaved"), draw(2, 4, 5, 6)
    wanting = ((x.clone().requires_grad_(), by), (x, Rotation(by.cos_sin.clone().requires_grad_(), "interleaved")))
    for vectors, turns in wanting:
        with pytest.raises(ValueError, match=r"rotate_in_place has no gradient, .* Use rotate\(x, by\)"):
            rotate_in_place(vectors, turns)
        with torch.no_grad():
            rotate_in_place(vectors, turns)
    with pytest.raises(ValueError, match=r"needs vectors with their own memory; these were expanded. Use x.clone\(\)"):
        rotate_in_place(x[:1].expand(2, -1, -1, -1), by)
    with pytest.raises(ValueError, match="these angles rotate 6 channels; the vectors have 4"):
        rotate_in_place(draw(2, 4, 5, 4), by)


@pytest.mark.bare
def test_what_does_more_than_rotate_is_refused_in_place():
    with pytest.raises(ValueError, match=r"rotated in place by what RoPE.prepare\(pos\) returns; got Sides"):
        rotate_in_place(draw(2, 4, 5, 6), XPos(6, 512).prepare(sequence(5)))  # pyright: ignore
