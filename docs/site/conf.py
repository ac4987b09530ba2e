"""Settings of Sphinx for the site. ``python tools/website`` copies this file beside the pages that it assembles."""

from __future__ import annotations

import re
from typing import Any

import numpy
import torch

from posenc.version import __version__
from posenc.workbench import runs

project = "posenc"
author = "The posenc developers"
project_copyright = "the posenc developers"
release = version = __version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "sphinx_gallery.gen_gallery",
    "sphinx_copybutton",
]
exclude_patterns = ["extra", "tutorials_source", "tutorials/*.py", "tutorials/*.ipynb",
                    "tutorials/sg_execution_times.rst",
                    "sg_execution_times.rst"]  # fmt: skip
nitpicky = False

myst_heading_anchors = 4
myst_enable_extensions = ["attrs_block", "colon_fence"]
# A page of results is written by posenc, not by Sphinx: all pages with such a link lie one folder deep.
myst_url_schemes: dict[str, Any] = {
    "http": None,
    "https": None,
    "results": {"url": "../results/{{path}}", "title": "{{path}}"},
}

autodoc_member_order = "bysource"
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented"
autodoc_preserve_defaults = True
napoleon_google_docstring, napoleon_numpy_docstring = True, False
napoleon_use_rtype = False
napoleon_preprocess_types = False
napoleon_use_ivar, napoleon_attr_annotations = True, False
suppress_warnings = ["ref.python"]  # words such as "range" in types name attributes of several classes

copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

sphinx_gallery_conf = {
    "examples_dirs": "tutorials_source",
    "gallery_dirs": "tutorials",
    "filename_pattern": r"/\d\d_",
    "within_subsection_order": "FileNameSortKey",
    "download_all_examples": False,
    "show_signature": False,
    "write_computation_times": False,
    "min_reported_time": 1e9,
    "remove_config_comments": True,
    "abort_on_example_error": True,
    "image_scrapers": ("matplotlib",),
    "matplotlib_animations": False,
    "show_memory": False,
}

html_theme = "furo"
html_title = f"posenc {version}"
html_static_path = ["static"]
html_extra_path = ["extra"]
html_css_files = ["colors.css", "site.css"]
html_js_files = ["table_sort.js", "tables.js"]
html_show_sourcelink = False
html_copy_source = False
html_last_updated_fmt = None
html_theme_options = {"navigation_with_keys": True, "top_of_page_buttons": []}

SECTION = re.compile(r"^(Args|Returns|Raises|Yields|Attributes|Example|Examples|References|Note|Warns|Conventions):$")


def keep_formulas(app: Any, what: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
    """Show indented formulas of a docstring as they stand, which reStructuredText would join to a paragraph."""
    kept: list[str] = []
    for number, line in enumerate(lines):
        before = next((each for each in reversed(lines[:number]) if each.strip()), "")
        opens = line.startswith("    ") and number and not lines[number - 1].strip()
        if opens and not before.startswith(" ") and not SECTION.match(before):
            kept += ["::", ""]
        kept.append(line)
    lines[:] = kept


def skip_requests(app: Any, what: str, name: str, thing: Any, skip: bool, options: Any) -> bool | None:
    """Leave out the methods for metadata that scikit-learn adds to each estimator: they refer to its own pages."""
    return True if re.fullmatch(r"set_\w+_request", name.rpartition(".")[2]) else None


def mend_accessibility(app: Any, page: str, template: str, context: dict[str, Any], tree: Any) -> None:
    """Give what Sphinx writes for the contents and for code what screen readers and keyboards need.

    A caption of the contents is a heading without a level. A block of code that is wider than the page is scrolled by
    the keyboard only if it takes the focus. Pages of source code have no contents: they would be a tenth of the site.
    """
    if page.startswith("_modules/"):
        context["furo_navigation_tree"] = ""
    for part in {"body", "furo_navigation_tree"} & context.keys():
        text = str(context[part]).replace('role="heading">', 'role="heading" aria-level="2">')
        context[part] = text.replace("<pre>", '<pre tabindex="0">')


def setup(app: Any) -> None:
    """Read docstrings before napoleon does; give annotations the names that are imported for type checkers alone."""
    vars(runs).update(np=numpy, torch=torch)
    app.connect("autodoc-process-docstring", keep_formulas, priority=400)
    app.connect("autodoc-skip-member", skip_requests)
    app.connect("html-page-context", mend_accessibility, priority=900)  # after the theme
