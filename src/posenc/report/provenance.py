"""What was run and what was not: the panel that lets another person run it again."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence

from posenc.report.page import Block, Facts, Panel, Table, Text
from posenc.report.rows import Row, count, finite, listed


def what_was_run(
    rows: Sequence[Row],
    *,
    planned: int | None = None,
    missing: Sequence[Mapping[str, str]] = (),
    not_run: Sequence[str] = (),
    title: str = "What was run and what was not",
    caption: str = "",
) -> Panel:
    """Command, commit, versions, device, time and number of units; what is missing, and why.

    Args:
        rows: one per finished unit, with any of command, commit, dirty, versions, machine, device, seconds and
            finished_at; what is absent is said to be unknown rather than left out.
        planned: how many units the study meant to run.
        missing: {"unit", "reason"} of the units that failed or were not reached.
        not_run: sentences on what this page leaves out by design.
    """
    facts = [
        ("Units", (_units(len(rows), planned, len(missing)),)),
        ("Command", _distinct(rows, "command")),
        ("Code", _code(rows)),
        ("Versions", _versions(rows)),
        ("Device", _distinct(rows, "device")),
        ("Machine", _machines(rows)),
        ("Computing time", (_time(rows),)),
        ("Finished", (_finished(rows),)),
    ]
    blocks: list[Block] = [Facts(tuple(facts), literal=("Command",))]
    if missing:
        body = tuple((str(row.get("unit", "?")), str(row.get("reason", "") or "no reason recorded")) for row in missing)
        blocks.append(Table("Units without a result", ("Unit", "Reason"), body, prose=True))
    unaccounted = 0 if planned is None else planned - len(rows) - len(missing)
    if unaccounted > 0:
        units = count(unaccounted, "planned unit")
        blocks.append(Text((f"{units} neither finished nor failed: the same command again goes on from there.",)))
    if not_run:
        blocks.append(Text(("Not run: " + " ".join(not_run),)))
    return Panel(title, tuple(blocks), caption)


def _units(done: int, planned: int | None, missing: int) -> str:
    told = f"{done} finished" if planned is None else f"{done} of {planned} finished"
    return f"{told}, {missing} without a result" if missing else told


def _distinct(rows: Sequence[Row], key: str) -> tuple[str, ...]:
    counted = Counter(str(row[key]) for row in rows if row.get(key) not in (None, ""))
    if not counted:
        return ("not recorded",)
    if len(counted) == 1:
        return tuple(counted)
    return tuple(f"{value} ({count(n, 'unit')})" for value, n in sorted(counted.items()))


def _code(rows: Sequence[Row]) -> tuple[str, ...]:
    counted = Counter((str(row.get("commit") or "commit not recorded"), bool(row.get("dirty"))) for row in rows)
    if not counted:
        return ("not recorded",)
    lines = [
        commit
        + (", with uncommitted changes" if dirty else "")
        + (f" ({count(n, 'unit')})" if len(counted) > 1 else "")
        for (commit, dirty), n in sorted(counted.items())
    ]
    if len(counted) > 1:
        lines.append("Units of different code stand side by side on this page.")
    return tuple(lines)


def _versions(rows: Sequence[Row]) -> tuple[str, ...]:
    found: dict[str, set[str]] = {}
    for row in rows:
        for package, version in _mapping(row.get("versions")).items():
            found.setdefault(str(package), set()).add(str(version))
    if not found:
        return ("not recorded",)
    return (", ".join(f"{package} {' and '.join(sorted(versions))}" for package, versions in sorted(found.items())),)


def _machines(rows: Sequence[Row]) -> tuple[str, ...]:
    """`AMD EPYC, 2 cores, 24 GiB, Linux`, a line for each machine."""
    found = {}
    for row in rows:
        machine = _mapping(row.get("machine"))
        if machine:
            memory = machine.get("memory_bytes")
            size = f"{float(memory) / 2**30:.0f} GiB" if finite(memory) else ""
            cores = f"{machine['cores']} cores" if "cores" in machine else ""
            found[
                ", ".join(filter(None, [str(machine.get("cpu", "")), cores, size, str(machine.get("system", ""))]))
            ] = 1
        elif row.get("machine"):
            found[str(row["machine"])] = 1
    return tuple(found) or ("not recorded",)


def _mapping(value: object) -> Mapping[str, object]:
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except json.JSONDecodeError:
            return {}
    return value if isinstance(value, Mapping) else {}


def _time(rows: Sequence[Row]) -> str:
    known = [float(row["seconds"]) for row in rows if finite(row.get("seconds"))]
    if not known:
        return "not recorded"
    told = f"{_duration(sum(known))} in all, {_duration(sum(known) / len(known))} per unit"
    return told if len(known) == len(rows) else f"{told} ({len(known)} of {count(len(rows), 'unit')} recorded it)"


def _duration(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    parts = [
        f"{hours} h" if hours else "",
        f"{minutes} min" if minutes else "",
        f"{rest} s" if rest and not hours else "",
    ]
    return " ".join(part for part in parts if part)


def _finished(rows: Sequence[Row]) -> str:
    times = sorted(str(row["finished_at"]) for row in rows if row.get("finished_at"))
    if not times:
        return "not recorded"
    return times[0] if times[0] == times[-1] else listed([f"first unit {times[0]}", f"last unit {times[-1]}"])
