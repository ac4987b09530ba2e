"""What attention refuses at its door: masks, tokens, samples and devices that do not go together. "meta" is the other
device here."""

import re
import sys

import pytest
import torch

from posenc.attention import attend, attend_at, attend_with_weights, attention
from posenc.contract.case import Case
from posenc.positions import Positions, sequence
from posenc.schemes import catalogue
from posenc.schemes.alibi import ALiBi
from posenc.schemes.cope import CoPE
from posenc.schemes.fire import FIRE
from posenc.schemes.fox import FoX
from posenc.schemes.grid_merge import GridMerge
from posenc.schemes.kerple_log import KERPLELog
from posenc.schemes.learned import Learned
from posenc.schemes.mixed_rope import MixedRoPE
from posenc.schemes.nope import NoPE
from posenc.schemes.peg import PEG
from posenc.schemes.rope import RoPE
from posenc.schemes.shaw import Shaw
from posenc.schemes.sinusoid import Sinusoid
from posenc.schemes.sliding_window import SlidingWindow
from posenc.schemes.sum import Sum
from posenc.schemes.t5_bias import T5Bias


def given(batch: int = 2, heads: int = 4, tokens: int = 6) -> dict:
    q, k, v = torch.randn(3, batch, heads, tokens, 12, generator=torch.Generator().manual_seed(3))
    return {"q": q, "k": k, "v": v}


def run(**other):
    return attention(**{**given(), "scheme": RoPE(12), "q_pos": sequence(6), **other})


def prepared(positions: int, tokens: int):
    scheme, (q, k, v) = RoPE(12), (t[:, :, :tokens] for t in given().values())
    where = scheme.prepare(sequence(positions))
    return attend(q, k, v, scheme, where, where, None)


# the shape hook would refuse some of these before our sentence does
@pytest.mark.bare
@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        # SDPA would add the numbers, or take samples for heads, without a word
        (lambda: run(mask=torch.ones(6, 6)), r"holds the floating-point numbers 0 and 1.*Write mask\.bool\(\) if 1"),
        (lambda: run(mask=torch.ones(6, 6).tril(), causal=True), r"added to the logits.*\(1 - mask\)\.bool\(\)"),
        (lambda: run(mask=torch.ones(6, 6).long(), causal=True), r"got torch\.int64\. Write mask\.bool\(\)"),
        (
            lambda: run(q=torch.zeros(2, 6, 4, 12)),
            r"`q` has 4 tokens and its positions are 6.*If it is \(B, tokens, H, channels\), pass q\.transpose\(1, 2\)",
        ),
        (
            lambda: run(k=torch.zeros(2, 4, 5, 12), v=torch.zeros(2, 4, 5, 12), k_pos=sequence(5), causal=True),
            r"causal=True takes the queries as the last of the keys; got 6 queries and 5 keys",
        ),
        (lambda: run(mask=torch.ones(6, 6).long(), scheme=ALiBi(4)), r"got torch\.int64\. Write mask\.bool\(\)"),
        (
            lambda: attention(**given(4), scheme=RoPE(12), q_pos=sequence(6), mask=torch.ones(4, 6, 6).bool()),
            r"shape \(Q, K\) or \(B, H, Q, K\); got \(4, 6, 6\)\. For one mask per sample write mask\[:, None\], f",
        ),
        (lambda: run(mask=torch.ones(6).bool()), r"`mask` has shape \(Q, K\) or \(B, H, Q, K\); got \(6,\)"),
        (lambda: run(q=torch.zeros(4, 6, 12)), r"`q` has shape \(B, H, tokens, channels\); got \(4, 6, 12\)"),
        (lambda: run(v=torch.zeros(2, 4, 5, 12)), r"`k` has 6 tokens and `v` has 5\. Pass those of the same"),
        (lambda: run(scheme=FoX(12, 4), x=torch.zeros(2, 5, 12)), r"`k` has 6 tokens and `x` has 5"),
        (
            lambda: run(q_pos=sequence(5)),
            r"`q` has 6 tokens and its positions are 5\. Pass q_pos with one posit",
        ),
        (lambda: run(k_pos=sequence(7)), r"`k` has 6 tokens and its positions are 7\. Pass k_pos"),
        (
            lambda: run(q_pos=sequence(torch.zeros(3, 6))),
            r"`q` is of 2 samples and its positions of 3\. Pass positions \(N, P\) for all samples, or \(2, N, P\)",
        ),
        (
            lambda: run(k_pos=Positions(sequence(6).coords, torch.ones(3, 6).bool())),
            r"`k` is of 2 samples and its positions of 3",
        ),
        (
            lambda: run(mask=torch.ones(2, 6, dtype=torch.bool)),
            r"with B = 2 or 1 and H = 4 or 1; got \(2, 6\)\..*\(B, K\), write mask\[:, None, None\]",
        ),
        (lambda: run(scheme=FoX(12, 4), x=torch.zeros(3, 6, 12)), r"`q` is of 2 samples and `x` of 3"),
        (
            lambda: prepared(6, 1),
            r"there are 1 queries, and `where_q` is of 6 positions|of 6 positions, and there are 1",
        ),
        (lambda: prepared(1, 6), r"these angles are of 1 positions, and there are 6 tokens"),
        (lambda: run(scheme="RoPE"), r"attention takes a scheme, as scheme=RoPE\(64\); got str"),
        (
            lambda: run(q_pos=6),
            r"positions are Positions or a tensor \(N, P\); got int\. For n tokens in a row",
        ),
        (lambda: run(q_pos=[0, 1, 2, 3, 4, 5]), r"positions are Positions or a tensor \(N, P\); got list"),
    ],
)
def test_what_does_not_go_together(make, sentence):
    with pytest.raises(ValueError, match=sentence):
        make()


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (
            lambda: run(q_pos=sequence(6, device="meta")),
            r"`q` is on cpu and its positions on meta\. Write q_pos\.to",
        ),
        (
            lambda: run(k_pos=sequence(6, device="meta"), scheme=ALiBi(4)),
            r"`k` is on cpu and its positions on meta\. Write k_pos\.to\('cpu'\)",
        ),
        (lambda: run(k=given()["k"].to("meta")), r"`q` is on cpu and `k` on meta\. Write k\.to\('cpu'\)"),
        (lambda: run(mask=torch.ones(6, 6, device="meta").bool()), r"`q` is on cpu and `mask` on meta"),
        (
            lambda: run(scheme=MixedRoPE(12, 4, 1).to("meta")),
            r"this MixedRoPE is on meta and the positions on cpu",
        ),
        (lambda: Learned(4, 8).to("meta").prepare(sequence(3)), r"this Learned is on meta and the positions on cpu"),
    ],
)
def test_mixed_devices(make, sentence):
    with pytest.raises(ValueError, match=sentence):
        make()


