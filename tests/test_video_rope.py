"""VideoRoPE: its positions and its order of axes against the authors' code, and Ernie 4.5 VL of transformers."""

import pytest
import torch

from posenc import SectionedRoPE, video_rope

TEXTS = [[5, (1, 4, 6), 3], [4, (6, 2, 3), 2, (1, 5, 2), 1], [9], [(3, 3, 3), (1, 1, 2)]]


def released(text, scale):
    """``get_input_t_scale_modify_positions`` of github Wiselnn570/VideoRoPE, for sizes after merging, ``(N, 3)``."""
    rows, start = [], 0
    for segment in text:
        if isinstance(segment, int):
            rows += [torch.arange(segment)[:, None].expand(-1, 3) + start]
            start = start + segment
            continue
        t, h, w = segment
        time = torch.arange(t).view(-1, 1).expand(-1, h * w).flatten() * scale + start
        row = torch.arange(h).view(1, -1, 1).expand(t, -1, w).flatten() - (h - 1) // 2
        column = torch.arange(w).view(1, 1, -1).expand(t, h, -1).flatten() - (w - 1) // 2
        rows.append(torch.stack([time, row + time, column + time], -1))
        start = time.max() + 1
    return torch.cat(rows).double()


@pytest.mark.parametrize("scale", [2.0, 0.5, 1.0])
@pytest.mark.parametrize("text", TEXTS)
def test_positions_are_those_of_the_authors(text, scale):
    pos = video_rope(text, interval=scale)
    torch.testing.assert_close(pos.coords.double(), released(text, scale))
    assert pos.coords.is_floating_point() == (scale == 0.5 and any(isinstance(part, tuple) for part in text))


def test_several_texts_are_padded_on_the_left():
    pos = video_rope([[2], [1, (1, 1, 2), 1]])
    assert pos.placed is not None
    assert pos.placed.tolist() == [[False, False, True, True], [True] * 4]
    assert pos.coords[0, 2:, 0].tolist() == [0, 1]


def test_the_order_of_axes_is_that_of_the_authors():
    """``apply_m_modify_multimodal_rotary_pos_emb``: x, y alternate over 48 pairs, and time has the last 16."""
    scheme = SectionedRoPE(128, (16, 24, 24), base=1e6, arrangement="time last")
    assert scheme.axis_of == tuple(1 if j % 2 == 0 else 2 for j in range(48)) + (0,) * 16
    q, pos = torch.randn(1, 2, 9, 128), video_rope([2, (2, 1, 3), 1])
    theta = 1e6 ** -(torch.arange(0, 128, 2).float() / 128)
    freqs = theta * pos.coords.float()[:, list(scheme.axis_of)]
    cos, sin = (torch.cat([f, f], -1) for f in (freqs.cos(), freqs.sin()))
    half = torch.cat([-q[..., 64:], q[..., :64]], -1)
    torch.testing.assert_close(scheme.transform(q, scheme.prepare(pos), "q"), q * cos + half * sin, atol=1e-5, rtol=0)


@pytest.mark.compares("SectionedRoPE", "transformers", "Ernie 4.5 VL")
@pytest.mark.oracles
def test_it_is_the_rotation_of_ernie(same):
    code = pytest.importorskip("transformers.models.ernie4_5_vl_moe.modeling_ernie4_5_vl_moe")
    from transformers import Ernie4_5_VLMoeTextConfig

    config = Ernie4_5_VLMoeTextConfig(hidden_size=256, num_attention_heads=2, num_key_value_heads=2)
    assert config.rope_parameters is not None
    base = float(config.rope_parameters.get("rope_theta") or 0)
    embedding = code.Ernie4_5_VLMoeTextRotaryEmbedding(config)
    pos, q = video_rope([2, (2, 1, 3), 1]), torch.randn(1, 2, 9, 128)
    cos, sin = embedding(q, pos.coords.T[:, None])
    want, _ = code.apply_rotary_pos_emb(q, q, cos, sin)
    scheme = SectionedRoPE(128, (20, 22, 22), base=base, arrangement="time last", pairing="interleaved")
    same(scheme.transform(q, scheme.prepare(pos), "q"), want)


@pytest.mark.parametrize("interval", [0.0, -1.0, float("inf"), float("nan")])
def test_bad_intervals(interval):
    with pytest.raises(ValueError, match="positions between two frames, above 0; got"):
        video_rope([1], interval=interval)


@pytest.mark.bare  # The shape hook would refuse the arrangement before the sentence does.
def test_sections_that_cannot_alternate():
    with pytest.raises(ValueError, match=r"time last, sections=\(2, 3, 1\) would become \(2, 2, 2\)"):
        SectionedRoPE(12, (2, 3, 1), arrangement="time last")
    with pytest.raises(ValueError, match="arranged 'blocks', 'interleaved', 'time last'; got 'rows'"):
        SectionedRoPE(12, (2, 2, 2), arrangement="rows")  # pyright: ignore


@pytest.mark.bare  # The shape hook would refuse these before the sentences do.
@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: video_rope(5), r"a list of numbers of text tokens .* got 5. Write \[5\]"),
        (lambda: video_rope("5"), r"got '5'"),
    ],
)
def test_arguments_of_another_type(make, sentence):
    with pytest.raises(ValueError, match=sentence):
        make()
