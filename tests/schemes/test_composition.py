"""Sums, rows side by side, factors and layers: against their parts by hand, and what they claim and refuse."""

import math
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from posenc.attention import attention
from posenc.contract import check
from posenc.models.encoder import Encoder, EncoderConfig
from posenc.models.layers import layers
from posenc.positions import Positions, grid, sequence
from posenc.schemes.alibi import ALiBi
from posenc.schemes.causal_nope import CausalNoPE
from posenc.schemes.concat import Concat
from posenc.schemes.concat_axes import ConcatAxes
from posenc.schemes.cope import CoPE
from posenc.schemes.dense_grid import DenseGrid
from posenc.schemes.grid_rotate import GridRotate
from posenc.schemes.laplacian import Laplacian
from posenc.schemes.learnable_fourier import LearnableFourier
from posenc.schemes.learned import Learned
from posenc.schemes.nope import NoPE
from posenc.schemes.peg import PEG
from posenc.schemes.random import Random
from posenc.schemes.rope import RoPE
from posenc.schemes.scaled import Scaled
from posenc.schemes.shaw import Shaw
from posenc.schemes.sinusoid import Sinusoid
from posenc.schemes.sliding_window import SlidingWindow
from posenc.schemes.sum import Sum
from posenc.schemes.swin_bias import SwinBias
from posenc.schemes.t5_bias import T5Bias
from posenc.schemes.vo_rope import VORoPE


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_a_whole_draws_what_its_parts_draw_and_fails_what_they_fail():
    released = GridRotate(12, literal=True)
    whole = Sum([NoPE(), Sum([released])])
    assert whole.draws == ("parts.1.parts.0.released.drawn",)
    assert whole.get_buffer(whole.draws[0]) is released.get_buffer("released.drawn")
    assert whole.faults == released.faults
    assert check(whole).ok
    assert Sum([RoPE(12), CausalNoPE()]).draws == Scaled(Learned(12, 24), 0.5).draws == ()


def qkv(n: int = 6, d: int = 8) -> tuple[torch.Tensor, ...]:
    return tuple(torch.randn(3, 2, 3, n, d, generator=seeded(7), dtype=torch.float64))


def rows(scheme, pos):
    return scheme.embed(scheme.prepare(pos))


def test_a_rotation_under_a_causal_mask_beside_a_table():
    table = Learned(5, 9)
    scheme = Sum([table, RoPE(8), CausalNoPE()])
    assert torch.equal(rows(scheme, sequence(6)), table.table[:6])
    q, k, v = qkv()
    rope, pos = RoPE(8), sequence(6) + 2
    where = rope.prepare(pos)
    logits = rope.transform(q, where, "q") @ rope.transform(k, where, "k").mT / math.sqrt(8)
    wanted = logits.masked_fill(torch.ones(6, 6).triu(1).bool(), -torch.inf).softmax(-1) @ v
    for backend in ("auto", "eager", "sdpa"):
        out = attention(q, k, v, scheme=scheme, q_pos=pos, backend=backend)
        torch.testing.assert_close(out, wanted, atol=1e-6, rtol=0)


def test_rows_and_biases_add():
    a, b = Sinusoid(12), Learned(12, 9)
    torch.testing.assert_close(rows(Sum([a, b]), sequence(9)), rows(a, sequence(9)) + b.table)
    near, far = Shaw(8, 2, values=True).double(), Shaw(8, 5, values=True).double()
    q, k, v = qkv()
    scheme, pos = Sum([near, far]), sequence(6)
    distance = torch.arange(6) - torch.arange(6)[:, None]
    bias = sum(
        torch.einsum("bhqd,qkd->bhqk", q, part.keys[distance.clamp(-s, s) + s]) for part, s in ((near, 2), (far, 5))
    )
    weights = ((q @ k.mT + bias) / math.sqrt(8)).softmax(-1)
    extra = sum(
        torch.einsum("bhqk,qkd->bhqd", weights, part.values[distance.clamp(-s, s) + s])
        for part, s in ((near, 2), (far, 5))
    )
    torch.testing.assert_close(attention(q, k, v, scheme=scheme, q_pos=pos), weights @ v + extra)


