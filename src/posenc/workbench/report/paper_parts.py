"""Parts of publications, each a table, a figure or a claim in words, and the panel that redraws it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class PaperPart:
    """A table, a figure or a numbered part of one, as a publication prints it.

    Attributes:
        publication: Mark of the publication (``report.publications``).
        name: Its name there, such as "Fig. 3A".
        shows: What it shows there.
        panel: Name of the panel of the study that redraws it; "" if none does.
        condition: The one condition whose runs redraw it; "" for all conditions of the panel.
        variants: The variants that redraw it; empty for all of the panel. A preset may plan some of them only.
        reads_data: True if the panel reads the folder of real data.
        by_subject: True if a condition begins with the name of the scene or the picture, which depends on that folder.
        command: Another command that draws it; "" for the command of the panel, its condition and its variants.
        page: File in results/ that the command wrote; "" if none is kept.
        lacks: What of it is not drawn or not run, with the reason; "" if nothing.
        hours_each: Estimated core hours of one model of the panel with the preset standard; 0 if that is unknown.

    Example:
        >>> part = PaperPart(publication="2406.08272", name="Table 1", shows="accuracy by encoding", panel="accuracy")
        >>> part.lacks
        ''
    """

    publication: str
    name: str
    shows: str
    panel: str = ""
    condition: str = ""
    variants: tuple[str, ...] = ()
    reads_data: bool = False
    by_subject: bool = False
    command: str = ""
    page: str = ""
    lacks: str = ""
    hours_each: float = 0.0

    def drawn_by(self, study: str) -> str:
        """Command of the preset quick that redraws it.

        Args:
            study: Name of the study whose panel redraws it.

        Returns:
            The command; "" if nothing redraws it.
        """
        if self.command or not self.panel:
            return self.command
        chosen = f'--figure "{self.name}"' if self.variants or self.condition else f"--panels {self.panel}"
        return f"posenc run {study} {'--data DIR ' if self.reads_data else ''}{chosen}"
