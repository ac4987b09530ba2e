"""Relative logits of Inkling against the layers of transformers, with packed documents, padding and a cache."""

import pytest
import torch

from posenc import Positions, RelativeLogits, Temperature, attention, sequence
from posenc.models.cache import Cache
from posenc.models.generation import extend
from posenc.models.language import LanguageConfig, LanguageModel

N, DIM, HEADS = 12, 16, 4


def draw(*shape, seed=7):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def made(seed=3, temperature=None):
    scheme = RelativeLogits(DIM, HEADS, distances=5, rank=3, temperature=temperature)
    with torch.no_grad():
        for parameter in scheme.parameters():
            parameter.copy_(draw(*parameter.shape, seed=seed))
    return scheme


@pytest.mark.compares("RelativeLogits", "transformers", "Inkling")
@pytest.mark.parametrize("temperature", [None, Temperature(4.0, smooth=True)])
def test_it_is_the_attention_of_transformers(temperature, same):
    code = pytest.importorskip("transformers.models.inkling.modeling_inkling")
    scheme = made(temperature=temperature)
    theirs = code.InklingRelativeLogits(3, 5)
    with torch.no_grad():
        theirs.proj.copy_(scheme.profiles)
    x, (q, k, v) = draw(2, N, DIM, seed=1), draw(3, 2, HEADS, N, 8)
    states = (x @ scheme.weight.flatten(0, 1).T).view(2, N, HEADS, -1)
    bias = theirs(states, torch.arange(N), torch.arange(N))
    if temperature is not None:  # as InklingAttention.forward computes it
        tau = (1.0 + 0.1 * torch.log(((torch.arange(N) + 1).float() / 4.0).clamp(min=1.0))).view(1, 1, -1, 1)
        q_theirs, bias = q * tau, bias * tau
    else:
        q_theirs = q
    causal = torch.zeros(N, N).masked_fill(torch.ones(N, N).triu(1).bool(), -torch.inf)

    class Module(torch.nn.Module):
        num_key_value_groups = 1

    want, _ = code.eager_attention_forward(Module(), q_theirs, k, v, causal, 8**-0.5, position_bias=bias)
    found = attention(q, k, v, scheme=scheme, q_pos=sequence(N), x=x, causal=True)
    same(found.float(), want.transpose(1, 2).float())


def test_packed_documents_and_padding_read_their_own_rows():
    scheme, x, (q, k, v) = made(), draw(1, N, DIM, seed=1), draw(3, 1, HEADS, N, 8)
    document = torch.tensor([0] * 5 + [1] * 7)
    pos = sequence(torch.cat([torch.arange(5), torch.arange(7)]))
    mask = (document[:, None] == document) & torch.ones(N, N).tril().bool()
    packed = attention(q, k, v, scheme=scheme, q_pos=pos, x=x, mask=mask)
    for part in (slice(0, 5), slice(5, N)):
        own = [t[:, :, part] for t in (q, k, v)]
        alone = attention(*own, scheme=scheme, q_pos=sequence(own[0].shape[2]), x=x[:, part], causal=True)
        torch.testing.assert_close(packed[:, :, part], alone)
    real = torch.arange(N) >= 5
    padded = Positions((torch.arange(N) - 5)[:, None], real)
    mask = torch.ones(N, N).tril().bool() & real
    found = attention(q, k, v, scheme=scheme, q_pos=padded, x=x, mask=mask)[:, :, 5:]
    want = attention(*(t[:, :, 5:] for t in (q, k, v)), scheme=scheme, q_pos=sequence(7), x=x[:, 5:], causal=True)
    torch.testing.assert_close(found, want)


def test_a_model_decodes_with_it():
    torch.manual_seed(0)
    config = LanguageConfig(vocabulary=11, dim=DIM, depth=2, heads=HEADS, key_heads=2, hidden=16)
    model = LanguageModel(config, lambda layer: made(layer)).eval()
    tokens = torch.randint(11, (2, N))
    with torch.no_grad():
        whole, cache, parts = model(tokens), Cache(), []
        for part in tokens.split([3, 1, 1, 4, 3], 1):
            parts.append(extend(model, part, cache))
    torch.testing.assert_close(torch.cat(parts, 1), whole, atol=1e-5, rtol=0)


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: RelativeLogits(8, 0), "of at least 1; got dim=8, heads=0"),
        (lambda: attention(*draw(3, 1, 4, 5, 8), scheme=made(), q_pos=sequence(5)), r"pass attention\(\.\., x=x\)"),
        (lambda: made().keep(draw(1, 5, 7), sequence(5)), "reads rows of width 16; the block's input has 7"),
        (lambda: made().prepare(Positions(torch.tensor([[0.5]]))), "counts in whole positions"),
    ],
)
def test_bad_input(make, sentence):
    with pytest.raises(ValueError, match=sentence):
        make()


@pytest.mark.bare  # The shape hook would refuse these before the sentences do.
@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (
            lambda: RelativeLogits(24, 4, temperature=3),
            r"is a Temperature or None; got 3. Try Temperature\(8192\)",
        ),
        (lambda: RelativeLogits(24, 4, distances=2.5), r"whole numbers of at least 1; got .* distances=2\.5"),
    ],
)
def test_arguments_of_another_type(make, sentence):
    with pytest.raises(ValueError, match=sentence):
        make()
