"""The libraries themselves, where they are installed: transformers' models and timm's ViTs, before and after."""

import pytest
import torch

from posenc.adapt import llama, vision_transformer
from posenc.positions import Positions, grid
from posenc.schemes.rope import RoPE
from posenc.schemes.sinusoid import Sinusoid

pytestmark = pytest.mark.oracles

SMALL = {
    "hidden_size": 64,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "num_hidden_layers": 2,
    "intermediate_size": 64,
    "vocab_size": 50,
    "max_position_embeddings": 64,
}
ROTATIONS = [
    {"rope_type": "default", "rope_theta": 500.0},
    {"rope_type": "linear", "rope_theta": 500.0, "factor": 4.0},
    {"rope_type": "dynamic", "rope_theta": 500.0, "factor": 4.0},
    {"rope_type": "llama3", "rope_theta": 500.0, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
     "original_max_position_embeddings": 32},
    {"rope_type": "yarn", "rope_theta": 500.0, "factor": 4.0, "original_max_position_embeddings": 16},
    {"rope_type": "yarn", "rope_theta": 500.0, "factor": 4.0, "original_max_position_embeddings": 16,
     "beta_fast": 8.0, "beta_slow": 2.0, "mscale": 2.0, "mscale_all_dim": 0.5},
    {"rope_type": "longrope", "rope_theta": 500.0, "short_factor": [1.0, 1.1, 1.2, 1.5, 2.0, 3.0, 4.0, 5.0],
     "long_factor": [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0], "original_max_position_embeddings": 16},
]  # fmt: skip


def logits(model, length):
    ids = (torch.arange(2 * length) * 7 % 50).view(2, length)
    with torch.no_grad():
        return model(ids).logits


@pytest.mark.parametrize("rotation", ROTATIONS, ids=lambda r: r["rope_type"])
@pytest.mark.parametrize("length", [12, 60, 100])
def test_a_llama_with_its_own_rotation_says_the_same(rotation, length):
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**SMALL, rope_parameters=rotation)).eval()
    before = logits(model, length)
    llama(model, length=length)
    torch.testing.assert_close(logits(model, length), before, atol=1e-5, rtol=0)


@pytest.mark.parametrize("name", ["Llama", "Mistral", "Qwen2", "Qwen3", "Phi", "StableLm", "Granite", "Olmo2"])
def test_others_of_its_kind(name):
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    config = getattr(transformers, f"{name}Config")(**SMALL, pad_token_id=0)
    model = getattr(transformers, f"{name}ForCausalLM")(config).eval()
    before = logits(model, 20)
    llama(model)
    torch.testing.assert_close(logits(model, 20), before, atol=1e-5, rtol=0)


def test_the_old_spelling_and_generation_with_a_cache():
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    config = transformers.LlamaConfig(**SMALL, rope_theta=500.0, rope_scaling={"type": "linear", "factor": 2.0})
    model = transformers.LlamaForCausalLM(config).eval()
    ids = torch.arange(8)[None]
    options = {"max_new_tokens": 20, "do_sample": False, "pad_token_id": 0}
    before = model.generate(ids, **options)
    assert torch.equal(llama(model).generate(ids, **options), before)
    other = logits(llama(model, RoPE(16, base=20.0, pairing="half")), 20)
    config.rope_parameters = {"rope_type": "default", "rope_theta": 20.0}
    wanted = transformers.LlamaForCausalLM(config).eval()
    wanted.load_state_dict(model.state_dict())
    torch.testing.assert_close(other, logits(wanted, 20), atol=1e-5, rtol=0)


@pytest.mark.parametrize("name", ["Gemma3Text", "GptOss"])
def test_what_is_not_of_its_kind_is_refused(name):
    transformers = pytest.importorskip("transformers")
    small = {name: value for name, value in SMALL.items() if name != "vocab_size"}
    config = getattr(transformers, f"{name}Config")(**small, vocab_size=50)
    kind = {"Gemma3Text": "Gemma3ForCausalLM"}.get(name, f"{name}ForCausalLM")
    with pytest.raises(ValueError, match=r"has a rotation for each of|truncate=False has another ramp"):
        llama(getattr(transformers, kind)(config))


@pytest.mark.parametrize(
    "options", [{}, {"no_embed_class": True}, {"reg_tokens": 4}, {"class_token": False, "global_pool": "avg"}]
)
def test_a_vit_of_timm_adds_the_rows(timm, options):
    torch.manual_seed(0)
    model = timm.models.VisionTransformer(
        img_size=(32, 48), patch_size=16, embed_dim=24, depth=2, num_heads=2, num_classes=5, **options
    ).eval()
    scheme, picture = Sinusoid(24, axes=2), torch.randn(2, 3, 32, 48)
    prefix = model.pos_embed.shape[1] - 6
    pos = grid(2, 3)
    coords = torch.cat([pos.coords.new_zeros(prefix, 2), pos.coords])
    rows = scheme.embed(scheme.prepare(Positions(coords, torch.arange(len(coords)) >= prefix)))
    with torch.no_grad():
        model.pos_embed.copy_(rows)
        wanted = model(picture)
        model.pos_embed.normal_()
        torch.testing.assert_close(vision_transformer(model, scheme)(picture), wanted)
