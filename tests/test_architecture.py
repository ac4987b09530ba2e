"""The house, kept by machine: who may import whom, how long things may be, and what is written nowhere.

Every check is a function from source text to complaints; each is also run on a made-up source that it must refuse.
"""

from __future__ import annotations

import ast
import functools
import inspect
import re
import subprocess
import sys
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest

from posenc.schemes import catalogue

pytestmark = pytest.mark.bare

ROOT = Path(__file__).parents[1]
SRC = ROOT / "src"
MODULES = {
    ".".join(path.relative_to(SRC).with_suffix("").parts).removesuffix(".__init__"): path
    for path in sorted(SRC.rglob("*.py"))
}
CODE = sorted(path for folder in ("src", "tests", "benchmarks", "tools") for path in (ROOT / folder).rglob("*.py"))

LAYERS = (
    ("graph_batch", "version", "lookup", "workbench.files", "workbench.storage", "workbench.tables"),
    ("lookup.moved", "lookup.name_suggestion", "lookup.scheme_reference"),
    ("coordinate_names", "positions", "frequencies", "claims", "whole_numbers"),
    ("constructor_checks",),
    ("position_augmentation", "graph_data", "multimodal_positions", "segment_positions", "timestamps"),
    ("scheme",),
    ("kernels",),
    ("schemes",),
    ("length_rope", "lookup.own_scheme"),
    ("lookup.own_files",),
    ("attention_checks",),
    ("attention", "lookup.scheme_text", "lookup.cited_functions"),
    ("models",),
    ("contract", "adapt", "measure"),
    # the library ends here: it never imports the workbench
    (
        "workbench.memory",
        "workbench.storage.frozen_defaults",
        "workbench.storage.identity",
        "workbench.provenance",
        "workbench.tables.metric_bounds",
        "workbench.files.atomic_files",
        "workbench.files.network_disk",
        "workbench.request_checks",
    ),
    ("workbench.dataset_record", "workbench.setting_errors", "workbench.counted_nouns"),
    ("workbench.files.user_files", "workbench.files.output_files"),
    ("workbench.files.array_files",),
    ("workbench.data",),
    ("workbench.training",),
    (
        "workbench.runs",
        "workbench.files.file_digests",
        "workbench.progress",
        "workbench.notebook_display",
        "workbench.processor_share",
        "workbench.tensorboard",
        "workbench.variant_labels",
        "workbench.storage.source_digests",
    ),
    ("workbench.tables.metric_table", "workbench.tables.export"),
    ("workbench.storage.disk_errors", "workbench.storage.data_files", "workbench.storage.stored"),
    ("workbench.storage.run_files", "workbench.storage.compacted_runs", "workbench.storage.run_index"),
    ("workbench.storage.compacted_tables", "workbench.storage.further_labels", "workbench.storage.leases"),
    ("workbench.storage.old_records", "workbench.storage.stored_records", "workbench.storage.old_stores"),
    ("workbench.storage.run_writer", "workbench.storage.run_folders", "workbench.storage.store_format"),
    ("workbench.storage.run_selection", "workbench.storage.stored_code"),
    ("workbench.storage.store",),
    ("workbench.storage.result_checks", "workbench.storage.run_copies", "workbench.storage.own_scheme_records"),
    ("workbench.storage.settings_checks", "workbench.storage.provisional_store"),
    ("workbench.storage.selected_results", "workbench.storage.run_description"),
    (
        "workbench.storage.compaction",
        "workbench.storage.packs",
        "workbench.tables.curve_table",
        "workbench.worker",
        "workbench.executors",
        "workbench.runner",
    ),
    ("workbench.tasks",),
    ("workbench.report",),
    ("workbench.explorer",),
    ("workbench.studies",),
    ("workbench.given_graphs", "workbench.study_result", "workbench.request_options"),
    ("workbench.model_loading", "workbench.request_execution", "workbench.run_export"),
    ("workbench.commands", "workbench.advice"),
    ("workbench",),
    ("cli",),
)
"""Bottom to top. A module imports its own layer and those below."""

FILE, FUNCTION, SCHEME_FILE, PARAMETERS = 350, 50, 110, 8
"""Budgets in lines of code: docstrings, comments and blank lines are not counted."""
EXCEPTIONS: dict[str, str] = {}
"""What may break a budget, ``path`` or ``path:function``, and why in one line."""

