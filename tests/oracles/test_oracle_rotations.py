"""Rotations of q and k, against rotary-embedding-torch, x-transformers, transformers and timm: the same channels."""

import math

import pytest
import torch

from posenc.frequencies import geometric
from posenc.positions import Positions, grid, sequence
from posenc.schemes.axial_rope import AxialRoPE
from posenc.schemes.mixed_rope import MixedRoPE
from posenc.schemes.pope import PoPE
from posenc.schemes.rope import RoPE
from posenc.schemes.sectioned_rope import SectionedRoPE
from posenc.schemes.xpos import XPos

pytestmark = pytest.mark.oracles

LENGTH, WIDTH, HEADS = 40, 24, 3
CLOSE = {torch.float32: 1e-5, torch.float64: 1e-12}


@pytest.fixture
def rotary_embedding_torch():
    return pytest.importorskip("rotary_embedding_torch")


@pytest.fixture
def x_transformers():
    return pytest.importorskip("x_transformers.x_transformers")


def queries_and_keys(length=LENGTH, width=WIDTH, dtype=torch.float32):
    return torch.randn(2, 2, HEADS, length, width, dtype=dtype).unbind()


def ours(scheme, pos, q, k):
    where = scheme.prepare(pos)
    return scheme.transform(q, where, "q"), scheme.transform(k, where, "k")


def logits(pair):
    q, k = pair
    return q @ k.mT


