"""One attention on three backends: the same numbers, the choice and its reason, and what each refuses."""

import importlib
import math
import warnings

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from posenc.attention import Choice, attend, attention, attention_weights, choose
from posenc.contract.compiling import SchemeEffects
from posenc.kernels.attention_mask import AttentionMask
from posenc.positions import Positions, sequence
from posenc.scheme import Scheme
from posenc.schemes.alibi import ALiBi
from posenc.schemes.causal_nope import CausalNoPE
from posenc.schemes.cope import CoPE
from posenc.schemes.fire import FIRE
from posenc.schemes.fox import FoX
from posenc.schemes.graph_distance import GraphDistance
from posenc.schemes.kerple_log import KERPLELog
from posenc.schemes.kerple_power import KERPLEPower
from posenc.schemes.learned import Learned
from posenc.schemes.log_cpb import LogCPB
from posenc.schemes.nope import NoPE
from posenc.schemes.rope import RoPE
from posenc.schemes.shaw import Shaw
from posenc.schemes.sinusoid import Sinusoid
from posenc.schemes.swin_bias import SwinBias
from posenc.schemes.t5_bias import T5Bias
from tiers import full_except

# Tests of arguments of a wrong type or shape: the shape hook would refuse them before our sentence does.
without_the_shape_hook = pytest.mark.bare


