"""The libraries themselves, where they are installed: transformers' models and timm's ViTs, before and after."""

import math

import pytest
import torch

from posenc.adapt import learned_table, llama, vision_transformer
from posenc.frequencies import yarn
from posenc.positions import Positions, grid
from posenc.schemes.rope import RoPE
from posenc.schemes.sinusoid import Sinusoid

pytestmark = pytest.mark.oracles

SMALL = {
    "hidden_size": 64,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "num_hidden_layers": 2,
    "intermediate_size": 64,
    "vocab_size": 50,
    "max_position_embeddings": 64,
}
ROTATIONS = [
    {"rope_type": "default", "rope_theta": 500.0},
    {"rope_type": "linear", "rope_theta": 500.0, "factor": 4.0},
    {"rope_type": "dynamic", "rope_theta": 500.0, "factor": 4.0},
    {"rope_type": "llama3", "rope_theta": 500.0, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
     "original_max_position_embeddings": 32},
    {"rope_type": "yarn", "rope_theta": 500.0, "factor": 4.0, "original_max_position_embeddings": 16},
    {"rope_type": "yarn", "rope_theta": 500.0, "factor": 4.0, "original_max_position_embeddings": 16,
     "beta_fast": 8.0, "beta_slow": 2.0, "mscale": 2.0, "mscale_all_dim": 0.5},
    {"rope_type": "yarn", "rope_theta": 500.0, "factor": 4.0, "original_max_position_embeddings": 16, "truncate": False,
     "beta_fast": 4.0},
    {"rope_type": "proportional", "rope_theta": 500.0, "factor": 2.0, "partial_rotary_factor": 0.25},
    {"rope_type": "longrope", "rope_theta": 500.0, "short_factor": [1.0, 1.1, 1.2, 1.5, 2.0, 3.0, 4.0, 5.0],
     "long_factor": [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0], "original_max_position_embeddings": 16},
]  # fmt: skip


def logits(model, length):
    ids = (torch.arange(2 * length) * 7 % 50).view(2, length)
    with torch.no_grad():
        return model(ids).logits


@pytest.mark.parametrize("rotation", ROTATIONS, ids=lambda r: r["rope_type"])
@pytest.mark.parametrize("length", [12, 60, 100])
def test_a_llama_with_its_own_rotation_says_the_same(rotation, length):
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**SMALL, rope_parameters=rotation)).eval()
    before = logits(model, length)
    llama(model, length=length)
    torch.testing.assert_close(logits(model, length), before, atol=1e-5, rtol=0)


def generated(model, prompt, count=20):
    """The likeliest tokens and the logits that they were taken by, through transformers' own cache."""
    options = {"max_new_tokens": count, "do_sample": False, "pad_token_id": 0, "eos_token_id": None}
    out = model.generate(prompt, **options, output_logits=True, return_dict_in_generate=True)
    return out.sequences, torch.stack(out.logits, 1)


@pytest.mark.parametrize("rotation", ROTATIONS, ids=lambda r: r["rope_type"])
def test_generation_with_their_cache_says_the_same(rotation):
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**SMALL, rope_parameters=rotation)).eval()
    prompt = torch.arange(1, 21)[None]  # 0 is padding, which nobody sees
    before = generated(model, prompt)
    said, by = generated(llama(model, length=40), prompt)
    assert torch.equal(said, before[0])
    torch.testing.assert_close(by, before[1], atol=1e-5, rtol=0)
    torch.testing.assert_close(model(said).logits[:, 19:-1], by, atol=1e-5, rtol=0)


def test_cached_keys_stay_right_where_their_own_schedule_changes_under_them():
    """Beyond its training length a dynamic rotation turns new keys otherwise than those it has cached."""
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    rotation = {"rope_type": "dynamic", "rope_theta": 500.0, "factor": 4.0}
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**SMALL, rope_parameters=rotation)).eval()

    def stale(model):
        said, by = generated(model, torch.arange(60)[None] % 49 + 1)
        return float((model(said).logits[:, 59:-1] - by).detach().abs().max())

    assert stale(model) > 1e-4  # prefill and decoding differ
    assert stale(llama(model, length=80)) < 1e-5


def test_every_kind_of_rotation_that_the_library_has_is_read():
    utilities = pytest.importorskip("transformers.modeling_rope_utils")
    assert {rotation["rope_type"] for rotation in ROTATIONS} == {"default", *utilities.ROPE_INIT_FUNCTIONS}