HEAVY = ("scipy", "matplotlib", "jinja2", "duckdb", "pandas", "statsmodels", "tyro", "rich")
HEAVY += ("trimesh", "skimage", "PIL", "kornia", "pooch", "tensorboard", "nilearn", "nibabel", "sklearn")


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@functools.cache
def tree_of(source: str) -> ast.Module:
    """Syntax tree of a source, which several checks read."""
    return ast.parse(source)


@functools.cache
def nodes_of(source: str) -> tuple[ast.AST, ...]:
    """Every node of a source, in the order of ``ast.walk``."""
    return tuple(ast.walk(tree_of(source)))


def found_in(check: Callable[[str, str], list[str]], paths: Iterable[Path]) -> str:
    return "\n".join(complaint for path in paths for complaint in check(path.read_text(encoding="utf-8"), name(path)))


def dotted(node: ast.AST) -> str:
    """``a.b.c`` of a name or attribute, the last part alone where something else stands before it."""
    if isinstance(node, ast.Attribute):
        before = dotted(node.value)
        return f"{before}.{node.attr}" if before else node.attr
    return node.id if isinstance(node, ast.Name) else ""


# imports run downwards ---------------------------------------------------------------------------------------------


def imported(source: str, module: str, package: bool) -> Iterator[str]:
    """Every module of posenc that this one imports, also inside functions and by ``import_module("..")``."""
    for node in nodes_of(source):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parts = module.split(".")
                above = parts[: len(parts) - node.level + package]
                base = ".".join([*above, base]).rstrip(".")
            # `from posenc import scheme` names a module, `from posenc.scheme import Scheme` does not
            split = base == "posenc" or base.removeprefix("posenc.") in SPLIT
            yield from (f"{base}.{alias.name}" for alias in node.names) if split else (base,)
        elif isinstance(node, ast.Call) and dotted(node.func).endswith("import_module") and node.args:
            first = node.args[0]
            yield from (str(first.value),) if isinstance(first, ast.Constant) else ()


SPLIT = ("lookup", "workbench", "workbench.files", "workbench.storage", "workbench.tables")
"""Folders whose modules stand in layers of their own."""


def room(module: str) -> str:
    """The part of the package that a layer names: the first level below posenc, inside the folders of SPLIT deeper."""
    named, *rest = module.split(".")[1:] or [""]
    while named in SPLIT and rest:
        named = f"{named}.{rest.pop(0)}"
    return named


def upward(source: str, path: str) -> list[str]:
    """Imports of higher layers. The face, ``posenc/__init__.py``, may import anything."""
    module = path.removeprefix("src/").removesuffix(".py").replace("/", ".").removesuffix(".__init__")
    if module == "posenc":
        return []
    layer_of = {top: number for number, layer in enumerate(LAYERS) for top in layer}
    own = room(module)
    if own not in layer_of:
        return [
            f"{path}: {own!r} stands in no layer. Add it to LAYERS in tests/test_architecture.py, at the lowest place "
            "from which it can import what it needs."
        ]
    complaints = []
    for other in imported(source, module, package=path.endswith("/__init__.py")):
        if not (other + ".").startswith("posenc."):
            continue
        top = room(other)
        if top not in layer_of and own != "cli":
            complaints.append(f"{path} imports {other}: import from the module that defines it, not from the face.")
        elif layer_of.get(top, 0) > layer_of[own]:
            complaints.append(f"{path} imports {other}, which stands above {own!r}. Move what it needs down.")
    return complaints


def test_imports_run_downwards():
    assert len(MODULES) > 30
    assert found_in(upward, MODULES.values()) == ""


@pytest.mark.parametrize(
    ("source", "path", "complaint"),
    [
        ("from posenc.cli import main", "src/posenc/scheme.py", "imports posenc.cli, which stands above 'scheme'"),
        ("def f():\n    import posenc.models.encoder", "src/posenc/schemes/rope.py", "stands above 'schemes'"),
        ("from posenc.workbench import studies", "src/posenc/models/vit.py", "posenc.workbench.studies, which stands"),
        ("import posenc.workbench.storage.store", "src/posenc/measure/x.py", "which stands above 'measure'"),
        ("from posenc.workbench.report import page", "src/posenc/workbench/tasks/x/y.py", "above 'workbench.tasks'"),
        ("from ..report import page", "src/posenc/workbench/training/loop.py", "imports posenc.workbench.report"),
        ("from ..report import page", "src/posenc/workbench/storage/store.py", "imports posenc.workbench.report"),
        ("from ..workbench import studies", "src/posenc/measure/__init__.py", "imports posenc.workbench"),
        ("importlib.import_module('posenc.workbench.runner')", "src/posenc/attention.py", "posenc.workbench.runner"),
        ("from posenc import RoPE", "src/posenc/workbench/report/page.py", "not from the face"),
        ("import torch", "src/posenc/newcomer.py", "'newcomer' stands in no layer. Add it to LAYERS"),
    ],
)
def test_an_upward_import_is_found(source, path, complaint):
    assert complaint in "\n".join(upward(source, path))


