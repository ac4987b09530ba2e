"""Do encodings of the plane err more than encodings of the sphere near the poles and the date line?

    posenc run globe                              the smooth random field, no data needed
    posenc run globe --data DIR                   land or sea and the largest countries too: four to six minutes
    posenc run globe --preset standard --data DIR --yes

An encoding of longitude and latitude, with a small network, predicts a quantity at a place: the value of a smooth
random field, land or sea, or which of the 40 largest countries (Natural Earth). All encodings have the same number of
trained parameters. Predicted before the first run: encodings of the sphere (the unit vector, spherical harmonics,
Sphere2Vec, a hash grid on the vector) err less than their counterparts on the plane within 10 degrees of the poles and
within 5 of the date line, and have no jump across it.
"""

from __future__ import annotations

from posenc.workbench.studies.globe.claims import headline, predictions
from posenc.workbench.studies.globe.conditions import condition
from posenc.workbench.studies.globe.execute import TRAIN, memory_bytes, run_seconds
from posenc.workbench.studies.globe.panels import PANELS
from posenc.workbench.studies.globe.presets import LIMITS, PRESETS
from posenc.workbench.studies.globe.settings import run_settings
from posenc.workbench.studies.globe.stored_model import STORED_MODEL
from posenc.workbench.studies.globe.variants import VIEWS
from posenc.workbench.studies.shared.study import Cost, Study
from posenc.workbench.tables.curve_table import ArrayAxis
from posenc.workbench.tasks.globe import BAND

STUDY = Study(
    name="globe",
    question="Do encodings of the plane err more than encodings of the sphere near the poles and the date line?",
    data={"geo/natural_earth_110m_raster.npz": "land or sea and countries; without it the random field alone"},
    lead=(
        "A network predicts a quantity at a place of the globe from an encoding of its longitude and latitude. A map "
        "onto a plane cuts the sphere at the date line and stretches it at the poles. An encoding that treats "
        "longitude and latitude as plane coordinates does the same."
    ),
    presets=PRESETS,
    panels=PANELS,
    condition=condition,
    procedure=TRAIN,
    stored_model=STORED_MODEL,
    passes=True,
    run_settings=run_settings,
    cost=Cost(seconds=run_seconds, memory=memory_bytes, smaller="Ask for a smaller table or network."),
    arrays={"error_by_latitude": ArrayAxis("error", "latitude (degrees)", BAND / 2 - 90, BAND)},
    metrics=("rmse", "rmse_poles", "rmse_date_line", "accuracy"),
    headline=headline,
    predictions=predictions,
    limits={name: (*LIMITS, *preset.limits) for name, preset in PRESETS.items()},
    views=VIEWS,
)
