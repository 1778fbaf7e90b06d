"""How often the grammar of agreement knows the subject of a finite verb before it comes, in a treebank.

    D=../shared/data/ud_french
    python scripts/governors.py french $D/fr_sequoia-ud-train.conllu $D/fr_gsd-ud-test.conllu \\
        --valid $D/fr_sequoia-ud-dev.conllu $D/fr_gsd-ud-dev.conllu --key now --json docs/results/governors.json

Readings and counts of roles are those of the first treebanks; words of the others that these lack have none. Counted
are finite verbs whose subject stands before them, without *qui*, whose antecedent a treebank does not name. `best`: the
likeliest governor is the subject; `belief`: the weight of the subject, on average. Lines of `--show N` are mistakes.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from pathlib import Path

from llrnn import Corpus, Vocabulary
from llrnn.text.readers import Sentence
from llrnn_agreement import Agreement, governors

_FEW = 6  # words of context that are shown


def subjects(sentence: Sentence) -> dict[int, int]:
    """Return the place of the subject by that of the finite verb, or of the auxiliary, that agrees with it."""
    found = {}
    for i, verb in enumerate(sentence.tokens):
        if verb.feats.get("VerbForm") != "Fin":
            continue
        heads = {i, verb.head} if (verb.relation or "").startswith(("aux", "cop")) else {i}
        for j, word in enumerate(sentence.tokens[:i]):
            if (word.relation or "").startswith("nsubj") and word.form != "qui" and word.head in heads:
                found[i] = j
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rules")
    parser.add_argument("treebanks", nargs="+", type=Path)
    parser.add_argument("--valid", nargs="+", type=Path, required=True)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--key", default="now")
    parser.add_argument("--show", type=int, default=0)
    given = parser.parse_args()
    known, asked = (
        [s for path in paths for s in Corpus.from_file(path, lowercase=True)]
        for paths in (given.treebanks, given.valid)
    )
    words = sorted({token.form for sentence in (*known, *asked) for token in sentence.tokens} - {"</s>"})
    agreement = Agreement.estimated(given.rules, known).bind(
        Vocabulary(["</s>", *words], counts=[1] * (len(words) + 1))
    )
    verbs, best, mistakes, belief = 0, 0, list[str](), 0.0
    for sentence in asked:
        gold, state, forms = subjects(sentence), agreement.initial(), [token.form for token in sentence.tokens]
        for place, symbol in enumerate(agreement.vocabulary.locate(forms, place="sentence")[0].tolist()):
            if place in gold:
                share = Counter[int]()
                for stack, weight, at in state.hypotheses:
                    for part, one in governors(stack, "subject", agreement.rules):
                        share[at[one.place]] += weight * part
                first = max(share, key=lambda one: share[one]) if share else -1
                verbs, best, belief = verbs + 1, best + (first == gold[place]), belief + share[gold[place]]
                if first != gold[place]:
                    before = " ".join(forms[max(0, place - _FEW) : place + 1])
                    mistakes.append(f"{before}: {forms[gold[place]]}, read as {forms[first] if first >= 0 else 'none'}")
            state = agreement.advance(state, symbol)
    found = {"verbs": verbs, "best": best / verbs, "belief": belief / verbs}
    sys.stdout.write("\n".join([*mistakes[: given.show], f"{given.rules} {found}\n"]))
    if given.json:
        before = json.loads(given.json.read_text()) if given.json.exists() else {}
        before.setdefault(given.rules, {})[given.key] = found
        given.json.write_text(json.dumps(before, indent=1) + "\n", encoding="utf8")


if __name__ == "__main__":
    main()
