"""Position tables of vision models of transformers: read, resampled, replaced; each on a tiny random model."""

import copy
import math

import pytest
import torch
from torch import nn

from posenc.adapt import learned_table, replace_table, resize_table, vision_transformer
from posenc.positions import Positions, grid
from posenc.schemes.learned import Learned
from posenc.schemes.nope import NoPE
from posenc.schemes.rope import RoPE
from posenc.schemes.sinusoid import Sinusoid

pytestmark = [pytest.mark.oracles, pytest.mark.bare]
transformers = pytest.importorskip("transformers")

SIZES = {
    "hidden_size": 32, "num_attention_heads": 4, "num_hidden_layers": 2, "intermediate_size": 48, "image_size": 32,
    "patch_size": 8,
}  # fmt: skip
PVT = {"image_size": 32, "hidden_sizes": [8, 12, 16, 20], "num_attention_heads": [1, 2, 2, 2], "depths": [1, 1, 1, 1]}
DPT = {"backbone_out_indices": [0, 1, 1, 1], "neck_hidden_sizes": [8, 8, 8, 8]}
KINDS = {
    "ViT": (1, {}), "DeiT": (2, {}), "Dinov2": (1, {}), "Dinov2WithRegisters": (1, {}), "DPT": (1, DPT),
    "Beit": (1, {"use_absolute_position_embeddings": True}), "CLIPVision": (1, {}), "SiglipVision": (0, {}),
    "BlipVision": (1, {}),
}  # fmt: skip
"""Number of class tokens, and sizes."""


def made(kind, **sizes):
    sizes = {**(PVT if kind == "Pvt" else SIZES), **KINDS.get(kind, (0, {}))[1], **sizes}
    torch.manual_seed(0)
    model = getattr(transformers, f"{kind}Model")(getattr(transformers, f"{kind}Config")(**sizes)).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return model


def hidden(model, height, width=None, **options):
    generator = torch.Generator().manual_seed(1)
    picture = torch.randn(2, 3, height, width or height, generator=generator)
    with torch.no_grad():
        return model(picture.to(next(model.parameters()).dtype), **options)[0]


def again(model, folder):
    model.save_pretrained(folder)
    return type(model).from_pretrained(folder).eval()


def whole_table(model):
    (table,) = (
        parameter for name, parameter in model.named_parameters()
        if name.endswith(("position_embeddings", "position_embedding", "position_embedding.weight"))
    )  # fmt: skip
    return table.detach().flatten(0, -2)


@pytest.mark.parametrize("kind", KINDS)
def test_a_table_is_read_and_written_back(kind):
    model, prefix = made(kind), KINDS[kind][0]
    rows, before = whole_table(model).clone(), hidden(model, 32)
    table = learned_table(model)
    assert torch.equal(table.table, rows[prefix:])
    vision_transformer(model, NoPE())
    assert not torch.allclose(hidden(model, 32), before, atol=1e-3)
    assert not learned_table(model).table.any()
    assert torch.equal(hidden(vision_transformer(model, table), 32), before)
    assert torch.equal(whole_table(model), rows)


@pytest.mark.parametrize("side", [48, 24])
@pytest.mark.parametrize("kind", KINDS)
def test_another_image_size_is_what_the_model_interpolates_itself(kind, side, tmp_path):
    ours, theirs = made(kind), made(kind)
    asks = kind in ("ViT", "DeiT", "CLIPVision", "SiglipVision", "BlipVision")
    wanted = hidden(theirs, side, **({"interpolate_pos_encoding": True} if asks else {}))
    assert vision_transformer(ours, image=side) is ours
    assert ours.config.image_size == side
    torch.testing.assert_close(hidden(ours, side), wanted, atol=1e-5, rtol=0)
    loaded = again(ours, tmp_path)
    assert torch.equal(hidden(loaded, side), hidden(ours, side))
    before, after = ({n: p for n, p in m.named_parameters() if "position" not in n} for m in (theirs, ours))
    assert all(torch.equal(before[name], after[name]) for name in before)


