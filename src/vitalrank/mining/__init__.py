"""Hard negatives for anybody's vectors."""

from vitalrank.mining.mining import mine, mine_to
from vitalrank.mining.results import Mined, MiningSummary
from vitalrank.mining.rules import MiningRule

__all__ = ["Mined", "MiningRule", "MiningSummary", "mine", "mine_to"]
