"""Schedules of frequencies, against transformers.modeling_rope_utils and the two libraries that know NTK scaling."""

import math

import pytest
import torch

from posenc import frequencies
from posenc.positions import sequence
from posenc.schemes.rope import RoPE

pytestmark = pytest.mark.oracles

WIDTH, BASE, TRAINED, EXTENDED = 64, 10000.0, 2048, 16384
PAIRS = WIDTH // 2
SHORT, LONG = [1 + 0.01 * i for i in range(PAIRS)], [1 + 0.5 * i for i in range(PAIRS)]


def theirs(kind, seq_len=None, reach=EXTENDED, **given):
    """Inverse frequencies and attention factor; there the numbers of a schedule are entries of a model's config."""
    transformers = pytest.importorskip("transformers")
    functions = pytest.importorskip("transformers.modeling_rope_utils").ROPE_INIT_FUNCTIONS
    parameters = {"rope_type": kind, "rope_theta": BASE, **given}
    config = transformers.LlamaConfig(
        hidden_size=2 * WIDTH, num_attention_heads=2, head_dim=WIDTH, max_position_embeddings=reach,
        rope_parameters=parameters,
    )  # fmt: skip
    return functions[kind](config, torch.device("cpu"), seq_len=seq_len)


@pytest.fixture
def same_schedule(same):
    """Compare a schedule. Theirs are computed in float32, so a relative 1e-6 is all that they hold."""

    def compare(mine, told):
        theta, factor = told
        mine = mine if isinstance(mine, frequencies.Frequencies) else frequencies.Frequencies(mine)
        same(mine.theta.float(), theta, 0.0, 1e-6)
        assert mine.attention_factor == pytest.approx(factor, rel=1e-12)

    return compare


@pytest.mark.compares("linear", "transformers", "ROPE_INIT_FUNCTIONS")
@pytest.mark.parametrize("factor", [1.0, 4.0, 7.5])
def test_linear(factor, same_schedule):
    same_schedule(frequencies.linear(PAIRS, factor=factor), theirs("linear", factor=factor))


@pytest.mark.compares("dynamic_ntk", "transformers", "ROPE_INIT_FUNCTIONS")
@pytest.mark.parametrize("length", [100, TRAINED, 5000, 20000])
@pytest.mark.parametrize("factor", [1.0, 4.0])
def test_dynamic_ntk(length, factor, same_schedule):
    # the length of training is max_position_embeddings there
    told = theirs("dynamic", seq_len=length, reach=TRAINED, factor=factor)
    same_schedule(frequencies.dynamic_ntk(PAIRS, length=length, trained=TRAINED, factor=factor), told)


@pytest.mark.compares("ntk", "transformers", "ROPE_INIT_FUNCTIONS")
@pytest.mark.parametrize("factor", [2.0, 8.0])
def test_ntk_is_the_dynamic_one_at_that_stretch(factor, same_schedule):
    told = theirs("dynamic", seq_len=int(factor * TRAINED), reach=TRAINED, factor=1.0)
    same_schedule(frequencies.ntk(PAIRS, factor=factor), told)


@pytest.mark.compares("ntk", "rotary-embedding-torch", "RotaryEmbedding")
@pytest.mark.compares("ntk", "x-transformers", "RotaryEmbedding")
@pytest.mark.parametrize("factor", [2.0, 8.0])
def test_ntk_is_the_rescaled_base_of_the_rotary_libraries(factor, same_schedule):
    rotary, xt = (pytest.importorskip(n) for n in ("rotary_embedding_torch", "x_transformers.x_transformers"))
    mine = frequencies.ntk(PAIRS, factor=factor)
    same_schedule(mine, (rotary.RotaryEmbedding(WIDTH, theta_rescale_factor=factor).freqs.detach(), 1.0))
    same_schedule(mine, (xt.RotaryEmbedding(WIDTH, base_rescale_factor=factor).inv_freq, 1.0))


