"""Biases of the logits, against x-transformers and the models of transformers: the same pairs, the same numbers."""

import pytest
import torch

from posenc.attention import attention_weights
from posenc.positions import Positions, grid, sequence
from posenc.schemes.alibi import ALiBi, released_slopes
from posenc.schemes.cope import CoPE
from posenc.schemes.fox import FoX
from posenc.schemes.log_cpb import LogCPB
from posenc.schemes.shaw import Shaw
from posenc.schemes.swin_bias import SwinBias
from posenc.schemes.t5_bias import T5Bias, buckets_by_distance

pytestmark = pytest.mark.oracles

LENGTH, WIDTH = 40, 16


@pytest.fixture
def x_transformers():
    return pytest.importorskip("x_transformers.x_transformers")


def ours(scheme, heads, q_pos, k_pos=None):
    """A bias that does not read q and k, ``(.., H, Q, K)``."""
    where_q = scheme.prepare(q_pos)
    where_k = where_q if k_pos is None else scheme.prepare(k_pos)
    q, k = (torch.zeros(1, heads, pos.count, WIDTH) for pos in (q_pos, q_pos if k_pos is None else k_pos))
    return scheme.bias(q, k, None, scheme.relate(where_q, where_k), None)


def causal(length):
    return torch.ones(length, length, dtype=torch.bool).tril()


# ALiBi ---------------------------------------------------------------------------------------------------------------
@pytest.mark.compares("ALiBi", "x-transformers", "AlibiPositionalBias")
@pytest.mark.parametrize("heads", [1, 2, 8, 12, 16, 20])
def test_alibi_is_that_of_x_transformers(x_transformers, heads, same):
    # its slopes for numbers of heads that are not a power of two are those of the paper's code, not of its formula
    scheme = ALiBi(heads, slopes=released_slopes(heads))
    same(ours(scheme, heads, sequence(LENGTH)), x_transformers.AlibiPositionalBias(heads)(LENGTH, LENGTH))


@pytest.mark.compares("ALiBi", "x-transformers", "AlibiPositionalBias")
def test_alibi_by_the_papers_formula_is_the_same_for_powers_of_two_alone(x_transformers, same):
    for heads in (2, 4, 8, 16):
        same(ours(ALiBi(heads), heads, sequence(LENGTH)), x_transformers.AlibiPositionalBias(heads)(LENGTH, LENGTH))
    assert not torch.allclose(
        ours(ALiBi(12), 12, sequence(LENGTH)), x_transformers.AlibiPositionalBias(12)(LENGTH, LENGTH), atol=0.1
    )


@pytest.mark.compares("ALiBi", "x-transformers", "AlibiPositionalBias")
def test_alibi_while_decoding_and_at_real_positions(x_transformers, same):
    theirs = x_transformers.AlibiPositionalBias(8)
    same(ours(ALiBi(8), 8, sequence(3, start=LENGTH - 3), sequence(LENGTH)), theirs(3, LENGTH))  # queries at the end
    q_at, k_at = torch.rand(5) * 30, torch.rand(9) * 30
    mine = ours(ALiBi(8), 8, Positions(q_at[:, None]), Positions(k_at[:, None]))
    same(mine, theirs.forward_custom_pos(q_at, k_at))


@pytest.mark.compares("ALiBi", "transformers", "BLOOM")
@pytest.mark.parametrize("heads", [8, 12])
def test_alibi_is_that_of_bloom_up_to_a_number_that_softmax_forgets(heads, same):
    bloom = pytest.importorskip("transformers.models.bloom.modeling_bloom")
    # m_h j there and -m_h (i - j) here: m_h i apart for all keys of a query, under a causal mask alone
    told = bloom.build_alibi_tensor(torch.ones(1, LENGTH, dtype=torch.long), heads, torch.float32)
    q, k = torch.randn(2, 1, heads, LENGTH, WIDTH, dtype=torch.float64).unbind()
    theirs = (q @ k.mT + told[None].double()).masked_fill(~causal(LENGTH), -torch.inf).softmax(-1)
    scheme = ALiBi(heads, slopes=released_slopes(heads))
    where = scheme.prepare(sequence(LENGTH))
    same(attention_weights(q, k, scheme, scheme.relate(where, where), mask=causal(LENGTH)), theirs)


