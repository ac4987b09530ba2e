"""The panels of the language study."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from posenc.workbench.studies import Request
from posenc.workbench.studies.language import length_plots, plots, recall_plots, rotary_plots
from posenc.workbench.studies.language.conditions import PUBLISHED_TASKS, RECALL_TASKS
from posenc.workbench.studies.language.presets import LanguagePreset
from posenc.workbench.studies.language.variants import (
    COMPARED,
    EXTRAPOLATION,
    NGRAMS,
    RECALL,
    RECENT,
    RECENT_BESIDE,
    ROTARY,
)
from posenc.workbench.studies.shared.declarations import MAIN, Needs, PanelSpec


def _text_needs(variants: Sequence[str]) -> Callable[[Request, LanguagePreset], Needs]:
    """Variants on the text, with the n-gram baselines."""

    def needs(request: Request, preset: LanguagePreset) -> Needs:
        return {MAIN: (*variants, *NGRAMS)}

    return needs


def _extrapolation_needs(request: Request, preset: LanguagePreset) -> Needs:
    """The variants of the preset; all variants of the panel if it is asked for by name."""
    return {MAIN: (*(preset.extrapolation if request.panels is None else EXTRAPOLATION), *NGRAMS)}


def _recall_needs(request: Request, preset: LanguagePreset) -> Needs:
    """All variants on copying and needles; if the panel is asked for by name, the compared ones on the other tasks.

    A preset may name the variants of a request by name, for all tasks alike.
    """
    published = {task.label: RECALL for task in PUBLISHED_TASKS}
    if request.panels is None:
        return published
    if preset.recall_variants:
        return {task.label: preset.recall_variants for task in RECALL_TASKS}
    return {task.label: COMPARED for task in RECALL_TASKS} | published


def _no_needs(request: Request, preset: LanguagePreset) -> Needs:
    """No runs of its own: the panel shows those of the other panels."""
    return {}


PANELS: Mapping[str, PanelSpec] = {
    "loss": PanelSpec(
        about="loss at the training length and at the longest context, with n-gram baselines",
        shows="no published figure",
        needs=_text_needs(COMPARED),
        draw=plots.loss_by_encoding,
    ),
    "rotary": PanelSpec(
        about="loss by rotated parts: queries, keys, values, outputs",
        shows="Su 2025, kexue.fm/archives/10862",
        needs=_text_needs(ROTARY),
        draw=rotary_plots.loss_by_rotated_parts,
    ),
    "extrapolation": PanelSpec(
        about="loss by context length, beyond the training length",
        shows="Press et al. 2021, Fig. 1",
        needs=_extrapolation_needs,
        draw=length_plots.loss_by_context_length,
    ),
    "recent": PanelSpec(
        about="loss by context length of encodings since 2024, beside RoPE, ALiBi and none",
        shows="no published figure",
        needs=_text_needs((*RECENT_BESIDE, *RECENT)),
        draw=length_plots.loss_of_recent_encodings,
    ),
    "recall": PanelSpec(
        about="accuracy of copying, reversing, sorting and retrieval by sample length; by name it needs no text, and "
        "at quick it has four encodings",
        shows="Kazemnejad et al. 2023, Fig. 2",
        needs=_recall_needs,
        draw=recall_plots.accuracy_by_sample_length,
    ),
    "generation": PanelSpec(
        about="generated text and its speed",
        shows="no published figure",
        needs=_text_needs(COMPARED),
        draw=plots.generated_text,
    ),
    "curves": PanelSpec(
        about="learning curves", shows="no published figure", needs=_no_needs, draw=plots.learning_curves
    ),
    "variants": PanelSpec(
        about="schemes and parameters of the variants",
        shows="no published figure",
        needs=_no_needs,
        draw=plots.variant_tables,
    ),
}
