"""docs/released-models.md: every line builds, and those marked "same" equal the code of the model in transformers."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import posenc
from posenc import frequencies, sequence
from posenc.models.layers import interleaved

pytestmark = pytest.mark.oracles
DOCUMENT = (Path(__file__).parents[2] / "docs" / "released-models.md").read_text(encoding="utf-8")
ROWS = [
    tuple(cell.strip() for cell in line.strip("|").split(" | ")) for line in re.findall(r"^\| [A-Z].*$", DOCUMENT, re.M)
]
NAMES = {
    "torch": torch,
    "interleaved": interleaved,
    **{name: getattr(posenc, name) for name in posenc.__all__},
    **vars(frequencies),
}
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


def built(code: str) -> Any:
    return eval(code.strip("`"), dict(NAMES))


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
}
"""Comparisons of values, by family and layers."""
SETTINGS: Mapping[tuple[str, str], Callable[[Any], None]] = {
    ("Llama 4", "one of four, full"): llama4_temperature,
    ("Inkling", "five of six, sliding"): inkling(sliding=True),
    ("Inkling", "one of six, full"): inkling(sliding=False),
    ("Llama 4", "iRoPE"): layers_of("Llama4Text"),
    ("Cohere Command A", "RNoPE"): layers_of("Cohere2"),
    ("EXAONE 4", "RNoPE"): layers_of("Exaone4"),
    ("SmolLM 3", "RNoPE without a window"): layers_of("SmolLM3"),
    ("Gemma 3", "two bases"): layers_of("Gemma3Text"),
}
"""Comparisons of sizes and of kinds of layers."""


def marked(row: tuple[str, ...]) -> Any:
    """A row of the document; ``compares`` is its mark if the values are compared."""
    schemes = re.findall(r"\b[A-Z]\w*(?=\()", row[2]) if row[:2] in VALUES else []
    marks = [pytest.mark.compares(name, "transformers", row[0]) for name in schemes]
    return pytest.param(row, marks=marks, id=f"{row[0]}, {row[1]}")


@pytest.mark.parametrize("row", [marked(row) for row in ROWS])
def test_a_line_builds_and_is_the_model_if_it_says_so(row: tuple[str, ...], same: Same) -> None:
    key, scheme = row[:2], built(row[2])
    says_so = len(row) > 3 and row[3].startswith("same")
    assert says_so == (key in VALUES or key in SETTINGS), "the column and the test differ"
    if key in VALUES:
        VALUES[key](scheme, same)
    elif key in SETTINGS:
        SETTINGS[key](scheme)


def test_thirty_families_stand_in_the_table() -> None:
    assert len({row[0] for row in ROWS}) >= 30
    assert {*VALUES, *SETTINGS} <= {row[:2] for row in ROWS}
