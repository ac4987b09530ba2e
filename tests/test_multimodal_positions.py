"""Positions of texts with images and videos, against transformers' own indices, and centered grids."""

import functools
import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from posenc import SectionedRoPE, multimodal
from posenc.positions import Positions, grid
from posenc.schemes.axial_rope import AxialRoPE

MERGE = 2
TEXTS = [
    [5, (1, 4, 6), 3],
    [(1, 3, 3), 7, (1, 2, 5)],
    [4, (6, 2, 3), 2, (1, 5, 2), 1],
    [9],
    [2, (1, 2, 2), 1, (1, 2, 2), 1],  # Qwen3-VL's video of two frames
]


def theirs(name, texts, module, **more):
    """``get_rope_index`` of a family for texts that are padded on the left."""
    pytest.importorskip("transformers")
    model = getattr(pytest.importorskip(f"transformers.models.{module}.modeling_{module}"), name)
    visual = SimpleNamespace(spatial_merge_size=MERGE, tokens_per_second=4)
    own = SimpleNamespace(config=SimpleNamespace(vision_config=visual))
    own.get_vision_position_ids = functools.partial(model.get_vision_position_ids, own)
    rows, grids = [], {1: [], 2: []}
    for text in texts:
        types = []
        for segment in text:
            kind = 0 if isinstance(segment, int) else 1 if segment[0] == 1 else 2
            types += [kind] * (segment if kind == 0 else math.prod(segment))
            if kind:
                grids[kind].append([segment[0], MERGE * segment[1], MERGE * segment[2]])
        rows.append(types)
    longest = max(map(len, rows))
    types = torch.tensor([[0] * (longest - len(row)) + row for row in rows])
    real = torch.tensor([[0] * (longest - len(row)) + [1] * len(row) for row in rows])
    images, videos = (torch.tensor(grids[kind]) if grids[kind] else None for kind in (1, 2))
    given = {"image_grid_thw": images, "video_grid_thw": videos, "attention_mask": real, **more}
    ids, delta = model.get_rope_index(own, torch.ones_like(types), types, **given)
    return ids.permute(1, 2, 0), delta, real.bool()


@pytest.mark.oracles
@pytest.mark.parametrize("texts", [*([text] for text in TEXTS), TEXTS])
def test_positions_of_qwen2_vl(texts):
    ids, delta, real = theirs("Qwen2VLModel", texts, "qwen2_vl")
    ours = multimodal(texts)
    assert torch.equal(ours.coords[real], ids[real])
    assert torch.equal(torch.ones_like(real) if ours.placed is None else ours.placed, real)
    for text, own, step in zip(texts, real, delta, strict=True):
        alone = multimodal(text)
        assert int(alone.coords.max()) + 1 == int(own.sum() + step)  # the position of the next token


@pytest.mark.oracles
@pytest.mark.parametrize("seconds", [0.5, 0.3, 2.0])
def test_positions_of_frames_of_qwen2_5_vl(seconds):
    text = [4, (6, 2, 3), 2]
    ids, *_ = theirs("Qwen2_5_VLModel", [text], "qwen2_5_vl", second_per_grid_ts=torch.tensor([seconds]))
    assert torch.equal(multimodal(text, interval=4 * seconds).coords, ids[0])


@pytest.mark.oracles
@pytest.mark.parametrize("text", [text for text in TEXTS if all(isinstance(s, int) or s[0] == 1 for s in text)])
def test_positions_of_qwen3_vl(text):
    ids, *_ = theirs("Qwen3VLModel", [text], "qwen3_vl")
    assert torch.equal(multimodal(text).coords, ids[0])


def test_sizes_of_numpy_and_torch_are_those_of_python():
    wanted = multimodal([5, (1, 4, 6), 3]).coords
    for sizes in ([np.int64(5), np.array([1, 4, 6]), 3], [5, torch.tensor([1, 4, 6]), torch.tensor(3)]):
        assert torch.equal(multimodal(sizes).coords, wanted)


def test_text_after_a_long_video_may_start_after_its_frames():
    text = [1, (9, 2, 3), 2]
    assert int(multimodal(text).coords[-2, 0]) == 1 + 3
    assert int(multimodal(text, after="volume").coords[-2, 0]) == 1 + 9
    assert int(multimodal(text, after="volume", interval=2.5).coords[-2, 0]) == 1 + 20 + 1
    q = torch.randn(1, 2, multimodal(text).count, 12)
    scheme = SectionedRoPE(12, sections=(2, 2, 2))
    assert scheme.transform(q, scheme.prepare(multimodal(text)), "q").shape == q.shape


@pytest.mark.parametrize(
    ("segments", "options", "sentence"),
    [
        ([5, (4, 6)], {}, r"a number of text tokens or \(frames, rows, columns\), .* got \(4, 6\)"),
        ([5, "text"], {}, r"got 'text'"),
        ([5, True], {}, r"got True"),
        ([(1, 0, 4)], {}, r"an image at least one row and column; got \(1, 0, 4\)"),
        ([-1], {}, r"at least 0 tokens .* got -1"),
        ([5], {"interval": -1.0}, r"positions between two frames, at least 0; got -1\.0"),
        ([5], {"after": "all"}, r"its 'plane' or 'volume'; got after='all'"),
    ],
)
def test_segments_that_no_text_has(segments, options, sentence):
    with pytest.raises(ValueError, match=sentence):
        multimodal(segments, **options)


def test_a_centered_grid_has_the_centers_of_its_cells():
    at = grid(2, 4, span=1.0)
    assert at.lattice == (2, 4)
    assert at.coords.dtype == torch.float64
    assert at.coords[:5].tolist() == [[-0.5, -0.75], [-0.5, -0.25], [-0.5, 0.25], [-0.5, 0.75], [0.5, -0.75]]
    for span in (0.0, -1.0, math.inf, math.nan):
        with pytest.raises(ValueError, match="half the extent of a centered grid, positive and finite; got"):
            grid(2, 4, span=span)


@pytest.mark.compares("AxialRoPE", "transformers", "DINOv3")
@pytest.mark.oracles
@pytest.mark.parametrize(("h", "w"), [(3, 5), (14, 14), (1, 2)])
def test_a_centered_grid_rotates_as_dinov3(h, w, same):
    dino = pytest.importorskip("transformers.models.dinov3_vit.modeling_dinov3_vit")
    config = dino.DINOv3ViTConfig(hidden_size=64, num_attention_heads=2, patch_size=4, image_size=56, rope_theta=100.0)
    cos, sin = dino.DINOv3ViTRopePositionEmbedding(config).eval()(torch.zeros(1, 3, 4 * h, 4 * w))
    x = torch.randn(1, 2, h * w, 32)
    wanted = x * cos + dino.rotate_half(x) * sin
    scheme = AxialRoPE(32, axes=2, base=100.0, pairing="half")
    at: Positions = grid(h, w, span=2 * math.pi)
    same(scheme.transform(x, scheme.prepare(at), "q"), wanted)
