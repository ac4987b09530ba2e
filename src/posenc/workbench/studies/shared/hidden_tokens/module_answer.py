"""Answer to the question if learned tables separate given modules, with the tables that are given as controls."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from posenc.measure.statistics import Estimate
from posenc.workbench.report.number_format import join_words, number
from posenc.workbench.studies.shared.hidden_tokens.plots import chance_auc, estimates, with_interval
from posenc.workbench.studies.shared.hidden_tokens.trained_tables import learned_labels
from posenc.workbench.studies.shared.page_data import PageData


class ModuleTables(NamedTuple):
    """AUCs of the tables of a page, each by the variant, the highest first.

    Attributes:
        learned: Learned tables that do not separate the modules before training.
        separated: Learned tables whose AUC is above chance before training, as tables that read coordinates.
        given: Tables without trained values.
    """

    learned: Mapping[str, Estimate]
    separated: Mapping[str, Estimate]
    given: Mapping[str, Estimate]


def module_tables(data: PageData) -> ModuleTables:
    """Divide the tables of a page into learned and given ones.

    Args:
        data: Data of the page.

    Returns:
        The AUCs of the tables.
    """
    aucs, initial, chance = estimates(data, "auc", higher=True), estimates(data, "auc_initial"), chance_auc(data)
    trained = [label for label in learned_labels(data) if label in aucs]
    separated = [label for label in trained if label in initial and initial[label].mean > chance]
    return ModuleTables(
        learned={label: each for label, each in aucs.items() if label in trained and label not in separated},
        separated={label: each for label, each in aucs.items() if label in separated},
        given={label: each for label, each in aucs.items() if label not in trained},
    )


def module_answer(data: PageData, modules: str) -> str:
    """Answer to the question if a learned table separates modules beyond chance, by the interval of the best AUC.

    Tables that are given, and tables that separate the modules before training, are no answer and stand at the end.

    Args:
        data: Data of the page.
        modules: Noun for the modules.

    Returns:
        One or more sentences; "" without learned tables that have an AUC.
    """
    tables = module_tables(data)
    if not tables.learned and not tables.separated:
        return ""
    answer = _answer(tables.learned, chance_auc(data), modules)
    return f"{answer}{_separated(data, tables, modules)}{_given(tables)}"


def _answer(aucs: Mapping[str, Estimate], chance: float, modules: str) -> str:
    """Answer by the learned tables."""
    if not aucs:
        return f"No answer: every learned table separates {modules} before training."
    best = next(iter(aucs))
    highest, null = with_interval(aucs[best]), f"{number(chance)}, the 97.5th percentile with permuted modules"
    if aucs[best].mean <= chance:
        of = f"AUC of {best}" if len(aucs) == 1 else f"Highest AUC: {best},"
        return f"No: no learned table separates {modules} beyond chance. {of} {highest}; chance: {null}."
    if not aucs[best].above(chance):
        reason = "The interval includes chance" if aucs[best].known else "One seed gives no interval; chance"
        of = "has an AUC of" if len(aucs) == 1 else "has the highest AUC,"
        return f"Inconclusive: {best} {of} {highest}. {reason}: {null}."
    beyond = [label for label in aucs if aucs[label].above(chance)]
    others = [label for label in aucs if label not in beyond]
    answer = f"Yes: {best} separates {modules}, AUC {highest}; chance: {null}."
    if others:
        answer += f" Learned tables with an AUC above chance: {len(beyond)} of {len(aucs)}; {others[0]} is not among"
        answer += f" them ({with_interval(aucs[others[0]])})."
    return answer


def _separated(data: PageData, tables: ModuleTables, modules: str) -> str:
    """Sentence on learned tables that separate the modules before training."""
    if not tables.separated:
        return ""
    initial = estimates(data, "auc_initial")
    listed = [
        f"{label} ({number(initial[label].mean)}, then {number(each.mean)})" for label, each in tables.separated.items()
    ]
    return (
        f" Not counted, because they separate {modules} before training (AUC before, then after): {join_words(listed)}."
    )


def _given(tables: ModuleTables) -> str:
    """Sentence on the controls: tables that are given, not learned."""
    if not tables.given:
        return ""
    listed = join_words([f"{label} ({number(each.mean)})" for label, each in tables.given.items()])
    return f" Controls, whose tables are given, not learned: {listed}."
