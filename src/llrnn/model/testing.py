"""The laws that every piece of knowledge and every controller obeys, as checks that users run on their own classes."""

from llrnn.knowledge.testing import (
    check_background,
    check_contextual,
    check_contextual_input,
    check_domain,
    check_features,
)
from llrnn.model.own import check_controller

__all__ = [
    "check_background",
    "check_contextual",
    "check_contextual_input",
    "check_controller",
    "check_domain",
    "check_features",
]
