"""Tests collected once, and run on mutants by forked processes.

A mutant takes effect in the child by the code of its functions, which replaces theirs in the modules that are imported,
and by plain values. Importing the package and collecting the tests anew for each mutant took several seconds; with this
a mutant takes as long as its tests.
"""

from __future__ import annotations

import gc
import importlib
import inspect
import os
import sys
import types
from collections.abc import Callable, Sequence
from typing import Any

from mutation import execution
from mutation.operators import Mutant, mutated
from mutation.sample import PACKAGE, ROOT

Key = tuple[str, int]
"""Qualified name and first line of a function."""
PLAIN = (bool, int, float, str, tuple, frozenset, dict, type(None))


class Collected:
    """Tests that pytest has collected.

    Args:
        paths: Files and folders of tests, or tests as pytest names them.
    """

    def __init__(self, paths: Sequence[str]) -> None:
        self.paths, self.items, self.failed = paths, dict[str, Any](), list[str]()

    def during(self, work: Callable[[], None]) -> None:
        """Collect the tests and call ``work``, which may call ``run`` in children.

        Raises:
            RuntimeError: If pytest cannot collect them.
        """
        import pytest

        collected = self

        class Watch:
            def pytest_runtestloop(self, session: pytest.Session) -> bool:
                collected.items = {item.nodeid: item for item in session.items}
                gc.unfreeze()  # tests/conftest.py hides all objects from the collector, and from get_objects
                collected.functions = [
                    each for each in gc.get_objects() if type(each) is types.FunctionType
                ]  # isinstance asks proxies
                gc.freeze()
                work()
                return True

            def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
                if report.failed:
                    collected.failed.append(report.nodeid)

        os.chdir(ROOT)
        plugins = [each for name in execution.PLUGINS for each in ("-p", name)]
        options = ["-q", "-s", "-p", "no:cacheprovider", "-p", "no:faulthandler", *plugins]
        code = int(pytest.main([*options, "-m", "not full and not compile", *self.paths], plugins=[Watch()]))
        if code:
            raise RuntimeError(f"pytest ended with {code}; run it on {' '.join(self.paths)}")

    def run(self, mutant: Mutant, ids: Sequence[str]) -> execution.Outcome:
        """Run tests in this process until one fails.

        Args:
            mutant: The mutant.
            ids: Tests as pytest names them, or their files; those that were not collected are left out.

        Returns:
            The outcome: "killed" with the test, "survived", or "error" if no test could run.
        """
        chosen = [
            item
            for each in ids
            for name, item in self.items.items()
            if name == each or name.startswith((f"{each}::", f"{each}["))
        ]
        if not chosen:
            return {"outcome": "error", "by": "no test executes it"}
        names = [item.nodeid for item in chosen]
        try:
            of_functions = put(mutant, self.functions)
        except LookupError:
            return run_anew(mutant, names)
        for n, item in enumerate(chosen):
            after = chosen[n + 1] if n + 1 < len(chosen) else None
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=after)
            if self.failed:
                return {"outcome": "killed", "by": f"tests: {self.failed[0]}"}
        return {"outcome": "survived"} if of_functions else run_anew(mutant, names)


class Failures:
    """Plugin of pytest that notes the tests that fail."""

    def __init__(self) -> None:
        self.names = list[str]()

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed:
            self.names.append(report.nodeid)

    def pytest_collectreport(self, report: Any) -> None:
        if report.failed:
            self.names.append(report.nodeid)


def run_anew(mutant: Mutant, ids: Sequence[str]) -> execution.Outcome:
    """Import the package and the tests again, and run them until one fails.

    For mutants whose code cannot be replaced: it has another number of nested functions, or of names that it closes
    over, or the value is made once at import.

    Args:
        mutant: The mutant.
        ids: Tests as pytest names them.

    Returns:
        The outcome, as of ``Collected.run``.
    """
    import pytest

    failures = Failures()
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"  # the plugins that it needs are named below
    execution.put(mutant, everything=True)
    for name, module in list(sys.modules.items()):
        if str(getattr(module, "__file__", None) or "").startswith(str(ROOT / "tests")):
            del sys.modules[name]
    plugins = [each for name in execution.PLUGINS for each in ("-p", name)]
    options = ["-q", "-x", "-s", "-p", "no:cacheprovider", "-p", "no:faulthandler", *plugins]
    code = int(pytest.main([*options, *ids], plugins=[failures]))
    if failures.names:
        return {"outcome": "killed", "by": f"tests: {failures.names[0]}"}
    return {"outcome": "survived"} if code == 0 else {"outcome": "error", "by": f"pytest ended with {code}"}


