"""Whether a sentence says what it was written from, all of it and nothing else: a judge learnt from aligned pairs.

A condition (dialogue act or record) is a set of facts: (slot, value) for every value, `x or y` is two; ("()", name) for
the kind of an act. A fact is *literal* where its words stand in the sentence, and otherwise *worded*: yes, no, none,
dont_care, a slot without a value ("?"), the kind of the act, and values that most of their sentences do not hold. What
is literal is found; what is worded, and whose place a value or an unknown word stands in, log-linear models tell:

    p(y | slot, x) ∝ exp Σ_g (w[slot, g, y] + u[g', y])     y: absent, literal, or worded values of the slot
    p(kind of the act | x) ∝ exp Σ_g w[g, y]
    p(slot | words around a value) ∝ exp Σ_g w[g, slot]     for words that nobody knows: or no value

x is the sentence with values replaced by their slots, g its n-grams that hold a word of the slot's own (`anchors`,
words that come mostly with the slot), g' the same with these words replaced by `@`, so that what "does not allow @"
means is learnt from all slots. Likelihood with a penalty, float64: the same pairs give the same judge.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch

from llrnn.ground.errors import CorpusError
from llrnn.text.conditions import ACT, ASKED, Act, Fact, facts_of, fields_of, is_literal, worded_values
from llrnn.text.corpus import Corpus

KINDS = ("said", "missing", "contradicted", "repeated", "invented", "unsure")
ABSENT, LITERAL = "absent", "="
NEW = "<new>"  # a word that was seen once or never
LONGEST = 4  # words of an n-gram
FEW = 2  # sentences that show something
OWN = 0.5  # of an anchor: how much of the way from a slot's share of sentences to all of them its share is there
ORDINARY = 0.1  # of a value that is a word, too: sentences that say it without having it, by those that have it
PENALTY = 0.3  # of half the squared weights
# a fact at least and at most so probable counts as said and as not said, and it is unsure between
SAID, UNSAID = 0.1, 0.03
# what a condition does not have is invented, a value stands in another's place, a fact is said twice, from here on
SURE, LIKELY = 0.9, 0.7  # and what is invented is unsure between

Words = tuple[str, ...]
Both = tuple[float, str, str]  # p, and what two halves of a sentence say for themselves
Gram = tuple[str, int, int]  # a feature, and where its words begin and end


class Verdict(NamedTuple):
    """What a sentence does with one fact, `slot` and `value`: `kind` is one of `KINDS`.

    `p` is how probable the judge holds it that the sentence says the fact, 1.0 or 0.0 of words that are found or not.
    """

    slot: str
    value: str
    kind: str
    p: float


class Mention(NamedTuple):
    """A value in a sentence: words `begin` to `end`, its `slot`, and whether it is the condition's `own`."""

    begin: int
    end: int
    slot: str
    own: bool


class Masked(NamedTuple):
    """A sentence between `^` and `$` with `<slot>` for values: its `line`, and the mention or word of each place."""

    line: list[str]
    origins: list[Mention | str]


