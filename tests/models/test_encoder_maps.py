"""The encoder's attention maps are the weights that its forward pass uses: the logits can be made again from them."""

from __future__ import annotations

import dataclasses
import itertools
from typing import Any

import msgspec
import pytest
import torch
from torch import Tensor

from posenc.contract.case import INPUT_DIM, Case
from posenc.measure.attention_maps import attention_maps
from posenc.models.encoder import Encoder, EncoderConfig
from posenc.positions import Positions, sequence
from posenc.scheme import Scheme
from posenc.schemes import catalogue
from posenc.schemes.causal_nope import CausalNoPE
from posenc.schemes.learned import Learned
from posenc.schemes.nope import NoPE
from posenc.schemes.rope import RoPE

TOKENS = 16
CONFIG = EncoderConfig(channels=5, classes=4, dim=24, depth=3, hidden=12, heads=2)


def encoder_of(make: Any, config: EncoderConfig = CONFIG) -> Encoder:
    model = Encoder(config, lambda layer: make()).double()
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in model.parameters():  # away from the zeros and ones that would hide a mistake
            noise = torch.randn(parameter.shape, generator=generator, dtype=parameter.dtype)
            parameter.copy_(0.3 * noise + (parameter.dim() == 1) * 0.5)
    return model.eval()


def learned() -> Scheme:
    return Learned(CONFIG.dim, TOKENS)


def inputs(config: EncoderConfig = CONFIG) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(4, TOKENS, config.channels, generator=generator, dtype=torch.float64)
    return x, torch.tensor([0, 5, 15, 9])


def logits_from(model: Encoder, maps: Tensor, x: Tensor, pos: Positions, probe: Tensor) -> Tensor:
    """The forward pass with given weights in place of every softmax."""
    y = model.tokens(x)
    config = model.config
    blocks: list[Any] = list(model.blocks)
    schemes: list[Any] = list(model.schemes)
    for layer, block in enumerate(blocks):
        scheme = schemes[model.scheme_of[layer]]
        where = scheme.prepare(pos)
        pair = scheme.relate(where, where)
        if "embed" in scheme.claims.sites and (layer == 0 or config.placement == "every_block"):
            y = y + scheme.embed(where).to(y.dtype)
        z = block.norm1(y) if config.norm == "pre" else y
        v = block.qkv(z)[..., 2 * config.dim :].unflatten(-1, (config.heads, -1)).transpose(1, 2)
        out = maps[layer] @ scheme.transform(v, where, "v")
        extra = scheme.value_bias(maps[layer], pair)
        out = scheme.transform(out if extra is None else out + extra, where, "o")
        y = scheme.mix(block._after(y, out.transpose(1, 2).flatten(2)), where)
    read = probe if config.read_out == "probe" else torch.full_like(probe, TOKENS - 1)
    return model.head(model.norm(y[torch.arange(len(y)), read]))


def fitting(case: Case, heads: int) -> EncoderConfig | None:
    """A configuration in which this example works with that many heads; None where it is made for other models."""
    scheme = case.make()
    dim = heads * (scheme.head_width or INPUT_DIM)
    if "embed" in scheme.claims.sites:
        dim = scheme.out_dim
    elif "mix" in scheme.claims.sites:
        dim = INPUT_DIM
    if dim % heads:
        return None
    config = msgspec.structs.replace(CONFIG, dim=dim, heads=heads)
    x, probe = inputs(config)
    try:
        encoder_of(case.make, config)(x, case.positions(TOKENS), probe)
    except (ValueError, RuntimeError):
        return None
    return config