@pytest.mark.parametrize(
    ("scheme", "sentence"),
    [
        (
            Sinusoid(12),
            r"Sinusoid acts at embed, where attention does not act, so these positions would change nothing\. Instead "
            r"add scheme\.embed\(scheme\.prepare\(pos\)\) to the tokens, and pass attention scheme=NoPE\(\)",
        ),
        (GridMerge(12, axes=2, literal=True), r"GridMerge acts at embed, where"),
        (PEG(12, axes=1), r"PEG acts at mix, .* Instead call scheme\.mix\(x, scheme\.prepare\(pos\)\) on the tokens"),
        (Sum([PEG(12, axes=1), Sinusoid(12)]), r"acts at embed and mix, .* Instead add .* and call .*, and pass"),
    ],
    ids=lambda given: type(given).__name__,
)
def test_a_scheme_that_acts_elsewhere_is_not_ignored(scheme, sentence):
    with pytest.raises(ValueError, match=sentence):
        run(scheme=scheme)


@pytest.mark.parametrize("kind", catalogue().values(), ids=lambda kind: kind.__name__)
def test_attention_takes_the_schemes_that_it_asks_and_nopes(kind):
    """The door is shut for those alone that leave attention as it is and act somewhere."""
    case = Case(kind, kind.examples[0])
    scheme, pos = case.make(), case.positions()
    given = {"scheme": scheme, "q_pos": pos, "x": case.x()}
    left_alone = not scheme.claims.sites - {"embed", "mix"}
    if left_alone and scheme.claims.sites:
        with pytest.raises(ValueError, match="where attention does not act"):
            attention(*case.qkv(scheme), **given)
    out = (attend_at if left_alone else attention)(*case.qkv(scheme), **given)
    plain = attention(*case.qkv(scheme), scheme=NoPE(), q_pos=pos)
    assert torch.equal(out, plain) == left_alone


