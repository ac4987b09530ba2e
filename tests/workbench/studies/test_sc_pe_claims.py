"""The spherical study: its answer and its claims on made-up numbers."""

import numpy as np
import pytest

from posenc.workbench import studies
from posenc.workbench.report.claims_table import judge_claim
from posenc.workbench.studies.sc_pe import STUDY, claims, conditions, plots, variants
from posenc.workbench.studies.sc_pe.claims import CLAIMS

pytestmark = pytest.mark.bare


def made_up(levels, metric="accuracy", setting="main", seeds=5):
    """Rows of a store: each label's level, with what a seed adds to all."""
    noise = np.random.default_rng(0).normal(0, 0.0005, (len(levels), seeds))
    return [
        {"study": "sc-pe", "preset": "quick", "setting": setting, "seed": seed, "metric": metric,
         "scheme": label,
         "value": level + 0.01 * seed + noise[place, seed]}
        for place, (label, level) in enumerate(levels.items()) for seed in range(seeds)
    ]  # fmt: skip


def verdict(name, *found):
    (claim,) = [claim for claim in CLAIMS if claim.name == name]
    return judge_claim(claim, [row for rows_ in found for row in rows_]).verdict


def test_rows_beside_the_features_help_or_their_padding_does():
    name = "the spherical encoding improves a LeNet"
    base = {"as-published": 0.90, "plain": 0.88, "plain-padded": 0.88, "constant-padded": 0.88}
    assert verdict(name, made_up(base)) == "supported"
    assert verdict(name, made_up({**base, "plain-padded": 0.91})) == "contradicted"
    assert verdict(name, made_up({**base, "constant-padded": 0.90})) == "inconclusive"
    assert verdict(name, made_up({**base, "constant-padded": 0.90})[:15]) == "not measured"
    cifar = {"code-slow": 0.65, "plain": 0.60, "plain-slow": 0.62, "code": 0.64, "constant": 0.61}
    name = "the spherical encoding improves a LeNet on CIFAR-10"
    assert verdict(name, made_up(cifar, setting=conditions.CIFAR)) == "supported"
    assert verdict(name, made_up({**cifar, "plain-slow": 0.66}, setting=conditions.CIFAR)) == "contradicted"
    assert verdict(name, made_up(cifar)) == "not measured"
    name = "on CIFAR-10 the encoding lowers the training accuracy"
    learned = {"plain": 0.9, "code-slow": 0.8, "plain-slow": 0.8, "code": 0.9}
    assert verdict(name, made_up(learned, "accuracy_train", conditions.CIFAR)) in ("contradicted", "inconclusive")
    apart = {"plain": 0.9, "code-slow": 0.7, "plain-slow": 0.8, "code": 0.8}
    assert verdict(name, made_up(apart, "accuracy_train", conditions.CIFAR)) == "supported"


def answer(levels):
    by_label = {label: dict(enumerate(values)) for label, values in levels.items()}
    return claims._answer(by_label, "LeNet", claims.PAIRS, claims.FURTHER_PAIRS)


def test_the_answer_is_that_of_the_encoding_alone():
    padding = {"as-published": (0.93, 0.94, 0.95), "plain": (0.90, 0.91, 0.92)}
    same = answer({**padding, "plain-padded": (0.931, 0.939, 0.951)})
    assert same.startswith("No for the LeNet, equivalent within 0.01: as-published against plain-padded, accuracy")
    assert "Padding alone (plain-padded against plain): +0.030 [" in same
    assert answer({**padding, "plain-padded": (0.90, 0.91, 0.92)}).startswith("Yes for the LeNet: as-published against")
    assert answer({**padding, "plain-padded": (0.96, 0.97, 0.98)}).startswith("No for the LeNet: as-published against")
    assert answer({**padding, "plain-padded": (0.90, 0.99, 0.90)}).startswith("Inconclusive for the LeNet: as-publ")
    assert answer(padding).startswith("No answer yet for the LeNet: this needs two variants")
    assert answer({"code": (0.9,), "plain": (0.8,)}).startswith("Inconclusive for the LeNet: code against plain")


def test_a_page_of_the_transformer_alone_has_its_answer():
    """It said that no LeNet had finished, and nothing of the models that it showed."""
    values = {"sphere": (0.86, 0.87, 0.88), "nope": (0.84, 0.85, 0.86), "sinusoid": (0.87, 0.88, 0.89)}
    by_label = {label: dict(enumerate(each)) for label, each in values.items()}
    said = claims._answer(by_label, "vision transformer", claims.TOKEN_PAIRS, claims.FURTHER_TOKEN_PAIRS)
    assert said.startswith("Yes for the vision transformer: sphere against nope, accuracy +0.020 [")
    assert "In place of sinusoids (sphere against sinusoid): −0.010 [" in said
    assert "one line" not in said


def test_alike_is_within_a_point():
    name = "accuracy with and without the encoding is about the same"
    same = {"as-published": 0.9, "plain": 0.897, "plain-padded": 0.898, "code": 0.9}
    assert verdict(name, made_up(same)) == "supported"
    assert verdict(name, made_up({**same, "plain": 0.87})) == "contradicted"
    name = "the initial weights of the readout do not matter"
    heads = {"code": 0.9, "code x 10": 0.901, "code x 0.1": 0.899, "code x 0": 0.9}
    assert verdict(name, made_up(heads)) == "supported"
    assert verdict(name, made_up({**heads, "code x 10": 0.95})) == "contradicted"


def test_pixels_times_rows_and_the_transformer():
    name = "multiplied pixels improve training accuracy and not held-out accuracy"
    tested = made_up({"note times": 0.9, "plain": 0.9})
    learned = {"note times": 0.98, "plain": 0.96, "mask": 0.97}
    assert verdict(name, tested, made_up(learned, "accuracy_train")) == "supported"
    assert verdict(name, tested, made_up({**learned, "mask": 0.99}, "accuracy_train")) == "contradicted"
    name = "in a transformer the training loss of the sphere is smoother than that of the sinusoid"
    bends = {"sphere-in-line": 0.1, "sinusoid-in-line": 0.2, "sphere": 0.1, "sinusoid": 0.2, "nope": 0.3}
    assert verdict(name, made_up(bends, "roughness", conditions.TRANSFORMER)) == "supported"
    assert verdict(name, made_up({**bends, "nope": 0.0}, "roughness", conditions.TRANSFORMER)) == "contradicted"


def test_claims_point_at_panels_that_there_are():
    for claim in CLAIMS:
        assert set(claim.command.split("--panels ")[1].split()) <= set(STUDY.panels)
        assert claim.lang == "zh-Hans"
    assert (
        {claim.panel for claim in CLAIMS}
        == {"concatenation", "rates", "readout-scale", "multiplication", "tokens"}
        < set(STUDY.panels)
    )
    assert studies.find("sc-pe") is STUDY
    assert {label for a, b, _ in plots.CONTROLS for label in (a, b)} <= set(variants.FEATURE_VARIANTS)