# budgets -----------------------------------------------------------------------------------------------------------


def code_lines(source: str) -> list[int]:
    """Numbers of the lines that hold code: not blank, no comment, no docstring; ascending."""
    without: set[int] = set()
    for node in nodes_of(source):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            without |= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    numbered = enumerate(source.splitlines(), 1)
    return [n for n, line in numbered if n not in without and line.strip() and not line.strip().startswith("#")]


def over_budget(source: str, path: str) -> list[str]:
    scheme = path.startswith("src/posenc/schemes/") and not path.endswith("__init__.py")
    limit, numbers = SCHEME_FILE if scheme else FILE, code_lines(source)
    lines = len(numbers)
    complaints = [f"{path} has {lines} lines of code, more than {limit}. Divide it."] if lines > limit else []
    for node in nodes_of(source):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            long = bisect_right(numbers, node.end_lineno or node.lineno) - bisect_left(numbers, node.lineno)
            if long > FUNCTION:
                complaints.append(f"{path}:{node.name} has {long} lines of code, more than {FUNCTION}. Divide it.")
    return complaints


def test_files_and_functions_are_short_and_every_exception_is_needed():
    complaints = found_in(over_budget, CODE).splitlines()
    assert "\n".join(text for text in complaints if text.split(" has ")[0] not in EXCEPTIONS) == ""
    assert set(EXCEPTIONS) <= {text.split(" has ")[0] for text in complaints}, "an exception is no longer needed"


@pytest.mark.parametrize(
    ("source", "path", "complaint"),
    [
        ("x = 1\n" * 351, "src/posenc/a.py", "src/posenc/a.py has 351 lines of code, more than 350"),
        ("x = 1\n" * 111, "src/posenc/schemes/a.py", "has 111 lines of code, more than 110"),
        ("class A:\n  def f(self):\n" + "    x = 1\n" * 50, "tests/a.py", "tests/a.py:f has 51 lines of code"),
    ],
)
def test_what_is_over_budget_is_found(source, path, complaint):
    assert complaint in "\n".join(over_budget(source, path))
    prose = '"""' + "text\n" * 300 + '"""\n' + "# why\n" * 300 + "\n" * 300
    assert over_budget(prose + "x = 1\n" * 350, "src/posenc/a.py") == []


def too_many_parameters(scheme: type) -> list[str]:
    count = len(inspect.signature(scheme).parameters)
    return [f"{scheme.__name__} takes {count} parameters, more than {PARAMETERS}."] if count > PARAMETERS else []


def test_schemes_take_few_parameters():
    assert [complaint for scheme in catalogue().values() for complaint in too_many_parameters(scheme)] == []

    class Cluttered:
        def __init__(self, a, b, c, d, e, f, g, h, *, i): ...

    assert too_many_parameters(Cluttered) == ["Cluttered takes 9 parameters, more than 8."]


# no list of schemes, no question which scheme it is ----------------------------------------------------------------


def knows_schemes(source: str, path: str) -> list[str]:
    """Three or more schemes named in one module, or any asked for by its class. The rows of a study may name them."""
    known, complaints = set(catalogue()), []
    named = {dotted(node).split(".")[-1] for node in nodes_of(source) if isinstance(node, ast.Name | ast.Attribute)}
    named |= {alias.name for node in nodes_of(source) if isinstance(node, ast.ImportFrom) for alias in node.names}
    named |= {str(node.value) for node in nodes_of(source) if isinstance(node, ast.Constant)}
    listed = sorted(named & known)
    if len(listed) > 2 and not re.fullmatch(r"src/posenc/workbench/studies/.*(rows|variants)\.py", path):
        complaints.append(f"{path} names {', '.join(listed)}. Walk posenc.schemes.catalogue() instead of listing.")
    for node in nodes_of(source):
        kinds: list[ast.expr] = []
        if isinstance(node, ast.Call) and dotted(node.func) in ("isinstance", "issubclass"):
            kinds = node.args[1:]
        elif isinstance(node, ast.MatchClass):
            kinds = [node.cls]
        elif isinstance(node, ast.Compare) and any(isinstance(op, ast.Is | ast.IsNot) for op in node.ops):
            kinds = node.comparators
        asked = {dotted(part).split(".")[-1] for kind in kinds for part in ast.walk(kind)} & known
        complaints += [f"{path}:{getattr(node, 'lineno', '?')} asks for {kind}. Ask its claims." for kind in asked]
    return complaints