def draw(*shape: int, seed: int = 7, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def plain(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None, scale: float | None = None) -> Tensor:
    logits = q @ k.mT * (q.shape[-1] ** -0.5 if scale is None else scale)
    return (logits if mask is None else logits.masked_fill(~mask, -torch.inf)).softmax(-1) @ v


def close(a: Tensor, b: Tensor) -> None:
    torch.testing.assert_close(a, b, atol=1e-12, rtol=0)


SCHEMES = {
    "NoPE": NoPE(),
    "CausalNoPE": CausalNoPE(0.5),
    "RoPE": RoPE(4),
    "Shaw": Shaw(4, 3),
    "Shaw, keys alone": Shaw(4, 3, values=False),
}


@pytest.mark.parametrize("scheme", SCHEMES.values(), ids=SCHEMES)
def test_eager_and_auto_agree_with_mask_scale_and_own_keys(scheme: Scheme):
    scheme = scheme.double()
    q, (k, v) = draw(2, 4, 3, 4), draw(2, 2, 2, 6, 4, seed=8)
    mask = torch.ones(3, 6, dtype=torch.bool).tril(3)
    given = {"scheme": scheme, "q_pos": sequence(3, start=3), "k_pos": sequence(6), "mask": mask, "scale": 2}
    eager, auto = (attention(q, k, v, **given, backend=backend) for backend in ("eager", "auto"))
    close(auto, eager)
    unmasked = attention(q, k, v, **{**given, "mask": None}, backend="eager")
    assert torch.allclose(unmasked, eager) == ("mask" in scheme.claims.sites)  # which is causal already
    assert not torch.allclose(attention(q, k, v, **{**given, "scale": None}), eager)


def test_without_a_scheme_it_is_scaled_dot_product_attention():
    q, k, v = draw(3, 2, 3, 5, 4)
    for dtype in (torch.float64, torch.float32):  # float32 on few keys goes another way
        given = [t.to(dtype) for t in (q, k, v)]
        out = attention(*given, scheme=NoPE(), q_pos=sequence(5))
        torch.testing.assert_close(out.double(), plain(q, k, v), atol=1e-6, rtol=0)
    close(attention(q, k, v, scheme=NoPE(), q_pos=sequence(5), scale=0.3), plain(q, k, v, scale=0.3))


def test_values_may_have_another_width():
    q, k, v = *draw(2, 1, 2, 5, 4), draw(1, 2, 5, 7)
    for backend in ("auto", "eager"):
        close(attention(q, k, v, scheme=NoPE(), q_pos=sequence(5), backend=backend), plain(q, k, v))


@pytest.mark.parametrize("queries", [300, 1])
@pytest.mark.parametrize("width", [8, 12, 4, 20])
@pytest.mark.parametrize("masked", [False, True])
def test_many_values_of_another_width_are_weighed_as_any(queries, width, masked):
    """Those up to half as wide as keys are widened with zeros on a CPU, so that a fused kernel takes them."""
    q, k, v = draw(2, 4, queries, 16), draw(2, 2, 300, 16, seed=8), draw(2, 2, 300, width, seed=9).requires_grad_()
    mask = draw(queries, 300) < 0.5 if masked else None
    out = attention(q, k, v, scheme=NoPE(), q_pos=sequence(queries), k_pos=sequence(300), mask=mask)
    want = plain(q, k.repeat_interleave(2, 1), v.repeat_interleave(2, 1), mask)
    close(out, want)
    close(*(torch.autograd.grad(y.square().sum(), v)[0] for y in (out, want)))


@pytest.mark.parametrize("backend", ["auto", "sdpa", "eager"])
@pytest.mark.parametrize("scheme", [NoPE(), RoPE(4), Shaw(4, 3, values=False), Shaw(4, 3, literal=True)], ids=str)
def test_a_query_that_sees_no_key_gets_zeros_and_passes_no_nan_back(scheme, backend):
    q, k, v = (t.clone().requires_grad_() for t in draw(3, 2, 2, 4, 4))
    mask = torch.ones(4, 4, dtype=torch.bool)
    mask[2] = False
    out = attention(q, k, v, scheme=scheme.double(), q_pos=sequence(4), mask=mask, backend=backend)
    assert out[:, :, 2].abs().max() == 0
    assert out[:, :, 1].abs().min() > 0
    out.square().sum().backward()
    assert all(bool(t.grad.isfinite().all()) for t in (q, k, v))


def test_one_query_that_sees_no_key_gets_zeros_also_from_values_of_another_width():
    q, k, v = draw(2, 4, 1, 6), draw(2, 2, 9, 6, seed=8), draw(2, 2, 9, 3, seed=9)
    mask = torch.tensor([True, False])[:, None, None, None].expand(2, 1, 1, 9)
    out = attention(q, k, v, scheme=NoPE(), q_pos=sequence(1), k_pos=sequence(9), mask=mask)
    close(out[0], plain(q[:1], k[:1].repeat_interleave(2, 1), v[:1].repeat_interleave(2, 1))[0])
    assert out[1].abs().max() == 0


@pytest.mark.parametrize("queries", [1, 3])
def test_a_bias_that_reads_keys_reads_those_that_queries_share(queries):
    """CoPE counts with q k^T: for one query in another order of products than for several."""
    scheme = CoPE(4, 5).double()
    torch.nn.init.normal_(scheme.table, generator=torch.Generator().manual_seed(1))
    q, (k, v) = draw(2, 4, queries, 4), draw(2, 2, 2, 9, 4, seed=8)
    given = {"scheme": scheme, "q_pos": sequence(queries, start=9 - queries), "k_pos": sequence(9)}
    spread = [t.repeat_interleave(2, 1) for t in (k, v)]
    close(attention(q, k, v, **given), attention(q, *spread, **given, backend="eager"))


@pytest.mark.parametrize("backend", ["auto", "eager"])
@pytest.mark.parametrize("scheme", SCHEMES.values(), ids=SCHEMES)
@pytest.mark.parametrize("heads", [1, 2])
def test_grouped_queries_are_repeated_keys(scheme, backend, heads):
    q, (k, v) = draw(2, 4, 5, 4), draw(2, 2, heads, 5, 4, seed=8)
    spread = [t.repeat_interleave(4 // heads, 1) for t in (k, v)]
    given = {"scheme": scheme.double(), "q_pos": sequence(5), "backend": backend}
    close(attention(q, k, v, **given), attention(q, *spread, **given))


@pytest.mark.parametrize("scheme", SCHEMES.values(), ids=SCHEMES)
def test_keys_from_a_cache_are_not_transformed_again(scheme):
    scheme, (q, k, v) = scheme.double(), draw(3, 2, 2, 5, 4)
    where = scheme.prepare(sequence(5))
    pair = scheme.relate(where, where)
    ready = scheme.transform(k, where, "k"), scheme.transform(v, where, "v")
    cached = attend(q, *ready, scheme, where, where, pair, keys_ready=True)
    close(cached, attention(q, k, v, scheme=scheme, q_pos=sequence(5)))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_weights_are_summed_in_float32(dtype):
    q, k = draw(2, 1, 1, 900, 4).to(dtype)
    weights = attention_weights(q, k, NoPE(), None)
    assert weights.dtype == dtype
    wanted = (q.float() @ k.float().mT).softmax(-1)
    assert float((weights.float() - wanted).abs().max()) <= 2 * torch.finfo(dtype).eps * float(wanted.max())


def test_weights_are_the_softmax_of_what_is_seen():
    scheme, (q, k) = Shaw(4, 3, literal=True).double(), draw(2, 1, 2, 5, 4)
    where = scheme.prepare(sequence(5))
    mask = torch.ones(5, 5, dtype=torch.bool)
    mask[:, 0] = False
    weights = attention_weights(q, k, scheme, scheme.relate(where, where), mask=mask).detach()
    close(weights.sum(-1), torch.tensor([0.0, 1, 1, 1, 1], dtype=torch.float64).expand(1, 2, 5))
    assert weights[..., 0].abs().max() == weights.triu(1).abs().max() == 0


# the choice --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("scheme", "backend", "reason"),
    [
        (NoPE(), "sdpa", "nothing of it stands between the logits and the values"),
        (CausalNoPE(), "sdpa", "but a mask at most"),
        (RoPE(4), "sdpa", "nothing of it stands between"),
        (Shaw(4, 3, values=False), "sdpa", "its bias goes in as a dense additive mask"),
        (Shaw(4, 3), "eager", "its value_bias needs the attention weights"),
    ],
)
def test_the_choice_says_why(scheme, backend, reason):
    choice = choose(scheme)
    assert isinstance(choice, Choice)
    assert choice.backend == backend
    assert reason in choice.reason


def test_under_a_transform_a_bias_goes_eager_and_has_its_gradient():
    scheme, (q, k, v) = Shaw(4, 3, values=False).double(), draw(3, 2, 2, 5, 4)
    seen = []

    def loss(keys: Tensor) -> Tensor:
        seen.append(choose(scheme).reason)
        given = q, k, v, torch.zeros(2, 5, 1), sequence(5)
        out = torch.func.functional_call(SchemeEffects(scheme), {"scheme.keys": keys}, given)
        return out.square().sum()

    gradient = torch.func.grad(loss)(scheme.keys.detach())
    attention(q, k, v, scheme=scheme, q_pos=sequence(5)).square().sum().backward()
    close(gradient, scheme.keys.grad)
    assert seen == ["under torch.func SDPA cannot see that a bias wants a gradient"]


# what is refused ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        (
            {"q_pos": sequence(4)},
            r"`q` has 5 tokens and its positions are 4\. Pass q_pos with one position per token, as sequence\(5\)",
        ),
        ({"k_pos": sequence(6)}, r"`k` has 5 tokens and its positions are 6\. Pass k_pos .* as sequence\(5\)"),
        ({"k": draw(2, 4, 6, 4), "v": draw(2, 4, 6, 4)}, r"`k` has 6 tokens and its positions are 5\. Pass k_pos"),
        (
            {"k": draw(2, 3, 5, 4), "v": draw(2, 3, 5, 4)},
            r"4 query heads cannot share 3 key heads; the second must divide the first",
        ),
        (
            {"scheme": Shaw(4, 3), "backend": "sdpa"},
            r"Shaw cannot run on 'sdpa': its value_bias needs .* backend='auto'",
        ),
        ({"scheme": Shaw(4, 3), "backend": "flex"}, r"Shaw cannot run on 'flex': its value_bias needs the attention"),
        (
            {"backend": "flex", "mask": torch.ones(5, 5, dtype=torch.bool)},
            r"backend='flex' computes no mask but NoPE's own; .* was passed\. Write backend='auto'",
        ),
        ({"backend": "flex", "causal": True}, r"causal=True or `mask` was passed\. Write backend='auto'"),
        ({"scheme": RoPE(8)}, r"this RoPE acts on heads of width 8; these have 4 channels\. Build it for that width"),
        (
            {"q_pos": torch.zeros(5, 2), "scheme": RoPE(4)},
            r"RoPE here reads 1 axes per position; these positions have 2",
        ),
    ],
)
def test_bad_input(changes, sentence):
    q, k, v = draw(3, 2, 4, 5, 4)
    given = {"q": q, "k": k, "v": v, "scheme": NoPE(), "q_pos": sequence(5), **changes}
    with pytest.raises(ValueError, match=sentence):
        attention(**{**given, "scheme": given["scheme"].double()})


