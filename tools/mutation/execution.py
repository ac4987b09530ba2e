"""One mutant executed: a forked process imports the changed module and runs checks or tests until one fails.

The parent has imported torch, the package and pytest, which takes seconds; a fork of it starts in some hundredths. In
the child the changed module and all modules that import it are removed from sys.modules and imported again.
"""

from __future__ import annotations

import ast
import dataclasses
import functools
import importlib
import importlib.abc
import importlib.machinery
import itertools
import json
import os
import resource
import signal
import sys
import traceback
import types
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mutation.operators import Mutant, mutated
from mutation.sample import PACKAGE

if TYPE_CHECKING:
    from posenc.contract import Check
    from posenc.contract.case import Case

MEMORY = 6 * 2**30
"""Bytes of memory that a child may take beyond its parent."""
WALL = 8
"""Wall time over processor time after which a child is stopped: it waits for something."""
LATE = ("translation_is_as_claimed", "every_example_differs", "long_rows_keep", "second_derivatives", "using_it")
"""Checks that take longest; they run last."""
LIBRARY = ("schemes", "kernels", "contract", "lookup", "graph_data", "models", "measure", "adapt")
PLUGINS = ("pytest_timeout", "_hypothesis_pytestplugin")

Outcome = dict[str, Any]


@dataclasses.dataclass(frozen=True)
class Fault:
    """A change of a file given by its text.

    Attributes:
        file: Path below ``src/posenc``.
        old: Text that occurs once in the file.
        new: Text in its place.
    """

    file: str
    old: str
    new: str

    def tree(self, source: str) -> ast.Module:
        """The syntax tree of the changed source."""
        if source.count(self.old) != 1:
            raise ValueError(f"{self.file} holds {self.old!r} {source.count(self.old)} times; a fault needs it once.")
        return ast.parse(source.replace(self.old, self.new))


def module_name(file: str) -> str:
    """Module of a file below ``src/posenc``."""
    return ".".join(("posenc", *file.removesuffix(".py").split("/"))).removesuffix(".__init__")


