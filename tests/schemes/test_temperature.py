"""Temperature of position, by hand and as the released models compute it."""

import math

import pytest
import torch

from posenc import CausalNoPE, NoPE, Positions, RoPE, Sum, Temperature, attention, sequence


def test_steps_by_hand():
    factor = Temperature(length=4).prepare(sequence(12))
    steps = [0] * 3 + [1] * 4 + [2] * 4 + [3]  # 1 is added to each position, as in Llama 4
    assert factor.tolist() == pytest.approx([1 + 0.1 * math.log(1 + step) for step in steps])
    plain = Temperature(length=4, offset=0.0).prepare(sequence(5))
    assert plain.tolist() == pytest.approx([1] * 4 + [1 + 0.1 * math.log(2)])
    smooth = Temperature(length=4, smooth=True).prepare(sequence(9))
    assert smooth.tolist() == pytest.approx([1 + 0.1 * math.log(max((n + 1) / 4, 1)) for n in range(9)])


def test_positions_before_the_first_and_tokens_without_one_stay():
    pos = Positions(torch.tensor([[-50.0], [100.0], [100.0]]), torch.tensor([True, False, True]))
    assert Temperature(length=4).prepare(pos).tolist() == pytest.approx([1, 1, 1 + 0.1 * math.log(26)])


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
def test_a_constant_temperature_divides_the_logits(temperature):
    q, k, v = torch.randn(3, 1, 2, 6, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    found = attention(q, k, v, scheme=CausalNoPE(temperature), q_pos=sequence(6))
    want = attention(q / temperature, k, v, scheme=NoPE(), q_pos=sequence(6), causal=True)
    torch.testing.assert_close(found, want)


def test_as_transformers_computes_it_for_llama_4():
    pytest.importorskip("transformers")
    from transformers.models.llama4.modeling_llama4 import Llama4TextAttention, Llama4TextConfig

    config = Llama4TextConfig(hidden_size=32, num_attention_heads=2, num_key_value_heads=2, head_dim=16, floor_scale=8)
    theirs = Llama4TextAttention(config, layer_idx=3)
    n = torch.arange(40)
    scales = torch.log(torch.floor((n.float() + 1.0) / theirs.floor_scale) + 1.0) * theirs.attn_scale + 1.0
    torch.testing.assert_close(Temperature(8, alpha=theirs.attn_scale).prepare(sequence(40)), scales)


@pytest.mark.compares("Temperature", "transformers", "Ministral 3")
def test_as_transformers_computes_it_for_ministral_3(same):
    code = pytest.importorskip("transformers.models.ministral3.modeling_ministral3")
    ids = torch.arange(40)[None]
    theirs = code.get_llama_4_attn_scale(ids, 0.1, 8).flatten().float()
    same(Temperature(8, offset=0.0).prepare(sequence(40)), theirs, 1e-6)


def test_it_multiplies_the_products_of_a_query_beside_another_scheme():
    torch.manual_seed(0)
    q, k, v = torch.randn(3, 1, 2, 10, 8).unbind()
    both = Sum([RoPE(8), Temperature(length=4)], translation="none")
    factor = Temperature(length=4).prepare(sequence(10))[:, None]
    want = attention(q * factor, k, v, scheme=RoPE(8), q_pos=sequence(10))
    torch.testing.assert_close(attention(q, k, v, scheme=both, q_pos=sequence(10)), want)


@pytest.mark.parametrize("options", [{"length": 0.0}, {"alpha": -1.0}, {"offset": math.nan}, {"length": math.inf}])
def test_bad_input(options):
    with pytest.raises(ValueError, match="Temperature needs length above 0 and alpha of at least 0, all finite"):
        Temperature(**options)
