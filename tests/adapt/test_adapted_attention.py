"""torch's attention with our schemes: itself under NoPE, and by hand under others; no fast path steps round us."""

import math

import pytest
import torch
from torch import nn

from posenc.adapt import Attention, multihead
from posenc.attention import attention
from posenc.positions import Positions, grid, sequence
from posenc.schemes.causal_nope import CausalNoPE
from posenc.schemes.nope import NoPE
from posenc.schemes.peg import PEG
from posenc.schemes.rope import RoPE
from posenc.schemes.shaw import Shaw
from posenc.schemes.sinusoid import Sinusoid

HIDDEN = torch.tensor([[False, False, False, False, True], [False, True, False, False, False]])


@pytest.mark.parametrize("batch_first", [True, False])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("widths", [{}, {"kdim": 7, "vdim": 9}])
@pytest.mark.parametrize(
    "masks",
    [
        {},
        {"attn_mask": torch.ones(4, 5).triu(2).bool()},
        {"attn_mask": torch.zeros(4, 5).masked_fill(torch.ones(4, 5).triu(2).bool(), -torch.inf)},
        {"key_padding_mask": HIDDEN},
        {"attn_mask": (torch.arange(6 * 20).view(6, 4, 5) % 7 == 3), "key_padding_mask": HIDDEN},
    ],
)
def test_with_nope_it_is_the_module_itself(batch_first, bias, widths, masks):
    module = nn.MultiheadAttention(12, 3, bias=bias, batch_first=batch_first, **widths)
    q, k, v = (
        torch.randn(2, 4, 12),
        torch.randn(2, 5, widths.get("kdim", 12)),
        torch.randn(2, 5, widths.get("vdim", 12)),
    )
    if not batch_first:
        q, k, v = (t.transpose(0, 1) for t in (q, k, v))
    adapted = Attention(module, NoPE())
    for wanted in ({}, {"need_weights": False}, {"average_attn_weights": False}):
        ours, theirs = adapted(q, k, v, **masks, **wanted), module(q, k, v, **masks, **wanted)
        torch.testing.assert_close(ours[0], theirs[0], atol=1e-6, rtol=1e-5)
        assert (ours[1] is None) == (theirs[1] is None)
        if ours[1] is not None:
            torch.testing.assert_close(ours[1], theirs[1], atol=1e-6, rtol=1e-5)


def test_one_sample_alone_and_its_gradients():
    module = nn.MultiheadAttention(12, 3)
    x, padding = torch.randn(5, 12), HIDDEN[0]
    adapted = Attention(module, NoPE())
    grads = []
    for run in (module, adapted):
        module.zero_grad()
        out, weights = run(x, x, x, key_padding_mask=padding)
        assert out.shape == (5, 12)
        assert weights.shape == (5, 5)
        out.square().sum().backward()
        grads.append([p.grad.clone() for p in module.parameters()])
    for ours, theirs in zip(*grads, strict=True):
        torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=1e-4)


def by_hand(module, x, scheme, pos):
    """The module's attention without its class: one product a projection."""
    w, b = module.in_proj_weight.chunk(3), module.in_proj_bias.chunk(3)
    q, k, v = ((x @ w[i].T + b[i]).unflatten(-1, (module.num_heads, -1)).transpose(1, 2) for i in range(3))
    out = attention(q, k, v, scheme=scheme, q_pos=pos, x=x, backend="eager")
    return out.transpose(1, 2).flatten(2) @ module.out_proj.weight.T + module.out_proj.bias


@pytest.mark.parametrize("scheme", [RoPE(4), Shaw(4, 3), CausalNoPE()], ids=lambda s: type(s).__name__)
def test_a_scheme_acts_on_the_projected_heads(scheme):
    module, x = nn.MultiheadAttention(12, 3, batch_first=True), torch.randn(2, 6, 12)
    wanted = by_hand(module, x, scheme, sequence(6))
    for need in (True, False):
        out, _ = Attention(module, scheme)(x, x, x, need_weights=need)
        torch.testing.assert_close(out, wanted, atol=1e-6, rtol=1e-5)
    assert float((module(x, x, x)[0] - wanted).detach().abs().max()) > 1e-3


