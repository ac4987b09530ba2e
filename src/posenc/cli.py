"""The command line. Complete and closed: a new scheme or study appears in these commands and adds none."""

from __future__ import annotations

import dataclasses
import importlib.util
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro
from tyro.conf import Positional, arg

import posenc

app = tyro.extras.SubcommandApp()
Names = Annotated[tuple[str, ...] | None, arg(metavar="NAME ..")]
Numbers = Annotated[tuple[int, ...] | None, arg(metavar="N ..")]


@app.command
def run(
    study: Positional[str],
    preset: str = "quick",
    schemes: Names = None,
    seeds: Numbers = None,
    device: str = "cpu",
    data: Annotated[Path | None, arg(metavar="DIR")] = None,
    out: Path = Path("runs"),
    yes: bool = False,
) -> int:
    """Train a study's models, or go on where an earlier run stopped, and write its page.

    What is finished stays finished: run the same command again after a crash, or with more schemes or seeds.

    Try:

    posenc run latin-squares

    posenc run latin-squares --schemes 2d-fixed learned-0.35 "Shaw(values=False)" --seeds 0 1 2 3 4

    posenc run latin-squares --preset standard --data DIR --yes

    Args:
        study: Which study, as latin-squares.
        preset: quick (minutes, never asks), standard (hours) or paper (days).
        schemes: Rows to train; the preset's own otherwise.
        seeds: Seeds to train each row with; the preset's own otherwise.
        device: cpu, cuda, cuda:1.
        data: Folder of real data; $POSENC_DATA otherwise.
        out: The store: results, checkpoints and pages.
        yes: Start a long preset without asking.
    """
    from posenc import runner, studies
    from posenc.provenance import cores
    from posenc.store import Store

    _refuse_device(device)
    _refuse_missing("analysis", "scipy", "matplotlib", "jinja2")
    found = studies.find(study)
    studies.refuse_preset(found, preset)
    request = studies.Request(preset=preset, schemes=schemes, seeds=seeds, device=device, data=_data(data))
    store = Store(out)
    units = found.plan(request, store)
    executor = runner.pick(device)
    print(f"{found.question} {len(units)} runs on {executor}, results in {store.root}.")
    todo = [unit for unit in units if not store.finished(unit.key)]
    if todo and preset in found.asks:
        estimate = found.estimate(todo, store, cores() if device == "cpu" else 1)
        if not runner.confirm(estimate, yes, sys.stdin.isatty() and sys.stdout.isatty()):
            print("Nothing was started.")
            return 1
    report = runner.run(units, store, executor, cost=found.cost)
    for line in found.verdict(store, units):
        print(line)
    print(found.page(store, units, {unit.key: sentence for unit, sentence in report.failed}))
    return report.exit_code


@app.command
def report(
    study: Positional[str],
    preset: str = "quick",
    data: Annotated[Path | None, arg(metavar="DIR")] = None,
    out: Path = Path("runs"),
) -> int:
    """Write a study's page again from what its store holds; trains nothing.

    Try:

    posenc report latin-squares

    posenc report latin-squares --preset paper --out results/paper

    Args:
        study: Which study, as latin-squares.
        preset: Which preset's results.
        data: Folder of real data; $POSENC_DATA otherwise.
        out: The store.
    """
    from posenc import studies
    from posenc.store import Store

    found, store = studies.find(study), Store(out, create=False)
    studies.refuse_preset(found, preset)
    stored = [unit for unit in store.units() if (unit.study, unit.preset) == (study, preset)]
    if not stored:
        raise ValueError(f"{out} holds no results of {study} --preset {preset}. Make them: posenc run {study} "
                         f"--preset {preset} --out {out}")  # fmt: skip
    request = studies.Request(preset=preset, data=_data(data), device=stored[0].settings.get("device", "cpu"))
    have = {(unit.setting, unit.scheme, unit.seed) for unit in stored}
    missing = [u for u in found.plan(request, store) if (u.setting, u.scheme, u.seed) not in have]
    print(found.page(store, [*stored, *missing], {}))
    return 0


