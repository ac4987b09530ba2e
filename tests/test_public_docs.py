"""Every public name has a Google-style docstring with the sections that it needs, and its example runs."""

from __future__ import annotations

import ast
import dataclasses
import doctest
import importlib
import importlib.util
import inspect
import re
import subprocess
import sys
import textwrap
import tomllib
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import msgspec
import pytest

import posenc
import posenc.workbench

ROOT = Path(__file__).parents[1]
TOOLS = Path(sys.executable).parent
MODULES = (
    "posenc",
    "posenc.adapt",
    "posenc.adapt.sklearn",
    "posenc.contract",
    "posenc.frequencies",
    "posenc.workbench",
)
"""Modules with public names: those of ``__all__``, or everything public that a module without it defines."""
UNDOCUMENTED: dict[str, str] = {}
"""Public names with an incomplete docstring, and what it lacks. A name with a complete docstring must not be listed."""


def surface() -> dict[str, Any]:
    """Every public function and class by its path."""
    found: dict[str, Any] = {}
    for module in map(importlib.import_module, MODULES):
        own = [name for name, value in vars(module).items() if getattr(value, "__module__", "") == module.__name__]
        for name in getattr(module, "__all__", [name for name in own if not name.startswith("_")]):
            value = getattr(module, name)
            if inspect.isclass(value) or inspect.isfunction(value):
                found[f"{module.__name__}.{name}"] = value
    return found


def fields(kind: type) -> list[str] | None:
    """The fields of a dataclass, a struct or a named tuple; None for another class."""
    if dataclasses.is_dataclass(kind):
        return [field.name for field in dataclasses.fields(kind)]
    if issubclass(kind, msgspec.Struct):
        return list(kind.__struct_fields__)
    return list(vars(kind)["_fields"]) if issubclass(kind, tuple) and "_fields" in vars(kind) else None


def members(kind: type) -> Iterator[tuple[str, FunctionType, bool]]:
    """The public methods of a class with their names, and True for a property; not those that override another."""
    defaults = fields(kind) or ()
    values = {name: value for name, value in vars(kind).items() if name not in defaults}
    for name, value in values.items():
        is_property = isinstance(value, property | cached_property)
        function = value.fget if isinstance(value, property) else getattr(value, "__func__", value)
        function = value.func if isinstance(value, cached_property) else function
        if inspect.isfunction(function) and not name.startswith("_") and not hasattr(function, "__override__"):
            yield name, function, is_property


def sections(doc: str) -> dict[str, str]:
    """The text of each section by its title."""
    parts = re.split(r"^([A-Z]\w+):$", inspect.cleandoc(doc), flags=re.M)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def documented(section: str) -> list[str]:
    """The names that a section describes."""
    return re.findall(r"^ {4}\*{0,2}(\w+):", section, flags=re.M)


def raised(function: FunctionType | None) -> set[str]:
    """The errors that the function itself raises by name."""
    if function is None:
        return set()
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    calls = [node.exc for node in ast.walk(tree) if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call)]
    return {call.func.id for call in calls if isinstance(call.func, ast.Name)}


def parameters(function: FunctionType | None, *, method: bool) -> list[str]:
    names = list(inspect.signature(function).parameters) if function else []
    return [name for name in names[method:] if name.strip("_")]


def complaints(path: str, value: Any, *, method: bool = False, is_property: bool = False) -> list[str]:
    """Everything that the docstring of a function, a property or a class lacks."""
    doc, kind = value.__doc__, inspect.isclass(value)
    own = fields(value) if kind else None
    if not doc or (own is not None and doc.startswith(f"{value.__name__}(")):  # Python's own docstring
        return [f"{path} has no docstring."]
    found, function = sections(doc), vars(value).get("__init__") if kind else value
    function = function if inspect.isfunction(function) and not getattr(value, "_is_protocol", False) else None
    needed = {name for name in ("Args",) if not is_property and parameters(function, method=method or kind)}
    if own is not None:
        needed, function = {"Attributes"}, vars(value).get("__post_init__")
        if documented(found.get("Attributes", "")) != own:
            return [f"{path} has the fields {', '.join(own)}, and `Attributes` describes others."]
    elif "Args" in needed and documented(found.get("Args", "")) != parameters(function, method=method or kind):
        return [f"{path} takes {', '.join(parameters(function, method=method or kind))}, and `Args` describes others."]
    if not kind and not is_property and inspect.signature(value).return_annotation not in ("None", "NoReturn", None):
        needed.add("Yields" if inspect.isgeneratorfunction(inspect.unwrap(value)) else "Returns")
    if raised(function):
        needed.add("Raises")
    if not method:
        needed.add("Example")
    lacking = [f"{path} has no section `{title}`." for title in sorted(needed - set(found))]
    allowed = needed | ({"Returns"} if is_property else set())
    beyond = sorted({"Args", "Returns", "Yields"} & set(found) - allowed)
    lacking += [f"{path} has a section `{title}` and nothing to describe there." for title in beyond]
    missing = sorted(error for error in raised(function) if error not in found.get("Raises", error))
    lacking += [f"{path} raises {error}, and `Raises` does not say when." for error in missing]
    if "Example" in found and ">>>" not in found["Example"]:
        lacking.append(f"{path} has an example without code.")
    for name, member, is_property in members(value) if kind else ():
        lacking += complaints(f"{path}.{name}", member, method=True, is_property=is_property)
    return lacking


