"""An encoder of ours whose schemes are swapped: what stays, what goes, and what is refused before anything changes."""

import copy

import pytest
import torch
from torch import nn

from posenc.adapt import swap
from posenc.models.encoder import Encoder, EncoderConfig
from posenc.models.layers import layers
from posenc.positions import grid, sequence
from posenc.schemes.learned import Learned
from posenc.schemes.nope import NoPE
from posenc.schemes.rope import RoPE
from posenc.schemes.sinusoid import Sinusoid

CONFIG = EncoderConfig(channels=6, classes=4, dim=16, depth=3, hidden=8, heads=2)


def encoder(schemes=lambda layer: Learned(16, 9)):
    torch.manual_seed(0)
    return Encoder(CONFIG, schemes)


def logits(model, pos):
    x = torch.randn(4, 9, 6, generator=torch.Generator().manual_seed(1)).to(model.head.weight)
    with torch.no_grad():
        return model(x, pos, torch.tensor([0, 3, 8, 5]))


def test_the_other_weights_stay_under_their_names_and_do_what_they_would_beside_the_new_scheme():
    model = encoder()
    before = copy.deepcopy(model.state_dict())
    scheme = Sinusoid(16, axes=2)
    assert swap(model, scheme) is model
    after = model.state_dict()
    assert set(before) - set(after) == {f"schemes.{layer}.table" for layer in range(3)}
    assert set(after) < set(before)
    assert all(torch.equal(after[name], before[name]) for name in after)
    built = Encoder(CONFIG, lambda layer: scheme)
    built.load_state_dict(after)
    assert torch.equal(logits(model, grid(3, 3)), logits(built, grid(3, 3)))


def test_swapped_back_it_is_the_model_that_it_was():
    model, tables = encoder(), [Learned(16, 9) for _ in range(3)]
    swap(model, lambda layer: tables[layer])
    wanted = logits(model, sequence(9))
    assert not torch.equal(logits(swap(model, NoPE()), sequence(9)), wanted)
    assert torch.equal(logits(swap(model, layers(*tables)), sequence(9)), wanted)


def test_a_rotation_on_two_layers_of_three():
    rope, nope = RoPE(8), NoPE()
    model = swap(encoder(), layers(rope, rope, nope))
    assert list(model.schemes) == [rope, nope]
    assert model.scheme_of == [0, 0, 1]


def test_what_a_scheme_had_learned_does_not_pass_to_one_of_the_same_kind():
    model = encoder()
    new = Learned(16, 9)
    table = new.table.detach().clone()
    swap(model, layers(new, repeat=False, rest=NoPE()))
    assert torch.equal(model.schemes[0].table, table)


def test_new_schemes_take_the_models_dtype_device_and_mode():
    model = encoder().double().eval()
    swap(model, lambda layer: Learned(16, 9))
    assert {parameter.dtype for parameter in model.parameters()} == {torch.float64}
    assert not any(module.training for module in model.modules())
    assert logits(model, sequence(9)).dtype == torch.float64


def test_what_was_swapped_in_is_trained():
    model = swap(encoder(), lambda layer: Learned(16, 9))
    x, probe = torch.randn(4, 9, 6), torch.tensor([0, 3, 8, 5])
    model(x, sequence(9), probe).square().sum().backward()
    assert all(scheme.table.grad is not None for scheme in model.schemes)


@pytest.mark.parametrize(
    ("schemes", "sentence"),
    [
        (Sinusoid(12), r"Sinusoid makes rows of width 12 and the encoder adds them to tokens of width 16"),
        (RoPE(16), r"RoPE acts on heads of width 16 and the encoder's have 8"),
        (Learned(16, 9), r"Learned is per layer, and layer 1 would share it with an earlier layer"),
    ],
)
def test_what_does_not_fit_is_refused_and_leaves_the_model_as_it_was(schemes, sentence):
    model = encoder()
    before = logits(model, sequence(9))
    with pytest.raises(ValueError, match=sentence):
        swap(model, schemes)
    assert torch.equal(logits(model, sequence(9)), before)


def test_a_model_that_takes_no_schemes_is_refused():
    with pytest.raises(ValueError, match=r"Linear has no method `place`, which sets the schemes of a posenc model"):
        swap(nn.Linear(2, 2), NoPE())
