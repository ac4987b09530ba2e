"""Files and pickles of adapted models that no other program may read as another model; attention weights; refusals."""

import copy
import json
import subprocess
import sys

import pytest
import torch

from posenc.adapt import configured, llama, saved_class
from posenc.frequencies import proportional
from posenc.schemes.alibi import ALiBi
from posenc.schemes.nope import NoPE
from posenc.schemes.rope import RoPE
from posenc.schemes.sliding_window import SlidingWindow
from posenc.schemes.sum import Sum
from posenc.schemes.temperature import Temperature

pytestmark = [pytest.mark.oracles, pytest.mark.bare]
transformers = pytest.importorskip("transformers")

SIZES = {
    "hidden_size": 64, "num_attention_heads": 4, "num_key_value_heads": 2, "num_hidden_layers": 2, "vocab_size": 50,
    "intermediate_size": 64, "max_position_embeddings": 64, "bos_token_id": None, "eos_token_id": None,
}  # fmt: skip
IDS = torch.arange(24).view(2, 12)


def made(attention=None):
    torch.manual_seed(0)
    named = {} if attention is None else {"attn_implementation": attention}
    return transformers.LlamaForCausalLM._from_config(transformers.LlamaConfig(**SIZES), **named).eval()


def logits(model):
    with torch.no_grad():
        return model(IDS, use_cache=False).logits


def still(pairing):
    """p-RoPE: most pairs of channels do not rotate."""
    return RoPE(16, frequencies=proportional(8, share=0.25), pairing=pairing)


@pytest.mark.parametrize("scheme", [NoPE(), still("half"), ALiBi(4)], ids=["none", "p-rope", "alibi"])
def test_what_a_configuration_cannot_describe_is_saved_and_loads_by_posenc_alone(scheme, tmp_path):
    model = llama(made(), scheme)
    assert not torch.equal(logits(model), logits(made()))
    model.save_pretrained(tmp_path)
    with pytest.raises(KeyError, match=r"load this model by posenc\.adapt\.saved_class\(path\)"):
        transformers.LlamaForCausalLM.from_pretrained(tmp_path)
    again = saved_class(tmp_path).from_pretrained(tmp_path).eval()
    torch.testing.assert_close(logits(again), logits(model), atol=1e-6, rtol=0)
    assert again.config.rope_parameters == made().config.rope_parameters
    assert again.config.posenc == model.config.posenc
    llama(again, RoPE(16, pairing="half")).save_pretrained(tmp_path)
    torch.testing.assert_close(logits(transformers.LlamaForCausalLM.from_pretrained(tmp_path)), logits(made()))


def test_a_rotation_of_other_pairs_is_refused_also_where_some_stand_still():
    with pytest.raises(ValueError, match="rotates channels i and i"):
        llama(made(), still("interleaved"))


def test_a_folder_whose_rotation_is_that_of_the_model_loads(tmp_path):
    """Folders that were saved before rotations were made unreadable."""
    model = llama(made(), ALiBi(4))
    model.save_pretrained(tmp_path)
    file = tmp_path / "config.json"
    config = json.loads(file.read_text())
    config["rope_parameters"] = config["posenc"].pop("rope_parameters")
    file.write_text(json.dumps(config))
    torch.testing.assert_close(logits(saved_class(tmp_path).from_pretrained(tmp_path).eval()), logits(model))


def test_a_configuration_as_text_is_read_back():
    config = llama(made(), ALiBi(4)).config
    again = type(config).from_dict(json.loads(config.to_json_string()))
    assert (again.rope_parameters, again.posenc) == (config.rope_parameters, config.posenc)
    assert copy.deepcopy(config).posenc == config.posenc


def test_a_pickle_loads_in_another_process(tmp_path):
    model = llama(made(), ALiBi(4))
    torch.save({"model": model, "ids": IDS, "logits": logits(model)}, tmp_path / "model.pt")
    code = (
        "import sys, torch\n"
        "held = torch.load(sys.argv[1], weights_only=False)\n"
        "found = held['model'](held['ids'], use_cache=False).logits\n"
        "assert (found - held['logits']).abs().max() < 1e-6\n"
        "assert held['model'].config.posenc['texts'] == ['ALiBi(heads=4)']\n"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "model.pt")], check=True, timeout=300)


def test_attention_weights_are_returned_on_request():
    rope, plain = llama(made(), lambda layer: RoPE(16, pairing="half")), made("eager")
    with torch.no_grad():
        ours, theirs = (model(IDS, output_attentions=True).attentions for model in (rope, plain))
        found = llama(made(), ALiBi(4))(IDS, output_attentions=True)
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a, b, atol=1e-6, rtol=0)
    assert [tuple(each.shape) for each in found.attentions] == [(2, 4, 12, 12)] * 2
    torch.testing.assert_close(found.attentions[0].sum(-1), torch.ones(2, 4, 12))
    assert bool((found.attentions[0].triu(1) == 0).all())
    torch.testing.assert_close(found.logits, logits(llama(made(), ALiBi(4))), atol=1e-5, rtol=0)


@pytest.mark.parametrize(
    ("scheme", "sentence"),
    [
        (RoPE, r"takes schemes and not their classes; got the class RoPE\. Write RoPE\(\.\.\) with its arguments"),
        ("rope", r"takes schemes, or functions of a layer's number that make one; got 'rope'"),
        (lambda layer: None, r"layer 0 got None\. Return NoPE\(\) for a layer without positions"),
    ],
)
def test_what_is_no_scheme_is_one_sentence(scheme, sentence):
    model = made()
    with pytest.raises(ValueError, match=sentence):
        llama(model, scheme)
    assert type(model) is transformers.LlamaForCausalLM


@pytest.mark.parametrize("scheme", [Temperature(8.0), SlidingWindow(4)], ids=["temperature", "window"])
def test_a_scheme_without_an_order_warns_that_the_rotation_is_gone(scheme):
    with pytest.warns(UserWarning, match=r"replaces the rotation of this model.*Sum\(\[configured\(model\.config\), "):
        llama(made(), scheme)
    model = made()
    llama(model, Sum([configured(model.config), scheme]))  # warnings are errors
    llama(made(), lambda layer: NoPE() if layer else scheme)
