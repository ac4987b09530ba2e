"""The settings of one run of the language study as plain JSON, and sentences on the text of a store's runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import torch

from posenc.models.language import LanguageConfig
from posenc.models.segment_rule import line_ends
from posenc.workbench.data.reading_options import ReadingOptions
from posenc.workbench.runs import RunSpec
from posenc.workbench.storage.store import Store
from posenc.workbench.storage.stored_records import StoredRecords
from posenc.workbench.studies import Request
from posenc.workbench.studies.language.conditions import RecallCondition, condition
from posenc.workbench.studies.language.presets import PRESETS, RecallScale
from posenc.workbench.studies.language.recall_model import MULTIPLE, MULTIPLES, draw_samples
from posenc.workbench.studies.language.stored_text import StoredText, load_text, store_text, text_path
from posenc.workbench.studies.language.variants import (
    NGRAMS,
    NO_SEGMENTS,
    RECENT,
    SCALED,
    SEGMENTED,
    reads_segments,
    trained_as,
    variant,
)
from posenc.workbench.studies.shared.changes import changed_preset, request_of
from posenc.workbench.studies.shared.own_data import own_plan, parts_settings
from posenc.workbench.tasks import text
from posenc.workbench.tasks.text.tokenizers import UNKNOWN_WORD
from posenc.workbench.training.loop import Best, TrainingConfig

BEST = Best(metric="loss")
"""Choice of the step on a user's text: by the loss on the validation part."""
PARTS = {
    False: "Its first 90% are for training, the next 5% for evaluations during training, and the last 5% for the "
    "reported results.",
    True: "It is cut into ten blocks. Each seed trains on eight of them, chooses the step of the training on the "
    "ninth, and reports results on the tenth.",
}
"""Sentence on the parts of a text, by whether they depend on the seed."""


BY_DOCUMENT = (
    "Each seed draws an order of its documents. It reports results on a tenth, chooses the step of the training on "
    "another tenth, and trains on the others. A document is in one part only: the last one of each part is cut to the "
    "size of the part, and its rest, and tokens of about two more documents, are in no part."
)
GIVEN = "The train, val and test files are its parts: the val file chooses the step of the training."
"""Sentence on the parts of a text with a train, a val and a test file."""
GIVEN_VALIDATION = {
    False: "Evaluations during training are on the last 5% of the train file.",
    True: "The step of the training is chosen on a tenth of the train file, which the seed draws; the models train on "
    "the rest.",
}
"""Sentence on the validation part of a text with a val file, by whether it depends on the seed."""
EXCERPT = 50
"""Tokens of the beginning of a text that a sentence shows."""


def run_settings(request: Request, store: Store, label: str, variant_label: str) -> dict[str, Any] | None:
    """Settings of a run; None for segments on a text without line ends, unless they are asked for by name.

    Its text is written into the store.

    Args:
        request: The request.
        store: Store of the runs.
        label: Label of the condition.
        variant_label: Label of the variant.

    Returns:
        Settings as plain JSON, or None.

    Raises:
        ValueError: The text is absent or too short, or the variant cannot be built.
    """
    preset, task = changed_preset(PRESETS, request), condition(label)
    if isinstance(task, RecallCondition):
        return _recall_settings(task, preset.recall, variant_label, request.device)
    window = preset.window
    path = text_path(request.source, request.data)
    own, given = own_plan(preset, request) is not None, request.source is not None
    reading = msgspec.convert(request.reading, ReadingOptions)
    lengths = {"window": window, "max_multiple": preset.max_multiple}
    stored, counts, key = store_text(store.root, path, **lengths, by_seed=own, own=given, reading=reading)
    settings: dict[str, Any] = {"text": msgspec.to_builtins(stored), "window": window, "targets": preset.targets}
    record = StoredRecords(store.root).get(key)  # those of the store itself may be older than store_text's
    split = "given" if record is not None and "file" in str(record.options["split"]) else "seed"
    settings |= {"dataset": key} | (parts_settings(split, counts, stored.unit) if own else {})
    if variant_label in NGRAMS:
        return {**settings, "order": NGRAMS[variant_label]}
    config, longest = preset.model.config(stored.vocabulary), stored.max_multiple * window
    training = msgspec.structs.replace(preset.training, best=BEST) if own else preset.training
    segmented = reads_segments(variant_label)
    separators = _separators(store, stored) if segmented else ()
    if segmented and not separators and variant_label not in (request.schemes or ()):
        return None
    return settings | _training_settings(
        variant_label, config, window, longest, training, request.device, separators=separators
    )


def _separators(store: Store, stored: StoredText) -> tuple[int, ...]:
    """Numbers of the tokens with line ends that a text has; none for words, whose numbers depend on the seed."""
    whole = load_text(store.root, stored)
    if stored.unit in ("words", "tokens"):
        return ()
    known = torch.unique(whole.tokens).tolist()
    ends = set(line_ends(whole.vocabulary))
    return tuple(number for number in known if number in ends)


