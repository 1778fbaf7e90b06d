"""Small models for the tests of the page: two of one French corpus, and one that writes from a condition.

Trained for a moment only: the page must show whatever a model says.
"""

from __future__ import annotations

from pathlib import Path

from llrnn import (
    GRU,
    LLRNN,
    LSTM,
    Corpus,
    Lexicon,
    Sentence,
    Token,
    Vocabulary,
    backgrounds,
    bias,
    contextual,
    domains,
    features,
    french,
    open_lm,
    train,
)
from llrnn.model.controllers import Attentive, Encoder
from llrnn.serve.served import Served
from llrnn.text.conditions import Slots, parse_act
from llrnn_agreement import Agreement

# a word that would run if the page ever took text for HTML; it follows BAIT
HOSTILE = "<img/src=x/onerror=document.title='broken'>"
BAIT = "attention"
EXPERT = "trigram"
ACT = "inform(name='la luna';food=thai)"


def served_models() -> list[Served]:
    """Named `french`, with a trigram as expert and as background on offer, `softmax`, `syntax` and `waiter`."""
    bait = [Sentence((Token(BAIT), Token(HOSTILE), Token(".")))] * 12
    corpus = Corpus.from_sentences([*french.sentences(500), *bait]).lowercased()
    vocabulary = Vocabulary.from_corpus(corpus)
    ngram = backgrounds.NGram.from_corpus(corpus, order=3)
    knowing = LLRNN(
        vocabulary,
        output_features=features.Identity(top=60) + features.Attributes(Lexicon.from_corpus(corpus)) + _suffixes(),
        background=backgrounds.Unigram.from_corpus(corpus),
        contextual=[contextual.Expert(ngram, name=EXPERT)],
        controller=LSTM(hidden=32),
    )
    plain = LLRNN(vocabulary, output_features=features.Identity(), controller=LSTM(hidden=16))
    agreeing = LLRNN(  # untrained: who governs is told, whatever it counts
        vocabulary,
        output_features=features.Identity(top=20),
        contextual=[Agreement.estimated("french", corpus[:200])],
        controller=LSTM(hidden=8),
    )
    for model in (knowing, plain):
        for _ in train(model, corpus, epochs=1, learning_rate=0.01):
            pass
    return [
        Served("french", knowing, {"trigram": backgrounds.NGram.from_corpus(corpus, order=3)}),
        Served("softmax", plain),
        Served("syntax", agreeing),
        Served("waiter", waiter()),
    ]


def _suffixes() -> features.Features:
    return features.Suffixes(3, min_count=10)


def waiter() -> LLRNN:
    """Untrained; any string has a probability, and a condition is required."""
    act = parse_act(ACT)
    texts = ["la luna serves thai food", "la luna has no phone"]
    corpus = Corpus.from_sentences([Sentence(tuple(map(Token, text.split())), act) for text in texts])
    vocabulary = Vocabulary.from_corpus(
        corpus, domains=[domains.Numbers("any"), domains.Spelling(list(corpus.counts()), order=2, endings=0)]
    )
    model = LLRNN(
        vocabulary,
        output_features=features.Identity(),
        background=backgrounds.Primed.fitted(
            backgrounds.Discounted.from_corpus(corpus), corpus, vocabulary, cells=True
        ),
        controller=Attentive(GRU(8), Encoder.for_conditions(Slots(), [act], 4, kind="gru"), GRU(8, inputs=8 + 4)),
        contextual=[contextual.Copied("name", "food")],
        seed=2,
    )
    model.provenance = {"config": {"corpus": {"conditions": "act"}}}
    return model


def listed(folder: Path) -> Served:
    """Untrained, over bytes and their pairs as GPT-2 writes them, with the list `animals`, of a word and a phrase."""
    import torch
    import transformers
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    made = Tokenizer(models.BPE())
    made.pre_tokenizer, made.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=290, special_tokens=["<|end|>"], initial_alphabet=alphabet)
    made.train_from_iterator(["le chat noir dort sur le lit", "le chien mange le pain"] * 4, trainer)
    transformers.PreTrainedTokenizerFast(tokenizer_object=made, eos_token="<|end|>").save_pretrained(folder)
    torch.manual_seed(0)
    config = transformers.GPT2Config(
        vocab_size=290, n_layer=1, n_head=1, n_embd=8, n_positions=64, bos_token_id=0, eos_token_id=0
    )
    transformers.GPT2LMHeadModel(config).save_pretrained(folder)
    return Served("listed", bias(open_lm(folder), {"animals": ["chat", "été noir"]}, weight=3.0))