def test_maps_follow_one_another_and_heads_come_back_in_reverse():
    log = []

    class Noting(NoPE):
        def __init__(self, name):
            super().__init__()
            self.name, sites = name, frozenset({"q", "k", "v", "o"})
            self.claims = type(self.claims)(**{**vars(self.claims), "sites": sites, "translation": "none"})

        def transform(self, x, where, site):
            log.append(site + self.name)
            return x

    attention(*qkv(), scheme=Sum([Noting("1"), Noting("2")]), q_pos=sequence(6))
    assert log == ["q1", "q2", "k1", "k2", "v1", "v2", "o2", "o1"]


@pytest.mark.full
@pytest.mark.bare
def test_other_sums_pass_the_contract():
    for scheme in (
        Sum([PEG(12, axes=1), RoPE(12)]),
        Sum([Scaled(Learned(12, 24), 0.5), Sum([RoPE(12), CausalNoPE()])]),
        Sum([Sinusoid(12), Learned(12, 24)]),
        Sum([Sinusoid(12), Sinusoid(12)], translation="exact"),  # twice the same is twice as long
        Sum([RoPE(12), RoPE(12)], translation="exact"),  # turns of the same pairs commute
        Sum([RoPE(12), RoPE(12, pairing="half")], translation="none"),  # and of others do not
        Sum([NoPE()]),
        Concat([LearnableFourier(6), Sinusoid(8, axes=2)]),
    ):
        report = check(scheme)
        assert report.ok, report


def test_rows_of_an_axis_each_are_as_invariant_as_the_least_invariant():
    for other, translation in ((Sinusoid(4), "exact"), (Random(4, 24), "expected"), (Learned(4, 24), "none")):
        for parts in ([Sinusoid(4), other], [other, Sinusoid(4)]):
            assert ConcatAxes(parts).claims.translation == translation


def test_a_bias_of_positions_alone_leaves_the_claim_of_a_rotation():
    assert Sum([RoPE(12), ALiBi(4)]).claims.translation == "exact"
    assert Sum([RoPE(12), ALiBi(4)], translation="exact").claims.translation == "exact"
    report = check(Sum([RoPE(12), ALiBi(4)]), family="claims")
    assert report.ok, report


@pytest.mark.full
@pytest.mark.bare
@pytest.mark.parametrize(
    "scheme",
    [
        lambda: Sum([RoPE(12), Shaw(12, 4)], translation="exact"),
        lambda: Sum([Sinusoid(12), Sinusoid(12, base=7.0)], translation="exact"),
        lambda: Sum([RoPE(12), RoPE(12, pairing="half")], translation="exact"),
    ],
)
def test_a_claim_that_the_caller_makes_is_measured(scheme):
    assert "claims.translation_is_as_claimed" in {failure.check for failure in check(scheme()).failures}


def test_what_follows_from_the_parts():
    claims = Sum([Learned(12, 9), Shaw(8, 4), CausalNoPE()]).claims
    assert (claims.translation, claims.isometric, claims.learned) == ("none", False, True)
    assert (claims.range, claims.axes, claims.sharing, claims.cacheable) == ((0, 8), 1, "layer", True)
    assert claims.sites == {"embed", "bias", "value_bias", "mask"}
    claims = Sum([PEG(12, axes=2), Sinusoid(12, axes=2), NoPE()]).claims
    assert (claims.translation, claims.range, claims.axes, claims.cacheable) == ("exact", None, 2, False)
    assert Sum([Learned(12, 9), T5Bias(4)]).claims.sharing == "layer and head"
    assert Sum([NoPE(), T5Bias(4)]).claims.sharing == "head"
    assert Concat([Learned(3, 9), Learned(3, 7)]).claims.range == (0, 6)
    by_axis = Concat([Sinusoid(4, 2), DenseGrid(2, 3, domain=((0, -1), (9, 1))), DenseGrid(2, 3, domain=(-2, 5))])
    assert by_axis.claims.range == ((0, 5), (-1, 1))
    assert Concat([Sinusoid(4), Random(3, 7)]).claims.translation == "expected"
    assert Scaled(Learned(3, 9), 2).claims == Learned(3, 9).claims


