"""The language model: its formula, and that a token's logits depend on the tokens before it in its document alone."""

import copy
import sys

import pytest
import torch
from small_language import VOCABULARY, config, model_of, of_catalogue, same, some_tokens
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from posenc.adapt import swap
from posenc.attention import attend
from posenc.contract.case import Case
from posenc.kernels.attention_mask import AttentionMask
from posenc.models.language import LanguageModel, left_padded, restarting_positions
from posenc.models.layers import layers
from posenc.positions import Positions, sequence
from posenc.schemes import catalogue
from posenc.schemes.alibi import ALiBi
from posenc.schemes.causal_nope import CausalNoPE
from posenc.schemes.fox import FoX
from posenc.schemes.learned import Learned
from posenc.schemes.nope import NoPE
from posenc.schemes.peg import PEG
from posenc.schemes.rope import RoPE
from posenc.schemes.sinusoid import Sinusoid
from posenc.schemes.t5_bias import T5Bias


@pytest.mark.parametrize("tied", [True, False])
def test_it_is_its_formula(tied):
    rope = RoPE(12)
    model, tokens = model_of(rope, tied=tied), some_tokens(2, 7)
    z = model.tokens.weight[tokens] * 48**0.5
    where = rope.prepare(sequence(7))
    for block in model.blocks:
        x = functional.layer_norm(z, (48,), block.norm1.weight, block.norm1.bias)
        q, k, v = (x @ part.mT for part in block.qkv.weight.split([48, 24, 24]))
        heads = []
        for head in range(4):
            own, of_keys = slice(12 * head, 12 * head + 12), slice(12 * (head // 2), 12 * (head // 2) + 12)
            a, b = (rope.transform(t[:, None], where, "q")[:, 0] for t in (q[..., own], k[..., of_keys]))
            logits = (a @ b.mT / 12**0.5).masked_fill(torch.ones(7, 7, dtype=torch.bool).triu(1), -torch.inf)
            heads.append(logits.softmax(-1) @ v[..., of_keys])
        z = z + torch.cat(heads, -1) @ block.out.weight.mT
        x = functional.layer_norm(z, (48,), block.norm2.weight, block.norm2.bias)
        z = z + functional.gelu(x @ block.up.weight.mT + block.up.bias) @ block.down.weight.mT + block.down.bias
    wanted = functional.layer_norm(z, (48,), model.norm.weight, model.norm.bias) @ model.head.weight.mT
    same(model(tokens), wanted)
    assert (model.head.weight is model.tokens.weight) is tied


def test_a_bias_that_layers_share_is_made_once_and_is_everybodys(monkeypatch):
    model, tokens = model_of(T5Bias(4, bidirectional=False)).requires_grad_(True), some_tokens(2, 7)
    seen, found = [], {}
    bias = T5Bias.bias
    monkeypatch.setattr(T5Bias, "bias", lambda self, *given: seen.append(1) or bias(self, *given))
    for reads in (frozenset(), T5Bias.__base__.bias_reads):
        monkeypatch.setattr(T5Bias, "bias_reads", reads)
        logits, count = model(tokens), len(seen)
        loss = functional.cross_entropy(logits.flatten(0, 1), tokens.flatten())
        found[bool(reads)] = logits, *torch.autograd.grad(loss, list(model.parameters()))
        assert count == (1 + len(model.blocks) if reads else 1)
    for once, always in zip(found[False], found[True], strict=True):
        same(once, always)


@pytest.mark.parametrize("name", catalogue())
def test_no_token_sees_a_later_one_and_all_see_an_earlier_one(name):
    for options in catalogue()[name].examples[:1]:
        case = Case(catalogue()[name], options)
        model = of_catalogue(case)
        if model is None:
            continue
        tokens, pos = some_tokens(1, 6), case.positions(6)
        other = tokens.clone()
        other[0, 3] = (other[0, 3] + 1) % VOCABULARY
        moved = (model(other, pos) - model(tokens, pos)).abs().amax(-1)[0]
        if model.schemes[0].draws:
            continue  # two passes are two draws
        assert float(moved[:3].max()) <= 1e-12, case
        if "mask" not in model.schemes[0].claims.sites:  # these positions are in no order
            assert float(moved[3:].min()) > 1e-9, case


@pytest.mark.parametrize(
    "scheme",
    [NoPE(), RoPE(12), ALiBi(4), T5Bias(4, bidirectional=False), FoX(48, 4), CausalNoPE(), Learned(48, 9)],
    ids=lambda s: type(s).__name__,
)
def test_packed_documents_and_padded_texts_are_as_if_alone(scheme):
    model, texts = model_of(scheme), [some_tokens(1, n, n)[0] for n in (3, 6, 2)]
    alone = [model(text[None])[0] for text in texts]
    packed = torch.cat(texts)[None]
    documents = torch.tensor([5, 5, 5, 2, 2, 2, 2, 2, 2, 9, 9])
    same(model(packed, documents=documents)[0], torch.cat(alone))
    mixed = model(packed, restarting_positions(documents))[0]
    assert float((mixed - torch.cat(alone)).abs().max()) > 1e-3  # without the mask they see each other
    tokens, pos = left_padded(texts)
    padded = model(tokens, pos)
    for row, wanted in zip(padded, alone, strict=True):
        same(row[-len(wanted) :], wanted)
    assert torch.equal(model(*left_padded(texts, filler=7))[pos.placed], padded[pos.placed])
    seen = model(tokens, Positions(pos.coords))  # without `placed` the filler is a token
    assert float((seen[0, -3:] - alone[0]).abs().max()) > 1e-3
    assert bool(padded.isfinite().all())


def test_a_sample_does_not_depend_on_those_beside_it():
    model = model_of(ALiBi(4))
    tokens = some_tokens(3, 8)
    documents = torch.tensor([[0] * 8, [0] * 3 + [1] * 5, [0] * 7 + [1]])
    together = model(tokens, documents=documents)
    for row in range(3):
        same(together[row], model(tokens[row : row + 1], documents=documents[row])[0], atol=1e-12)
    other = tokens.clone()
    other[1:] = 0
    assert torch.equal(model(other, documents=documents)[0], together[0])


def test_positions_begin_anew_in_every_run_of_a_document():
    documents = torch.tensor([[4, 4, 4, 1, 1, 4], [0, 0, 0, 0, 0, 0]])
    assert restarting_positions(documents).coords[..., 0].tolist() == [[0, 1, 2, 0, 1, 0], [0, 1, 2, 3, 4, 5]]


def test_a_window_is_a_band():
    model, tokens = model_of(RoPE(12), depth=1, window=3), some_tokens(1, 8)
    before = model(tokens)
    other = tokens.clone()
    other[0, 4] = (other[0, 4] + 1) % VOCABULARY
    moved = (model(other) - before).abs().amax(-1)[0]
    assert (moved > 1e-9).tolist() == [False] * 4 + [True] * 3 + [False]
    assert torch.equal(model_of(RoPE(12), window=8)(tokens), model_of(RoPE(12))(tokens))


@pytest.mark.parametrize("scheme", [RoPE(12), NoPE(), ALiBi(4), T5Bias(4)], ids=lambda s: type(s).__name__)
def test_no_mask_is_made_that_need_not_be(monkeypatch, scheme):
    taken, sdpa = [], functional.scaled_dot_product_attention

    def spy(q, k, v, mask=None, **options):
        taken.append((None if mask is None else tuple(mask.shape), options.get("is_causal", False)))
        return sdpa(q, k, v, mask, **options)

    monkeypatch.setattr(functional, "scaled_dot_product_attention", spy)
    model = model_of(scheme)
    model(some_tokens(3, 40))
    whole = (1, 4, 40, 40)  # one for all samples
    assert taken == [(None, True) if "bias" not in scheme.claims.sites else (whole, False)] * 2


@pytest.mark.parametrize("scheme", [ALiBi(4), FoX(48, 4), CausalNoPE()], ids=lambda s: type(s).__name__)
def test_some_queries_at_a_time_are_all_of_them(monkeypatch, scheme):
    model = model_of(scheme).requires_grad_()
    documents = torch.tensor([0] * 100 + [1] * 50)
    tokens = some_tokens(1, 150)
    whole = [model(tokens, documents=documents), model(tokens)]
    monkeypatch.setattr(sys.modules[attend.__module__], "PAIRS_WHOLE", 0)
    parts = [model(tokens, documents=documents), model(tokens)]
    for found, wanted in zip(parts, whole, strict=True):
        same(found, wanted)
    wanted = torch.autograd.grad(whole[0].square().sum(), model.blocks[0].qkv.weight)
    same(torch.autograd.grad(parts[0].square().sum(), model.blocks[0].qkv.weight)[0], wanted[0])


def test_the_rule_of_who_sees_whom():
    documents, real = torch.tensor([[0, 0, 1, 1, 1]]), torch.tensor([True, True, True, False, True])
    rows = AttentionMask(3, 5, documents, real, window=2).rows(torch.device("cpu"))
    assert rows.int().tolist() == [[[[0, 0, 1, 0, 0], [0, 0, 1, 0, 0], [0, 0, 0, 0, 1]]]]
    part = AttentionMask(3, 5, documents, real, window=2).rows(torch.device("cpu"), slice(1, 3))
    assert torch.equal(part, rows[..., 1:, :])
    assert AttentionMask(1, 5).rows(torch.device("cpu")) is None
    assert AttentionMask(2, 5).rows(torch.device("cpu")).int().tolist() == [[1, 1, 1, 1, 0], [1, 1, 1, 1, 1]]
    assert (
        AttentionMask(5, 5).triangular,
        AttentionMask(5, 5, window=5).triangular,
        AttentionMask(4, 5).triangular,
    ) == (True, True, False)
    q = torch.randn(1, 2, 3, 4)
    for backend in ("sdpa", "eager"):
        out = attend(q, q, q, NoPE(), None, None, None, mask=AttentionMask(3, 3, real=real[2:]), backend=backend)
        wanted = attend(q, q, q, NoPE(), None, None, None, mask=AttentionMask(3, 3, real=real[2:]).rows(q.device))
        torch.testing.assert_close(out, wanted)


def test_layers_may_have_schemes_of_their_own_and_be_given_others():
    rope = RoPE(12)
    model = LanguageModel(config(depth=4), layers(rope, NoPE())).requires_grad_(False)
    assert [type(model.schemes[which]) for which in model.scheme_of] == [RoPE, NoPE, RoPE, NoPE]
    tokens = some_tokens(1, 9)
    before = model(tokens)
    other = swap(copy.deepcopy(model), ALiBi(4))
    assert float((other(tokens) - before).abs().max()) > 1e-3
    torch.testing.assert_close(swap(other, layers(rope, NoPE()))(tokens), before)


def test_rows_go_to_the_input_or_into_every_block():
    tokens = some_tokens(1, 5)
    once, often = (model_of(Sinusoid(48), placement=where) for where in ("input", "every_block"))
    assert float((once(tokens) - often(tokens)).abs().max()) > 1e-3
    assert float((once(tokens, Positions(torch.zeros(5, 1))) - once(tokens)).abs().max()) > 1e-3


def test_every_parameter_learns_and_a_few_steps_lower_the_loss():
    torch.manual_seed(0)
    model = LanguageModel(config(), layers(lambda layer: T5Bias(4, bidirectional=False)))
    text = torch.arange(60).remainder(7)[None]
    optimizer, losses = torch.optim.AdamW(model.parameters(), lr=1e-2), []
    for _ in range(30):
        loss = functional.cross_entropy(model(text[:, :-1])[0], text[0, 1:])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert all(p.grad is not None and float(p.grad.abs().max()) > 0 for p in model.parameters())
    assert losses[-1] < 0.2 < losses[0]


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: config(heads=5), r"5 heads share a width of 48, and 2 heads of keys"),
        (lambda: config(key_heads=3), r"4 heads share a width of 48, and 3 heads of keys are shared by them"),
        (lambda: config(window=-1), r"needs vocabulary, dim, .* and window of at least 1"),
        (lambda: model_of(RoPE(10)), r"RoPE acts on heads of width 10 and the language model's have 12"),
        (lambda: model_of(Sinusoid(12)), r"rows of width 12 and the language model adds them to tokens of width 48"),
        (lambda: model_of(PEG(48)), r"PEG mixes a token with those around it, and a causal model must not see"),
        (lambda: model_of(NoPE())(some_tokens(1, 3), sequence(4)), r"there are 3 tokens per sample and 4 positions"),
        (
            lambda: model_of(NoPE())(some_tokens(1, 3), documents=torch.zeros(2, dtype=torch.long)),
            r"there are 3 tokens per sample and 2 positions|2 document numbers",
        ),
        (
            lambda: model_of(NoPE())(some_tokens(3, 3), Positions(torch.zeros(2, 3, 1))),
            r"there are 3 samples and positions of 2\. Give one row, or 3",
        ),
        (lambda: model_of(NoPE())(torch.tensor([[3, 11]])), r"the vocabulary has tokens 0 to 10; got 11"),
        (lambda: model_of(NoPE())(torch.rand(2, 5)), r"numbers in int64 or int32; got torch.float32"),
        (lambda: model_of(NoPE())(torch.tensor([3, 1])), r"tokens have shape \(B, N\).*Write tokens\[None\]"),
        (lambda: model_of(Learned(48, 4))(some_tokens(1, 5)), r"Learned starts at 0 and stops at 3; position 4 was"),
    ],
)
def test_what_a_language_model_does_not_take(make, sentence):
    with pytest.raises((ValueError, TypeError), match=sentence + r"|Type-check error"):
        make()


