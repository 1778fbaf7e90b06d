"""What the pages say with figures outside of their tables, made from the files of docs/results.

Each function yields sentences and cells of one page, as short as makes them its own; `figures.py` looks for them there.
Whoever writes another figure into a page adds the line that makes it here, or a line to WITHOUT_A_FILE.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Iterator
from operator import itemgetter
from typing import Any

import study_statements
from results import (
    DATASETS,
    DOCS,
    RUNS,
    adaptive_epochs,
    after_seconds,
    agreement,
    bench,
    bits,
    chosen_of_twenty,
    classes,
    cold_grammar,
    crossfitted,
    figures,
    french,
    grammar,
    log_perplexity,
    misplaced,
    novels,
    on_running_text,
    over_seeds,
    parsed,
    ratios,
    read,
    slot_errors,
    stated,
    version,
    with_knowledge,
    without_lists,
)
from study_tables import OTHERS, PUBLISHED


def blocks_not_run() -> int:
    return sum(path.read_text(encoding="utf8").count("<!-- not run:") for path in DOCS.rglob("*.md"))


# --- pages ----------------------------------------------------------------------------------------------------------


def readme() -> Iterator[str]:
    layer, own = ratios("layer, V = 42,592"), [bench("every word its own class", file).ratio for file in RUNS]
    setting = bench("layer, V = 42,592").setting
    yield f"Speeds are of version {version()}."
    yield f"{layer[0]} times faster than with a dense softmax (Xeon: {layer[1]}). |"
    yield f"| {setting['V']:,} words in {setting['G']:,} classes, two cores of a Neoverse N1."
    yield f"With a class for every word it takes {own[0]:.2f} times as long (Xeon: {own[1]:.2f}): classes"
    yield (
        f"| Log-perplexity on French is {french('llrnn-2500.continuous')}; the best softmax RNN of this text has "
        f"{french('rnn-bias')}. | LL-RNN (2500): identity for 2,500 words,"
    )
    yield (
        f"{classes('llrnn-2500.continuous')} classes. Softmax RNNs: {french('rnn.continuous')} with the same body, "
        f"{french('rnn.windows')} in windows, {french('rnn-bias')} with these counts, tuned. Test1, three seeds,"
    )
    here, there = (bench("French training, continuous, cpu", file).ratio for file in RUNS)
    adaptive, after = adaptive_epochs(), after_seconds()
    yield (
        f"| This model trains {here:.1f} times as fast as the softmax RNN with its body, but {adaptive[0]} times as "
        f"fast as adaptive softmax. | One core of a Neoverse N1 (Xeon: {there:.1f}, {adaptive[1]}). After 120 seconds "
        f"adaptive softmax had {after['adaptive softmax']} (validation), an LL-RNN with more features "
        f"{after['LL-RNN, 3,500 classes']}. |"
    )
    ours, theirs = (with_knowledge(name) for name in ("vectors-other", "vectors-other-softmax"))
    yield f"| Another model reaches {ours} against {theirs} for a softmax RNN. It is not faster. |"
    yield "word vectors; 42,313 classes."
    ours, theirs = (f"{one:.3f}" for one in bits("more"))
    yield f"French takes {ours} bits per character against {theirs} for a BPE LSTM of the same size. |"
    yield f"{share_of('expert', 'test')} stated numbers, addresses and prices are the table's;"
    yield f"{share_of('expert', 'changed')} after all values were changed, without training. |"
    yield f"a softmax has {share_of('softmax', 'test')}, reading the rows {share_of('reader', 'test')}. No copying"
    yield f"except for {blocks_not_run()} that need real corpora"


WAYS = ("continuous", "windows")
INFERENCE = (
    "exact scoring, N = 1",
    "exact sampling, from h",
    "opening, against torch.load",
    "opening, against torch.load, mmap",
)


def share_of(system: str, part: str) -> str:
    """The share of a system's own statements that are the table's, with their number."""
    return "{} of {}".format(*stated(system, part))


def measured() -> Iterator[str]:
    layer, large = bench("layer, V = 42,592"), bench("layer, V = 256,000")
    (small, xeon_small), (big, xeon_big) = ratios("layer, V = 42,592"), ratios("layer, V = 256,000")
    setting = [f"{row.setting['V']:,} words in G = {row.setting['G']:,}" for row in (layer, large)]
    yield f"| {setting[0]} classes; {setting[1]} |"
    yield f"| {small} and {big} times faster; on the Xeon {xeon_small} and {xeon_big} |"
    yield f"their speeds are of version {version()} (`bench.json`, `bench-xeon.json`)"
    own, xeon_own = (bench("every word its own class", file).ratio for file in RUNS)
    yield f"| 42,592 words, G = {bench('every word its own class').setting['G']:,} |"
    yield f"| {own:.2f} times the time, on the Xeon {xeon_own:.2f}: classes give nothing here |"
    ten_million = bench("time at V = 10,000,000")
    yield f"| G = {ten_million.setting['G']:,} in both | {ten_million.ratio:.2f} times the time, the same memory |"
    yield f"LL-RNN (2500): 2,500 words with identity, and a lexicon; G = {classes('llrnn-2500.continuous')} ("
    ngram = log_perplexity("kneser-ney", "test1", "experts.json")
    yield (
        f"| {french('llrnn-2500.continuous')} on continuous text, {french('llrnn-2500.windows')} in the paper's "
        f"windows; a softmax RNN with the same body {french('rnn.continuous')} and {french('rnn.windows')}, a larger "
        f"one with unigram bias, tuned, {french('rnn-bias')}; a 5-gram {ngram:.2f} (test1, three seeds) | H200 |"
    )
    speeds = [f"{bench(f'French training, {way}, cpu', file).ratio:.1f}" for file in RUNS for way in WAYS]
    adaptive, after = adaptive_epochs(), after_seconds()
    yield f"| LL-RNN (2500), G = {bench('French training, continuous, cpu').setting['G']:,} |"
    yield (
        f"| against the softmax {speeds[0]} times the words per second on continuous text, {speeds[1]} times in "
        f"windows (Xeon {speeds[2]} and {speeds[3]}); against adaptive softmax, continuous text, **{adaptive[0]}** "
        f"times, on the Xeon {adaptive[1]}, on the H200 {adaptive[2]} |"
    )
    yield f"| log-perplexity on French after {read('bench-curve.json')['seconds']:.0f} seconds of training |"
    yield f"layer of {read('bench-curve.json')['H']} units, features of `best` in 3,500 classes;"
    led = after["LL-RNN, 3,500 classes"]
    yield f"| {led}, adaptive softmax {after['adaptive softmax']}, softmax {after['softmax']} (validation, one seed,"
    yield f"G = {classes('best')}, so that its sum is as long as the softmax's"
    yield f"| {french('best')} against {french('rnn-bias')} (test1, three seeds); it is not faster, had"
    pairs = [[with_knowledge(f"vectors-other{way}", test) for way in ("", "-softmax")] for test in ("test1", "test2")]
    first, second = (" against ".join(pair) for pair in pairs)
    made = read("coarsening.json")["full"]["condensed"]
    fewer, fine = made["condensed"]["6"], made["fine"]
    lost = statistics.fmean(fewer["as it is"]["test1"]) - statistics.fmean(fine["test1"])
    yield (
        f"G = 42,313 | {first}, and {second} on test2 (nine and three seeds; settings were chosen for ours); it is not "
        "faster, and condensed to "
        f"{statistics.fmean(fewer['fewer']):.0f} times fewer multiplications loses {lost:.3f} |"
    )
    yield "unigram bias, and LL-RNN (2500) |"
    yield (
        f"| {agreement('best')} % against {agreement('rnn-bias')} % of minimal pairs; LL-RNN (2500) "
        f"{agreement('llrnn-2500.continuous')} % (seed 0;"
    )
    of = bench("exact scoring, N = 1").setting
    here, there = ([bench(name, file).ratio for name in INFERENCE] for file in RUNS)
    yield f"| G = {of['G']:,}; composed weights cached"
    yield (
        f"| scoring one of {of['V']:,} words: {here[0]:.0f} times faster; a sample from a million "
        f"words: {here[1]:.0f} times; opening a model of a million words, against `torch.load`: {here[2]:.0f} times "
        f"(with mmap {here[3]:.1f}); on the Xeon {there[0]:.0f}, {there[1]:.0f}, and {there[2]:.1f} ({there[3]:.1f}) |"
    )
    rows, xeon_rows = ratios("n-grams, rows")
    words, sentences = on_running_text()
    yield f"5-gram, {bench('n-grams, rows').setting['V']:,} words, against KenLM asked word by word |"
    yield (
        f"| {rows} times faster, on the Xeon {xeon_rows}; running text {words} times as fast, but KenLM's sums of "
        f"sentences take {sentences} of our time |"
    )
    yield f"| a JSON grammar over {figures('constraint')['V']:,} tokens, against llguidance |"
    yield "added to logits: {:.2f} times faster, on the Xeon {:.2f};".format(*grammar("llguidance", "written"))
    cold, new = cold_grammar()
    before = [1 / one for key in ("first", "new") for one in grammar("llguidance", key)]
    yield (
        f"llguidance is {1 / cold:.1f} times faster in the first, we are {new:.1f} times after 20 (N1, which others "
        f"used); in {version()} it was {before[0]:.1f} and then {before[2]:.1f} times faster (Xeon {before[1]:.1f} and "
        f"{before[3]:.1f}) |"
    )
    yield "three novels, 10,000 words of it, perplexity |"
    yield (
        f"| {novels('adaptor')}; mixed with the same n-grams, fine-tuning {novels('fine-tuning, n-grams')}, LoRA "
        f"{novels('LoRA, n-grams')}, the base {novels('interpolation')}; fine-tuning alone {novels('fine-tuning')}; "
        f"the base as it is {novels('base')} (three seeds) |"
    )
    ours, theirs = bits("fr")
    yield (
        f"| {ours:.3f} against {theirs:.3f} (−{100 * (1 - ours / theirs):.0f} %) of a character LSTM of the same size; "
        "without that list, with the "
        f"lexicon, {without_lists():.3f} (−{100 * (1 - without_lists() / theirs):.0f} %) (test1, one seed);"
    )
    more, others = bits("more")
    yield f"other texts and vectors {more:.3f} against {others:.3f} (−{100 * (1 - more / others):.0f} %) of BPE (three"
    of_twenty, of_one = chosen_of_twenty()
    yield (
        f"| softmax {slot_errors('softmax'):.0f} %, delexicalised {slot_errors('delexicalised'):.1f} %, copied "
        f"{slot_errors('copied'):.2f} %; by the measure of the corpus's authors delexicalised {of_twenty} as the "
        f"best of twenty texts, their sclstm {PUBLISHED['sclstm']:.2f} %, copied {of_one} of one text; "
        "a value of another slot than is announced: delexicalised "
        f"{misplaced('delexicalised'):.1f} %, copied {misplaced('copied'):.1f} %, with frames "
        f"{misplaced_now():.1f} % (three seeds) |"
    )
    yield "exact match with 20 % of the text, mean of five datasets |"
    yield (
        f"| softmax {parsed('softmax')}, masked in decoding {parsed('masked')}, grammar {parsed('grammar')} (within "
        f"the spread of seeds), with the lexicon, which no rival has, {parsed('primed')} (three seeds) |"
    )
    yield (
        f"| {share_of('expert', 'test')}, and {share_of('expert', 'changed')} after every value was changed without "
        f"training; a softmax {share_of('softmax', 'test')} without the table, {share_of('reader', 'test')} "
        "reading its rows (three seeds). Each share is of what that system states; no rival copies"
    )


def index() -> Iterator[str]:
    here, there = ratios("layer, V = 42,592")
    row = bench("layer, V = 42,592")
    yield (
        f"{here} times faster than a dense softmax with {row.setting['V']:,} words in {row.setting['G']:,} classes, "
        f"on a Xeon {there} times (version {version()})"
    )
    yield (
        f"softmax RNN {french('rnn.continuous')} ({french('rnn.windows')} in windows, {french('rnn-bias')} with "
        f"unigram bias and tuned), LL-RNN {french('llrnn-2500.continuous')} with the body of the first and "
        f"{classes('llrnn-2500.continuous')} classes"
    )
    yield f"{classes('best')} classes, {french('best')};"
    ours, theirs = (with_knowledge(name) for name in ("vectors-other", "vectors-other-softmax"))
    yield f"with word vectors and other texts for both {ours} against {theirs}."


def faq() -> Iterator[str]:
    own = [bench("every word its own class", file).ratio for file in RUNS]
    card = 1 / read("bench-gpu.json")["own"]["65536"]["peer_by_ours"]["weighted_loss, one graph"]["same_launch"]
    yield f"{own[0]:.2f} times the time of a dense one on a Neoverse N1"
    yield f"{own[1]:.2f} on a Xeon and {card:.2f} on an H200"
    words, sentences = on_running_text()
    yield f"{words} times as fast as KenLM asked word by word; KenLM's sums of sentences take {sentences} of our time"
    first, new = cold_grammar()
    before = [1 / one for one in grammar("llguidance", "new")]
    yield (
        f"llguidance is faster there: {1 / first:.1f} times in the first documents of our last run (one core of a "
        f"Neoverse N1; after 20 documents we are, {new:.1f} times), {before[0]:.1f} times and, on a Xeon, "
        f"{before[1]:.1f} times after 20 documents in version {version()}."
    )
    adaptive, after = adaptive_epochs(), after_seconds()
    yield (
        f"with {classes('llrnn-2500.continuous')} classes has {adaptive[0]} times its speed on one core of a Neoverse "
        f"N1, {adaptive[1]} on a Xeon, {adaptive[2]} on an H200."
    )
    yield f"Speeds on CPUs are of version {version()},"
    bodies = {row["name"]: row for row in read("bodies.json")["rows"]}
    nats = [bodies[name]["test1"] for name in ("transformer 4 x 512", "lstm 2 x 512")]
    speed = read("bench-bodies.json")["h200"]["model"]["transformer 4 x 512"]["times the first"]
    yield f"({nats[0]:.2f} against {nats[1]:.2f} nats, at {speed:.2f} times the speed on an H200)"
    beams = [
        bench(f"beam with knowledge, {way}", file).ratio for way in ("one by one", "side by side") for file in RUNS
    ]
    yield f"takes {min(beams):.2f} to {max(beams):.2f} times as long as without"
    continuous = bench("French training, continuous, cpu")
    yield (
        f"LL-RNN (2500) with {continuous.setting['G']:,} classes: {french('llrnn-2500.continuous')} nats against "
        f"{french('rnn.continuous')} with the same body, {french('rnn.windows')} in windows and {french('rnn-bias')} "
        f"with unigram bias, tuned; the best model with {classes('best')} classes: {french('best')} against "
        f"{french('rnn-bias')}, agreement five words and more apart {agreement('best')} % against "
        f"{agreement('rnn-bias')} %. LL-RNN (2500) trains {continuous.ratio:.1f} times as fast as the softmax RNN"
    )
    yield (
        f"| after 120 seconds on one core of a Neoverse N1: {after['LL-RNN, 3,500 classes']} nats against "
        f"{after['adaptive softmax']}, both from the unigram distribution, ours with a lexicon and affixes in "
        "3,500 classes |"
    )
    yield (
        f"| speed: LL-RNN (2500) has {adaptive[0]} times that of adaptive softmax there (Xeon {adaptive[1]}, H200 "
        f"{adaptive[2]}) |"
    )
    rows, xeon_rows = ratios("n-grams, rows")
    yield f"distribution of 20,000 words {rows} times faster, on a Xeon {xeon_rows}, the same probabilities to 1e-5"
    yield f"| sums of sentences take {sentences} of our time; word by word, ours is {words} times as fast |"
    yield "10,000 words of three novels |"
    yield f"| perplexity {novels('adaptor')} against {novels('fine-tuning, n-grams')}; alone, fine-tuning has"
    yield f"fine-tuning has {novels('fine-tuning')} |"
    copied = [one["tests"] for one in read("nlg-frames.json")["copied"]]
    errors = 100 * over_seeds(copied, lambda one: one["test"]["slot_error_rate"])
    yield (
        f"{errors:.2f} % against {slot_errors('delexicalised'):.1f} %; in the wrong phrase: {misplaced_now():.1f} % "
        f"against {misplaced('delexicalised'):.1f} %. As the best of twenty texts, by its authors' measure, it has "
        f"{chosen_of_twenty()[0]}, the published sclstm {PUBLISHED['sclstm']:.2f} %, ours {chosen_of_twenty()[1]} of"
    )
    theirs = over_seeds([run["tests"]["unseen"] for run in read("nlg.json")["delexicalised-100"]], itemgetter("bleu"))
    yield f"BLEU {over_seeds(copied, lambda one: one['unseen']['bleu']):.1f} against {theirs:.1f} |"
    yield f"grammar in training {parsed('grammar')} against {parsed('masked')}, within the spread of seeds"
    yield f"with a lexicon {parsed('primed')}"
    warm, regular = grammar("llguidance", "written"), grammar("outlines-core", "written")
    yield (
        f"a warm JSON grammar over {figures('constraint')['V']:,} tokens: {min(warm):.2f} to {max(warm):.2f}, and "
        f"{min(regular):.1f} to {max(regular):.1f} times faster when added to logits"
    )
    yield f"the table's: {share_of('expert', 'test')} against {share_of('reader', 'test')} |"
    ours, theirs = bits("fr")
    yield f"French {ours:.3f} against {theirs:.3f} bits per character"
    yield f"without lists {without_lists():.3f}; where all have"
    yield "other texts and vectors {:.3f} against {:.3f} |".format(*bits("more"))
    yield (
        f"{french('rnn.windows')} for the RNN and {french('llrnn-2500.windows')} for the LL-RNN (2500) "
        "where the paper has 6.07 and 5.08"
    )
    cards = [
        bench(f"French training, continuous{way}, cuda", "bench-french-gpu.json").ours for way in ("", ", 512 rows")
    ]
    yield f"{cards[0] / 1e6:.1f} million words a second on an H200, {cards[1] / 1e6:.1f} million with 512 rows"
    lexicon = log_perplexity("best-no-lexicon", "test1") - log_perplexity("best", "test1")
    yield f"was worth {lexicon:.3f} nats"
    fitted, unfitted = crossfitted()
    yield f"took validation from {fitted:.2f} to {unfitted:.2f}"
    peak = read("bench-ngram.json")["estimation"]["peak_megabytes"]
    yield f"a peak of {peak / 1000:.1f} GB, extrapolated from a tenth"


def model() -> Iterator[str]:
    row, layer = bench("layer, V = 42,592"), ratios("layer, V = 42,592")
    own = [bench("every word its own class", file).ratio for file in RUNS]
    yield f"With {row.setting['V']:,} words in {row.setting['G']:,} classes a training step of the layer was {layer[0]}"
    yield f"times faster than with a dense softmax, on a Xeon {layer[1]} times (version {version()})"
    yield f"takes {own[0]:.2f} times as long as a dense softmax, on a Xeon {own[1]:.2f}."
    with_experts = log_perplexity("experts", "test1", "experts.json")
    yield f"the best model from {log_perplexity('best', 'test1'):.3f} to {with_experts:.3f} nats a word"


def constraints() -> Iterator[str]:
    here, there = (figures("constraint", file)["engines"]["llrnn"]["written"]["median_us"] for file in RUNS)
    warm = grammar("llguidance", "written")
    first, new = cold_grammar()
    yield f"takes {there:.0f} µs on a Xeon and {here:.0f} µs on a Neoverse N1"
    yield f"llguidance takes {min(warm):.2f} to {max(warm):.2f} times as long"
    yield f"In documents never seen it takes {first:.2f} times our time right after building, {new:.1f} after 20 others"
    here, there = (1 / one for one in grammar("llguidance", "new"))
    yield f"in version {version()} it was {here:.1f}, on a Xeon {there:.1f} times faster after 20"


def characters() -> Iterator[str]:
    shown = {"softmax": "softmax", "masked": "masked in decoding", "automaton": "automaton, in training too"}
    for system, name in shown.items():
        runs = read("char-nlg.json")["systems"][system]
        test, unseen = (_shares([run["tests"][part] for run in runs]) for part in ("test", "unseen"))
        words = [f"{test[0]:.3f} %", f"{unseen[0]:.2f} %"] if test[0] else ["0", "0"]
        yield f"| {name} | {words[0]} | {test[1]:.2f} % | {words[1]} | {unseen[1]:.1f} % |"


def _shares(tests: list[dict[str, Any]]) -> tuple[float, float]:
    """Non-words and slot errors, per cent."""
    return (
        100 * over_seeds(tests, lambda one: one["non_word_share"]),
        100 * over_seeds(tests, lambda one: one["slot_error_rate"]),
    )


def misplaced_now() -> float:
    """Of `copied` with frames, per cent."""
    framed: list[dict[str, int]] = [one["tests"]["test"] for one in read("nlg-frames.json")["copied"]]
    return 100 * sum(one["misplaced"] for one in framed) / sum(one["announced"] for one in framed)


def conditions() -> Iterator[str]:
    for system in ("softmax", "delexicalised", "copied"):
        yield f"| {system} | {slot_errors(system):.2f} % | {slot_errors(system, 'unseen'):.2f} % |"
    yield f"{misplaced('copied'):.1f} % of the cases (softmax {misplaced('softmax'):.1f} %"
    framed = [one["tests"]["test"] for one in read("nlg-frames.json")["copied"]]
    yield "has {} of twenty texts, `copied` {} of one (three".format(*chosen_of_twenty())
    yield f"in {misplaced_now():.1f} % (slot errors"
    yield f"slot errors {100 * over_seeds(framed, lambda one: one['slot_error_rate']):.2f} %"


def knowledge_base() -> Iterator[str]:
    names = {"softmax": "softmax", "reader": "softmax that reads the rows", "expert": "table as expert"}
    for system, name in names.items():
        cells = [share_of(system, part) for part in ("test", "changed")]
        yield f"| {name} | {cells[0]} | {cells[1]} |"


def morphology() -> Iterator[str]:
    both = [f"{agreement(model, None)} %" for model in ("rnn-bias", "best")]
    pairs = read("table4.json")["best"][0]["pairs"]["overall"]["count"]
    values = [french(model, digits=3) for model in ("rnn-bias", "best")]
    yield f"| French (test1, three seeds) | {values[0]} | {values[1]} | {both[0]} and {both[1]} of {pairs:,} |"
    for language, found in read("small.json").items():
        runs = [found[model][0] for model in ("rnn-bias", "best")]
        values = [f"{run['tests']['test1']['log_perplexity']:.3f}" for run in runs]
        both = [f"{100 * run['pairs']['overall']['accuracy']:.1f} %" for run in runs]
        pairs = f"{both[0]} and {both[1]} of {runs[0]['pairs']['overall']['count']:,}"
        yield f"| {language.capitalize()} (test1, one seed) | {values[0]} | {values[1]} | {pairs} |"


def open_vocabulary() -> Iterator[str]:
    found = [bits(language) for language in ("fr", "tr", "et")]
    for row, name in enumerate(("LL-RNN with domains", "best of the others")):
        yield f"| {name} | {' | '.join(f'{one[row]:.3f}' for one in found)} |"
    yield f"Without lists the French LL-RNN has {without_lists():.3f}"


def rescoring() -> Iterator[str]:
    for name, row in read("rescoring.json")["rows"].items():
        if name != "acoustic, 5-gram, LL-RNN":
            yield f"| {name} | {100 * row['test1']:.2f} | {100 * row['test2']:.2f} |"


def speech() -> Iterator[str]:
    """How near others come to the file of the first seed."""
    found, row = read("distilled-readers.json")["distilled-1.arpa"], read("distilled.json")["seeds"][0]
    yield f"`distilled, 1 files`, {sum(row['distilled, 1 files']['ngrams']):,} n-grams"
    yield f"an automaton of {found['kaldifst']['states']:,} states"
    assert found["kenlm"]["sentences"] == found["kaldifst"]["sentences"] == 2000
    yield "over 1,000 sentences of the tests and as many of random words"
    yield f"by more than {found['kenlm']['difference']:.1e} (log10), no sentence by more than"
    yield f"than {found['kaldifst']['difference']:.1e} (−log p)"


def semantic_parsing() -> Iterator[str]:
    formed = [
        100
        * over_seeds(
            read("semantic-parsing.json")[f"{data}-softmax-20"], lambda run: run["tests"]["test"]["well_formed"]
        )
        for data in DATASETS
    ]
    yield f"| softmax | {parsed('softmax')} | {min(formed):.0f} to {max(formed):.0f} % |"
    yield f"| masked in decoding only | {parsed('masked')} | 100 % |"
    yield f"| {parsed('grammar')} | 100 % |"
    yield f"| with a lexicon of names | {parsed('primed')} | 100 % |"


def server() -> Iterator[str]:
    found = read("load.json")
    for run, name in zip(found["runs"], ("batched (`--rows 64`)", "one by one (`--rows 1`)"), strict=True):
        waits = " | ".join(f"{run[f'{key}_ms']:.0f} ms" for key in ("p50", "p90", "p99"))
        memory = f"{run['resident_mb'][1]} and {run['resident_mb'][-1]:.1f} MB"
        yield f"| {name} | {run['requests_per_second']:,.0f} | {waits} | {memory} |"
    yield f"{found['ratio']:.1f} times the throughput"
    written = read("load-write.json")
    for name in ("listed", "as_it_is"):
        runs = written[name]["runs"]
        assert all({*run["statuses"]} == {"200"} for run in runs), name
        slow = [statistics.median(run["p99_ms"] for run in part) / 1000 for part in (runs[::2], runs[1::2])]
        rates = [written[name][key] for key in ("batched", "alone", "ratio")]
        yield (
            f"{rates[0]:.0f} texts a second, one by one {rates[1]:.0f}: {rates[2]:.1f} times; p99 {slow[0]:.1f} s and "
            f"{slow[1]:.1f} s"
        )
    answers = sum(run["statuses"]["200"] for name in ("listed", "as_it_is") for run in written[name]["runs"])
    yield f"{answers:,} answers, all of them 200"
    wide = written["beam_20"]["runs"][0]
    assert {*wide["statuses"]} == {"200"}, wide["statuses"]
    yield f"reached no limit: {wide['statuses']['200']} answers, p99 {wide['p99_ms'] / 1000:.1f} s"
    attacked = read("attack.json")
    answers = [one[who]["answers"] for one in attacked for who in OTHERS]
    yield f"p99 of {min(answers)} to {max(answers)} answers each"
    slowest = max(one["health"]["max_ms"] for one in attacked)
    assert slowest < 100, slowest  # the page says so of every row
    yield f"(slowest answer: {slowest:.0f} ms)"


STATEMENTS: dict[str, Callable[[], Iterable[str]]] = {
    "README.md": readme,
    "measured.md": measured,
    "index.md": index,
    "faq.md": faq,
    "model.md": model,
    "constraints.md": constraints,
    "context.md": study_statements.context,
    "experiments.md": study_statements.experiments,
    "typing.md": study_statements.typing,
    "objectives.md": study_statements.objectives,
    "characters.md": characters,
    "adaptation.md": study_statements.rivals_of_the_adaptor,
    "conditions.md": conditions,
    "knowledge-base.md": knowledge_base,
    "morphology.md": morphology,
    "open-vocabulary.md": open_vocabulary,
    "rescoring.md": rescoring,
    "semantic-parsing.md": semantic_parsing,
    "speech.md": speech,
    "server.md": server,
    "performance.md": study_statements.performance,
}

# Figures that no committed file holds, and why. Short: a claim belongs into a file, or out of the page.
_LIST = "the size of a list of others: forms of `llrnn_lab.studies.open_data.from_wordfreq` that a vocabulary can list"
_STEP = "scripts/time_configs.py prints it, for models that are not committed"
_EXAMPLE = "an example from a model of some minutes, which is not committed; the command stands beside it"
WITHOUT_A_FILE: dict[str, dict[str, str]] = {
    "measured.md": {"310,256 forms of a frequency list": _LIST},
    "faq.md": {
        "310,256 forms of a list": _LIST,
        "1.23 times as long beside a model of 40,781 classes, and 2.5 times beside one of 3,128": _STEP,
    },
    "open-vocabulary.md": {"310,256 French forms": _LIST},
    "performance.md": {
        "the rate of SHA-256": "a name",
        "3 · 2(8LH²N' + OHN) | 28P": "what is counted: operations and bytes, not a measurement",
    },
    "experiments.md": {
        "310,256 forms in French": _LIST,
        "1.23 times with one expert, 1.37 with `experts`, 1.87 with `experts-more`": _STEP,
        "| 92 |": _EXAMPLE,
        "| log b (background) | | | −0.539 |": _EXAMPLE,
        "| Gender:Fem | +1.971 | +1 | +1.971 |": _EXAMPLE,
        "| Gender:Masc | −0.189 | −1 | +0.189 |": _EXAMPLE,
        "**+1.621**": _EXAMPLE,
    },
}

# Pages whose tables hold no measured figures, or such as are printed by a command of the page and kept in no file.
NOT_MEASURED = {
    "server.md": "limits and codes, held to the code by tests/serve/test_server_limits.py",
    "reference/config.md": "keys and their limits, made from the classes that read them",
    "large-corpora.md": "bytes by the layout of the files; seconds of one run on a busy machine, as the page says",
    "reliability.md": "what `make campaign` printed when it was last run",
}
