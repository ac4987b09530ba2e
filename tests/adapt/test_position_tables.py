"""Learned position tables of transformers' models: read, resized, replaced; each on a tiny random model."""

import copy

import pytest
import torch
from torch import nn

from posenc.adapt import learned_table, replace_table, resize_table
from posenc.positions import sequence
from posenc.schemes.alibi import ALiBi
from posenc.schemes.learned import Learned
from posenc.schemes.nope import NoPE
from posenc.schemes.sinusoid import Sinusoid

pytestmark = [pytest.mark.oracles, pytest.mark.bare]
transformers = pytest.importorskip("transformers")

BERT = {
    "hidden_size": 32, "num_attention_heads": 4, "num_hidden_layers": 2, "intermediate_size": 48, "vocab_size": 50,
    "max_position_embeddings": 24, "pad_token_id": 0,
}  # fmt: skip
GPT2 = {"n_embd": 32, "n_head": 4, "n_layer": 2, "vocab_size": 50, "n_positions": 24, "bos_token_id": 0,
        "eos_token_id": 0}  # fmt: skip
KINDS = {
    "GPT2": (GPT2, "GPT2LMHeadModel", 0),
    "Bert": (BERT, "BertModel", 0),
    "Roberta": ({**BERT, "pad_token_id": 1}, "RobertaModel", 2),
    "Electra": ({**BERT, "embedding_size": 32}, "ElectraModel", 0),
    "DistilBert": ({"dim": 32, "n_heads": 4, "n_layers": 2, "hidden_dim": 48, "vocab_size": 50,
                    "max_position_embeddings": 24}, "DistilBertModel", 0),
    "OPT": ({"hidden_size": 32, "num_attention_heads": 4, "num_hidden_layers": 2, "ffn_dim": 48, "vocab_size": 50,
             "max_position_embeddings": 24, "word_embed_proj_dim": 32, "pad_token_id": 1}, "OPTForCausalLM", 2),
    "CLIPText": ({**BERT, "eos_token_id": 49, "bos_token_id": 48}, "CLIPTextModel", 0),
}  # fmt: skip


def made(kind):
    options, name, _ = KINDS[kind]
    torch.manual_seed(0)
    model = getattr(transformers, name)(getattr(transformers, f"{kind}Config")(**options)).eval()
    with torch.no_grad():
        _embedding(model).weight.normal_()
    return model


def _embedding(model):
    (found,) = [
        child for _, child in model.named_modules()
        if isinstance(child, nn.Embedding) and child.num_embeddings in range(24, 27)
    ]  # fmt: skip
    return found


def first(model, length):
    ids = 2 + torch.arange(2 * length).view(2, length) % 40
    with torch.no_grad():
        return model(input_ids=ids, attention_mask=torch.ones_like(ids))[0]


@pytest.mark.parametrize("kind", KINDS)
def test_a_table_is_read_and_written_back(kind):
    model, before = made(kind), KINDS[kind][2]
    table, same = learned_table(model), first(model, 20)
    assert torch.equal(table.table, _embedding(model).weight[before:])
    weight = _embedding(model).weight.detach().clone()
    with torch.no_grad():
        _embedding(model).weight[before:].neg_()
    assert not torch.allclose(first(model, 20), same, atol=1e-3)
    replace_table(model, table)
    assert torch.equal(_embedding(model).weight, weight)
    torch.testing.assert_close(first(model, 20), same, atol=1e-5, rtol=0)


@pytest.mark.parametrize("kind", KINDS)
def test_a_repeated_table_reads_longer_texts_and_short_ones_as_before(kind, tmp_path):
    model = made(kind)
    length, short = len(learned_table(model).table), first(model, 20)
    with pytest.raises((IndexError, RuntimeError, ValueError)):
        first(model, 40)
    resize_table(model, 2 * length)
    torch.testing.assert_close(first(model, 20), short, atol=1e-5, rtol=0)
    long = first(model, 40)
    rows = learned_table(model).table
    assert torch.equal(rows[:length], rows[length:])
    model.save_pretrained(tmp_path)
    again = type(model).from_pretrained(tmp_path).eval()
    torch.testing.assert_close(first(again, 40), long, atol=1e-5, rtol=0)
    resize_table(model, length)
    torch.testing.assert_close(first(model, 20), short, atol=1e-5, rtol=0)


