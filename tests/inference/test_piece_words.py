"""Words of a model of pieces: p(w | c) = p(tokens of w | c) · P_B(c w) / P_B(c), against sums over all strings."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Sequence
from functools import cache
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

import llrnn
from llrnn import EOS, LLRNN, Corpus, Vocabulary, cli
from llrnn.ground.errors import ConfigError
from llrnn.inference.piece_words import PieceWord, PieceWords
from llrnn.knowledge.backgrounds import Background
from llrnn.layer.priors import DensePrior, Prior
from llrnn.model.lm import plain_model
from llrnn.serve.engine import Engine
from llrnn.serve.messages import ScoreRequest
from llrnn.serve.served import Served
from llrnn.text.encoded import EncodedText
from llrnn.text.tokenisers import Blanks

# --- a toy language model: what comes next depends on the last two tokens; all strings can be added up --------------

TOKENS = {EOS: "", "a": "a", "Ã©": "é", "Ġa": " a", "Ġb": " b", "Ġ": " ", ".Ċ": ".\n", "Ġa.Ċ": " a.\n"}
SYMBOLS = [*[*TOKENS][1:], EOS]
V = len(SYMBOLS)
END = V - 1


@cache
def table() -> np.ndarray[Any, Any]:
    """log p of the next token by the last two, (V, V, V) float64: words seldom go on, so that sums are short."""
    logits = np.random.default_rng(0).normal(size=(V, V, V))
    logits[:, :, [SYMBOLS.index(one) for one in ("a", "Ã©", ".Ċ", "Ġ")]] -= 7.0
    return np.asarray(logits - np.log(np.exp(logits).sum(-1, keepdims=True)))


class Toy(Background[tuple[int, ...]]):
    def initial(self, condition: object = None) -> tuple[int, ...]:
        return (END,)

    def advance(self, state: tuple[int, ...], symbol: int) -> tuple[int, ...]:
        return (state[-1], symbol)

    def prior(self, states: Sequence[tuple[int, ...]]) -> Prior:
        return DensePrior(torch.tensor(np.stack([table()[state] for state in states])), sums_to_one=True)


class Spelled(Blanks):
    def detokenise(self, words: Sequence[str]) -> str:
        return "".join(TOKENS.get(word, word) for word in words)


@cache
def toy() -> tuple[LLRNN, PieceWords]:
    model = plain_model(Vocabulary(SYMBOLS), Toy()).double()
    return model, PieceWords(model.vocabulary, Spelled(), {END})


def read(rows: Sequence[Sequence[int]]) -> list[list[PieceWord]]:
    model, pieces = toy()
    corpus = Corpus.from_sentences([[SYMBOLS[one] for one in row] for row in rows])
    return pieces.read(model, EncodedText.encode(corpus, model.vocabulary))


def log_p(tokens: Sequence[int]) -> float:
    """log p of tokens, by the table alone."""
    padded = [END, END, *tokens]
    return float(sum(table()[padded[n], padded[n + 1], one] for n, one in enumerate(tokens)))


def spelled(tokens: Sequence[int]) -> str:
    return "".join(TOKENS[SYMBOLS[one]] for one in tokens)


def boundary(tokens: Sequence[int]) -> float:
    """P_B, one by one: all that may follow white space or nothing at all, else what begins with it, or the end."""
    text = spelled(tokens)
    if not text or text[-1].isspace():
        return 1.0
    begins = [one for one in range(V) if one == END or TOKENS[SYMBOLS[one]][0].isspace()]
    return math.fsum(math.exp(log_p([*tokens, one]) - log_p(tokens)) for one in begins)


@cache
def next_words(context: tuple[int, ...]) -> list[tuple[int, ...]]:
    """All strings of tokens, four at most, that are one more word behind a text; longer ones hardly weigh."""
    before = spelled(context)
    strings = (more for length in range(1, 5) for more in product(range(END), repeat=length))
    free = not before or before[-1].isspace()
    found = ((more, spelled(more)) for more in strings if not spelled(more[-1:]).isspace())
    return [more for more, text in found if (free or text[0].isspace()) and len(text.split()) == 1]


def ids(text: str) -> tuple[int, ...]:
    return tuple(map(SYMBOLS.index, text.split()))


CONTEXTS = ["", "Ġa", "a Ã©", "Ġb Ã© Ġ Ġa", "Ġa .Ċ", "Ġa.Ċ a"]


@pytest.mark.parametrize("text", CONTEXTS)
def test_the_words_behind_a_text_and_its_end_sum_to_one(text: str) -> None:
    context = ids(text)
    words = [one[-1] for one in read([(*context, *more) for more in next_words(context)])]
    blank = SYMBOLS.index("Ġ")
    ends = (log_p([*context, *[blank] * n, END]) for n in range(5))  # white space at the end is no word
    whole = boundary(context) * math.exp(log_p(context))
    total = math.fsum(math.exp(one.log_p) for one in words) + math.fsum(map(math.exp, ends)) / whole
    assert total == pytest.approx(1.0, abs=1e-6)
    assert len(words) > 100


@pytest.mark.parametrize("text", CONTEXTS)
def test_a_word_is_what_is_left_of_all_strings_that_hold_it(text: str) -> None:
    context, before = ids(text), math.log(boundary(ids(text))) + log_p(ids(text))
    some = next_words(context)[::37]
    for more, words in zip(some, read([(*context, *more) for more in some]), strict=True):
        whole = (*context, *more)
        assert words[-1].log_p == pytest.approx(log_p(whole) + math.log(boundary(whole)) - before, abs=1e-9)
        assert [one.word for one in words] == spelled(whole).split()
        assert [SYMBOLS.index(token) for one in words for token, _ in one.tokens] == list(whole)


def test_words_telescope_to_the_tokens_and_the_boundary_behind_them() -> None:
    rng = np.random.default_rng(1)
    rows = [tuple(rng.integers(END, size=n).tolist()) for n in rng.integers(0, 9, 200)]
    for row, words in zip(rows, read(rows), strict=True):
        kept = row
        while kept and spelled(kept[-1:]).isspace():  # not counted at the end
            kept = kept[:-1]
        assert math.fsum(one.log_p for one in words) == pytest.approx(log_p(kept) + math.log(boundary(kept)), abs=1e-9)
        assert [one.word for one in words] == spelled(row).split()


@pytest.mark.parametrize("text", CONTEXTS)
def test_all_cuts_of_a_word_by_brute_force(text: str) -> None:
    """Σ over the strings of tokens that spell the word behind the text; blanks at its end belong to what is behind."""
    (model, pieces), context = toy(), ids(text)
    whole = math.log(boundary(context)) + log_p(context)
    strings = [more for length in range(1, 5) for more in product(range(END), repeat=length)]
    blank, ways = "" if not context or spelled(context)[-1].isspace() else " ", dict[str, int]()
    for word in ("a", "b", "a.", "aé", "aa.", "éa"):
        cuts = [more for more in strings if spelled(more).rstrip("\n") == blank + word]
        wanted = math.fsum(math.exp(log_p([*context, *more]) - whole) * boundary([*context, *more]) for more in cuts)
        ways[word] = len(cuts)
        least, most = pieces.all_cuts(model, [SYMBOLS[one] for one in context], word)
        assert least == pytest.approx(most, abs=1e-12)
        assert math.exp(least) == pytest.approx(wanted, rel=1e-9)
        bounds = [
            pieces.all_cuts(model, [SYMBOLS[one] for one in context], word, most=n) for n in range(2 * len(cuts) + 2)
        ]
        assert all(low - 1e-12 <= least <= high + 1e-12 for low, high in bounds)
        assert all(one[0] <= more[0] and more[1] <= one[1] + 1e-12 for one, more in pairwise(bounds))
    assert ways["a."] == (3 if blank else 1)
    assert pieces.all_cuts(model, [SYMBOLS[one] for one in context], "z") == (-math.inf, -math.inf)


def test_what_is_impossible_is_minus_infinity() -> None:
    class Never(Toy):
        def prior(self, states: Sequence[tuple[int, ...]]) -> Prior:
            log_b = torch.full((len(states), V), -math.inf, dtype=torch.float64)
            log_b[:, 0] = 0.0
            return DensePrior(log_b, sums_to_one=True)

    model, pieces = plain_model(Vocabulary(SYMBOLS), Never()).double(), toy()[1]
    text = EncodedText.encode(Corpus.from_sentences([["a", "Ġa", "Ġa"]]), model.vocabulary)
    assert [one.log_p for one in pieces.read(model, text)[0]] == [-math.inf] * 3


# --- a folder of transformers ----------------------------------------------------------------------------------------

LINES = ["le chat noir, dort.  sur le lit", "la chatte (noire) dort !", "l\u2019été: 37 chiens"] * 4


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = Tokenizer(models.BPE())
    made.pre_tokenizer, made.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=300, special_tokens=["<|end|>", "<|pad|>"], show_progress=False, initial_alphabet=alphabet
    )
    made.train_from_iterator(LINES, trainer)
    place = tmp_path_factory.mktemp("lm")
    transformers.PreTrainedTokenizerFast(
        tokenizer_object=made, eos_token="<|end|>", pad_token="<|pad|>"
    ).save_pretrained(place)
    torch.manual_seed(0)
    config = transformers.GPT2Config(
        vocab_size=made.get_vocab_size(), n_layer=1, n_head=2, n_embd=16, n_positions=64, bos_token_id=0, eos_token_id=0
    )
    model = transformers.GPT2LMHeadModel(config)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(6.0)
    model.save_pretrained(place)
    return place


@pytest.fixture(scope="module")
def model(folder: Path) -> LLRNN:
    return llrnn.open_lm(folder)


@pytest.mark.parametrize(
    "text", [*LINES[:3], "chat", " chat", "a  b   c ", "\u00e9\t\u4e2d\u6587\nb", "« l'été »", "...", "x\u00a0y"]
)
def test_words_are_those_between_white_space(model: LLRNN, text: str) -> None:
    (found,) = llrnn.score(model, [text]).sentences
    assert list(found.words) == text.split(" " if "\u00a0" in text else None)
    tokens = [token for one in found.tokens for token, _ in one]
    assert tokens == list(model.read(text.rstrip()))
    assert found.log_prob == found.log_prob_without_end
    with torch.no_grad():
        lm, eos = model.background._model, model.vocabulary.eos  # type: ignore[attr-defined]
        read = torch.tensor([[eos, *model.vocabulary.ids(tokens)]])
        rows = torch.log_softmax(lm(read).logits[0], -1).double()
    begins = [
        n for n, one in enumerate(model.vocabulary.symbols) if one[0] in "ĠĊĉčċČĜĝĞğ" or one == EOS or one == "<|pad|>"
    ]
    wanted = float(rows[:-1].gather(1, read[0, 1:, None]).sum() + rows[-1, begins].logsumexp(0))
    assert found.log_prob == pytest.approx(wanted, abs=1e-4)


def test_texts_without_words_count_nothing(model: LLRNN) -> None:
    found = llrnn.score(model, ["", "  ", "chat"])
    assert [one.words for one in found.sentences] == [(), (), ("chat",)]
    assert found.words == 1
    assert [row["sentence_id"] for row in found.rows()] == [3]
    assert llrnn.score(model, [""]).tsv() == ""


def test_rows_have_the_columns_of_words_and_of_tokens(model: LLRNN) -> None:
    found = llrnn.score(model, LINES[:1], unit="bits")
    row = next(iter(found.rows()))
    assert [*row][2:] == ["word", "surprisal", "known", "kind", "log_prob", "n_tokens"]
    assert row["log_prob"] == -row["surprisal"] == found.sentences[0].log_p[0]
    assert sum(row["n_tokens"] for row in found.rows()) == len([*found.rows("tokens")]) == len(model.read(LINES[0]))
    nats = llrnn.score(model, LINES[:1])
    assert found.log_prob * math.log(2) == pytest.approx(nats.log_prob)
    assert found.perplexity == pytest.approx(nats.perplexity)
    tokens = [row["surprisal"] for row in nats.rows("tokens")]
    assert tokens[0] == pytest.approx(-nats.sentences[0].tokens[0][0][1])
    sentence = next(iter(found.rows("sentences")))
    assert (sentence["words"], sentence["sentence"]) == (7, " ".join(LINES[0].split()))
    with pytest.raises(ConfigError, match="over pieces of words"):
        llrnn.score(toy()[0], [["a"]]).tsv("tokens")


def test_the_server_and_evaluate_say_what_score_says(model: LLRNN) -> None:
    scored = llrnn.score(model, LINES[:3])
    assert str(scored).startswith("3 texts, 15 words: log p ")
    assert str(scored.contract).startswith("reading:alone|words:15|end:no|unknown:none|tokens:pieces|case:lower|")
    corpus = Corpus([one for line in LINES[:3] for one in Corpus.from_sentences([model.read(line)])], "", model.cut_by)
    result = llrnn.evaluate(model, corpus)
    assert result.log_perplexity * result.words == pytest.approx(-scored.log_prob, abs=1e-6)
    assert result.contract == scored.contract
    assert result.perplexity == pytest.approx(scored.perplexity) == pytest.approx(result.ppl1)
    assert result.characters == sum(len(" ".join(line.split())) + 1 for line in LINES[:3])
    assert result.sound("lm").audit.contexts_checked > 0

    async def ask() -> Any:
        engine = Engine([Served("lm", model)])
        try:
            return await engine.score(ScoreRequest(texts=(*LINES[:3], " ")))
        finally:
            await engine.close()

    *answers, none = asyncio.run(ask())["scores"]
    for one, answer in zip(scored.sentences, answers, strict=True):
        assert (tuple(answer["words"]), tuple(answer["kinds"])) == (one.words, one.kinds)
        assert answer["log_p"] == pytest.approx(one.log_p, abs=1e-6)
        assert answer["perplexity"] == pytest.approx(one.perplexity)
        assert f"|words:{len(one.words)}|end:no|" in answer["contract"]
    assert (none["words"], none["log_prob"]) == ([], 0.0)


def test_other_cuts_add_to_the_own_one(model: LLRNN) -> None:
    words = PieceWords.of(model)
    assert words is not None
    (found,) = llrnn.score(model, ["le chat noir"]).sentences
    least, most = words.all_cuts(model, model.read("le chat"), "noir", most=500)
    assert found.log_p[2] - 1e-5 < least <= most < least + 0.5
    assert words.all_cuts(model, model.read("le chat"), "noir", most=3)[1] >= least


def test_other_batches_and_lowercase_are_refused(model: LLRNN) -> None:
    corpus = Corpus.from_sentences([model.read(LINES[0])])
    with pytest.raises(ConfigError, match="leave `lowercase` out"):
        llrnn.score(model, LINES[:1], lowercase=True)
    with pytest.raises(ConfigError, match="text by text"):
        llrnn.evaluate(model, corpus, batching=llrnn.Continuous())


def test_the_verbs_say_so_too(folder: Path, model: LLRNN, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = tmp_path / "text.txt"
    text.write_text("\n".join([LINES[0], "", LINES[1]]), encoding="utf8")
    scored = llrnn.score(model, LINES[:2])
    said = []
    for command in (["score", str(folder), str(text), "--json"], ["evaluate", str(folder), str(text), "--json"]):
        assert cli.run(command) == 0
        said.append(json.loads(capsys.readouterr().out))
    assert said[0]["log_prob"] == pytest.approx(scored.log_prob, abs=1e-6)
    assert [one["sentence_id"] for one in said[0]["scores"]] == [1, 3]
    assert said[0]["scores"][0]["tokens"][0][0][0] == model.read(LINES[0])[0]
    assert said[1][0]["contract"] == said[0]["contract"] == str(scored.contract)
    assert said[1][0]["log_perplexity"] * said[1][0]["words"] == pytest.approx(-scored.log_prob, abs=1e-6)
    assert cli.run(["score", str(folder), str(text), "--by", "tokens"]) == 0
    assert capsys.readouterr().out.startswith("sentence_id\tword_id\ttoken\tsurprisal\n1\t1\t")
