"""Honest numbers: the whole catalogue ranked for every test user, measured, broken down and tested for significance."""

from vitalrank.evaluation.grouping import popularity_band
from vitalrank.evaluation.measuring import evaluate, value_of
from vitalrank.evaluation.results import Evaluation
from vitalrank.evaluation.significance import Comparison, compare, significance

__all__ = ["Comparison", "Evaluation", "compare", "evaluate", "popularity_band", "significance", "value_of"]