def test_rows_side_by_side():
    a, b = Sinusoid(4), Learned(3, 9)
    scheme = Concat([a, b])
    assert scheme.out_dim == 7
    placed = torch.tensor([True, False, True])
    pos = Positions(sequence(3).coords, placed)
    torch.testing.assert_close(rows(scheme, pos), torch.cat([rows(a, pos), rows(b, pos)], -1))
    assert bool((rows(scheme, pos)[1] == 0).all())


def test_a_factor():
    table = Learned(3, 9)
    torch.testing.assert_close(rows(Scaled(table, -2.5), sequence(9)), -2.5 * table.table)
    q, k, v = qkv()
    shaw, pos = Shaw(8, 4).double(), sequence(6)
    louder = Shaw(8, 4).double()
    louder.load_state_dict({name: 3 * value for name, value in shaw.state_dict().items()})
    out = attention(q, k, v, scheme=Scaled(shaw, 3), q_pos=pos)
    torch.testing.assert_close(out, attention(q, k, v, scheme=louder, q_pos=pos))
    peg, x = PEG(3), torch.randn(1, 6, 3)
    where = peg.prepare(grid(2, 3))
    torch.testing.assert_close(Scaled(peg, 0.5).mix(x, where), (x + peg.mix(x, where)) / 2)


def test_parts_train_are_saved_and_keep_their_wide_parameters():
    scheme = Sum([LearnableFourier(12), Laplacian(12, 2)])
    assert sorted(name.split(".")[1] for name in scheme.state_dict()).count("0") == 5
    rows(scheme, grid(2, 2)).sum().backward()
    assert all(parameter.grad is not None for parameter in scheme.parameters())
    before = scheme.parts[0].directions.detach().clone()
    half = Concat([Scaled(scheme, 2), Laplacian(12, 2)]).bfloat16()
    assert half.parts[0].scheme.parts[0].directions.dtype == torch.float32
    assert torch.equal(half.parts[0].scheme.parts[0].directions, before)
    assert half.parts[1].weight.dtype == torch.bfloat16


def test_parts_map_queries_in_their_order_and_outputs_in_the_opposite_one():
    first, second = VORoPE(8, at="qkvo"), VORoPE(8, at="qkvo", pairing="half")
    scheme, pos, (x, _, _) = Sum([first, second], translation="none"), sequence(6), qkv()
    for site, order in (("q", (first, second)), ("k", (first, second)), ("o", (second, first))):
        want = x
        for part in order:
            want = part.transform(want, part.prepare(pos), site)
        torch.testing.assert_close(scheme.transform(x, scheme.prepare(pos), site), want)


def test_mixing_parts_mix_one_after_the_other():
    first, second, x = PEG(8, axes=1), PEG(8, axes=1), torch.randn(2, 6, 8, generator=seeded())
    scheme, pos = Sum([first, RoPE(8), second]), sequence(6)
    want = second.mix(first.mix(x, first.prepare(pos)), second.prepare(pos))
    torch.testing.assert_close(scheme.mix(x, scheme.prepare(pos)), want)


def test_cached_keys_move_where_one_part_turns_them():
    keys, here, there = torch.randn(1, 2, 5, 8), sequence(5), sequence(5) + 30
    scheme = Sum([CausalNoPE(0.5), RoPE(8)])
    turned = scheme.transform(keys, scheme.prepare(here), "k")
    moved = scheme.rerotate(turned, scheme.prepare(here), scheme.prepare(there))
    torch.testing.assert_close(moved, RoPE(8).transform(keys, RoPE(8).prepare(there), "k"))
    twice = Sum([RoPE(8), RoPE(8)], translation="exact")
    with pytest.raises(ValueError, match=r"Sum cannot move keys that are cached as transformed"):
        twice.rerotate(turned, twice.prepare(here), twice.prepare(there))


