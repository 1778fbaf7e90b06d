"""How a model introduces itself to people: what it is, what can be tried, what a condition looks like.

about(model)             a sentence or two
language(model)          of its words, where that is clear
telling(model, symbols)  of some symbols, best first, the one that is worth explaining
examples(model)          prefixes of its own making, each with a word and a rival
lists(model)             the groups of its listed terms, with their weights
new_word(model)          a word to be added; `knowing(model, words)` is the model that knows it
alike(model, word)       words with the same features
condition_hint(model)    the names that conditions had in training, and a condition to begin with
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from itertools import takewhile
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import torch

from llrnn.ground.errors import LLRNNError
from llrnn.inference.explanation import explain_next
from llrnn.inference.terms import bias
from llrnn.knowledge.contextual.base import ConditionFeature
from llrnn.knowledge.contextual.inputs import ConditionNumbers
from llrnn.knowledge.contextual.terms import Terms
from llrnn.model.controllers import Attentive, Controller, Encoder, Silent, evaluating
from llrnn.model.decode import condition_kind, generate, looks_at_conditions, prepared, read_prefix
from llrnn.model.decode import read_condition as read
from llrnn.model.network import LLRNN
from llrnn.model.words import add, by_ending, likeness
from llrnn.text.conditions import Act, Slot

EXAMPLES = 3
YOURS = "your list"  # of words that a language model is given
_TRIES = 8  # texts of its own that a model looks for examples in
_LONGEST = 9  # words of an example
_SHORTEST = 2
_LISTED = 12  # words among which one is chosen, as many as the page shows
_RIVALS = 200  # and among which a rival is found
_FREQUENT = 50  # words that say little, where nobody says what kinds of words there are
_CONTENT = frozenset({"NOUN", "PROPN", "VERB", "ADJ"})
_SLOTS = 2  # of the condition to begin with
_COMMON = {
    "English": "the of and is was with that not his from",
    "French": "les une est dans pas avec sur elle il très",
    "German": "der und das nicht ist mit ein auch sich auf",
    "Italian": "il che della con sono gli più anche nel alla",
    "Spanish": "el los una con más también del al fue las",
}
_CLEAR, _COMMONEST = 6, 1000  # so many of these words are among the most frequent ones; long lists hold any language's
_AGREEMENT = {"French": ("la", "voiture", "de", "mon", "voisin", "est", "très")}  # a noun decides that stands far away
_NEW = {"French": ("grenobloise", "quimpéroise", "valentinoise")}
_FAVOUR = 3.0  # nats for a new word of a language model
_ALIKE = 6


def about(model: LLRNN) -> str:
    """Return two sentences in English that describe a model: numbers of words, features, classes, parameters; network.

    "It knows 3,694 words, each described by some of 512 features; words with equal ones form 900 classes. An LSTM of
    160 units says how much each feature counts; 400,000 numbers were learned."
    """
    vocabulary, phi = model.vocabulary, model.output_features
    kind = f"{counted(len(vocabulary.words), f'{language(model)} word'.strip())}"
    words = f"{kind}{' and any other string' if vocabulary.is_open else ''}"
    context = f" and {len(model.context_names):,} of the context" if model.context_names else ""
    known = f"It knows {words}, each described by some of {counted(phi.n_features, 'feature')}{context}"
    known += f"; words with equal ones form {counted(phi.n_classes, 'class')}."
    learned = counted(sum(parameter.numel() for parameter in model.parameters()), "number")
    if isinstance(model.controller, Silent):
        return f"{known} It has no network; {learned} were learned."
    return f"{known} {network(model.controller)} says how much each feature counts; {learned} were learned."


def language(model: LLRNN) -> str:
    """Return the language of a model's words, in English, as "French"; "" where it has too few of its common words."""
    words = set() if model.tokeniser.has_blanks else {*model.vocabulary.words[:_COMMONEST]}
    known = {name: sum(word in words for word in common.split()) for name, common in _COMMON.items()}
    best = max(known, key=lambda name: known[name])
    return best if known[best] >= _CLEAR and list(known.values()).count(known[best]) == 1 else ""