@pytest.mark.bare  # the shape hook would refuse the result first
@pytest.mark.parametrize("kind", catalogue().values(), ids=lambda kind: kind.__name__)
def test_one_token_does_not_become_many(kind):
    """A transform refuses another number of tokens than of positions, or keeps the number."""
    for options in kind.examples:
        case = Case(kind, options)
        scheme, at_six = case.make(), case.positions()
        where, states = scheme.prepare(at_six), dict(zip("qkvo", (*case.qkv(scheme), case.qkv(scheme)[2]), strict=True))
        for site, x in states.items():
            sentence, count = "", 0
            try:
                count = scheme.transform(x[..., :1, :], where, site).shape[-2]
            except ValueError as error:
                sentence = str(error)
            assert count == 1 or re.search("positions, and there are 1 tokens|positions and meets 1 token", sentence)


@pytest.mark.bare  # the shape hook would refuse the class first
def test_attention_with_its_weights_refuses_what_attention_refuses():
    q, k, v = given().values()
    alibi, rope = ALiBi(4), RoPE(12)
    where, many = alibi.prepare(sequence(6)), rope.prepare(sequence(6))
    with pytest.raises(ValueError, match=r"ALiBi acts on pairs of tokens, and `pair` is None"):
        attend_with_weights(q, k, v, alibi, where, where, None)
    with pytest.raises(ValueError, match=r"4 query heads cannot share 3 key heads"):
        attend_with_weights(q, k[:, :3], v[:, :3], rope, many, many, None)
    with pytest.raises(ValueError, match=r"attention takes a scheme, as scheme=RoPE\(64\); got the class RoPE"):
        attend_with_weights(q, k, v, RoPE, many, many, None)


def test_a_mask_of_zeros_and_ones_is_refused_of_prepared_positions_too():
    scheme, q, k, v = RoPE(12), *given().values()
    where = scheme.prepare(sequence(6))
    with pytest.raises(ValueError, match=r"`mask` holds the floating-point numbers 0 and 1"):
        attend(q, k, v, scheme, where, where, None, mask=torch.ones(6, 6))


SCHEMES = pytest.mark.parametrize(
    "scheme", [NoPE(), RoPE(12), ALiBi(4), Shaw(12, max_distance=4), FoX(12, 4)], ids=lambda kind: type(kind).__name__
)


@SCHEMES
@pytest.mark.parametrize("backend", ["auto", "eager"])
@pytest.mark.parametrize("shape", [(6, 6), (1, 6), (2, 1, 6, 6), (2, 4, 1, 6)])
def test_an_additive_mask_excludes_what_a_boolean_one_does_and_adds_the_rest(scheme, shape, backend):
    allowed = torch.rand(shape, generator=torch.Generator().manual_seed(1)) < 0.6
    added = torch.zeros(shape).masked_fill(~allowed, -torch.inf)
    here = {"scheme": scheme, "x": torch.randn(2, 6, 12), "backend": backend}
    torch.testing.assert_close(run(mask=added, **here), run(mask=allowed, **here))
    shift = torch.randn(shape)
    weights = torch.randn(2, 4, 6, 12, requires_grad=True)
    once = run(q=weights, mask=added + shift, **here)
    again = run(q=weights, mask=(added + shift).expand(2, 4, 6, 6), **here | {"backend": "eager"})
    torch.testing.assert_close(once, again)
    if not isinstance(scheme, Shaw):  # the softmax of one key is 1, whatever is added to it
        assert not torch.allclose(once, run(q=weights, mask=added, **here))


@pytest.mark.parametrize("lowest", [-1e4, torch.finfo(torch.float32).min])
def test_low_numbers_of_an_additive_mask_exclude_keys_from_sums_over_keys(lowest):
    allowed = torch.rand(2, 1, 6, 6, generator=torch.Generator().manual_seed(1)) < 0.6
    allowed |= torch.eye(6, dtype=torch.bool)
    for scheme in (FoX(12, 4), CoPE(12, 6), Sum([RoPE(12), FoX(12, 4)])):
        here = {"scheme": scheme, "x": torch.randn(2, 6, 12)}
        added = torch.zeros(2, 1, 6, 6).masked_fill(~allowed, lowest)
        torch.testing.assert_close(run(mask=added, **here), run(mask=allowed, **here))