def gradients(model, tokens, through):
    model.zero_grad()
    functional.cross_entropy(through(model, tokens).flatten(0, 1), tokens.flatten()).backward()
    return [p.grad.clone() for p in model.unique_schemes[0].parameters()]


@pytest.mark.parametrize("reentrant", [False, True])
def test_a_shared_bias_survives_activation_checkpointing(reentrant):
    model, tokens = model_of(T5Bias(4, bidirectional=False)).requires_grad_(True), some_tokens(2, 7)
    wanted = gradients(model, tokens, lambda model, tokens: model(tokens))
    plain = type(model.blocks[0]).forward

    def again(self, z, *given):
        return checkpoint(lambda z: plain(self, z, *given), z, use_reentrant=reentrant)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(model.blocks[0]), "forward", again)
        for found, each in zip(gradients(model, tokens, lambda model, tokens: model(tokens)), wanted, strict=True):
            assert each.abs().sum() > 0
            same(found, each)


def test_a_layer_without_gradients_takes_them_from_no_other():
    model, tokens = model_of(T5Bias(4, bidirectional=False)).requires_grad_(True), some_tokens(2, 7)
    first, plain = model.blocks[0], type(model.blocks[0]).forward

    def frozen(self, *given):
        with torch.set_grad_enabled(self is not first):
            return plain(self, *given)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(first), "forward", frozen)
        assert gradients(model, tokens, lambda model, tokens: model(tokens))[0].abs().sum() > 0
