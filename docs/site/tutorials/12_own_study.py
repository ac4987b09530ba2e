"""
A study of your own
===================

A study asks one question of several encodings. You write what one run does, which encodings there are and how the page
looks. The workbench runs them, stores each result once, and continues after an interruption.
"""

# %%
# The question: how many channels of sines does a linear model need to follow a wave of any period? One run draws waves,
# fits them from the rows of an encoding by least squares, and returns the error. It depends on its settings and its
# seed alone.
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import torch

from posenc import sequence
from posenc.lookup.scheme_text import build, parse
from posenc.workbench import (
    MAIN,
    Cost,
    InProcess,
    PageData,
    Panel,
    PanelSpec,
    Preset,
    Procedure,
    Request,
    RunResult,
    RunSpec,
    Store,
    Study,
    Table,
    execute_runs,
)


def fit_waves(spec: RunSpec, workdir: Path, report) -> RunResult:
    """Mean squared error of 100 waves of 4 to 64 tokens, fitted from the encoding of 64 positions."""
    scheme = build(parse(spec.settings["scheme"]), {"max_len": 64})
    rows = scheme.embed(scheme.prepare(sequence(64))).double()
    generator = torch.Generator().manual_seed(spec.seed)
    period = 4 * 16 ** torch.rand(100, generator=generator)
    waves = torch.sin(
        2 * torch.pi * (torch.arange(64)[:, None] / period + torch.rand(100, generator=generator))
    ).double()
    error = rows @ torch.linalg.lstsq(rows, waves, driver="gelsd").solution - waves
    return RunResult(metrics={"mse": float(error.square().mean())})


# %%
# The declaration. ``needs`` says which encodings a panel shows; ``draw`` makes its tables and figures from the rows of
# the store.
def draw(data: PageData) -> list[Panel]:
    """A table with each run."""
    rows = tuple((row["scheme"], str(row["seed"]), f"{row['value']:.3g}") for row in data.rows)
    return [Panel("Mean squared error by encoding", (Table("Each run", ("encoding", "seed", "MSE"), rows),))]


VARIANTS = ("Sinusoid(4)", "Sinusoid(8)", "Sinusoid(16)", "Sinusoid(32)", "Random(32, 64)")
study = Study(
    name="waves",
    question="How many channels does a linear model need to follow a wave?",
    lead="A linear model predicts waves of 4 to 64 tokens from the encoding of 64 positions.",
    presets={"quick": Preset(about="seconds", seeds=(0, 1, 2), panels=("error",), asks=False)},
    panels={
        "error": PanelSpec(
            about="error of each encoding", shows="none", needs=lambda request, preset: {MAIN: VARIANTS}, draw=draw
        )
    },
    procedure=Procedure("waves.fit", 1, fit_waves),
    run_settings=lambda request, store, condition, variant: {"scheme": variant},
    cost=Cost(seconds=lambda spec, store: 0.1),
    headline=lambda data: f"{len(data.done)} runs are finished.",
)

# %%
# Plan, execute, draw the page. A second execution finds all results in the store.
folder = tempfile.mkdtemp()
store, request = Store(folder), Request(preset="quick")
specs = study.plan(request, store)
for _ in range(2):
    report = execute_runs(specs, store, InProcess(), emit=lambda event: None)
    print(f"{len(report.done)} executed, {len(store.results())} in the store")
page = study.page(request, store, specs, {})
print(study.question in page.read_text())

# %%
# The results are rows for a plot of your own too.
rows = study.page_data(request, store, specs).rows
figure, axis = plt.subplots(figsize=(7, 3), layout="constrained")
for variant in VARIANTS:
    errors = [row["value"] for row in rows if row["scheme"] == variant]
    axis.plot(errors, [variant] * len(errors), "o", color="tab:blue", alpha=0.6)
axis.set(xlabel="mean squared error of a wave with mean square 1/2", title="Three seeds of each encoding", xscale="log")
axis.invert_yaxis()
plt.show()

# %%
# As a folder in ``workbench/studies`` it is a command, ``posenc run waves``, and the other commands know it:
# "Contributing" lists the files of such a folder.
