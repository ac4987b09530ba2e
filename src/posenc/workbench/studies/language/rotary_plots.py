"""Plot and table of rotary encodings: the loss by rotated parts, here and as published."""

from __future__ import annotations

from posenc.measure.statistics import mean
from posenc.workbench.report.estimators import rank_correlation_by_seed
from posenc.workbench.report.number_format import interval, number
from posenc.workbench.report.page import Panel, Table
from posenc.workbench.report.score_plot import score_plots
from posenc.workbench.report.seed_interval import interval_name, seed_interval
from posenc.workbench.studies.language import published
from posenc.workbench.studies.language.plots import LOSS, loss_at
from posenc.workbench.studies.language.results import LOSS_DIGITS
from posenc.workbench.studies.language.variants import RELATIVE, ROTARY
from posenc.workbench.studies.shared.classification_panels import empty_panel, rows_labeled, seeds_by_label
from posenc.workbench.studies.shared.compared_score import held_out_items
from posenc.workbench.studies.shared.declarations import MAIN
from posenc.workbench.studies.shared.page_data import PageData


def loss_by_rotated_parts(data: PageData) -> list[Panel]:
    """Loss of the nine rotary encodings beside the published ones."""
    title, by_label = "Rotation of queries, keys, values and outputs", seeds_by_label(data, LOSS, MAIN)
    finished = [label for label in ROTARY if by_label.get(label)]
    if not finished:
        return empty_panel(title)
    held_out = held_out_items(data, MAIN)
    rows = rows_labeled(data.rows, MAIN, finished)
    panel = score_plots(rows, metrics={LOSS: loss_at(1)}, title=title, held_out=held_out)
    means = {label: mean(list(by_label[label].values())) for label in finished}
    order, published_order = sorted(finished, key=means.__getitem__), sorted(finished, key=published.LOSSES.__getitem__)
    distances, body = seeds_by_label(data, "moved", MAIN), []
    for rank, label in enumerate(order, 1):
        estimate, distance = seed_interval(list(by_label[label].values()), held_out=held_out), distances.get(label)
        size = number(estimate.mean, LOSS_DIGITS)
        body.append(
            (
                label,
                "yes" if label in RELATIVE else "no",
                f"{mean(list(distance.values())):.1e}" if distance else "–",
                f"{size} {interval(estimate, LOSS_DIGITS)}" if estimate.known else size,
                number(published.LOSSES[label], LOSS_DIGITS),
                str(rank),
                str(published_order.index(label) + 1),
            )
        )
    columns = (
        "Encoding",
        "Relative",
        "Distance under a shift (total variation)",
        "Loss here (nats)",
        "Published loss",
        "Rank here",
        "Rank published",
    )
    note = (
        f"Published: {published.SOURCE}, one run each of a model with 10^9 parameters: compare ranks, not values. "
        "Distance under a shift: mean total variation distance between the predictions before and after all positions "
        "are shifted by half the training length. In brackets: 95% "
        f"{interval_name(held_out)}."
    )
    correlation = rank_correlation_by_seed(LOSS, published.TIED_LOSSES)(data.rows)
    if correlation is not None:
        size = f"{number(correlation.mean)} {interval(correlation)}"
        note += f" Spearman's ρ with the published order, mean over seeds: {size}."
    return [Panel(title, (*panel.blocks, Table("Loss here and as published", columns, tuple(body), note)))]
