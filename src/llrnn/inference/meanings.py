"""How well a model writes from conditions: BLEU against what people said, and what a judge says of every fact.

BLEU-4 is sacrebleu's, over words as they are; the references of an item are those of all items with the same condition.
What is said, missing, contradicted, repeated or invented: `llrnn.inference.saying`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from llrnn.ground.errors import CorpusError, MissingExtraError
from llrnn.inference.saying import KINDS, Judge
from llrnn.model.decode import write
from llrnn.model.network import LLRNN
from llrnn.text.corpus import Corpus

Words = tuple[str, ...]
_WRONG = [kind for kind in KINDS if kind not in ("said", "unsure")]


def references_of(corpus: Corpus) -> list[list[Words]]:
    """Return for each sentence of a corpus the distinct sentences with an equal condition, itself included.

    A condition is the input that a text is generated from. Sentences are word tuples, in the order of the corpus.
    """
    said: dict[str, dict[Words, None]] = {}
    for sentence in corpus:
        said.setdefault(str(sentence.condition), {})[sentence.words] = None
    return [list(said[str(sentence.condition)]) for sentence in corpus]


def bleu(references: Sequence[Sequence[Sequence[str]]], outputs: Sequence[Sequence[str]]) -> float:
    """Return corpus BLEU-4 in percent, computed by sacrebleu over words as they are.

    `references`: one or several sentences for each output, in the order of `outputs`; a sentence is a sequence of
    words. Raises CorpusError where an output has none, MissingExtraError without sacrebleu.

        bleu([[["le", "chat", "dort", "bien"]]], [["le", "chat", "dort", "bien"]])     # 100.0
    """
    try:
        from sacrebleu.metrics.bleu import BLEU
    except ImportError:
        raise MissingExtraError("sacrebleu", "nlg") from None
    if not outputs or len(references) != len(outputs) or not all(references):
        raise CorpusError(
            f"one or several references for each output are required, found {len(references)} lists for "
            f"{len(outputs)} outputs, {sum(not one for one in references)} of them empty; give each its own"
        )
    most = max(len(one) for one in references)
    streams: list[Any] = [[" ".join(one[i]) if i < len(one) else None for one in references] for i in range(most)]
    # forced: sacrebleu would warn that text with a space before its full stop looks tokenised, as it is
    return float(BLEU(tokenize="none", force=True).corpus_score([" ".join(one) for one in outputs], streams).score)


def written_scores(
    model: LLRNN, corpus: Corpus, judge: Judge, *, beam: int = 5, against_references: bool = True
) -> dict[str, Any]:
    """Generate a text from the condition of each item of a corpus, and score it: what it says, and BLEU.

    Returns `beam` (the number of hypotheses of the search), `facts`, {kind: count} with every kind of
    `llrnn.inference.saying.KINDS` by the `judge`, `slots`, the same for each slot ("()" is the kind of an act), and,
    unless `against_references` is false, `bleu` in percent against the corpus' sentences of the same condition. Raises
    CorpusError where an item has no condition.

        written_scores(model, Corpus.from_file("test.jsonl"), Judge.fit(valid))["facts"]["missing"]
    """
    conditions = [sentence.condition for sentence in corpus]
    if None in conditions:
        raise CorpusError(f"{corpus.name}: a condition to write from is required of every sentence; give JSON lines")
    outputs = [found.words for found in write(model, conditions, beam=beam)]
    slots = judge.count(zip(conditions, outputs, strict=True))
    facts = {kind: sum(own[kind] for own in slots.values()) for kind in KINDS}
    found = {"beam": beam, "facts": facts, "slots": slots}
    return found | ({"bleu": bleu(references_of(corpus), outputs)} if against_references else {})


def told_scores(found: Mapping[str, Any]) -> str:
    """Return the result of `written_scores` as lines of text for people: one for each kind of verdict.

    `found["judge"]`, if it is there, is where the judge learnt. The first line is "written with a beam of 5: 1,598
    facts, BLEU 70.1; the judge learnt from 200 pairs of valid.jsonl", another "missing 3 (0.19 %)", the
    last one "  wrong by slot: kids 2 of 40, area 1 of 300".
    """
    facts, also = found["facts"], f", BLEU {found['bleu']:.1f}" if "bleu" in found else ""
    total, judge = sum(facts.values()), f"; the judge learnt from {found['judge']}" if "judge" in found else ""
    lines = [f"  {kind:<13}{facts[kind]:>6,} ({100 * facts[kind] / max(total, 1):.2f} %)" for kind in KINDS]
    wrong = {slot: sum(own[kind] for kind in _WRONG) for slot, own in found["slots"].items()}
    worst = [
        f"{slot} {wrong[slot]:,} of {sum(found['slots'][slot].values()):,}"
        for slot in sorted(wrong, key=lambda slot: -wrong[slot])
        if wrong[slot]
    ]
    lines += [f"  wrong by slot: {', '.join(worst)}"] if worst else []
    return "\n".join([f"written with a beam of {found['beam']}: {total:,} facts{also}{judge}", *lines])
