"""A model that is nothing but two tables, for tests of what is built on models."""

import numpy as np

from vitalrank.models.dot import DotRecommender


class FixedVectors(DotRecommender):
    def __init__(self, train, queries, items):
        self.train = train
        self._queries = np.asarray(queries, np.float32)
        self._items = np.ascontiguousarray(items, np.float32)

    def fit(self, train):
        return self

    def queries(self, users):
        return self._queries[users]

    @property
    def item_table(self):
        return self._items

    def settings(self):
        return {}

    def tensors(self):
        return {}

    def restore(self, tensors, record):
        pass
