"""The French sample: parts of it in order, what is asked for beyond its end, and how CoNLL-U is written."""

from __future__ import annotations

import pytest

from llrnn import french
from llrnn.ground.errors import CorpusError
from llrnn.text.readers import Sentence, Token, conllu_lines


def test_parts_of_the_sample() -> None:
    first = french.sentences(20)
    assert [*french.sentences(5), *french.sentences(15, skip=5)] == first
    assert (first[3].name, len(french.sentences(0)), len(french.sentences(1, skip=7999))) == ("french-0-3", 0, 1)
    assert all(token.lemma and token.pos and token.head is not None for one in first for token in one.tokens)
    assert any(token.feats.get("Gender") == "Fem" for one in first for token in one.tokens)


@pytest.mark.parametrize(("count", "skip"), [(8001, 0), (1, 8000), (-1, 0), (1, -1)])
def test_there_are_8000(count: int, skip: int) -> None:
    with pytest.raises(CorpusError, match=r"has 8,000 sentences, found .* asked for after .*; ask for fewer"):
        french.sentences(count, skip=skip)


# CoNLL-U


def test_conllu_is_well_formed_and_reads_back() -> None:
    some = french.sentences(500)
    lines = list(conllu_lines(some))
    blocks = "\n".join(lines).strip("\n").split("\n\n")
    assert lines[-1] == ""
    assert len(blocks) == 500
    for block, sentence in zip(blocks, some, strict=True):
        first, second, *rows = block.split("\n")
        assert first == f"# sent_id = {sentence.name}"
        assert read_tokens(rows) == sentence.tokens
        assert second == "# text = " + joined(rows)


def read_tokens(rows: list[str]) -> tuple[Token, ...]:
    tokens = []
    for place, row in enumerate(rows, start=1):
        index, form, lemma, pos, _, feats, head, relation, deps, misc = row.split("\t")
        assert (index, deps) == (str(place), "_")
        assert misc in ("_", "SpaceAfter=No")
        pairs = [] if feats == "_" else [pair.split("=") for pair in feats.split("|")]
        names = [name for name, _ in pairs]
        assert names == sorted(names, key=str.lower)
        tokens.append(Token(form, lemma, pos, dict(pairs), int(head), relation))
    return tuple(tokens)


def joined(rows: list[str]) -> str:
    parts = [row.split("\t") for row in rows]
    return "".join(part[1] + ("" if part[9] == "SpaceAfter=No" else " ") for part in parts).strip()


def test_conllu_of_unannotated_text_and_french_spacing() -> None:
    lines = list(conllu_lines([Sentence((Token("l'"), Token("ami"), Token(","), Token("oui"), Token("?")))]))
    assert lines[1] == "# text = l'ami, oui ?"
    assert lines[2] == "1\tl'\t_\t_\t_\t_\t_\t_\t_\tSpaceAfter=No"
