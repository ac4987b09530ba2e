"""LeNet and the ways of SC PE into it: sizes, what is equal, what is trained, and what is refused."""

import pytest
import torch

from posenc.models.lenet import LeNet, LeNetConfig
from posenc.schemes.nope import NoPE
from posenc.schemes.rope import RoPE
from posenc.schemes.sc_pe import SCPE
from posenc.schemes.sc_shear import SCShear
from posenc.schemes.sc_torus import SCTorus
from posenc.schemes.sinusoid import Sinusoid

HEAD = (256, 64)  # of the notebooks' features: 3 -> 256 -> 64 -> 1
HEAD_SIZE = 3 * 256 + 256 + 256 * 64 + 64 + 64 + 1


def count(model) -> int:
    return sum(p.numel() for p in model.parameters())


@pytest.mark.parametrize(
    ("config", "features", "parameters"),
    [
        ({}, 256, 44_426),
        ({"padding": 2}, 400, 61_706),
        ({"image": (32, 32), "channels": 3}, 400, 62_006),
        ({"placement": "constant", "width": 784}, 256, 44_426 + 784 * 120 + 784),
        ({"placement": "mask"}, 256, 44_426 + 784),
    ],
)
def test_sizes_are_those_of_the_note(config, features, parameters):
    config = LeNetConfig(**config)
    model = LeNet(config)
    assert config.features == features
    assert count(model) == parameters
    assert model(torch.rand(2, config.channels, *config.image)).shape == (2, 10)


def test_rows_widen_the_first_layer_and_nothing_else():
    model = LeNet(LeNetConfig(padding=2, placement="features"), SCPE(28, variant="code", hidden=HEAD))
    assert count(model) == 61_706 + 784 * 120 + HEAD_SIZE
    constant = LeNet(LeNetConfig(padding=2, placement="constant", width=784))
    assert constant.fc1.weight.shape == model.fc1.weight.shape
    assert count(LeNet(LeNetConfig(placement="features"), SCTorus(28))) == 44_426 + 784 * 6 * 120


@pytest.mark.parametrize(
    ("placement", "scheme", "width"),
    [
        ("features", lambda: SCPE(28, hidden=HEAD), 0),
        ("features", lambda: SCShear(28), 0),
        ("features", lambda: Sinusoid(12, axes=2), 0),
        ("features", lambda: Sinusoid(12), 0),
        ("constant", lambda: None, 784),
    ],
)
def test_what_stands_beside_the_features_is_a_bias(placement, scheme, width):
    model = LeNet(LeNetConfig(placement=placement, width=width), scheme()).double()
    with torch.no_grad():
        model.fc1.weight.mul_(3)
    x = torch.randn(5, 1, 28, 28, dtype=torch.float64)
    plain = model.folded()
    assert count(plain) == 44_426
    assert plain.config.placement == "none"
    torch.testing.assert_close(plain(x), model(x), atol=1e-6, rtol=0)
    with torch.no_grad():
        plain.fc1.bias.add_(0.1)
    assert not torch.allclose(plain(x), model(x), atol=1e-3)


def test_pixels_are_multiplied_in_every_channel():
    scheme = SCPE(28, hidden=(128,))
    model = LeNet(LeNetConfig(placement="pixels", channels=3), scheme)
    plain = LeNet(LeNetConfig(channels=3))
    plain.load_state_dict({k: v for k, v in model.state_dict().items() if not k.startswith("scheme.")})
    x = torch.randn(2, 3, 28, 28)
    picture = model.rows().view(28, 28)
    assert picture[3, 7] == model.rows()[3 * 28 + 7, 0]
    torch.testing.assert_close(model(x), plain(x * picture))


def test_a_mask_starts_as_the_plain_model_and_is_trained():
    model, x = LeNet(LeNetConfig(placement="mask")), torch.randn(2, 1, 28, 28)
    plain = LeNet(LeNetConfig())
    plain.load_state_dict({k: v for k, v in model.state_dict().items() if k != "mask"})
    torch.testing.assert_close(model(x), plain(x))
    model(x).square().sum().backward()
    assert model.mask is not None
    assert model.mask.grad is not None
    assert bool((model.mask.grad != 0).any())


@pytest.mark.parametrize("scheme", [SCPE, SCShear, SCTorus])
@pytest.mark.parametrize("placement", ["features", "pixels"])
def test_readouts_are_trained_through_both_placements(scheme, placement):
    model = LeNet(LeNetConfig(placement=placement), scheme(28, hidden=(16,)))
    model(torch.randn(2, 1, 28, 28)).square().sum().backward()
    assert all(p.grad is not None and bool(p.grad.isfinite().all()) for p in model.parameters())
    assert any(bool((p.grad != 0).any()) for name, p in model.named_parameters() if name.startswith("scheme."))


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: LeNetConfig(classes=1), r"at least 2 classes and 1 channel.*got classes=1"),
        (lambda: LeNetConfig(image=(14, 28)), r"nothing is left of an image of 14 x 28 .* at least 16 x 16"),
        (lambda: LeNetConfig(placement="constant"), r"width is that of the trained vector"),
        (lambda: LeNetConfig(width=3), r"at least 1 there and 0 elsewhere; got placement='none', width=3"),
        (lambda: LeNet(LeNetConfig(placement="features")), r"placement='features' takes a scheme"),
        (lambda: LeNet(LeNetConfig(), SCPE(28)), r"placement='none' takes no scheme; got SCPE. Use placement='feat"),
        (lambda: LeNet(LeNetConfig(placement="features"), RoPE(8)), r"no attention, and RoPE acts at k, q. Take one"),
        (lambda: LeNet(LeNetConfig(placement="features"), NoPE()), r"NoPE acts at no site"),
        (lambda: LeNet(LeNetConfig(placement="pixels"), SCPE(28)), r"one number, and SCPE gives 3. Use one with a r"),
        (lambda: LeNet(LeNetConfig(placement="features"), SCPE(20)), r"SCPE starts at 0 and stops at 19; position 27"),
        (lambda: LeNet(LeNetConfig()).folded(), r"placement='none' concatenates nothing to the features"),
        (lambda: LeNet(LeNetConfig())(torch.rand(2, 3, 28, 28)), r"reads images \(B, 1, 28, 28\); got \(2, 3, 28"),
        (lambda: LeNet(LeNetConfig())(torch.rand(2, 1, 32, 32)), r"got \(2, 1, 32, 32\). Build it with the channels="),
    ],
)
def test_what_does_not_fit_is_said_in_a_sentence(make, sentence):
    with pytest.raises(ValueError, match=sentence):
        make()


def test_pixels_on_the_unit_square():
    model = LeNet(LeNetConfig(placement="features", view="unit"), Sinusoid(4, axes=2, base=2.0))
    rows = model.rows()
    torch.testing.assert_close(rows[0], Sinusoid(4, axes=2, base=2.0).define_embed(torch.tensor([0.5, 0.5]) / 28))