def _lacks_segments(store: Store, stored: StoredText) -> bool:
    """True if a text has no segments; False also if the store, as one from a pack, lacks the text."""
    try:
        return not _separators(store, stored)
    except ValueError:
        return False


def _recall_settings(task: RecallCondition, scale: RecallScale, variant_label: str, device: str) -> dict[str, Any]:
    if reads_segments(variant_label):
        raise ValueError(
            f"{variant_label} reads segments, and samples of {task.title} have no separators. Ask for a text instead: "
            "--panels recent"
        )
    config, longest = scale.model.config(task.vocabulary(scale)), scale.max_multiple * scale.window
    if scale.max_multiple & (scale.max_multiple - 1):
        raise ValueError(
            f"the longest samples are 1, 2, 4, .. times the training length; got {scale.max_multiple} times. Use --set "
            "recall.max_multiple=4."
        )
    try:
        settings = {"task": task.task_settings(scale), "window": scale.window}
        draw_samples(settings["task"], 1, scale.window, torch.Generator().manual_seed(0), full=True)
    except ValueError as error:
        raise ValueError(
            f"{task.title} cannot be trained at {scale.window} tokens: {error} Change --set recall.window or --set "
            "recall.needles, or leave --panels recall out."
        ) from None
    settings |= {} if scale.max_multiple == MULTIPLES[-1] else {MULTIPLE: scale.max_multiple}
    return settings | _training_settings(variant_label, config, scale.window, longest, scale.training, device)


def _training_settings(
    label: str,
    config: LanguageConfig,
    window: int,
    longest: int,
    training: TrainingConfig,
    device: str,
    *,
    separators: tuple[int, ...] = (),
) -> dict[str, Any]:
    """Settings of a trained variant. Raises ValueError for a variant that cannot be built."""
    one = variant(label, config, longest=longest, window=window, separators=separators)
    try:
        with torch.no_grad():  # an encoding that does not fit is refused before anything is trained
            one.model(window).eval()(torch.zeros(1, 2, dtype=torch.long))
    except ValueError as error:
        raise ValueError(f"{label!r} cannot be built: {error}") from None
    settings = {"row": msgspec.to_builtins(one), "training": training.plain, "device": device}
    return settings | ({"schedule": SCALED[label], "trained_as": trained_as(label)} if label in SCALED else {})


def _contents(store: Store, stored: StoredText) -> str:
    """Sentences on the vocabulary and the beginning of a text; the number of its tokens alone without the text.

    A store that came from a pack holds no text.
    """
    try:
        whole = load_text(store.root, stored)
    except ValueError:
        return f"The text has {stored.vocabulary:,} different {stored.unit}."
    begins = f'begins "{text.printable(" ".join(whole.decode(whole.tokens[:EXCERPT]).split()))} .."'
    listed = text.vocabulary_phrase(whole)
    used, known = text.distinct_tokens(whole), len(whole.vocabulary)
    sentence = f"The text has {used:,} different {stored.unit}{f' of {known:,}' if used < known else ''} and {begins}."
    if listed:
        sentence += f" Its {'most frequent' if stored.unit in ('words', 'subwords') else 'vocabulary'}: {listed}."
    if whole.most is not None:
        sentence += (
            f" The models know at most {stored.vocabulary - 1:,} words, the most frequent of the training part; all "
            f"others are the token {UNKNOWN_WORD}."
        )
    return sentence


def _parts(store: Store, spec: RunSpec) -> str:
    """Sentences on the parts of the text of a run."""
    record = store.record_of(spec)
    division = str(record.options.get("split", "")) if record is not None else ""
    if "as given" in division:
        return GIVEN
    if division.startswith("val file"):
        return f"The results are those on the val file. {GIVEN_VALIDATION['split' in spec.settings]}"
    return BY_DOCUMENT if division.startswith("by document") else PARTS["split" in spec.settings]


def remarks(store: Store, specs: Sequence[RunSpec]) -> Sequence[str]:
    """Sentences on the text of these runs: its vocabulary, its splits, and the longest context that it allows."""
    spec = next((spec for spec in specs if "text" in spec.settings), None)
    if spec is None:
        return ()
    stored, window = msgspec.convert(spec.settings["text"], StoredText), spec.settings["window"]
    sentences = [f"{_contents(store, stored)} {_parts(store, spec)}"]
    longest = changed_preset(PRESETS, request_of(spec.preset)).max_multiple
    if stored.max_multiple < longest:
        sentences.append(
            f"The text is too short for contexts of {longest * window:,} tokens: the longest context here is "
            f"{stored.max_multiple * window:,} tokens ({stored.max_multiple} times the training length)."
        )
    labels = {spec.variant for spec in specs}
    if labels & (set(RECENT) - set(SEGMENTED)) and not labels & set(SEGMENTED) and _lacks_segments(store, stored):
        sentences.append(f"{' and '.join(SEGMENTED)} are left out: their segments end at line ends, {NO_SEGMENTS}.")
    return sentences
