"""Coverage map: examples of the contract and tests that execute each line of a mutated file, measured once."""

from __future__ import annotations

import functools
import hashlib
import importlib
import json
import os
import time
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

from mutation import execution
from mutation.operators import Mutant
from mutation.sample import PACKAGE, ROOT, commit, digests, target_files

TESTS = ("tests/schemes", "tests/kernels", "tests/contract/test_core.py", "tests/contract/test_instances.py")
NEAR = (
    "tests/test_attention*.py", "tests/test_*position*.py", "tests/test_video_rope.py", "tests/test_timestamps.py",
    "tests/measure/test_stretched_frequencies.py", "tests/adapt/test_adapted_rotary.py",
)  # fmt: skip
"""Tests of the mutated files. Slow ones and those that compile are left out."""
EXAMPLES = 2
"""Examples of each scheme on which lines are counted, by the family of checks that calls every hook."""
KINDS, TESTS_OF_A_MUTANT = 3, 60
"""Numbers of schemes whose contract is run for a file that belongs to none, and of tests."""

UNCHANGED, INITIAL = "tests/schemes/test_unchanged_values.py", ("__init__", "reset_parameters", "_reset_network")
"""The test of defaults and initial values, which every constructor passes, and where such values are made."""

Lines = dict[str, dict[str, list[str]]]


def paths() -> list[str]:
    """Files and folders of the tests."""
    return [*TESTS, *(str(each.relative_to(ROOT)) for pattern in NEAR for each in sorted(ROOT.glob(pattern)))]