def test_every_part_reads_the_positions_it_can_take():
    scheme = Sum([Learned(12, 9), RoPE(8)])
    with pytest.raises(ValueError, match=r"Learned starts at 0 and stops at 8; position 9 was asked for"):
        scheme.prepare(sequence(10))


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: Sum([]), r"Sum is made of schemes, as Sum\(\[a_scheme, another\]\); got none"),
        (lambda: Sum([Sinusoid(4), Sinusoid(6)]), r"parts of Sum have rows of width 4 and 6: build them alike"),
        (lambda: Sum([RoPE(8), Shaw(12, 4)], translation="none"), r"have heads of width 8 and 12: build them alike"),
        (
            lambda: Sum([RoPE(8), PEG(8)]),
            r"they read 1 \(RoPE\), 2 \(PEG\) axes\. Build them for as many axes, or give",
        ),
        (
            lambda: Sum([RoPE(12), Shaw(12, 4)]),
            r"the translation claim of RoPE and Shaw together does not follow from their claims: they act on the",
        ),
        (lambda: Sum([Shaw(12, 4), RoPE(12)]), r"the translation claim of Shaw and RoPE together does not follow"),
        (lambda: Sum([RoPE(12), RoPE(12)]), r"does not follow from their claims"),
        (lambda: Sum([Sinusoid(12), Sinusoid(12)]), r"does not follow from their claims"),
        (
            lambda: Sum([Sinusoid(12), RoPE(12)], translation="none"),
            r"the translation claim of these parts is derived, 'exact': leave `translation` out",
        ),
        (lambda: Concat([Sinusoid(4), RoPE(12)]), r"puts rows side by side, and RoPE acts at k, q\. .* in a Sum"),
        (lambda: Concat([NoPE()]), r"and NoPE acts at no site"),
        (lambda: Concat([]), r"Concat is made of schemes"),
        (lambda: Concat([Sinusoid(4), Sinusoid(4, axes=2)]), r"parts of Concat .* read 1 \(Sinusoid\), 2 \(Sinusoid\)"),
        (lambda: Scaled(RoPE(8), 2), r"multiplies what a scheme adds, and RoPE maps k, q\. Change its frequencies"),
        (lambda: Scaled(NoPE(), 2), r"and NoPE adds nothing"),
        (lambda: Scaled(Sinusoid(8), 0), r"finite number other than 0; got 0\. NoPE adds nothing"),
        (lambda: Scaled(Sinusoid(8), math.inf), r"finite number other than 0; got inf"),
        (lambda: layers(), r"layers takes at least one scheme, .* got 0 with repeat=True"),
        (lambda: layers(NoPE(), rest=NoPE()), r"`rest` only with repeat=False"),
        (lambda: layers(NoPE(), repeat=False)(1), r"1 layers were given schemes, and this is layer 1\. Pass rest="),
        (lambda: layers(Learned(8, 9), NoPE())(2), r"Learned is per layer, and layer 2 would share it with an earlier"),
    ],
)
def test_what_cannot_be_combined(make, sentence):
    with pytest.raises(ValueError, match=sentence):
        make()


def test_a_part_refuses_positions_by_its_own_rule():
    """A window that is not square ends on each axis where it ends, beside other schemes too."""
    scheme = Sum([SwinBias(4, (2, 3)), NoPE()])
    scheme.prepare(grid(2, 3))
    with pytest.raises(ValueError, match=r"SwinBias starts at 0 and stops at 1 on axis 0; position 2 was asked for"):
        scheme.prepare(grid(3, 2))
    with pytest.raises(ValueError, match=r"Learned starts at 0 and stops at 3; position 4 was asked for"):
        Concat([Sinusoid(4), Learned(4, 4)]).prepare(sequence(5))


class Largest(TorchDispatchMode):
    """The number of elements of the largest tensor that anything makes."""

    elements = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        self.elements = max([self.elements, *(t.numel() for t in tree_leaves(out) if isinstance(t, torch.Tensor))])
        return out


