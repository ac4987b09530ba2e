"""Do learned positions find the modules of a simulated network?

    posenc run nmar                          about two minutes on two cores, no data needed
    posenc run nmar --preset standard --yes  the paper's model, 5,000 steps at a higher rate
    posenc run nmar --preset paper --yes     the paper's model and length: days

Fifteen nodes in three modules whose order is scrambled; half of them are hidden and predicted from the others. Expected
at the quick preset, 3 networks: learned-0.1 places nodes by module (AUC above .9), learned-1 does not (below .65), and
all encodings err alike (within 3 %), near the best linear prediction.

Source: arXiv 2406.08272, appendix A.4 and Fig. A15.
"""

from __future__ import annotations

from collections.abc import Mapping

from posenc.studies.masking import work as masking
from posenc.studies.nmar import drawing, presets, work
from posenc.studies.nmar.claims import CLAIMS
from posenc.studies.sweep import Plan, Sweep

FIGURE = "arXiv 2406.08272, Fig. A15"

PLANS: Mapping[str, Plan] = {
    "modules": Plan(
        about="modularity and its null, modules found", shows=f"{FIGURE}D", needs=presets.needs, draw=drawing.modules
    ),
    "errors": Plan(
        about="errors beside the best linear one", shows="its appendix A.4", needs=presets.needs, draw=drawing.errors
    ),
    "maps": Plan(about="where nodes lie", shows=f"{FIGURE}F", needs=presets.needs, draw=drawing.maps),
    "curves": Plan(about="when modules appear", shows="the project's own", needs=presets.needs, draw=drawing.curves),
    "network": Plan(about="what was simulated", shows=f"{FIGURE}A, E", needs=presets.nothing, draw=drawing.network),
}

STUDY = Sweep(
    name="nmar",
    question="Do learned positions find the modules of a simulated network?",
    lead=(
        "Nodes of a network in three modules, in a scrambled order; half of them are hidden and predicted from the "
        "others. Nobody tells the model which nodes belong together."
    ),
    presets=presets.PRESETS,
    plans=PLANS,
    work=f"{work.__name__}:train_unit",
    settle=presets.settle,
    headline=drawing.headline,
    expected=drawing.expected,
    seconds=work.seconds,
    memory=masking.memory,
    alike=masking.alike,
    claims=CLAIMS,
    limits={
        "quick": (
            "One layer at a high rate: a setting chosen, among some twenty, because modules appear in it within 4,000 "
            "steps.",
        )
    },
    scope="quick is a one-layer model of width 32 on networks of 15 nodes; every seed draws another network.",
)
