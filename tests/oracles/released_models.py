"""The code of released models in transformers, compared with lines of docs/released-models.md."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any

import pytest
import torch
from torch import Tensor

import posenc
from posenc import sequence

N = 20
Same = Callable[..., None]

ROTARY: dict[tuple[str, str], list[tuple[str, str, str | None]]] = {
    ("GPT-NeoX, Pythia", "all"): [("gpt_neox", "GPTNeoX", None)],
    ("Llama 2", "all"): [("llama", "Llama", None)],
    ("Mistral", "all"): [("mistral", "Mistral", None)],
    ("Qwen 2, Qwen 3", "all"): [("qwen2", "Qwen2", None), ("qwen3", "Qwen3", None)],
    ("Gemma, Gemma 2", "all"): [("gemma", "Gemma", None), ("gemma2", "Gemma2", None)],
    ("Gemma 3", "five of six, sliding"): [("gemma3", "Gemma3Text", "sliding_attention")],
    ("Gemma 3", "one of six, full"): [("gemma3", "Gemma3Text", "full_attention")],
    ("Gemma 4", "sliding"): [("gemma4", "Gemma4Text", "sliding_attention")],
    ("Gemma 4", "full"): [("gemma4", "Gemma4Text", "full_attention")],
    ("Phi", "all"): [("phi", "Phi", None)],
    ("Phi 3", "all"): [("phi3", "Phi3", None)],
    ("Falcon", "all"): [("falcon", "Falcon", None)],
    ("StableLM", "all"): [("stablelm", "StableLm", None)],
    ("Persimmon", "all"): [("persimmon", "Persimmon", None)],
    ("Nemotron", "all"): [("nemotron", "Nemotron", None)],
    ("Starcoder 2, OLMo 2, Granite", "all"): [
        ("starcoder2", "Starcoder2", None), ("olmo2", "Olmo2", None), ("granite", "Granite", None),
    ],
    ("GLM, GLM 4", "all"): [("glm", "Glm", None), ("glm4", "Glm4", None)],
    ("Cohere Command R", "all"): [("cohere", "Cohere", None)],
    ("Cohere Command A", "three of four, sliding"): [("cohere2", "Cohere2", None)],
    ("SmolLM 3", "three of four"): [("smollm3", "SmolLM3", None)],
    ("EXAONE 4", "sliding"): [("exaone4", "Exaone4", None)],
    ("ModernBERT", "sliding"): [("modernbert", "ModernBert", "sliding_attention")],
    ("ModernBERT", "full"): [("modernbert", "ModernBert", "full_attention")],
}  # fmt: skip
"""Family and layers -> modules and classes of transformers, and the kind of layer."""
CHANGED = {"Llama 3.1": {"rope_parameters": {
    "rope_type": "llama3", "rope_theta": 500000.0, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192,
}}}  # fmt: skip
"""Released settings that are not the default configuration."""


def rotated(module: str, name: str, kind: str | None, width: int, settings: dict[str, Any]) -> tuple[Tensor, Tensor]:
    """Queries (1, 2, N, width) before and after the rotation of a model."""
    code = importlib.import_module(f"transformers.models.{module}.modeling_{module}")
    config = getattr(importlib.import_module("transformers"), f"{name}Config")(**settings)
    plain = name.removesuffix("Text")
    classes = [
        f"{each}RotaryEmbedding" for each in (name, plain, f"{plain}Text") if hasattr(code, f"{each}RotaryEmbedding")
    ]
    q = torch.randn(1, 2, N, width, generator=torch.Generator().manual_seed(0))
    ids = torch.arange(N)[None]
    embedding = getattr(code, classes[0])(config=config)
    cos, sin = embedding(q, ids, kind) if kind else embedding(q, ids)
    turned = cos.shape[-1]
    if module.startswith("gemma4"):
        part = code.apply_rotary_pos_emb(q[..., :turned], cos, sin, unsqueeze_dim=1)
    else:
        part, _ = code.apply_rotary_pos_emb(q[..., :turned], q[..., :turned], cos, sin)
    return q, torch.cat([part, q[..., turned:]], -1)


def rotation(family: str, models: list[tuple[str, str, str | None]]) -> Any:
    def compare(scheme: Any, same: Same) -> None:
        pytest.importorskip("transformers")
        for module, name, kind in models:
            width = scheme.of or scheme.head_dim
            q, want = rotated(module, name, kind, width, CHANGED.get(family, {}))
            found = scheme.transform(q, scheme.prepare(sequence(N)), "q")
            same(found, want)

    return compare


def bloom(scheme: Any, same: Same) -> None:
    code = pytest.importorskip("transformers.models.bloom.modeling_bloom")
    theirs = code.build_alibi_tensor(torch.ones(1, N), 8, torch.float32).reshape(8, N)
    slopes = theirs[:, 1] - theirs[:, 0]  # keys alone: the softmax removes what a row shares
    same(torch.tensor(scheme.slopes), slopes, 1e-6)


def mpt(scheme: Any, same: Same) -> None:
    code = pytest.importorskip("transformers.models.mpt.modeling_mpt")
    theirs = code.build_mpt_alibi_tensor(16, N).reshape(16, N)
    slopes = theirs[:, 1] - theirs[:, 0]
    same(torch.tensor(scheme.slopes), slopes, 1e-6)


def llama4_rotation(scheme: Any, same: Same) -> None:
    code = pytest.importorskip("transformers.models.llama4.modeling_llama4")
    config = pytest.importorskip("transformers").Llama4TextConfig()
    q = torch.randn(1, N, 2, 128, generator=torch.Generator().manual_seed(0))
    phases = code.Llama4TextRotaryEmbedding(config=config)(q, torch.arange(N)[None])
    want, _ = code.apply_rotary_emb(q, q, phases)
    found = scheme.transform(q.transpose(1, 2), scheme.prepare(sequence(N)), "q")
    same(found, want.transpose(1, 2))


def llama4_temperature(scheme: Any) -> None:
    config = pytest.importorskip("transformers").Llama4TextConfig()
    assert (scheme.length, scheme.alpha, scheme.offset) == (config.floor_scale, config.attn_scale, 1.0)


def ernie(scheme: Any, same: Same) -> None:
    code = pytest.importorskip("transformers.models.ernie4_5_vl_moe.modeling_ernie4_5_vl_moe")
    config = pytest.importorskip("transformers").Ernie4_5_VLMoeTextConfig()
    q, pos = torch.randn(1, 2, N, 128, generator=torch.Generator().manual_seed(0)), posenc.multimodal([4, (2, 2, 4)])
    cos, sin = code.Ernie4_5_VLMoeTextRotaryEmbedding(config)(q, pos.coords.T[:, None])
    want, _ = code.apply_rotary_pos_emb(q, q, cos, sin)
    same(scheme.transform(q, scheme.prepare(pos), "q"), want)


def inkling(sliding: bool) -> Any:
    """Sizes of the layer; ``tests/schemes/test_relative_logits.py`` compares the attention."""

    def compare(scheme: Any) -> None:
        config = pytest.importorskip("transformers").InklingTextConfig()
        kind = "hybrid_sliding" if sliding else "hybrid"
        assert config.layer_types[:6].count(kind) == (5 if sliding else 1)
        distances = config.sliding_window_size if sliding else config.rel_extent
        assert scheme.profiles.shape == (config.d_rel, distances)
        assert scheme.weight.shape == (config.num_attention_heads, config.d_rel, config.hidden_size)

    return compare


def wav2vec2(scheme: Any, same: Same) -> None:
    code = pytest.importorskip("transformers.models.wav2vec2.modeling_wav2vec2")
    theirs = code.Wav2Vec2PositionalConvEmbedding(pytest.importorskip("transformers").Wav2Vec2Config())
    scheme.load_wav2vec2(theirs)
    x = torch.randn(1, N, 768, generator=torch.Generator().manual_seed(0))
    same(scheme.mix(x, scheme.prepare(sequence(N))), x + theirs(x))


def queries(width: int) -> Tensor:
    return torch.randn(1, 2, N, width, generator=torch.Generator().manual_seed(0))


def gptj(scheme: Any, same: Same) -> None:
    code = pytest.importorskip("transformers.models.gptj.modeling_gptj")
    transformers = pytest.importorskip("transformers")
    for config in (transformers.GPTJConfig(), transformers.CodeGenConfig()):
        assert (scheme.head_dim, scheme.of) == (config.rotary_dim, config.n_embd // config.n_head)
    q = queries(scheme.of)
    sin, cos = code.create_sinusoidal_positions(N, scheme.head_dim)[None].chunk(2, -1)
    part = code.apply_rotary_pos_emb(q[..., : scheme.head_dim].transpose(1, 2), sin, cos).transpose(1, 2)
    same(scheme.transform(q, scheme.prepare(sequence(N)), "q"), torch.cat([part, q[..., scheme.head_dim :]], -1))


def deepseek(scheme: Any, same: Same) -> None:
    """Logits: the model writes the pairs of channels in another order."""
    code = pytest.importorskip("transformers.models.deepseek_v3.modeling_deepseek_v3")
    config = pytest.importorskip("transformers").DeepseekV3Config()
    q, k = queries(config.qk_rope_head_dim), queries(config.qk_rope_head_dim).flip(2)
    turned = code.apply_rotary_pos_emb_interleave(
        q, k, *code.DeepseekV3RotaryEmbedding(config)(q, torch.arange(N)[None])
    )
    where, root = scheme.prepare(sequence(N)), config.qk_rope_head_dim**0.5
    same(scheme.transform(q, where, "q") @ scheme.transform(k, where, "k").mT / root, turned[0] @ turned[1].mT / root)


def gpt_oss(scheme: Any, same: Same) -> None:
    code = pytest.importorskip("transformers.models.gpt_oss.modeling_gpt_oss")
    config = pytest.importorskip("transformers").GptOssConfig()
    q = queries(config.head_dim)
    want, _ = code.apply_rotary_pos_emb(q, q, *code.GptOssRotaryEmbedding(config)(q, torch.arange(N)[None]))
    same(scheme.transform(q, scheme.prepare(sequence(N)), "q"), want)


def ministral(scheme: Any, same: Same) -> None:
    rope, temperature = scheme.parts
    rotation("Ministral 3", [("ministral3", "Ministral3", None)])(rope, same)
    code = importlib.import_module("transformers.models.ministral3.modeling_ministral3")
    told = importlib.import_module("transformers").Ministral3Config().rope_parameters
    ids = torch.arange(0, 100_000, 1000)[None]
    scales = code.get_llama_4_attn_scale(ids, told["llama_4_scaling_beta"], told["original_max_position_embeddings"])
    same(temperature.prepare(posenc.Positions(ids.T.double())).flatten().float(), scales.flatten())


def qwen_vl(module: str, name: str) -> Any:
    def compare(scheme: Any, same: Same) -> None:
        code = pytest.importorskip(f"transformers.models.{module}.modeling_{module}")
        config = getattr(importlib.import_module("transformers"), f"{name}Config")().text_config
        text = f"{name}TextRotaryEmbedding" if hasattr(code, f"{name}TextRotaryEmbedding") else f"{name}RotaryEmbedding"
        q, pos = queries(config.hidden_size // config.num_attention_heads), posenc.multimodal([4, (2, 2, 4)])
        want, _ = code.apply_rotary_pos_emb(q, q, *getattr(code, text)(config)(q, pos.coords.T[:, None]))
        same(scheme.transform(q, scheme.prepare(pos), "q"), want)

    return compare


def dinov3(scheme: Any, same: Same) -> None:
    code = pytest.importorskip("transformers.models.dinov3_vit.modeling_dinov3_vit")
    config = pytest.importorskip("transformers").DINOv3ViTConfig()
    q, pos = queries(config.hidden_size // config.num_attention_heads), posenc.grid(4, 5, span=2 * torch.pi)
    embedding = code.DINOv3ViTRopePositionEmbedding(config).eval()
    want, _ = code.apply_rotary_pos_emb(q, q, *embedding(torch.zeros(1, 3, *(n * config.patch_size for n in (4, 5)))))
    same(scheme.transform(q, scheme.prepare(pos), "q"), want)


def bias_of(scheme: Any, pos: posenc.Positions, heads: int) -> Tensor:
    where, q = scheme.prepare(pos), torch.zeros(1, heads, pos.count, 8)
    return scheme.bias(q, q, None, scheme.relate(where, where), None).reshape(heads, pos.count, pos.count)


def t5(*, decoder: bool) -> Any:
    def compare(scheme: Any, same: Same) -> None:
        code = pytest.importorskip("transformers.models.t5.modeling_t5")
        config = pytest.importorskip("transformers").T5Config(is_decoder=decoder)
        layer = code.T5Attention(config, has_relative_attention_bias=True, layer_idx=0)
        scheme.table.data.copy_(layer.relative_attention_bias.weight.data)
        same(bias_of(scheme, sequence(200), config.num_heads), layer.compute_bias(200, 200)[0])

    return compare


def whisper(scheme: Any, same: Same) -> None:
    code = pytest.importorskip("transformers.models.whisper.modeling_whisper")
    config = pytest.importorskip("transformers").WhisperConfig()
    same(scheme.prepare(sequence(N)), code.sinusoids(N, config.d_model))


def swin(scheme: Any, same: Same) -> None:
    code = pytest.importorskip("transformers.models.swin.modeling_swin")
    config = pytest.importorskip("transformers").SwinConfig()
    theirs = code.SwinRelativePositionBias(config.num_heads[0], 2 * (config.window_size,))
    theirs.relative_position_bias_table.data.copy_(scheme.table.data.normal_().flip(0))  # query minus key there
    same(bias_of(scheme, posenc.grid(*scheme.window), config.num_heads[0]), theirs().reshape(3, 49, 49))


def swin_v2(scheme: Any, same: Same) -> None:
    """Attention of equal tokens: queries and keys of zero leave the bias alone in the logits."""
    code = pytest.importorskip("transformers.models.swinv2.modeling_swinv2")
    config = pytest.importorskip("transformers").Swinv2Config(attention_probs_dropout_prob=0.0)
    window, heads = 2 * (config.window_size,), config.num_heads[0]
    layer = code.Swinv2SelfAttention(config, config.embed_dim, heads, window).eval()
    first, last = layer.continuous_position_bias_mlp[0], layer.continuous_position_bias_mlp[2]
    first.weight.data.copy_(-scheme.inner.data.T.normal_())  # query minus key there
    first.bias.data.copy_(scheme.offset.data.normal_())
    last.weight.data.copy_(scheme.outer.data.T)
    for parameter in (*layer.query.parameters(), *layer.key.parameters()):
        parameter.data.zero_()
    count = window[0] * window[1]
    x = torch.randn(1, count, config.embed_dim, generator=torch.Generator().manual_seed(0))
    weights = layer(x, output_attentions=True)[1][0].detach()
    assert float(weights.std()) > 1e-3
    same(bias_of(scheme, posenc.grid(*window), heads).softmax(-1), weights)


def table_of(name: str, rows: str) -> Any:
    """Rows, width and spread of a learned table."""

    def compare(scheme: Any) -> None:
        config = getattr(pytest.importorskip("transformers"), f"{name}Config")()
        count = (config.image_size // config.patch_size) ** 2 + 1 if rows == "patches" else getattr(config, rows)
        sigma = getattr(config, "initializer_range", None) or config.init_std
        assert (*scheme.table.shape, scheme.sigma) == (count, config.hidden_size, sigma)

    return compare


def layers_of(name: str) -> Any:
    """Kinds of the layers of a configuration, and its windows, against a recipe."""

    def compare(recipe: Any) -> None:
        config = getattr(pytest.importorskip("transformers"), f"{name}Config")()
        rotated = getattr(config, "no_rope_layers", None) or [kind != "full_attention" for kind in config.layer_types]
        for layer, local in enumerate(rotated):
            scheme = recipe(layer)
            assert (scheme is recipe(0)) == bool(local)
            limits = {type(part).__name__: part for part in getattr(scheme, "parts", [])}
            if "ChunkedAttention" in limits:
                assert limits["ChunkedAttention"].chunk == config.attention_chunk_size
            if "SlidingWindow" in limits:
                assert limits["SlidingWindow"].size == config.sliding_window

    return compare


VALUES: Mapping[tuple[str, str], Callable[[Any, Same], None]] = {
    key: rotation(key[0], models) for key, models in ROTARY.items()
} | {
    ("Llama 3.1", "all"): rotation("Llama 3.1", [("llama", "Llama", None)]),
    ("Llama 4", "three of four, chunked"): llama4_rotation,
    ("BLOOM", "all"): bloom,
    ("MPT", "all"): mpt,
    ("Ernie 4.5 VL", "all"): ernie,
    ("Wav2Vec 2.0", "encoder, after its first projection"): wav2vec2,
    ("T5", "encoder, all"): t5(decoder=False),
    ("T5", "decoder, all"): t5(decoder=True),
    ("GPT-J, CodeGen", "all"): gptj,
    ("Ministral 3", "all"): ministral,
    ("Qwen 2 VL", "all"): qwen_vl("qwen2_vl", "Qwen2VL"),
    ("Qwen 3 VL", "all"): qwen_vl("qwen3_vl", "Qwen3VL"),
    ("DeepSeek V3", "all, on 64 channels beside others"): deepseek,
    ("gpt-oss", "all"): gpt_oss,
    ("Whisper", "encoder, added once"): whisper,
    ("DINOv3", "all, at `grid(14, 14, span=2 * torch.pi)`"): dinov3,
    ("Swin", "all"): swin,
    ("Swin V2", "all"): swin_v2,
}
"""Comparisons of values, by family and layers."""
SETTINGS: Mapping[tuple[str, str], Callable[[Any], None]] = {
    ("Llama 4", "one of four, full"): llama4_temperature,
    ("Inkling", "five of six, sliding"): inkling(sliding=True),
    ("Inkling", "one of six, full"): inkling(sliding=False),
    ("BERT", "added once"): table_of("Bert", "max_position_embeddings"),
    ("GPT-2", "added once"): table_of("GPT2", "max_position_embeddings"),
    ("OPT", "added once"): table_of("OPT", "max_position_embeddings"),
    ("Whisper", "decoder, added once"): table_of("Whisper", "max_target_positions"),
    ("ViT", "added once, class token too"): table_of("ViT", "patches"),
    ("Llama 4", "iRoPE"): layers_of("Llama4Text"),
    ("Cohere Command A", "RNoPE"): layers_of("Cohere2"),
    ("EXAONE 4", "RNoPE"): layers_of("Exaone4"),
    ("SmolLM 3", "RNoPE without a window"): layers_of("SmolLM3"),
    ("Gemma 3", "two bases"): layers_of("Gemma3Text"),
}
"""Comparisons of sizes and of kinds of layers."""
