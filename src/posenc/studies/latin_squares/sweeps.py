"""Panels over a number: the standard deviation of the initial table, the scale of the noise."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from posenc.report.lines import lines
from posenc.report.page import Panel
from posenc.report.panels import against_published, contrast
from posenc.report.rows import BySeed, values
from posenc.studies.latin_squares import published
from posenc.studies.latin_squares.drawing import CHANCE, IID, OOD, Found
from posenc.studies.latin_squares.measuring import noise_metrics
from posenc.studies.latin_squares.panels import NOISE_SIGMAS, SMALL_SIGMAS
from posenc.studies.latin_squares.presets import SGD, WEIGHT_DECAY
from posenc.studies.latin_squares.rows import TABLE_1, learned

SIGMA = "standard deviation of the initial table"
ACCURACY = "accuracy"
SPLITS = {"out of distribution": OOD, "in distribution": IID}


def sigma(found: Found) -> list[Panel]:
    """Table A2 and Fig. 2C."""
    epochs = found.preset.main.training.epochs
    authors = published.authors_curves(found.request.data, epochs) if found.same_model else {}
    if authors:
        of_label = {learned(s): s for s in published.SIGMAS}
        under = {
            f"the authors, {name}, epoch {epochs}": {
                of_label[label]: number for label, number in authors[split].items() if label in of_label
            }
            for name, split in (("out of distribution", "ood"), ("in distribution", "iid"))
        }
        compared, source = authors["ood"], f"the authors' own 15 runs at epoch {epochs}, 108 human puzzles"
    else:
        label = "Table A2" if found.same_model else "Table A2 (another model)"
        under = {label: published.TABLE_A2}
        compared = {learned(s): number for s, number in published.TABLE_A2.items()}
        source = published.SOURCE.format("A2")
    labels = [learned(s) for s in found.preset.sigmas]
    return [
        lines(
            {name: found.by_sigma(metric, found.preset.sigmas) for name, metric in SPLITS.items()},
            title="Accuracy against the initial standard deviation",
            x_label=SIGMA,
            y_label=ACCURACY,
            under=under,
            chance=CHANCE,
        ),
        against_published(
            [row for row in found.of(labels) if row["setting"] == "main"],
            metric=OOD,
            published={label: number for label, number in compared.items() if label in labels},
            source=source,
            n_published=published.SEEDS_PUBLISHED if found.same_model else None,
            label="the same model and epoch" if authors else found.label,
            title="Each standard deviation beside the published one",
        ),
    ]


def noise(found: Found) -> list[Panel]:
    """Fig. A10."""
    series: dict[str, dict[float, BySeed]] = {}
    for label in ("2d-fixed", *map(learned, NOISE_SIGMAS)):
        by_scale = {scale: values(found.rows, metric).get(label, {}) for scale, metric in noise_metrics().items()}
        if any(by_scale.values()):
            series[label] = {scale: seeds for scale, seeds in by_scale.items() if seeds}
    return [
        lines(
            series,
            title="Noise on the token embeddings",
            x_label="standard deviation of the noise",
            y_label="accuracy out of distribution",
            chance=CHANCE,
            note=(
                "Gaussian noise is added to each token's embedding before the first block of the trained model, 20 "
                "draws a model. How large the tokens have become in training decides how much a noise of 1 is: the "
                "curves compare encodings inside one recipe only."
            ),
        )
    ]


def optimisers(found: Found) -> list[Panel]:
    """Table A4 and Fig. A6."""
    rate = found.preset.setting(SGD).training
    here = {
        "Adam": found.by_sigma(OOD, SMALL_SIGMAS),
        "SGD": found.by_sigma(OOD, SMALL_SIGMAS, SGD),
    }
    where = "Table A4" if found.same_model else "Table A4 (another model)"
    return [
        lines(
            here,
            title="Adam and SGD on small initial tables",
            x_label=f"{SIGMA} (logarithmic)",
            y_label="accuracy out of distribution",
            under={f"{where}, {name}": numbers for name, numbers in published.TABLE_A4.items()},
            chance=CHANCE,
            log_x=True,
            note=(
                f"SGD without momentum, learning rate {rate.lr:g}, {rate.epochs} epochs; "
                f"Adam with {found.preset.main.training.lr:g}, {found.preset.main.training.epochs} epochs."
            ),
        )
    ]


def weight_decay(found: Found) -> list[Panel]:
    """Tables A5 and A6, Fig. A7."""
    labels = [*TABLE_1, *(learned(s) for s in found.preset.sigmas)]
    with_decay = [{**row, "setting": "main"} for row in found.of(labels) if row["setting"] == WEIGHT_DECAY]
    where = "Table A5" if found.same_model else "Table A5 (another model)"
    return [
        lines(
            {
                "weight decay 0": found.by_sigma(OOD, found.preset.sigmas),
                "weight decay 0.1": found.by_sigma(OOD, found.preset.sigmas, WEIGHT_DECAY),
            },
            title="Weight decay along the initial standard deviation",
            x_label=SIGMA,
            y_label="accuracy out of distribution",
            under={where: published.TABLE_A5},
            chance=CHANCE,
        ),
        contrast(
            found.of((*TABLE_1, "learned-0.2", "learned-2")),
            metric=OOD,
            settings={"main": "Weight decay 0", WEIGHT_DECAY: "Weight decay 0.1"},
            pairs=[("2d-fixed", "learned-0.2"), ("learned-0.2", "learned-2"), ("2d-fixed", "1d-fixed")],
            chance=CHANCE,
            chosen="The same runs with a decoupled weight decay of 0.1 on every weight, the table included (AdamW).",
            title="Weight decay and the gaps between encodings",
        ),
        against_published(
            with_decay,
            metric=OOD,
            published={label: number for label, number in published.WEIGHT_DECAY.items() if label in labels},
            source=published.SOURCE.format("A5 and A6"),
            n_published=published.SEEDS_PUBLISHED if found.same_model else None,
            label=found.label,
            title="With weight decay, beside the published numbers",
        ),
    ]


DRAWN: Mapping[str, Callable[[Found], list[Panel]]] = {
    "sigma": sigma,
    "noise": noise,
    "optimisers": optimisers,
    "weight-decay": weight_decay,
}
