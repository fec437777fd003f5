"""The command line as one rank, with a fault that its first argument names; the others are the command."""

from __future__ import annotations

import os
import sys

from vitalrank import cli


def _full_disk(rank):
    """No file of rank 0 grows beyond a kilobyte."""
    import resource

    if rank == 0:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1024, 1024))


def _raises(rank):
    """Rank 1 fails in its second epoch."""
    from vitalrank.engines.mf_ranks import RankedEngine

    usual = RankedEngine.run_epoch

    def run_epoch(engine, epoch, *others):
        if rank == 1 and epoch == 2:
            raise ZeroDivisionError("a mistake of rank 1")
        return usual(engine, epoch, *others)

    RankedEngine.run_epoch = run_epoch


def _another_log(rank):
    """Rank 1 is given a log that is not there."""
    if rank == 1:
        sys.argv[2] += ".missing"


FAULTS = {"none": lambda rank: None, "full disk": _full_disk, "raises": _raises, "missing log": _another_log}


if __name__ == "__main__":
    name = sys.argv.pop(1)
    FAULTS[name](int(os.environ["RANK"]))
    cli.main()
