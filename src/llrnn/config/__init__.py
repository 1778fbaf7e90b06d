"""A configuration, typed TOML, and the model that it describes: which text, knowledge, network, training."""

from llrnn.config.keys import Config
from llrnn.config.project import Project, described_keys, parse_config, read_config

__all__ = ["Config", "Project", "described_keys", "parse_config", "read_config"]