def put(mutant: Mutant, functions: Sequence[types.FunctionType]) -> bool:
    """Replace the code of the functions that a mutant changes, and default values and plain values of its module.

    Args:
        mutant: The mutant.
        functions: Functions of this process, among others those of the module.

    Returns:
        True if code was replaced; False for values alone, of which another module may hold the earlier ones.

    Raises:
        LookupError: If the mutant changes nothing that can be replaced.
    """
    path, module = PACKAGE / mutant.file, importlib.import_module(execution.module_name(mutant.file))
    source = path.read_text(encoding="utf-8")
    plain = compile(source, str(path), "exec")
    new = compile(mutated(source, mutant.index), str(path), "exec")
    before, after = codes(plain), codes(new)
    changed = {key for key, code in before.items() if _content(code) != _content(after[key])}
    own = [each for each in functions if each.__code__.co_filename == str(path)]
    replaced = [each for each in own if _key(each) in changed]
    for each in replaced:
        try:
            each.__code__ = after[_key(each)]
        except ValueError as error:  # another number of names that it closes over
            raise LookupError(f"{mutant.id}: {error}") from error
    if not replaced and not _put_values(module, own, _executed(module, plain), _executed(module, new)):
        raise LookupError(f"{mutant.id} changes no function and no plain value")
    return bool(replaced)


def codes(code: types.CodeType) -> dict[Key, types.CodeType]:
    """Code of a module and of everything that it defines."""
    found = {(code.co_qualname, code.co_firstlineno): code}
    for each in code.co_consts:
        if isinstance(each, types.CodeType):
            found |= codes(each)
    return found


def _key(function: types.FunctionType) -> Key:
    return function.__code__.co_qualname, function.__code__.co_firstlineno


def _content(code: types.CodeType) -> tuple[object, ...]:
    """Instructions, constants and names of a code object; of a module or class body without its functions."""
    whole = bool(code.co_flags & inspect.CO_OPTIMIZED)
    inner = [_content(each) if isinstance(each, types.CodeType) else repr(each) for each in code.co_consts
             if whole or not isinstance(each, types.CodeType)]  # fmt: skip
    return code.co_code, tuple(inner), code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars


def _executed(module: types.ModuleType, code: types.CodeType) -> dict[str, Any]:
    """Names of a module whose code is executed beside it."""
    beside = {name: vars(module)[name] for name in ("__name__", "__package__", "__file__")}
    exec(code, beside)
    return beside


def _put_values(
    module: types.ModuleType, own: Sequence[types.FunctionType], plain: dict[str, Any], new: dict[str, Any]
) -> int:
    """Replace what two executions of a module define differently, and return how many values that is."""
    count, live = 0, {_key(each): each for each in own}
    spaces = [(module, plain, new)]
    spaces += [(each, vars(plain[name]), vars(new[name])) for name, each in vars(module).items()
               if isinstance(each, type) and each.__module__ == module.__name__ and name in new]  # fmt: skip
    for owner, was, becomes in spaces:
        for name, value in becomes.items():
            if isinstance(value, PLAIN) and repr(value) != repr(was.get(name)):
                setattr(owner, name, value)
                count += 1
            function = getattr(value, "__func__", value)
            if isinstance(function, types.FunctionType) and _key(function) in live:
                other = getattr(was[name], "__func__", was[name])
                for part in ("__defaults__", "__kwdefaults__"):
                    if repr(getattr(function, part)) != repr(getattr(other, part)):
                        setattr(live[_key(function)], part, getattr(function, part))
                        count += 1
    return count
