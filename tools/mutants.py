"""Mutation testing of the encodings: which small changes of their code does the contract, or a test, not find?

    python tools/mutants.py --seconds 1800        continues the sample, and writes results/mutants-cpu.json
    python tools/mutants.py --again               tests survivors once more, after a check was added
    python tools/mutants.py --again --only "kernels/pairs.py::sums_from" --tests tests/kernels/test_pairs.py::test_name
                                                  tests these survivors with that test alone
    python tools/mutants.py --more 100            draws 100 mutants more at random, for a session to test
    python tools/mutants.py --faults              applies four faults that once passed the contract
    python tools/mutants.py --page                writes docs/mutants.md from the results

Each mutant of the sample is tested by the contract (``posenc check``) of its scheme, or of three schemes that execute
the changed statement where the file belongs to none, and then by the default tests that execute it. Why not a library:
mutmut 3.8 leaves decorated functions out, and every hook of a scheme is decorated with ``override``; cosmic-ray 8.7
writes each mutant to the file and starts a command for it, of which importing torch alone takes 3 seconds. Here one
process imports torch and forks for each mutant.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import itertools
import json
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from mutation import coverage_map, execution
from mutation.collected import Collected
from mutation.coverage_map import CoverageMap
from mutation.operators import Mutant, mutants
from mutation.page import is_alive, is_found, page, passed, reasons
from mutation.sample import PACKAGE, ROOT, all_mutants, commit, digests, further, sample

RESULT = ROOT / "results" / "mutants-cpu.json"
PAGE = ROOT / "docs" / "mutants.md"
MAP = ROOT / "build" / "mutants-map.json"
CONTRACT_SECONDS, TEST_SECONDS = 40.0, 60.0
STAGES, TESTS, LAST, MOST, FEW = 4, 2, 3, 10, 20
FAULTS = {
    "FlexAttention form of ALiBi without abs": (
        execution.Fault("schemes/alibi.py", "slopes[h] * distance.abs()", "slopes[h] * distance"),
        "ALiBi|0",
    ),
    "value sum of Shaw rounded to bfloat16 after every fourth key": (  # torch sums bfloat16 wider by itself
        execution.Fault(
            "schemes/shaw.py",
            "total = total.scatter_add(-1, self._row(pair).expand(weights.shape), wide)",
            "row, total = self._row(pair).expand(weights.shape), total.to(weights.dtype)\n"
            "        for n in range(0, row.shape[-1], 4):\n"
            "            total = total.scatter_add(-1, row[..., n : n + 4], weights[..., n : n + 4])",
        ),
        "Shaw|0",
    ),
    "<= for < in a window's mask": (
        execution.Fault("schemes/sliding_window.py", "else distance < self.size)", "else distance <= self.size)"),
        "SlidingWindow|1",
    ),
    "distances between real positions rounded": (
        execution.Fault("kernels/pairs.py", "self.distance().abs().to", "self.distance().abs().round().to"),
        "ALiBi|0",
    ),
}
"""Faults that once passed the contract, each with an example that must find it."""
ALIVE = {"outcome": "survived"}


def execute(mutant: Mutant, covered: CoverageMap, collected: Collected, stage: int) -> execution.Outcome:
    """Run one stage of the test of a mutant.

    Args:
        mutant: The mutant.
        covered: Which examples and tests execute which lines.
        collected: The tests, for stage 2.
        stage: 0, the contract on one example of its scheme, or on two schemes, without the slowest checks; 1, the same
            on all examples, or on three schemes; 2, tests; 3, the slowest checks.

    Returns:
        The outcome: "killed" or "timeout" with what found it, or "survived".
    """
    examples, ids, own = covered.examples(mutant), covered.tests(mutant), mutant.file.startswith("schemes/")
    if stage == TESTS:
        work = execution.guarded(lambda: collected.run(mutant, ids))
        return execution.in_child(work, TEST_SECONDS) if ids else ALIVE
    first = 1 if own else 2
    some = (examples[:first], examples[first:MOST], (), examples[:1])[stage]
    work = execution.guarded(lambda: execution.contract(mutant, some, late=stage == LAST))
    return execution.in_child(work, CONTRACT_SECONDS) if some else ALIVE


def read(path: Path) -> dict[str, Any]:
    """The results so far; the sample is drawn where there are none.

    Args:
        path: JSON file of results.

    Returns:
        ``population``, the number of mutants of each kind; ``digests`` of the files; and ``mutants``, the sample, in
        which ``before`` and ``after`` are outcomes.
    """
    if path.is_file():
        return json.loads(path.read_text(encoding="utf-8"))
    population = all_mutants()
    counts = Counter(mutant.kind for mutant in population)
    rows = [{"id": mutant.id, **dataclasses.asdict(mutant)} for mutant in sample(population)]
    return {
        "population": dict(sorted(counts.items())),
        "digests": digests(row["file"] for row in rows),
        "mutants": rows,
    }


def draw_more(path: Path, count: int) -> None:
    """Add mutants to the sample, marked as ``further``: they tell how much the tests of the first ones miss."""
    results = read(path)
    current(results)
    more = further(all_mutants(), {row["id"] for row in results["mutants"]}, count)
    results["mutants"] += [{"id": mutant.id, **dataclasses.asdict(mutant), "further": True} for mutant in more]
    results["digests"] = digests(row["file"] for row in results["mutants"])
    write(path, results)


def current(results: dict[str, Any]) -> None:
    """Find the sample again in files that have changed; mutants whose code is gone lose their ``index``."""
    now = digests(row["file"] for row in results["mutants"])
    for file in [file for file, digest in now.items() if results["digests"].get(file) != digest]:
        found = {mutant.id: mutant for mutant in mutants((PACKAGE / file).read_text(encoding="utf-8"), file)}
        for row in (row for row in results["mutants"] if row["file"] == file):
            row.update(dataclasses.asdict(found[row["id"]]) if row["id"] in found else {"index": None})
    results["digests"] = now


def write(path: Path, results: dict[str, Any]) -> None:
    """Replace the file of results whole, so that an interrupted session loses nothing."""
    partial = path.with_suffix(".tmp")
    partial.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    partial.replace(path)


def session(path: Path, seconds: float, field: str, only: Sequence[str], stages: Sequence[int]) -> None:
    """Test mutants until the time is over: each stage on all mutants that survived the stage before it."""
    results = read(path)
    write(path, results)
    current(results)
    for row in results["mutants"] if field == "after" else ():
        if row.get(field, {}).get("outcome") == "survived" and len(passed(row[field])) == STAGES:
            del row[field]  # it went through all stages before; a check may have been added since
    execution.preload()
    covered, began, said = coverage_map.measured(MAP), time.monotonic(), {} if field == "after" else reasons()
    number, collected = session_number(results, covered), Collected(coverage_map.paths())

    def work() -> None:
        for stage, (n, row) in itertools.product(stages, enumerate(results["mutants"])):
            if time.monotonic() - began > seconds:
                break
            if is_wanted(row, field, stage) and row["id"] not in said and any(text in row["id"] for text in only):
                one = functools.partial(execute, covered=covered, collected=collected, stage=stage)
                record(results, n, field, one, stage, number)
                write(path, results)

    collected.during(work) if TESTS in stages else work()


def session_of_examples(path: Path, field: str, only: Sequence[str], examples: Sequence[str]) -> None:
    """Test survivors with the contract on some examples, as ``"Shaw|0"``, and record those that are found."""
    results = read(path)
    current(results)
    execution.preload()
    execution.cases_of(examples)  # an example that there is not would kill every mutant
    number = session_number(results, None)

    def test(mutant: Mutant) -> execution.Outcome:
        work = execution.guarded(lambda: execution.contract(mutant, examples, late=False))
        return execution.in_child(work, CONTRACT_SECONDS)

    for n in chosen(results, only):
        try_one(results, n, field, test, 1, number)
        write(path, results)


def chosen(results: dict[str, Any], only: Sequence[str]) -> list[int]:
    """Numbers of the survivors whose identity contains one of the texts, or whose number is one of them."""
    rows = enumerate(results["mutants"])
    alive = [(n, row) for n, row in rows if is_alive(row) and not is_found(row) and row["index"] is not None]
    return [n for n, row in alive if any(f"#{n}" == text or text in row["id"] for text in only)]


def try_one(
    results: dict[str, Any], n: int, field: str, work: Callable[[Mutant], execution.Outcome], stage: int, number: int
) -> None:
    """Test a survivor and record the outcome only if it is found."""
    row = results["mutants"][n]
    earlier = row.get(field)
    record(results, n, field, work, stage, number)
    if row[field]["outcome"] not in ("killed", "timeout"):
        del row[field]
        row.update({} if earlier is None else {field: earlier})


def session_of_tests(path: Path, field: str, only: Sequence[str], paths: Sequence[str]) -> None:
    """Test survivors with some tests alone, and record those that are found; others may find the rest.

    Under ``before`` each mutant gets those of the tests that execute its statement, by the coverage map. Under
    ``after``, for tests that were added, it gets all of them.
    """
    results, said = read(path), {} if field == "after" else reasons()
    current(results)
    execution.preload()
    covered = coverage_map.measured(MAP) if field == "before" else None
    number, collected = session_number(results, covered), Collected(paths)

    def test(mutant: Mutant) -> execution.Outcome:
        ids = covered.tests(mutant, among=collected.items)[:FEW] if covered else paths
        return execution.in_child(execution.guarded(lambda: collected.run(mutant, ids)), TEST_SECONDS)

    def work() -> None:
        for n in chosen(results, only):
            if results["mutants"][n]["id"] not in said:
                try_one(results, n, field, test, TESTS, number)
                write(path, results)

    collected.during(work)


def record(
    results: dict[str, Any], n: int, field: str, work: Callable[[Mutant], execution.Outcome], stage: int, number: int
) -> None:
    """Test one mutant; its outcome says of which session it is, and the digest of the file that was changed."""
    row, start = results["mutants"][n], time.monotonic()
    outcome = work(Mutant(**{each.name: row[each.name] for each in dataclasses.fields(Mutant)}))
    through = [*passed(row.get(field, {})), *([stage] if outcome["outcome"] == "survived" else [])]
    of_code = {"session": number, "code": results["digests"][row["file"]]}
    row[field] = {**outcome, "stage": stage, "passed": through, **of_code}
    words = f"{n} {stage} {outcome['outcome']} {outcome.get('by', '')[:90]}"
    print(f"{words} | {row['id']} ({time.monotonic() - start:.1f} s)", flush=True)


def session_number(results: dict[str, Any], covered: CoverageMap | None) -> int:
    """Number of this session in the record: its commit, and the commit and digest of its coverage map."""
    of_map = {"map_commit": covered.commit, "map": covered.digest} if covered else {}
    this, sessions = {"commit": commit(), **of_map}, results.setdefault("sessions", [])
    if this not in sessions:
        sessions.append(this)
    return sessions.index(this)


def warn_of_stale(results: dict[str, Any]) -> None:
    """Print how many outcomes are of code that has changed since, or do not say of which code they are."""
    now = digests(row["file"] for row in results["mutants"])
    last = [(row["file"], row.get("after", row.get("before"))) for row in results["mutants"]]
    of_other = [file for file, outcome in last if outcome and outcome.get("code", now[file]) != now[file]]
    unknown = sum(outcome is not None and "code" not in outcome for _, outcome in last)
    if of_other or unknown:
        print(
            f"warning: {len(of_other)} outcomes are of files that have changed since "
            f"({', '.join(sorted({*of_other})[:4]) or 'none'}); {unknown} were recorded before outcomes named their "
            "code. --again tests survivors once more.", flush=True
        )  # fmt: skip


def is_wanted(row: dict[str, Any], field: str, stage: int) -> bool:
    """True if a mutant is to be tested at a stage: nothing found it so far, and it has not been through that stage."""
    if row["index"] is None or (field == "after" and row.get("before", {}).get("outcome") != "survived"):
        return False
    if field == "before" and is_found(row):  # by a test that was added: not to be counted as one that was there
        return False
    done = row.get(field, {"outcome": "survived"})
    return done["outcome"] in ("survived", "error") and stage not in passed(done)


def faults() -> None:
    """Apply each of the faults that once passed the contract, and print the check that finds it."""
    execution.preload()
    for name, (fault, example) in FAULTS.items():
        for late in (False, True):
            work = execution.guarded(functools.partial(execution.contract, fault, [example], late=late))
            outcome = execution.in_child(work, CONTRACT_SECONDS)
            if outcome["outcome"] != "survived":
                break
        print(f"{name}: {outcome['outcome']}, {outcome.get('by', 'nothing finds it')}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=3600, help="time of this session (default 3600)")
    parser.add_argument(
        "--out", type=Path, default=RESULT, help="JSON file of results (default results/mutants-cpu.json)"
    )
    parser.add_argument("--again", action="store_true", help="test survivors again")
    parser.add_argument("--only", nargs="+", default=[""], help="only mutants whose identity contains such a text")
    parser.add_argument("--tests", nargs="+", default=[], help="only these files of tests, or tests with --again")
    parser.add_argument("--stages", type=int, nargs="+", default=range(STAGES), help="only some of the stages 0 to 3")
    parser.add_argument("--examples", nargs="+", default=[], help='only the contract on these examples, as "Shaw|0"')
    parser.add_argument("--more", type=int, default=0, help="draw as many mutants more")
    parser.add_argument("--faults", action="store_true", help="apply the faults that once passed the contract")
    parser.add_argument("--page", action="store_true", help="write docs/mutants.md")
    args = parser.parse_args()
    if args.faults:
        faults()
    elif args.more:
        draw_more(args.out, args.more)
    elif args.page:
        results = read(args.out)
        warn_of_stale(results)
        PAGE.write_text(page(results), encoding="utf-8")
    elif args.examples:
        session_of_examples(args.out, "after" if args.again else "before", args.only, args.examples)
    elif args.tests:
        session_of_tests(args.out, "after" if args.again else "before", args.only, args.tests)
    else:
        session(args.out, args.seconds, "after" if args.again else "before", args.only, args.stages)


if __name__ == "__main__":
    sys.exit(main())
