"""Environment of the tests: tiny models on the CPU twin, no look-ups on the network."""

from __future__ import annotations

import os

# The tiny checkpoint has fewer heads than a card's kernels accept; everything else of the twin's limits stays.
os.environ.setdefault("NPU_TWIN_RELAXED_DIMS", "1")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
