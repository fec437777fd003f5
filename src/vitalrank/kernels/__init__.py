"""Compiled inner loops, one package per device with the same function names and arguments, and what devices share."""

import vitalrank._util.threads  # noqa: F401  (before Numba: it reports settings that Numba cannot be imported with)
