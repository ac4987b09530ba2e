"""A stand-in of timm's ViTs: a scheme's rows on its patches, and nothing on its class token.

timm itself is an oracle of test_adapted_libraries.py.
"""

from types import SimpleNamespace

import pytest
import torch
from torch import nn

from posenc.adapt import vision_transformer
from posenc.positions import Positions, grid, sequence
from posenc.schemes.grid_pe import GridPE
from posenc.schemes.learned import Learned
from posenc.schemes.rope import RoPE
from posenc.schemes.sinusoid import Sinusoid


class Viewer(nn.Module):
    """Patches of a picture, tokens before them, and a table ``pos_embed`` for all or for the patches alone."""

    def __init__(self, prefix: int = 1, *, no_embed_class: bool = False, dynamic_img_size: bool = False) -> None:
        super().__init__()
        self.patch_embed = SimpleNamespace(grid_size=(2, 3))
        self.no_embed_class, self.dynamic_img_size, self.num_prefix_tokens = no_embed_class, dynamic_img_size, prefix
        self.first = nn.Parameter(torch.randn(1, prefix, 8))
        self.pos_embed = nn.Parameter(torch.randn(1, 6 + (0 if no_embed_class else prefix), 8))

    def forward(self, patches):
        if self.no_embed_class:
            return torch.cat([self.first.expand(len(patches), -1, -1), patches + self.pos_embed], 1)
        return torch.cat([self.first.expand(len(patches), -1, -1), patches], 1) + self.pos_embed


@pytest.mark.parametrize("no_embed_class", [False, True])
@pytest.mark.parametrize("prefix", [0, 1, 5])
def test_a_vit_gets_rows_and_its_class_token_none(prefix, no_embed_class):
    model = Viewer(prefix, no_embed_class=no_embed_class)
    scheme, patches = Sinusoid(8, axes=2), torch.randn(4, 6, 8)
    assert vision_transformer(model, scheme) is model
    rows = scheme.embed(scheme.prepare(grid(2, 3)))
    wanted = torch.cat([model.first.expand(4, -1, -1), patches + rows], 1)
    torch.testing.assert_close(model(patches), wanted)
    assert [name for name, _ in model.named_parameters()] == ["first"]


def test_a_vit_trains_the_scheme_and_saves_it():
    model = vision_transformer(Viewer(), Learned(8, 6))
    model(torch.zeros(1, 6, 8)).sum().backward()
    (table,) = (p for name, p in model.named_parameters() if name.endswith("table"))
    assert bool((table.grad == 1).all())
    other = vision_transformer(Viewer(), Learned(8, 6))
    other.load_state_dict(model.state_dict())
    torch.testing.assert_close(other.pos_embed, model.pos_embed)
    assert model.bfloat16().pos_embed.dtype == torch.bfloat16


def test_a_vit_with_positions_of_its_own():
    scheme = Sinusoid(8, axes=2)
    model = vision_transformer(Viewer(0), scheme, pos=grid(2, 3) + 0.5)
    torch.testing.assert_close(model.pos_embed[0], scheme.embed(scheme.prepare(grid(2, 3) + 0.5)))


def test_patches_without_a_place_have_none_beside_a_class_token():
    placed = torch.tensor([True, True, False, True, True, True])
    model = vision_transformer(Viewer(1), Sinusoid(8, axes=2), pos=Positions(grid(2, 3).coords, placed))
    assert (model.pos_embed[0].norm(dim=1) > 0).tolist() == [False, *placed.tolist()]
    with pytest.raises(ValueError, match="one table for all images"):
        vision_transformer(Viewer(1), Sinusoid(8, axes=2), pos=Positions(grid(2, 3).coords[None].float()))


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (
            lambda: vision_transformer(nn.Linear(2, 2), Sinusoid(8)),
            r"Linear has no position table of images: neither `pos_embed` and `patch_embed` as models of timm, nor",
        ),
        (
            lambda: vision_transformer(Viewer(dynamic_img_size=True), Sinusoid(8)),
            r"build it with dynamic_img_size=False",
        ),
        (
            lambda: vision_transformer(Viewer(), GridPE(12, extent=6.0)),
            r"GridPE acts at k, q too, .* load_weights\(VisionTransformer\(config, lambda layer: GridPE",
        ),
        (lambda: vision_transformer(Viewer(), RoPE(8)), r"table is added to its tokens .* RoPE acts at k, q too"),
        (
            lambda: vision_transformer(Viewer(), Sinusoid(12, axes=2)),
            r"table has 7 rows of width 8: 1 for tokens without a position, .* Sinusoid makes 6 rows of width 12",
        ),
        (lambda: vision_transformer(Viewer(), Sinusoid(8), pos=sequence(5)), r"makes 5 rows of width 8"),
        (
            lambda: vision_transformer(Viewer(), Learned(8, 4)),
            r"Learned starts at 0 and stops at 3; position 5 was ask",
        ),
        (lambda: vision_transformer(Viewer(), Sinusoid(12, axes=3)), r"3 axes|rows of width"),
    ],
)
def test_what_a_viewer_cannot_take(make, sentence):
    with pytest.raises(ValueError, match=sentence):
        make()
