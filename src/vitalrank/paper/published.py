"""The paper's published figures (Tables 1 to 4), for comparing orders and ratios.

Yu et al., "Addressing class-imbalance problem for personalized ranking", arXiv 2005.09272.
"""

from __future__ import annotations

from collections.abc import Mapping

LOGS = ("Yelp", "Movies&Tv", "CDs&Vinyl", "Steam")
STANDS_FOR = {"yelp": "Yelp", "amazon-movies": "Movies&Tv", "amazon-cds": "CDs&Vinyl", "steam": "Steam"}

# Table 1: users, items, observations, sparsity.
STATISTICS = {
    "Yelp": (113_917, 93_850, 3_181_432, 0.9997),
    "Movies&Tv": (40_928, 51_509, 1_163_413, 0.9994),
    "CDs&Vinyl": (26_876, 66_820, 770_188, 0.9995),
    "Steam": (20_074, 12_438, 648_202, 0.9974),
}

# Table 2: NDCG@10, in the order of LOGS.
NDCG = {
    "itemknn": (0.0205, 0.0258, 0.0261, 0.0409),
    "uni": (0.0168, 0.0186, 0.0249, 0.0457),
    "pop": (0.0161, 0.0232, 0.0301, 0.0472),
    "aobpr": (0.0173, 0.0197, 0.0278, 0.0463),
    "cml": (0.0216, 0.0179, 0.0276, 0.0317),
    "pris": (0.0210, 0.0192, 0.0265, 0.0502),
    "sa": (0.0199, 0.0206, 0.0326, 0.0483),
    "irgan": (0.0235, 0.0269, 0.0348, 0.0512),
    "dns": (0.0247, 0.0276, 0.0366, 0.0551),
    "lfm-d": (0.0234, 0.0267, 0.0354, 0.0561),
    "lfm-w": (0.0255, 0.0313, 0.0401, 0.0569),
    "vins": (0.0281, 0.0326, 0.0410, 0.0594),
}

# Table 3: mean tries at these epochs.
TRIES_AT = (5, 10, 20, 50, 150)
TRIES = {
    "Yelp": {"lfm-w": (10.2, 17.0, 19.8, 21.5, 21.7), "vins": (8.7, 11.8, 14.6, 16.2, 16.3)},
    "Movies&Tv": {"lfm-w": (3.2, 6.5, 12.0, 18.4, 19.0), "vins": (3.4, 6.2, 9.8, 14.9, 16.2)},
    "CDs&Vinyl": {"lfm-w": (3.5, 10.0, 17.1, 28.5, 29.3), "vins": (3.8, 7.9, 12.8, 21.4, 23.4)},
    "Steam": {"lfm-w": (3.2, 4.1, 5.0, 6.2, 6.3), "vins": (2.8, 3.5, 4.3, 5.4, 5.8)},
}

# Table 4: seconds of an epoch in multiples of Uniform's, in the order of LOGS.
RELATIVE_TIME = {
    "uni": (1.0, 1.0, 1.0, 1.0),
    "pop": (1.23, 1.25, 1.3, 1.28),
    "aobpr": (4.21, 2.0, 2.3, 0.71),
    "cml": (2.61, 3.1, 3.3, 4.71),
    "pris": (13.3, 12.9, 13.8, 16.0),
    "sa": (5.87, 5.75, 6.6, 6.85),
    "irgan": (49.8, 35.0, 45.4, 55.0),
    "dns": (4.46, 4.5, 4.4, 4.0),
    "lfm-d": (3.95, 6.87, 4.9, 5.42),
    "lfm-w": (10.1, 10.3, 15.8, 5.0),
    "vins": (6.48, 6.37, 10.8, 3.57),
}


def published(table: Mapping[str, tuple[float, ...]], log: str) -> dict[str, float]:
    """A column of a table: the figures of the paper's log that this one stands in for; empty if there is none.

    Examples
    --------
    >>> published(NDCG, "steam")["vins"], published(NDCG, "ml-100k")
    (0.0594, {})
    """
    if log not in STANDS_FOR:
        return {}
    place = LOGS.index(STANDS_FOR[log])
    return {name: values[place] for name, values in table.items()}