def test_a_model_of_a_folder_is_stretched_as_the_library_stretches_it(tmp_path):
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    rotation = {"rope_type": "default", "rope_theta": 500.0}
    made = transformers.LlamaConfig(**SMALL, rope_parameters=rotation, bos_token_id=None, eos_token_id=None)
    transformers.LlamaForCausalLM(made).save_pretrained(tmp_path)

    def loaded(**options):
        return transformers.AutoModelForCausalLM.from_pretrained(tmp_path, **options).eval()

    before = logits(loaded(), 100)
    own = llama(loaded())
    torch.testing.assert_close(logits(own, 100), before, atol=1e-5, rtol=0)

    stretched = {"rope_type": "yarn", "rope_theta": 500.0, "factor": 4.0, "original_max_position_embeddings": 64}
    wanted = logits(loaded(rope_parameters=stretched), 100)
    frequencies = yarn(8, factor=4.0, trained=64, base=500.0, literal=True)
    longer = RoPE(16, frequencies=frequencies, pairing="half")
    torch.testing.assert_close(logits(llama(own, longer), 100), wanted, atol=1e-5, rtol=0)
    assert float((wanted - before).abs().max()) > 1e-3

    own.save_pretrained(tmp_path / "again")
    again = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "again").eval()
    torch.testing.assert_close(logits(again, 100), wanted, atol=1e-5, rtol=0)  # config.json has the schedule
    torch.testing.assert_close(logits(llama(again), 100), wanted, atol=1e-5, rtol=0)


HALVES = ("Llama", "Mistral", "Qwen2", "Qwen3", "Phi", "Phi3", "StableLm", "Granite", "Olmo2", "Gemma", "GPTNeoX")
PAIRS = ("Cohere", "Cohere2", "Glm", "Glm4", "Helium", "Ernie4_5")


@pytest.mark.parametrize("name", [*HALVES, *PAIRS])
def test_others_of_its_kind_whichever_channels_they_turn_together(name):
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    config = getattr(transformers, f"{name}Config")(**SMALL, head_dim=16, pad_token_id=0)
    model = getattr(transformers, f"{name}ForCausalLM")(config).eval()
    before = logits(model, 20)
    llama(model)
    torch.testing.assert_close(logits(model, 20), before, atol=1e-5, rtol=0)
    kinds = {module.kind.pairs for module in model.modules() if hasattr(module, "kind")}
    assert kinds == {"interleaved" if name in PAIRS else "half"}


@pytest.mark.parametrize(
    ("name", "options", "turning"),
    [
        ("GPTNeoX", {"rotary_pct": 0.5, "rotary_emb_base": 20}, 8),
        ("MiniMaxM2", {"rotary_dim": 8, "head_dim": 16, "num_local_experts": 2, "num_experts_per_tok": 1}, 8),
        ("Falcon", {"alibi": False, "num_kv_heads": 4}, 16),
        ("SmolLM3", {"no_rope_layers": [1, 0]}, 16),
    ],
)
def test_what_others_call_the_same(name, options, turning):
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    config = getattr(transformers, f"{name}Config")(**SMALL, **options, pad_token_id=0)
    model = getattr(transformers, f"{name}ForCausalLM")(config).eval()
    before = logits(model, 20)
    torch.testing.assert_close(logits(llama(model), 20), before, atol=1e-5, rtol=0)
    assert {module.turning for module in model.modules() if hasattr(module, "kind")} == {turning}


@pytest.mark.parametrize("rotation", ROTATIONS, ids=lambda r: r["rope_type"])
def test_interleaved_pairs_under_every_rotation(rotation):
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    config = transformers.CohereConfig(**SMALL, rope_parameters=rotation, pad_token_id=0)
    model = transformers.CohereForCausalLM(config).eval()
    before = logits(model, 60)
    torch.testing.assert_close(logits(llama(model, length=60), 60), before, atol=1e-5, rtol=0)


