"""The names of arrays in annotations, and the largest number that float32 holds."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
LARGEST_FLOAT32 = 3.4028234663852886e38  # models compute in float32 unless they are told otherwise
