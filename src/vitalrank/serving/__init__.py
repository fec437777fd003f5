"""What a service asks of a fitted model, in original ids: lists, similar items and users, fold-in, reasons, export."""

from vitalrank.serving.explaining import Explanation, explain, explain_history
from vitalrank.serving.exporting import export
from vitalrank.serving.filters import FilterOptions
from vitalrank.serving.items import ItemTable
from vitalrank.serving.recommending import fold_in, recommend, similar_items, similar_users
from vitalrank.serving.streaming import recommend_all
from vitalrank.serving.vectors import cosines, query_shares, solve_query

__all__ = [
    "Explanation",
    "FilterOptions",
    "ItemTable",
    "cosines",
    "explain",
    "explain_history",
    "export",
    "fold_in",
    "query_shares",
    "recommend",
    "recommend_all",
    "similar_items",
    "similar_users",
    "solve_query",
]
