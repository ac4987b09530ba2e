"""Per-layer recipes (iRoPE, RNoPE) with windows and chunks, against the layers and masks of transformers."""

import msgspec
import pytest
import torch

from posenc import (
    CausalNoPE,
    ChunkedAttention,
    FoX,
    NoPE,
    Positions,
    RoPE,
    SlidingWindow,
    Sum,
    Temperature,
    attention,
    sequence,
)
from posenc.adapt import llama
from posenc.lookup.scheme_text import parse
from posenc.models.language import LanguageConfig, LanguageModel
from posenc.models.layers import interleaved
from posenc.workbench.studies.language.variants import variant

CONFIG = LanguageConfig(vocabulary=11, dim=16, depth=4, heads=2, key_heads=1, hidden=16)
N = 20


def mask_of(scheme, pos=None):
    where = scheme.prepare(sequence(N) if pos is None else pos)
    return scheme.mask(scheme.relate(where, where))


@pytest.mark.parametrize(
    ("config", "module", "every"),
    [
        ("Llama4TextConfig", "llama4", 4),
        ("SmolLM3Config", "smollm3", 4),
        ("Cohere2Config", "cohere2", 4),
    ],
)
def test_the_layers_are_those_of_transformers(config, module, every):
    theirs = getattr(pytest.importorskip(f"transformers.models.{module}"), config)(num_hidden_layers=8)
    recipe = interleaved(RoPE(8), NoPE(), every=every)
    rotates = [isinstance(recipe(layer), RoPE) for layer in range(8)]
    if module == "cohere2":
        assert [kind == "sliding_attention" for kind in theirs.layer_types] == rotates
    else:
        assert [bool(one) for one in theirs.no_rope_layers] == rotates


@pytest.mark.oracles
@pytest.mark.compares("SlidingWindow", "transformers", "sliding_window_overlay")
@pytest.mark.compares("ChunkedAttention", "transformers", "chunked_overlay")
def test_windows_and_chunks_are_those_of_transformers(same):
    masks = pytest.importorskip("transformers.masking_utils")
    padding = torch.tensor([0, 3])
    i, j = torch.arange(N)[:, None], torch.arange(N)
    window = masks.sliding_window_overlay(5)
    same(mask_of(SlidingWindow(5)).float(), (window(0, 0, i, j) & (j <= i)).float(), 0.0)
    chunk = masks.chunked_overlay(6, padding)
    for sample, left in enumerate(padding.tolist()):
        pos = Positions((j - left)[:, None], j >= left)
        real = (j >= left) & (i >= left)
        same(
            (mask_of(ChunkedAttention(6), pos) & real).float(), (chunk(sample, 0, i, j) & (j <= i) & real).float(), 0.0
        )


def test_a_window_on_both_sides():
    i, j = torch.arange(N)[:, None], torch.arange(N)
    assert torch.equal(mask_of(SlidingWindow(4, causal=False)), (i - j).abs() <= 3)


def test_a_model_with_a_recipe_has_its_schemes_and_generates_the_same_in_parts():
    torch.manual_seed(0)
    local, full = Sum([RoPE(8), ChunkedAttention(4)]), Temperature(4)
    model = LanguageModel(CONFIG, interleaved(local, full))
    assert [model.unique_schemes[n] for n in model.scheme_of] == [local, local, local, full]
    tokens = torch.randint(11, (1, 12))
    short = model(tokens[:, :9])
    torch.testing.assert_close(model(tokens)[:, :9], short)  # causal: later tokens change nothing
    moved = tokens.clone()
    moved[:, 0] = (moved[:, 0] + 1) % 11
    only_local = LanguageModel(CONFIG, lambda layer: local)
    torch.testing.assert_close(only_local(moved)[:, 4:], only_local(tokens)[:, 4:])  # other chunks are not seen
    assert not torch.allclose(model(moved)[:, 4:], model(tokens)[:, 4:])  # the full layer sees them


def test_a_function_makes_a_scheme_for_each_layer():
    recipe = interleaved(lambda layer: FoX(16, 2), NoPE(), every=2)
    assert recipe(0) is not recipe(2)
    assert recipe(1) is recipe(3)