@pytest.mark.parametrize("kind", KINDS)
def test_a_table_is_resampled(kind):
    model = made(kind)
    own = learned_table(model)
    length = len(own.table)
    resize_table(model, length, method="resample")
    assert torch.equal(learned_table(model).table, own.table)
    wanted = own.resized((length,), (3 * length,)).table
    resize_table(model, 3 * length, method="resample")
    torch.testing.assert_close(learned_table(model).table, wanted)
    assert first(model, 3 * length - 4).isfinite().all()


@pytest.mark.parametrize("kind", KINDS)
def test_a_table_is_replaced_by_rows_of_a_scheme(kind, tmp_path):
    model, scheme = made(kind), Sinusoid(32)
    by_hand, rows = copy.deepcopy(model), scheme.embed(scheme.prepare(sequence(24)))
    before = KINDS[kind][2]
    with torch.no_grad():
        _embedding(by_hand).weight[before:] = rows[: len(_embedding(by_hand).weight) - before]
    replace_table(model, scheme, length=60)
    torch.testing.assert_close(first(model, 20), first(by_hand, 20), atol=1e-5, rtol=0)
    assert not any(p.requires_grad for name, p in model.named_parameters() if p.shape[0] == 60 + before)
    model.save_pretrained(tmp_path)
    torch.testing.assert_close(first(type(model).from_pretrained(tmp_path).eval(), 50), first(model, 50))
    replace_table(model, NoPE())
    assert not learned_table(model).table.any()
    replace_table(model, Learned(32, 30))
    assert len(learned_table(model).table) == 30


def test_generating_beyond_the_old_length():
    model = resize_table(made("GPT2"), 48)
    out = model.generate(
        torch.arange(1, 21)[None], max_new_tokens=20, do_sample=False, pad_token_id=0, eos_token_id=None,
        output_logits=True, return_dict_in_generate=True,
    )  # fmt: skip
    with torch.no_grad():
        full = model(out.sequences, use_cache=False).logits[:, 19:-1]
    torch.testing.assert_close(torch.stack(out.logits, 1), full, atol=1e-5, rtol=0)


def test_a_model_with_two_tables_is_asked_for_the_part():
    sizes = {"d_model": 32, "encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 4, "vocab_size": 50,
             "decoder_attention_heads": 4, "encoder_ffn_dim": 48, "decoder_ffn_dim": 48}  # fmt: skip
    model = transformers.BartModel(transformers.BartConfig(**sizes, max_position_embeddings=24))
    with pytest.raises(ValueError, match=r"has 2 position tables \(encoder\.embed_positions and decoder\.embed_pos"):
        learned_table(model)
    assert torch.equal(learned_table(model.decoder).table, model.decoder.embed_positions.weight[2:])


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda m: learned_table(nn.Linear(2, 2)), r"Linear has no position table: no nn\.Embedding with a name among"),
        (lambda m: resize_table(m, 0), r"`length` is a number of positions, a whole number of at least 1; got 0"),
        (
            lambda m: resize_table(m, 9, method="cut"),  # pyright: ignore
            r"resized by 'repeat' or 'resample'; got method='cut'",
        ),
        (lambda m: replace_table(m, ALiBi(4)), r"adds a position table to its tokens .* ALiBi acts at bias too"),
        (lambda m: replace_table(m, Sinusoid(16)), r"rows of width 32, and this Sinusoid makes rows of width 16"),
        (lambda m: replace_table(m, Learned(32, 30), length=40), "position 39"),
    ],
)
def test_what_a_table_cannot_become_changes_nothing(change, sentence):
    model = made("GPT2")
    before = copy.deepcopy(model.state_dict())
    with pytest.raises(ValueError, match=sentence):
        change(model)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


def test_a_model_that_keeps_a_mask_of_its_length_is_refused():
    config = {"hidden_size": 32, "num_layers": 2, "num_heads": 4, "vocab_size": 50, "max_position_embeddings": 24}
    model = transformers.GPTNeoModel(transformers.GPTNeoConfig(**config, attention_types=[[["global"], 2]]))
    with pytest.raises(ValueError, match=r"GPTNeoModel keeps a mask for 24 tokens in h\.0\.attn.*\.bias"):
        resize_table(model, 48)
    assert len(learned_table(resize_table(model, 12)).table) == 12