class Mutating(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Import hook that gives one module the code of a changed tree."""

    def __init__(self, mutant: Mutant | Fault) -> None:
        self.name, self.path = module_name(mutant.file), PACKAGE / mutant.file
        source = self.path.read_text(encoding="utf-8")
        tree = mutant.tree(source) if isinstance(mutant, Fault) else mutated(source, mutant.index)
        self.code = compile(tree, str(self.path), "exec")

    def find_spec(self, fullname: str, path: object, target: object = None) -> importlib.machinery.ModuleSpec | None:
        if fullname != self.name:
            return None
        spec = importlib.machinery.ModuleSpec(fullname, self, origin=str(self.path))
        spec.has_location = True
        if self.path.name == "__init__.py":
            spec.submodule_search_locations = [str(self.path.parent)]
        return spec

    def exec_module(self, module: types.ModuleType) -> None:
        exec(self.code, vars(module))


def in_child(work: Callable[[], Outcome], seconds: float) -> Outcome:
    """Call a function in a forked process with limits of processor time and memory.

    Args:
        work: The function; what it returns must be JSON.
        seconds: Limit of processor time.

    Returns:
        What it returned, or ``{"outcome": "timeout"}``, or ``{"outcome": "killed", "by": ...}`` where the process died.
    """
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.close(read)
            _limit(seconds)
            devnull = os.open(os.devnull, os.O_RDWR)
            for stream in (0, 1, 2):
                os.dup2(devnull, stream)
            with os.fdopen(write, "w") as out:
                json.dump(work(), out)
            code = 0
        except BaseException:
            code = 3
        finally:
            os._exit(code)
    os.close(write)
    with os.fdopen(read) as received:
        text = received.read()
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) in (signal.SIGXCPU, signal.SIGALRM, signal.SIGKILL):
        return {"outcome": "timeout", "by": f"more than {seconds:.0f} s of processor time"}
    if status or not text:
        return {"outcome": "killed", "by": f"the process died with status {status}"}
    return json.loads(text)


def _limit(seconds: float) -> None:
    pages = int(Path("/proc/self/statm").read_text(encoding="utf-8").split()[0])
    size = pages * resource.getpagesize() + MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (size, size))
    resource.setrlimit(resource.RLIMIT_CPU, (int(seconds) + 1, int(seconds) + 3))
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(int(WALL * seconds) + 60)


@functools.cache
def _imports() -> dict[str, set[str]]:
    """Modules of the package -> those of the package that they import anywhere in their text."""
    found = {}
    library = [*PACKAGE.glob("*.py"), *(path for folder in LIBRARY for path in (PACKAGE / folder).rglob("*.py"))]
    for path in library:
        name, named = module_name(path.relative_to(PACKAGE).as_posix()), set[str]()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                named |= {each.name for each in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                named |= {node.module, *(f"{node.module}.{each.name}" for each in node.names)}
        found[name] = {each for each in named if each.startswith("posenc.")}
    return found


@functools.cache
def dependents(name: str) -> frozenset[str]:
    """A module and all modules that import it, directly or not."""
    found, more = {name}, True
    while more:
        more = {each for each, named in _imports().items() if named & found} - found
        found |= more
    return frozenset(found)


def _forget(names: Iterable[str]) -> None:
    for name in names:
        if sys.modules.pop(name, None) is not None:
            parent, _, last = name.rpartition(".")
            vars(sys.modules.get(parent, types)).pop(last, None)


def put(mutant: Mutant | Fault | None, *, everything: bool = False) -> None:
    """Let this process import a mutant from now on.

    Args:
        mutant: The mutant; None for the code as it is.
        everything: Import the whole package again, as tests with lazily loaded names need. Default False.
    """
    loaded = {name for name in sys.modules if name == "posenc" or name.startswith("posenc.")}
    if everything:
        _forget(loaded)
    if mutant is not None:
        sys.meta_path.insert(0, Mutating(mutant))
        _forget(dependents(module_name(mutant.file)) & loaded)


def ordered_checks() -> list[Check]:
    """The checks of the contract, those that find most mutants soonest first."""
    from posenc.contract import checks

    families = ("definition", "placement", "state", "claims", "precision")

    def rank(check: Check) -> tuple[bool, int]:
        family = check.__module__.rpartition(".")[2]
        return check.__name__.startswith(LATE), families.index(family) if family in families else len(families)

    return sorted(checks(), key=rank)


def contract(mutant: Mutant | Fault | None, examples: Sequence[str], *, late: bool) -> Outcome:
    """Run the contract in this process, on examples as ``"ALiBi|0"``, until a check fails.

    Args:
        mutant: The mutant; None for the code as it is.
        examples: Class names with the number of the example.
        late: The slowest checks, instead of all others.

    Returns:
        The outcome: "killed" with the check and the example, or "survived".
    """
    try:
        put(mutant)
        cases = cases_of(examples)
        todo = [each for each in ordered_checks() if each.__name__.startswith(LATE) == late]
    except Exception as error:
        return {"outcome": "killed", "by": f"import: {type(error).__name__}"}
    from posenc.contract import one_thread, run

    with one_thread():
        for case, one in itertools.product(cases, todo):
            result = run(one, case)
            if result.trouble:
                return {"outcome": "killed", "by": f"contract: {result.check}: {case}"}
    return {"outcome": "survived"}


def cases_of(examples: Sequence[str]) -> list[Case]:
    from posenc.contract.case import Case

    cases = []
    for name, number in (each.split("|") for each in examples):
        kind = getattr(importlib.import_module(_homes()[name]), name)
        cases.append(Case(kind, kind.examples[int(number)]))
    return cases


@functools.cache
def _homes() -> dict[str, str]:
    """Names of schemes -> their modules."""
    from posenc.schemes import catalogue

    return {name: kind.__module__ for name, kind in catalogue().items()}


def preload() -> None:
    """Import what every child needs, before the first fork."""
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    for name in ("torch", "pytest", "hypothesis", "safetensors.torch", "numpy", "scipy.special"):
        importlib.import_module(name)
    import torch

    from posenc.contract import checks

    torch.set_num_threads(1)
    _homes()
    _imports()
    for check in checks():  # this one loads further parts of torch
        if check.__name__.startswith("the_meta"):
            check(cases_of(["KERPLELog|0"])[0])


def guarded(work: Callable[[], Outcome]) -> Callable[[], Outcome]:
    """A function whose exceptions are an outcome: an error that no check expects kills the mutant."""

    def call() -> Outcome:
        try:
            return work()
        except Exception as error:
            return {"outcome": "killed", "by": f"{type(error).__name__}: {traceback.format_exc(limit=-1)[-200:]}"}

    return call