class FactClassifier:
    """A classifier of rows of feature names: p(class | row) ∝ exp of the sum of weights; features are seen twice."""

    def __init__(self, classes: Sequence[str], index: Mapping[str, int], weights: np.ndarray) -> None:
        self.classes, self.index, self.weights = classes, index, weights

    @classmethod
    def fit(cls, rows: Sequence[Sequence[str]], labels: Sequence[str]) -> FactClassifier:
        """Return the model that maximises Σ log p(label | row) − PENALTY/2 |w|², without penalty on class biases."""
        classes, counts = sorted(set(labels)), Counter(name for row in rows for name in set(row))
        index = {name: i for i, name in enumerate(sorted(name for name, n in counts.items() if n >= FEW), 1)}
        places = [(i, j) for i, row in enumerate(rows) for j in (0, *(index[name] for name in row if name in index))]
        ones = torch.ones(len(places), dtype=torch.float64)
        size = (len(rows), len(index) + 1)
        x = torch.sparse_coo_tensor(torch.tensor(places).T, ones, size, check_invariants=False).coalesce()
        y = torch.tensor([classes.index(label) for label in labels])
        w = torch.zeros(len(index) + 1, len(classes), dtype=torch.float64, requires_grad=True)
        optimizer = torch.optim.LBFGS([w], max_iter=100, line_search_fn="strong_wolfe")

        def loss() -> torch.Tensor:
            optimizer.zero_grad()
            wrong = torch.nn.functional.cross_entropy(torch.sparse.mm(x, w), y, reduction="sum")
            total = wrong + PENALTY / 2 * w[1:].square().sum()
            total.backward()  # type: ignore[no-untyped-call]
            return total

        optimizer.step(loss)  # type: ignore[no-untyped-call]
        return cls(classes, index, w.detach().numpy())

    def p(self, row: Iterable[str]) -> dict[str, float]:
        """Return {class: probability} for a row of feature names; unknown ones count nothing."""
        scores = self.weights[[0, *(self.index[name] for name in row if name in self.index)]].sum(0)
        return dict(zip(self.classes, _softmax(scores).tolist(), strict=True))


