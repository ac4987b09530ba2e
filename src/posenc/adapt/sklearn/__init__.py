"""Schemes in scikit-learn: a transformer of coordinate columns, and two estimators with a small network.

    PositionEncoder("SphericalHarmonics(8)", columns=["longitude", "latitude"])    columns of an encoding, for any model
    NetworkRegressor(PositionEncoder("SIREN(64)"))                                 a network that trains the encoding
    NetworkClassifier(PositionEncoder())                                           the same for classes

The transformer fits schemes without trained parameters. The estimators train the others together with their network.
The module needs scikit-learn: ``pip install 'posenc[places]'``.
"""

from importlib.util import find_spec

if find_spec("sklearn") is None:
    raise ImportError(
        "posenc.adapt.sklearn needs scikit-learn, which is not installed: pip install 'posenc[places]'", name="sklearn"
    )

from posenc.adapt.sklearn.network import NetworkClassifier, NetworkRegressor
from posenc.adapt.sklearn.position_encoder import PositionEncoder

__all__ = ["NetworkClassifier", "NetworkRegressor", "PositionEncoder"]