def failing(path: str, doc: str) -> list[str]:
    """What the examples of a docstring print beside what they should."""
    printed: list[str] = []
    test = doctest.DocTestParser().get_doctest(doc, {}, path, None, None)
    doctest.DocTestRunner(verbose=False).run(test, out=printed.append)
    return printed


PUBLIC = surface()


def test_the_surface_is_everything_public():
    assert {"posenc.RoPE", "posenc.attention", "posenc.Scheme", "posenc.frequencies.yarn"} < set(PUBLIC)
    assert {"posenc.adapt.llama", "posenc.contract.Report", "posenc.frequencies.Frequencies"} < set(PUBLIC)
    assert {"posenc.workbench.Store", "posenc.workbench.Study", "posenc.workbench.train"} < set(PUBLIC)
    assert {"posenc.workbench.Executor", "posenc.workbench.find_study"} < set(PUBLIC)
    for package in (posenc, posenc.workbench):
        path, names = package.__name__, package.__all__
        not_functions = {name for name in names if isinstance(getattr(package, name), ModuleType | str)}
        assert {f"{path}.{name}" for name in names} - set(PUBLIC) == {f"{path}.{name}" for name in not_functions}


@pytest.mark.parametrize("path", PUBLIC)
def test_a_public_name_is_documented(path):
    lacking = "\n".join(complaints(path, PUBLIC[path]))
    if path in UNDOCUMENTED:
        assert lacking != "", f"{path} is documented: remove it from UNDOCUMENTED"
    else:
        assert lacking == ""


def test_a_name_without_documentation_is_public():
    assert set(UNDOCUMENTED) <= set(PUBLIC)


@pytest.mark.parametrize("path", PUBLIC)
def test_the_examples_of_a_public_name_run(path):
    value = PUBLIC[path]
    docs = [value.__doc__, *(member.__doc__ for _, member, _ in members(value))] if inspect.isclass(value) else []
    assert "".join(text for doc in docs or [value.__doc__] for text in failing(path, doc or "")) == ""


BAD = '''
import dataclasses
import functools
from collections.abc import Iterator
from typing import NamedTuple, Protocol

import msgspec

def silent(x: int) -> int:
    return x

def short(x: int) -> int:
    """Adds nothing."""
    return x

def other(x: int, y: int) -> None:
    """Adds nothing.

    Args:
        x: A number.
        z: Another.

    Example:
        No code.
    """

def quiet(x: int) -> int:
    """Adds nothing.

    Args:
        x: A number.

    Returns:
        It.

    Raises:
        TypeError: Never.

    Example:
        >>> 1 + 1
        3
    """
    raise ValueError("x")

def chatty() -> None:
    """Adds nothing.

    Args:
        x: There is none.

    Returns:
        Nothing.

    Example:
        Words alone.
    """

class Thing:
    """A thing.

    Example:
        >>> 1
        1
    """

    @property
    def size(self) -> int:
        return 1

    def grow(self, by: int) -> int:
        """Grows."""
        return by

@dataclasses.dataclass
class Value:
    """A value.

    Attributes:
        b: Another field.
    """

    a: int

class Struct(msgspec.Struct):
    """A struct.

    Attributes:
        a: A number.

    Example:
        >>> 1
        1
    """

    a: int
    b: int = 0

    def __post_init__(self) -> None:
        raise ValueError("a")

class Complete(msgspec.Struct):
    """A struct.

    Attributes:
        a: A number.

    Example:
        >>> 1
        1
    """

    a: int

    def __post_init__(self) -> None:
        raise ValueError("a")

    @functools.cached_property
    def size(self) -> int:
        return 1

    def items(self) -> Iterator[int]:
        """Iterate.

        Returns:
            Numbers.
        """
        yield self.a

class Pair(NamedTuple):
    a: int
    b: int

class Shape(Protocol):
    """A protocol.

    Example:
        >>> 1
        1
    """

    def area(self, scale: float) -> float: ...
'''