@pytest.mark.parametrize("kind", KINDS)
def test_rows_of_a_scheme_are_written_for_the_new_grid(kind, tmp_path):
    model, scheme, prefix = made(kind), Sinusoid(32, axes=2), KINDS[kind][0]
    first = whole_table(model)[:prefix].clone()
    vision_transformer(model, scheme, image=48)
    rows = whole_table(model)
    assert torch.equal(rows[prefix:], scheme.embed(scheme.prepare(grid(6, 6))))
    assert torch.equal(rows[:prefix], first)
    assert [n for n, p in model.named_parameters() if "position" in n and p.requires_grad] == []
    assert torch.equal(hidden(again(model, tmp_path), 48), hidden(model, 48))
    vision_transformer(model, Learned(32, 36))
    assert [n for n, p in model.named_parameters() if "position" in n and p.requires_grad] != []


def test_other_positions_and_patches_without_one():
    scheme, placed = Sinusoid(32, axes=2), torch.arange(16) != 3
    model = vision_transformer(made("ViT"), scheme, pos=Positions(grid(4, 4).coords + 0.5, placed))
    wanted = scheme.embed(scheme.prepare(grid(4, 4) + 0.5)) * placed[:, None]
    torch.testing.assert_close(learned_table(model).table.detach(), wanted)


