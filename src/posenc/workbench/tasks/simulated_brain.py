"""Simulated brain recordings: channels in networks of unequal size, in a random order, one recording per subject.

    x_ct = a_c^s f_{network(c)}(t) + b u_c(t),    f_n = sqrt(1 - g) z_n + sqrt(g) z_0
    z, u ~ AR(1), variance 1, coefficient 0.8;  a_c^s = a_c + 0.1 N(0, 1),  a_c ~ U(0.8, 1.2);  g = 0.15

The time course f_n of network n is a mixture of its own course z_n and a course z_0 that all networks share. The
loading a_c^s of a channel on its network differs between channels and, a little, between subjects s. The sizes are
those of the 12 networks of the Cole-Anticevic partition of 360 cortical parcels. The noise b is chosen so that ridge
regression, at half the channels masked, explains about 40% of an unseen subject's variance, which is about what it
explains in real recordings from 360 parcels.

References:
    Ji et al. 2019, doi 10.1016/j.neuroimage.2018.10.006.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from posenc.workbench.tasks.recordings.series import Recordings

NETWORKS: Mapping[str, int] = {
    "VIS1": 6, "VIS2": 54, "SMN": 39, "CON": 56, "DAN": 23, "LAN": 23,
    "FPN": 50, "AUD": 15, "DMN": 77, "PMM": 7, "VMM": 4, "ORA": 6,
}  # fmt: skip
"""Number of parcels of each network, 360 in all."""
NOISE = 1.08
SHARED_PART, AR_COEFFICIENT, SUBJECT_SD = 0.15, 0.8, 0.1
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
    """Simulate one float32 recording of ``frames`` time points for each subject, with known modules.

    Args:
        subjects: Number of subjects.
        frames: Number of time points.
        seed: Seed of the order of the channels, of the loadings and of the time courses.
        networks: Number of channels of each network, by name.
        noise: Standard deviation b of the noise of a channel.

    Returns:
        Recordings ``(channels, frames)`` with the networks as modules.

    Raises:
        ValueError: There are fewer than one subject, two frames or two channels, a network is empty, or noise is
            negative.
    """
    if subjects < 1 or frames < 2 or sum(networks.values()) < 2 or min(networks.values()) < 1 or noise < 0:
        raise ValueError(
            f"a simulation has at least one subject, two frames and two channels, in networks of at least one; got "
            f"subjects={subjects}, frames={frames}, networks={dict(networks)}, noise={noise:g}."
        )
    rng = np.random.default_rng(seed)
    names = np.repeat(list(networks), list(networks.values()))
    network_of = np.repeat(np.arange(len(networks)), list(networks.values()))
    order = rng.permutation(len(names))
    loadings = rng.uniform(*LOADINGS, len(names))
    series = []
    for _ in range(subjects):
        z = _time_courses(1 + len(networks), frames, rng)
        subject_loadings = loadings + SUBJECT_SD * rng.standard_normal(len(names))
        f = np.sqrt(1 - SHARED_PART) * z[1:] + np.sqrt(SHARED_PART) * z[0]
        x = subject_loadings[:, None] * f[network_of] + noise * _time_courses(len(names), frames, rng)
        series.append(x[order].astype(np.float32))
    return Recordings(
        tuple(series),
        tuple(f"subject {number + 1}" for number in range(subjects)),
        tuple(f"parcel {number + 1}" for number in range(len(names))),
        modules=tuple(names[order].tolist()),
    )


def _time_courses(count: int, frames: int, rng: np.random.Generator) -> np.ndarray:
    """AR(1) time courses of variance 1, ``(count, frames)``."""
    x = rng.standard_normal((BURN_IN + frames, count))
    x[1:] *= np.sqrt(1 - AR_COEFFICIENT**2)
    for t in range(1, len(x)):
        x[t] += AR_COEFFICIENT * x[t - 1]
    return x[BURN_IN:].T
