"""Titles of the publications whose claims the studies measure."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Publication:
    """A publication.

    Attributes:
        mark: Part of a claim's source that names the publication, such as "2406.08272".
        title: Its title.
        where: Where it is to be had, such as "arXiv 2406.08272".
        authors: Authors and year; "" if they are not known.
        short: Name of a publication without a number, as in ``posenc list figures --paper sc-pe``; "" for its mark.
    """

    mark: str
    title: str
    where: str
    authors: str
    short: str = ""


PUBLICATIONS = (
    Publication(
        "2406.07049",
        "GridPE: Unifying Positional Encoding in Transformers with a Grid Cell-Inspired Framework",
        "arXiv 2406.07049",
        "Li et al. 2024",
    ),
    Publication(
        "2406.08272",
        "Learning positional encodings in transformers depends on initialization",
        "arXiv 2406.08272",
        "Ito et al. 2024",
    ),
    Publication(
        "CNN with SC PE", "CNN with SC PE", "github Cui-Peng-624/SC-Position-Encoding", "Cui 2024", short="sc-pe"
    ),
    Publication("seed note 002", "Note on positional encodings, in Chinese", "seed note 002", "", short="note-002"),
    Publication(
        "2006.10739",
        "Fourier Features Let Networks Learn High Frequency Functions in Low Dimensional Domains",
        "arXiv 2006.10739",
        "Tancik et al. 2020",
    ),
    Publication(
        "2201.05989",
        "Instant Neural Graphics Primitives with a Multiresolution Hash Encoding",
        "arXiv 2201.05989",
        "Müller et al. 2022",
    ),
    Publication(
        "2003.08934",
        "NeRF: Representing Scenes as Neural Radiance Fields for View Synthesis",
        "arXiv 2003.08934",
        "Mildenhall et al. 2020",
    ),
    Publication(
        "kexue.fm/archives/10862",
        "Transformer Upgrade Road 19: The Second Kind of Rotary Position Embedding (in Chinese)",
        "kexue.fm/archives/10862",
        "Su 2025",
    ),
    Publication(
        "2108.12409",
        "Train Short, Test Long: Attention with Linear Biases Enables Input Length Extrapolation",
        "arXiv 2108.12409",
        "Press et al. 2021",
    ),
    Publication(
        "2305.19466",
        "The Impact of Positional Encoding on Length Generalization in Transformers",
        "arXiv 2305.19466",
        "Kazemnejad et al. 2023",
    ),
    Publication("tiny-cuda-nn, issue 185", "Issue 185 of tiny-cuda-nn", "github NVlabs/tiny-cuda-nn", ""),
)
OWN = Publication("prediction of this study", "Predictions of the studies, written before they were run", "posenc", "")


def publication_of(source: str) -> Publication:
    """Find the publication of a claim.

    Args:
        source: Source of the claim, such as "arXiv 2406.08272, Table 1".

    Raises:
        ValueError: No publication is listed for it.

    Example:
        >>> publication_of("arXiv 2406.08272, Table 1").authors
        'Ito et al. 2024'
    """
    for publication in (*PUBLICATIONS, OWN):
        if publication.mark in source:
            return publication
    raise ValueError(f"No publication is listed for the source {source!r}. Add it to {__name__}.PUBLICATIONS.")