def test_an_adapted_model_takes_a_recipe():
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    config = transformers.SmolLM3Config(
        vocab_size=11, hidden_size=16, num_hidden_layers=4, num_attention_heads=2, num_key_value_heads=2,
        intermediate_size=16, pad_token_id=0, bos_token_id=1, eos_token_id=2,
    )  # fmt: skip
    model = transformers.SmolLM3ForCausalLM(config).eval()
    tokens = torch.randint(3, 11, (1, 12))
    with torch.no_grad():
        before = model(tokens).logits
        base = config.rope_parameters["rope_theta"]
        adapted = llama(model, interleaved(RoPE(8, base=base, pairing="half"), NoPE()))
        torch.testing.assert_close(adapted(tokens).logits, before, atol=1e-5, rtol=0)


def test_a_window_acts_beside_another_scheme():
    q, k, v = torch.randn(3, 1, 2, N, 8, generator=torch.Generator().manual_seed(0)).unbind()
    out = attention(q, k, v, scheme=Sum([RoPE(8), SlidingWindow(3)]), q_pos=sequence(N))
    want = attention(q, k, v, scheme=RoPE(8), q_pos=sequence(N), mask=mask_of(SlidingWindow(3)))
    torch.testing.assert_close(out, want)
    wide = attention(q, k, v, scheme=SlidingWindow(N), q_pos=sequence(N))
    torch.testing.assert_close(wide, attention(q, k, v, scheme=CausalNoPE(), q_pos=sequence(N)))


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: SlidingWindow(0), "size is a whole number of at least 1; got 0"),
        (lambda: ChunkedAttention(0), "a whole number of at least 1; got 0"),
        (lambda: interleaved(NoPE(), NoPE(), every=1), "every is a whole number of at least 2; got 1"),
    ],
)
def test_bad_input(make, sentence):
    with pytest.raises(ValueError, match=sentence):
        make()


@pytest.mark.bare  # The shape hook would refuse these before the sentences do.
@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: SlidingWindow(float("nan")), r"size is a whole number of at least 1; got nan. Try 4096"),
        (lambda: SlidingWindow(2.5), r"size is a whole number of at least 1; got 2\.5"),
        (lambda: SlidingWindow("3"), r"size is a whole number of at least 1; got '3'"),
        (lambda: SlidingWindow(None), r"size is a whole number of at least 1; got None"),
        (lambda: SlidingWindow(True), r"size is a whole number of at least 1; got True"),
        (lambda: SlidingWindow(3, causal="no"), r"takes causal=True or causal=False; got causal='no'"),
        (lambda: ChunkedAttention(2.5), r"a whole number of at least 1; got 2\.5"),
        (lambda: ChunkedAttention("3"), r"a whole number of at least 1; got '3'"),
        (lambda: interleaved(NoPE(), NoPE(), every="4"), r"whole number of at least 2; got '4'. Write every=4"),
        (lambda: interleaved(lambda _: None, NoPE())(0), r"returns a scheme, .* layer 0 got None"),
    ],
)
def test_arguments_of_another_type(make, sentence):
    with pytest.raises(ValueError, match=sentence):
        make()


def variant_of(label: str, depth: int = 5):
    return variant(label, msgspec.structs.replace(CONFIG, depth=depth), longest=64, window=16)


def test_the_study_of_language_takes_a_recipe_as_text():
    chosen = variant_of("interleaved(Sum([RoPE, SlidingWindow(4)]), NoPE, every=3)")
    kinds = [type(chosen.model(16).unique_schemes[n]).__name__ for n in chosen.model(16).scheme_of]
    assert kinds == ["Sum", "Sum", "NoPE", "Sum", "Sum"]
    assert variant_of("RoPE").schemes == (parse("RoPE"),)
    assert variant_of("interleaved(RoPE, NoPE)").schemes == (parse("RoPE"),) * 3 + (parse("NoPE"),)


@pytest.mark.parametrize(
    ("label", "sentence"),
    [
        ("interleaved(RoPE, NoPE, every=1)", r"n of at least 2, as interleaved\(RoPE, NoPE, every=4\); got"),
        ("interleaved(RoPE, NoPE, every=6)", r"every layer 6, and these models have 5 layers. Write every=5"),
        ("interleaved(RoPE)", "takes the scheme of most layers"),
        ("interleaved(RoPE, NoPE, often=2)", "takes the scheme of most layers"),
        ("interleaved(RoPE, Sinusoidd(3))", "no encoding 'Sinusoidd'. Did you mean Sinusoid"),
        ("interleaved(RoPE, SwinBias(window=(3, 3)))", "reads positions of 2 axes"),
    ],
)
def test_a_recipe_that_cannot_be(label, sentence):
    with pytest.raises(ValueError, match=sentence):
        variant_of(label)
