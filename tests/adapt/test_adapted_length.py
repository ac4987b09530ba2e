"""Rotations by the length of the text in models of transformers, against fresh forwards; and what these do wrong."""

import pytest
import torch

from posenc.adapt import configured, llama
from posenc.frequencies import dynamic_ntk
from posenc.length_rope import LengthRoPE

pytestmark = [pytest.mark.oracles, pytest.mark.bare]
transformers = pytest.importorskip("transformers")

SIZES = {
    "hidden_size": 64, "num_attention_heads": 4, "num_key_value_heads": 2, "num_hidden_layers": 2, "vocab_size": 50,
    "intermediate_size": 64, "max_position_embeddings": 32, "bos_token_id": None, "eos_token_id": None,
    "pad_token_id": 0,
}  # fmt: skip
DYNAMIC = {"rope_type": "dynamic", "rope_theta": 500.0, "factor": 4.0}
LONGROPE = {
    "rope_type": "longrope", "rope_theta": 500.0, "short_factor": [1.0, 1.1, 1.2, 1.5, 2.0, 3.0, 4.0, 5.0],
    "long_factor": [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0], "original_max_position_embeddings": 16, "factor": 2.0,
}  # fmt: skip
ROTATIONS = {"dynamic": DYNAMIC, "longrope": LONGROPE}
GREEDY = {"do_sample": False, "output_logits": True, "return_dict_in_generate": True, "max_length": None}


def made(rotation, kind="Llama", **options):
    torch.manual_seed(0)
    config = getattr(transformers, f"{kind}Config")(**(SIZES | options), rope_parameters=dict(rotation))
    return getattr(transformers, f"{kind}ForCausalLM")(config).eval()


def text(count, seed=0):
    return torch.randint(1, 50, (1, count), generator=torch.Generator().manual_seed(seed))


def logits(model, ids, **named):
    with torch.no_grad():
        return model(ids, use_cache=False, **named).logits


def same(found, wanted, atol=2e-6):
    torch.testing.assert_close(found, wanted, atol=atol, rtol=0)


@pytest.mark.parametrize("rotation", ROTATIONS.values(), ids=ROTATIONS)
def test_each_length_is_a_fresh_forward_of_theirs(rotation):
    ours = llama(made(rotation))
    for count in (10, 16, 17, 31, 32, 33, 60, 10):  # the last one is short again
        same(logits(ours, text(count)), logits(made(rotation), text(count)))


@pytest.mark.parametrize("rotation", ROTATIONS.values(), ids=ROTATIONS)
def test_exact_model_without_their_cache_and_exact_keys_with_it(rotation):
    """With one layer keys depend on no other token, so exact keys are an exact model."""
    for depth, options in ((2, {"use_cache": False}), (1, {}), (1, {"cache_implementation": "static"})):
        ours = llama(made(rotation, num_hidden_layers=depth))
        out = ours.generate(text(12), max_new_tokens=28, **options, **GREEDY)
        for step in (0, 4, 5, 20, 21, 27):
            fresh = logits(made(rotation, num_hidden_layers=depth), out.sequences[:, : 12 + step])
            same(out.logits[step], fresh[:, -1])


def test_exact_keys_in_a_sliding_window_and_in_chunks():
    ours, theirs = (made(DYNAMIC, "Mistral", num_hidden_layers=1, sliding_window=6) for _ in range(2))
    llama(ours)
    ids = text(44)
    fresh = logits(theirs, ids)
    for parts in ([44], [20, 44], [30, 32, 33, 34, 44], [*range(20, 45)]):
        cache, start = transformers.DynamicCache(config=ours.config), 0
        for stop in parts:
            with torch.no_grad():
                found = ours(ids[:, start:stop], past_key_values=cache).logits
            start = stop
        same(found[:, -1], fresh[:, -1])


def padded(*texts):
    longest = max(ids.shape[1] for ids in texts)
    ids = torch.cat([torch.nn.functional.pad(each, (longest - each.shape[1], 0)) for each in texts])
    return ids, (ids > 0).long()


def steps(model, ids, real, count=12, **options):
    out = model.generate(ids, attention_mask=real, max_new_tokens=count, **options, **GREEDY)
    return torch.stack(out.logits, 1)


@pytest.mark.parametrize("rotation", ROTATIONS.values(), ids=ROTATIONS)
@pytest.mark.parametrize("use_cache", [True, False])
def test_texts_of_a_batch_do_not_change_each_other(rotation, use_cache):
    """A fault of transformers: it takes the longest text of the batch for all."""
    long, short = text(40, 1), text(9, 2)
    ids, real = padded(long, short)
    alone = steps(llama(made(rotation)), short, torch.ones_like(short), use_cache=use_cache)
    same(steps(llama(made(rotation)), ids, real, use_cache=use_cache)[1:], alone)
    theirs = steps(made(rotation), short, torch.ones_like(short), use_cache=use_cache)
    assert float((steps(made(rotation), ids, real, use_cache=use_cache)[1:] - theirs).abs().max()) > 1e-4


def test_a_short_text_after_a_long_one_is_unaffected():
    """Two faults of transformers: a text shorter than a longer one before, and one of exactly the trained length."""
    for count in (40, 32):
        ours, theirs = llama(made(DYNAMIC)), made(DYNAMIC)
        before = logits(ours, text(count))
        same(before, logits(theirs, text(count)))
        for model in (ours, theirs):
            logits(model, text(100, 1))
        same(logits(ours, text(count)), before, atol=0)
        assert float((logits(theirs, text(count)) - before).abs().max()) > 1e-4


def test_their_cached_keys_have_the_frequencies_of_an_earlier_length():
    """A fault of transformers: with one layer, a cache must not change the logits."""
    theirs, ours = (made(DYNAMIC, num_hidden_layers=1) for _ in range(2))
    llama(ours)
    ids, real = text(30), torch.ones(1, 30, dtype=torch.long)
    with_cache, without = (steps(theirs, ids, real, use_cache=use) for use in (True, False))
    assert float((with_cache - without).abs().max()) > 1e-4
    same(*(steps(ours, ids, real, use_cache=use) for use in (True, False)))


def test_a_saved_model_has_the_rotation_of_its_configuration(tmp_path):
    ours = llama(made(DYNAMIC))
    wanted = logits(ours, text(60))
    ours.save_pretrained(tmp_path)
    again = transformers.AutoModelForCausalLM.from_pretrained(tmp_path).eval()
    same(logits(again, text(60)), wanted)
    same(logits(llama(again), text(60)), wanted)


def test_a_schedule_of_your_own_and_what_their_cache_cannot_do():
    def schedule(s):
        return dynamic_ntk(8, length=s, trained=32, factor=4.0, base=500.0)

    with pytest.warns(UserWarning, match=r"config\.json cannot hold this LengthRoPE"):
        ours = llama(made({"rope_type": "default", "rope_theta": 500.0}), LengthRoPE(16, schedule, pairing="half"))
    same(logits(ours, text(60)), logits(made(DYNAMIC), text(60)))
    with pytest.raises(ValueError, match=r"a cache of transformers cannot do\. Generate with use_cache=False, or"):
        ours.generate(text(12), max_new_tokens=3, **GREEDY)
    assert ours.generate(text(12), max_new_tokens=3, use_cache=False, **GREEDY).sequences.shape == (1, 15)


def test_a_configuration_without_a_length_gives_a_rotation_by_length():
    config = made(DYNAMIC).config
    rope = configured(config)
    assert (rope.exact, configured(config, length=64).exact) == ("keys", None)
    assert rope.rope(64).theta == configured(config, length=64).theta
