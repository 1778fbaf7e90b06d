"""A configuration, typed TOML, and the model that it describes: which text, knowledge, network, training."""

from llrnn.config.keys import Config
from llrnn.config.reading import parse_config, read_config
from llrnn.config.reference import reference, schema

__all__ = ["Config", "parse_config", "read_config", "reference", "schema"]
