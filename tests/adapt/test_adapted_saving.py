"""Files and pickles of adapted models that no other program may read as another model; attention weights; refusals."""

import copy
import json
import subprocess
import sys

import pytest
import torch

from posenc.adapt import Attention, configured, llama, multihead, saved_class
from posenc.frequencies import proportional, yarn
from posenc.schemes.alibi import ALiBi
from posenc.schemes.nope import NoPE
from posenc.schemes.rope import RoPE
from posenc.schemes.sliding_window import SlidingWindow
from posenc.schemes.sum import Sum
from posenc.schemes.t5_bias import T5Bias
from posenc.schemes.temperature import Temperature

pytestmark = [pytest.mark.oracles, pytest.mark.bare]
transformers = pytest.importorskip("transformers")

SIZES = {
    "hidden_size": 64, "num_attention_heads": 4, "num_key_value_heads": 2, "num_hidden_layers": 2, "vocab_size": 50,
    "intermediate_size": 64, "max_position_embeddings": 64, "bos_token_id": None, "eos_token_id": None,
}  # fmt: skip
IDS = torch.arange(24).view(2, 12)


class Steep(ALiBi):
    """A scheme of one's own, which config.json cannot hold."""

    def __init__(self, heads, factor=1.0):
        super().__init__(heads, slopes=[factor * 2.0**-head for head in range(heads)])


class Picky(transformers.LlamaConfig):
    """A configuration that no file describes."""

    @classmethod
    def from_dict(cls, config_dict, **named):
        raise TypeError("not from a file")


def made(attention=None, **sizes):
    torch.manual_seed(0)
    named = {} if attention is None else {"attn_implementation": attention}
    return transformers.LlamaForCausalLM._from_config(transformers.LlamaConfig(**SIZES | sizes), **named).eval()


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


def cohere():
    torch.manual_seed(0)
    config = transformers.CohereConfig(**SIZES, pad_token_id=0)
    return transformers.CohereForCausalLM._from_config(config).eval()


def test_a_model_of_other_pairs_goes_back_to_its_rotation(tmp_path):
    """Cohere rotates channels 2i and 2i + 1; the module of schemes rotates none, so pairs cannot be measured by it."""
    before = logits(cohere())
    model = llama(cohere(), ALiBi(4))
    model.save_pretrained(tmp_path)
    for each in (model, saved_class(tmp_path).from_pretrained(tmp_path).eval()):
        torch.testing.assert_close(logits(llama(each)), before, atol=1e-5, rtol=0)
    base = float(cohere().config.rope_parameters["rope_theta"])
    torch.testing.assert_close(logits(llama(llama(cohere(), ALiBi(4)), RoPE(16, base=base))), before, atol=1e-5, rtol=0)
    with pytest.warns(
        UserWarning, match=r'Sum\(\[configured\(model\.config, pairing="interleaved"\), SlidingWindow\('
    ) as said:
        llama(cohere(), SlidingWindow(4096))
    assert len(said) == 1
    config = cohere().config
    kept = Sum([configured(config, pairing="interleaved"), SlidingWindow(4096)])
    torch.testing.assert_close(logits(llama(cohere(), kept)), before, atol=1e-5, rtol=0)


@pytest.mark.parametrize(
    "scheme", [Sum([RoPE(16), SlidingWindow(4096)]), lambda layer: RoPE(16)], ids=["sum", "layers"]
)
def test_parts_that_rotate_other_pairs_warn(scheme):
    with pytest.warns(UserWarning, match=r'rotates other pairs of channels than this model.*pairing="half"'):
        llama(made(), scheme)


