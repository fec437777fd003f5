"""The paper's tables and figures on logs of one's own: one experiment per name, resumable, shown with its settings."""

from __future__ import annotations

from vitalrank.paper.logs import Source
from vitalrank.paper.settings import StudySettings

__all__ = ["Source", "StudySettings"]
