"""
Coordinates in a table
======================

A table has longitude, latitude, other columns and a column to predict. A model reads two bare numbers poorly: a linear
model knows one slope in each direction, and trees cut along meridians and parallels. An encoding of the place gives
both more to work with. This compares them on made places, by two ways to hold rows out.
"""

# %%
# Made houses: the price depends on the rooms and, in waves, on the place. They lie in 60 towns.
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import RidgeCV
from sklearn.model_selection import GroupKFold, KFold, cross_val_score
from sklearn.pipeline import make_pipeline

from posenc.adapt.sklearn import PositionEncoder

rng = np.random.default_rng(0)
towns = rng.uniform((5, 45), (15, 55), (60, 2))
town = rng.integers(60, size=1500)
longitude, latitude = (towns[town] + rng.normal(0, 0.15, (1500, 2))).T
table = pd.DataFrame({"longitude": longitude, "latitude": latitude, "rooms": rng.integers(1, 8, 1500)})


def worth(longitude: np.ndarray, latitude: np.ndarray) -> np.ndarray:
    """Value of a place, part of the price: waves of about 6 degrees that follow no meridian."""
    return 2 * np.sin(longitude + latitude) + np.cos(longitude - 0.7 * latitude)


price = table["rooms"] + worth(longitude, latitude) + rng.normal(0, 0.3, 1500)

# %%
# ``PositionEncoder`` is a transformer of scikit-learn. It finds that the columns are degrees on a sphere, and passes
# the other columns on.
encoder = PositionEncoder("FourierFeatures(64, sigma=2)", columns=["longitude", "latitude"], random_state=0)
print(encoder.fit(table).kind_, encoder.transform(table).shape)

models = {
    "ridge": RidgeCV(np.logspace(-4, 2, 13)),
    "ridge on the encoding": make_pipeline(encoder, RidgeCV(np.logspace(-4, 2, 13))),
    "boosting": HistGradientBoostingRegressor(max_iter=100, random_state=0),
    "boosting on the encoding": make_pipeline(encoder, HistGradientBoostingRegressor(max_iter=100, random_state=0)),
}

# %%
# A random split has neighbors of each test row in the training part. A split by towns asks for places that no model has
# seen. A model that is to be used at new places is judged by the second.
splits = {"random rows": (KFold(5, shuffle=True, random_state=0), None), "whole towns": (GroupKFold(5), town)}
scores = pd.DataFrame({
    name: {title: cross_val_score(model, table, price, groups=groups, cv=folds).mean()
           for title, (folds, groups) in splits.items()}
    for name, model in models.items()
})  # fmt: skip
print(scores.T.round(2).to_string())

# %%
# The picture has what the place adds to a price of four rooms: the truth, and what each model learned from all rows.
# White points are the towns. Between the towns no model has data.
side = 60
east, north = np.meshgrid(np.linspace(5, 15, side), np.linspace(45, 55, side))
places = pd.DataFrame({"longitude": east.ravel(), "latitude": north.ravel(), "rooms": 4})
maps = {"truth": worth(east, north)}
maps |= {name: model.fit(table, price).predict(places).reshape(side, side) - 4 for name, model in models.items()}
figure, axes = plt.subplots(1, 5, figsize=(14, 3.2), layout="constrained", sharey=True)
for axis, (name, values) in zip(axes, maps.items(), strict=True):
    axis.imshow(values, origin="lower", extent=(5, 15, 45, 55), vmin=-3, vmax=3, cmap="viridis", aspect="auto")
    axis.scatter(*towns.T, s=4, color="white")
    axis.set(title=name, xlabel="longitude (degrees)")
axes[0].set_ylabel("latitude (degrees)")
plt.show()

# %%
# Made data of one seed are an example, no evidence. ``posenc run places table.csv --target price`` compares encodings
# on your table by both splits, with intervals and the baselines of scikit-learn.