def test_the_old_spelling_and_generation_with_a_cache():
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    config = transformers.LlamaConfig(**SMALL, rope_theta=500.0, rope_scaling={"type": "linear", "factor": 2.0})
    model = transformers.LlamaForCausalLM(config).eval()
    ids = torch.arange(8)[None]
    options = {"max_new_tokens": 20, "do_sample": False, "pad_token_id": 0}
    before = model.generate(ids, **options)
    assert torch.equal(llama(model).generate(ids, **options), before)
    other = logits(llama(model, RoPE(16, base=20.0, pairing="half")), 20)
    config.rope_parameters = {"rope_type": "default", "rope_theta": 20.0}
    wanted = transformers.LlamaForCausalLM(config).eval()
    wanted.load_state_dict(model.state_dict())
    torch.testing.assert_close(other, logits(wanted, 20), atol=1e-5, rtol=0)


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("Gemma3Text", r"has a rotation for each of \w+, \w+; one for all is adapted here"),
        ("GPTJ", r"GPTJForCausalLM has no part called `rotary_emb`, so this is not a model of Llama's kind"),
    ],
)
def test_what_is_not_of_its_kind_is_refused(name, sentence):
    transformers = pytest.importorskip("transformers")
    small = {name: value for name, value in SMALL.items() if name != "vocab_size"}
    config = getattr(transformers, f"{name}Config")(**small, vocab_size=50)
    kind = {"Gemma3Text": "Gemma3ForCausalLM"}.get(name, f"{name}ForCausalLM")
    with pytest.raises(ValueError, match=sentence):
        llama(getattr(transformers, kind)(config))


@pytest.mark.parametrize(
    ("name", "options", "sentence"),
    [
        ("Llama", {"rope_ratio": 50}, r"has rope_ratio=50, a key that posenc does not support"),
        ("Llama", {"rotary_pct": 0.25}, r"rotates 16 channels by other angles than its configuration describes"),
        (
            "Falcon",
            {"alibi": True},
            r"has rotary=False, and .* has to be true where a model rotates queries and keys",
        ),
        (
            "GraniteSWA",
            {"layer_rope_theta": [1e4, 20.0]},
            r"has layer_rope_theta=\[.*, a key that posenc does not support",
        ),
    ],
)
def test_what_would_turn_otherwise_than_its_own_is_refused(name, options, sentence):
    transformers = pytest.importorskip("transformers")
    config = getattr(transformers, f"{name}Config")(**SMALL, **options, pad_token_id=0)
    with pytest.raises(ValueError, match=sentence):
        llama(getattr(transformers, f"{name}ForCausalLM")(config))


def test_a_model_that_does_not_ask_the_part_that_would_be_replaced_is_refused():
    transformers = pytest.importorskip("transformers")
    model = transformers.GraniteSWAForCausalLM(transformers.GraniteSWAConfig(**SMALL, pad_token_id=0))
    with pytest.raises(ValueError, match=r"also rotates by model\.rotary_embs\.0, besides its `rotary_emb`"):
        llama(model, RoPE(16, pairing="half"))


@pytest.mark.parametrize(
    "options", [{}, {"no_embed_class": True}, {"reg_tokens": 4}, {"class_token": False, "global_pool": "avg"}]
)
def test_a_vit_of_timm_adds_the_rows(timm, options):
    torch.manual_seed(0)
    model = timm.models.VisionTransformer(
        img_size=(32, 48), patch_size=16, embed_dim=24, depth=2, num_heads=2, num_classes=5, **options
    ).eval()
    scheme, picture = Sinusoid(24, axes=2), torch.randn(2, 3, 32, 48)
    prefix = model.pos_embed.shape[1] - 6
    pos = grid(2, 3)
    coords = torch.cat([pos.coords.new_zeros(prefix, 2), pos.coords])
    rows = scheme.embed(scheme.prepare(Positions(coords, torch.arange(len(coords)) >= prefix)))
    with torch.no_grad():
        model.pos_embed.copy_(rows)
        wanted = model(picture)
        model.pos_embed.normal_()
        torch.testing.assert_close(vision_transformer(model, scheme)(picture), wanted)


