"""Panels of accuracy by a number: the standard deviation of the initial table, or that of the noise."""

from __future__ import annotations

from collections.abc import Iterable

from posenc.workbench.report.accuracy_panels import condition_contrast
from posenc.workbench.report.line_plot import line_plot
from posenc.workbench.report.number_format import join_words
from posenc.workbench.report.page import Panel
from posenc.workbench.report.published_tables import published_comparison
from posenc.workbench.report.result_rows import BySeed, values_by_scheme
from posenc.workbench.studies.latin_squares import published
from posenc.workbench.studies.latin_squares.conditions import FOUR_HEADS, SGD, TWO_HEADS, WEIGHT_DECAY
from posenc.workbench.studies.latin_squares.execute import CHANCE, IID, OOD
from posenc.workbench.studies.latin_squares.further_measures import ALL_SCALES, noise_metric
from posenc.workbench.studies.latin_squares.plots import curves_of, training_comparison
from posenc.workbench.studies.latin_squares.results import (
    by_sigma,
    difference_from_paper,
    has_authors_puzzles,
    is_papers_model,
    rows_of,
    settings_of,
    sigmas_of,
    table_name,
)
from posenc.workbench.studies.latin_squares.variants import ACCURACY, AS_RELEASED, SMALL_SIGMAS, TABLE_1, learned
from posenc.workbench.studies.shared.declarations import MAIN
from posenc.workbench.studies.shared.page_data import PageData

SIGMA = "standard deviation of the initial table"
OOD_ACCURACY = "accuracy out of distribution"
SPLITS = {"out of distribution": OOD, "in distribution": IID}


def sigma(data: PageData) -> list[Panel]:
    """Table A2 and Fig. 2C."""
    sigmas, same = sigmas_of(data), is_papers_model(data)
    labels, own = [learned(sigma) for sigma in sigmas], same and has_authors_puzzles(data)
    epochs = settings_of(data).get("training", {}).get("epochs", 0)
    authors = published.authors_curves(published.summary_path(data.store.root), epochs) if own else {}
    if authors:
        of_label = {learned(sigma): sigma for sigma in published.SIGMAS}
        reference = {
            f"the authors, {name}, epoch {epochs}": {
                of_label[label]: value for label, value in authors[split].items() if label in of_label
            }
            for name, split in (("out of distribution", "ood"), ("in distribution", "iid"))
        }
        compared, source = authors["ood"], f"the authors' own 15 runs at epoch {epochs}, 108 human puzzles"
    else:
        reference = {table_name(data, "Table A2"): published.TABLE_A2}
        compared = {learned(sigma): value for sigma, value in published.TABLE_A2.items()}
        source = published.SOURCE.format("Table A2")
    return [
        line_plot(
            {name: by_sigma(data, metric, sigmas) for name, metric in SPLITS.items()},
            title="Accuracy by initial standard deviation",
            x_label=SIGMA,
            y_label="accuracy",
            reference=reference,
            chance=CHANCE,
        ),
        published_comparison(
            rows_of(data, labels, MAIN),
            metric=OOD,
            published={label: value for label, value in compared.items() if label in labels},
            source=source,
            n_published=published.SEEDS_PUBLISHED if same else None,
            label="the same model and epoch" if authors else difference_from_paper(data),
            title="Accuracy by initial standard deviation: comparison with published results",
        ),
        training_comparison(data, labels, published.TRAINING, "Table A2"),
    ]


def noise(data: PageData) -> list[Panel]:
    """Fig. A10."""
    series: dict[str, dict[float, BySeed]] = {}
    values = {scale: values_by_scheme(data.rows, noise_metric(scale)) for scale in (0.0, *ALL_SCALES)}
    measured = {label for by_scheme in values.values() for label in by_scheme}
    for label in (*ACCURACY, *(each for each in data.labels(MAIN) if each in measured and each not in ACCURACY)):
        by_scale = {scale: by_scheme[label] for scale, by_scheme in values.items() if by_scheme.get(label)}
        if by_scale:
            series[label] = by_scale
    return [
        line_plot(
            series,
            title="Accuracy by noise on the token embeddings",
            x_label="standard deviation of the noise",
            y_label=OOD_ACCURACY,
            chance=CHANCE,
            note=(
                "Gaussian noise is added to each token's embedding before the first block of the trained model, 20 "
                "draws per model. The effect of a noise of 1 depends on the norm of the trained token embeddings, so "
                "only encodings of one condition can be compared."
            )
            + _dropout_note(series),
        )
    ]


