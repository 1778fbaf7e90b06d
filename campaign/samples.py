"""Small real files of every kind that llrnn writes or reads, made by llrnn itself from its own French grammar.

`make_samples` runs once; parts copy the folder and do with it what they like. Every file is a valid one.
"""

from __future__ import annotations

import gzip
import json
import shutil
from contextlib import chdir, redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from string import ascii_lowercase
from unittest import mock

from llrnn import LLRNN, LSTM, Corpus, Lexicon, Vocabulary, backgrounds, cli, features, french
from llrnn.model import saving as model
from llrnn.text.readers import conllu_lines
from llrnn.text.vocabulary import EOS

SENTENCES = 60
VENUES = [
    {"name": "le chat noir", "phone": "0142", "area": "nord", "food": "french"},
    {"name": "ritz", "phone": "0155", "area": "centre", "food": "italian"},
    {"name": "chez paul", "phone": "0177", "area": "sud", "food": "french"},
]
ACTS = [
    ("inform(name='le chat noir';area=nord)", "le chat noir est au nord ."),
    ("inform(name=ritz;phone=0155)", "ritz : appelez le 0155 ."),
    ("inform(name='chez paul';food=french)", "chez paul sert french ."),
    ("request(area)", "dans quel quartier ?"),
    ("goodbye()", "au revoir ."),
]

PLAIN_TOML = """\
name = "plain"
kind = "llrnn"
[corpus]
train = ["text.conllu"]
valid_last = 10
[vocabulary]
parts = ["train", "valid"]
[lexicon]
parts = ["train", "valid"]
tsv = ["lexicon.tsv"]
[features]
output = [ { kind = "identity", top = 20 }, { kind = "attributes" }, { kind = "suffixes", longest = 2, min_count = 3 } ]
[background]
kind = "unigram"
parts = ["train", "valid"]
smoothing = 1.0
[controller]
kind = "gru"
hidden = 6
[training]
batches = { kind = "sentences", words = 128 }
learning_rate = 0.01
epochs = 2
checkpoint_every = 3
log_every = 1
"""

FREQUENCIES_TOML = PLAIN_TOML.replace('parts = ["train", "valid"]\nsmoothing', "smoothing")

ACTS_TOML = """\
kind = "llrnn"
[corpus]
train = ["acts.jsonl"]
conditions = "act"
[features]
output = [ { kind = "identity" } ]
[background]
kind = "unigram"
smoothing = 0.5
[[contextual]]
kind = "lookup"
name = "venues"
table = "table.json"
columns = ["name", "phone"]
subject = "name"
on = ["area", "food"]
[[contextual]]
kind = "copied"
slots = ["name", "phone"]
[condition]
reading = "slots"
encoder = "lstm"
size = 4
[controller]
kind = "lstm"
hidden = 6
[training]
learning_rate = 0.01
epochs = 1
"""

OPEN_TOML = """\
kind = "llrnn"
[corpus]
train = ["text.txt"]
[vocabulary]
top = 80
[[domains]]
kind = "numbers"
language = "fr"
[[domains]]
kind = "spelling"
order = 3
endings = 5
longest = 2
[features]
output = [ { kind = "identity", top = 20 }, { kind = "orthographic" } ]
[background]
kind = "discounted"
[[contextual]]
kind = "expert"
order = 2
folds = 2
[controller]
kind = "elman"
hidden = 5
[training]
learning_rate = 0.01
epochs = 1
"""

GRAMMAR = """\
start: phrase (_and phrase)*
phrase: det noun verb
det: "le" | "la" -> feminine
noun: /[a-z]+/
verb: "est" | "dort"
_and: "et"
"""

HUNSPELL_AFF = "SET UTF-8\nSFX S Y 1\nSFX S 0 s [^s] is:pl\nPFX R Y 1\nPFX R 0 re . is:re\n"
HUNSPELL_DIC = "3\nchat/S po:nom\nmaison/S po:nom\ndire/R po:v1\n"


def make_samples(folder: Path) -> Path:
    """All of them; a folder that is there already is taken as it is."""
    if (folder / "done").exists():
        return folder
    shutil.rmtree(folder, ignore_errors=True)  # one that was not finished
    folder.mkdir(parents=True)
    _texts(folder)
    _knowledge(folder)
    for name, text in (("plain", PLAIN_TOML), ("acts", ACTS_TOML), ("open", OPEN_TOML)):
        (folder / f"{name}.toml").write_text(text, encoding="utf8")
        _llrnn(folder, "train", f"{name}.toml", "--out", f"runs/{name}", "--quiet")
    _llrnn(folder, "ngram", "estimate", "text.txt", "--order", "3", "--out", "text.arpa")
    _llrnn(folder, "ngram", "convert", "text.arpa", "text.arpa.gz")
    _llrnn(folder, "ngram", "convert", "text.arpa", "text.ngram")
    _llrnn(folder, "data", "build", "text.txt", "--out", "built")
    _spelled(folder / "runs" / "spelled")
    _mapped(folder / "runs" / "mapped")
    _letters(folder / "runs" / "letters")
    (folder / "done").write_text("", encoding="utf8")
    return folder