def network(controller: Controller) -> str:
    """Return a description of a controller, the recurrent network of a model, such as "An LSTM of 160 units"."""
    if isinstance(controller, Attentive):
        return f"{network(controller.above)}, looking at the condition,"
    name = type(controller).__name__
    layers = getattr(controller, "n_layers", None) or len(getattr(controller, "layers", ()))
    deep = f" in each of {layers} layers" if layers > 1 else ""
    article = "An" if name[0] in "AEIOU" or name.startswith("LSTM") else "A"
    return f"{article} {name} of {counted(controller.hidden, 'unit')}{deep}"


def counted(n: int, noun: str) -> str:
    """Return a number with its English noun, in the plural where n is not 1: "1 word", "3,694 words", "2 classes".

    The plural has an added "s", or "es" after an "s"; thousands are separated by commas.
    """
    return f"{n:,} {noun}{'' if n == 1 else 'es' if noun.endswith('s') else 's'}"


def telling(model: LLRNN, symbols: Sequence[int]) -> int | None:
    """Return the one of `symbols` that is most worth explaining: the first content word with several features.

    `symbols`: symbol ids, most probable first. Where there is no such word, it is the first of those of the highest
    `_worth` (content words, then other words, punctuation, the end of sentence); None where all are cells (symbols for
    sets of strings outside the vocabulary). Content words are nouns, verbs, adjectives and names where features tell
    parts of speech, else words that are not among the 50 most frequent.
    """
    words, known = model.vocabulary.n_words, _KNOWN.setdefault(model, {})
    best, found = -1, None
    for symbol in symbols:
        if symbol >= words:
            continue
        worth = known.get(symbol)
        if worth is None:
            worth = known[symbol] = _worth(model, symbol)
        if worth > best:
            best, found = worth, symbol
        if worth == _MOST:
            break
    return found


_MOST = 4
_KNOWN: WeakKeyDictionary[LLRNN, dict[int, int]] = WeakKeyDictionary()  # what words are worth: asked at every step


def _worth(model: LLRNN, symbol: int) -> int:
    """Return how much a symbol is worth explaining, from 0 to 4; `symbol`: an id of a word, not of a cell.

    0 end of sentence, 1 punctuation, 2 other word, 3 content word, 4 content word with two features or more.
    """
    vocabulary = model.vocabulary
    if symbol == vocabulary.eos:
        return 0
    if not any(letter.isalpha() for letter in vocabulary.symbol(symbol)):
        return 1
    names = model.output_features.row(symbol)
    kinds = {name.removeprefix("POS:") for name in names if name.startswith("POS:")}
    if not (kinds <= _CONTENT if kinds else symbol >= _FREQUENT):
        return 2
    return 3 if len(names) < 2 else _MOST


# --- something to try -------------------------------------------------------------------------------------------------


Merit = tuple[int, ...]  # is it a content word, is the rival a form of it, in how many parts do they differ


def examples(model: LLRNN) -> list[dict[str, Any]]:
    """Return up to three examples for the web page, from texts that the model generates; [] where it cannot.

    Each has the keys prefix (text), word, rival (another form of the word, or a similar word, or None) and feature (the
    name of one that raises the word's probability, or None).
    """
    text = condition_hint(model)["example"]
    try:
        condition = read(model, text) if text and looks_at_conditions(model) else None
        ready = prepared(model, [condition], tell=lambda _: None)
        texts = generate(ready, count=_TRIES, temperature=0.7, max_words=_LONGEST, seed=0, condition=condition)
        known = _AGREEMENT.get(language(model), ())
        best = [known] if known and all(word in model.vocabulary for word in known) and condition is None else []
        with torch.no_grad(), evaluating(ready):
            found = [one for prefix in [*best, *_prefixes(ready, [text.words for text in texts])]
                     if (one := _example(ready, prefix, condition)) is not None]  # fmt: skip
    except LLRNNError:
        return []
    found.sort(key=lambda one: (one[1]["prefix"].split() == [*known], *one[0]), reverse=True)
    return [example for _, example in found[:EXAMPLES]]


def _prefixes(model: LLRNN, texts: Sequence[Sequence[str]]) -> list[tuple[str, ...]]:
    """Return for each text, a sequence of words, the words before its last content word, equal prefixes once.

    `_last_content` says which word that is.
    """
    places = [_last_content(model, words) for words in texts]
    return list(dict.fromkeys(tuple(words[:place]) for words, place in zip(texts, places, strict=True)))


