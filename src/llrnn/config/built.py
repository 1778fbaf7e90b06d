"""Built corpora in a configuration: a folder where files are listed, `train = ["news"]`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from llrnn.config import Config
from llrnn.config.knowledge import CountedParts
from llrnn.ground.errors import ConfigError
from llrnn.text.corpus import Corpus
from llrnn.text.shards import BuiltCorpus


def open_built(paths: Sequence[str], config: Config) -> Corpus:
    """A built corpus; how its words are written was decided when it was built."""
    if len(paths) > 1:
        raise ConfigError(f"a built corpus stands alone, found {', '.join(paths)}; build all of them as one")
    built, wanted = BuiltCorpus(paths[0]), config.corpus.lowercase
    if built.manifest.lowercase != wanted:
        how = "with" if built.manifest.lowercase else "without"
        raise ConfigError(
            f"{paths[0]} was built {how} --lowercase, but corpus.lowercase = {str(wanted).lower()}; set it to "
            f"{str(not wanted).lower()}, or build the corpus again"
        )
    return built


def unknown_of(texts: Sequence[Corpus]) -> str | None:
    """The symbol that a built corpus has in the place of unknown words is that of the vocabulary too."""
    return next((text.unknown for text in texts if isinstance(text, BuiltCorpus) and text.unknown is not None), None)


def require_loaded(config: Config, corpora: Mapping[str, Corpus]) -> None:
    """Refuse what looks at annotations or conditions, which a built corpus has none of, or counts n-grams of it."""
    built = [part for part, corpus in corpora.items() if isinstance(corpus, BuiltCorpus)]
    for key in _needs_memory(config, set(built)) if built else ():
        raise ConfigError(
            f"{key} needs a text in memory, but corpus.{built[0]} is a built corpus, {corpora[built[0]].name}; leave "
            "it out, or give files (lexicon.corpora, lexicon.tsv; for n-grams of other text: files, arpa)"
        )


def _needs_memory(config: Config, built: set[str]) -> list[str]:
    """The keys that are set and cannot be had of a built corpus."""
    is_set = {
        "[condition]": config.condition is not None,
        "corpus.valid_last": config.corpus.valid_last is not None,
        "corpus.delexicalised": bool(config.corpus.delexicalised),
        "lexicon.parts": bool(built.intersection(config.lexicon.parts)),
        "lexicon.values": bool(config.lexicon.values),
        "lexicon.columns": bool(config.lexicon.columns),
        "background.primed": config.background.primed is not None,
        "the background of n-grams": _counts_parts(config.background, built),
        "an expert of n-grams": any(_counts_parts(one, built) for one in config.contextual),
    }
    return [key for key, wrong in is_set.items() if wrong]


def _counts_parts(given: object, built: set[str]) -> bool:
    return isinstance(given, CountedParts) and bool(built.intersection(given.parts))
