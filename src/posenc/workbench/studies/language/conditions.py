"""The conditions of the language study: a text, and synthetic recall tasks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from typing_extensions import override

from posenc.workbench.studies.language.presets import RecallScale
from posenc.workbench.studies.language.variants import NGRAMS, reads_segments
from posenc.workbench.studies.shared.declarations import MAIN, Condition
from posenc.workbench.tasks.recall import SPECIAL

if TYPE_CHECKING:
    from posenc.workbench.studies.shared.page_data import PageData


@dataclass(frozen=True, kw_only=True)
class RecallCondition(Condition):
    """A recall task.

    Attributes:
        kinds: Number of separate alphabets that its symbols come from.
        needles: True if the number of needles is a setting of the task.
        about: Description of its samples.
    """

    kinds: int
    needles: bool = False
    about: str
    takes_file: bool = False

    def vocabulary(self, scale: RecallScale) -> int:
        """Number of different tokens."""
        return SPECIAL + self.kinds * scale.symbols

    def task_settings(self, scale: RecallScale) -> dict[str, Any]:
        """Settings of the task, under stored names."""
        task = {"name": self.label, "symbols": scale.symbols}
        return {**task, "needles": scale.needles} if self.needles else task

    @override
    def changes_in(self, data: PageData) -> Mapping[str, str]:
        """The task, and the model and training of the stored runs."""
        settings = next(spec.settings for spec in data.specs if spec.condition == self.label)
        model, training = settings["row"]["config"], settings["training"]
        return {
            "task": self.title,
            "training length": f"up to {settings['window']} tokens",
            "model": f"{model['depth']} layers of width {model['dim']}",
            "training": f"{training['epochs']:,} steps of {training['batch']} samples",
        }


def _is_trained(variant: str) -> bool:
    """Return False for n-gram baselines, which are counted on the text, and for encodings of segments.

    Recall tasks have no separators of segments.
    """
    return variant not in NGRAMS and not reads_segments(variant)


TEXT = Condition(label=MAIN, title="text")
COPY = RecallCondition(
    label="copy",
    title="copying",
    has_variant=_is_trained,
    kinds=1,
    about="A sample has random symbols, a separator, and the same symbols again. The answers are the symbols after the "
    "separator.",
)
NEEDLE = RecallCondition(
    label="needle",
    title="needle retrieval",
    has_variant=_is_trained,
    kinds=3,
    needles=True,
    about="Pairs of a key and a value (needles) stand among filler tokens. After a separator, each key occurs again, "
    "and the answer is its value. Longer samples have equally many needles and more fillers.",
)
REVERSE = RecallCondition(
    label="reverse",
    title="reversing",
    has_variant=_is_trained,
    kinds=1,
    about="A sample has random symbols, a separator, and the same symbols from the last to the first. The answers are "
    "the symbols after the separator.",
)
SORT = RecallCondition(
    label="sort",
    title="sorting",
    has_variant=_is_trained,
    kinds=1,
    about="A sample has random symbols, a separator, and the same symbols in a fixed order of all symbols. The answers "
    "are the symbols after the separator.",
)
MQAR = RecallCondition(
    label="mqar",
    title="multi-query associative recall",
    has_variant=_is_trained,
    kinds=3,
    about="Pairs of a key and a value stand in a row. After a separator, each key occurs again, in another order, and "
    "the answer is its value. Longer samples have more pairs, up to one for each key; fillers take the rest.",
)
RECALL_TASKS = (COPY, NEEDLE, REVERSE, SORT, MQAR)
PUBLISHED_TASKS = (COPY, NEEDLE)
"""Tasks that a preset trains unless the panel is asked for by name."""
CONDITIONS: Mapping[str, Condition] = {each.label: each for each in (TEXT, *RECALL_TASKS)}


def condition(label: str) -> Condition:
    """The condition with this label."""
    return CONDITIONS[label]
