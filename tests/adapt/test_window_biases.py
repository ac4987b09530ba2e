"""Relative position biases of Swin, Swin V2 and BEiT: read, resized, replaced; each on a tiny random model."""

import copy

import pytest
import torch
from torch import nn

from posenc.adapt import replace_window_biases, resize_windows, vision_transformer, window_biases
from posenc.positions import grid
from posenc.schemes.alibi import ALiBi
from posenc.schemes.log_cpb import LogCPB
from posenc.schemes.rope import RoPE
from posenc.schemes.scaled import Scaled
from posenc.schemes.shaw import Shaw
from posenc.schemes.sum import Sum
from posenc.schemes.swin_bias import SwinBias

pytestmark = [pytest.mark.oracles, pytest.mark.bare]
transformers = pytest.importorskip("transformers")

SWIN = {"image_size": 64, "patch_size": 4, "embed_dim": 8, "depths": [2, 2], "num_heads": [2, 4], "window_size": 4}
BEIT = {
    "hidden_size": 32, "num_attention_heads": 4, "num_hidden_layers": 2, "intermediate_size": 48, "image_size": 32,
    "patch_size": 8, "use_relative_position_bias": True,
}  # fmt: skip
KINDS = {"Swin": SWIN, "DonutSwin": SWIN, "Swinv2": SWIN, "Beit": BEIT, "Data2VecVision": BEIT}


