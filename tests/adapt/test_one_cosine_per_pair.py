"""gpt-oss: its ``rotary_emb`` gives one cosine for each pair of channels, and its attention has sinks."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch

from posenc import ALiBi, RoPE
from posenc.adapt import llama

transformers = pytest.importorskip("transformers")
pytestmark = pytest.mark.bare
SMALL = {
    "num_hidden_layers": 2, "num_local_experts": 4, "num_experts_per_tok": 2, "vocab_size": 50, "hidden_size": 64,
    "intermediate_size": 32, "head_dim": 16, "num_attention_heads": 4, "num_key_value_heads": 2, "sliding_window": 8,
    "max_position_embeddings": 256,
}  # fmt: skip
IDS = torch.arange(60).reshape(2, 30) % 50


def made(**options: Any) -> Any:
    torch.manual_seed(0)
    model = transformers.GptOssForCausalLM(transformers.GptOssConfig(**SMALL, **options)).eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, 0.0, 0.2)
    return model


@torch.no_grad()
def logits(model: Any) -> torch.Tensor:
    return model(IDS).logits


@pytest.fixture
def model() -> Any:
    yarn = {"rope_type": "yarn", "factor": 32.0, "beta_fast": 32.0, "beta_slow": 1.0, "truncate": False}
    return made(rope_parameters=yarn | {"rope_theta": 150000.0, "original_max_position_embeddings": 8})


def test_its_own_rotation_changes_no_logit(model: Any) -> None:
    before = logits(model)
    torch.testing.assert_close(logits(llama(copy.deepcopy(model))), before, atol=1e-5, rtol=0)


def test_another_base_is_that_of_the_library_also_from_files_and_with_a_cache(model: Any, tmp_path: Any) -> None:
    wanted = made(rope_parameters={"rope_type": "default", "rope_theta": 500.0})
    ours = llama(copy.deepcopy(model), RoPE(16, base=500.0, pairing="half"))
    assert float((logits(wanted) - logits(model)).abs().max()) > 0.1
    torch.testing.assert_close(logits(ours), logits(wanted), atol=1e-5, rtol=0)
    ours.save_pretrained(tmp_path)
    torch.testing.assert_close(
        logits(transformers.GptOssForCausalLM.from_pretrained(tmp_path)), logits(wanted), atol=1e-5, rtol=0
    )
    options = {"max_new_tokens": 8, "do_sample": False, "pad_token_id": 0}
    assert torch.equal(ours.generate(IDS, **options), wanted.generate(IDS, **options))


def test_other_pairs_and_schemes_beside_its_sinks_are_refused(model: Any) -> None:
    with pytest.raises(ValueError, match=r'For RoPE write RoPE\(16, pairing="half"\)'):
        llama(copy.deepcopy(model), RoPE(16))
    with pytest.raises(ValueError, match="has attention sinks"):
        llama(copy.deepcopy(model), ALiBi(4))


def test_cosines_that_no_function_of_the_model_applies_are_refused() -> None:
    class Angles(torch.nn.Module):
        def forward(self, x: torch.Tensor, ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            angle = ids[..., None] * 10.0 ** -torch.arange(8)
            return angle.cos(), angle.sin()

    strange: Any = torch.nn.Linear(8, 8)
    strange.rotary_emb = Angles()
    with pytest.raises(ValueError, match="gives the two channels of a pair different numbers"):
        llama(strange, RoPE(8, pairing="half"))
