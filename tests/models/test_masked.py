"""The masked encoder against the same model out of torch's own layers, and what it may not see."""

import msgspec
import pytest
import torch
from torch.nn import functional

from posenc.models.encoder import EncoderConfig
from posenc.models.masked_encoder import MaskedEncoder
from posenc.positions import grid, sequence
from posenc.schemes.learned import Learned
from posenc.schemes.nope import NoPE
from posenc.schemes.peg import PEG
from posenc.schemes.rope import RoPE
from posenc.schemes.shaw import Shaw

TOKENS = 12


def small(**changes):
    config = EncoderConfig(channels=2, classes=2, dim=8, depth=2, hidden=12)
    return msgspec.structs.replace(config, **changes)


def inputs(batch=3, tokens=TOKENS, hidden=5, features=2):
    generator = torch.Generator().manual_seed(1)
    values = torch.randn(batch, tokens, features, generator=generator, dtype=torch.float64)
    return values, torch.rand(batch, tokens, generator=generator).topk(hidden).indices


@pytest.mark.parametrize("tables", [0, 2])
@pytest.mark.parametrize("changes", [{}, {"norm": "pre"}, {"heads": 2, "second_activation": True}])
def test_the_masked_encoder_is_the_plain_one(plain, tables, changes):
    config = small(**changes)
    model = MaskedEncoder(config, lambda layer: Learned(8, TOKENS) if tables else NoPE()).double()
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn(parameter.shape, generator=generator, dtype=parameter.dtype))
    other = plain.PlainMasked(config, tables=tables, max_len=TOKENS).double()
    other.take(model)
    values, hidden = inputs()
    wanted = values.gather(1, hidden[..., None].expand(-1, -1, 2))
    ours, theirs = model(values, sequence(TOKENS), hidden), other(values, torch.arange(TOKENS), hidden)
    for found in (ours, theirs):
        functional.mse_loss(found, wanted).backward()
    assert model.hidden_token is not None
    assert bool(model.hidden_token.grad.abs().min() > 0)
    assert max(plain.differences(model, other, ours, theirs).values()) < 1e-10


@pytest.mark.parametrize("how", ["learned", "zero"])
@pytest.mark.parametrize(
    "make",
    [
        lambda layer: Learned(8, TOKENS),
        lambda layer: RoPE(8),
        lambda layer: Shaw(8, TOKENS),
        lambda layer: PEG(8),
    ],
    ids=["learned", "rope", "shaw", "mixes"],
)
def test_what_is_hidden_is_not_seen_and_what_is_visible_is(make, how):
    model = MaskedEncoder(small(), make, hidden=how).double().eval()
    pos = grid(3, 4) if "mix" in model.schemes[0].claims.sites else sequence(TOKENS)
    values, hidden = inputs()
    before = model(values, pos, hidden)
    other = values.scatter(1, hidden[..., None].expand(-1, -1, 2), 7.0)
    torch.testing.assert_close(model(other, pos, hidden), before, rtol=0, atol=0)
    other[0, int(next(n for n in range(TOKENS) if n not in hidden[0]))] += 1
    assert not torch.equal(model(other, pos, hidden)[0], before[0])
    # predictions stand in the order that was asked for
    torch.testing.assert_close(model(values, pos, hidden.flip(1)), before.flip(1))


def test_a_hidden_token_is_told_from_a_value_of_zero_only_if_it_has_a_vector():
    values, hidden = inputs()
    values[:, 0] = 0
    hidden = torch.arange(1, 6).expand(3, 5)
    for how, told in (("learned", True), ("zero", False)):
        model = MaskedEncoder(small(), lambda layer: NoPE(), hidden=how).double()
        away = torch.cat([torch.zeros(3, 1, dtype=torch.long), hidden], 1)
        found = model(values, sequence(TOKENS), away)[:, 1:]
        assert torch.allclose(found, model(values, sequence(TOKENS), hidden)) is not told


def test_what_cannot_be_is_refused():
    with pytest.raises(ValueError, match=r"channels and classes must be equal; got 2 and 4\. Set both to the number"):
        MaskedEncoder(small(classes=4), lambda layer: NoPE())
    with pytest.raises((ValueError, TypeError), match=r"'learned' or 'zero'; got hidden='none'|Type-check error"):
        MaskedEncoder(small(), lambda layer: NoPE(), hidden="none")