def _last_content(model: LLRNN, words: Sequence[str]) -> int:
    """Return the index of the last word, from index 2 on, whose `_worth` is the greatest of the whole text.

    `_worth` ranks words from 0 to 4, content words highest; unknown words have 0. Where only the first two words have
    that worth, 2 is returned, and the length of a text of fewer than two words.
    """
    worth = [0 if word not in model.vocabulary else _worth(model, model.vocabulary.id(word)) for word in words]
    late = [place for place in range(_SHORTEST, len(words)) if worth[place] == max(worth)]
    return late[-1] if late else min(_SHORTEST, len(words))


def _example(model: LLRNN, prefix: tuple[str, ...], condition: object) -> tuple[Merit, dict[str, Any]] | None:
    """Return (merit, example) for a prefix of words, or None where no next word can be explained.

    `example`: a dict with prefix, word, rival and feature; `merit`: a tuple to compare examples by, greater is better:
    (`_worth` of the word, 1 where the rival is a form of it, number of features on which they differ); `condition`: the
    input that the text is generated from, or None.
    """
    p, state = read_prefix(model, prefix, [condition])
    symbols = p.top(min(_RIVALS, len(model.vocabulary)))[1][0].tolist()
    best = telling(model, symbols[:_LISTED])
    if best is None:
        return None
    name, worth = model.vocabulary.symbol, _worth(model, best)
    equal = [one for one in symbols[:_LISTED] if one < model.vocabulary.n_words and _worth(model, one) == worth]
    rivals = ((one, _rival(model, one, symbols)) for one in (best, *equal))
    pairs = [(name(one), None if rival is None else name(rival)) for one, rival in rivals]
    word, other = next((pair for pair in pairs if pair[1] is not None and _is_form(pair[0], pair[1])), pairs[0])
    alone = explain_next(model, p, state, prefix, word)
    both = alone if other is None else explain_next(model, p, state, prefix, word, other)
    terms = [term for term in (*both.terms, *alone.terms) if term.share > 0 and not term.name.startswith("Word:")]
    speaks = min(terms, key=lambda term: term.name in model.context_names).name if terms else None
    merit = worth, int(other is not None and _is_form(word, other)), len(both.terms)
    found = {"prefix": model.before(prefix).removesuffix(" "), "word": word, "rival": other, "feature": speaks}
    return merit, {**found, "written": model.written({word, other or word})}


def _rival(model: LLRNN, best: int, symbols: Sequence[int]) -> int | None:
    """Return the symbol id of a word to compare the word `best` with, or None where there is none.

    The first of `symbols` (ids, most probable first) that is a form of the word (`_is_form`) and has the same `_worth`;
    else the first of the same `_worth`; else the first other word. Cells, symbols for sets of strings outside the
    vocabulary, and the end of sentence are never taken.
    """
    word, worth = model.vocabulary.symbol(best), _worth(model, best)
    others = [one for one in symbols if one not in (best, model.vocabulary.eos) and one < model.vocabulary.n_words]
    same = [one for one in others if _worth(model, one) == worth]
    forms = [one for one in same if _is_form(word, model.vocabulary.symbol(one))]
    return next(iter(forms or same or others), None)


def _is_form(word: str, other: str) -> bool:
    """Whether two words may be forms of one lemma: whether enough of their first letters are equal.

    At least 3, and at least 70 % of the letters of the longer word.
    """
    alike = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(word, other, strict=False)))
    return alike >= max(3, 0.7 * max(len(word), len(other)))


def lists(model: LLRNN) -> dict[str, dict[str, float]]:
    """Return for each group of listed terms (`contextual.Terms`) its features, with their weights before any word."""
    groups = [group for one in model.contextual if isinstance(one, Terms) for group in one.lists.groups]
    weights = dict(zip(model.context_names, model.layer.context_bias.tolist(), strict=True))
    return {group: {name: a for name, a in weights.items() if name.rpartition(":")[0] == group} for group in groups}


# --- words that it is given -------------------------------------------------------------------------------------------


