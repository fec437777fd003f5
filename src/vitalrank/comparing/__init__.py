"""Samplers, models and seeds compared on one log and one split."""

from vitalrank.comparing.outcomes import Outcome
from vitalrank.comparing.planning import Method, methods_of
from vitalrank.comparing.results import Results, Row
from vitalrank.comparing.running import RunCallback, compare, run_comparison
from vitalrank.comparing.tables import FORMATS, check_tables, write_tables

__all__ = [
    "FORMATS",
    "Method",
    "Outcome",
    "Results",
    "Row",
    "RunCallback",
    "check_tables",
    "compare",
    "methods_of",
    "run_comparison",
    "write_tables",
]
