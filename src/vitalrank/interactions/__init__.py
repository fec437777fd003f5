"""The log, and what it takes to number, order, split, check and describe it."""

from vitalrank.interactions.checking import check_log, check_parts, check_rows, check_same_ids, logs_of
from vitalrank.interactions.log import Interactions, split_like

__all__ = ["Interactions", "check_log", "check_parts", "check_rows", "check_same_ids", "logs_of", "split_like"]
