"""Where the French models lie, as `llrnn.load("fr")` and `llrnn.load("fr-softmax")` find them."""

from pathlib import Path

FRENCH = Path(__file__).parent / "fr"
SOFTMAX = Path(__file__).parent / "fr-softmax"
