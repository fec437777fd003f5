"""Prepared logs: folders of arrays that are mapped into memory instead of read, so that a log may be larger than it."""

from vitalrank.prepared.folder import Prepared
from vitalrank.prepared.layout import is_prepared, is_unfinished
from vitalrank.prepared.writing import PreparedWriter

__all__ = ["Prepared", "PreparedWriter", "is_prepared", "is_unfinished"]