@app.command
def results(
    study: str | None = None,
    preset: str | None = None,
    format: Literal["table", "csv", "parquet", "latex"] = "table",  # the flag is --format
    out: Path = Path("runs"),
    to: Path | None = None,
) -> int:
    """Print or export the numbers of a store: one row per unit and metric.

    Columns: study, preset, setting, scheme, seed, metric, value, unit.

    Try:

    posenc results

    posenc results --format csv --out runs > results.csv

    posenc results --format parquet --to results.parquet

    Args:
        study: Only this study.
        preset: Only this preset.
        format: table for people; csv, parquet or latex for programs and papers.
        out: The store.
        to: Write to this file instead of the terminal.
    """
    from posenc.store import Store

    if to is not None and format == "table":
        raise ValueError(f"a table is for the terminal. Say what {to} is to be: --format csv, parquet or latex.")
    store = Store(out, create=False)
    if format == "table":
        _table(store.results(study, preset))
        return 0
    if to is not None:
        store.export(to, format, study, preset)
        print(to)
        return 0
    if format == "parquet":
        raise ValueError("parquet is a file, not text. Say where: posenc results --format parquet --to results.parquet")
    from posenc.export import encode

    sys.stdout.write(encode(store.results(study, preset), format).decode())
    return 0


@app.command(name="list")
def list_schemes(format: Literal["table", "json"] = "table", unbounded: bool = False, axes: int | None = None) -> int:
    """Every encoding with its measured claims.

    Try:

    posenc list

    posenc list --unbounded --axes 2

    posenc list --format json

    Args:
        format: table or json.
        unbounded: Only those that take any position.
        axes: Only those that can take positions of so many axes.
    """
    rows = [row for row in _claims() if not unbounded or row["range"] is None]
    rows = [row for row in rows if axes is None or axes in row["axes"] or "any" in row["axes"]]
    if format == "json":
        print(json.dumps(rows, indent=2))
        return 0
    from rich.table import Table

    table = Table(*("name", "says", "translation", "learned", "range", "axes", "sites", "sharing"), box=None)
    for row in rows:
        limits = "any position" if row["range"] is None else "{:g} to {:g}".format(*row["range"])
        table.add_row(
            row["name"], row["summary"], row["translation"], "yes" if row["learned"] else "no", limits,
            ", ".join(map(str, row["axes"])), ", ".join(row["sites"]) or "none", row["sharing"],
        )  # fmt: skip
    _console().print(table)
    return 0


@app.command
def check(what: Positional[str], compiling: bool = False) -> int:
    """Run the contract on an encoding: one of ours by name, or every one in your own file.

    Try:

    posenc check RoPE

    posenc check my_scheme.py --compiling

    Args:
        what: A name of posenc list, or a Python file.
        compiling: Also the slow checks that call torch.compile.
    """
    from posenc import specification
    from posenc.contract import check as run_contract

    schemes = _schemes_in(Path(what)) if what.endswith(".py") else [specification.find(what)]
    failed = False
    for scheme in schemes:
        found = run_contract(scheme, compiling=compiling)
        print(f"{scheme.__name__}: {found}")
        failed = failed or not found.ok
    return int(failed)


@app.command
def data(
    task: Positional[Literal["latin-squares"]],
    read: Path | None = None,
    to: Path | None = None,
    train: int = 8000,
    iid: int = 1000,
    ood: int = 300,
    rule: Literal["authors", "entailment"] = "authors",
    seed: int = 0,
) -> int:
    """Make a task's data as a file, or check a file of it that you have.

    Try:

    posenc data latin-squares --to puzzles.npz --train 8100 --seed 3

    posenc data latin-squares --read my_puzzles.csv

    Args:
        task: Which task.
        read: A CSV file in the authors' format, to check and describe.
        to: Where to save what is made.
        train: Training puzzles.
        iid: Held-out puzzles of the same distribution.
        ood: Out-of-distribution puzzles, from which the others are kept away.
        rule: What the three classes are.
        seed: The same puzzles from the same seed everywhere.
    """
    from posenc.tasks import latin_squares

    if (read is None) == (to is None):
        raise ValueError("say one thing: --to FILE makes puzzles, --read FILE.csv checks those you have.")
    if read is not None:
        puzzles = latin_squares.read_csv(read, rule)
        counts = {f"{kind}-vector": int((puzzles.kind == kind).sum()) for kind in (1, 2, 3)}
        print(f"{read}: {len(puzzles)} puzzles, each with one answer: {counts}, digest {puzzles.digest()[:16]}")
        return 0
    assert to is not None
    made = latin_squares.generate(train, iid, ood, seed=seed, rule=rule)
    latin_squares.save(made, to)
    print(json.dumps(made.manifest, indent=2))
    print(to)
    return 0


