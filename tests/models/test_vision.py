"""ViT and PVT: sizes of the papers, what a class token is, what moves with the picture, and what is refused."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
import torch
from torch import Tensor
from torch.nn import functional

from posenc.adapt import swap
from posenc.lookup.scheme_text import parse
from posenc.measure.attention_maps import attention_maps
from posenc.measure.attention_reach import attention_reach
from posenc.models import pvt as of_pvt
from posenc.models import vit as of_vit
from posenc.models.pretrained import load_weights
from posenc.models.pvt import pvt
from posenc.models.sites import at_sites
from posenc.models.vision import VisionConfig, VisionTransformer
from posenc.models.vision_stage import Options, StageConfig
from posenc.models.vit import vit
from posenc.schemes.axial_rope import AxialRoPE
from posenc.schemes.concat import Concat
from posenc.schemes.grid_pe import GridPE
from posenc.schemes.learned import Learned
from posenc.schemes.nope import NoPE
from posenc.schemes.scaled import Scaled
from posenc.schemes.sinusoid import Sinusoid
from posenc.schemes.sum import Sum
from posenc.schemes.swin_bias import SwinBias

TABLES = Options(patches="normed", tables=True)


def build(config: VisionConfig, text: str = "NoPE", **how: Any) -> VisionTransformer:
    torch.manual_seed(0)
    return VisionTransformer(config, at_sites(parse(text), config.sites, **how))


def small(**changes: Any) -> VisionConfig:
    given = {"classes": 3, "image": (16, 24), "channels": 1} | changes
    return vit("quick", **given)


def micro(**changes: Any) -> VisionConfig:
    return pvt("micro", **({"classes": 3, "image": 32, "channels": 1} | changes))


def pictures(config: VisionConfig, count: int = 2) -> Tensor:
    return torch.randn(count, config.channels, *config.image, generator=torch.Generator().manual_seed(3))


@pytest.mark.parametrize(
    ("config", "parameters"),
    [
        (pvt("tiny", classes=1000, options=TABLES), 13.2e6),
        (pvt("small", classes=1000, options=TABLES), 24.5e6),
        (pvt("medium", classes=1000, options=TABLES), 44.2e6),
        (pvt("large", classes=1000, options=TABLES), 61.4e6),
        (vit("tiny", classes=1000, options=Options(tables=True)), 5.7e6),
        (vit("small", classes=1000, options=Options(tables=True)), 22.05e6),
        (vit("base", classes=1000, options=Options(tables=True)), 86.6e6),
    ],
)
def test_sizes_are_those_of_the_papers(config, parameters):
    with torch.device("meta"):
        model = VisionTransformer(config, lambda layer: NoPE())
    assert sum(p.numel() for p in model.parameters()) == pytest.approx(parameters, abs=0.05e6)


def test_pyramids_have_tables_without_the_row_of_the_class_token():
    with torch.device("meta"):
        model = VisionTransformer(pvt("tiny", classes=1000, options=TABLES), lambda layer: NoPE())
    assert (
        sum(p.numel() for p in model.parameters()) == 13_229_288 - 512
    )  # that of timm's former pvt_tiny, less the row
    assert [stage.table.table.shape[0] for stage in model._stages] == [3136, 784, 196, 49]


def test_a_class_token_has_no_place():
    model = build(small(), "Learned")
    model.stages[0].schemes[0].table.data.fill_(100.0)
    seen: list[Tensor] = []
    model.stages[0].blocks[0].register_forward_pre_hook(lambda block, given: seen.append(given[0]))
    model(pictures(model.config))
    torch.testing.assert_close(seen[0][:, 0], model.stages[0].class_token.expand(2, -1))
    assert bool((seen[0][:, 1:] > 50).all())


def test_without_positions_patches_have_no_order():
    x = pictures(small())
    patches = x.unflatten(3, (6, 4)).unflatten(2, (4, 4)).permute(0, 1, 2, 4, 3, 5).flatten(2, 3)  # (B, 1, 24, 4, 4)
    mixed = patches[:, :, torch.randperm(24)].unflatten(2, (4, 6)).permute(0, 1, 2, 4, 3, 5).flatten(2, 3).flatten(3)
    for read_out in ("class", "mean"):
        model = build(small(read_out=read_out))
        torch.testing.assert_close(model(mixed), model(x), atol=1e-5, rtol=1e-4)
        model = build(small(read_out=read_out), "Sinusoid")
        assert not torch.allclose(model(mixed), model(x), atol=1e-3)


@pytest.mark.parametrize("text", ["NoPE", "AxialRoPE", "GridComplex", "SwinBias", "Shaw"])
def test_attention_maps_are_the_weights_of_the_forward_pass(text):
    model, x = build(small(), text), pictures(small())
    stage = model.stages[0]
    maps = attention_maps(model, x)
    assert maps.shape == (4, 2, 2, 25, 25)
    torch.testing.assert_close(maps.sum(-1), torch.ones(4, 2, 2, 25))
    z = stage._tokens(x)
    for weights, block in zip(maps, stage.blocks, strict=True):
        at = stage._placed(stage.schemes[stage.scheme_of[list(stage.blocks).index(block)]], (4, 6), 24, x.device)
        v = block.qkv(block.norm1(z))[..., 128:].unflatten(-1, (2, 32)).transpose(1, 2)
        extra = at.scheme.value_bias(weights, at.pair)
        a = weights @ v if extra is None else weights @ v + extra
        u = z + block.out(a.transpose(1, 2).flatten(2))
        z = u + block.down(functional.gelu(block.up(block.norm2(u))))
    torch.testing.assert_close(model(x), model.head(model.norm(z[:, 0])), atol=1e-5, rtol=1e-4)
    rows = attention_reach(maps, stage.positions(NoPE(), (4, 6), 24, x.device))
    assert len(rows) == 4 * 3
    assert all(0 < row["distance"] < 6 and 0 < row["entropy"] < 4.65 for row in rows)


def test_reduced_keys_are_turned_at_the_centres_of_their_cells():
    model, x = build(micro(), "AxialRoPE").double(), pictures(micro()).double()
    stage = model.stages[0]
    block, scheme = stage.blocks[0], stage.schemes[0]
    assert isinstance(scheme, AxialRoPE)
    z = block.norm1(stage._tokens(x))
    seen = block.reduce_norm(block.reduce(z.mT.unflatten(-1, (16, 16))).flatten(2).mT)
    q, k = block.qkv(z)[0, :, :32], block.qkv(seen)[0, :, 32:64]
    assert k.shape == (4, 32)
    for n, (row, column) in ((0, (0, 0)), (37, (2, 5)), (255, (15, 15))):
        turned = scheme.define_transform(q[n], torch.tensor([row, column]).double(), "q", 0)
        logits = []
        for j, centre in enumerate([(3.5, 3.5), (3.5, 11.5), (11.5, 3.5), (11.5, 11.5)]):
            logits.append(turned @ scheme.define_transform(k[j], torch.tensor(centre).double(), "k", 0))
        wanted = (torch.stack(logits) / 32**0.5).softmax(0)
        torch.testing.assert_close(model.attention_maps(x, stage=0)[0, 0, 0, n], wanted, atol=1e-6, rtol=0)
    assert [model.attention_maps(x, stage=n).shape[-2:] for n in range(4)] == [(256, 4), (64, 4), (16, 4), (5, 5)]


def test_a_conditional_pyramid_has_neither_table_nor_class_token():
    model = build(micro(read_out="mean"), "PEG")
    assert not [name for name, _ in model.named_parameters() if "table" in name or "class_token" in name]
    assert sum("weight" in name and "schemes" in name for name, _ in model.named_parameters()) == 4
    model(pictures(model.config)).sum().backward()


# as the authors ran it --------------------------------------------------------------------------------------------


def plain_literal_vit(model: VisionTransformer, x: Tensor, rows: Tensor) -> Tensor:
    """Attention without a norm, feed-forward with one, as the formulas stand."""
    stage = model.stages[0]
    cut = x.reshape(len(x), 3, 2, 16, 3, 16).permute(0, 2, 4, 3, 5, 1).reshape(len(x), 6, -1)  # (p1 p2 c)
    z = stage.after_patches(functional.linear(stage.before_patches(cut), stage.patches.weight, stage.patches.bias))
    z = torch.cat([stage.class_token.expand(len(x), 1, -1), z], 1) + rows
    for block in stage.blocks:
        q, k, v = (t.unflatten(-1, (8, 32)).transpose(1, 2) for t in (z @ block.qkv.weight.T).chunk(3, -1))
        weights = (q @ k.mT / 32**0.5).softmax(-1)
        z = z + block.out((weights @ v).transpose(1, 2).flatten(2))
        z = z + block.down(functional.gelu(block.up(block.norm2(z))))
    return model.head(model.norm(z)[:, 0])


def test_the_literal_vit_is_its_formulas():
    config = vit("gridpe", classes=5, image=(32, 48), options=msgspec.structs.replace(of_vit.LITERAL, tables=True))
    model = build(config)
    assert model.stages[0].table.table.shape == (7, 256)  # the class token has a row
    assert model.stages[0].table.table.std() > 0.9
    assert model.stages[0].blocks[0].qkv.bias is None
    x = pictures(config)
    torch.testing.assert_close(model(x), plain_literal_vit(model, x, model.stages[0].table.table), atol=1e-5, rtol=1e-4)
    assert vit("gridpe", classes=5, literal=True).options == of_vit.LITERAL


def test_what_the_literal_merge_adds_stays_in_the_residual():
    config = vit("gridpe", classes=5, image=(32, 48), literal=True)
    model = build(config, "GridMerge(literal='frozen')")
    seen: list[tuple[Tensor, ...]] = []
    model.stages[0].blocks[0].register_forward_pre_hook(lambda block, given: seen.append(given))
    x = pictures(config)
    model(x)
    scheme = model.stages[0].schemes[0]
    rows = scheme.embed(scheme.prepare(model.stages[0].positions(scheme, (2, 3), 48, x.device)))
    torch.testing.assert_close(seen[0][0], model.stages[0]._tokens(x) + rows)
    assert seen[0][3] is None


def test_the_literal_pyramid_adds_rows_to_what_attention_reads_alone():
    config = micro(literal=True)
    model = build(config, "Sinusoid", first_only=True)
    assert config.options == of_pvt.LITERAL
    assert [stage.table.table.shape[0] for stage in model._stages] == [256, 64, 16, 5]
    seen: list[tuple[Tensor, ...]] = []
    model.stages[0].blocks[0].register_forward_pre_hook(lambda block, given: seen.append(given))
    model(pictures(config))
    z, at, _, rows = seen[0]
    torch.testing.assert_close(rows, at.scheme.embed(at.queries))
    assert not torch.allclose(z[:, :2], model.stages[0].table.table[:2] + rows[:2], atol=0.1)
    assert at.keys is at.queries  # nothing in it asks where keys stand


# another size of picture ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["GridPE", "AxialRoPE", "Sinusoid", "PEG", "NoPE", "ALiBi"])
def test_positions_move_with_the_picture(text):
    model = build(small(image=28), text)
    for side in (20, 28, 64):
        assert model(torch.randn(1, 1, side, side + 8)).shape == (1, 3)
        torch.testing.assert_close(
            model.resized((side, side))(torch.ones(1, 1, side, side)), model(torch.ones(1, 1, side, side))
        )


def test_tables_are_resized_and_nothing_else():
    model = build(small(image=28), "Learned(sigma=0.02)")
    with pytest.raises(ValueError, match=r"Learned starts at 0 and stops at 48; position 80 was asked for"):
        model(torch.randn(1, 1, 36, 36))
    larger = model.resized((36, 36))
    own, other = model.stages[0].schemes[0], larger.stages[0].schemes[0]
    assert isinstance(own, Learned)
    torch.testing.assert_close(other.table, own.resized((7, 7), (9, 9)).table)
    assert larger(torch.randn(1, 1, 36, 36)).shape == (1, 3)
    assert larger.config.image == (36, 36)
    assert model.config.image == (28, 28)
    assert torch.equal(larger.stages[0].blocks[0].qkv.weight, model.stages[0].blocks[0].qkv.weight)
    assert larger.stages[0].blocks[0].qkv.weight is not model.stages[0].blocks[0].qkv.weight
    x = torch.randn(1, 1, 28, 28)
    assert torch.equal(larger.resized((28, 28)).stages[0].blocks[0].up.weight, model.stages[0].blocks[0].up.weight)
    torch.testing.assert_close(model.resized((28, 28))(x), model(x))


def test_pyramids_and_windows_are_resized():
    model = build(micro(options=TABLES), "GridPE")
    larger = model.resized((64, 64))
    assert [stage.table.table.shape[0] for stage in larger._stages] == [1024, 256, 64, 16]
    assert larger(torch.randn(1, 1, 64, 64)).shape == (1, 3)
    windows = build(small(image=28), "LogCPB").resized((40, 28))
    assert windows(torch.randn(1, 1, 40, 28)).shape == (1, 3)


def test_swapping_schemes_leaves_the_other_weights():
    model = build(small(), "GridPE")
    weight = model.stages[0].blocks[0].qkv.weight.clone()
    swap(model, AxialRoPE(32))
    assert torch.equal(model.stages[0].blocks[0].qkv.weight, weight)
    torch.testing.assert_close(model(pictures(small())), build(small(), "AxialRoPE")(pictures(small())))


def test_a_state_is_loaded_again():
    for config, text in ((small(), "GridDeep"), (micro(options=TABLES), "PEG"), (small(), "Learned")):
        model, other = build(config, text), VisionTransformer(config, at_sites(parse(text), config.sites))
        other.load_state_dict(model.state_dict())
        assert torch.equal(other(pictures(config)), model(pictures(config)))


# training ----------------------------------------------------------------------------------------------------------


def test_dropout_and_dropped_paths_are_of_training_alone():
    config = small(drop_path=0.5, options=Options(dropout=0.2))
    model, plain = build(config, "Shaw"), build(small(), "Shaw")
    x = pictures(config)
    assert not torch.allclose(model(x), model(x), atol=1e-4)
    torch.testing.assert_close(model.eval()(x), plain(x))
    model.train()(x).square().sum().backward()
    assert all(p.grad is not None for p in model.parameters())


def test_a_dropped_path_keeps_its_mean():
    block = build(small(drop_path=0.5)).stages[0].blocks[-1]
    x = torch.ones(4000, 2, 64)
    y = block._dropped(x)
    assert set(y.unique().tolist()) == {0.0, 2.0}
    assert bool(((y == 0).all((1, 2)) | (y == 2).all((1, 2))).all())
    assert y.mean().item() == pytest.approx(1, abs=0.05)
    assert build(small(drop_path=0.5)).stages[0].blocks[0].config.drop_path == 0


def test_half_precision():
    model = build(small(), "GridPE")
    x = pictures(small())
    with torch.autocast("cpu", torch.bfloat16):
        near = model(x)
    torch.testing.assert_close(near.float(), model(x), atol=0.05, rtol=0.1)
    torch.testing.assert_close(model.bfloat16()(x.bfloat16()).float(), near.float(), atol=0.05, rtol=0.1)


@pytest.mark.full
@pytest.mark.compile
@pytest.mark.parametrize(("config", "text"), [(small(), "GridPE"), (micro(), "AxialRoPE")])
def test_it_compiles_whole(config, text):
    model, x = build(config, text).eval(), pictures(config)
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")  # one graph is what is asked
    torch.testing.assert_close(compiled(x), model(x), atol=1e-5, rtol=1e-4)


# bad input ---------------------------------------------------------------------------------------------------------

ONE = StageConfig(dim=16, depth=1, heads=2, hidden=16, patch=4)


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: vit("quick", image=30, classes=10), r"patches of 4 x 4 do not divide the 30 x 30 .* to 32 x 32\."),
        (lambda: micro(image=28), r"keys of 8 x 8 patches do not divide the 14 x 14 of stage 0 in an image of 28 x 28."
                                  r" Resize or pad images to 32 x 32\."),
        (lambda: VisionConfig(image=(28, 28), classes=2, stages=(ONE, ONE)),
         r"patches of 4 x 4 do not divide the 7 x 7 points that stage 1 reads of an image of 28 x 28. .* 32 x 32\."),
        (lambda: pvt("tiny", image=144, classes=10), r"do not divide the 36 x 36 of stage 0 .* to 160 x 160\."),
        (lambda: vit("quick", image=28, classes=1), r"has at least 2 classes; got classes=1"),
        (lambda: vit("quick", image=28, classes=3, channels=0), r"at least one channel .* got channels=0"),
        (lambda: vit("smal", classes=3), r"there is no size of a ViT 'smal'. Did you mean small\? There are qu"),
        (lambda: pvt("huge", classes=3), r"there is no size of a PVT 'huge'.* There are micro, tiny, small"),
        (lambda: vit("quick", classes=3, image=28, drop_path=1.0), r"drop_path are probabilities"),
        (lambda: vit("quick", classes=3, image=28, literal=True, options=Options()), r"literal=True chooses the op"),
        (lambda: VisionConfig(image=(8, 8), classes=2, stages=(msgspec.structs.replace(ONE, heads=3),)),
         r"3 heads do not divide a width of 16; .* Use a number of heads that divides 16"),
        (lambda: VisionConfig(image=(8, 8), classes=2, stages=(msgspec.structs.replace(ONE, depth=0),)), r"at least 1"),
        (lambda: VisionConfig(image=(8, 8), classes=2, stages=(msgspec.structs.replace(ONE, reduction=2),)),
         r"a class token needs a last stage of reduction=1"),
        (lambda: build(small())(torch.randn(2, 3, 16, 24)), r"reads images \(B, 1, height, width\); got \(2, 3, 16"),
        (lambda: build(small())(torch.randn(2, 1, 16, 26)), r"patches of 4 x 4 do not divide the 16 x 26 points that"),
        (lambda: build(small()).resized((16, 26)), r"Resize or pad images to 16 x 28"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_said_in_a_sentence(make, sentence):
    with pytest.raises(ValueError, match=sentence):
        make()


@pytest.mark.parametrize("make", [lambda t: Scaled(t, 0.5), lambda t: Sum([t]), lambda t: Concat([t])])
def test_a_table_inside_another_scheme_is_not_left_at_its_size(make):
    model = build(small(image=28))
    swap(model, lambda layer: NoPE() if layer else make(Learned(64, 49)))
    with pytest.raises(ValueError, match=r"holds a Learned for a grid of 7 x 7, and only a scheme that is not inside"):
        model.resized((36, 36))


def test_windows_of_swins_table_are_resized():
    model = build(small(image=28), "SwinBias(2, window=(7, 7))")
    larger = model.resized((36, 40))
    assert larger.stages[0].schemes[0].window == (9, 10)
    assert larger(torch.randn(2, 1, 36, 40)).shape == (2, 3)


def test_rows_of_a_class_token_stay_when_the_patches_are_resized():
    model = build(small(image=28, options=of_vit.LITERAL), "Learned(sigma=0.02)")
    larger = model.resized((36, 36))
    own, other = model.stages[0].schemes[0].table, larger.stages[0].schemes[0].table
    assert (len(own), len(other)) == (50, 82)
    assert torch.equal(own[0], other[0])
    patches = Learned(64, 49)
    patches.load_state_dict({"table": own[1:]})
    torch.testing.assert_close(other[1:], patches.resized((7, 7), (9, 9)).table)
    assert larger(torch.randn(1, 1, 36, 36)).shape == (1, 3)


def test_networks_from_rows_to_tokens_stay_where_rows_are_as_wide():
    config = small(options=Options(project=(8,)))
    model = build(config, "Sinusoid(dim=16, axes=2)").bfloat16()
    before = model.stages[0].projections["0"][0].weight.clone()
    swap(model, Sinusoid(16, axes=2, base=100.0))
    assert torch.equal(model.stages[0].projections["0"][0].weight, before)
    swap(model, Sinusoid(24, axes=2))
    assert model.stages[0].projections["0"][0].weight.shape == (8, 24)
    assert model(pictures(config).bfloat16()).dtype == torch.bfloat16


def test_a_scheme_that_fits_one_stage_alone_changes_none():
    model = build(micro())
    before = [[type(scheme) for scheme in stage.schemes] for stage in model._stages]
    with pytest.raises(ValueError, match="makes rows of width"):
        swap(model, Sinusoid(model.config.stages[0].dim, axes=2))
    assert [[type(scheme) for scheme in stage.schemes] for stage in model._stages] == before


def test_the_size_that_is_named_is_one_that_fits():
    stages = tuple(StageConfig(dim=8, depth=1, heads=1, hidden=8, **sizes) for sizes in
                   ({"patch": 4, "reduction": 3}, {"patch": 2}))  # fmt: skip
    config = VisionConfig(stages=stages, classes=2, image=(48, 48), channels=1, options=Options())
    with pytest.raises(ValueError, match=r"Resize or pad images to 48 x 72\."):
        config.shapes((30, 50))
    assert len(config.shapes((48, 72))) == 2


def test_a_position_table_is_not_loaded_into_the_table_of_a_bias():
    stage = StageConfig(dim=24, depth=2, heads=2, hidden=40, patch=16)
    config = VisionConfig(image=(32, 48), classes=5, stages=(stage,))
    weights = {"pos_embed": torch.ones(1, 7, 24), "cls_token": torch.ones(1, 1, 24)}
    for scheme in (SwinBias(2, (2, 3)), GridPE(12, extent=6.0)):
        model = VisionTransformer(config, lambda layer, scheme=scheme: scheme)
        report = load_weights(model, weights)
        assert report.loaded == ["stages.0.class_token"]
        assert report.left == {"pos_embed": "this model has no learned table there: its positions are its scheme's"}
