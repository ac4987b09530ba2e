"""scikit-learn's own checks of estimators, on the encoder and the networks."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("sklearn", reason="pip install 'posenc[places]'")
from sklearn.base import clone
from sklearn.utils.estimator_checks import parametrize_with_checks

from posenc.adapt.sklearn import NetworkClassifier, NetworkRegressor, PositionEncoder

ENCODERS = [
    PositionEncoder(),
    PositionEncoder("SphericalHarmonics(3)", kind="sphere", columns=[0, 1]),
    PositionEncoder(kind="cyclic", columns=[0], period=5.0),
    PositionEncoder(kind="time", columns=[0], unit="hour", keep="all"),
    PositionEncoder("Space2VecGrid", columns=[0, 1]),
]
LATITUDE = "the check passes numbers beyond 90, which are no latitudes"
LATITUDES = ("check_fit_idempotent", "check_fit_check_is_fitted", "check_n_features_in")


def expected_failures(estimator: Any) -> dict[str, str]:
    """Checks that an estimator cannot pass, each with its reason."""
    return dict.fromkeys(LATITUDES, LATITUDE) if getattr(estimator, "kind", None) == "sphere" else {}


@pytest.mark.bare
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@parametrize_with_checks([PositionEncoder()], xfail_strict=True)
def test_the_default_encoder_passes_every_check(estimator: Any, check: Any) -> None:
    check(estimator)


@pytest.mark.full
@pytest.mark.bare
@parametrize_with_checks(ENCODERS[1:], expected_failed_checks=expected_failures, xfail_strict=True)
def test_encoders_of_each_kind_pass_every_check(estimator: Any, check: Any) -> None:
    check(estimator)


LEARNING = ("check_classifiers_train", "check_regressors_train", "check_classifiers_classes")
"""Checks of what a network has learned train for the default number of steps, all others for 100."""


@pytest.mark.full
@pytest.mark.bare
@pytest.mark.timeout(900)
@parametrize_with_checks([NetworkRegressor(), NetworkClassifier()], xfail_strict=True)
def test_default_networks_pass_every_check(estimator: Any, check: Any) -> None:
    learning = check.func.__name__ in LEARNING and not check.keywords
    check(estimator if learning else clone(estimator).set_params(steps=100))