def test_no_module_lists_schemes_or_asks_which_one_it_is():
    outside = [path for path in CODE if not name(path).startswith(("src/posenc/schemes/", "tests/"))]
    assert found_in(knows_schemes, outside) == ""


@pytest.mark.parametrize(
    ("source", "complaint"),
    [
        ("from posenc.schemes.rope import RoPE\nX = [RoPE, schemes.NoPE, 'Shaw']", "names NoPE, RoPE, Shaw"),
        ("from a import Shaw, Learned, Random", "names Learned, Random, Shaw"),
        ("if isinstance(scheme, RoPE): ...", ":1 asks for RoPE"),
        ("isinstance(scheme, (int, rope.RoPE))", ":1 asks for RoPE"),
        ("isinstance(scheme, Shaw | Learned)", ":1 asks for Learned"),
        ("type(scheme) is Shaw", ":1 asks for Shaw"),
        ("match scheme:\n    case NoPE(): ...", "asks for NoPE"),
    ],
)
def test_a_list_of_schemes_is_found(source, complaint):
    assert complaint in "\n".join(knows_schemes(source, "src/posenc/cli/schemes.py"))
    assert knows_schemes("x = [RoPE(64), Shaw(8, 4)]", "src/posenc/cli/schemes.py") == []


# names, signatures, hidden state -----------------------------------------------------------------------------------


def vague_name(source: str, path: str) -> list[str]:
    vague = Path(path).stem in ("utils", "util", "common", "helpers", "helper", "misc")
    return [f"{path}: a file is named after what is in it."] if vague else []