@without_the_shape_hook
def test_bad_types_and_an_unknown_backend():
    q, k, v = draw(3, 2, 4, 5, 4)
    with pytest.raises(ValueError, match=r"'auto', 'sdpa', 'flex' or 'eager'; got backend='fast'"):
        attention(q, k, v, scheme=NoPE(), q_pos=sequence(5), backend="fast")
    with pytest.raises(ValueError, match=r"Positions or a tensor \(N, P\); got int"):
        attention(q, k, v, scheme=NoPE(), q_pos=5)
    with pytest.raises(ValueError, match=r"RoPE\.prepare takes positions; got Tensor\. Write prepare\(sequence\(n\)\)"):
        RoPE(4).prepare(torch.zeros(5, 1))


# compiled, exported, on FlexAttention ------------------------------------------------------------------------------

FAMILIES = {
    "embed": (Sinusoid(8), 4),
    "table": (Learned(8, 64), 4),
    "rotary": (RoPE(8), 8),
    "bias": (Shaw(8, 4), 8),
    "distance": (T5Bias(4, buckets=8, max_distance=20), 8),
    "gates": (FoX(6, 4), 8),
    "counts": (CoPE(8, 6), 8),
}


def inputs(n: int, batch: int = 2, width: int = 8) -> tuple[Tensor, Tensor, Tensor, Tensor, Positions]:
    q, k, v = draw(3, batch, 4, n, width, dtype=torch.float32)
    return q, k, v, draw(batch, n, 6, seed=9, dtype=torch.float32), Positions(sequence(n).coords.float())