class CoverageMap:
    """Lines of each file with the examples and tests that execute them.

    Args:
        stored: ``examples``, ``tests``, ``seconds`` of processor time of each example, and the ``commit`` and the
            ``digests`` of the files that were measured.
    """

    def __init__(self, stored: dict[str, Any]) -> None:
        self.commit: str = stored.get("commit", "unknown")
        self.digests: dict[str, str] = stored.get("digests", {})
        self.digest = hashlib.sha256(json.dumps(stored, sort_keys=True).encode()).hexdigest()[:12]
        self.examples_by_line: Lines = stored["examples"]
        self.tests_by_line: Lines = stored["tests"]
        self.seconds: dict[str, float] = stored["seconds"]

    def changed_files(self) -> list[str]:
        """Mutated files that have changed since the map was measured: the lines that it names are others now."""
        return [file for file, digest in digests().items() if self.digests.get(file) != digest]

    def examples(self, mutant: Mutant) -> list[str]:
        """Examples to check for a mutant, cheapest first: of the file's schemes, or of three schemes that use it."""
        own = _examples_of(mutant.file)
        covering = self._covering(self.examples_by_line, mutant)
        if own:  # examples that execute the statement first
            return sorted(own, key=lambda each: (each not in covering, self.seconds.get(each, 0.1), each))
        if not covering:  # executed at import alone
            covering = _all_of(self.examples_by_line.get(mutant.file, {}))
        ordered = sorted(covering, key=lambda each: (self.seconds.get(each, 9), each))
        firsts = {each.partition("|")[0]: each for each in reversed(ordered)}
        cheapest = sorted(firsts.values(), key=lambda each: (self.seconds.get(each, 9), each))
        return cheapest[:1] + cheapest[1 :: max(1, len(cheapest) // KINDS)][: KINDS - 1]

    def tests(self, mutant: Mutant, among: Collection[str] | None = None) -> list[str]:
        """Tests to run for a mutant: those that name its file first, then different functions.

        Args:
            mutant: The mutant.
            among: Tests to choose from. Default: all.

        Returns:
            Tests as pytest names them.
        """
        covering = self._covering(self.tests_by_line, mutant) or _all_of(self.tests_by_line.get(mutant.file, {}))
        covering = covering if among is None else covering & set(among)
        stem = Path(mutant.file).stem.split("_")[0]
        by_function = dict[str, list[str]]()
        for each in sorted(covering, key=lambda each: (stem not in each.partition("[")[0], each)):
            by_function.setdefault(each.partition("[")[0], []).append(each)
        turns = max(map(len, by_function.values()), default=0)
        spread = [ids[n] for n in range(turns) for ids in by_function.values() if n < len(ids)]
        initial = mutant.name.endswith(INITIAL) or "." not in mutant.name
        return [*spread[:TESTS_OF_A_MUTANT], *([UNCHANGED] if initial else [])]

    def _covering(self, lines: Lines, mutant: Mutant) -> set[str]:
        of_file = lines.get(mutant.file, {})
        return {each for n in range(mutant.line, mutant.last + 1) for each in of_file.get(str(n), ()) if each}


def _all_of(lines: dict[str, list[str]]) -> set[str]:
    return {each for names in lines.values() for each in names if each}


@functools.cache
def _examples_of(file: str) -> list[str]:
    """The examples of the schemes that a file defines."""
    from posenc.schemes import schemes_in

    if not file.startswith("schemes/"):
        return []
    kinds = schemes_in(importlib.import_module(execution.module_name(file)))
    return [f"{name}|{number}" for name, kind in kinds.items() for number in range(len(kind.examples))]


def measured(path: Path) -> CoverageMap:
    """The map that a file holds; measured and written first if there is none.

    A map of files that have changed since is used with a warning: it chooses checks and tests by line.

    Args:
        path: A JSON file.

    Returns:
        The map.

    Raises:
        RuntimeError: If the tests cannot be measured.
    """
    if not path.is_file():
        path.parent.mkdir(parents=True, exist_ok=True)
        of_tests = path.with_suffix(".coverage")
        print("measuring which tests execute which lines", flush=True)
        made_from = {"commit": commit(), "digests": digests()}
        ended = execution.in_child(lambda: _of_tests(of_tests), 3600)
        if ended.get("code") != 0:
            raise RuntimeError(f"the tests must pass before they are measured; they ended with {ended}")
        print("measuring which examples execute which lines", flush=True)
        found = execution.in_child(_of_contract, 3600)
        path.write_text(json.dumps({**made_from, **found, "tests": _read(of_tests)}), encoding="utf-8")
    covered = CoverageMap(json.loads(path.read_text(encoding="utf-8")))
    if changed := covered.changed_files():
        print(
            f"warning: {path.name} was measured at {covered.commit}, and {len(changed)} of its files have changed "
            f"since ({', '.join(changed[:4])}{', ..' if changed[4:] else ''}). Remove it to measure again.", flush=True
        )  # fmt: skip
    return covered


def _coverage(data_file: Path | None) -> Any:
    import coverage

    return coverage.Coverage(
        data_file=data_file, include=[str(path) for path in target_files()], config_file=False, messages=False
    )


def _of_contract() -> execution.Outcome:
    watch = _coverage(None)
    watch.start()
    execution.put(None, everything=True)
    from posenc.contract import checks, one_thread, run
    from posenc.contract.case import Case
    from posenc.schemes import catalogue

    seconds = dict[str, float]()
    todo = [each for each in checks() if each.__module__.endswith("definition")]
    todo = [each for each in todo if not each.__name__.startswith(execution.LATE)]
    with one_thread():
        for name, kind in catalogue().items():
            for number, options in enumerate(kind.examples[:EXAMPLES]):
                watch.switch_context(f"{name}|{number}")
                case, began = Case(kind, options), time.process_time()
                for each in todo:
                    run(each, case)
                seconds[f"{name}|{number}"] = round(time.process_time() - began, 3)
            print(name, flush=True)
    watch.stop()
    return {"examples": _lines(watch.get_data()), "seconds": seconds}


def _of_tests(data_file: Path) -> execution.Outcome:
    import pytest

    os.chdir(ROOT)
    watch = _coverage(data_file)
    watch.erase()
    watch.start()
    execution.put(None, everything=True)

    class Watch:
        def pytest_runtest_logstart(self, nodeid: str) -> None:
            watch.switch_context(nodeid)

    plugins = [each for name in execution.PLUGINS for each in ("-p", name)]
    options = ["-q", "-p", "no:cacheprovider", *plugins, "-m", "not full and not compile"]
    code = int(pytest.main([*options, *paths()], plugins=[Watch()]))
    watch.stop()
    watch.save()
    return {"code": code}


def _read(data_file: Path) -> Lines:
    import coverage

    data = coverage.CoverageData(str(data_file))
    data.read()
    return _lines(data)


def _lines(data: Any) -> Lines:
    found: Lines = {}
    for file in data.measured_files():
        by_line = data.contexts_by_lineno(file)
        name = Path(file).relative_to(PACKAGE).as_posix()
        found[name] = {str(line): sorted(_ids(contexts)) for line, contexts in by_line.items()}
    return found


def _ids(contexts: Sequence[str]) -> set[str]:
    return {each.partition("|setup")[0].partition("|run")[0].partition("|teardown")[0] for each in contexts} - {""}