@pytest.fixture(scope="module")
def bad(tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    file = tmp_path_factory.mktemp("bad") / "bad_docstrings.py"
    file.write_text(BAD)
    spec = importlib.util.spec_from_file_location("bad_docstrings", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("name", "complaint"),
    [
        ("silent", "silent has no docstring."),
        ("short", "short takes x, and `Args` describes others."),
        ("other", "other takes x, y, and `Args` describes others."),
        ("quiet", "quiet raises ValueError, and `Raises` does not say when."),
        ("chatty", "chatty has a section `Args` and nothing to describe there."),
        ("chatty", "chatty has a section `Returns` and nothing to describe there."),
        ("chatty", "chatty has an example without code."),
        ("Thing", "Thing.size has no docstring."),
        ("Thing", "Thing.grow takes by, and `Args` describes others."),
        ("Value", "Value has the fields a, and `Attributes` describes others."),
        ("Struct", "Struct has the fields a, b, and `Attributes` describes others."),
        ("Complete", "Complete has no section `Raises`."),
        ("Complete", "Complete.size has no docstring."),
        ("Complete", "Complete.items has no section `Yields`."),
        ("Pair", "Pair has no docstring."),
        ("Shape", "Shape.area has no docstring."),
    ],
)
def test_a_bad_docstring_is_refused(bad, name, complaint):
    assert complaint in complaints(name, getattr(bad, name))


def test_an_example_that_does_not_run_is_found(bad):
    assert "Expected:\n    3\nGot:\n    2" in "".join(failing("quiet", bad.quiet.__doc__))
    assert failing("Thing", bad.Thing.__doc__) == []


# the linters, which run before the tests ---------------------------------------------------------------------------


def linted_files() -> tuple[set[str], set[str]]:
    """The files below src/posenc whose docstrings ruff and pydoclint check, from their configuration."""
    tools = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]
    by_ruff = next(iter(tools["ruff"]["lint"]["per-file-ignores"]))
    files = [path.relative_to(ROOT).as_posix() for path in (ROOT / "src" / "posenc").rglob("*.py")]
    braces = by_ruff.removeprefix("!").replace("{", "(").replace("}", ")").replace(",", "|").replace("*", r"\w+")
    excluded = tools["pydoclint"]["exclude"]
    return {file for file in files if re.fullmatch(braces, file)}, {f for f in files if not re.search(excluded, f)}


def test_the_linters_check_every_file_that_defines_a_public_name():
    by_ruff, by_pydoclint = linted_files()
    assert by_ruff == by_pydoclint
    modules = {sys.modules[value.__module__] for value in PUBLIC.values()}
    defined = {Path(module.__file__ or "").relative_to(ROOT).as_posix() for module in modules}
    assert "src/posenc/schemes/rope.py" in defined
    undocumented = {Path(sys.modules[PUBLIC[path].__module__].__file__ or "") for path in UNDOCUMENTED}
    assert defined - by_ruff == {file.relative_to(ROOT).as_posix() for file in undocumented}


def test_the_linters_refuse_a_bad_docstring(tmp_path):
    file = tmp_path / "bad.py"
    file.write_text(BAD)
    pydoclint = [TOOLS / "pydoclint", "--quiet", "--config", ROOT / "pyproject.toml", file]
    done = subprocess.run(pydoclint, capture_output=True, text=True)
    assert done.returncode == 1
    assert re.search(r"DOC103: Function `other`: .*not in the docstring: \[y: int\]", done.stdout + done.stderr)
    for path, code in {
        "src/posenc/positions.py": 1,
        "src/posenc/schemes/new.py": 1,
        "src/posenc/models/new.py": 0,
        "src/posenc/workbench/storage/store.py": 1,
        "src/posenc/workbench/executors/new.py": 1,
        "src/posenc/workbench/training/new.py": 1,
        "src/posenc/workbench/tasks/new.py": 0,
    }.items():
        ruff = [TOOLS / "ruff", "check", "--stdin-filename", path, "--ignore", "E,I", "--output-format", "concise", "-"]
        done = subprocess.run(ruff, input=BAD, capture_output=True, text=True, cwd=ROOT)
        assert (done.returncode, "D103 Missing docstring in public function" in done.stdout) == (code, bool(code)), path