@SCHEMES
@pytest.mark.parametrize("queries", [6, 2, 1])
def test_causal_is_the_triangular_mask_of_the_last_queries(scheme, queries):
    plain = torch.ones(6, 6, dtype=torch.bool).tril()[-queries:]
    sent, x = given(), torch.randn(2, 6, 12)
    here = {**sent, "q": sent["q"][:, :, -queries:], "scheme": scheme, "x": x, "k_pos": sequence(6)}
    here["q_pos"] = Positions(sequence(6).coords[-queries:])
    torch.testing.assert_close(attention(**here, causal=True), attention(**here, mask=plain))
    both = torch.rand(2, 1, queries, 6) < 0.7
    torch.testing.assert_close(attention(**here, causal=True, mask=both), attention(**here, mask=plain & both))
    added = torch.randn(queries, 6)
    expected = attention(**here, mask=added.masked_fill(~plain, -torch.inf))
    torch.testing.assert_close(attention(**here, causal=True, mask=added), expected)


@pytest.mark.parametrize("backend", ["auto", "sdpa", "eager"])
def test_causal_leaves_a_scheme_its_own_mask(backend):
    n = torch.arange(6)
    window = (n[:, None] - n >= 0) & (n[:, None] - n < 2)
    found = run(scheme=SlidingWindow(2, causal=False), causal=True, backend=backend)
    torch.testing.assert_close(found, run(scheme=NoPE(), mask=window))


def test_an_additive_mask_that_is_trained_gets_its_gradient_in_long_rows(monkeypatch):
    monkeypatch.setattr(sys.modules["posenc.attention"], "PAIRS_WHOLE", 8)
    mask = torch.zeros(6, 6, requires_grad=True)
    run(scheme=ALiBi(4), mask=mask).square().sum().backward()
    assert mask.grad is not None
    assert mask.grad.abs().max() > 0


@pytest.mark.parametrize("shape", [(6, 6), (1, 6), (2, 1, 6, 6), (1, 4, 6, 6), (2, 4, 1, 6)])
@pytest.mark.parametrize("scheme", [RoPE(12), ALiBi(4)], ids=["rotation", "bias"])
def test_masks_that_fit(scheme, shape):
    mask = torch.rand(shape, generator=torch.Generator().manual_seed(1)) < 0.6
    whole = mask.expand(2, 4, 6, 6)
    torch.testing.assert_close(run(scheme=scheme, mask=mask), run(scheme=scheme, mask=whole, backend="eager"))


def test_under_a_transform_the_numbers_of_an_additive_mask_are_not_read():
    masks = torch.zeros(3, 6, 6).masked_fill(torch.ones(6, 6).triu(1).bool(), -torch.inf)
    q, k, v = given().values()
    asked = {"scheme": NoPE(), "q_pos": sequence(6), "backend": "eager"}
    together = torch.func.vmap(lambda mask: attention(q, k, v, **asked, mask=mask))(masks)
    torch.testing.assert_close(together[2], attention(q, k, v, **asked, causal=True))


def test_no_sample_and_half_precision():
    """Of no sample there is nothing to look at, in any precision."""
    for dtype in (torch.float32, torch.bfloat16):
        q, k, v = (t[:0].to(dtype) for t in given().values())
        for scheme in (RoPE(12), RoPE(12, pairing="half"), ALiBi(4)):
            assert attention(q, k, v, scheme=scheme, q_pos=sequence(6)).shape == (0, 4, 6, 12)


def test_a_scheme_for_other_heads_is_a_warning_of_attention():
    sent = given(heads=8)
    for scheme in (ALiBi(1), ALiBi(8)):
        attention(**sent, scheme=scheme, q_pos=sequence(6))
    grouped = {**sent, "k": sent["k"][:, :2], "v": sent["v"][:, :2]}
    attention(**grouped, scheme=ALiBi(2), q_pos=sequence(6))  # for the key heads, as query heads share them
    with pytest.warns(
        UserWarning, match=r"this ALiBi is built for 4 heads and meets 8 query heads and 2 key heads, so 2"
    ):
        attention(**grouped, scheme=ALiBi(4), q_pos=sequence(6))


