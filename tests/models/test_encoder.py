"""The lean encoder against the same model out of torch's own layers, and its last block against a whole one."""

import dataclasses
import inspect
import itertools

import msgspec
import pytest
import torch
from torch.nn import functional

from posenc.contract.case import Case
from posenc.kernels import linear as kernel
from posenc.lookup.scheme_text import Specification, per_layer
from posenc.models.encoder import Block, Encoder, EncoderConfig
from posenc.positions import sequence
from posenc.scheme import Claims, Scheme
from posenc.schemes import catalogue
from posenc.schemes.learned import Learned
from posenc.schemes.nope import NoPE
from tiers import full_except

TOKENS = 16


def small(**changes):
    return msgspec.structs.replace(EncoderConfig(channels=5, classes=4, dim=8, depth=2, hidden=12), **changes)


def draw(model, seed):
    """Every parameter away from the values, such as zero and one, that would hide a mistake."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            noise = torch.randn(parameter.shape, generator=generator, dtype=parameter.dtype)
            parameter.copy_(0.5 * noise + (parameter.dim() == 1) * 0.5)


def compared(plain, config, *, scheme="Learned", batch=3, dtype=torch.float64):
    """The differences of logits and gradients between the encoder and the plain one."""
    options = {"dim": config.dim, "max_len": TOKENS} if scheme == "Learned" else {}
    encoder = Encoder(config, per_layer(Specification(scheme, options), {})).to(dtype)
    draw(encoder, seed=0)
    other = plain.PlainEncoder(config, tables=config.depth if scheme == "Learned" else 0, max_len=TOKENS).to(dtype)
    other.take(encoder)
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(batch, TOKENS, config.channels, generator=generator, dtype=dtype)
    probe = torch.randint(TOKENS, (batch,), generator=generator)
    answer = torch.randint(config.classes, (batch,), generator=generator)
    index = torch.randperm(TOKENS, generator=generator)
    ours, theirs = encoder(x, sequence(index), probe), other(x, index, probe)
    for logits in (ours, theirs):
        functional.cross_entropy(logits, answer).backward()
    return plain.differences(encoder, other, ours, theirs)


REST = {
    "read_out": ("probe", "last"),
    "activation": ("relu", "gelu"),
    "second_activation": (False, True),
    "projection_bias": (True, False),
    "output_projection": (True, False),
    "placement": ("input", "every_block"),
}


@pytest.mark.parametrize("norm", ["post", "pre"])
@pytest.mark.parametrize("heads", full_except([1, 2, 4], 2))
def test_the_encoder_is_the_plain_one(plain, norm, heads):
    seen = 0
    for chosen in itertools.product(*REST.values()):
        options = dict(zip(REST, chosen, strict=True))
        found = compared(plain, small(norm=norm, heads=heads, **options))
        assert max(found.values()) < 1e-10, (options, found)
        seen += len(found)
    assert seen > 64 * 20


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_the_encoder_without_positions_is_the_plain_one(plain, norm):
    assert max(compared(plain, small(norm=norm, heads=2), scheme="NoPE").values()) < 1e-10


@pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="this torch has no oneDNN")
@pytest.mark.parametrize("changes", [{}, {"norm": "pre", "second_activation": True}, {"heads": 4, "read_out": "last"}])
def test_the_fast_products_give_the_plain_one_in_float32(plain, changes, monkeypatch):
    products, product = [], kernel._product
    monkeypatch.setattr(kernel, "_product", lambda *a: products.append(1) or product(*a))
    found = compared(plain, small(dim=32, hidden=128, **changes), batch=128, dtype=torch.float32)
    assert len(products) >= 8  # four products of the first block, each with its input's gradient
    assert max(found.values()) < 2e-4, found


def test_the_comparison_finds_a_difference(plain):
    config = small()
    encoder = Encoder(config, lambda layer: NoPE())
    other = plain.PlainEncoder(config, tables=0)
    other.take(encoder)
    x, probe = torch.ones(2, TOKENS, 5), torch.zeros(2, dtype=torch.long)
    with torch.no_grad():
        other.encoder.layers[0].linear1.bias.copy_(torch.arange(12.0))
    ours, theirs = encoder(x, sequence(TOKENS), probe), other(x, torch.arange(TOKENS), probe)
    ours.sum().backward()
    (2 * theirs.sum()).backward()
    found = plain.differences(encoder, other, ours, theirs)
    assert found["logits"] > 1e-4
    assert found["head.bias"] == pytest.approx(0.5)


# the lean last block -----------------------------------------------------------------------------------------------


class Everywhere(Scheme):
    """Acts at any sites, so that no pair of them stays untried: channels grow with the position, logits and outputs
    gain a number that depends on the distance."""

    def __init__(self, sites):
        super().__init__()
        self.claims = Claims(
            translation="none", isometric=False, learned=False, range=None, axes=1, sites=frozenset(sites),
            sharing="model", cacheable=True,
        )  # fmt: skip

    def prepare(self, pos):
        return pos.coords[..., 0].double() + 1

    def relate(self, where_q, where_k):
        distance = where_k[..., None, :] - where_q[..., :, None]
        return distance.unsqueeze(-3) if distance.dim() == 3 else distance

    def transform(self, x, where, site):
        scale = {"q": 0.03, "k": 0.04, "v": 0.05, "o": 0.06}[site] * where
        scale = scale if scale.dim() == 1 else scale.unsqueeze(-2)
        return x * (1 + scale[..., None]) if site in self.claims.sites else x

    def keep(self, x, where):
        return x.square().mean(-1)[:, None]

    def bias(self, q, k, kept, pair, attn_mask):
        assert kept is not None
        return 0.1 * pair + kept.unsqueeze(-2) if "bias" in self.claims.sites else None

    def value_bias(self, weights, pair):
        return (0.1 * weights * pair).sum(-1, keepdim=True) if "value_bias" in self.claims.sites else None

    def mask(self, pair):
        return pair <= 0 if "mask" in self.claims.sites else None


def instances():
    """Every scheme with all of its examples, for as many heads as they are made for, and sites in ones and twos."""
    several = ("q", "k", "v", "o", "bias", "value_bias", "mask")
    for sites in [*((site,) for site in several), *itertools.combinations(several, 2)]:
        yield pytest.param(2, Case(Everywhere, {"sites": sites}), id="-".join(sites))
    for name, kind in catalogue().items():
        for number, example in enumerate(kind.examples):
            taken = inspect.signature(kind).parameters
            heads = example.get("heads", taken["heads"].default) if "heads" in taken else 2
            yield pytest.param(
                heads, Case(kind, example), id=f"{name}-{number}", marks=pytest.mark.full if number else ()
            )


def places(case, batched):
    if not batched:
        return case.positions(TOKENS)
    pos = case.positions(TOKENS, batch=4)
    return dataclasses.replace(pos, placed=torch.rand(4, TOKENS, generator=torch.Generator().manual_seed(3)) < 0.8)


@pytest.mark.parametrize(
    "batched", [pytest.param(False, id="alike", marks=pytest.mark.full), pytest.param(True, id="each-its-own")]
)
@pytest.mark.parametrize(("heads", "case"), list(instances()))
def test_the_lean_block_gives_what_the_whole_one_gives_at_those_tokens(heads, case, batched):
    for norm in ("post", "pre"):
        scheme = case.make()
        dim = case.options.get("dim", 0) if "bias" in scheme.claims.sites else 0
        dim = dim or heads * (scheme.head_width or 12)
        heads = dim // scheme.head_width if scheme.head_width else heads
        if "mix" in scheme.claims.sites or scheme.draws:
            pytest.skip(
                "it mixes neighbours after the block, or draws anew, so the encoder computes all of the last one"
            )
        block = Block(small(dim=dim, heads=heads, norm=norm)).double()
        draw(block, seed=1)
        pos = places(case, batched)
        where = scheme.prepare(pos)
        index, row = torch.tensor([[0, 3], [5, 1], [15, 14], [9, 0]]), torch.arange(4)[:, None]
        z = torch.randn(4, TOKENS, dim, dtype=torch.float64, requires_grad=True)
        pull = torch.randn(4, 2, dim, dtype=torch.float64)
        whole = block(z, scheme, where, scheme.relate(where, where))[row, index]
        inputs = {"z": z, **dict(block.named_parameters()), **dict(scheme.named_parameters())}
        found = [(block.read(z, scheme, pos, where, index[:, 0])[:, None], whole[:, :1])]
        found += [(block.some(z, scheme, pos, where, index), whole)] if norm == "post" else []
        for lean, same in found:
            ours, theirs = (
                torch.autograd.grad(
                    (y * pull[:, : y.shape[1]]).sum(), list(inputs.values()), retain_graph=True, allow_unused=True,
                    materialize_grads=True,
                )
                for y in (lean, same)
            )  # fmt: skip
            torch.testing.assert_close(lean, same, rtol=1e-6, atol=1e-6)
            for name, a, b in zip(inputs, ours, theirs, strict=True):
                torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-6, msg=lambda text, name=name: f"{name}: {text}")


# the door ----------------------------------------------------------------------------------------------------------


def test_heads_that_do_not_divide_the_width_are_refused():
    with pytest.raises(ValueError) as caught:
        small(heads=3)
    assert str(caught.value) == (
        "3 heads do not divide a width of 8; every head gets dim / heads channels. "
        "Use a number of heads that divides 8."
    )
    with pytest.raises(ValueError, match="0 heads do not divide"):
        small(heads=0)


def test_an_encoding_of_another_width_is_refused():
    with pytest.raises(ValueError, match=r"Learned makes rows of width 6 .* width 8. Build it with dim=8."):
        Encoder(small(), lambda layer: Learned(6, TOKENS))


def test_a_shared_scheme_is_one_and_a_scheme_a_layer_is_many():
    one = Learned(8, TOKENS)
    shared, own = Encoder(small(depth=3), lambda layer: one), Encoder(small(depth=3), lambda layer: Learned(8, TOKENS))
    assert (len(shared.schemes), shared.scheme_of) == (1, [0, 0, 0])
    assert (len(own.schemes), own.scheme_of) == (3, [0, 1, 2])


def test_dropout_on_the_encoding_is_on_in_training_alone():
    torch.manual_seed(0)
    encoder = Encoder(small(encoding_dropout=0.5), lambda layer: Learned(8, TOKENS))
    x, probe = torch.randn(3, TOKENS, 5), torch.tensor([0, 1, 2])
    drawn = [encoder(x, sequence(TOKENS), probe) for _ in range(2)]
    encoder.eval()
    fixed = [encoder(x, sequence(TOKENS), probe) for _ in range(2)]
    assert not torch.equal(*drawn)
    assert torch.equal(*fixed)
