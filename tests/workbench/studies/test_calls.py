"""Calls of encodings with the arguments that a study filled in: stored, outside the identity, to copy from the page."""

from __future__ import annotations

import pytest
from torch import nn

from posenc.lookup.scheme_text import build, parse
from posenc.models.encoder import Encoder, EncoderConfig
from posenc.models.vision import VisionConfig, VisionTransformer
from posenc.models.vision_stage import Options, StageConfig
from posenc.schemes.rope import RoPE
from posenc.workbench.report.calls_panel import calls_panel
from posenc.workbench.runs import RunSpec
from posenc.workbench.studies.language.rope_scaling import scale_frequencies
from posenc.workbench.studies.shared.training_run import calls_of


def test_a_call_has_the_arguments_that_the_study_filled_in() -> None:
    scheme = build(parse("FoX"), {"dim": 64, "heads": 4, "axes": 2})
    assert scheme.built_as == "FoX(dim=64, heads=4)"
    model = nn.ModuleList([nn.Linear(2, 2), nn.ModuleList([scheme]), build(parse("FoX"), {"dim": 64, "heads": 4})])
    assert calls_of(model) == ("FoX(dim=64, heads=4)",)  # each once
    again = build(parse(scheme.built_as), {})
    assert again.built_as == scheme.built_as  # the text of a page can be read again


def test_a_scheme_of_others_is_one_call() -> None:
    call = calls_of(nn.ModuleList([build(parse("Sum([RoPE, ALiBi])"), {"head_dim": 16, "heads": 4})]))
    assert len(call) == 1
    assert call[0].startswith("Sum(")


@pytest.mark.parametrize(
    ("scaling", "schedule"),
    [
        ("ntk", "ntk(factor=8.0)"),
        ("yarn", "yarn(factor=8.0, trained=64, beta=32.0)"),
        ("yarn-released", "yarn(factor=8.0, trained=64, literal=True)"),
    ],
)
def test_scaled_frequencies_say_their_factor(scaling: str, schedule: str) -> None:
    config = EncoderConfig(channels=3, classes=2, dim=32, depth=1, hidden=32, heads=2)
    model = Encoder(config, lambda layer: build(parse("RoPE"), {"head_dim": 16}))
    spec = RunSpec(study="x", variant="a", seed=0, preset="quick", procedure="x", settings={"schedule": scaling})
    scale_frequencies(spec, model, 16, factor=8.0, trained=64)
    (call,) = calls_of(model)
    assert call == f"RoPE(head_dim=16, frequencies={schedule})"
    (scaled,) = {module for module in model.modules() if isinstance(module, RoPE)}
    copied = build(parse(call), {})
    assert isinstance(copied, RoPE)
    assert (copied.theta, copied.attention_factor) == (scaled.theta, scaled.attention_factor)


def test_runs_without_calls_have_no_panel() -> None:
    assert calls_panel({("rope", "main"): ()}) is None
    views = {("rope", "main"): "index (1 axis: number)"}
    panel = calls_panel({("rope", "main"): ("RoPE(head_dim=16)",), ("old", "main"): ()}, views)
    assert panel is not None
    row = ("rope", "main", "index (1 axis: number)", "RoPE(head_dim=16)")
    assert panel.blocks[0].rows == (row,)  # type: ignore[union-attr]


def test_a_table_that_a_vision_model_builds_has_a_call() -> None:
    stage = StageConfig(dim=8, depth=1, heads=2, hidden=8, patch=4)
    config = VisionConfig(image=(8, 8), classes=2, stages=(stage,), channels=1, options=Options(tables=True))
    calls = calls_of(VisionTransformer(config, lambda layer: build(parse("NoPE"), {})))
    assert calls == ("Learned(dim=8, max_len=4, sigma=0.02)", "NoPE()")
    assert build(parse(calls[0]), {}).out_dim == 8
