"""Files to a prepared log in bounded memory: runs on disk, ids merged, rows sorted a block of users at a time."""

from vitalrank.preparing.running import prepare_log

__all__ = ["prepare_log"]
