"""The public names of posenc and its workbench: complete, loaded at first use; old import paths name the new ones."""

import importlib
import importlib.util
import pkgutil
import subprocess
import sys
from importlib.machinery import ModuleSpec
from types import MappingProxyType, ModuleType, SimpleNamespace

import pytest

import posenc
from posenc import workbench
from posenc.lookup import moved
from posenc.schemes import catalogue

pytestmark = pytest.mark.bare


def run(code: str) -> None:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_every_public_name_is_in_all_and_dir_and_the_star():
    names = set(posenc.__all__)
    assert names >= {"RoPE", "attention", "check", "sequence", "Positions", "Scheme", "__version__"}
    assert names >= {"adapt", "frequencies", "measure", "models", "schemes"}
    assert names >= set(catalogue())
    assert names == set(dir(posenc))
    assert len(posenc.__all__) == len(names)
    star: dict[str, object] = {}
    exec("from posenc import *", star)
    assert names == set(star) - {"__builtins__"}
    assert isinstance(star["frequencies"], ModuleType)
    assert [name for name in names if star[name] is not getattr(posenc, name)] == []


def test_a_public_name_is_defined_by_posenc():
    for name in sorted({*posenc.__all__} - {"__version__"}):
        value = getattr(posenc, name)
        assert (value.__name__ if isinstance(value, ModuleType) else value.__module__).startswith("posenc."), name


def test_torch_is_loaded_at_the_first_use():
    run("import posenc, sys; posenc.__version__; assert 'torch' not in sys.modules; posenc.grid; sys.modules['torch']")


@pytest.mark.full
def test_importing_the_module_attention_does_not_hide_the_function():
    run(
        "import posenc, sys; import posenc.attention; from posenc import attention; "
        "assert attention is posenc.attention is sys.modules['posenc.attention'].attention"
    )


def test_a_wrong_name_is_refused():
    with pytest.raises(AttributeError, match=r"posenc has no 'RoPES'\. Did you mean posenc\.RoPE .* posenc list shows"):
        _ = posenc.RoPES
    assert not hasattr(posenc, "nothing")


# the workbench ------------------------------------------------------------------------------------------------------


def test_every_public_name_of_the_workbench_is_in_all_and_dir_and_the_star():
    names = set(workbench.__all__)
    assert names >= {"Store", "Study", "RunSpec", "Executor", "train", "find_study", "all_studies", "studies"}
    assert names == set(dir(workbench))
    assert len(workbench.__all__) == len(names)
    star: dict[str, object] = {}
    exec("from posenc.workbench import *", star)
    assert names == set(star) - {"__builtins__"}
    assert [name for name in names if star[name] is not getattr(workbench, name)] == []


def test_a_public_name_of_the_workbench_is_defined_in_the_module_of_the_table():
    for module, members in workbench.EXPORTS.items():
        for member in members:
            name, _, public = member.partition(" as ")
            value = getattr(workbench, public or name)
            if not isinstance(value, str):
                assert (value.__module__, value.__name__) == (f"posenc.workbench.{module}", name)


def test_report_alone_is_a_name_and_a_module_of_the_workbench():
    modules = {module.name for module in pkgutil.iter_modules(workbench.__path__)}
    assert modules & set(workbench.__all__) == {*workbench.MODULES, "report"}


@pytest.mark.full
@pytest.mark.parametrize("first", ["import posenc.workbench.report.page", "from posenc.workbench.report import page"])
def test_importing_the_module_report_does_not_hide_the_function(first):
    run(f"{first}; from posenc.workbench import report; assert report.__module__ == 'posenc.workbench.commands'")
    run(f"from posenc.workbench import report; {first}; import posenc.workbench as w; assert w.report is report")


def test_the_workbench_loads_torch_at_the_first_use():
    loaded = "{'torch', 'numpy', 'msgspec', 'rich'} & set(sys.modules)"
    run(f"import posenc.workbench as w, sys; dir(w); assert not {loaded}; w.train; assert 'torch' in {loaded}")