# T5 ------------------------------------------------------------------------------------------------------------------
def their_buckets(name):
    if name == "t5":
        return pytest.importorskip("transformers.models.t5.modeling_t5").T5Attention._relative_position_bucket
    bucket = pytest.importorskip("x_transformers.x_transformers").RelativePositionBias._relative_position_bucket
    return lambda d, bidirectional, **given: bucket(d, causal=not bidirectional, **given)  # the opposite word


@pytest.mark.parametrize("name", ["t5", "x_transformers"])
@pytest.mark.parametrize("bidirectional", [True, False])
@pytest.mark.parametrize(("buckets", "far"), [(32, 128), (32, 127), (64, 200), (16, 100)])
def test_buckets_of_t5(name, bidirectional, buckets, far):
    mine = torch.tensor(buckets_by_distance(buckets, far, bidirectional=bidirectional))
    distance = torch.arange(-far, far + 1)
    theirs = their_buckets(name)(distance, bidirectional, num_buckets=buckets, max_distance=far)
    torch.testing.assert_close(mine, theirs)


@pytest.mark.compares("T5Bias", "transformers", "T5")
@pytest.mark.parametrize("decoder", [False, True])
def test_t5_bias_is_that_of_t5(decoder, same):
    transformers = pytest.importorskip("transformers")
    t5 = pytest.importorskip("transformers.models.t5.modeling_t5")
    config = transformers.T5Config(d_model=32, d_kv=8, num_heads=4, is_decoder=decoder)
    layer = t5.T5Attention(config, has_relative_attention_bias=True, layer_idx=0)
    scheme = T5Bias(4, bidirectional=not decoder)
    scheme.table.data.copy_(layer.relative_attention_bias.weight.data)
    mine = ours(scheme, 4, sequence(200))
    same(mine.expand(1, -1, -1, -1) if mine.dim() == 3 else mine, layer.compute_bias(200, 200), 0.0)


@pytest.mark.compares("T5Bias", "x-transformers", "RelativePositionBias")
@pytest.mark.parametrize("decoder", [False, True])
def test_t5_bias_is_that_of_x_transformers(x_transformers, decoder, same):
    theirs = x_transformers.RelativePositionBias(scale=WIDTH**0.5, causal=decoder, heads=4)
    scheme = T5Bias(4, bidirectional=not decoder)
    # there the bias is multiplied, since its logits are divided: here the caller does neither, with scale=1
    scheme.table.data.copy_(theirs.relative_attention_bias.weight.data * WIDTH**0.5)
    same(ours(scheme, 4, sequence(7, start=93), sequence(100)), theirs(7, 100))


@pytest.mark.compares("Shaw", "transformers", "Wav2Vec2-BERT")
def test_shaw_on_keys_is_that_of_wav2vec2_bert(same):
    transformers = pytest.importorskip("transformers")
    code = pytest.importorskip("transformers.models.wav2vec2_bert.modeling_wav2vec2_bert")
    config = transformers.Wav2Vec2BertConfig(
        hidden_size=3 * WIDTH, num_attention_heads=3, position_embeddings_type="relative_key",
        left_max_position_embeddings=12, right_max_position_embeddings=12,
    )  # fmt: skip
    layer = code.Wav2Vec2BertSelfAttention(config)
    q, k = torch.randn(2, 2, 3, LENGTH, WIDTH).unbind()
    _, theirs = code._apply_relative_key_position_encoding(layer, q, k)
    scheme = Shaw(WIDTH, 12, values=False)
    scheme.keys.data.copy_(layer.distance_embedding.weight.data)
    where = scheme.prepare(sequence(LENGTH))
    # there the bias is divided by sqrt(d) before it is added, here all logits are
    same(scheme.bias(q, k, None, scheme.relate(where, where), None).detach() * WIDTH**-0.5, theirs.detach())