@pytest.mark.parametrize(
    "make",
    [
        lambda: Sum([ALiBi(2), RoPE(4)], translation="exact"),
        lambda: Sum([CausalNoPE(), ALiBi(2), Sinusoid(4)]),
        lambda: Sum([Sum([CausalNoPE(), Scaled(ALiBi(2), 0.5)]), RoPE(4)], translation="exact"),
    ],
)
def test_of_a_long_sequence_no_bias_of_a_sum_is_ever_whole(make):
    n = 1500
    scheme, (q, k, v) = make(), torch.randn(3, 1, 2, n, 4, generator=torch.Generator().manual_seed(0))
    coords = torch.arange(float(n))[:, None].requires_grad_()
    with Largest() as seen:
        attention(q, k, v, scheme=scheme, q_pos=Positions(coords)).sum().backward()
    assert seen.elements <= 2**19  # (2, n, n) has nine times as many
    with torch.no_grad():
        few = attention(q[:, :, :7], k, v, scheme=scheme, q_pos=sequence(7), k_pos=sequence(n))
        many = attention(q, k, v, scheme=scheme, q_pos=sequence(n))
    torch.testing.assert_close(few, many[:, :, :7])
    assert coords.grad is not None
    assert float(coords.grad.abs().max()) > 0


@pytest.mark.bare  # the shape hook would refuse these before the sentences do
def test_what_is_no_scheme():
    with pytest.raises(ValueError, match=r"Sum is made of schemes, .* got a part of type str"):
        Sum([NoPE(), "RoPE"])
    with pytest.raises(ValueError, match=r"Scaled takes a scheme and a factor; got float"):
        Scaled(2.0, NoPE())
    with pytest.raises(
        ValueError, match=r"a model takes schemes, or functions .* got 'RoPE'\. Write the scheme itself"
    ):
        layers(NoPE(), "RoPE")


def test_a_rotation_on_three_layers_of_four():
    rope, nope = RoPE(4), NoPE()
    found = [layers(rope, rope, rope, nope)(layer) for layer in range(9)]
    assert [scheme is rope for scheme in found] == [True, True, True, False, True, True, True, False, True]
    model = Encoder(EncoderConfig(channels=3, classes=2, dim=8, depth=8, hidden=8, heads=2), layers(rope, nope))
    assert len(model.schemes) == 2
    assert model.scheme_of == [0, 1] * 4


def test_layers_with_an_end_and_with_schemes_of_their_own():
    peg, nope = PEG(8), NoPE()
    only_first = layers(peg, repeat=False, rest=nope)
    assert [only_first(layer) is peg for layer in range(4)] == [True, False, False, False]
    assert only_first(3) is nope
    made = layers(lambda layer: Learned(8, 9, sigma=layer), nope)
    assert [made(layer).sigma if layer % 2 == 0 else made(layer) for layer in range(4)] == [0, nope, 2, nope]
    with pytest.raises(ValueError, match=r"PEG is per layer, and layer 2 would share it"):
        layers(NoPE(), repeat=False, rest=peg)(2)
    assert layers(NoPE(), repeat=False, rest=peg)(1) is peg


@pytest.mark.bare
@pytest.mark.parametrize("kind", [Sum, Concat])
def test_one_scheme_in_place_of_a_list_is_a_sentence(kind: type[Sum] | type[Concat]) -> None:
    part: Any = RoPE(8)
    with pytest.raises(ValueError, match="takes its schemes as one list; got one scheme"):
        kind(part)


def test_a_sum_has_a_form_for_flex_attention_where_all_parts_have_one():
    pos, q = sequence(5), torch.randn(1, 2, 5, 4, generator=torch.Generator().manual_seed(0))
    for other, has_form in ((SlidingWindow(2), True), (CoPE(4, 8), False)):
        whole = Sum([ALiBi(2), other])
        where = whole.prepare(pos)
        assert (whole.score_mod(q, None, whole.relate(where, where)) is not None) == has_form