@pytest.mark.compares("yarn", "transformers", "ROPE_INIT_FUNCTIONS")
@pytest.mark.parametrize(
    ("ours", "given"),
    [
        ({}, {}),
        ({"alpha": 2.0, "beta": 16.0}, {"beta_slow": 2.0, "beta_fast": 16.0}),
        ({"attention_factor": 1.25}, {"attention_factor": 1.25}),
    ],
)
@pytest.mark.parametrize("factor", [1.0, 4.0, 32.0])
def test_yarn_as_its_authors_ran_it(ours, given, factor, same_schedule):
    # beta_fast is the paper's beta, beta_slow its alpha
    told = theirs("yarn", factor=factor, original_max_position_embeddings=TRAINED, **given)
    same_schedule(frequencies.yarn(PAIRS, factor=factor, trained=TRAINED, literal=True, **ours), told)


def test_the_ramp_of_yarns_paper_is_another_and_ends_alike():
    theta, factor = theirs("yarn", factor=8.0, original_max_position_embeddings=TRAINED)
    mine = frequencies.yarn(PAIRS, factor=8.0, trained=TRAINED)
    turns = TRAINED * frequencies.geometric(PAIRS, base=BASE) / (2 * math.pi)
    apart = (mine.theta / theta.double() - 1).abs()
    # the paper's ramp (eq. 18) is linear in the number of turns; released code's is linear in the index of the pair
    assert apart[(turns > 1) & (turns < 32)].max() > 0.1
    first, last = int((turns >= 32).sum()) - 1, int((turns > 1).sum()) + 1
    assert max(apart[:first].max(), apart[last:].max()) < 1e-6
    assert mine.attention_factor == pytest.approx(factor, rel=1e-12)


@pytest.mark.compares("llama3", "transformers", "ROPE_INIT_FUNCTIONS")
@pytest.mark.parametrize("bounds", [(1.0, 4.0), (0.5, 8.0)])
def test_llama3(bounds, same_schedule):
    low, high = bounds
    told = theirs(
        "llama3", factor=8.0, low_freq_factor=low, high_freq_factor=high, original_max_position_embeddings=TRAINED
    )
    same_schedule(frequencies.llama3(PAIRS, factor=8.0, trained=TRAINED, base=BASE, low=low, high=high), told)


@pytest.mark.compares("longrope", "transformers", "ROPE_INIT_FUNCTIONS")
@pytest.mark.parametrize(("seq_len", "rescale"), [(TRAINED, SHORT), (TRAINED + 1, LONG)], ids=["short", "long"])
def test_longrope(seq_len, rescale, same_schedule):
    # the list is chosen there by the length at hand and here by the caller; s there is ``factor`` or the two lengths'
    # ratio, here always the ratio
    told = theirs(
        "longrope", seq_len, factor=EXTENDED / TRAINED, original_max_position_embeddings=TRAINED, short_factor=SHORT,
        long_factor=LONG,
    )  # fmt: skip
    same_schedule(frequencies.longrope(rescale, trained=TRAINED, extended=EXTENDED, base=BASE), told)


@pytest.mark.compares("RoPE", "transformers", "Llama")
@pytest.mark.parametrize("kind", ["yarn", "longrope"])
def test_the_attention_factor_meets_queries_and_keys_alike(kind, same):
    transformers = pytest.importorskip("transformers")
    llama = pytest.importorskip("transformers.models.llama.modeling_llama")
    mine, given = {
        "yarn": (frequencies.yarn(PAIRS, factor=8.0, trained=TRAINED, literal=True), {}),
        "longrope": (
            frequencies.longrope(SHORT, trained=TRAINED, extended=EXTENDED),
            {"short_factor": SHORT, "long_factor": LONG},
        ),
    }[kind]
    config = transformers.LlamaConfig(
        hidden_size=2 * WIDTH, num_attention_heads=2, head_dim=WIDTH, max_position_embeddings=EXTENDED,
        rope_parameters={"rope_type": kind, "rope_theta": BASE, "factor": 8.0,
                         "original_max_position_embeddings": TRAINED, **given},
    )  # fmt: skip
    q, k = torch.randn(2, 1, 2, 30, WIDTH).unbind()
    told = llama.apply_rotary_pos_emb(q, k, *llama.LlamaRotaryEmbedding(config)(q, torch.arange(30)[None]))
    scheme = RoPE(WIDTH, frequencies=mine, pairing="half")
    where = scheme.prepare(sequence(30))
    same(scheme.transform(q, where, "q"), told[0])
    same(scheme.transform(k, where, "k"), told[1])