def _llrnn(folder: Path, *arguments: str) -> None:
    said = StringIO()
    with chdir(folder), redirect_stdout(said), redirect_stderr(said):
        code = cli.run(list(arguments))
    if code:
        raise RuntimeError(f"a sample cannot be made: llrnn {' '.join(arguments)}\n{said.getvalue()}")


def _texts(folder: Path) -> None:
    sentences = list(french.sentences(SENTENCES))
    lines = [" ".join(sentence.words).lower() for sentence in Corpus.from_sentences(sentences)]
    written = {
        "text.conllu": "\n".join(conllu_lines(sentences)) + "\n",
        "text.txt": "\n".join(lines) + "\n",
        "test.txt": "\n".join(lines[:5]) + "\n",
        "text.jsonl": "".join(json.dumps({"target": line}, ensure_ascii=False) + "\n" for line in lines[:8]),
        "acts.jsonl": "".join(json.dumps({"condition": act, "target": text}) + "\n" for act, text in ACTS * 3),
        "acts.tsv": "".join(f"{act}\t{text}\n" for act, text in ACTS),
        "acts.txt": "".join(f"{act}\n" for act, _ in ACTS),
        "words.txt": "".join(f"{word}\n" for word in sorted({word for line in lines for word in line.split()})),
        "pairs.tsv": "".join(f"{line}\t{line[::-1]}\tturned\t1\t0\n" for line in lines[:4]),
        "pairs.jsonl": "".join(
            json.dumps({"sentence_good": line, "sentence_bad": f"{line} {line}", "UID": "twice"}) + "\n"
            for line in lines[:4]
        ),
        "nbest.tsv": "#utterance\thypothesis\tam\tlm\n"
        + "".join(f"u{i}\t{lines[i + j]}\t-{10 + j}.5\t-4.{j}\n" for i in range(3) for j in range(3)),
        "references.txt": "".join(f"u{i} {lines[i]}\n" for i in range(3)),
    }
    for name, text in written.items():
        (folder / name).write_text(text, encoding="utf8")
    (folder / "text.txt.gz").write_bytes(gzip.compress(written["text.txt"].encode(), mtime=0))


def _knowledge(folder: Path) -> None:
    columns = list(VENUES[0])
    written = {
        "lexicon.tsv": "chat\tPOS:NOUN Gender:Masc\nmaison\tPOS:NOUN,Gender:Fem\nest\tPOS:VERB\n",
        "frequencies.tsv": "chat\t120\nmaison\t88.5\nest\t1e3\nle\t5000\n",
        "added.tsv": "girafe\tPOS:NOUN\t3\nzèbre\t_\t1\n",
        "table.json": json.dumps(VENUES, ensure_ascii=False, indent=1),
        "table.jsonl": "".join(json.dumps(row) + "\n" for row in VENUES),
        "table.csv": "\n".join([",".join(columns), *(",".join(row.values()) for row in VENUES)]) + "\n",
        "table.tsv": "\n".join(["\t".join(columns), *("\t".join(row.values()) for row in VENUES)]) + "\n",
        "grammar.lark": GRAMMAR,
        "letters.lark": 'start: word (" " word)*\nword: "le" | "la" | /[b-d]+/\n',
        "frequencies.toml": FREQUENCIES_TOML,
        "removed.tsv": "maison\nest\n",
        "fr.aff": HUNSPELL_AFF,
        "fr.dic": HUNSPELL_DIC,
    }
    for name, text in written.items():
        (folder / name).write_text(text, encoding="utf8")


def _small(controller: LSTM) -> LLRNN:
    corpus = Corpus.from_sentences(french.sentences(SENTENCES)).lowercased()
    phi = features.Identity(top=20) + features.Attributes(Lexicon.from_corpus(corpus))
    background = backgrounds.Unigram.from_corpus(corpus)
    vocabulary = Vocabulary.from_corpus(corpus)
    return LLRNN(vocabulary, output_features=phi, background=background, controller=controller, seed=1)


def _spelled(folder: Path) -> None:
    """A model that keeps its words as arrays, as those of more than 100,000 words do."""
    with mock.patch.object(model, "MANY_WORDS", 10):
        _small(LSTM(4)).save(folder)


def _mapped(folder: Path) -> None:
    """A model above 16 MB, whose file is mapped and not read."""
    _small(LSTM(720)).save(folder)


def _letters(folder: Path) -> None:
    """A model of letters, for languages over the characters that symbols spell."""
    vocabulary = Vocabulary([*ascii_lowercase, "␣", ".", EOS])
    background = backgrounds.Uniform()
    LLRNN(vocabulary, output_features=features.Identity(), background=background, controller=LSTM(4), seed=1).save(
        folder
    )