class Judge:
    """What sentences say of their conditions, fact by fact; learnt by `Judge.fit` from pairs, and used on any other.

    judge.verdicts(act, words)      a `Verdict` for each fact of a condition, and for each that a sentence invents
    judge.count(pairs)              how many of each slot and kind, over (condition, words)
    """

    def __init__(self, acts: Sequence[object], texts: Sequence[Words]) -> None:
        self._learn_values(acts, texts)
        found = [self._mentions(act, words) for act, words in zip(acts, texts, strict=True)]
        masked = [_masked(words, mentions) for words, mentions in zip(texts, found, strict=True)]
        counts = Counter(word for one in masked for word in set(one.line))
        self.seen = frozenset(counts)
        often = {word for word, count in counts.items() if count >= FEW}
        lines = [_known(one.line, often) for one in masked]
        labels = [self._labels(act) for act in acts]
        self.forms = defaultdict[tuple[str, str], set[str]](set)  # classes of (kind of act, slot)
        for act, own in zip(acts, labels, strict=True):
            for slot, label in own.items():
                self.forms[_kind(act), slot] |= {label, *label.split("|")}
        self._learn_worded(lines, labels)
        self._learn_places(texts, found, masked, often)

    @classmethod
    def fit(cls, corpus: Corpus, conditions: Iterable[object] = ()) -> Judge:
        """Return a judge that has learnt from a corpus with conditions (dialogue acts or records) and their sentences.

        Take pairs that the writer to be judged has not seen. `conditions`: others, whose values a sentence could say by
        mistake, such as all that are to be written from. A CorpusError if no condition has a slot.

            Judge.fit(Corpus.from_file("valid.jsonl", conditions="act"))
        """
        pairs = {(str(one.condition), one.words): one.condition for one in corpus}
        if not any(any(fields_of(condition)) for condition in pairs.values()):
            raise CorpusError(f"{corpus.name}: a judge learns from conditions with slots, found none; give such pairs")
        judge = cls(list(pairs.values()), [words for _, words in pairs])
        for slot, value in (fact for one in conditions for fact in facts_of(one) if judge._literal(fact)):
            known = tuple(value.split())
            if len(known) > 1 or known[0] not in judge.seen:  # else it is a word too
                judge.values.setdefault(known, Counter({slot: 1}))
        return judge

    def count(self, pairs: Iterable[tuple[object, Sequence[str]]]) -> dict[str, dict[str, int]]:
        """Return {slot: {kind: number of facts}} for (condition, words) of several sentences, every kind of `KINDS`."""
        found = Counter((one.slot, one.kind) for act, words in pairs for one in self.verdicts(act, words))
        return {slot: {kind: found[slot, kind] for kind in KINDS} for slot in sorted({slot for slot, _ in found})}

    # --- learning

    def _learn_values(self, acts: Sequence[object], texts: Sequence[Words]) -> None:
        """Find which facts are worded, which words are values of which slots, and what people say without having it."""
        self.ordinary: frozenset[Words] = frozenset()
        self.values = dict[Words, Counter[str]]()
        self.often: frozenset[str] = frozenset()  # slots whose values people say more than once
        pairs = list(zip(acts, texts, strict=True))
        having = Counter(fact for act in acts for fact in set(facts_of(act)) if is_literal(fact))
        self.worded = worded_values(pairs)
        for (slot, value), n in having.items():
            if (slot, value) not in self.worded:
                self.values.setdefault(tuple(value.split()), Counter())[slot] += n
        without, alien, repeated, total = Counter[Words](), Counter[Words](), Counter[str](), Counter[str]()
        kinds = self.kinds = dict[str, set[str]]()  # slots that acts of a kind ever have
        for act in acts:
            kinds.setdefault(_kind(act), set()).update(slot for slot, _ in facts_of(act))
        for act, words in pairs:
            named, found = {slot for slot, _ in facts_of(act)}, self._mentions(act, words)
            others = {words[one.begin : one.end] for one in found if not one.own}
            without.update(value for value in others if not named & self.values[value].keys())
            alien.update(value for value in others if not kinds[_kind(act)] & self.values[value].keys())
            own = Counter((one.slot, words[one.begin : one.end]) for one in found if one.own)
            total.update({slot for slot, _ in own})
            repeated.update({slot for (slot, _), n in own.items() if n > 1})
        self.ordinary = frozenset(
            value
            for value, n in without.items()
            if n > max(FEW, ORDINARY * self.values[value].total())
            or alien[value] >= max(FEW, ORDINARY / 5 * self.values[value].total())
        )
        self.often = frozenset(slot for slot, n in repeated.items() if n > max(FEW, total[slot] / 100))

    def _learn_worded(self, lines: list[list[str]], labels: list[dict[str, str]]) -> None:
        """Fit the models of worded facts and of the kind of an act."""
        where = defaultdict[str, list[int]](list)
        for i, line in enumerate(lines):
            for word in set(line):
                where[word].append(i)
        self.anchors, self.topics = dict[str, set[str]](), dict[str, set[str]]()
        self.prior = dict[str, Counter[str]]()
        for slot in sorted({slot for one in labels for slot in one}):
            got = [one.get(slot, ABSENT) for one in labels]
            self.prior[slot] = Counter(got)
            if slot != ACT and not {*got} <= {ABSENT, LITERAL}:
                self.anchors[slot], self.topics[slot] = _anchors(slot, got, where)
        rows = [(slot, line, one) for line, one in zip(lines, labels, strict=True) for slot in self.anchors]
        features = [[name for name, _, _ in self._features(slot, line)] for slot, line, _ in rows]
        self.facts = FactClassifier.fit(features, [one.get(slot, ABSENT) for slot, _, one in rows]) if rows else None
        kinds = [one.get(ACT, ABSENT) for one in labels]
        self.acts = FactClassifier.fit([[name for name, _, _ in _grams(line)] for line in lines], kinds)

    def _learn_places(
        self, texts: Sequence[Words], found: list[list[Mention]], masked: list[Masked], often: set[str]
    ) -> None:
        """Fit the models of the words around values, and around words that nobody knows.

        For the latter every value is hidden once, as if it were not known; then slots are as probable as values that
        were seen once are among all.
        """
        rows, new = list[tuple[list[str], str]](), list[tuple[list[str], str]]()
        once, every = Counter[str](), Counter[str]()
        for words, mentions, one in zip(texts, found, masked, strict=True):
            line = _known(one.line, often)
            new += [(_around(line, run, one.line), ABSENT) for run in _runs(line)]
            for place, origin in enumerate(one.origins):
                if not isinstance(origin, Mention) or not origin.own:
                    continue
                rows.append((_around(line, (place, place + 1)), origin.slot))
                bare = _masked(words, [other for other in mentions if other is not origin]).line
                hidden, end = _known(bare, often), place + origin.end - origin.begin
                runs = [run for run in _runs(hidden) if place <= run[0] and run[1] <= end]
                new += [(_around(hidden, run, bare), origin.slot) for run in runs]
                value = self.values.get(words[origin.begin : origin.end], Counter())
                every[origin.slot] += len(runs)
                once[origin.slot] += len(runs) * (value.total() == 1)
        self.places = _fit(rows)
        self.strange = _fit([row for row in new if row[1] == ABSENT or once[row[1]]])
        for j, slot in enumerate(self.strange.classes):
            if slot in once:
                self.strange.weights[0, j] += np.log(once[slot] / every[slot])

    # --- reading

    def _literal(self, fact: Fact) -> bool:
        return is_literal(fact, self.worded)

    def _labels(self, act: object) -> dict[str, str]:
        """Return {slot: class} of a condition; several worded values, and literal ones, are joined by `|`."""
        found = defaultdict[str, set[str]](set)
        for slot, value in facts_of(act):
            found[slot].add(LITERAL if self._literal((slot, value)) else value)
        return {slot: "|".join(sorted(values)) for slot, values in found.items()}

    def _mentions(self, act: object, words: Words) -> list[Mention]:
        """Return the values in a sentence in order, own ones first and longer ones first where they overlap."""
        own = dict[Words, str]()
        for slot, value in filter(self._literal, facts_of(act)):
            for part in (value, *value.split(" and ")):
                own.setdefault(tuple(part.split()), slot)
        longest, hits = max(map(len, (*self.values, *own)), default=0), list[tuple[bool, int, Mention]]()
        for begin in range(len(words)):
            for end in range(begin + 1, min(begin + longest, len(words)) + 1):
                said = words[begin:end]
                if said in own:
                    hits.append((said in self.ordinary, begin - end, Mention(begin, end, own[said], True)))
                elif said in self.values and said not in self.ordinary:
                    slots = self.values[said]
                    hits.append((True, begin - end, Mention(begin, end, max(slots, key=slots.__getitem__), False)))
        free, found = [True] * len(words), list[Mention]()
        for *_, one in sorted(hits):
            if all(free[one.begin : one.end]):
                found.append(one)
                free[one.begin : one.end] = [False] * (one.end - one.begin)
        return sorted(found)

    def _features(self, slot: str, line: list[str]) -> Iterator[Gram]:
        """Yield the slot's own bias, and its n-grams that hold an anchor: as they are, and with `@` for its words."""
        yield f"{slot}|", 0, 0
        hold = [word in self.anchors[slot] for word in line]
        if any(hold):
            topics = self.topics[slot]
            plain = ["@" if word in topics else "<=>" if word == f"<{slot}>" else word for word in line]
            for name, begin, end in _grams(line):
                if any(hold[begin:end]):
                    yield f"{slot}|{name}", begin, end
                    yield " ".join(plain[begin:end]), begin, end

    def _classes(self, slot: str, line: list[str], among: Collection[str]) -> tuple[dict[str, float], Both]:
        """Return {class: p} of a slot, and (p, class, class) of what two halves of the sentence say for themselves."""
        model = self.facts
        assert model is not None
        keep = [i for i, name in enumerate(model.classes) if name in (ABSENT, LITERAL) or name in among]
        names = [model.classes[i] for i in keep]
        grams, at = self._features(slot, line), model.index
        rows = [(at[name], begin, end) for name, begin, end in grams if name in at]
        weights = model.weights[[0, *(row for row, _, _ in rows)]][:, keep]
        p = dict(zip(names, _softmax(weights.sum(0)).tolist(), strict=True))
        says = [i for i, name in enumerate(names) if name not in (ABSENT, LITERAL)]
        if not says or max(p[names[i]] for i in says) < SAID:
            return p, (0.0, "", "")
        halves = np.zeros((2, len(line) + 1, len(keep)))
        np.add.at(halves[0], [end for _, _, end in rows], weights[1:])
        np.add.at(halves[1], [begin for _, begin, _ in rows], weights[1:])
        bias = weights[: 1 + (len(rows) > 0 and rows[0][2] == 0)].sum(0)
        halves[:, 0] -= bias - weights[0]  # it stands at place 0 of both
        left, right = halves[0].cumsum(0) + bias, halves[1][::-1].cumsum(0)[::-1] + bias
        left, right = _softmax(left)[:, says], _softmax(right)[:, says]
        both = np.minimum(left.max(1), right.max(1))
        cut = int(both.argmax())
        return p, (float(both[cut]), names[says[left[cut].argmax()]], names[says[right[cut].argmax()]])

    # --- judging

    def verdicts(self, act: object, words: Sequence[str]) -> list[Verdict]:
        """Return a verdict on each fact of a condition, then one on each that a sentence says and it does not have.

        `act`: a dialogue act or a record; `words`: the sentence. The slot of an act's kind is "()"; of words that might
        be a value of some slot, "?". An own value may be repeated or contradicted and is then not listed as said.

            judge.verdicts(parse_act("inform(name=chow;kids=no)"), "chow allows kid -s".split())[-1].kind
            # "contradicted"
        """
        return _Judged(self, act, tuple(words)).verdicts()

    def p_worded(self, slot: str, label: str, p: Mapping[str, float]) -> float:
        """Return how probable a class of worded values is, were classes only as unequal as roots of their counts.

        Of several values one suffices. `p`: {class: probability}. Rare facts would else be doubted wherever they stand.
        """
        prior = self.prior[slot]
        fair = {name: q / np.sqrt((prior[name] + 1) / (prior.total() + len(p))) for name, q in p.items()}
        return float(sum(fair.get(part, 0.0) for part in {label, *label.split("|")}) / sum(fair.values()))