def _dropout_note(labels: Iterable[str]) -> str:
    """Sentence on encodings as released whose accuracy elsewhere on the page is that with dropout; "" without any."""
    scored = [each for each in labels if each in AS_RELEASED and AS_RELEASED[each].training]
    if not scored:
        return ""
    return (
        f" Dropout is off in all measurements of noise and attention; the accuracy of {join_words(scored)} in other "
        "panels is measured with dropout, as in the authors' code."
    )


def heads_sigma(data: PageData) -> list[Panel]:
    """Fig. A14C, G: the sweep of Table A2 with more heads."""
    sigmas = sigmas_of(data)
    conditions = {"one head": MAIN, "two heads": TWO_HEADS, "four heads": FOUR_HEADS}
    return [
        line_plot(
            {name: by_sigma(data, OOD, sigmas, condition) for name, condition in conditions.items()},
            title="Accuracy by initial standard deviation and number of heads",
            x_label=SIGMA,
            y_label=OOD_ACCURACY,
            reference={f"{table_name(data, 'Table A2')}, one head": published.TABLE_A2},
            chance=CHANCE,
            note="The same width split into more heads. The paper shows this in Fig. A14, without numbers.",
        )
    ]


def optimizers(data: PageData) -> list[Panel]:
    """Table A4 and Fig. A6."""
    adam, sgd = (settings_of(data, condition).get("training", {}) for condition in (MAIN, SGD))
    note = f"Adam: learning rate {adam['lr']:g}, {adam['epochs']} epochs." if adam else ""
    if sgd:
        note = f"SGD without momentum: learning rate {sgd['lr']:g}, {sgd['epochs']} epochs. {note}"
    table = table_name(data, "Table A4")
    return [
        line_plot(
            {"Adam": by_sigma(data, OOD, SMALL_SIGMAS), "SGD": by_sigma(data, OOD, SMALL_SIGMAS, SGD)},
            title="Accuracy with Adam and SGD by initial standard deviation",
            x_label=f"{SIGMA} (logarithmic)",
            y_label=OOD_ACCURACY,
            reference={f"{table}, {name}": values for name, values in published.TABLE_A4.items()},
            chance=CHANCE,
            log_x=True,
            note=note.strip(),
        ),
        *(
            curves_of(data, [learned(sigma) for sigma in SMALL_SIGMAS], condition, f"Learning curves with {name}")
            for condition, name in ((SGD, "SGD"), (MAIN, "Adam, small standard deviations"))
        ),
    ]


def weight_decay(data: PageData) -> list[Panel]:
    """Tables A5 and A6, Fig. A7."""
    sigmas = sigmas_of(data)
    labels = [*TABLE_1, *map(learned, sigmas)]
    return [
        line_plot(
            {
                "weight decay 0": by_sigma(data, OOD, sigmas),
                "weight decay 0.1": by_sigma(data, OOD, sigmas, WEIGHT_DECAY),
            },
            title="Accuracy with and without weight decay by initial standard deviation",
            x_label=SIGMA,
            y_label=OOD_ACCURACY,
            reference={table_name(data, "Table A5"): published.TABLE_A5},
            chance=CHANCE,
        ),
        condition_contrast(
            rows_of(data, (*TABLE_1, "learned-0.2", "learned-2")),
            metric=OOD,
            conditions={MAIN: "Weight decay 0", WEIGHT_DECAY: "Weight decay 0.1"},
            pairs=[("2d-fixed", "learned-0.2"), ("learned-0.2", "learned-2"), ("2d-fixed", "1d-fixed")],
            chance=CHANCE,
            selection_note="The same runs with a decoupled weight decay of 0.1 on every weight, the table included "
            "(AdamW).",
            title="Accuracy gaps between encodings by weight decay",
        ),
        published_comparison(
            rows_of(data, labels, WEIGHT_DECAY),
            metric=OOD,
            published={label: value for label, value in published.WEIGHT_DECAY.items() if label in labels},
            source=published.SOURCE.format("Tables A5 and A6"),
            n_published=published.SEEDS_PUBLISHED if is_papers_model(data) else None,
            label=difference_from_paper(data),
            condition=WEIGHT_DECAY,
            title="Accuracy with weight decay 0.1: comparison with published results",
        ),
        training_comparison(data, labels, published.TRAINING_WITH_DECAY, "Tables A5 and A6", WEIGHT_DECAY),
        curves_of(data, labels, WEIGHT_DECAY, "Learning curves with weight decay 0.1"),
    ]