@pytest.mark.compile
@pytest.mark.filterwarnings("ignore:.torch.jit.script_method. is deprecated:DeprecationWarning")
@pytest.mark.parametrize("family", full_except(FAMILIES))
def test_inductor_compiles_the_whole_graph(family):
    scheme, width = FAMILIES[family]
    module = SchemeEffects(scheme)
    torch._dynamo.reset()
    compiled = torch.compile(module, fullgraph=True, dynamic=True)
    for n in (5, 9):
        torch.testing.assert_close(compiled(*inputs(n, width=width)), module(*inputs(n, width=width)))
    torch._dynamo.reset()


def exported(module: nn.Module, width: int) -> torch.export.ExportedProgram:
    batch, length = torch.export.Dim("batch", min=2, max=64), torch.export.Dim("length", min=2, max=64)
    shape = {0: batch, 2: length}
    return torch.export.export(
        module.eval(),
        inputs(5, width=width),
        dynamic_shapes=(shape, shape, shape, {0: batch, 1: length}, [{0: length}, None]),
    )


@pytest.mark.compile
@pytest.mark.parametrize("family", full_except(FAMILIES, "rotary"))
@pytest.mark.full
def test_export_takes_another_batch_and_length(family):
    scheme, width = FAMILIES[family]
    module = SchemeEffects(scheme)
    program = exported(module, width)
    other = inputs(40, batch=3, width=width)
    torch.testing.assert_close(program.module()(*other), module(*other))