# of content ----------------------------------------------------------------------------------------------------------
@pytest.mark.compares("CoPE", "x-transformers", "CoPE")
def test_cope_is_that_of_x_transformers(x_transformers, same):
    q, k = torch.randn(2, 2, 3, LENGTH, WIDTH).unbind()
    q = q * WIDTH**-0.5  # here q carries the softmax scale in both equations; there the model multiplies the table by q
    theirs, scheme = x_transformers.CoPE(WIDTH, 3, max_pos=12), CoPE(WIDTH, 12)
    scheme.table.data.normal_()
    theirs.pos_emb.data.copy_(scheme.table.data)
    logits = (q @ k.mT).masked_fill(~causal(LENGTH), -torch.inf)  # its mask travels in the logits, ours is a site
    where = scheme.prepare(sequence(LENGTH))
    pair = scheme.relate(where, where)
    assert torch.equal(scheme.mask(pair), causal(LENGTH))
    mine, told = scheme.bias(q, k, None, pair, scheme.mask(pair)), theirs(q, logits)
    same(mine[..., causal(LENGTH)], told[..., causal(LENGTH)])
    weight = torch.randn_like(mine).tril()
    (given,) = torch.autograd.grad((mine * weight).sum(), scheme.table)
    (gotten,) = torch.autograd.grad((told * weight).sum(), theirs.pos_emb)
    same(given, gotten, 1e-4, 1e-4)


@pytest.mark.compares("FoX", "x-transformers", "DataDependentAlibi")
def test_fox_is_the_data_dependent_alibi_of_x_transformers(x_transformers, same):
    x, q = torch.randn(2, LENGTH, 24), torch.zeros(2, 3, LENGTH, WIDTH)
    theirs, scheme = x_transformers.DataDependentAlibi(24, 3), FoX(24, 3)
    linear = theirs.to_forget_gates[0]
    scheme.weight.data.copy_(linear.weight.data)
    scheme.offset.data.copy_(linear.bias.data)
    where = scheme.prepare(sequence(LENGTH))
    pair = scheme.relate(where, where)
    mine = scheme.bias(q, q, scheme.keep(x, where), pair, scheme.mask(pair))
    # above the diagonal there stand numbers for a mask to hide
    same(mine[..., causal(LENGTH)], theirs(x)[..., causal(LENGTH)])


# of windows ----------------------------------------------------------------------------------------------------------
@pytest.mark.compares("SwinBias", "transformers", "Swin")
@pytest.mark.parametrize("window", [(7, 7), (4, 6)])
def test_swin_bias_is_that_of_swin(window, same):
    swin = pytest.importorskip("transformers.models.swin.modeling_swin")
    theirs, scheme = swin.SwinRelativePositionBias(3, window), SwinBias(3, window)
    # rows count query minus key there, key minus query here
    theirs.relative_position_bias_table.data.copy_(scheme.table.data.flip(0))
    mine = ours(scheme, 3, grid(*window))
    same(mine.reshape(1, 3, *mine.shape[-2:]), theirs(), 0.0)


@pytest.mark.compares("LogCPB", "transformers", "Swin V2")
@pytest.mark.parametrize(("window", "made_for"), [((8, 8), None), ((4, 6), None), ((8, 8), (4, 4))])
def test_log_cpb_as_its_authors_ran_it_is_that_of_swin_v2(window, made_for, same):
    transformers = pytest.importorskip("transformers")
    swin = pytest.importorskip("transformers.models.swinv2.modeling_swinv2")
    config = transformers.Swinv2Config(attention_probs_dropout_prob=0.0)
    layer = swin.Swinv2SelfAttention(config, 24, 3, window, pretrained_window_size=made_for or (0, 0)).double()
    scheme = LogCPB(3, made_for or window, literal=True).double()
    scheme = scheme if made_for is None else scheme.moved(window)
    first, last = layer.continuous_position_bias_mlp[0], layer.continuous_position_bias_mlp[2]
    # offsets are query minus key there, key minus query here: the first layer's weights are negated
    first.weight.data.copy_(-scheme.inner.data.T.normal_())
    first.bias.data.copy_(scheme.offset.data.normal_())
    last.weight.data.copy_(scheme.outer.data.T)
    # its bias appears only in its logits: queries and keys at zero leave nothing else there
    for projection in (layer.query, layer.key):
        for parameter in projection.parameters():
            parameter.data.zero_()
    n = window[0] * window[1]
    weights = layer(torch.randn(1, n, 24, dtype=torch.float64), output_attentions=True)[1]
    mine = ours(scheme, 3, grid(*window)).softmax(-1)
    assert weights.std() > 1e-3
    same(mine.reshape(1, 3, n, n), weights, 1e-6)
