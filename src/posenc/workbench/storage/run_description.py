"""Description of one stored run: everything that is known of where its numbers come from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from posenc.workbench.storage.result_checks import SHOWN
from posenc.workbench.storage.store import Store
from posenc.workbench.storage.stored import Damage, Stored, StoreError
from posenc.workbench.storage.stored_code import in_words

LEAST = 4
"""Smallest number of digits that name a run."""


def find_run(store: Store, key: str) -> Stored | Damage:
    """Find a run by the beginning of its identity.

    Args:
        store: The store.
        key: The identity, the name of a copy such as "1f..9a.2", or its first digits.

    Returns:
        The run, or its damage.

    Raises:
        StoreError: No run or several runs have such an identity.
    """
    names = [name for name in store.folders.names() if name.startswith(key)]
    every = {stored.folder.name: stored for stored in store.everything()} if not names else {}
    names = names or [name for name, stored in every.items() if stored.name.startswith(key)]
    names = [key] if key in names else names
    if len(key) < LEAST or not names:
        raise StoreError(
            f"no run of {store.root} has an identity that begins with {key!r}; give at least {LEAST} digits. List the "
            f"runs: posenc results --format csv --out {store.root}"
        )
    if len(names) > 1:
        listed = ", ".join(sorted(names)[:SHOWN])
        raise StoreError(f"{len(names)} runs have an identity that begins with {key!r}: {listed}. Give more digits.")
    return store.stored(names[0]) or store.folders.damaged[names[0]]


def describe_run(store: Store, run: Stored) -> str:
    """Describe a run: labels, provenance, code, data, settings, files and numbers.

    Args:
        store: The store.
        run: The run.

    Returns:
        Lines of text.
    """
    spec, damage = run.spec, store.folders.verify(run.folder.name)
    facts: list[tuple[str, str]] = [("run", run.name)]
    facts += [("labels", ", ".join(f"{name} {value}" for name, value in each.items())) for each in store.labels_of(run)]
    facts += [("procedure", f"{spec.procedure}, version {spec.version} ({spec.entry})")]
    facts += [(f"parent, {role}", parent) for role, parent in spec.parents.items()]
    facts += list(_origin(run))
    facts += [("code", line) for line in _code(store, run)]
    record = store.record_of(spec)
    if record is not None:
        facts.append(("data", f"{record.kind} {record.name}, digest {record.digest}, record {record.key}"))
    facts += [("encoding", call) for call in run.timing.get("calls", ())]
    facts.append(("folder", str(run.folder)))
    facts.append(("files", f"DAMAGED: {damage.reason}" if damage else "as stored: sizes and digests agree"))
    facts += [("", f"{name}  {size:,} bytes  {run.digests.get(name, 'no digest')}") for name, size in run.files.items()]
    facts += [("left out", f"{name}: {reason}") for name, reason in run.left_out.items()]
    lines = [f"{name + ':' if name else '':<20} {value}" for name, value in facts]
    settings = msgspec.json.format(msgspec.json.encode(spec.settings, order="sorted"), indent=2).decode()
    numbers = [f"  {name:<32} {value!r}" for name, value in run.metrics.items()]
    return "\n".join([*lines, "settings:", settings, "metrics:", *numbers])


def _origin(run: Stored) -> Iterator[tuple[str, str]]:
    origin, timing = run.provenance, run.timing
    changes = " with uncommitted changes" if origin.get("dirty") else ""
    yield "command", str(origin.get("command") or "not recorded")
    yield "commit", f"{origin.get('commit') or 'not recorded'}{changes}"
    for name in ("versions", "machine"):
        if isinstance(known := origin.get(name), Mapping):
            yield name, ", ".join(f"{key} {value}" for key, value in known.items())
    yield "device", str(origin.get("device") or timing.get("device") or "not recorded")
    plain: dict[str, Any] = {key: value for key, value in timing.items() if key not in ("calls", "device")}
    yield "timing", ", ".join(f"{key} {value}" for key, value in plain.items())


def _code(store: Store, run: Stored) -> Iterator[str]:
    """Lines on the code of a run: its key, and the files that differ from the present ones."""
    digests = store.code.get(run.code)
    if not digests:
        yield "unknown: an early version made this run, or its procedure has no source file"
        return
    path = store.code.folder / f"{run.code}.json"
    yield f"{run.code}, digests of {len(digests)} source files ({path})"
    changed = store.code.changed([(run, run.spec)])
    if changed:
        yield f"other than the present: {in_words(changed[0].modules)}"
    elif store.code.present(run.spec):
        yield "the same as the present"