def new_word(model: LLRNN) -> str | None:
    """Return a word of the model's language to add, "" where none is known, None where it can be given no new words.

    A model that knows words by features of their own alone has no weights for new ones.
    """
    names, groups = model.output_features.names, model.output_features.groups
    own = [name for name, group in zip(names, groups, strict=True) if group == "Identity"]
    takes = {*groups} - {"Identity"} and (not own or any(name.startswith("NotAmong:") for name in own))
    found = next((word for word in _NEW.get(language(model), ()) if word not in model.vocabulary), "")
    return found if takes or model.tokeniser.has_blanks else None


def knowing(model: LLRNN, words: Iterable[str]) -> LLRNN:
    """Return the model with words that it does not list added, each like most words of its ending (`by_ending`).

    A language model favours them instead, as a list: its tokens spell any word. Raises an LLRNNError where a word
    cannot be added.
    """
    if model.tokeniser.has_blanks:
        return bias(model, {YOURS: [*words]}, weight=_FAVOUR)
    forms = dict.fromkeys(model.read([word])[0] for word in words)
    new = by_ending(model, [form for form in forms if form not in model.vocabulary])
    return add(model, new).requires_grad_(False).eval() if new else model


def alike(model: LLRNN, word: str) -> list[str]:
    """Return up to six listed words that share most features with a listed word, but its own name, frequent ones first.

    At least half of all features of both are shared; [] where there are none.
    """
    vocabulary, phi = model.vocabulary, model.output_features
    if word not in vocabulary:
        return []
    shared = [group != "Identity" for group in phi.groups]
    own = int(phi.class_of[vocabulary.id(word)])
    columns = [one for one in phi.columns[phi.offsets[own] : phi.offsets[own + 1]].tolist() if shared[one]]
    found = likeness(phi, columns, shared)[phi.class_of[: vocabulary.n_words]]
    found[[vocabulary.eos, vocabulary.id(word)]] = 0.0
    best = np.flatnonzero(found >= max(0.5, found.max()))[:_ALIKE].tolist() if columns else []
    return [vocabulary.symbol(symbol) for symbol in best]


# --- what a condition looks like --------------------------------------------------------------------------------------


def condition_hint(model: LLRNN) -> dict[str, Any]:
    """Return what conditions (inputs that texts are generated from) of a model look like: {"acts", "slots", "example"}.

    `acts` and `slots` are lists of names known from training, `example` a condition as text: one of the texts of
    training, if the model says which (`Project.model`), else one of a few values; "" where none is known.
    """
    fields = next((one.fields for one in model.contextual_inputs if isinstance(one, ConditionNumbers)), None)
    if fields is not None:
        means = {name: float(f"{mean:.3g}") for name, mean in zip(fields.names, fields.mean, strict=True)}
        return {"acts": [], "slots": list(fields.names), "example": json.dumps(means, ensure_ascii=False)}
    encoder = getattr(model.controller, "encoder", None)
    names = encoder.names if isinstance(encoder, Encoder) else ()
    acts = [name.removeprefix("Act:") for name in names if name.startswith("Act:")]
    pointed = {slot for one in model.contextual if isinstance(one, ConditionFeature) for slot in one.slots}
    named = {name.removeprefix("Slot:") for name in names if name.startswith("Slot:")}
    slots = sorted({*named, *(name.partition("=")[0] for name in names if "=" in name), *pointed})
    values = {slot: encoder.known_values(slot)[:1] for slot in slots} if isinstance(encoder, Encoder) else {}
    given = [Slot(slot, value[0]) for slot, value in values.items() if value][:_SLOTS]
    told = model.provenance.get("example") or _condition(model, acts, given)
    return {"acts": acts, "slots": slots, "example": told}


def _condition(model: LLRNN, acts: Sequence[str], slots: Sequence[Slot]) -> str:
    """Return an example condition (input to generate from) as text: a dialogue act or JSON, whichever the model reads.

    `acts`: names of acts; `slots`: names with values, all of which are in the condition. "" where there is nothing to
    make one of.
    """
    if condition_kind(model) == "act":
        act = "inform" if "inform" in acts else next((one for one in acts if not one.startswith("?")), "")
        return str(Act(act, tuple(slots))) if act else ""
    return json.dumps({one.name: one.value for one in slots}, ensure_ascii=False) if slots else ""
