"""The settings of one run of the study of recordings, and sentences on the recordings of a store."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import msgspec

from posenc.workbench.report.number_format import count
from posenc.workbench.runs import RunSpec
from posenc.workbench.store import Store
from posenc.workbench.studies import Request
from posenc.workbench.studies.recordings import stored_recordings
from posenc.workbench.studies.recordings.conditions import condition
from posenc.workbench.studies.recordings.presets import PRESETS, Simulation
from posenc.workbench.studies.recordings.stored_recordings import Protocol
from posenc.workbench.studies.shared import sources
from posenc.workbench.studies.shared.changes import changed_preset, explicit_fields
from posenc.workbench.studies.shared.hidden_tokens.settings import MaskedTask, error_metric, settings_of
from posenc.workbench.studies.shared.hidden_tokens.variants import BASELINES, require_fit, variant
from posenc.workbench.studies.shared.own_data import EVALUATIONS, own_plan, parts_settings
from posenc.workbench.tasks import simulated_brain
from posenc.workbench.tasks.recordings import Recordings, read_recordings
from posenc.workbench.training.config import Best

HELD_OUT, SPLIT_SEED, SIMULATION_SEED = 0.3, 0, 0
SMALLEST_BATCH = 8


def run_settings(request: Request, store: Store, label: str, variant_label: str) -> dict[str, Any] | None:
    """Settings of a run, with its recordings in the store.

    Returns:
        The settings; None for a variant that needs coordinates if the recordings have none and the variant was not
        asked for by name.

    Raises:
        ValueError: The recordings cannot be read, or the variant cannot be run.
    """
    preset, rates = changed_preset(PRESETS, request), condition(label)
    digest = _store_recordings(request, store)
    tokens = stored_recordings.arrangement(store.root, digest)
    axes = 1 if tokens.coordinates is None else tokens.coordinates.shape[1]
    _refuse_few_channels(tokens.channels, (rates.rate, *rates.test_rates))
    chosen = variant_label if variant_label in BASELINES else variant(variant_label, preset.model.dim, axes)
    if not isinstance(chosen, str):
        if chosen.view not in tokens.views and variant_label not in (request.schemes or ()):
            return None
        require_fit(chosen, preset.model, tokens.views)
    task = MaskedTask(rate=rates.rate, test_rates=rates.test_rates)
    batch = preset.training.batch
    if preset.tokens_per_step is not None and "batch" not in explicit_fields(PRESETS, request, "training"):
        batch = max(SMALLEST_BATCH, min(batch, preset.tokens_per_step // tokens.channels))
    training = msgspec.structs.replace(preset.training, batch=batch)
    data = {"recordings": digest, "tokens": tokens.channels}
    if own_plan(preset, request) is None:
        return settings_of(chosen, task, preset.model, training, data, request.device)
    best = Best(metric=error_metric(task.test_rates[0]))
    every = max(1, training.epochs // EVALUATIONS)
    every = explicit_fields(PRESETS, request, "training").get("evaluate_every", every)
    training = msgspec.structs.replace(training, best=best, evaluate_every=every)
    data |= {"test_frames": preset.test_frames}
    parts = _parts(stored_recordings.record_of(store.root, digest))
    return settings_of(chosen, task, preset.model, training, data, request.device) | parts


def _parts(record: stored_recordings.RecordingsRecord) -> dict[str, Any]:
    """Entries on the parts of a user's recordings. Whole subjects are held out."""
    unit = "recordings" if len(set(record.subjects or ())) == len(record.train) else "subjects"
    return parts_settings("seed", stored_recordings.subject_parts(record, seed=0).counts, unit)


