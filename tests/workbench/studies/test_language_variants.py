"""The variants of the language study: what they read, how they are named, and which lengths they can read."""

import msgspec
import pytest
import torch

from posenc.models.language import LanguageConfig
from posenc.workbench.studies import Request
from posenc.workbench.studies.language import published, rope_scaling, variants
from posenc.workbench.studies.language.conditions import CONDITIONS, RECALL_TASKS
from posenc.workbench.studies.language.panels import PANELS
from posenc.workbench.studies.language.presets import PRESETS

CONFIG = LanguageConfig(vocabulary=7, dim=16, depth=2, heads=2, key_heads=1, hidden=32)
WINDOW = 8
ALL = tuple(
    dict.fromkeys((*variants.COMPARED, *variants.ROTARY, *variants.EXTRAPOLATION, *variants.RECALL, *variants.RECENT))
)


@pytest.mark.parametrize("label", ALL)
def test_every_variant_predicts_from_earlier_tokens_only_and_has_gradients(label: str) -> None:
    variant = variants.variant(label, CONFIG, longest=32, window=WINDOW, separators=(2,))
    model = variant.model(WINDOW)
    tokens = torch.randint(7, (3, WINDOW), generator=torch.Generator().manual_seed(0))
    pos = variant.positions(WINDOW, 3, torch.Generator().manual_seed(0))
    logits = model(tokens, pos)
    assert logits.shape == (3, WINDOW, 7)
    torch.nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), tokens[:, 1:].flatten()).backward()
    assert all(bool(p.grad.isfinite().all()) for p in model.parameters() if p.grad is not None)
    changed = tokens.clone()
    changed[:, -1] = (changed[:, -1] + 1) % 7
    torch.testing.assert_close(model(changed, pos)[:, :-1], logits[:, :-1], atol=1e-6, rtol=0)


def test_every_variant_has_one_description_and_presets_name_panels_of_the_study() -> None:
    assert set(ALL) | set(variants.NGRAMS) == set(variants.DESCRIPTIONS)
    assert len(variants.COMPARED) == 8
    assert len(set(variants.ROTARY)) == 9
    assert set(variants.RELATIVE) < set(variants.ROTARY) == set(published.LOSSES)
    for preset in PRESETS.values():
        assert set(preset.panels) <= set(PANELS)


def test_baselines_are_counted_on_a_text_only() -> None:
    trained = {label: CONDITIONS[label].has_variant("bigram") for label in CONDITIONS}
    assert trained == {"main": True, **{task.label: False for task in RECALL_TASKS}}
    assert all(each.has_variant("rope") for each in CONDITIONS.values())


def test_rotary_variants_rotate_the_parts_that_their_label_names() -> None:
    sites = {}
    for label in variants.ROTARY:
        schemes = variants.variant(label, CONFIG, longest=8, window=8).model(8).unique_schemes
        sites[label] = frozenset().union(*(scheme.claims.sites for scheme in schemes))
    assert sites.pop("nope") == frozenset()
    assert sites.pop("rope") == frozenset("qk")
    assert sites == {label: frozenset(label.removesuffix("-rope")) for label in sites}


def test_layers_alternate_between_schemes_and_schemes_as_text_are_variants() -> None:
    deep = msgspec.structs.replace(CONFIG, depth=8)
    model = variants.variant("rope and nope", deep, longest=32, window=WINDOW).model(WINDOW)
    assert ["q" in model.unique_schemes[n].claims.sites for n in model.scheme_of] == [True, True, True, False] * 2
    assert variants.variant("KERPLEPower", CONFIG, longest=32, window=WINDOW).schemes[0].scheme == "KERPLEPower"
    assert variants.variant("Sinusoid(base=100.0)-randomized", CONFIG, longest=32, window=WINDOW).position_range == 64
    with pytest.raises(ValueError, match=r"there is no variant 'rop-yarn'. Did you mean rope-yarn"):
        variants.variant("rop-yarn", CONFIG, longest=32, window=WINDOW)


def test_the_length_error_is_that_of_the_scheme() -> None:
    error = variants.variant("learned-0.5", CONFIG, longest=32, window=WINDOW).length_error(WINDOW, 9)
    assert "Learned starts at 0 and stops at 7; position 8 was asked for" in error
    sizes = {"longest": 32, "window": WINDOW, "separators": (2,)}
    limited = [label for label in ALL if variants.variant(label, CONFIG, **sizes).length_error(WINDOW, 32)]
    assert limited == ["learned-0.5"]


def test_scaling_lowers_low_frequencies_and_keeps_high_ones() -> None:
    wide = msgspec.structs.replace(CONFIG, dim=64)
    plain = torch.tensor(variants.variant("rope", wide, longest=32, window=WINDOW).model(64).schemes[0].theta)
    ratios = {
        name: torch.tensor(rope_scaling.scaled_rope(name, 32, factor=8, trained=64).theta) / plain
        for name in variants.SCALED.values()
    }
    assert ratios["linear"].tolist() == pytest.approx([1 / 8] * 16)
    assert ratios["ntk"][0].item() == pytest.approx(1)
    for name in ("ntk", "yarn", "yarn-released"):
        assert ratios[name][-1].item() == pytest.approx(1 / 8)
        assert bool((ratios[name].diff() <= 1e-6).all())
        assert ratios[name][0].item() > 2 * ratios["linear"][0].item()
    assert rope_scaling.scaled_rope("yarn", 32, factor=8, trained=64).attention_factor > 1


def test_the_treatment_of_every_pair_is_counted() -> None:
    counts = {
        name: tuple(rope_scaling.ramp_counts(name, 16, factor=8, trained=64)) for name in variants.SCALED.values()
    }
    # 64 tokens are 10.2 turns of the fastest pair, so none reaches the 32 turns that the published ramp keeps.
    assert counts == {"linear": (0, 0, 8), "ntk": (1, 6, 1), "yarn": (0, 3, 5), "yarn-released": (1, 2, 5)}
    assert rope_scaling.ramp_counts("yarn", 128, factor=4, trained=4096).kept > 0
    settings = {"row": {"config": msgspec.to_builtins(msgspec.structs.replace(CONFIG, dim=32))}, "window": 64}
    stretched = settings | {"schedule": "yarn", "text": {"multiple": 8}}
    assert rope_scaling.ramp_text(stretched).startswith("factor 8; of 8 pairs of channels 0 kept")
    assert rope_scaling.ramp_text(settings) == ""


def test_the_recall_tasks_at_quick_are_a_run_of_minutes() -> None:
    """They were 180 runs, an hour and a half: 8 encodings on three tasks and 18 on two."""
    quick, needs = PRESETS["quick"], PANELS["recall"].needs
    wanted = needs(Request(preset="quick", panels=("recall",)), quick)
    assert wanted.keys() == {"copy", "needle", "reverse", "sort", "mqar"}
    assert sum(map(len, wanted.values())) * len(quick.seeds) <= 60
    every = needs(Request(preset="standard", panels=("recall",)), PRESETS["standard"])
    assert {len(labels) for labels in every.values()} == {8, 18}
