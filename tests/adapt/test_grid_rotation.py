"""Rotary embeddings of transformers' DINOv3 and of timm's models: read and replaced; each on a tiny random model."""

import copy

import pytest
import torch
from torch import nn

from posenc.adapt import configured, grid_rotation, replace_grid_rotation, vision_transformer
from posenc.positions import grid
from posenc.schemes.alibi import ALiBi
from posenc.schemes.axial_rope import AxialRoPE
from posenc.schemes.mixed_rope import MixedRoPE
from posenc.schemes.rope import RoPE
from posenc.schemes.sinusoid import Sinusoid

pytestmark = [pytest.mark.oracles, pytest.mark.bare]
transformers = pytest.importorskip("transformers")

SIZES = {
    "hidden_size": 32, "num_attention_heads": 2, "num_hidden_layers": 2, "intermediate_size": 48, "image_size": 32,
    "patch_size": 8, "num_register_tokens": 2,
}  # fmt: skip
KINDS = ("DINOv3ViT", "Sapiens2")


def made(kind="DINOv3ViT", **sizes):
    torch.manual_seed(0)
    config = getattr(transformers, f"{kind}Config")(**{**SIZES, **sizes})
    model = getattr(transformers, f"{kind}Model")(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    return model


def hidden(model, height=32, width=40):
    picture = torch.randn(2, 3, height, width, generator=torch.Generator().manual_seed(1))
    return model(picture)[0]


def of_axes(scheme):
    """A learned rotation that starts as that of ``scheme``: rows rotate the first half of the pairs of each head."""
    mixed = MixedRoPE(16, 2, pairing="half")
    with torch.no_grad():
        mixed.directions.zero_()
        for axis, frequencies in enumerate(scheme.theta):
            mixed.directions[:, axis, 4 * axis : 4 * axis + 4] = torch.tensor(frequencies)
    return mixed


@torch.no_grad()
@pytest.mark.parametrize("base", [100.0, 30.0])
@pytest.mark.parametrize("kind", KINDS)
def test_the_rotation_is_read_and_written_back(kind, base):
    model = made(kind, rope_theta=base)
    scheme, before, state = grid_rotation(model), hidden(model), copy.deepcopy(model.state_dict())
    assert isinstance(scheme, AxialRoPE)
    assert scheme.theta[1] == AxialRoPE(16, base=base).theta[1]
    replace_grid_rotation(model, AxialRoPE(16, base=3.0, pairing="half"))
    assert not torch.allclose(hidden(model), before, atol=1e-3)
    replace_grid_rotation(model, scheme)
    assert grid_rotation(model) is scheme
    torch.testing.assert_close(hidden(model), before, atol=1e-5, rtol=0)
    assert model.config.rope_theta == base
    assert all(torch.equal(t, state[name]) for name, t in model.state_dict().items())


@torch.no_grad()
@pytest.mark.parametrize("kind", KINDS)
def test_another_base_is_that_of_the_configuration(kind, tmp_path):
    ours, theirs = made(kind), made(kind, rope_theta=50.0)
    replace_grid_rotation(ours, AxialRoPE(16, base=50.0, pairing="half"))
    for height, width in ((32, 40), (64, 16)):
        torch.testing.assert_close(hidden(ours, height, width), hidden(theirs, height, width), atol=1e-5, rtol=0)
    ours.save_pretrained(tmp_path)
    loaded = type(ours).from_pretrained(tmp_path).eval()
    torch.testing.assert_close(hidden(loaded), hidden(ours), atol=1e-5, rtol=0)


@pytest.mark.parametrize("kind", KINDS)
def test_each_head_rotates_by_its_own_frequencies(kind, tmp_path):
    model, base = made(kind), made(kind)
    scheme = of_axes(grid_rotation(base))
    replace_grid_rotation(model, scheme)
    torch.testing.assert_close(hidden(model), hidden(base), atol=1e-5, rtol=0)
    hidden(model).square().sum().backward()
    assert all(bool(scheme.directions.grad[head].any()) for head in (0, 1))
    with torch.no_grad():
        scheme.directions[1] *= 2
        assert not torch.allclose(hidden(model), hidden(base), atol=1e-3)
        where, q = scheme.prepare(grid(4, 5, span=6.283185307179586)), torch.randn(1, 2, 20, 16)
        cos, sin = model.rope_embeddings(torch.zeros(1, 3, 32, 40))
        turned = q * cos + torch.cat([-q[..., 8:], q[..., :8]], -1) * sin
    torch.testing.assert_close(turned, scheme.transform(q, where, "q").detach(), atol=1e-5, rtol=0)
    with pytest.raises(
        ValueError, match=r"config\.json cannot hold the MixedRoPE of this model\. Save model\.state_di"
    ):
        model.save_pretrained(tmp_path)
    again = replace_grid_rotation(made(kind), MixedRoPE(16, 2, pairing="half"))
    again.load_state_dict(model.state_dict())
    assert torch.equal(hidden(again), hidden(model))
    replace_grid_rotation(model, AxialRoPE(16, pairing="half")).save_pretrained(tmp_path)


@torch.no_grad()
def test_positions_are_rows_and_columns_of_patches(tmp_path):
    model, scheme = made(), AxialRoPE(16, pairing="half")
    before = hidden(model)
    replace_grid_rotation(model, scheme, span=None)
    cos, _ = model.rope_embeddings(torch.zeros(1, 3, 32, 40))
    rows, columns = map(torch.tensor, scheme.theta)
    torch.testing.assert_close(cos[7, :8], torch.cat([1 * rows, 2 * columns]).cos())
    assert not torch.allclose(hidden(model), before, atol=1e-3)
    with pytest.raises(ValueError, match=r"replace_grid_rotation\(model, AxialRoPE\(\.\.\), span=None\) and then"):
        model.save_pretrained(tmp_path)
    other = replace_grid_rotation(made(), scheme, span=3.0)
    with pytest.raises(
        ValueError, match=r"saved with span=None, and this model rotates with span=3\.0\. Call replace_gr"
    ):
        other.load_state_dict(model.state_dict())
    with pytest.raises(RuntimeError, match="span_text"):
        replace_grid_rotation(made(), scheme).load_state_dict(model.state_dict())
    again = replace_grid_rotation(made(), scheme, span=None)
    again.bfloat16().load_state_dict(model.state_dict())
    assert repr(grid_rotation(made())) == "AxialRoPE(16, base=100.0, pairing='half')"


def test_in_training_coordinates_are_scaled_at_random_as_before():
    ours, theirs = made(pos_embed_shift=0.1, pos_embed_jitter=1.2), made(pos_embed_shift=0.1, pos_embed_jitter=1.2)
    replace_grid_rotation(ours, grid_rotation(ours))
    picture, found = torch.zeros(1, 3, 32, 40), []
    for model in (ours, theirs):
        torch.manual_seed(3)
        found.append(torch.stack(model.train().rope_embeddings(picture)))
    torch.testing.assert_close(found[0], found[1], atol=1e-5, rtol=0)
    assert not torch.allclose(found[0], torch.stack(ours.eval().rope_embeddings(picture)), atol=1e-3)


@torch.no_grad()
def test_a_model_in_half_precision():
    model, picture = made().bfloat16(), torch.randn(1, 3, 32, 40).bfloat16()
    before = model(picture)[0]
    replace_grid_rotation(model, grid_rotation(model))
    torch.testing.assert_close(model(picture)[0], before, atol=0.05, rtol=0)
    assert model.rope_embeddings(picture)[0].dtype == torch.bfloat16


class Foreign(nn.Module):
    """A part that makes other numbers than DINOv3's."""

    def forward(self, pixel_values):
        return torch.ones(15, 16), torch.zeros(15, 16)


def foreign():
    model = made()
    model.rope_embeddings = Foreign()
    return model


@pytest.mark.parametrize(
    ("make", "change", "sentence"),
    [
        (made, lambda m: replace_grid_rotation(m, AxialRoPE(16)), r"rotates channels i and i \+ 8 of 16 in each head"),
        (
            made,
            lambda m: replace_grid_rotation(m, AxialRoPE(32, pairing="half")),
            r"this AxialRoPE maps them otherwise",
        ),
        (made, lambda m: replace_grid_rotation(m, MixedRoPE(16, 4, pairing="half")), r"MixedRoPE maps them otherwise"),
        (made, lambda m: replace_grid_rotation(m, RoPE(16, pairing="half")), r"RoPE here reads 1 axes per position"),
        (made, lambda m: replace_grid_rotation(m, ALiBi(2)), r"embedding rotates q and k .* ALiBi acts at bias too"),
        (made, lambda m: configured(m.config), r"configuration of a vision model, .* posenc\.adapt\.grid_rotation"),
        (foreign, grid_rotation, r"is not of DINOv3's kind|rotates otherwise than its configuration describes"),
        (lambda: nn.Linear(2, 2), grid_rotation, r"Linear has no part called `rope_embeddings` or `rope` that"),
        (lambda: nn.ModuleList([made(), made()]), grid_rotation, r"ModuleList has 2 parts called .* Pass one of them"),
    ],
)
def test_a_refused_model_is_unchanged(make, change, sentence):
    model = make()
    rotary = getattr(model, "rope_embeddings", None)
    with pytest.raises(ValueError, match=sentence):
        change(model)
    assert getattr(model, "rope_embeddings", None) is rotary


EVA = {"img_size": 64, "patch_size": 16, "embed_dim": 64, "depth": 2, "num_heads": 2, "num_classes": 5}


def of_timm(timm, name="eva02_tiny_patch14_224", **sizes):
    torch.manual_seed(0)
    model = timm.create_model(name, **{**EVA, **sizes}).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return model


def features(model, side=64):
    return model.forward_features(torch.randn(2, 3, side, side, generator=torch.Generator().manual_seed(1)))


@torch.no_grad()
@pytest.mark.parametrize("dynamic", [False, True])
def test_a_rope_vit_of_timm_rotates_columns_first(timm, dynamic):
    model = of_timm(timm, "vit_small_patch16_rope_224", dynamic_img_size=dynamic)
    scheme, before = grid_rotation(model), features(model)
    assert (scheme.order, scheme.pairing) == ((1, 0), "interleaved")
    replace_grid_rotation(model, AxialRoPE(32, pairing="interleaved"))
    assert not torch.allclose(features(model), before, atol=1e-3)
    replace_grid_rotation(model, scheme)
    torch.testing.assert_close(features(model), before, atol=1e-5, rtol=0)
    assert grid_rotation(model) is scheme


def test_each_head_of_timms_model_rotates_by_its_own_frequencies(timm):
    model, base = of_timm(timm), of_timm(timm)
    own = grid_rotation(base)
    mixed = MixedRoPE(32, 2, pairing=own.pairing)
    with torch.no_grad():
        mixed.directions.zero_()
        for axis, frequencies in enumerate(own.theta):
            mixed.directions[:, axis, 8 * axis : 8 * axis + 8] = torch.tensor(frequencies)
    replace_grid_rotation(model, mixed)
    torch.testing.assert_close(features(model), features(base), atol=1e-5, rtol=0)
    features(model).square().sum().backward()
    assert all(bool(mixed.directions.grad[head].any()) for head in (0, 1))
    with torch.no_grad():
        mixed.directions[1] *= 2
        assert not torch.allclose(features(model), features(base), atol=1e-3)
        again = replace_grid_rotation(of_timm(timm), MixedRoPE(32, 2, pairing=own.pairing))
        again.load_state_dict(model.state_dict())
        assert torch.equal(features(again), features(model))
        replace_grid_rotation(model, own)  # one rotation of all heads again
        torch.testing.assert_close(features(model), features(base), atol=1e-5, rtol=0)


@torch.no_grad()
def test_positions_of_timms_patches(timm):
    model, scheme = of_timm(timm), AxialRoPE(32)
    own = replace_grid_rotation(model, scheme).rope.positions.grid((4, 4))
    torch.testing.assert_close(own.coords[6], torch.tensor([4.0, 8.0], dtype=torch.float64))  # scaled to 16 x 16
    assert torch.equal(
        replace_grid_rotation(model, scheme, span=None).rope.positions.grid((4, 4)).coords, grid(4, 4).coords
    )
    pos = replace_grid_rotation(model, scheme, span=2.0).rope.positions.grid((4, 4))
    assert torch.equal(pos.coords, grid(4, 4, span=2.0).coords)


@torch.no_grad()
@pytest.mark.parametrize("name", ["eva02_tiny_patch14_224", "vit_small_patch16_dinov3"])
def test_a_model_of_timm_in_half_precision(timm, name):
    model = of_timm(timm, name).bfloat16()
    picture = torch.randn(1, 3, 64, 64).bfloat16()
    before = model.forward_features(picture)
    replace_grid_rotation(model, grid_rotation(model))
    torch.testing.assert_close(model.forward_features(picture), before, atol=0.1, rtol=0.02)


@pytest.mark.parametrize("name", ["eva02_tiny_patch14_224", "vit_small_patch16_dinov3"])
def test_in_training_timms_coordinates_move_as_before(timm, name):
    options = {
        "rope_shift_coords": 0.3,
        "rope_jitter_coords": 1.2,
        "rope_rescale_coords": 1.5,
        "dynamic_img_size": True,
    }
    ours, theirs = of_timm(timm, name, **options), of_timm(timm, name, **options)
    replace_grid_rotation(ours, grid_rotation(ours))
    found = []
    for model in (ours, theirs):
        torch.manual_seed(3)
        found.append(model.train().rope.get_embed((4, 4)))
    torch.testing.assert_close(found[0], found[1], atol=1e-5, rtol=0)
    assert not torch.allclose(found[0], ours.eval().rope.get_embed((4, 4)), atol=1e-3)


@torch.no_grad()
def test_a_scheme_without_tensors_follows_the_device_of_the_model(timm):
    """AxialRoPE has none, so its sines stayed on the CPU."""
    model = replace_grid_rotation(of_timm(timm), AxialRoPE(32)).to("meta")
    assert model.rope.get_embed().device.type == "meta"


@torch.no_grad()
def test_own_positions_are_those_before_any_change(timm):
    model, scheme = of_timm(timm), AxialRoPE(32)
    before = features(replace_grid_rotation(model, scheme))
    replace_grid_rotation(model, scheme, span=2)
    assert not torch.allclose(features(model), before, atol=1e-3)
    same = replace_grid_rotation(of_timm(timm), scheme, span=2.0)
    same.load_state_dict(model.state_dict())
    other = replace_grid_rotation(of_timm(timm), scheme, span=3.0)
    for _ in range(2):  # a refused state leaves nothing behind
        with pytest.raises(ValueError, match=r"saved with span=2\.0, and this model rotates with span=3\.0"):
            other.load_state_dict(model.state_dict())
        assert bytes(other.state_dict()["rope.span_text"].tolist()).strip() == b"3.0"
    assert torch.equal(features(replace_grid_rotation(model, scheme)), before)
    assert "rope.span_text" not in model.state_dict()


@torch.no_grad()
def test_eva_gets_another_image_size_with_its_rotation(timm):
    for change in (lambda m: m, lambda m: replace_grid_rotation(m, grid_rotation(m))):
        ours, theirs = change(of_timm(timm)), of_timm(timm)
        vision_transformer(ours, image=96)
        theirs.set_input_size(img_size=96)
        torch.testing.assert_close(features(ours, 96), features(theirs, 96), atol=1e-5, rtol=0)
        vision_transformer(ours, Sinusoid(64, axes=2), image=64)
        assert features(ours, 64).shape == features(of_timm(timm)).shape


def pixels(timm):
    model = of_timm(timm)
    model.rope = timm.layers.RotaryEmbeddingCat(32, in_pixels=True, feat_shape=[4, 4])
    return model


@pytest.mark.parametrize(
    ("make", "change", "sentence"),
    [
        (
            of_timm,
            lambda m: replace_grid_rotation(m, AxialRoPE(32, pairing="half")),
            r"rotates channels 2 i and 2 i \+ 1",
        ),
        (
            of_timm,
            lambda m: replace_grid_rotation(m, AxialRoPE(32), span="rows"),
            r'`span` is "own", a positive number',
        ),
        (of_timm, lambda m: replace_grid_rotation(m, AxialRoPE(32), span=True), r'`span` is "own", a positive number'),
        (of_timm, lambda m: replace_grid_rotation(m, AxialRoPE(32), span=[1]), r'`span` is "own", a positive number'),
        (pixels, grid_rotation, r"RotaryEmbeddingCat of this Eva is not an axial rotation"),
        (
            lambda timm: of_timm(timm, "vit_small_patch16_rope_mixed_224"),
            grid_rotation,
            r"RotaryEmbeddingMixed of this Eva is trained and differs by layer",
        ),
    ],
)
def test_a_refused_model_of_timm_is_unchanged(timm, make, change, sentence):
    model = make(timm)
    rotary = model.rope
    with pytest.raises(ValueError, match=sentence):
        change(model)
    assert model.rope is rotary