@pytest.mark.parametrize(("before", "after"), [((32, 64), (48, 40)), ((32, 64), (64, 32))])
def test_images_that_are_no_squares(before, after, tmp_path):
    """Also where the number of patches stays the same. A model of transformers cannot interpolate these tables."""
    model = made("ViT", image_size=before)
    own, side = learned_table(model).table.detach(), [each // 8 for each in before]
    wanted = nn.functional.interpolate(
        own.unflatten(0, side).permute(2, 0, 1)[None], [each // 8 for each in after], mode="bicubic"
    )
    vision_transformer(model, image=after)
    torch.testing.assert_close(learned_table(model).table, wanted[0].flatten(1).mT, atol=1e-5, rtol=0)
    assert hidden(model, *after).shape == (2, 1 + math.prod(after) // 64, 32)
    assert torch.equal(hidden(again(model, tmp_path), *after), hidden(model, *after))


def test_pvt_has_a_table_for_each_stage(tmp_path):
    model, small, large = made("Pvt"), made("Pvt"), 96
    with pytest.raises(RuntimeError, match="is invalid for input of size"):
        hidden(model, large)  # transformers reshapes the table to the new grid without interpolating it
    vision_transformer(model, image=large)
    for stage, (ours, theirs) in enumerate(zip(*(m.encoder.patch_embeddings for m in (model, small)), strict=True)):
        prefix, side = int(stage == 3), 8 >> stage
        own = theirs.position_embeddings[0, prefix:].unflatten(0, (side, side)).permute(2, 0, 1)[None]
        wanted = nn.functional.interpolate(own, (3 * side, 3 * side), mode="bilinear")
        found = ours.position_embeddings[0]
        torch.testing.assert_close(found[prefix:], wanted[0].flatten(1).mT, atol=1e-6, rtol=0)
        assert torch.equal(found[:prefix], theirs.position_embeddings[0, :prefix])
    loaded = again(model, tmp_path)
    assert torch.equal(hidden(loaded, large), hidden(model, large))
    stage = model.encoder.patch_embeddings[1]
    scheme = Sinusoid(12, axes=2)
    vision_transformer(stage, scheme)
    assert torch.equal(learned_table(stage).table, scheme.embed(scheme.prepare(grid(12, 12))))


def test_of_a_model_with_a_text_the_table_of_the_image_changes(tmp_path):
    text = {key: SIZES[key] for key in SIZES if key.endswith(("_size", "heads", "layers")) and "image" not in key}
    text = {**text, "vocab_size": 50, "max_position_embeddings": 24, "bos_token_id": 48, "eos_token_id": 49}
    text.pop("patch_size")
    config = transformers.CLIPConfig(text_config=text, vision_config=SIZES, projection_dim=16)
    model = transformers.CLIPModel(config).eval()
    before = copy.deepcopy(model)
    vision_transformer(model, image=48)
    assert (model.config.vision_config.image_size, len(learned_table(model.text_model).table)) == (48, 24)
    picture, ids = torch.randn(2, 3, 48, 48), torch.arange(10).view(2, 5)
    with torch.no_grad():
        found = model(input_ids=ids, pixel_values=picture).logits_per_image
        wanted = before(input_ids=ids, pixel_values=picture, interpolate_pos_encoding=True).logits_per_image
        loaded = again(model, tmp_path)(input_ids=ids, pixel_values=picture).logits_per_image
    torch.testing.assert_close(found, wanted, atol=1e-5, rtol=0)
    assert torch.equal(loaded, found)


def test_a_head_half_precision_and_a_frozen_table(tmp_path):
    model = transformers.ViTForImageClassification(transformers.ViTConfig(**SIZES)).eval().bfloat16()
    model.vit.embeddings.position_embeddings.requires_grad_(False)
    wanted = hidden(copy.deepcopy(model), 48, interpolate_pos_encoding=True)
    vision_transformer(model, image=48)
    table = model.vit.embeddings.position_embeddings
    assert (table.dtype, table.requires_grad, table.shape) == (torch.bfloat16, False, (1, 37, 32))
    torch.testing.assert_close(hidden(model, 48), wanted, atol=0.02, rtol=0)
    assert again(model, tmp_path).config.image_size == 48


def test_a_model_within_a_module_of_its_user(tmp_path):
    class Mine(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = made("Dinov2")

    mine = vision_transformer(Mine(), image=48)
    assert torch.equal(hidden(again(mine.inner, tmp_path), 48), hidden(mine.inner, 48))


@pytest.mark.parametrize(
    ("kind", "change", "sentence"),
    [
        ("ViT", lambda m: vision_transformer(m, image=40 + 4), r"patches of 8 x 8 pixels; got image=\(44, 44\)\. Take"),
        (
            "ViT",
            lambda m: vision_transformer(m, image=(8, 8, 8)),
            r"a number of pixels or .height, width.*got .8, 8, 8",
        ),
        ("ViT", lambda m: vision_transformer(m, image="large"), r"number of pixels or \(height, width\)"),
        ("ViT", lambda m: vision_transformer(m), r"takes a scheme, an image size or both"),
        ("ViT", lambda m: vision_transformer(m, RoPE(8)), r"added to its tokens .* RoPE acts at k, q too"),
        ("ViT", lambda m: vision_transformer(m, Sinusoid(12, axes=2)), r"16 rows of width 32 for patches, and Sinus"),
        ("ViT", lambda m: vision_transformer(m, Sinusoid(32), pos=grid(2, 3)), r"Sinusoid makes 6 rows of width 32"),
        ("ViT", lambda m: resize_table(m, 40), r"table of ViTModel is one of images\. Write vision_transformer\(model"),
        ("CLIPVision", lambda m: replace_table(m, Sinusoid(32)), r"of CLIPVisionModel is one of images\. Write vision"),
        ("Dinov2", lambda m: vision_transformer(m, image=(32, 48)), r"images of 32 x 48 pixels, but for squares only"),
        ("BlipVision", lambda m: vision_transformer(m, image=(32, 48)), r"BlipVisionModel cannot be built for images"),
        ("ViTMAE", lambda m: vision_transformer(m, image=48), r"ViTMAEEmbeddings of ViTMAEModel does not add its posi"),
        ("Pvt", lambda m: vision_transformer(m, Sinusoid(8, axes=2)), r"4 position tables of images\. Pass a part of"),
        ("Pvt", lambda m: vision_transformer(m, image=48), r"patches of 32 x 32 pixels; got image=\(48, 48\)\. Take"),
        ("Pvt", lambda m: learned_table(m), r"as model\.get_submodule\('encoder\.patch_embeddings\.0'\)"),
        ("Swinv2", lambda m: vision_transformer(m, image=64), r"Swinv2Model has no position table of images: neither"),
    ],
)
def test_a_refused_model_is_unchanged(kind, change, sentence):
    model = transformers.Swinv2Model(transformers.Swinv2Config(image_size=32, depths=[1])) if kind == "Swinv2" else None
    model = made(kind) if model is None else model
    state, config = {name: t.clone() for name, t in model.state_dict().items()}, model.config.to_dict()
    with pytest.raises(ValueError, match=sentence):
        change(model)
    assert model.config.to_dict() == config
    assert all(torch.equal(t, state[name]) for name, t in model.state_dict().items())


def test_tables_of_a_model_without_values_are_not_read():
    with torch.device("meta"):
        model = transformers.ViTModel(transformers.ViTConfig(**SIZES))
    for change in (learned_table, lambda m: vision_transformer(m, image=48)):
        with pytest.raises(ValueError, match=r'on the device "meta", which has none'):
            change(model)