def _refuse_few_channels(channels: int, shares: Sequence[float]) -> None:
    """Raise ValueError if a share of the channels that is hidden is none of them, or all."""

    def hides_some(number: int) -> bool:
        return all(0 < round(share * number) < number for share in shares)

    if not hides_some(channels):
        least = next(number for number in itertools.count(channels) if hides_some(number))
        listed = " and ".join(f"{share:.0%}" for share in dict.fromkeys(shares))
        raise ValueError(
            f"these recordings have {channels} channels, and models are trained and tested with {listed} of them "
            f"hidden: each share has to hide at least one channel and leave one. Record {least} channels or more."
        )


def _store_recordings(request: Request, store: Store) -> str:
    """Put the user's recordings, or the simulated ones, into the store; return their digest."""
    preset, source = changed_preset(PRESETS, request), request.source
    protocol = Protocol(HELD_OUT, preset.test_frames, SPLIT_SEED)
    if own_plan(preset, request) is not None:
        protocol = Protocol(0.0, 0, SPLIT_SEED)  # kept whole
    if source is None:
        simulation = preset.simulation

        def simulate() -> Recordings:
            return simulated_brain.simulate(**simulation._asdict(), seed=SIMULATION_SEED)

        return stored_recordings.store(store.root, _simulation_text(simulation), simulate, protocol, simulated=True)

    def read() -> Recordings:
        return read_recordings(source, folder=store.root / "data")

    signature = stored_recordings.file_signature(source)
    return stored_recordings.store(store.root, signature, read, protocol, simulated=False)


def _simulation_text(simulation: Simulation) -> str:
    return repr((simulation._asdict(), SIMULATION_SEED))


def is_simulated(store: Store, digest: str) -> bool | None:
    """Return True if recordings of a store are simulated; None if the store has no record of it."""
    record = stored_recordings.stored_record(store.root, digest)
    if record is not None and record.simulated is not None:
        return record.simulated
    if digest in sources.names(store):
        return False
    # In older stores the record lacks this field; there the digest is listed under the parameters of the simulation.
    for preset in PRESETS.values():
        protocol = Protocol(HELD_OUT, preset.test_frames, SPLIT_SEED)
        if digest == stored_recordings.listed_digest(store.root, _simulation_text(preset.simulation), protocol):
            return True
    return None


def remarks(store: Store, specs: Sequence[RunSpec]) -> tuple[str, ...]:
    """Sentences on the recordings of these runs: their origin and sizes, and channels that were left out."""
    digests = dict.fromkeys(spec.settings["data"]["recordings"] for spec in specs)
    return tuple(sentence for digest in digests for sentence in _describe(store, digest))


def _describe(store: Store, digest: str) -> tuple[str, ...]:
    record, name = stored_recordings.stored_record(store.root, digest), sources.names(store).get(digest, "")
    simulated = is_simulated(store, digest)
    subject = name or ("simulated recordings (no file was given)" if simulated else "recordings")
    if record is None:
        return (f"Data: {subject}. The store lacks their record, so channels are numbered and modules are unknown.",)
    given = [word for word, value in (("modules", record.modules), ("coordinates", record.coordinates)) if value]
    if record.subjects is None:
        divided = (
            f"{count(len(record.train), 'training recording')} with {sum(record.train_lengths):,} time points, "
            f"{count(len(record.test), 'test recording')}"
        )
    else:
        items = _parts(record)["items"]
        divided = (
            f"{count(len(record.train), 'recording')} with {sum(record.train_lengths):,} time points; each seed holds "
            f"out {items['test']} of {sum(items[name] for name in ('train', 'validation', 'test'))} {items['unit']} "
            f"for testing and {items['validation'] or 'the ends of the others'} for the choice of the step"
        )
    sizes = f"{len(record.channels)} channels, {divided}"
    sentences = [f"Data: {subject}. {sizes}; {' and '.join(given) or 'neither modules nor coordinates'} given."]
    if simulated:
        sentences.append(
            "Each simulated channel is a linear function of one of the networks plus noise, so ridge regression is "
            "nearly the best possible predictor."
        )
    return (*sentences, record.note) if record.note else tuple(sentences)
