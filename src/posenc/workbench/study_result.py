"""Result of a study in Python: its table, figures, verdict and page."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from html import escape
from pathlib import Path
from typing import Any

from posenc.workbench import studies
from posenc.workbench.report.figure_export import FigureFormat, export_figures, named_figures, standalone_svg
from posenc.workbench.report.page import Figure
from posenc.workbench.runs import RunSpec
from posenc.workbench.storage.store import Store
from posenc.workbench.studies import Request
from posenc.workbench.studies.shared import planning
from posenc.workbench.studies.shared.study import Study
from posenc.workbench.tables.metric_table import INTERVAL_NOTE, MetricTable, metric_tables

SHOWN_FIGURES = 4
"""Number of figures that a notebook shows of a result."""


@dataclass(frozen=True)
class ResultTable:
    """Table of results with one row per run and metric.

    Attributes:
        rows: Rows with the columns "study", "preset", "setting" (the condition), "scheme" (the variant), "seed",
            "metric", "value", "unit" (the identity of the run), "data" (the name of the data), "digest" (of their
            contents) and "code" (the key of the source files that made the run).

    Example:
        >>> from posenc.workbench import ResultTable
        >>> row = {"study": "toy", "setting": "main", "scheme": "rope", "seed": 0, "metric": "loss", "value": 0.5}
        >>> table = ResultTable([row])
        >>> len(table), table.to_pandas()["value"].mean()
        (1, np.float64(0.5))
    """

    rows: Sequence[dict[str, Any]]

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self.rows)

    def to_pandas(self) -> Any:
        """Convert to a pandas DataFrame.

        Returns:
            The DataFrame.

        Raises:
            ImportError: pandas is not installed.
        """
        return _import("pandas").DataFrame(list(self.rows))

    def to_polars(self) -> Any:
        """Convert to a Polars DataFrame.

        Returns:
            The DataFrame.

        Raises:
            ImportError: Polars is not installed.
        """
        return _import("polars").DataFrame(list(self.rows), infer_schema_length=None)

    def to_arrow(self) -> Any:
        """Convert to an Arrow table.

        Returns:
            The ``pyarrow.Table``.

        Raises:
            ImportError: pyarrow is not installed.
        """
        return _import("pyarrow").Table.from_pylist(list(self.rows))

    def _repr_html_(self) -> str:
        """HTML tables of means over seeds with 95% t-intervals, one per study and preset."""
        main = {name: study.metrics for name, study in studies.studies().items()}
        return "".join(map(_html_table, metric_tables(self.rows, main)))


def _html_table(table: MetricTable) -> str:
    head = "".join(f"<th>{escape(name)}</th>" for name in ("condition", "variant", "seeds", *table.metrics, "runs"))
    body = "".join(
        f"<tr><td>{escape(line.condition)}</td><td>{escape(line.variant)}</td><td>{line.seeds}</td>"
        + "".join(f"<td>{escape(line.cell(metric))}</td>" for metric in table.metrics)
        + f"<td>{escape(line.run_names)}</td></tr>"
        for line in table.lines
    )
    caption = " ".join(filter(None, (f"{table.title}.", INTERVAL_NOTE, table.omission)))
    return f"<table><caption>{escape(caption)}</caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _import(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        raise ImportError(f"This conversion needs {name}, which is not installed: pip install {name}") from None


@dataclass(frozen=True, kw_only=True)
class StudyResult:
    """Result of a study: its runs and the page that shows them. A notebook displays the verdict, table and figures.

    Attributes:
        study: The study.
        request: The request.
        store: The store with the runs.
        specs: The trained runs, those of earlier commands included.
        path: The page, an HTML file.
        verdict: The headline of the page, then one line per prediction.
        exit_code: Exit code of a command: 1 if a run failed or was not started, otherwise 0.

    Example:
        >>> from posenc.workbench import StudyResult
        >>> sorted(name for name in vars(StudyResult) if not name.startswith("_"))
        ['figures', 'modules', 'save_figures', 'table']
    """

    study: Study
    request: Request
    store: Store
    specs: Sequence[RunSpec]
    path: Path
    verdict: Sequence[str]
    exit_code: int

    @cached_property
    def table(self) -> ResultTable:
        """Results of the trained runs and of their measurements."""
        return ResultTable(self.study.page_data(self.request, self.store, self.specs).rows)

    @cached_property
    def modules(self) -> Sequence[dict[str, Any]]:
        """One row per token with the module that the models find for it, as in the file PAGE-modules.csv of ``masked``.

        Empty for studies without modules. ``pandas.DataFrame(result.modules)`` makes a table of it.
        """
        return self.study.modules(self.study.page_data(self.request, self.store, self.specs))

    @cached_property
    def figures(self) -> dict[str, str]:
        """Figures of the page: name to a complete SVG file as text."""
        return {name: standalone_svg(figure.svg) for name, (figure, _) in self._figures.items()}

    def save_figures(self, folder: str | Path, format: FigureFormat = "pdf", *, force: bool = False) -> list[Path]:
        """Write each figure to a file of its own, in the width of a paper's column and with embedded fonts.

        Args:
            folder: Folder of the files; it is created if it does not exist.
            format: "pdf", "svg" (text as outlines) or "png" (300 dots per inch).
            force: True to replace files that exist. A link or a device is never replaced.

        Returns:
            The files.

        Raises:
            ValueError: A file exists, without ``force``, or cannot be written.
        """
        return export_figures(self._figures, Path(folder), format, force)

    @cached_property
    def _figures(self) -> dict[str, tuple[Figure, float]]:
        data = self.study.page_data(self.request, self.store, self.specs)
        data.folder.mkdir(parents=True, exist_ok=True)  # Some panels write files beside the page.
        names = planning.panels_of(self.study, self.request)
        return named_figures({name: self.study.panels[name].draw(data) for name in names})

    def _repr_html_(self) -> str:
        """Verdict, table of means and first figures, for a notebook."""
        headline, *lines = self.verdict
        shown = [
            f"<figure style='display: inline-block; width: 26rem'><figcaption>{escape(name)}</figcaption>{svg}</figure>"
            for name, svg in list(self.figures.items())[:SHOWN_FIGURES]
        ]
        return "".join(
            [
                f"<p><strong>{escape(headline)}</strong></p>",
                f"<ul>{''.join(f'<li>{escape(line)}</li>' for line in lines)}</ul>" if lines else "",
                self.table._repr_html_(),
                *shown,
                f"<p>Page: <code>{escape(str(self.path))}</code></p>",
            ]
        )
