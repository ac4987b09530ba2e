"""Names of columns of longitude and latitude, in lower case, that tables and estimators look for."""

LONGITUDES = ("longitude", "lon", "lng", "long", "längengrad", "laengengrad", "longitud")
LATITUDES = ("latitude", "lat", "breitengrad", "latitud")