@pytest.mark.full
@pytest.mark.compile
@pytest.mark.parametrize("family", FAMILIES)
def test_onnx_agrees_at_another_length(family, tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    scheme, width = FAMILIES[family]
    module = SchemeEffects(scheme)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the exporter's own
        torch.onnx.export(exported(module, width), dynamo=True, verbose=False).save(tmp_path / "scheme.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "scheme.onnx", providers=["CPUExecutionProvider"])
    q, k, v, x, pos = inputs(40, batch=3, width=width)
    read = {"q": q, "k": k, "v": v, "x": x}
    names = [argument.name for argument in session.get_inputs()]
    feed = {name: read.get(name, pos.coords).numpy() for name in names}
    assert len(feed) == 5
    (out,) = session.run(None, feed)
    torch.testing.assert_close(torch.tensor(out), module(q, k, v, x, pos), atol=1e-5, rtol=0)


SAMPLES = ("alike", "places differ", "places and positions differ")


@pytest.mark.compile
@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
@pytest.mark.parametrize("scheme", [RoPE(4), CausalNoPE(0.5), Shaw(4, 3, values=False), Shaw(4, 3, literal=True)])
def test_flex_agrees_with_eager_on_grouped_queries_and_positions_of_a_batch(scheme):
    scheme, q, (k, v) = scheme.double(), draw(2, 4, 6, 4), draw(2, 2, 2, 6, 4, seed=8)
    pos = sequence(torch.stack([torch.arange(6), torch.tensor([0, 1, 2, 0, 1, 2])]))
    with torch.no_grad():
        flex, eager = (attention(q, k, v, scheme=scheme, q_pos=pos, scale=0.7, backend=b) for b in ("flex", "eager"))
    close(flex, eager)


BIASES = [
    ALiBi(4), T5Bias(4, buckets=8, max_distance=12), T5Bias(2, bidirectional=False), KERPLELog(4), KERPLEPower(4),
    FIRE(4, threshold=3.0), SwinBias(4, (8,)), LogCPB(4, (8,), hidden=8), GraphDistance(4, [(0, 3), (3, 1), (5, 6)]),
    FoX(6, 4), FoX(6, 1), Shaw(4, 3, values=False), Shaw(4, 3, literal=True), CausalNoPE(),
]  # fmt: skip


@pytest.mark.compile
@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
@pytest.mark.parametrize(
    "scheme",
    [
        pytest.param(scheme, marks=() if type(scheme) in (T5Bias, FoX, CausalNoPE) else pytest.mark.full)
        for scheme in BIASES
    ],
    ids=lambda scheme: type(scheme).__name__,
)
@pytest.mark.parametrize(
    "samples",
    [
        *(pytest.param(name, marks=pytest.mark.full) for name in ("alike", "places differ")),
        "places and positions differ",
    ],
)
def test_flex_agrees_with_eager_on_tokens_without_a_place_and_other_keys(scheme, samples):
    scheme = scheme.double()
    with torch.no_grad():
        for n, parameter in enumerate(scheme.parameters()):
            parameter.copy_(draw(*parameter.shape, seed=n))
    coords, placed = torch.tensor([[5], [0], [6], [1], [3]]), torch.tensor([True, True, False, True, True])
    if samples != "alike":
        placed = torch.stack([placed, placed.flip(0)])
    if samples == "places and positions differ":
        coords = torch.stack([coords, coords.flip(0)])
    keys = Positions(coords, placed)
    q, (k, v) = draw(2, 4, 2, 4), draw(2, 2, 2, 5, 4, seed=8)
    given = {"scheme": scheme, "q_pos": keys[1:3], "k_pos": keys, "x": draw(2, 5, 6, seed=3)}
    with torch.no_grad():
        flex, eager, auto = (attention(q, k, v, **given, backend=b) for b in ("flex", "eager", "auto"))
    close(flex, eager)
    close(auto, eager)


def test_flex_gets_turned_queries_with_the_scale(monkeypatch):
    flex = importlib.import_module("torch.nn.attention.flex_attention")

    def plainly(q, k, v, *, score_mod, scale, enable_gqa):
        assert score_mod is None
        assert enable_gqa
        return functional.scaled_dot_product_attention(q, k, v, scale=scale, enable_gqa=True)

    monkeypatch.setattr(flex, "flex_attention", plainly)
    q, (k, v), scheme = draw(2, 4, 6, 4), draw(2, 2, 2, 6, 4, seed=8), RoPE(4)
    found, want = (attention(q, k, v, scheme=scheme, q_pos=sequence(6), scale=0.7, backend=b) for b in ("flex", "sdpa"))
    close(found, want)


def test_a_form_that_flex_cannot_have_says_so():
    q, k, v = draw(3, 2, 4, 5, 4)
    with pytest.raises(ValueError, match=r"CoPE has no FlexAttention form of its bias, mask\. Use backend='auto'"):
        attention(q, k, v, scheme=CoPE(4, 3).double(), q_pos=sequence(5), backend="flex")


@pytest.mark.compile
def test_flex_refuses_a_bias_without_a_score_mod():
    class Doubled(Scheme):
        claims = Shaw(4, 3, values=False).claims

        def prepare(self, pos: Positions) -> None:
            self._take(pos)

        def bias(self, q, k, kept, pair, attn_mask):
            return q @ k.mT

    q, k, v = draw(3, 2, 4, 5, 4)
    with pytest.raises(ValueError, match=r"Doubled has no FlexAttention form of its bias\. Use backend='auto'"):
        attention(q, k, v, scheme=Doubled(), q_pos=sequence(5), backend="flex")
    close(attention(q, k, v, scheme=Doubled(), q_pos=sequence(5)), plain(q, k, v, scale=2 / math.sqrt(4)))


def test_a_rule_of_a_window_or_of_documents_is_not_plainly_causal():
    key = torch.arange(5)
    near = AttentionMask(5, 5, window=2)
    expected = (key <= key[:, None]) & (key > key[:, None] - 2)
    assert torch.equal(near.rows(torch.device("cpu")), expected)
    rules = [AttentionMask(5, 5), near, AttentionMask(5, 5, document=key), AttentionMask(2, 5)]
    assert [rule.triangular for rule in rules] == [True, False, False, False]
