"""Sentences as CoNLL-U."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from llrnn.text.corpus.source import Sentence, Token

_CLOSE_TO_THE_LEFT = (",", ".")


def conllu(sentences: Iterable[Sentence]) -> Iterator[str]:
    """The lines of a CoNLL-U file, without line ends; a blank one closes every sentence. What is unknown is `_`."""
    for number, sentence in enumerate(sentences, start=1):
        yield f"# sent_id = {sentence.name or number}"
        yield f"# text = {_text(sentence.tokens)}"
        spaces = _spaces_after(sentence.tokens)
        for index, (token, space) in enumerate(zip(sentence.tokens, spaces, strict=True), start=1):
            yield _line(index, token, space)
        yield ""


def _line(index: int, token: Token, space_after: bool) -> str:
    head = "_" if token.head is None else str(token.head)
    misc = "_" if space_after else "SpaceAfter=No"
    columns = (str(index), token.form, token.lemma or "_", token.pos or "_", "_", _feats(token.feats), head)
    return "\t".join((*columns, token.relation or "_", "_", misc))


def _feats(feats: Mapping[str, str]) -> str:
    """Sorted by name without regard to case, as CoNLL-U asks."""
    return "|".join(f"{name}={feats[name]}" for name in sorted(feats, key=str.lower)) or "_"


def _text(tokens: Sequence[Token]) -> str:
    spaces = _spaces_after(tokens)
    return "".join(token.form + (" " if space else "") for token, space in zip(tokens, spaces, strict=True)).rstrip()


def _spaces_after(tokens: Sequence[Token]) -> list[bool]:
    """French sets ? and ! apart, but not the comma and the full stop; an elided word touches the next."""
    following = [token.form in _CLOSE_TO_THE_LEFT for token in tokens[1:]] + [False]
    return [not token.form.endswith("'") and not close for token, close in zip(tokens, following, strict=True)]
