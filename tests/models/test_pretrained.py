"""Weights of timm's and transformers' models: the same numbers come out, and what is not taken is said."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from posenc.lookup.scheme_text import parse
from posenc.models.pretrained import load_weights
from posenc.models.sites import at_sites
from posenc.models.vision import VisionConfig, VisionTransformer
from posenc.models.vision_stage import Options, StageConfig
from posenc.schemes.learned import Learned
from posenc.schemes.nope import NoPE

pytestmark = pytest.mark.oracles
CLOSE = {"atol": 1e-5, "rtol": 0}


def small(**changes: Any) -> VisionConfig:
    stage = StageConfig(dim=24, depth=2, heads=2, hidden=40, patch=16)
    return VisionConfig(**({"image": (32, 48), "classes": 5, "stages": (stage,)} | changes))


def ours(config: VisionConfig, text: str = "Learned") -> VisionTransformer:
    return VisionTransformer(config, at_sites(parse(text), config.sites)).eval()


def shaken(model: Any) -> Any:
    """Away from the zeros and ones that would hide a mistake."""
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn(parameter.shape, generator=generator))
    return model.eval()


@pytest.fixture
def picture() -> Tensor:
    return torch.randn(2, 3, 32, 48)


@pytest.mark.parametrize("tables", [False, True])
def test_a_vit_of_timm_says_the_same_here(timm, picture, tables):
    theirs = shaken(timm.models.VisionTransformer(
        img_size=(32, 48), patch_size=16, embed_dim=24, depth=2, num_heads=2, mlp_ratio=40 / 24, num_classes=5
    ))  # fmt: skip
    model = ours(small(options=Options(tables=tables)), "NoPE" if tables else "Learned")
    loaded = load_weights(model, theirs.state_dict())
    torch.testing.assert_close(model(picture), theirs(picture), **CLOSE)
    assert loaded.left == {}
    assert loaded.kept == []
    assert set(loaded.loaded) == set(model.state_dict())


def test_a_vit_of_transformers_says_the_same_here(picture):
    transformers = pytest.importorskip("transformers")
    config = transformers.ViTConfig(
        hidden_size=24, num_hidden_layers=2, num_attention_heads=2, intermediate_size=40, image_size=(32, 48),
        patch_size=16, num_labels=5, layer_norm_eps=1e-6,
    )  # fmt: skip
    theirs = shaken(transformers.ViTForImageClassification(config))
    model = ours(small())
    loaded = load_weights(model, theirs.state_dict())
    torch.testing.assert_close(model(picture), theirs(picture).logits, **CLOSE)
    assert (loaded.left, loaded.kept) == ({}, [])
    renamed = {_as_before_version_5(name): tensor for name, tensor in theirs.state_dict().items()}
    assert load_weights(ours(small()), renamed).loaded == loaded.loaded


def _as_before_version_5(name: str) -> str:
    name = name.replace("vit.layers.", "vit.encoder.layer.").replace("mlp.fc1", "intermediate.dense")
    for now, once in (("q_proj", "attention.query"), ("k_proj", "attention.key"), ("v_proj", "attention.value"),
                      ("o_proj", "output.dense")):  # fmt: skip
        name = name.replace(now, once)
    return name.replace("mlp.fc2", "output.dense")


def pyramid(**changes: Any) -> VisionConfig:
    stages = tuple(
        StageConfig(dim=dim, depth=depth, heads=heads, hidden=ratio * dim, patch=patch, reduction=reduction)
        for dim, depth, heads, ratio, patch, reduction in zip(
            (8, 16, 24, 32), (2, 1, 2, 1), (1, 2, 3, 4), (8, 8, 4, 4), (4, 2, 2, 2), (8, 4, 2, 1), strict=True
        )
    )
    options = Options(patches="normed", tables=True)
    return VisionConfig(**({"image": (64, 64), "classes": 3, "stages": stages, "options": options} | changes))


def test_a_pvt_of_transformers_says_the_same_here():
    transformers = pytest.importorskip("transformers")
    config = transformers.PvtConfig(
        image_size=64, depths=[2, 1, 2, 1], hidden_sizes=[8, 16, 24, 32], num_attention_heads=[1, 2, 3, 4], num_labels=3
    )
    theirs = shaken(transformers.PvtForImageClassification(config))
    model, x = ours(pyramid(), "NoPE"), torch.randn(2, 3, 64, 64)
    loaded = load_weights(model, theirs.state_dict())
    torch.testing.assert_close(model(x), theirs(x).logits, **CLOSE)
    assert (loaded.left, loaded.kept) == ({}, [])


def test_the_names_of_the_first_pvt_are_known():
    model, other = shaken(ours(pyramid(), "NoPE")), ours(pyramid(), "NoPE")
    state: dict[str, Tensor] = {}
    for name, tensor in model.state_dict().items():
        head, _, rest = name.partition(".")
        if head != "stages":
            state[name] = tensor
            continue
        number, _, rest = rest.partition(".")
        stage = int(number) + 1
        if rest == "class_token":
            state["cls_token"] = tensor[None, None]
        elif rest == "table.table":
            row = torch.zeros(int(stage == 4), tensor.shape[1])
            state[f"pos_embed{stage}"] = torch.cat([row, tensor])[None]
        elif "qkv" in rest:
            block, kind = rest.split(".")[1], rest.split(".")[3]
            q, kv = tensor.split([len(tensor) // 3, 2 * len(tensor) // 3])
            state[f"block{stage}.{block}.attn.q.{kind}"] = q
            state[f"block{stage}.{block}.attn.kv.{kind}"] = kv
        else:
            state[_as_in_the_first_pvt(rest, stage)] = tensor
    loaded = load_weights(other, state)
    assert (loaded.left, loaded.kept) == ({}, [])
    x = torch.randn(1, 3, 64, 64)
    torch.testing.assert_close(other(x), model(x))


def _as_in_the_first_pvt(name: str, stage: int) -> str:
    for ours_, theirs in (("after_patches.", "norm."), ("patches.", "proj.")):
        if name.startswith(ours_):
            return f"patch_embed{stage}.{theirs}{name.removeprefix(ours_)}"
    name = name.replace("blocks.", f"block{stage}.")
    for ours_, theirs in (("out.", "attn.proj."), ("up.", "mlp.fc1."), ("down.", "mlp.fc2."),
                          ("reduce_norm.", "attn.norm."), ("reduce.", "attn.sr.")):  # fmt: skip
        name = name.replace(ours_, theirs)
    return name


def weights() -> dict[str, Tensor]:
    return {
        "cls_token": torch.ones(1, 1, 24),
        "pos_embed": torch.arange(7 * 24.0).view(1, 7, 24),
        "blocks.0.mlp.fc1.weight": torch.ones(40, 24),
        "blocks.0.ls1.gamma": torch.ones(24),
        "head.weight": torch.ones(5, 24),
    }


def test_what_was_and_was_not_taken_is_said():
    model = ours(small(), "GridPE(head_dim=12, extent=4)")
    loaded = load_weights(model, weights(), head=False)
    assert loaded.loaded == ["stages.0.blocks.0.up.weight", "stages.0.class_token"]
    assert loaded.left == {
        "pos_embed": "this model has no learned table there: its positions are its scheme's",
        "blocks.0.ls1.gamma": "this model has nothing of that kind",
        "head.weight": "the classifier is left as it was, as head=False asks",
    }
    assert "head.weight" in loaded.kept
    assert torch.equal(model.stages[0].class_token, torch.ones(24))
    lines = str(loaded).splitlines()
    assert lines[0].startswith("loaded 2 of this model's ")
    assert "not taken: blocks.0.ls1.gamma: this model has nothing of that kind" in lines
    assert "as it was: norm.weight" in lines


def test_the_row_of_the_class_token_is_added_to_it_or_left_out():
    model = ours(small())
    load_weights(model, weights())
    rows = torch.arange(7 * 24.0).view(7, 24)
    assert torch.equal(model.stages[0].class_token, 1 + rows[0])
    table = model.stages[0].schemes[0]
    assert isinstance(table, Learned)
    assert torch.equal(table.table, rows[1:])
    mean = ours(small(read_out="mean"))
    loaded = load_weights(mean, weights())
    assert loaded.left["cls_token"] == "this model has nothing of that kind"
    assert torch.equal(mean.stages[0].schemes[0].table, rows[1:])


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"head.weight": torch.ones(7, 24)}, r"head.weight has shape \(7, 24\) and head.weight here \(5, 24\). Leave "),
        (
            {"pos_embed": torch.ones(1, 197, 24)},
            r"pos_embed has shape \(197, 24\) and stages.0.schemes.0.table here \(6, 24\). Load it at its own size",
        ),
        (
            {"blocks.1.norm1.weight": torch.ones(32)},
            r"blocks.1.norm1.weight has shape \(32,\) and stages.0.blocks.1.norm1.weight here \(24,\). Build the model",
        ),
    ],
)
def test_another_shape_is_refused_by_name_and_nothing_is_changed(change, sentence):
    model = ours(small())
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    with pytest.raises(ValueError, match=sentence):
        load_weights(model, weights() | change)
    assert all(torch.equal(before[name], tensor) for name, tensor in model.state_dict().items())


def test_names_that_nobody_knows_are_refused():
    with pytest.raises(ValueError, match=r"none of the 1 names is known, as 'w'. Pass the state_dict of timm's or"):
        load_weights(VisionTransformer(small(), lambda layer: NoPE()), {"w": torch.ones(1)})