def open_signature(source: str, path: str) -> list[str]:
    """Public functions and methods that take ``**anything``; ``__init__`` and ``__call__`` are public."""

    def walk(node: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
        for child in ast.iter_child_nodes(node):
            named = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
            if named and child.name.startswith("_") and not child.name.endswith("__"):
                continue
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
                yield child
            else:
                yield from walk(child)

    return [f"{path}:{f.name} takes **{f.args.kwarg.arg}." for f in walk(tree_of(source)) if f.args.kwarg]


def reads_environment(source: str, path: str) -> list[str]:
    # Ray takes its token and its address from variables alone, and SLURM tells a job its node by one.
    engines = tuple(f"src/posenc/workbench/executors/{name}.py" for name in ("ray_cluster", "node_check"))
    if path.startswith(("src/posenc/cli/", *engines)):
        return []
    secret = {"environ", "environb", "getenv", "getenvb"}
    named = {dotted(node).split(".")[-1] for node in nodes_of(source) if isinstance(node, ast.Name | ast.Attribute)}
    named |= {alias.name for node in nodes_of(source) if isinstance(node, ast.ImportFrom) for alias in node.names}
    return [f"{path} reads the environment ({what}); cli alone does." for what in sorted(named & secret)]


def at_import(node: ast.AST) -> Iterator[ast.AST]:
    """What runs when a module is imported: everything but the bodies of functions."""
    for child in ast.iter_child_nodes(node):
        yield child
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            outside = [*child.args.defaults, *filter(None, child.args.kw_defaults)]
            outside += getattr(child, "decorator_list", [])
            yield from (part for default in outside for part in ast.walk(default))
        else:
            yield from at_import(child)


RANDOM = re.compile(r"(^|\.)(random|Random|Generator|default_rng|RandomState|manual_seed|seed|rand\w*|normal_?)(\.|$)")


def draws_at_import(source: str, path: str) -> list[str]:
    calls = [node for node in at_import(tree_of(source)) if isinstance(node, ast.Call)]
    drawn = [dotted(call.func) for call in calls if RANDOM.search(dotted(call.func))]
    return [f"{path} calls {what} when it is imported. Pass a generator or a seed." for what in drawn]


def caches(source: str, path: str) -> list[str]:
    """Functions that remember: a cache of the module, whose key forgets what it was not told of."""
    named = {dotted(node) for node in nodes_of(source) if isinstance(node, ast.Name | ast.Attribute)}
    taken = {alias.asname or alias.name for n in nodes_of(source) if isinstance(n, ast.ImportFrom) for alias in n.names}
    named = {what for what in named if "." in what or what in taken}  # a variable of that name remembers nothing
    return [f"{path} keeps a cache ({what})." for what in sorted(named) if re.search(r"(^|\.)(lru_)?cache$", what)]


SOURCE_CHECKS = (vague_name, open_signature, reads_environment, draws_at_import, caches)


@pytest.mark.parametrize("check", SOURCE_CHECKS)
def test_the_package_hides_nothing(check):
    assert found_in(check, MODULES.values()) == ""


@pytest.mark.parametrize(
    ("check", "source", "path"),
    [
        (vague_name, "", "src/posenc/models/utils.py"),
        (open_signature, "def f(a, **kwargs): ...", "src/posenc/a.py"),
        (open_signature, "class A:\n    def __init__(self, **options): ...", "src/posenc/a.py"),
        (open_signature, "if x:\n    class A:\n        async def go(self, **options): ...", "src/posenc/a.py"),
        (reads_environment, "import os\nhome = os.environ['HOME']", "src/posenc/a.py"),
        (reads_environment, "from os import getenv as g", "src/posenc/a.py"),
        (draws_at_import, "rng = np.random.default_rng(0)", "src/posenc/a.py"),
        (draws_at_import, "class A:\n    generator = torch.Generator()", "src/posenc/a.py"),
        (draws_at_import, "def f(x, g=torch.Generator()): ...", "src/posenc/a.py"),
        (draws_at_import, "if True:\n    torch.manual_seed(0)", "src/posenc/a.py"),
        (caches, "@functools.lru_cache(8)\ndef f(): ...", "src/posenc/a.py"),
        (caches, "from functools import cache\n@cache\ndef f(): ...", "src/posenc/a.py"),
    ],
)
def test_what_hides_is_found(check, source, path):
    assert check(source, path) != []


def test_what_does_not_hide_is_not_found():
    fine = (
        "def _f(**k): ...\ndef g(seed):\n    return np.random.default_rng(seed)\nclass _A:\n    def h(self, **k): ..."
    )
    assert [complaint for check in SOURCE_CHECKS for complaint in check(fine, "src/posenc/a.py")] == []
    assert reads_environment("os.environ", "src/posenc/cli/workbench.py") == []


# what importing costs --------------------------------------------------------------------------------


def loaded_by(statement: str) -> set[str]:
    code = f"import sys\n{statement}\nprint(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=SRC)
    return {module.split(".")[0] for module in done.stdout.split()}


def test_importing_posenc_loads_nothing_heavy_and_a_name_of_it_torch_alone():
    assert loaded_by("import posenc") & {"torch", "numpy", *HEAVY} == set()
    loaded = loaded_by("from posenc import RoPE, check")
    assert "torch" in loaded
    assert loaded & set(HEAVY) == set()
    assert loaded_by("import jinja2") & set(HEAVY) == {"jinja2"}


# the project speaks of itself alone --------------------------------------------------------------------------------

FOREIGN = re.compile(r"(?<![\w.-])/(?:work|root)/|/tmp/(?:venv)|\b(?:SPEC|QUICK|HOUSE)\.md")


def foreign(source: str, path: str) -> list[str]:
    lines = enumerate(source.splitlines(), 1)
    return [
        f"{path}:{number} names {found[0]!r}." for number, line in lines for found in [FOREIGN.search(line)] if found
    ]


def tracked() -> list[Path]:
    """Files that git tracks; outside a checkout, every file of the known folders."""
    listed = subprocess.run(["git", "-C", ROOT, "ls-files", "-z"], capture_output=True, text=True, check=False)
    paths = [ROOT / path for path in listed.stdout.split("\0") if path] or [
        path for top in ("src", "tests", "benchmarks", "tools", "docs", ".ci") for path in (ROOT / top).rglob("*")
    ]
    return [path for path in paths if path.is_file() and "__pycache__" not in path.parts]


def test_no_file_names_a_machine_or_what_is_not_in_the_project():
    texts = [(path.read_bytes().decode("utf-8", errors="ignore"), name(path)) for path in tracked()]
    assert len(texts) > 30
    assert "\n".join(complaint for text, path in texts for complaint in foreign(text, path)) == ""


@pytest.mark.parametrize("bad", ["{}work/data", "cd {}root/", "{}tmp/venv/bin/python", "see SPEC{}md", "HOUSE{}md 2"])
def test_a_foreign_name_is_found(bad):
    assert foreign("fine\n" + bad.format("." if "md" in bad else "/"), "a.md") != []
    assert foreign("src/posenc/work/x, https://example.org/work/x, ./root/", "a.md") == []