def test_dropout_is_on_the_weights_and_in_training_alone():
    module = nn.MultiheadAttention(12, 3, dropout=0.5, batch_first=True)
    adapted, x = Attention(module, RoPE(4)), torch.randn(1, 40, 12)
    adapted.train()
    out, weights = adapted(x, x, x, average_attn_weights=False, need_weights=True)
    share = float((weights == 0).float().mean())
    assert share == pytest.approx(0.5, abs=5 * math.sqrt(0.25 / weights.numel()))
    values = (x @ module.in_proj_weight.chunk(3)[2].T + module.in_proj_bias.chunk(3)[2]).unflatten(-1, (3, 4))
    heads = (weights @ values.transpose(1, 2)).transpose(1, 2).flatten(2)
    torch.testing.assert_close(out, module.out_proj(heads), atol=1e-6, rtol=1e-5)
    adapted.eval()
    torch.testing.assert_close(adapted(x, x, x)[0], adapted(x, x, x, need_weights=False)[0], atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("norm_first", [False, True])
def test_an_encoder_of_torch_whose_fast_path_would_not_ask_us(norm_first):
    layer = nn.TransformerEncoderLayer(12, 4, 24, batch_first=True, norm_first=norm_first)
    model = nn.TransformerEncoder(layer, 2, enable_nested_tensor=not norm_first).eval()
    x = torch.randn(2, 5, 12)
    plain = model(x, src_key_padding_mask=HIDDEN)
    assert multihead(model, NoPE()) is model
    for grad in (True, False):  # without gradients torch takes its fast path, which reads the weights directly
        with torch.set_grad_enabled(grad):
            torch.testing.assert_close(
                model(x, src_key_padding_mask=HIDDEN)[~HIDDEN], plain[~HIDDEN], atol=1e-5, rtol=1e-4
            )
    rope = multihead(nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).eval(), RoPE(3 - 1, of=3))
    with torch.no_grad():
        fast = rope(x)
    torch.testing.assert_close(fast, rope(x), atol=1e-6, rtol=1e-5)
    assert float((fast - model(x)).detach().abs().max()) > 1e-3


def test_layers_take_their_own_scheme_and_pictures_their_own_positions():
    model = nn.TransformerEncoder(
        nn.TransformerEncoderLayer(12, 3, 24, batch_first=True), 3, enable_nested_tensor=False
    )
    multihead(model, lambda layer: Shaw(4, 2 + layer))
    assert [block.self_attn.scheme.max_distance for block in model.layers] == [2, 3, 4]
    assert "layers.1.self_attn.scheme.keys" in model.state_dict()
    module, x = nn.MultiheadAttention(8, 2, batch_first=True), torch.randn(1, 6, 8)
    axial = CausalNoPE()
    turned = Attention(module, axial, positions=lambda n: Positions(torch.arange(n).flip(0)[:, None]))
    torch.testing.assert_close(turned(x, x, x)[0], by_hand(module, x, axial, sequence(torch.arange(6).flip(0))))


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (
            lambda: Attention(nn.MultiheadAttention(12, 3), Sinusoid(12)),
            r"nn\.MultiheadAttention attends and does nothing else with positions; Sinusoid acts at embed too",
        ),
        (lambda: Attention(nn.MultiheadAttention(12, 3), PEG(12)), r"PEG acts at mix too, which would be lost"),
        (
            lambda: Attention(nn.MultiheadAttention(12, 3), RoPE(8)),
            r"RoPE acts on heads of width 8 and the module's have 4\. Build it for a head width of 4",
        ),
        (lambda: Attention(nn.MultiheadAttention(12, 3, add_bias_kv=True), NoPE()), r"bias_k and add_zero_attn cannot"),
        (
            lambda: Attention(nn.MultiheadAttention(12, 3, add_zero_attn=True), NoPE()),
            r"keys that are not tokens have no",
        ),
        (
            lambda: multihead(nn.Linear(2, 2), NoPE()),
            r"Linear has no nn\.MultiheadAttention inside\. One alone becomes",
        ),
        (
            lambda: Attention(nn.MultiheadAttention(4, 1), NoPE())(
                *[torch.zeros(3, 1, 4)] * 3, attn_mask=torch.ones(3, 3)
            ),
            r"attn_mask adds numbers other than 0 and -inf to the logits: that is a bias, which a scheme makes",
        ),
        (
            lambda: Attention(nn.MultiheadAttention(4, 1), NoPE())(*[torch.zeros(3, 1, 4)] * 3, is_causal=True),
            r"is_causal only describes attn_mask; pass that mask too",
        ),
        (
            lambda: Attention(nn.MultiheadAttention(4, 1), NoPE(), positions=lambda n: grid(2, 2))(
                *[torch.zeros(3, 1, 4)] * 3
            ),
            r"there are 3 queries, and `positions\(3\)` made 4 positions",
        ),
    ],
)
def test_what_attention_cannot_take(make, sentence):
    with pytest.raises(ValueError, match=sentence):
        make()


@pytest.mark.full
@pytest.mark.compile
def test_a_mask_of_numbers_is_refused_in_a_graph_too():
    attend = Attention(nn.MultiheadAttention(8, 2, batch_first=True), NoPE())
    x, run = torch.randn(1, 3, 8), torch.compile(attend, fullgraph=True, backend="aot_eager")
    hidden = torch.tensor([[0.0, -math.inf, 0.0]]).expand(3, 3).contiguous()
    torch.testing.assert_close(run(x, x, x, attn_mask=hidden)[0], attend(x, x, x, attn_mask=hidden)[0])
    with pytest.raises(RuntimeError, match="adds numbers other than 0 and -inf"):
        run(x, x, x, attn_mask=hidden.clamp(min=-0.5))


def test_schemes_are_moved_to_the_model_that_they_enter():
    model = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 8, device="meta"), 1, enable_nested_tensor=False)
    multihead(model, Shaw(4, 3))
    assert {p.device.type for p in model.parameters()} == {"meta"}
