"""The log, and what it takes to number, order, split and describe it."""

from vitalrank.interactions.log import Interactions

__all__ = ["Interactions"]
