"""
Times in a series
=================

Readings of a sensor come at irregular times, with gaps. Should a model be told the number of a reading, its time, or
the hour of the day and the day of the week? ``posenc run series`` compares these on a table of yours.
"""

# %%
# A made table: 1,500 readings at irregular times, with a cycle of a day and one of a week.
import contextlib
import io
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from posenc.cli.data import look
from posenc.workbench import run

rng = np.random.default_rng(0)
hours = np.cumsum(rng.exponential(3.0, 1500).clip(0.2))
day, week = 2 * np.pi * hours / 24, 2 * np.pi * hours / 168
load = 2 * np.sin(day) + np.sin(week) + 0.3 * rng.normal(size=1500)
times = pd.Timestamp("2024-01-01") + pd.to_timedelta(hours.round(2), unit="h")
folder = Path(tempfile.mkdtemp())
pd.DataFrame({"time": times.floor("s"), "load": load}).to_csv(folder / "load.csv", index=False)
with contextlib.chdir(folder):
    look(Path("load.csv"))

# %%
# ``posenc run series load.csv`` trains eleven variants with five seeds. Here are four, one seed and 150 steps; what the
# command prints while it trains is left out. Each way to tell the time is a rotation of queries and keys.
schemes = ["none", "index-rotation", "time-rotation", "calendar-rotation"]
with contextlib.redirect_stdout(io.StringIO()):
    result = run(
        "series", folder / "load.csv", schemes=schemes, seeds=1, panels=["forecasts"], jobs=1,
        changes={"training.epochs": 150}, out=folder / "runs",
    )  # fmt: skip
print(result.verdict[0])

# %%
# The error of the forecasts on the last fifth of the readings, in units of the series' variance. Beside the models
# stand baselines: the last value, the value one period earlier, a linear map, and boosting with columns of the
# calendar.
errors = {row["scheme"]: row["value"] for row in result.table if row["metric"] == "mse"}
ordered = sorted(errors, key=lambda name: -errors[name])
figure, (left, right) = plt.subplots(1, 2, figsize=(11, 3.4), layout="constrained")
left.plot(times[:120], load[:120], ".-", linewidth=0.5)
left.set(title="The first readings", ylabel="load")
left.tick_params("x", rotation=30)
colors = ["tab:blue" if name in schemes else "0.7" for name in ordered]
right.barh(ordered, [errors[name] for name in ordered], color=colors)
right.set(title="Forecasts", xlabel="mean squared error (variance of the series)")
plt.show()

# %%
# One seed and one made table are an example, no evidence. In this table the calendar is all there is to know. "Time"
# has the frequencies of the calendar for your own models, and the columns and options that the command reads.