def test_a_module_of_the_workbench_is_an_attribute():
    run("import posenc.workbench, sys; assert posenc.workbench.memory is sys.modules['posenc.workbench.memory']")


def test_a_wrong_name_of_the_workbench_is_refused():
    with pytest.raises(AttributeError, match=r"^posenc\.workbench has no 'Stores'; dir\(posenc\.workbench\) lists"):
        _ = workbench.Stores
    assert not hasattr(workbench, "nothing")


# old import paths --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("old", "new"), moved.MOVED.items())
def test_a_moved_module_names_its_new_place_which_exists(old, new):
    with pytest.raises(ModuleNotFoundError, match=f"^{old} is now {new}$"):
        importlib.import_module(old)
    assert importlib.util.find_spec(new) is not None


@pytest.mark.parametrize(
    "statement",
    ["import posenc.gone", "import posenc.gone.part", "from posenc.gone.part import x", "from posenc import gone"],
)
def test_every_form_of_import_names_the_new_place(monkeypatch, statement):
    monkeypatch.setattr(moved, "MOVED", MappingProxyType({"posenc.gone": "posenc.here"}))
    with pytest.raises(ModuleNotFoundError, match=r"^posenc\.gone is now posenc\.here$"):
        exec(statement)
    with pytest.raises(ModuleNotFoundError, match=r"No module named 'posenc\.nowhere'"):
        importlib.import_module("posenc.nowhere")


def test_a_moved_module_as_an_attribute_names_its_new_place():
    with pytest.raises(AttributeError, match=r"^posenc\.store is now posenc\.workbench\.storage\.store$"):
        _ = posenc.store


RENAMED = [(module, old, new) for module, names in moved.RENAMED.items() for old, new in names.items()]


@pytest.mark.parametrize(("module", "old", "new"), RENAMED)
def test_an_old_name_of_a_module_names_the_new_one_which_exists(module, old, new):
    with pytest.raises(ImportError, match=rf"^{module}\.{old} is now {new}$"):
        exec(f"from {module} import {old}")
    with pytest.raises(ImportError, match=rf"^{module}\.{old} is now {new}$"):
        getattr(importlib.import_module(module), old)
    assert hasattr(importlib.import_module(module), new)


def test_a_module_with_renamed_names_refuses_other_names_as_python_does():
    module = importlib.import_module("posenc.measure.loss_by_context")
    assert not hasattr(module, "nothing")
    with pytest.raises(ImportError, match="cannot import name 'nothing'"):
        exec("from posenc.measure.loss_by_context import nothing")


def test_a_loader_that_serves_several_modules_stays_as_it_is(monkeypatch):
    name = "posenc.measure.permutation_test"
    shared = SimpleNamespace(exec_module=len)  # as pytest's, which rewrites the assertions of many modules
    finder = SimpleNamespace(find_spec=lambda name, path, target: ModuleSpec(name, shared))
    monkeypatch.setattr(sys, "meta_path", [moved.MovedModules, finder])
    spec = moved.MovedModules.find_spec(name)
    assert spec.loader.exec_module is not len
    assert shared.exec_module is len


def test_another_finder_may_ask_all_finders_too(monkeypatch):
    name = "posenc.measure.permutation_test"

    def ask_others(*words):
        others = (each for each in sys.meta_path if each is not asking)
        return next((found for each in others if (found := each.find_spec(*words))), None)

    asking = SimpleNamespace(find_spec=ask_others)  # as tools that count executed lines do
    monkeypatch.setattr(sys, "meta_path", [asking, *sys.meta_path])
    assert importlib.util.find_spec(name).name == name


@pytest.mark.full
def test_the_first_use_of_the_catalogue_may_be_on_the_meta_device():
    meta = "import torch; from posenc.schemes import catalogue\nwith torch.device('meta'): found = catalogue()\n"
    run(meta + "for scheme in found.values():\n  for options in scheme.examples: scheme(**options)")
