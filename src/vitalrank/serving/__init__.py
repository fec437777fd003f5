"""What a service asks of a fitted model, in original ids: recommend, similar items and users, fold in, export."""

from vitalrank.serving.exporting import export
from vitalrank.serving.recommending import cosines, fold_in, recommend, similar_items, similar_users, solve_query

__all__ = ["cosines", "export", "fold_in", "recommend", "similar_items", "similar_users", "solve_query"]