@pytest.mark.compares("RoPE", "rotary-embedding-torch", "RotaryEmbedding")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_rope_interleaved_is_that_of_rotary_embedding_torch(rotary_embedding_torch, dtype, same):
    q, k = queries_and_keys(dtype=dtype)
    # its own frequencies and its cache are float32 whatever the dtype: float64 ones are handed in, and nothing cached
    theirs = rotary_embedding_torch.RotaryEmbedding(
        WIDTH, custom_freqs=geometric(WIDTH // 2).to(dtype), cache_if_possible=False
    )
    places = Positions(torch.arange(7, LENGTH + 7, dtype=dtype)[:, None])  # here float64 angles need float64 positions
    for x, y in zip(ours(RoPE(WIDTH), places, q, k), (q, k), strict=True):
        same(x, theirs.rotate_queries_or_keys(y, offset=7), CLOSE[dtype])


@pytest.mark.compares("RoPE", "rotary-embedding-torch", "RotaryEmbedding")
def test_rope_interleaved_with_its_own_frequencies_and_cache(rotary_embedding_torch, same):
    q, k = queries_and_keys()
    theirs = rotary_embedding_torch.RotaryEmbedding(WIDTH)
    mine = ours(RoPE(WIDTH), sequence(LENGTH), q, k)
    for x, y in zip(mine, (q, k), strict=True):
        same(x, theirs.rotate_queries_or_keys(y))


@pytest.mark.compares("RoPE", "rotary-embedding-torch", "RotaryEmbedding")
def test_a_part_of_the_head_turns_where_the_library_is_built_narrower(rotary_embedding_torch, same):
    q, k = queries_and_keys()
    theirs = rotary_embedding_torch.RotaryEmbedding(16)
    mine = ours(RoPE(16, of=WIDTH), sequence(LENGTH), q, k)
    for x, y in zip(mine, (q, k), strict=True):
        same(x, theirs.rotate_queries_or_keys(y))


@pytest.mark.compares("RoPE", "x-transformers", "RotaryEmbedding")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_rope_interleaved_is_that_of_x_transformers_at_any_real_position(x_transformers, dtype, same):
    q, k = queries_and_keys(dtype=dtype)
    places = torch.rand(2, LENGTH, dtype=dtype) * 50  # each sample its own, between the whole ones
    theirs = x_transformers.RotaryEmbedding(WIDTH).to(dtype)
    theirs.inv_freq = geometric(WIDTH // 2).to(dtype)  # a fresh float32 buffer is 1e-7 off, too far for float64
    angles, scale = theirs(places)
    mine = ours(RoPE(WIDTH), Positions(places[..., None]), q, k)
    for x, y in zip(mine, (q, k), strict=True):
        same(x, x_transformers.apply_rotary_pos_emb(y, angles, scale), CLOSE[dtype])


@pytest.mark.compares("RoPE", "transformers", "Llama")
@pytest.mark.parametrize("base", [10000.0, 500.0])
def test_rope_half_is_that_of_llama_in_transformers(base, same):
    transformers = pytest.importorskip("transformers")
    llama = pytest.importorskip("transformers.models.llama.modeling_llama")
    q, k = queries_and_keys()
    config = transformers.LlamaConfig(
        hidden_size=HEADS * WIDTH, num_attention_heads=HEADS, head_dim=WIDTH,
        rope_parameters={"rope_type": "default", "rope_theta": base},
    )  # fmt: skip
    cos, sin = llama.LlamaRotaryEmbedding(config)(q, torch.arange(LENGTH)[None])
    theirs = llama.apply_rotary_pos_emb(q, k, cos, sin)
    for x, y in zip(ours(RoPE(WIDTH, pairing="half", base=base), sequence(LENGTH), q, k), theirs, strict=True):
        same(x, y)


@pytest.mark.compares("RoPE", "transformers", "GPT-J")
def test_rope_interleaved_is_that_of_gpt_j_in_transformers(same):
    gptj = pytest.importorskip("transformers.models.gptj.modeling_gptj")
    q, k = queries_and_keys()
    sin, cos = gptj.create_sinusoidal_positions(LENGTH, WIDTH)[None].chunk(2, -1)
    for x, y in zip(ours(RoPE(WIDTH), sequence(LENGTH), q, k), (q, k), strict=True):
        same(x, gptj.apply_rotary_pos_emb(y.transpose(1, 2), sin, cos).transpose(1, 2))  # heads after tokens there


@pytest.mark.compares("AxialRoPE", "rotary-embedding-torch", "get_axial_freqs")
@pytest.mark.parametrize("shape", [(5, 7), (7, 5), (2, 3, 4)])
def test_axial_rope_is_that_of_rotary_embedding_torch(rotary_embedding_torch, shape, same):
    pos = grid(*shape)
    q, k = queries_and_keys(length=pos.count)
    # base 10000 there and 100 here; it is built for the width of one axis, whose pairs its exponent counts, as here
    theirs = rotary_embedding_torch.RotaryEmbedding(WIDTH // len(shape), freqs_for="lang")
    angles = theirs.get_axial_freqs(*shape).reshape(pos.count, WIDTH)
    for x, y in zip(ours(AxialRoPE(WIDTH, len(shape), base=10000.0), pos, q, k), (q, k), strict=True):
        same(x, rotary_embedding_torch.apply_rotary_emb(angles, y))


@pytest.mark.compares("AxialRoPE", "transformers", "DINOv3")
def test_axial_rope_in_halves_is_that_of_dinov3_in_transformers(same):
    transformers = pytest.importorskip("transformers")
    dino = pytest.importorskip("transformers.models.dinov3_vit.modeling_dinov3_vit")
    config = transformers.DINOv3ViTConfig(hidden_size=HEADS * WIDTH, num_attention_heads=HEADS, patch_size=4)
    cos, sin = dino.DINOv3ViTRopePositionEmbedding(config).eval()(torch.zeros(1, 3, 20, 28))
    q, k = queries_and_keys(length=2 + 5 * 7)
    theirs = dino.apply_rotary_pos_emb(q, k, cos, sin)
    # whole turns of the middle of a patch between -1 and 1 there, patches here; class token and register have no place
    middles = (grid(5, 7).coords + 0.5) / torch.tensor([5, 7]) * 2 - 1
    pos = Positions(torch.cat([torch.zeros(2, 2), 2 * math.pi * middles]), placed=torch.arange(2 + 5 * 7) >= 2)
    for x, y in zip(ours(AxialRoPE(WIDTH, base=100.0, pairing="half"), pos, q, k), theirs, strict=True):
        same(x, y)


@pytest.mark.compares("MixedRoPE", "timm", "RotaryEmbeddingMixed")
def test_mixed_rope_is_that_of_timm(timm, same):
    theirs = timm.layers.RotaryEmbeddingMixed(HEADS * WIDTH, depth=1, num_heads=HEADS, feat_shape=[5, 7])
    scheme = MixedRoPE(WIDTH, HEADS)
    # columns before rows there
    scheme.directions.data.copy_(theirs.freqs.data[:, 0].flip(0).transpose(0, 1))
    q, k = queries_and_keys(length=35)
    for x, y in zip(ours(scheme, grid(5, 7), q, k), (q, k), strict=True):
        same(x.detach(), timm.layers.apply_rot_embed_cat(y, theirs.get_embed()[0]).detach())


@pytest.mark.compares("SectionedRoPE", "transformers", "Qwen 2 VL")
def test_sectioned_rope_is_that_of_qwen2_vl_in_transformers(same):
    transformers = pytest.importorskip("transformers")
    qwen = pytest.importorskip("transformers.models.qwen2_vl.modeling_qwen2_vl")
    q, k = queries_and_keys()
    places, sections = torch.randint(0, 30, (2, LENGTH, 3)), (2, 5, 5)
    config = transformers.Qwen2VLConfig().text_config
    config.head_dim = WIDTH
    config.rope_parameters = {"rope_type": "default", "rope_theta": 1e6, "mrope_section": list(sections)}
    cos, sin = qwen.Qwen2VLRotaryEmbedding(config)(q, places.permute(2, 0, 1))  # the axis stands first there
    theirs = qwen.apply_rotary_pos_emb(q, k, cos, sin)
    for x, y in zip(ours(SectionedRoPE(WIDTH, sections), Positions(places), q, k), theirs, strict=True):
        same(x, y)


def centred_as_released(head_dim, length):
    """Released code centres the growth at ``length // 2`` of the text at hand; here it is fixed at ``extent / 2``."""
    return XPos(head_dim, extent=2 * (length // 2))


@pytest.mark.compares("XPos", "rotary-embedding-torch", "RotaryEmbedding")
@pytest.mark.parametrize("length", [40, 41])
def test_xpos_is_that_of_rotary_embedding_torch(rotary_embedding_torch, length, same):
    q, k = queries_and_keys(length=length)
    theirs = rotary_embedding_torch.RotaryEmbedding(WIDTH, use_xpos=True)
    mine = ours(centred_as_released(WIDTH, length), sequence(length), q, k)
    for x, y in zip(mine, theirs.rotate_queries_and_keys(q, k), strict=True):
        same(x, y)


@pytest.mark.compares("XPos", "x-transformers", "RotaryEmbedding")
def test_xpos_is_that_of_x_transformers(x_transformers, same):
    q, k = queries_and_keys()
    angles, scale = x_transformers.RotaryEmbedding(WIDTH, use_xpos=True)(torch.arange(LENGTH))
    theirs = (
        x_transformers.apply_rotary_pos_emb(q, angles, scale),
        x_transformers.apply_rotary_pos_emb(k, angles, scale**-1),
    )
    for x, y in zip(ours(centred_as_released(WIDTH, LENGTH), sequence(LENGTH), q, k), theirs, strict=True):
        same(x, y)
    # the centre cancels in the logits, so any longer extent gives the same ones
    mine = logits(ours(XPos(WIDTH, extent=1000), sequence(LENGTH), q, k))
    same(mine, logits(theirs), 1e-5, 1e-5)


def test_their_xpos_keys_grow_stale_as_the_text_grows_and_ours_do_not(x_transformers):
    rotary = x_transformers.RotaryEmbedding(WIDTH, use_xpos=True)
    early, late = (rotary(torch.arange(length))[1][0, 10] for length in (64, 80))
    assert (early / late - 1).abs().max() > 0.01  # because the centre is max_pos // 2 of the text at hand
    scheme, k = XPos(WIDTH, extent=80), torch.randn(1, 1, 80, WIDTH)
    early, late = (scheme.transform(k[:, :, :n], scheme.prepare(sequence(n)), "k")[0, 0, 10] for n in (64, 80))
    assert torch.equal(early, late)


@pytest.mark.compares("PoPE", "x-transformers", "PolarEmbedding")
def test_pope_is_polar_embedding_of_x_transformers(x_transformers, same):
    q, k = queries_and_keys()
    theirs, scheme = x_transformers.PolarEmbedding(WIDTH, HEADS), PoPE(WIDTH, HEADS, initial="uniform")
    # handed over, since its own bias_uniform_init writes in place to a leaf, which raises
    theirs.learned_bias.data = scheme.delta.data[:, None].clone()
    angles, bias = theirs(torch.arange(LENGTH))
    polar = x_transformers.apply_polar_pos_emb
    mine = ours(scheme, sequence(LENGTH), q, k)
    for x, y in zip(mine, (polar(q, angles), polar(k, angles + bias)), strict=True):
        same(x, y)
    (given,) = torch.autograd.grad(logits(mine).square().sum(), scheme.delta)
    (gotten,) = torch.autograd.grad(
        logits((polar(q, angles), polar(k, angles + bias))).square().sum(), theirs.learned_bias
    )
    same(given, gotten[:, 0], 1e-5 * gotten.abs().max().item(), 1e-4)
