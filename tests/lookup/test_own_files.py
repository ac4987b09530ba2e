"""Schemes of one's own in text: files, modules and installed packages; and one sentence for each that is wrong."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from own_scheme_files import write_bias, write_package
from posenc import check
from posenc.lookup import own_files, scheme_text
from posenc.lookup.name_suggestion import unknown, unknown_variant
from posenc.lookup.scheme_reference import Reference, has_reference, installed, references, split_view

pytestmark = pytest.mark.bare


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "mypkg", raising=False)
    monkeypatch.delitem(sys.modules, "mypkg.bias", raising=False)
    return tmp_path


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("my_bias.py", [Reference("my_bias.py", "", is_file=True)]),
        ("a/b-c.py:MyBias(heads=8)", [Reference("a/b-c.py", "MyBias", is_file=True)]),
        ("Sum([RoPE(16), my_bias.py:MyBias(heads=4)])", [Reference("my_bias.py", "MyBias", is_file=True)]),
        ("mypkg.bias:MyBias(heads=8)@grid", [Reference("mypkg.bias", "MyBias")]),
        ("RoPE(pairing='half.py')", []),
        ("VORoPE(at='q:k')", []),
        ("RoPE(64, frequencies=yarn(factor=4, trained=2048))", []),
    ],
)
def test_references_are_found_in_text(text: str, found: list[Reference]) -> None:
    parts = references(text)
    assert [part for part in parts if isinstance(part, Reference) and part.source] == found
    assert "".join(map(str, parts)) == text


def test_a_file_with_blanks_and_brackets_in_its_name(here: Path) -> None:
    write_bias(here / "my (1) bias.py")
    assert own_files.with_names("my (1) bias.py:MyBias(heads=2)").startswith("MyBias_")


def test_views_are_split_from_labels() -> None:
    assert split_view("GridPE@grid") == ("GridPE", "grid")
    assert split_view("hash@60000") == ("hash@60000", "")
    assert split_view("X(name='a@b')") == ("X(name='a@b')", "")


def test_a_file_works_as_a_name_everywhere_in_text(here: Path) -> None:
    write_bias(here / "my_bias.py")
    name = own_files.with_names("my_bias.py:MyBias")
    assert own_files.with_names("my_bias.py") == name
    assert own_files.texts_with_names("my_bias.py@index") == [f"{name}@index"]
    text = own_files.with_names("Sum([RoPE(16), my_bias.py:MyBias(heads=4)], translation='exact')")
    assert text == f"Sum([RoPE(16), {name}(heads=4)], translation='exact')"
    assert scheme_text.build(scheme_text.parse(text), {}).claims.sites == {"q", "k", "bias"}
    assert own_files.with_names("rope") == "rope"
    assert check("my_bias.py:MyBias", family="definition").ok
    assert check("my_bias.py:MyBias(heads=3)", family="definition").ok


def test_a_module_and_an_entry_point_of_an_installed_package(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not has_reference("MyBias(heads=4)")
    monkeypatch.syspath_prepend(write_package(here / "site", {"MyBias": "mypkg.bias:MyBias"}))
    assert [entry.value for entry in installed()["MyBias"]] == ["mypkg.bias:MyBias"]
    assert "mypkg.bias" not in sys.modules  # listed without an import
    assert has_reference("MyBias(heads=4)")
    name = own_files.with_names("mypkg.bias:MyBias")
    assert own_files.with_names("MyBias(heads=4)") == f"{name}(heads=4)"
    assert own_files.with_names("Sum([MyBias, ALiBi])") == f"Sum([{name}, ALiBi])"


def test_a_name_of_posenc_stays_posencs(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(write_package(here / "site", {"RoPE": "mypkg.bias:MyBias"}))
    write_bias(here / "rope.py", "RoPE")
    assert own_files.with_names("RoPE(head_dim=8)") == "RoPE(head_dim=8)"
    assert own_files.with_names("rope.py").startswith("RoPE_")  # a file ends with .py, so the two cannot be confused


def test_two_packages_that_offer_one_name(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("mypkg", "other"):
        monkeypatch.syspath_prepend(write_package(here / name, {"MyBias": f"{name}.bias:MyBias"}, name))
    with pytest.raises(
        ValueError, match=r"scheme of 2 installed packages\. Write which one: mypkg.bias:MyBias or other"
    ):
        own_files.with_names("MyBias")


def test_two_files_of_one_name_in_one_request(here: Path) -> None:
    for folder, slope in (("a", "1.5"), ("b", "2.5")):
        (here / folder).mkdir()
        write_bias(here / folder / "bias.py", before=f"\nSLOPE = {slope}\n", after="\n\ndef unused():\n    pass\n")
        text = (here / folder / "bias.py").read_text()
        (here / folder / "bias.py").write_text(text.replace("super().__init__()", "super().__init__()\n        SLOPE"))
    first, second = (own_files.classes_named(f"{folder}/bias.py") for folder in "ab")
    assert first is not None
    assert second is not None
    names = [own_files.own_scheme.text_of(kind) for kind in (*first, *second)]
    assert names[0] != names[1]
    assert "SLOPE = 1.5" in own_files.own_scheme.codes()[names[0]]


@pytest.mark.parametrize(
    ("content", "text", "sentence"),
    [
        (None, "absent.py", r"^there is no file absent\.py\. Give a Python file with a class that subclasses"),
        (None, "fire.py", r"no file fire\.py\. .* For posenc's own FIRE leave \.py out\.$"),
        ("x = 1", "bad.py", r"^bad\.py defines no scheme\. Subclass posenc\.Scheme"),
        (
            "import absent_module",
            "bad.py",
            r"^bad\.py cannot be imported: ModuleNotFoundError in line 1: .*Install",
        ),
        ("def f(:\n", "bad.py", r"^bad\.py cannot be imported: SyntaxError in line 1: "),
        (
            "x = 1\n\ny = 1 / 0\n",
            "bad.py",
            r"^bad\.py cannot be imported: ZeroDivisionError in line 3: division",
        ),
        ("import sys\nsys.exit(3)", "bad.py", r"^bad\.py cannot be imported: it ends the process\. .*__main__"),
        (None, "absent_module:MyBias", r"^the module absent_module of 'absent_module:MyBias' cannot be imported"),
        (None, "posenc.schemes.rope:Rope", r"has no scheme 'Rope'\. Did you mean posenc\.schemes\.rope:RoPE\?$"),
    ],
)
def test_wrong_files_are_one_sentence(here: Path, content: str | None, text: str, sentence: str) -> None:
    if content is not None:
        (here / "bad.py").write_text(content)
    with pytest.raises(ValueError, match=sentence) as raised:
        own_files.with_names(text)
    assert "\n" not in str(raised.value)


def test_a_file_with_two_schemes_needs_a_name_where_one_is_wanted(here: Path) -> None:
    two = write_bias(here / "two.py", "First")
    two.write_text(two.read_text() + "\n\nclass Second(First):\n    pass\n")
    assert len(own_files.texts_with_names("two.py")) == 2
    for text in ("two.py(heads=8)", "Sum([RoPE, two.py])"):
        with pytest.raises(ValueError, match=r"^two\.py defines 2 schemes: First, Second\. Name one, as two\.py:First"):
            own_files.with_names(text)
    with pytest.raises(ValueError, match=r"two\.py has no scheme 'Frist'\. Did you mean two\.py:First\?"):
        own_files.with_names("two.py:Frist")


def test_what_a_file_prints_is_reported_and_left_out_of_the_output(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_bias(here / "loud.py", before="\nprint('hello', 'there')\n")
    own_files.with_names("loud.py")
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err == "loud.py prints when it is imported: 'hello there'. This is left out of the output.\n"


def test_an_edited_file_is_read_again(here: Path) -> None:
    path = write_bias(here / "my_bias.py")
    before = own_files.with_names("my_bias.py")
    path.write_text(path.read_text().replace("super().__init__()", "super().__init__()  # edited"))
    assert own_files.with_names("my_bias.py") != before


def test_classes_are_those_of_the_file(here: Path) -> None:
    write_bias(here / "my_bias.py")
    assert [kind.__name__ for kind in own_files.classes_named("my_bias.py") or ()] == ["MyBias"]
    assert own_files.classes_named("my_bias.py:MyBias(heads=4)") is None
    assert own_files.classes_named("RoPE") is None


def test_a_file_named_without_its_ending_is_suggested(here: Path) -> None:
    write_bias(here / "my_bias.py")
    with pytest.raises(
        ValueError, match=r"there is no encoding 'my_bias'\. Did you mean the file my_bias\.py\? The enc"
    ):
        scheme_text.find("my_bias")
    assert "Did you mean the file my_bias.py? The variants are a." in unknown_variant("my_bias", ["a"], ["T5Bias"])


UNFINISHED = """

class Half(Scheme):
    examples = ({},)
"""


def test_a_class_without_prepare_is_named_and_left_out(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_bias(here / "two.py")
    path.write_text(path.read_text() + UNFINISHED)
    assert [kind.__name__ for kind in own_files.schemes_of_file(path)] == ["MyBias"]
    assert capsys.readouterr().err == f"{path}: Half is left out, because it lacks its method `prepare`.\n"
    path.write_text(path.read_text() + "\n\nclass Whole(Half):\n    def prepare(self, pos):\n        return pos\n")
    assert [kind.__name__ for kind in own_files.schemes_of_file(path)] == ["MyBias", "Whole"]
    assert capsys.readouterr().err == ""  # Half is the base of another scheme
    path.write_text(f"from posenc import Scheme\n{UNFINISHED}")
    with pytest.raises(ValueError, match=r"defines no scheme\. Its class Half lacks its method `prepare`\. Subclass"):
        own_files.schemes_of_file(path)


def test_a_module_without_a_class_is_told_how_to_name_one() -> None:
    known = ("RoPE", "ALiBi")
    assert "Did you mean a class of a module, mypkg.bias:CLASS?" in unknown("encoding", "mypkg.bias", known)
    assert "CLASS" not in unknown("encoding", "foxx", known)
