"""GPTCache's default rule for a hit, from its own package where that is installed.

The package is no dependency: `pip install --no-deps --target DIR gptcache cachetools` and DIR on PYTHONPATH are enough.
Its default embedder is downloaded from a hub at run time, so its rule is applied to the same vectors as ours.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

# What GPTCache 0.1.44 has as defaults: SearchDistanceEvaluation scores 4 - d, d being FAISS' squared distance, and
# Config.similarity_threshold asks for 0.8 of that range.
_RANGE, _THRESHOLD = 4.0, 0.8


def default_hits(cosine: NDArray[np.float32]) -> tuple[NDArray[np.bool_], bool]:
    """Which pairs of unit vectors with these cosines hit, and whether the package itself said so."""
    distance = 2 - 2 * cosine
    try:
        from gptcache.config import Config
        from gptcache.similarity_evaluation import SearchDistanceEvaluation
    except ImportError:
        return _RANGE - distance >= _THRESHOLD * _RANGE, False
    rule, share = SearchDistanceEvaluation(), Config().similarity_threshold
    low, high = rule.range()
    scores = [rule.evaluation({}, {"search_result": (float(d), None)}) for d in distance]
    return np.array(scores) >= (high - low) * share, True
