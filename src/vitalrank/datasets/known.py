"""The known data sets: where each lies, on what terms, how to read it, and how the papers filter it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

ML = "https://files.grouplens.org/datasets/movielens/{}.zip"
AMAZON = "https://snap.stanford.edu/data/amazon/productGraph/categoryFiles"
GROUPLENS_TERMS = "GroupLens: research use, no redistribution, cite Harper and Konstan (2015)"
AMAZON_TERMS = "Amazon reviews, UCSD: research use, cite He and McAuley (2016)"


@dataclass(frozen=True)
class Dataset:
    """One known data set."""

    name: str
    about: str
    terms: str
    url: str | None  # None: the owner gives it out on request only
    member: str | None = None  # the log inside a zip archive
    sha256: str | None = None  # None: not known; length and kind are checked
    options: dict[str, Any] = field(default_factory=dict)  # how to call ``vr.read``
    core: tuple[int, int] = (0, 0)  # least rows per user and item in the usual preparation


_ALL = (
    Dataset("ml-100k", "MovieLens ratings, 100,000", GROUPLENS_TERMS, ML.format("ml-100k"), "ml-100k/u.data"),
    Dataset("ml-1m", "MovieLens ratings, 1 million", GROUPLENS_TERMS, ML.format("ml-1m"), "ml-1m/ratings.dat"),
    Dataset("ml-20m", "MovieLens ratings, 20 million", GROUPLENS_TERMS, ML.format("ml-20m"), "ml-20m/ratings.csv"),
    Dataset(
        "amazon-movies",
        "Amazon Movies and TV ratings to 2014; with the 10-core, Movies&TV of the VINS paper",
        AMAZON_TERMS,
        f"{AMAZON}/ratings_Movies_and_TV.csv",
        core=(10, 10),
    ),
    Dataset(
        "amazon-cds",
        "Amazon CDs and Vinyl ratings to 2014; with the 10-core, CDs&Vinyl of the VINS paper",
        AMAZON_TERMS,
        f"{AMAZON}/ratings_CDs_and_Vinyl.csv",
        core=(10, 10),
    ),
    Dataset(
        "steam",
        "Steam reviews to 2018; with the 10-core, Steam of the VINS paper",
        "Steam reviews, UCSD: research use, cite Kang and McAuley (2018)",
        "https://cseweb.ucsd.edu/~wckang/steam_reviews.json.gz",
        core=(10, 10),
    ),
    Dataset(
        "yelp",
        "Yelp reviews; with the 10-core, Yelp of the VINS paper (13th round of the challenge)",
        "Yelp dataset terms: accept them at https://www.yelp.com/dataset and unpack the review file",
        None,
        core=(10, 10),
    ),
    Dataset(
        "gowalla",
        "Gowalla check-ins, 2009 to 2010",
        "SNAP: cite Cho, Myers and Leskovec (2011)",
        "https://snap.stanford.edu/data/loc-gowalla_totalCheckins.txt.gz",
        options={"user": 0, "time": 1, "item": 4},
        core=(10, 10),
    ),
)
DATASETS = {dataset.name: dataset for dataset in _ALL}
