"""Provenance panel: command, code, versions, machine and computing time of the runs, and the runs that are missing."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence

from posenc.workbench.report.number_format import count, join_words
from posenc.workbench.report.page import Block, Facts, Panel, Table, Text
from posenc.workbench.report.result_rows import Row, is_finite


def provenance_panel(
    rows: Sequence[Row],
    *,
    planned: int | None = None,
    missing: Sequence[Mapping[str, str]] = (),
    not_run: Sequence[str] = (),
    title: str = "Provenance",
    caption: str = "",
) -> Panel:
    """Show how the results of a page were made, so that they can be made again.

    Args:
        rows: One mapping per finished run, with any of the keys "command", "commit", "dirty", "versions", "machine",
            "device", "seconds" and "finished_at". Absent values are shown as "not recorded". Rows with "unit", the
            identity of the run, are listed with their labels and "key", the key of the code that made them.
        planned: Number of planned runs.
        missing: One mapping {"unit", "reason"} per run that failed: its label and the error.
        not_run: Sentences on what the page leaves out by design.
        title: Title of the panel.
        caption: Text below the title.

    Returns:
        The panel.
    """
    facts = [
        ("Runs", (_run_count(len(rows), planned, len(missing)),)),
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
        blocks.append(Table("Runs without a result", ("Run", "Reason"), body, prose=True))
    unaccounted = 0 if planned is None else planned - len(rows) - len(missing)
    if unaccounted > 0:
        runs = count(unaccounted, "planned run")
        blocks.append(Text((f"{runs} neither finished nor failed. Run the same command again to continue.",)))
    if any("unit" in row for row in rows):
        blocks.append(_runs(rows))
    if not_run:
        blocks.append(Text(("Not run: " + " ".join(not_run),)))
    return Panel(title, tuple(blocks), caption)


def _runs(rows: Sequence[Row]) -> Table:
    """Table with the identity of each run."""
    body = tuple(
        tuple(
            "not recorded" if row.get(name) in (None, "") else str(row[name])
            for name in ("scheme", "setting", "seed", "unit", "key", "finished_at")
        )
        for row in sorted(rows, key=lambda row: tuple(str(row.get(name)) for name in ("setting", "scheme", "seed")))
    )
    columns = ("variant", "condition", "seed", "run", "code", "finished")
    return Table("Runs: posenc results --run RUN prints the settings and the source of one", columns, body, folded=True)


def _run_count(done: int, planned: int | None, missing: int) -> str:
    text = f"{done} finished" if planned is None else f"{done} of {planned} finished"
    return f"{text}, {missing} without a result" if missing else text


def _distinct(rows: Sequence[Row], key: str) -> tuple[str, ...]:
    counts = Counter(str(row[key]) for row in rows if row.get(key) not in (None, ""))
    if not counts:
        return ("not recorded",)
    if len(counts) == 1:
        return tuple(counts)
    return tuple(f"{value} ({count(n, 'run')})" for value, n in sorted(counts.items()))


def _code(rows: Sequence[Row]) -> tuple[str, ...]:
    counts = Counter((str(row.get("commit") or "commit not recorded"), bool(row.get("dirty"))) for row in rows)
    if not counts:
        return ("not recorded",)
    lines = [
        commit + (", with uncommitted changes" if dirty else "") + (f" ({count(n, 'run')})" if len(counts) > 1 else "")
        for (commit, dirty), n in sorted(counts.items())
    ]
    if len(counts) > 1:
        lines.append("This page shows runs of different code versions.")
    return tuple(lines)


def _versions(rows: Sequence[Row]) -> tuple[str, ...]:
    by_package: dict[str, set[str]] = {}
    for row in rows:
        for package, version in _mapping(row.get("versions")).items():
            by_package.setdefault(str(package), set()).add(str(version))
    if not by_package:
        return ("not recorded",)
    return (
        ", ".join(f"{package} {' and '.join(sorted(versions))}" for package, versions in sorted(by_package.items())),
    )


def _machines(rows: Sequence[Row]) -> tuple[str, ...]:
    """One line per machine: "AMD EPYC, 2 cores, 24 GiB, Linux"."""
    machines = {}
    for row in rows:
        machine = _mapping(row.get("machine"))
        if machine:
            memory = machine.get("memory_bytes")
            size = f"{float(memory) / 2**30:.0f} GiB" if is_finite(memory) else ""
            cores = f"{machine['cores']} cores" if "cores" in machine else ""
            machines[
                ", ".join(filter(None, [str(machine.get("cpu", "")), cores, size, str(machine.get("system", ""))]))
            ] = 1
        elif row.get("machine"):
            machines[str(row["machine"])] = 1
    return tuple(machines) or ("not recorded",)


def _mapping(value: object) -> Mapping[str, object]:
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except json.JSONDecodeError:
            return {}
    return value if isinstance(value, Mapping) else {}


def _time(rows: Sequence[Row]) -> str:
    seconds = [float(row["seconds"]) for row in rows if is_finite(row.get("seconds"))]
    if not seconds:
        return "not recorded"
    text = f"{_duration(sum(seconds))} in total, {_duration(sum(seconds) / len(seconds))} per run"
    return text if len(seconds) == len(rows) else f"{text} (recorded by {len(seconds)} of {count(len(rows), 'run')})"


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
    return times[0] if times[0] == times[-1] else join_words([f"first run {times[0]}", f"last run {times[-1]}"])
