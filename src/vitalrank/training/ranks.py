"""What the ranks of a group must have alike before they train together."""

from __future__ import annotations

import re
from dataclasses import replace

from vitalrank.config import TrainConfig
from vitalrank.distributed.process_group import ProcessGroup
from vitalrank.errors import SettingError
from vitalrank.interactions import Interactions

_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")  # in the default repr of an object; differs between processes


def without_address(value: object) -> str:
    """The ``repr`` of a value, the same in every process.

    Examples
    --------
    >>> without_address(object())
    '<object object>'
    """
    return _ADDRESS.sub("", repr(value))


def check_same_run(
    group: ProcessGroup,
    model: object,
    sampler: object,
    config: TrainConfig,
    train: Interactions,
    valid: Interactions | None,
) -> None:
    """Stop ranks that were not given the same logs, model, sampler and settings."""
    if group.size == 1:
        return
    group.barrier()  # some may have read the log later than others
    own = {
        "log": train.fingerprint,
        "validation log": None if valid is None else valid.fingerprint,
        "model": without_address(model),
        "sampler": without_address(sampler),
        "settings": repr(replace(config, threads=None)),
    }
    for rank, found in enumerate(group.all_gather_objects(own)):
        for name, mine in own.items():
            if mine != found[name]:
                raise SettingError(
                    f"rank {rank} was given another {name} than rank {group.rank}; start all ranks by one command on "
                    "the same files."
                )