def within(model):
    class Own(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = model

    return Own()


@pytest.mark.parametrize("wrap", [torch.nn.DataParallel, within, lambda model: torch.compile(model, backend="eager")])
@pytest.mark.parametrize("scheme", [ALiBi(4), RoPE(16, pairing="half", base=500.0)], ids=["alibi", "rope"])
def test_a_wrapped_model_is_adapted_and_saved_as_the_model_inside(wrap, scheme, tmp_path):
    model = made()
    wrapped = wrap(model)
    assert llama(wrapped, scheme) is wrapped
    model.save_pretrained(tmp_path)
    kind = saved_class(tmp_path) if isinstance(scheme, ALiBi) else transformers.LlamaForCausalLM
    torch.testing.assert_close(logits(kind.from_pretrained(tmp_path).eval()), logits(model), atol=1e-6, rtol=0)
    torch.testing.assert_close(logits(model), logits(llama(made(), scheme)), atol=1e-6, rtol=0)
    assert not torch.equal(logits(model), logits(made()))


def test_a_part_of_a_model_is_adapted_and_the_whole_is_saved(tmp_path):
    model = made()
    llama(model.model, ALiBi(4))
    model.save_pretrained(tmp_path)
    again = saved_class(tmp_path).from_pretrained(tmp_path).eval()
    torch.testing.assert_close(logits(again), logits(model), atol=1e-6, rtol=0)
    assert not torch.equal(logits(model), logits(made()))


def test_a_family_whose_configuration_needs_its_share_of_channels_is_saved(tmp_path):
    torch.manual_seed(0)
    sizes = {**SIZES, "pad_token_id": 0}
    model = transformers.Phi3ForCausalLM._from_config(transformers.Phi3Config(**sizes)).eval()
    llama(model, RoPE(16, pairing="half", base=500.0)).save_pretrained(tmp_path)
    again = transformers.Phi3ForCausalLM.from_pretrained(tmp_path).eval()
    torch.testing.assert_close(logits(again), logits(model), atol=1e-6, rtol=0)


def test_a_scheme_of_another_class_is_refused_for_a_saved_model(tmp_path):
    with pytest.warns(UserWarning, match=r"scheme=lambda layer: \.\.\)"):
        model = llama(made(), lambda layer: ALiBi(4) if layer else Steep(4))
    model.save_pretrained(tmp_path)
    with pytest.raises(ValueError, match=r"saved_class\(path, scheme=lambda layer: \.\.\)"):
        saved_class(tmp_path)
    with pytest.raises(
        ValueError, match=r"layer 1 of this model was saved with ALiBi; got RoPE\. Pass the scheme that"
    ):
        saved_class(tmp_path, scheme=lambda layer: RoPE(16) if layer else Steep(4)).from_pretrained(tmp_path)


def test_a_scheme_of_your_own_with_other_arguments_is_refused_for_a_saved_model(tmp_path):
    with pytest.warns(UserWarning, match=r"config\.json cannot hold this Steep"):
        model = llama(made(), Steep(4, factor=2.0))
    model.save_pretrained(tmp_path)
    with pytest.raises(
        ValueError, match=r"saved with Steep\(heads=4, factor=2\.0\); got Steep\(heads=4, factor=1\.0\)"
    ):
        saved_class(tmp_path, scheme=Steep(4)).from_pretrained(tmp_path)
    again = saved_class(tmp_path, scheme=Steep(factor=2.0, heads=4)).from_pretrained(tmp_path).eval()
    torch.testing.assert_close(logits(again), logits(model), atol=1e-6, rtol=0)


@pytest.mark.parametrize("width", [16, 64])  # 64 channels have more numbers than a command may have letters
def test_yarn_within_a_sum_and_a_recipe_is_saved(width, tmp_path):
    rope = RoPE(width, pairing="half", frequencies=yarn(width // 2, factor=4.0, trained=2048))
    for number, scheme in enumerate((Sum([rope, SlidingWindow(4)]), lambda layer: NoPE() if layer else rope)):
        model = llama(made(head_dim=width), scheme)
        model.save_pretrained(tmp_path / str(number))
        again = saved_class(tmp_path / str(number)).from_pretrained(tmp_path / str(number)).eval()
        torch.testing.assert_close(logits(again), logits(model), atol=1e-6, rtol=0)


def test_a_class_that_wants_further_numbers_of_a_rotation_gets_them(tmp_path):
    config = transformers.PhimoeConfig(**SIZES, num_local_experts=2)
    model = transformers.PhimoeForCausalLM(config).eval()
    llama(model, RoPE(16, pairing="half", frequencies=yarn(8, factor=4.0, trained=2048))).save_pretrained(tmp_path)
    again = transformers.PhimoeForCausalLM.from_pretrained(tmp_path).eval()
    torch.testing.assert_close(logits(again), logits(model), atol=1e-5, rtol=0)


def test_a_configuration_that_no_file_may_hold_is_left_with_a_warning():
    model = made()
    model.config.__class__ = Picky
    with pytest.warns(UserWarning, match="cannot describe its new RoPE"):
        llama(model, RoPE(16, pairing="half", base=500.0))
    assert model.config.rope_parameters["rope_theta"] == 10000.0


def test_a_plain_class_of_an_adapted_configuration_does_not_go_without_its_schemes():
    config = llama(made(), ALiBi(4)).config
    with pytest.raises(ValueError, match=r"from the configuration of a model with schemes, and has none"):
        logits(transformers.LlamaForCausalLM(config))
    assert logits(transformers.AutoModelForCausalLM.from_config(config)).isfinite().all()
    assert logits(llama(transformers.LlamaForCausalLM(config), ALiBi(4))).isfinite().all()


@torch.no_grad()
def test_a_cache_of_other_schemes_is_refused():
    model = llama(made(), ALiBi(4))
    cache = model(IDS, use_cache=True).past_key_values
    copied = copy.deepcopy(cache)
    wanted = model(IDS[:, :1], past_key_values=copy.deepcopy(cache)).logits
    assert torch.equal(model(IDS[:, :1], past_key_values=copied).logits, wanted)
    for scheme in (T5Bias(4), Sum([RoPE(16, pairing="half"), SlidingWindow(4)]), RoPE(16, pairing="half")):
        with pytest.raises(ValueError, match=r"this cache holds keys of ALiBi\(heads=4, slopes=None\)"):
            llama(model, scheme)(IDS[:, :1], past_key_values=cache)
    cache.reset()
    plain = model(IDS, past_key_values=transformers.DynamicCache()).past_key_values
    with pytest.raises(ValueError, match=r"holds keys of other schemes, and the model has ALiBi"):
        llama(model, ALiBi(4))(IDS[:, :1], past_key_values=plain)


@pytest.mark.parametrize("path", [None, "/no/such/folder"])
def test_what_is_no_folder_is_one_sentence(path):
    with pytest.raises(ValueError, match="is no folder of a saved model"):
        saved_class(path)


def test_schemes_of_encoder_layers_are_checked_and_replaced():
    torch.manual_seed(0)
    layer = torch.nn.TransformerEncoderLayer(16, 4, 32, batch_first=True)
    encoder = torch.nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).eval()
    x = torch.randn(1, 5, 16)
    with pytest.raises(ValueError, match=r"this ALiBi is built for 8 heads, and the module has 4"):
        multihead(encoder, ALiBi(8))
    before = multihead(encoder, NoPE())(x)
    changed = multihead(encoder, ALiBi(4))(x)
    assert not torch.allclose(before, changed)
    torch.testing.assert_close(multihead(encoder, NoPE())(x), before)
    with pytest.raises(ValueError, match=r"takes a scheme such as NoPE\(\) or RoPE\(64\); got the class RoPE"):
        Attention(torch.nn.MultiheadAttention(16, 4), RoPE)
