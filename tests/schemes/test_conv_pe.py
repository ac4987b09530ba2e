"""Convolutional positional embedding against wav2vec 2.0 of transformers, its initial values, and refusals."""

import math

import pytest
import torch

from posenc import ConvPE, Positions, sequence


@pytest.mark.compares("ConvPE", "transformers", "Wav2Vec 2.0")
@pytest.mark.parametrize(("kernel", "groups"), [(8, 4), (5, 2), (128, 16)])
def test_it_is_the_embedding_of_transformers(kernel, groups, same):
    code = pytest.importorskip("transformers.models.wav2vec2.modeling_wav2vec2")
    config = pytest.importorskip("transformers").Wav2Vec2Config(
        hidden_size=32, num_conv_pos_embeddings=kernel, num_conv_pos_embedding_groups=groups
    )
    torch.manual_seed(0)
    theirs, scheme = code.Wav2Vec2PositionalConvEmbedding(config), ConvPE(32, kernel, groups)
    scheme.load_wav2vec2(theirs)
    x = torch.randn(2, 20, 32)
    found = scheme.mix(x, scheme.prepare(sequence(20)))
    same(found, x + theirs(x))
    with pytest.raises(ValueError, match=r"Build it with ConvPE\(hidden_size, num_conv_pos_embeddings"):
        ConvPE(32, kernel + 1, groups).load_wav2vec2(theirs)


def test_initial_values():
    scheme = ConvPE(256, 64, 16, generator=torch.Generator().manual_seed(0))
    assert float(scheme.direction.detach().std()) == pytest.approx(2 / math.sqrt(64 * 256), rel=0.01)
    torch.testing.assert_close(scheme.gain.detach(), scheme.direction.detach().pow(2).sum((0, 1)).sqrt())
    assert not scheme.shift.detach().any()


def test_ends_differ_from_the_middle():
    scheme = ConvPE(8, 5, 2)
    row = scheme.mix(torch.ones(1, 12, 8), scheme.prepare(sequence(12)))[0].detach()
    torch.testing.assert_close(row[2:10], row[2:3].expand(8, 8))
    assert not torch.allclose(row[0], row[5])


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: ConvPE(10, 3, 4), "groups that divide dim; got dim=10, kernel=3, groups=4"),
        (lambda: ConvPE(8, 0, 1), "of at least 1"),
        (lambda: ConvPE(8, 3, 1).prepare(Positions(torch.zeros(3, 1))), "ConvPE looks at neighbors on a full grid"),
    ],
)
def test_bad_input(make, sentence):
    with pytest.raises(ValueError, match=sentence):
        make()


@pytest.mark.bare  # The shape hook would refuse these before the sentences do.
@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: ConvPE(8, kernel=2.5, groups=1), r"whole numbers of at least 1, .* kernel=2\.5"),
        (lambda: ConvPE("8"), r"dim='8'"),
    ],
)
def test_arguments_of_another_type(make, sentence):
    with pytest.raises(ValueError, match=sentence):
        make()