class _Judged:
    """One sentence as a judge reads it for one condition, and what it claims beyond the condition's own values."""

    def __init__(self, judge: Judge, act: object, words: Words) -> None:
        self.judge, self.words = judge, words
        self.facts, self.labels = list(dict.fromkeys(facts_of(act))), judge._labels(act)
        self.mentions = judge._mentions(act, words)
        self.masked = _masked(words, self.mentions)
        self.line = _known(self.masked.line, judge.seen)
        self.classes = {slot: judge._classes(slot, self.line, self._likely(act, slot)) for slot in judge.anchors}
        self.claims, self.doubts = defaultdict[str, list[Verdict]](list), list[Verdict]()
        self._claim()

    def _likely(self, act: object, slot: str) -> set[str]:
        """Return the classes that a slot may have: those it had in acts of the kind, else in any, and the own ones."""
        judge, label = self.judge, self.labels.get(slot, ABSENT)
        return {*judge.forms.get((_kind(act), slot), judge.prior[slot]), label, *label.split("|")}

    def _claim(self) -> None:
        """Collect values that are not the condition's own, and unknown words that stand where values do."""
        for place, one in enumerate(self.masked.origins):
            if isinstance(one, Mention) and not one.own:
                said, p = self.words[one.begin : one.end], self.judge.places.p(_around(self.line, (place, place + 1)))
                slot = max(self.judge.values[said], key=lambda name: (p.get(name, 0.0), name))
                self.claims[slot].append(Verdict(slot, " ".join(said), "invented", 1.0))
        for begin, end in _runs(self.line):
            p = self.judge.strange.p(_around(self.line, (begin, end), self.masked.line))
            value, any_slot = " ".join(self.masked.line[begin:end]), 1 - p.pop(ABSENT, 0.0)
            slot = max(p, key=lambda name: p[name], default=ASKED)
            if any_slot >= SURE:
                self.claims[slot].append(Verdict(slot, value, "invented", any_slot))
            elif any_slot >= LIKELY:
                self.doubts.append(Verdict(ASKED, value, "unsure", any_slot))

    def verdicts(self) -> list[Verdict]:
        """Return the verdicts on own facts in their order, then what is invented or might be."""
        own = [self._literal(fact) if self.judge._literal(fact) else self._worded(fact) for fact in self.facts]
        for slot, (p, _) in self.classes.items():
            told = 1 - p.get(ABSENT, 0.0) - p.get(LITERAL, 0.0)
            if slot not in self.labels and told >= LIKELY:
                value = max(p.keys() - {ABSENT, LITERAL}, key=lambda name: (p[name], name))
                self.doubts.append(Verdict(slot, value, "invented" if told >= SURE else "unsure", told))
        return own + [claim for claims in self.claims.values() for claim in claims] + self.doubts

    def _literal(self, fact: Fact) -> Verdict:
        """Judge a value that is said in its own words, if at all."""
        slot, value = fact
        words = tuple(value.split())
        hits = [place for place, one in enumerate(self.masked.origins) if self._is(one, words)]
        wanted = sum(tuple(other.split()) == words for _, other in self.facts)
        if not hits:
            parts = [tuple(part.split()) for part in value.split(" and ")]
            if len(parts) > 1 and all(any(self._is(one, part) for one in self.mentions) for part in parts):
                return Verdict(slot, value, "said", 1.0)
            return Verdict(slot, value, self._instead(slot), 0.0)
        if len(hits) > wanted and slot not in self.judge.often and words not in self.judge.ordinary:
            return Verdict(slot, value, "repeated", 1.0)
        p = max((self._place(place) for place in hits), key=lambda one: one.get(slot, 0.0))
        said = {other for other, label in self.labels.items() if LITERAL in label.split("|")} - {slot}
        rivals = [other for other in said if p.get(other, 0.0) >= SURE]
        misplaced = wanted == 1 and p.get(slot, 1.0) <= UNSAID and rivals and not self._evident(fact, *rivals)
        return Verdict(slot, value, "contradicted" if misplaced else "said", p.get(slot, 1.0))

    def _kinds(self) -> dict[str, float]:
        """Return {kind: p} of acts, of those only that ever have the slots whose values are said."""
        if not self.words:
            return {ABSENT: 1.0}
        p, said = self.judge.acts.p(name for name, _, _ in _grams(self.line)), {one.slot for one in self.mentions}
        may = [kind for kind in p if said <= self.judge.kinds[kind] or kind == self.labels[ACT]] or list(p)
        return {kind: p[kind] / sum(p[one] for one in may) for kind in may}

    def _place(self, place: int) -> dict[str, float]:
        """Return {slot: p} by the words around a place of the line."""
        return self.judge.places.p(_around(self.line, (place, place + 1)))

    def _evident(self, fact: Fact, rival: str) -> bool:
        """Whether a value tells its slot by itself, though it stands where a rival does, which is said elsewhere.

        So "serves dinner and serves thai food": nobody takes dinner for the food.
        """
        slots = self.judge.values.get(tuple(fact[1].split()), Counter())
        own = [i for i, one in enumerate(self.masked.origins) if isinstance(one, Mention) and one[2:] == (rival, True)]
        return slots.keys() == {fact[0]} and slots.total() >= FEW and any(self._place(i)[rival] > UNSAID for i in own)

    def _is(self, one: Mention | str, words: Words) -> bool:
        return isinstance(one, Mention) and one.own and self.words[one.begin : one.end] == words

    def _instead(self, slot: str) -> str:
        """Return "contradicted" where something else is claimed of a slot, whose claim is used up, else "missing"."""
        if self.claims[slot]:
            self.claims[slot].pop(0)
            return "contradicted"
        p, _ = self.classes.get(slot, ({}, None))
        return "contradicted" if any(q >= SURE for name, q in p.items() if name not in (ABSENT, LITERAL)) else "missing"

    def _worded(self, fact: Fact) -> Verdict:
        """Judge a fact that is said in words that were learnt; one that was never learnt is missing or unsure."""
        slot, value = fact
        label, both = self.labels[slot], (0.0, "", "")
        if slot == ACT:
            p = self._kinds()
        elif slot in self.classes:
            p, both = self.classes[slot]
        else:
            return Verdict(slot, value, "unsure", 0.0)
        own = self.judge.p_worded(slot, label, p)
        if own >= SAID:
            self.claims.pop(slot, None)  # a question names values, and who does not care hears of any
            is_own = {*both[1:]} <= {*label.split("|"), label}
            same = "repeated" if both[1] == both[2] else "said" if is_own else "contradicted"
            return Verdict(slot, value, same if both[0] >= SURE else "said", own)
        if p.get(ABSENT, 0.0) >= SURE:
            kind = "missing" if slot == ACT else self._instead(slot)  # a word that nobody knows might say it
            return Verdict(slot, value, "unsure" if kind == "missing" and NEW in self.line else kind, own)
        known = slot in self.judge.prior and any(self.judge.prior[slot][part] for part in {label, *label.split("|")})
        return Verdict(slot, value, "contradicted" if known and own <= UNSAID else "unsure", own)


