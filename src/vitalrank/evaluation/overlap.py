"""A test set that shares rows with the training log."""

from __future__ import annotations

import warnings

from vitalrank.interactions import Interactions


def warn_of_training_rows(train: Interactions, test: Interactions) -> None:
    """Training items are left out of the lists, so that test rows among them can never be hit."""
    both = int(train.csr.multiply(test.csr).nnz)
    if both:
        warnings.warn(
            f"{both:,} of {len(test):,} test rows are in the training log and count as misses, since training items "
            "are left out of the lists; evaluate on a part that was held out.",
            stacklevel=3,
        )