def made(kind, **sizes):
    torch.manual_seed(0)
    config = getattr(transformers, f"{kind}Config")(**{**KINDS[kind], **sizes})
    model = getattr(transformers, f"{kind}Model")(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    return model


def hidden(model, side):
    picture = torch.randn(2, 3, side, side, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        return model(picture)[0]


def bias_of(scheme, heads):
    where, q = scheme.prepare(grid(*scheme.window)), torch.zeros(1, heads, scheme.window[0] * scheme.window[1], 8)
    bias = scheme.bias(q, q, None, scheme.relate(where, where), None)
    return bias.reshape(1, heads, *bias.shape[-2:])


def tables(model):
    return {name: t for name, t in model.state_dict().items() if name.endswith("relative_position_bias_table")}


def test_the_schemes_are_the_biases_of_swin():
    model = made("Swin")
    theirs = [each for each in model.modules() if type(each).__name__ == "SwinRelativePositionBias"]
    for scheme, bias in zip(window_biases(model), theirs, strict=True):
        torch.testing.assert_close(bias_of(scheme, scheme.heads), bias()[0][None], atol=0, rtol=0)


@pytest.mark.parametrize("trained", [0, 3])
def test_the_schemes_are_the_biases_of_swin_v2(trained):
    model = made("Swinv2", pretrained_window_sizes=[trained, trained])
    layers = [each for each in model.modules() if type(each).__name__ == "Swinv2SelfAttention"]
    for scheme, layer in zip(window_biases(model), layers, strict=True):
        assert scheme.made_for == ((trained,) * 2 if trained else (4, 4))
        for projection in (layer.query, layer.key):
            for parameter in projection.parameters():
                parameter.data.zero_()  # the logits are the bias alone
        weights = layer(torch.randn(1, 16, layer.all_head_size), output_attentions=True)[1]
        assert weights.std() > 1e-3
        torch.testing.assert_close(bias_of(scheme, scheme.heads).softmax(-1), weights, atol=1e-5, rtol=0)


@pytest.mark.parametrize("kind", KINDS)
def test_biases_are_read_and_written_back(kind):
    model = made(kind)
    side = model.config.image_size
    schemes, before, state = window_biases(model), hidden(model, side), copy.deepcopy(model.state_dict())
    others = [copy.deepcopy(scheme) for scheme in schemes]
    with torch.no_grad():
        for parameter in (p for scheme in others for p in scheme.parameters()):
            parameter.neg_()
    replace_window_biases(model, others)
    assert not torch.allclose(hidden(model, side), before, atol=1e-3)
    replace_window_biases(model, schemes)
    assert torch.equal(hidden(model, side), before)
    assert all(torch.equal(t, state[name]) for name, t in model.state_dict().items())


def test_larger_windows_of_swin_have_interpolated_tables(tmp_path):
    before, ours = made("Swin"), made("Swin")
    with pytest.raises(RuntimeError, match="must match the size of tensor"):
        hidden(ours, 16)  # has fewer patches than a window: transformers reduces the windows of its layers, for good
    assert resize_windows(ours, 8, image=128) is ours
    theirs, state = made("Swin", window_size=8, image_size=128), before.state_dict()
    for name, table in tables(before).items():
        wide = nn.functional.interpolate(table.view(7, 7, -1).permute(2, 0, 1)[None], (15, 15), mode="bicubic")
        state[name] = wide[0].flatten(1).mT
    theirs.load_state_dict(state)
    torch.testing.assert_close(hidden(ours, 128), hidden(theirs, 128), atol=1e-5, rtol=0)
    for scheme, old in zip(window_biases(ours), window_biases(before), strict=True):
        torch.testing.assert_close(scheme.table, old.resized((4, 4), (8, 8)).table, atol=1e-6, rtol=0)
    ours.save_pretrained(tmp_path)
    assert torch.equal(hidden(type(ours).from_pretrained(tmp_path).eval(), 128), hidden(ours, 128))


def test_a_swin_for_images_that_are_no_squares():
    model = resize_windows(made("Swin"), 8, image=[128, 64])
    assert model.config.image_size == (128, 64)
    with torch.no_grad():
        assert model(torch.randn(1, 3, 128, 64)).last_hidden_state.shape == (1, 16 * 8, 16)


def test_larger_windows_of_swin_v2_keep_the_scale_of_the_trained_ones(tmp_path):
    before, ours = made("Swinv2"), resize_windows(made("Swinv2"), 8, image=128)
    assert (ours.config.window_size, ours.config.pretrained_window_sizes) == (8, [4, 4])
    theirs = made("Swinv2", window_size=8, image_size=128, pretrained_window_sizes=[4, 4])
    theirs.load_state_dict(before.state_dict())
    assert torch.equal(hidden(ours, 128), hidden(theirs, 128))
    for scheme, old in zip(window_biases(ours), window_biases(before), strict=True):
        moved = LogCPB(old.heads, (4, 4), literal=True)
        moved.load_state_dict(old.state_dict())
        torch.testing.assert_close(bias_of(scheme, old.heads), bias_of(moved.moved((8, 8)), old.heads))
    ours.save_pretrained(tmp_path)
    assert torch.equal(hidden(type(ours).from_pretrained(tmp_path).eval(), 128), hidden(ours, 128))
    assert resize_windows(ours, 6, image=96).config.pretrained_window_sizes == [4, 4]


@pytest.mark.parametrize("kind", ["Beit", "Data2VecVision"])
def test_the_window_of_beit_is_the_image(kind, tmp_path):
    ours, theirs = made(kind), made(kind)
    resize_windows(ours, image=48)
    torch.testing.assert_close(hidden(ours, 48), hidden(theirs, 48), atol=1e-5, rtol=0)  # it interpolates itself
    for mine, own in zip(tables(ours).values(), tables(theirs).values(), strict=True):
        assert (mine.shape[0], torch.equal(mine[-3:], own[-3:])) == (11 * 11 + 3, True)
    ours.save_pretrained(tmp_path)
    assert torch.equal(hidden(type(ours).from_pretrained(tmp_path).eval(), 48), hidden(ours, 48))


def test_a_table_gets_the_values_of_another_scheme():
    model, schemes = made("Swin"), [Sum([SwinBias(h, (4, 4)), LogCPB(h, (4, 4), hidden=8)]) for h in (2, 2, 4, 4)]
    replace_window_biases(model, schemes)
    for scheme, read in zip(schemes, window_biases(model), strict=True):
        wanted = sum(bias_of(part, read.heads) for part in scheme.parts)
        torch.testing.assert_close(bias_of(read, read.heads), wanted, atol=1e-6, rtol=0)
    replace_window_biases(model, lambda layer: Scaled(schemes[layer].parts[0], 0.5))
    half = bias_of(window_biases(model)[2], 4)
    torch.testing.assert_close(half, bias_of(schemes[2].parts[0], 4) / 2, atol=1e-6, rtol=0)


def test_a_swin_with_a_position_table_too():
    model = made("Swin", use_absolute_embeddings=True)
    with pytest.raises(
        ValueError, match=r"also has embeddings\.position_embeddings .* then resize_windows\(model, win"
    ):
        resize_windows(model, 8, image=128)
    vision_transformer(model, image=128)
    resize_windows(model, 8)
    assert hidden(model, 128).shape == (2, 256, 16)


def test_swins_of_timm_are_read_and_written(timm):
    sizes = {"img_size": 32, "patch_size": 2, "window_size": 4, "embed_dim": 8, "depths": (1, 1), "num_heads": (2, 2)}
    model = timm.models.SwinTransformer(**sizes)
    attentions = [layer.blocks[0].attn for layer in model.layers]
    for scheme, attention in zip(window_biases(model), attentions, strict=True):
        torch.testing.assert_close(bias_of(scheme, 2), attention._get_rel_pos_bias(), atol=0, rtol=0)
    with pytest.raises(ValueError, match=r"timm resize themselves: model\.set_input_size\(img_size=\.\., window_size"):
        resize_windows(model, 8)
    own = [attention.relative_position_bias_table.detach().clone() for attention in attentions]
    replace_window_biases(model, window_biases(model))
    assert all(torch.equal(each.relative_position_bias_table, t) for each, t in zip(attentions, own, strict=True))
    second = timm.models.SwinTransformerV2(**sizes)
    attention = second.layers[0].blocks[0].attn
    rows = attention.cpb_mlp(attention.relative_coords_table).view(-1, 2)
    wanted = 16 * torch.sigmoid(rows[attention.relative_position_index.flatten()]).mT.view(1, 2, 16, 16)
    torch.testing.assert_close(bias_of(window_biases(second)[0], 2), wanted, atol=1e-5, rtol=0)


@pytest.mark.parametrize(
    ("kind", "change", "sentence"),
    [
        ("Swin", lambda m: resize_windows(m), r"takes a window, an image size or both"),
        ("Swin", lambda m: resize_windows(m, 0), r"window is a positive whole number, .* got window=0"),
        ("Swin", lambda m: resize_windows(m, "8"), r"window is a positive whole number, .* got window='8'"),
        ("Swin", lambda m: resize_windows(m, 8, image=(128, 128, 128)), r"an image size is one or \(height, width\)"),
        (
            "Swin",
            lambda m: replace_window_biases(m, SwinBias(2, (4, 4))),
            r"in each of 4 attentions: pass a list with one",
        ),
        ("Beit", lambda m: resize_windows(m, image=(48, 32)), r"BeitModel reads its bias for squares only; got image"),
        ("Swin", lambda m: resize_windows(m, 12), r"layers\.0\.blocks|layers\.1\.blocks\.0 .* 8 x 8 patches, fewer"),
        (
            "Swin",
            lambda m: replace_window_biases(m, [SwinBias(2, (4, 4))]),
            r"has 4 attentions with windows; got 1 sch",
        ),
        ("Swin", lambda m: replace_window_biases(m, lambda _: RoPE(4)), r"bias to the logits .* RoPE acts at k, q too"),
        ("Swin", lambda m: replace_window_biases(m, lambda _: SwinBias(3, (4, 4))), r"a bias of 2 heads .* 3 heads\."),
        (
            "Swin",
            lambda m: replace_window_biases(m, lambda _: Shaw(4, 3, values=False)),
            r"from queries, keys or tokens",
        ),
        (
            "Swin",
            lambda m: replace_window_biases(m, lambda _: SwinBias(2, (3, 3))),
            r"SwinBias starts at 0 and stops at 2; position 3",
        ),
        ("Swin", lambda m: replace_window_biases(m, lambda _: ALiBi(2)), r"ALiBi .*axis|ALiBi .*axes"),
        (
            "Swinv2",
            lambda m: replace_window_biases(m, lambda _: SwinBias(2, (4, 4))),
            r"is an MLP\. It takes LogCPB\(2,",
        ),
        (
            "Swinv2",
            lambda m: replace_window_biases(m, lambda _: LogCPB(2, (4, 4))),
            r"made_for=\(4, 4\)\), as window_b",
        ),
        ("Beit", lambda m: resize_windows(m, 6), r"the window of BeitModel is the image: resize_windows\(model, image"),
    ],
)
def test_a_refused_model_is_unchanged(kind, change, sentence):
    model = made(kind)
    state, config = copy.deepcopy(model.state_dict()), model.config.to_dict()
    with pytest.raises(ValueError, match=sentence):
        change(model)
    assert model.config.to_dict() == config
    assert all(torch.equal(t, state[name]) for name, t in model.state_dict().items())


def test_models_without_windows():
    with pytest.raises(ValueError, match=r"Linear has no relative position bias of windows"):
        window_biases(nn.Linear(2, 2))
    with pytest.raises(ValueError, match=r"takes a model that is built or loaded"):
        window_biases("swin")


def test_beit_with_a_table_of_absolute_positions_too():
    """Each of the two functions named the other one."""
    model = made("Beit", use_absolute_position_embeddings=True)
    with torch.no_grad():
        wanted = model(torch.zeros(1, 3, 48, 48), interpolate_pos_encoding=True)[0]
        ours = resize_windows(model, image=48)
        torch.testing.assert_close(ours(torch.zeros(1, 3, 48, 48))[0], wanted, atol=1e-5, rtol=0)
    assert ours.embeddings.position_embeddings.shape == (1, 37, 32)


@pytest.mark.parametrize(
    ("given", "got"), [(SwinBias, "got the class SwinBias"), (None, "got None"), ("x", "got 'x'"), (5, "got 5")]
)
def test_schemes_that_are_none_are_refused(given, got):
    with pytest.raises(ValueError, match=rf"takes schemes, as lambda layer: SwinBias\(4, window=\(7, 7\)\); {got}"):
        replace_window_biases(made("Swin"), given)