@pytest.mark.full
@pytest.mark.bare
@pytest.mark.parametrize("name", list(catalogue()))
def test_the_maps_of_every_scheme_give_its_logits(name) -> None:
    kind, tried = catalogue()[name], 0
    for example, heads in itertools.product(kind.examples, (1, 2, 4)):
        case = Case(kind, example)
        config = fitting(case, heads)
        if config is None:
            continue
        pos, (x, probe) = case.positions(TOKENS), inputs(config)
        model = encoder_of(case.make, config)
        with torch.no_grad():
            maps = attention_maps(model, x, pos)
            assert maps.shape == (config.depth, 4, heads, TOKENS, TOKENS)
            torch.testing.assert_close(maps.sum(-1), torch.ones_like(maps[..., 0]))
            for read_out in ("probe", "last"):
                model.config = msgspec.structs.replace(config, read_out=read_out)
                found, expected = logits_from(model, maps, x, pos, probe), model(x, pos, probe)
                torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-6, msg=lambda t, c=case: f"{c}: {t}")
                if config.dim >= 8:  # layer norm leaves fewer channels too little to tell maps apart by
                    other = logits_from(model, maps.roll(1, -1), x, pos, probe)
                    assert not torch.allclose(other, expected, rtol=1e-6, atol=1e-6), str(case)
        tried += 1
    assert tried, f"no example of {name} fits an encoder"


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_the_maps_of_every_kind_of_block_give_its_logits(norm) -> None:
    bools = (False, True)
    for bias, projected, second, placement in itertools.product(bools, bools, bools, ("input", "every_block")):
        config = msgspec.structs.replace(
            CONFIG, norm=norm, projection_bias=bias, output_projection=projected, second_activation=second,
            placement=placement,
        )  # fmt: skip
        model, (x, probe) = encoder_of(learned, config), inputs(config)
        with torch.no_grad():
            maps = model.attention_maps(x, sequence(TOKENS))
            found = logits_from(model, maps, x, sequence(TOKENS), probe)
            torch.testing.assert_close(found, model(x, sequence(TOKENS), probe), rtol=1e-6, atol=1e-6)


class HeardByKey(Scheme):
    """A bias made of the block's input at the keys, as gates are."""

    def __init__(self) -> None:
        super().__init__()
        self.claims = dataclasses.replace(NoPE().claims, sites=frozenset({"bias"}))

    def prepare(self, pos: Positions) -> None:
        return None

    def keep(self, x: Tensor, where: Any) -> Tensor:
        return x.square().mean(-1)[:, None]

    def bias(self, q: Tensor, k: Tensor, kept: Any, pair: Any, attn_mask: Any) -> Tensor:
        return kept.unsqueeze(-2)


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_a_bias_made_of_the_tokens_is_in_the_maps(norm) -> None:
    config = msgspec.structs.replace(CONFIG, norm=norm)
    model, (x, probe) = encoder_of(HeardByKey, config), inputs(config)
    with torch.no_grad():
        maps = model.attention_maps(x, sequence(TOKENS))
        found = logits_from(model, maps, x, sequence(TOKENS), probe)
        torch.testing.assert_close(found, model(x, sequence(TOKENS), probe), rtol=1e-6, atol=1e-6)


def test_samples_that_stand_elsewhere_have_maps_of_their_own() -> None:
    model, (x, probe) = encoder_of(lambda: RoPE(12)), inputs()
    order = torch.stack([torch.randperm(TOKENS) for _ in range(4)])
    pos = Positions(order[..., None], placed=torch.rand(4, TOKENS) < 0.8)
    with torch.no_grad():
        maps = model.attention_maps(x, pos)
        torch.testing.assert_close(logits_from(model, maps, x, pos, probe), model(x, pos, probe), rtol=1e-6, atol=1e-6)
        assert not torch.allclose(maps, model.attention_maps(x, sequence(TOKENS)))


def test_maps_have_no_weight_where_nobody_may_look() -> None:
    model, (x, _) = encoder_of(CausalNoPE), inputs()
    maps = model.attention_maps(x, sequence(TOKENS))
    assert float(maps.detach().triu(1).abs().max()) == 0
    assert maps.requires_grad


def test_without_positions_maps_follow_the_tokens() -> None:
    model, (x, _) = encoder_of(NoPE), inputs()
    order = torch.randperm(TOKENS)
    maps, moved = (model.attention_maps(each, sequence(TOKENS)) for each in (x, x[:, order]))
    torch.testing.assert_close(moved, maps[..., order, :][..., order])


def test_dropout_on_the_encoding_is_drawn_in_training_mode_alone() -> None:
    config = msgspec.structs.replace(CONFIG, encoding_dropout=0.5)
    model, (x, _) = encoder_of(learned, config), inputs(config)
    fixed = [model.attention_maps(x, sequence(TOKENS)) for _ in range(2)]
    drawn = [model.train().attention_maps(x, sequence(TOKENS)) for _ in range(2)]
    assert torch.equal(*fixed)
    assert not torch.equal(*drawn)