@pytest.mark.parametrize("options", [{}, {"no_embed_class": True}, {"reg_tokens": 4}])
def test_a_vit_of_timm_gets_another_image_size(timm, options):
    torch.manual_seed(0)
    sizes = {"patch_size": 16, "embed_dim": 24, "depth": 2, "num_heads": 2, "num_classes": 5}
    for before, after in (((64, 48), (96, 80)), ((96, 64), (48, 32)), ((64, 48), (48, 64))):
        ours, theirs = (timm.models.VisionTransformer(img_size=before, **sizes, **options).eval() for _ in range(2))
        theirs.load_state_dict(ours.state_dict())
        own, (rows, columns) = ours.pos_embed.detach().clone(), (side // 16 for side in before)
        vision_transformer(ours, image=after)
        picture = torch.randn(2, 3, *after)
        if math.prod(before) != math.prod(after):  # else timm keeps the table for another grid, its issue 2737
            theirs.set_input_size(img_size=after)
            torch.testing.assert_close(ours(picture), theirs(picture), atol=1e-5, rtol=0)
        prefix = own.shape[1] - rows * columns
        plain = own[:, prefix:].unflatten(1, (rows, columns)).permute(0, 3, 1, 2)
        wanted = torch.nn.functional.interpolate(
            plain, [side // 16 for side in after], mode="bicubic", antialias=True, align_corners=False
        )
        found = ours.pos_embed.detach()
        torch.testing.assert_close(found[:, prefix:], wanted.flatten(2).mT, atol=1e-6, rtol=0)
        assert torch.equal(found[:, :prefix], own[:, :prefix])
        vision_transformer(ours, Sinusoid(24, axes=2), image=before)
        first = ours(torch.randn(1, 3, *before))
        vision_transformer(ours, image=after)  # rows of the scheme for the new grid
        assert (first.shape, ours(picture).shape, ours.pos_embed.shape) == ((1, 5), (2, 5), found.shape)


@torch.no_grad()
def test_positions_that_were_given_stay_with_a_vit_of_timm(timm):
    """Another image size took the grid in their place, and a state of other positions was loaded."""

    def made(pos=None):
        torch.manual_seed(0)
        model = timm.models.VisionTransformer(img_size=32, patch_size=8, embed_dim=24, depth=1, num_heads=2).eval()
        return vision_transformer(model, Sinusoid(24, axes=2), pos=pos)

    near = grid(4, 4).coords * 0.25
    model, picture = made(near), torch.randn(2, 3, 32, 32)
    assert not torch.allclose(model(picture), made()(picture), atol=1e-3)
    with pytest.raises(
        ValueError, match=r"needs them too: vision_transformer\(model, image=48, pos=\.\.\) with 36 pos"
    ):
        vision_transformer(model, image=48)
    again = made(near * 2)
    again.load_state_dict(model.state_dict())
    assert torch.equal(again(picture), model(picture))
    with pytest.raises(RuntimeError, match="coords"):
        made().load_state_dict(model.state_dict())
    before = model.pos_embed
    assert torch.equal(vision_transformer(model, model.parametrizations.pos_embed[0].scheme).pos_embed, before)
    far = made(torch.arange(32).view(16, 2) * 37 / 7)
    exact = far.pos_embed
    torch.testing.assert_close(far.bfloat16().pos_embed.float(), exact, atol=4e-3, rtol=0)
    vision_transformer(model, image=48, pos=grid(6, 6).coords * 0.25)
    assert model(torch.randn(1, 3, 48, 48)).shape == (1, 1000)
    with pytest.raises(
        ValueError, match=r"Sinusoid makes the position table of this model\. Call posenc\.adapt\.vision"
    ):
        model.set_input_size(img_size=64)
    assert model(torch.randn(1, 3, 48, 48)).shape == (1, 1000)


@torch.no_grad()
def test_tables_of_other_kinds_of_timm_are_refused(timm):
    """A row of the patches was left out where the class token joins later, as in CaiT."""
    cait = timm.create_model("cait_xxs24_224", depth=1, embed_dim=48, num_heads=2, img_size=64).eval()
    stages = timm.create_model("pit_ti_224").eval()  # its table is a picture (1, width, rows, columns)
    for model in (cait, stages):
        with pytest.raises(ValueError, match=r"the `pos_embed` of \w+ has the shape|has no position table"):
            learned_table(model)


def test_image_sizes_that_a_vit_cannot_have(timm):
    model = timm.models.VisionTransformer(img_size=32, patch_size=16, embed_dim=24, depth=1, num_heads=2)
    for image, sentence in ((40, r"patches of 16 x 16 pixels; got image=40\. Take image=32"), (0, "Take image=16")):
        with pytest.raises(ValueError, match=sentence):
            vision_transformer(model, image=image)
    with pytest.raises(ValueError, match="a scheme, an image size or both"):
        vision_transformer(model)
    for image in ((32,), (32, 32, 32)):
        with pytest.raises(ValueError, match=r"a number of pixels or \(height, width\)"):
            vision_transformer(model, image=image)
    with pytest.raises(ValueError, match="`pos` are the positions that a scheme reads"):
        vision_transformer(model, image=64, pos=grid(4, 4))
    assert torch.equal(learned_table(model).table, model.pos_embed[0, 1:])
    assert model(torch.randn(1, 3, 32, 32)).shape == (1, 1000)
