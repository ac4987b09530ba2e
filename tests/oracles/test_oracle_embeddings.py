"""Sinusoids and a conditional encoding, against positional-encodings, x-transformers, transformers and timm."""

import pytest
import torch

from posenc.positions import Positions, grid, sequence
from posenc.schemes.peg import PEG
from posenc.schemes.sinusoid import Sinusoid

pytestmark = pytest.mark.oracles


def rows(scheme, pos):
    return scheme.embed(scheme.prepare(pos))


def of_positional_encodings(shape, channels):
    library = pytest.importorskip("positional_encodings.torch_encodings")
    encoding = getattr(library, f"PositionalEncoding{len(shape)}D")(channels)
    return encoding(torch.zeros(1, *shape, channels)).flatten(1, -2)[0]


@pytest.mark.compares("Sinusoid", "positional-encodings", "PositionalEncoding1D to 3D")
@pytest.mark.parametrize(("shape", "dim"), [((50,), 24), ((6, 9), 24), ((9, 6), 32), ((3, 5, 4), 24)])
def test_on_one_two_and_three_axes(shape, dim, same):
    # the first axis leads a row there, the last one here
    mine = rows(Sinusoid(dim, len(shape), leading="first"), grid(*shape))
    same(mine, of_positional_encodings(shape, dim))


@pytest.mark.compares("Sinusoid", "positional-encodings", "PositionalEncoding1D to 3D")
def test_leading_axes_are_a_permutation_of_channels(same):
    mine = rows(Sinusoid(24, 2), grid(6, 9))
    theirs = of_positional_encodings((6, 9), 24)
    same(mine, theirs.roll(12, -1))


@pytest.mark.compares("Sinusoid", "positional-encodings", "PositionalEncoding1D to 3D")
def test_a_width_that_does_not_divide_is_cut_there_and_refused_here(same):
    shape = (3, 4, 2)
    with pytest.raises(ValueError, match="multiple of 6; got 64"):
        Sinusoid(64, 3)
    # 66 channels are built there and two of the last axis cut off, its slowest pair: rows differ in length
    theirs = of_positional_encodings(shape, 64)
    same(rows(Sinusoid(66, 3, leading="first"), grid(*shape))[:, :64], theirs)


@pytest.mark.compares("Sinusoid", "x-transformers", "ScaledSinusoidalEmbedding")
def test_sines_before_cosines_are_those_of_x_transformers(same):
    library = pytest.importorskip("x_transformers.x_transformers")
    theirs = library.ScaledSinusoidalEmbedding(24)
    # rows there are multiplied by a learned number that starts at dim^-0.5
    for pos, told in (
        (sequence(50), theirs(torch.zeros(1, 50, 24))),
        (Positions(torch.linspace(0, 30, 50)[:, None]), theirs(torch.zeros(1, 50, 24), pos=torch.linspace(0, 30, 50))),
    ):
        mine = rows(Sinusoid(24, channels="halves"), pos)
        same(mine * 24**-0.5, told.detach())


@pytest.mark.compares("Sinusoid", "transformers", "ViT MAE")
def test_halves_on_a_picture_are_those_of_mae_in_transformers(same):
    mae = pytest.importorskip("transformers.models.vit_mae.modeling_vit_mae")
    theirs = mae.build_2d_sinusoidal_position_embedding(5, 7, embed_dim=24)
    mine = rows(Sinusoid(24, 2, channels="halves", leading="first"), grid(5, 7))
    same(mine, theirs)
    # the model that calls it swaps the two axes, as its released weights have them: columns first
    mine = rows(Sinusoid(24, 2, channels="halves"), grid(5, 7))
    same(mine, theirs.roll(12, -1))


@pytest.mark.compares("PEG", "timm", "twins.PosConv")
def test_peg_is_that_of_twins_in_timm(timm, same):
    theirs = timm.models.twins.PosConv(24, 24)
    scheme, x = PEG(24), torch.randn(2, 35, 24)
    scheme.weight.data.copy_(theirs.proj[0].weight.data)
    scheme.shift.data.copy_(theirs.proj[0].bias.data)
    same(scheme.mix(x, scheme.prepare(grid(5, 7))).detach(), theirs(x, (5, 7)).detach())