@pytest.mark.parametrize("backend", ["auto", "eager"])
@pytest.mark.parametrize(
    "scheme",
    [ALiBi(4), T5Bias(4), FIRE(4), KERPLELog(4), Shaw(12, 3), FoX(6, 4), SlidingWindow(2)],
    ids=lambda scheme: type(scheme).__name__,
)
def test_a_pair_of_other_positions_is_refused(scheme, backend):
    """The relation of one position to itself, which would broadcast over all keys."""
    one, where = scheme.prepare(sequence(1)), scheme.prepare(sequence(6))
    sent = {**given(), "kept": scheme.keep(torch.zeros(2, 6, 6), where), "pair": scheme.relate(one, one)}
    for queries in (6, 1):
        sent["q"] = sent["q"][:, :, -queries:]
        with pytest.raises(ValueError, match=rf"and 1 keys, .* have {queries} and 6 tokens\. Pass scheme\.relate"):
            attend(**sent, scheme=scheme, where_q=one, where_k=where, backend=backend)


def prepared_by(scheme, where, pair, **other):
    return attend(*given().values(), scheme, where, where, pair, **other)


@pytest.mark.bare
@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: run(mask="causal"), r"`mask` is a tensor; got str\. Write causal=True"),
        (lambda: run(mask=[[True] * 6] * 6), r"`mask` is a tensor; got list\. Write torch\.as_tensor"),
        (lambda: run(k=given()["k"].numpy()), r"`k` is a tensor; got ndarray\. Write torch\.as_tensor"),
        (lambda: run(q_pos=torch.arange(6).expand(2, 6)), r"For position ids \(B, N\) write sequence\(ids\)"),
        (lambda: run(mask=torch.full((6, 6), torch.nan)), r"`mask` holds NaN or \+inf"),
        (lambda: run(mask=torch.ones(2, 2, 6, 6).bool()), r"with B = 2 or 1 and H = 4 or 1; got \(2, 2, 6, 6\)"),
        (
            lambda: prepared_by(RoPE(12), RoPE(8).prepare(sequence(6)), None),
            r"these angles are of 8 channels, and RoPE rotates 12",
        ),
        (lambda: run(causal="no"), r"`causal` is True or False; got 'no'"),
        (lambda: run(scale=float("nan")), r"`scale` is a finite number, a factor on the logits; got nan"),
        (lambda: run(scale="0.1"), r"`scale` is a number, a factor on the logits; got '0\.1'"),
        (lambda: run(scale=torch.ones(2)), r"`scale` is a number.*got tensor\(\[1\., 1\.\]\)"),
        # a number of this tensor was taken, and its gradient was lost without a word
        (lambda: run(scale=torch.nn.Parameter(torch.ones(()))), r"this tensor is trained\. Multiply q by it"),
        (lambda: run(v=given()["v"].double()), r"of one dtype; got float32 and float64\. Write k\.to\(q\.dtype\)"),
        (lambda: run(**{name: t.long() for name, t in given().items()}), r"got int64\. Write q\.float\(\)"),
        (
            lambda: run(scheme=Shaw(12, 4), v=torch.zeros(2, 4, 6, 8)),
            r"this Shaw acts on values of width 12; these have 8 channels",
        ),
        (
            lambda: run(scheme=FoX(16, 4)),
            r"pass attention\(\.\., x=x\), or attend\(\.\., kept=scheme\.keep\(x, where_k\)",
        ),
        (lambda: prepared_by(RoPE, None, None), r"attention takes a scheme.*got the class RoPE"),
        (lambda: prepared_by(RoPE(12), sequence(6), None), r"what scheme\.prepare\(pos\) returns; got Positions"),
        (lambda: prepared_by(RoPE(12), None, None), r"what scheme\.prepare\(pos\) returns; got NoneType"),
        (lambda: prepared_by(ALiBi(4), sequence(6), None), r"ALiBi acts on pairs of tokens, and `pair` is None"),
        (lambda: prepared_by(NoPE(), sequence(6), None, mask=[[True]]), r"`mask` is a tensor, True where.*got list"),
        (lambda: prepared_by(NoPE(), sequence(6), None, scale=float("inf")), r"`scale` is a finite number.*got inf"),
    ],
)
def test_arguments_of_another_type_are_refused(make, sentence):
    with pytest.raises(ValueError, match=sentence):
        make()


def test_autocast_takes_tensors_of_two_dtypes():
    q, k, v = given().values()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = attention(q, k.bfloat16(), v.bfloat16(), scheme=RoPE(12), q_pos=sequence(6))
    torch.testing.assert_close(found.float(), run(), atol=0.03, rtol=0.03)


@pytest.mark.bare
def test_a_scale_may_be_a_number_of_a_tensor():
    assert torch.equal(run(scale=torch.tensor(0.5)), run(scale=0.5))
