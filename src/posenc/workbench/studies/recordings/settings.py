"""The settings of one run of the study of recordings, and sentences on the recordings of a store."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import msgspec

from posenc.workbench.dataset_record import GENERATED, digest_of, generated
from posenc.workbench.runs import RunSpec
from posenc.workbench.storage.store import Store
from posenc.workbench.studies import Request
from posenc.workbench.studies.recordings import stored_recordings
from posenc.workbench.studies.recordings.conditions import condition
from posenc.workbench.studies.recordings.presets import PRESETS, Simulation
from posenc.workbench.studies.recordings.stored_recordings import Protocol
from posenc.workbench.studies.shared.changes import changed_preset, explicit_fields
from posenc.workbench.studies.shared.hidden_tokens.settings import MaskedTask, error_metric, settings_of
from posenc.workbench.studies.shared.hidden_tokens.variants import BASELINES, MaskedVariant, require_fit, variant
from posenc.workbench.studies.shared.own_data import EVALUATIONS, own_plan, parts_settings
from posenc.workbench.tasks import simulated_brain
from posenc.workbench.tasks.recordings import Recordings, contents_of, cut_one_subject, read_recordings
from posenc.workbench.tasks.recordings.missing_values import Missing
from posenc.workbench.tasks.recordings.series import DROPPED, FILLED
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
    digest, key = _store_recordings(request, store)
    tokens = stored_recordings.arrangement(store.root, digest)
    axes = 1 if tokens.coordinates is None else tokens.coordinates.shape[1]
    _refuse_few_channels(tokens.channels, (rates.rate, *rates.test_rates))
    chosen: MaskedVariant | str = variant_label
    if variant_label not in BASELINES:
        chosen = variant(variant_label, preset.model, tokens.views, axes)
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
        return settings_of(chosen, task, preset.model, training, data, request.device) | {"dataset": key}
    best = Best(metric=error_metric(task.test_rates[0]))
    every = max(1, training.epochs // EVALUATIONS)
    every = explicit_fields(PRESETS, request, "training").get("evaluate_every", every)
    training = msgspec.structs.replace(training, best=best, evaluate_every=every)
    data |= {"test_frames": preset.test_frames}
    parts = _parts(stored_recordings.record_of(store.root, digest))
    return settings_of(chosen, task, preset.model, training, data, request.device) | parts | {"dataset": key}


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


def _parts(record: stored_recordings.RecordingsRecord) -> dict[str, Any]:
    """Entries on the parts of a user's recordings. Whole subjects are held out."""
    counts = stored_recordings.subject_parts(record, seed=0).counts
    return parts_settings("seed", counts, stored_recordings.unit_of(record))


def _store_recordings(request: Request, store: Store) -> tuple[str, str]:
    """Put the user's recordings, or the simulated ones, into the store with their record. Returns digest and key."""
    preset, source = changed_preset(PRESETS, request), request.source
    protocol = Protocol(HELD_OUT, preset.test_frames, SPLIT_SEED)
    if own_plan(preset, request) is not None:
        protocol = Protocol(0.0, 0, SPLIT_SEED)  # kept whole
    if source is None:
        simulation = preset.simulation

        def simulate() -> Recordings:
            return simulated_brain.simulate(**simulation._asdict(), seed=SIMULATION_SEED)

        text = _simulation_text(simulation)
        digest = stored_recordings.store(store.root, text, simulate, protocol, simulated=True)
        parts = stored_recordings.parts_of(stored_recordings.record_of(store.root, digest))
        settings = {**simulation._asdict(), "seed": SIMULATION_SEED}
        return digest, store.records.add(generated("simulated recordings", settings, parts))

    drop, fill, blocks = (request.reading.get(name) for name in ("drop", "fill", "blocks"))
    missing: Missing = fill or "times"

    def read() -> Recordings:
        recordings = read_recordings(source, drop=bool(drop), missing=missing, folder=store.root / "data")
        one = len(set(recordings.subjects)) == 1
        if not one and blocks is None:
            return recordings
        return cut_one_subject(recordings, blocks).validated(drop=bool(drop))  # A channel may be constant in a block.

    contents = contents_of(source, store.root / "data" / "file-digests.json")
    treated = digest_of([contents, bool(drop), fill]) if drop or fill else contents
    listed = treated if blocks is None else digest_of([treated, blocks])
    digest = stored_recordings.store(store.root, listed, read, protocol, simulated=False)
    record = stored_recordings.record_of(store.root, digest)
    # Recordings in which --drop or --fill changed something are another data set than the file as it is.
    stated: dict[str, Any] = {"drop": "constant and missing channels"} if drop else {}
    stated |= {"fill": fill} if fill else {}
    changed = DROPPED in record.note or FILLED in record.note
    named, reading = (treated, stated) if changed else (contents, {})
    if record.blocks:  # Chosen or stated, as many blocks of one file are one data set.
        named, reading = digest_of([treated, record.blocks]), {**reading, "blocks": record.blocks}
    described = stored_recordings.dataset_record(store.root, record, (digest, named), source.name, reading)
    return digest, store.records.add(described, source)


def _simulation_text(simulation: Simulation) -> str:
    return repr((simulation._asdict(), SIMULATION_SEED))


def is_simulated(store: Store, spec: RunSpec) -> bool:
    """Return True if the recordings of a run are simulated."""
    described, digest = store.record_of(spec), spec.settings["data"]["recordings"]
    if described is not None and (described.own or described.kind == GENERATED):
        return described.kind == GENERATED
    record = stored_recordings.stored_record(store.root, digest)
    if record is not None and record.simulated is not None:
        return record.simulated
    # In older stores the record lacks this field; there the digest is listed under the parameters of the simulation.
    protocols = ((preset, Protocol(HELD_OUT, preset.test_frames, SPLIT_SEED)) for preset in PRESETS.values())
    return digest in (
        stored_recordings.listed_digest(store.root, _simulation_text(preset.simulation), protocol)
        for preset, protocol in protocols
    )


def remarks(store: Store, specs: Sequence[RunSpec]) -> tuple[str, ...]:
    """Sentences on simulated recordings, and on recordings that the store lacks."""
    first = {spec.settings["data"]["recordings"]: spec for spec in specs}
    sentences = []
    for digest, spec in first.items():
        if stored_recordings.stored_record(store.root, digest) is None:
            sentences.append("The store lacks the recordings, so channels are numbered and modules are unknown.")
        if is_simulated(store, spec):
            sentences.append(
                "The recordings are simulated, because no file was given. Each channel is a linear function of one of "
                "the networks plus noise, so ridge regression is nearly the best possible predictor."
            )
    return tuple(sentences)
