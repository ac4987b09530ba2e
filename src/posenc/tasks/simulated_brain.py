"""A simulated brain: many channels in networks of unequal size, in a scrambled order, a recording a subject.

    x_ct = a_c^s f_{network(c)}(t) + b u_c(t),    f_n = sqrt(1 - g) z_n + sqrt(g) z_0
    z, u ~ AR(1), variance 1, coefficient .8;  a_c^s = a_c + .1 N(0, 1),  a_c ~ U(.8, 1.2);  g = .15

Each network n has a time course of its own and a part in one that all share; how much a channel follows its network
differs between channels and, a little, between subjects. The sizes are those of the 12 networks of the Cole-Anticevic
partition of 360 cortical parcels (Ji et al. 2019, doi 10.1016/j.neuroimage.2018.10.006). The noise b is set so that
ridge regression, at half the channels masked, explains about 40 % of an unseen subject's variance: about what it
explains of real recordings from 360 parcels.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from posenc.tasks.recordings.series import Recordings

NETWORKS: Mapping[str, int] = {
    "VIS1": 6, "VIS2": 54, "SMN": 39, "CON": 56, "DAN": 23, "LAN": 23,
    "FPN": 50, "AUD": 15, "DMN": 77, "PMM": 7, "VMM": 4, "ORA": 6,
}  # fmt: skip
"""Parcels of each network: 360 in all."""
NOISE = 1.08
SHARED, MEMORY, INDIVIDUAL = 0.15, 0.8, 0.1
LOADINGS = (0.8, 1.2)
BURN_IN = 50


def simulate(
    subjects: int,
    frames: int,
    seed: int,
    *,
    networks: Mapping[str, int] = NETWORKS,
    noise: float = NOISE,
) -> Recordings:
    """One recording of ``frames`` times from each of so many subjects, with the modules known; float32.

    networks: name and number of channels of each. noise: b. The order of the channels, how they follow their networks
    and every time course come from the seed. Raises ValueError for fewer than one subject, two frames or two channels.
    """
    if subjects < 1 or frames < 2 or sum(networks.values()) < 2 or min(networks.values()) < 1 or noise < 0:
        raise ValueError(
            f"a simulation has at least one subject, two frames and two channels, in networks of at least one; got "
            f"subjects={subjects}, frames={frames}, networks={dict(networks)}, noise={noise:g}."
        )
    chance = np.random.default_rng(seed)
    names = np.repeat(list(networks), list(networks.values()))
    number = np.repeat(np.arange(len(networks)), list(networks.values()))
    order = chance.permutation(len(names))
    follows = chance.uniform(*LOADINGS, len(names))
    series = []
    for _ in range(subjects):
        z = _courses(1 + len(networks), frames, chance)
        own = follows + INDIVIDUAL * chance.standard_normal(len(names))
        f = np.sqrt(1 - SHARED) * z[1:] + np.sqrt(SHARED) * z[0]
        x = own[:, None] * f[number] + noise * _courses(len(names), frames, chance)
        series.append(x[order].astype(np.float32))
    return Recordings(
        tuple(series),
        tuple(f"subject {number + 1}" for number in range(subjects)),
        tuple(f"parcel {number + 1}" for number in range(len(names))),
        modules=tuple(names[order].tolist()),
    )


def _courses(count: int, frames: int, chance: np.random.Generator) -> np.ndarray:
    """AR(1) time courses of variance 1, ``(count, frames)``."""
    x = chance.standard_normal((BURN_IN + frames, count))
    x[1:] *= np.sqrt(1 - MEMORY**2)
    for t in range(1, len(x)):
        x[t] += MEMORY * x[t - 1]
    return x[BURN_IN:].T
