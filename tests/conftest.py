"""Set before Numba is imported: four threads, so that tests can ask for 1, 2 and 4 on any machine."""

import os

os.environ.setdefault("NUMBA_NUM_THREADS", "4")