def main(argv: Sequence[str] | None = None) -> None:
    """What ``posenc`` runs: a sentence and a non-zero exit for whatever goes wrong at the door."""
    from posenc.runner import Interrupted

    try:
        status = app.cli(
            prog="posenc", args=None if argv is None else list(argv), description=_description(), use_underscores=False
        )
    except Interrupted:  # the runner has said how to continue
        sys.exit(130)
    except KeyboardInterrupt:
        print("posenc: stopped.", file=sys.stderr)
        sys.exit(130)
    except BrokenPipeError:  # a pager or head that has read enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except (ValueError, ImportError, OSError) as error:
        print(f"posenc: {error}", file=sys.stderr)
        sys.exit(2)
    sys.exit(int(status or 0))


def _description() -> str:
    return f"posenc {posenc.__version__}: every way of telling a network where things are."


def _data(given: Path | None) -> Path | None:
    """The folder of real data: --data, else $POSENC_DATA."""
    folder = given or (Path(os.environ["POSENC_DATA"]) if os.environ.get("POSENC_DATA") else None)
    if given is not None and not given.is_dir():
        raise ValueError(f"--data {given} is not a folder. Give the one that holds lst/, or leave --data out.")
    return folder


def _refuse_device(device: str) -> None:
    import torch

    try:
        torch.zeros(1, dtype=torch.float64, device=device).sum().item()  # positions are computed in float64
    except (RuntimeError, AssertionError, TypeError, NotImplementedError) as error:
        reason = str(error).splitlines()[0]
        raise ValueError(f"the device {device!r} cannot be used here ({reason}). Use --device cpu.") from None


def _refuse_missing(extra: str, *modules: str) -> None:
    """Before hours of training, and not after them: what the page needs is installed."""
    missing = [module for module in modules if importlib.util.find_spec(module) is None]
    if missing:
        raise ValueError(f"a study's page needs {missing[0]}, which is not installed: pip install 'posenc[{extra}]'")


def _claims() -> list[dict[str, Any]]:
    """One row a scheme, from its examples: what they claim in common, and the numbers of axes that they take."""
    from posenc.schemes import catalogue

    rows = []
    for name, kind in catalogue().items():
        claims = [kind(**options).claims for options in kind.examples]
        first = dataclasses.asdict(claims[0])
        rows.append(
            {
                "name": name,
                "summary": (sys.modules[kind.__module__].__doc__ or "").split("\n")[0],
                **first,
                "axes": sorted({claim.axes or "any" for claim in claims}, key=str),
                "sites": sorted(set().union(*(claim.sites for claim in claims))),
            }
        )
    return rows


def _schemes_in(path: Path) -> list[Any]:
    from posenc.schemes import schemes_in

    name = f"file:{path.stem}"  # no module's own name: a random.py of somebody's must not stand for the real one
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None or not path.is_file():
        raise ValueError(f"there is no file {path}. Give a Python file with a class that subclasses posenc.Scheme.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # where pickle looks for its classes
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise ValueError(f"{path} cannot be imported: {type(error).__name__}: {error}") from error
    found = list(schemes_in(module).values())
    if not found:
        raise ValueError(f"{path} defines no scheme. Subclass posenc.Scheme and write its abstract `prepare`.")
    return found


def _table(rows: list[dict[str, Any]]) -> None:
    """Mean and SD over seeds of each scheme's accuracies."""
    from statistics import mean, stdev

    from rich.table import Table

    if not rows:
        print("The store holds no finished unit of that study and preset.")
        return
    groups: dict[tuple[str, ...], dict[str, list[float]]] = {}
    for row in rows:
        labels = (row["study"], row["preset"], row["setting"], row["scheme"])
        groups.setdefault(labels, {}).setdefault(row["metric"], []).append(row["value"])
    metrics = [m for m in ("accuracy_ood", "accuracy_iid", "accuracy_train") if any(m in g for g in groups.values())]
    metrics = metrics or sorted({m for g in groups.values() for m in g})[:4]
    table = Table("study", "preset", "setting", "scheme", "seeds", *metrics, box=None)
    for labels, found in groups.items():
        cells = []
        for metric in metrics:
            numbers = found.get(metric, [])
            spread = f" ± {stdev(numbers):.3f}" if len(numbers) > 1 else ""
            cells.append(f"{mean(numbers):.3f}{spread}" if numbers else "")
        table.add_row(*labels, str(max(map(len, found.values()))), *cells)
    _console().print(table)


def _console() -> Any:
    from rich.console import Console

    return Console() if sys.stdout.isatty() else Console(width=160)


if __name__ == "__main__":
    main()
