"""Several processes that train one model: the group that torchrun made, its collectives, its launcher.

``torch.distributed`` carries the messages; it is imported only where a group is.
"""

from __future__ import annotations

from vitalrank._util.lazy import lazy_names

__all__ = ["Group", "ProcessGroup", "current_group", "join_group"]

_load, __dir__ = lazy_names(
    __name__,
    {
        "ProcessGroup": "distributed.process_group:ProcessGroup",
        "Group": "distributed.group:Group",
        "current_group": "distributed.joining:current_group",
        "join_group": "distributed.joining:join_group",
    },
)
__getattr__ = _load