def _kind(act: object) -> str:
    return act.name if isinstance(act, Act) else ""


def _anchors(slot: str, got: list[str], where: Mapping[str, list[int]]) -> tuple[set[str], set[str]]:
    """Return the words that come mostly with a slot, and those of them that come with several of its classes.

    `got`: the slot's class in each sentence; `where`: {word: sentences that hold it}.
    """
    have = np.array([label != ABSENT for label in got])
    rest = 1 - have.mean()
    mostly = {
        word for word, at in where.items() if len(at) >= FEW and 1 - have[at].sum() / (len(at) + 1) <= (1 - OWN) * rest
    }
    topics = {word for word in mostly - {f"<{slot}>"} if len({got[i] for i in where[word]} - {ABSENT}) > 1}
    return mostly | {f"<{slot}>"}, topics


def _fit(rows: list[tuple[list[str], str]]) -> FactClassifier:
    """Return a model of (features, class); without any, one that knows only `absent`."""
    return FactClassifier.fit([row for row, _ in rows] or [[]], [label for _, label in rows] or [ABSENT])


def _softmax(scores: Any) -> Any:
    e = np.exp(scores - scores.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def _masked(words: Words, mentions: Sequence[Mention]) -> Masked:
    at, place, line, origins = {one.begin: one for one in mentions}, 0, ["^"], list[Mention | str](["^"])
    while place < len(words):
        one = at.get(place)
        line.append(words[place] if one is None else f"<{one.slot}>")
        origins.append(one or words[place])
        place = place + 1 if one is None else one.end
    return Masked([*line, "$"], [*origins, "$"])


def _known(line: Sequence[str], words: Iterable[str]) -> list[str]:
    return [word if word in words or word in "^$" else NEW for word in line]


def _grams(line: Sequence[str]) -> Iterator[Gram]:
    for begin in range(len(line)):
        for end in range(begin + 1, min(begin + LONGEST, len(line)) + 1):
            yield " ".join(line[begin:end]), begin, end


def _runs(line: Sequence[str]) -> list[tuple[int, int]]:
    """Return (begin, end) of all unknown words in a row."""
    edges = [i for i in range(1, len(line)) if (line[i] == NEW) != (line[i - 1] == NEW)]
    return list(zip(edges[::2], edges[1::2], strict=True))


def _around(line: Sequence[str], span: tuple[int, int], words: Sequence[str] | None = None) -> list[str]:
    """Return features of up to three words before a span and two behind, and with `words` what it looks like."""
    before, after = line[max(span[0] - 3, 0) : span[0]], line[span[1] : span[1] + 2]
    found = [f"-{n} {' '.join(before[-n:])}" for n in (1, 2, 3)] + [f"+{n} {' '.join(after[:n])}" for n in (1, 2)]
    found += [f"{' '.join(before[-n:])} _ {after[0]}" for n in (1, 2)]
    if words is None:
        return found
    shape = "digits" if any(sign.isdigit() for word in words[span[0] : span[1]] for sign in word) else "letters"
    return [*found, shape, f"{min(span[1] - span[0], 3)} words"]
