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
    agreement,
    bench,
    bits,
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
    with_knowledge,
    without_lists,
)
from study_tables import OTHERS


def blocks_not_run() -> int:
    return sum(path.read_text(encoding="utf8").count("<!-- not run:") for path in DOCS.rglob("*.md"))


# --- pages ----------------------------------------------------------------------------------------------------------


def readme() -> Iterator[str]:
    layer, own = ratios("layer, V = 42,592"), [bench("every word its own class", file).ratio for file in RUNS]
    setting = bench("layer, V = 42,592").setting
    yield f"{layer[0]} times faster than with a dense softmax ({layer[1]} times on a Xeon). |"
    yield f"| {setting['V']:,} words in {setting['G']:,} classes, two cores of a Neoverse N1."
    yield f"With a class for every word it takes {own[0]:.2f} times as long (Xeon {own[1]:.2f}): classes"
    continuous = bench("French training, continuous, cpu")
    yield (
        f"| Log-perplexity on French is {french('llrnn-2500.continuous')} against {french('rnn.continuous')} for a "
        f"softmax RNN with the same body, at {continuous.ratio:.1f} times the words per second in training. |"
    )
    yield f"| LL-RNN (2500): identity features for 2,500 words, and a lexicon; {continuous.setting['G']:,} classes;"
    ours, theirs = (with_knowledge(name) for name in ("vectors-other", "vectors-other-softmax"))
    yield f"| Another model reaches {ours} against {theirs} for a softmax RNN. It is not faster. |"
    yield "other texts read first; 42,313 classes."
    ours, theirs = (f"{one:.3f}" for one in bits("more"))
    yield f"French takes {ours} bits per character against {theirs} for the best of three baselines"
    yield f"{stated('expert', 'test')[0]} of the stated numbers, addresses and prices are those of the table, and"
    yield f"and {stated('expert', 'changed')[0]} after every value was changed without training. |"
    shares = [stated(system, "test")[0] for system in ("softmax", "reader")]
    yield f"A softmax reaches {shares[0]} without the table and {shares[1]} reading its rows; neither copies. |"
    yield f"except for {blocks_not_run()} that need real corpora"


def measured() -> Iterator[str]:
    layer, large = bench("layer, V = 42,592"), bench("layer, V = 256,000")
    (small, xeon_small), (big, xeon_big) = ratios("layer, V = 42,592"), ratios("layer, V = 256,000")
    setting = [f"{row.setting['V']:,} words in G = {row.setting['G']:,}" for row in (layer, large)]
    yield f"| {setting[0]} classes; {setting[1]} |"
    yield f"| {small} and {big} times faster; on a Xeon {xeon_small} and {xeon_big} |"
    own, xeon_own = (bench("every word its own class", file).ratio for file in RUNS)
    yield f"| 42,592 words, G = {bench('every word its own class').setting['G']:,} |"
    yield f"| {own:.2f} times the time, on a Xeon {xeon_own:.2f}: classes give nothing here |"
    ten_million = bench("time at V = 10,000,000")
    yield f"| G = {ten_million.setting['G']:,} in both | {ten_million.ratio:.2f} times the time, the same memory |"
    continuous, windows = (bench(f"French training, {way}, cpu") for way in ("continuous", "windows"))
    yield f"LL-RNN (2500): 2,500 words with identity, and a lexicon; G = {continuous.setting['G']:,} ("
    yield (
        f"| {continuous.ratio:.1f} times the words per second with log-perplexity {french('llrnn-2500.continuous')} "
        f"against {french('rnn.continuous')} on continuous text; {windows.ratio:.1f} times with "
        f"{french('llrnn-2500.windows')} against {french('rnn.windows')} in the paper's windows"
    )
    yield f"G = {classes('best')}, so that its sum is as long as the softmax's"
    yield f"| {french('best')} against {french('rnn-bias')} (test1, three seeds); it is not faster |"
    pairs = [[with_knowledge(f"vectors-other{way}", test) for way in ("", "-softmax")] for test in ("test1", "test2")]
    first, second = (" against ".join(pair) for pair in pairs)
    made = read("coarsening.json")["full"]["condensed"]
    fewer, fine = made["condensed"]["6"], made["fine"]
    lost = statistics.fmean(fewer["as it is"]["test1"]) - statistics.fmean(fine["test1"])
    yield (
        f"G = 42,313 | {first}, and {second} on test2 (nine and three seeds); it is not faster, and condensed to "
        f"{statistics.fmean(fewer['fewer']):.0f} times fewer multiplications loses {lost:.3f} |"
    )
    yield "| these two models, and LL-RNN (2500) |"
    yield (
        f"| {agreement('best')} % against {agreement('rnn-bias')} % of minimal pairs; LL-RNN (2500) "
        f"{agreement('llrnn-2500.continuous')} % (seed 0) |"
    )
    scoring, sampling = bench("exact scoring, N = 1"), bench("exact sampling, from h")
    opening, mapped = (bench(f"opening, against torch.load{way}") for way in ("", ", mmap"))
    yield f"| G = {scoring.setting['G']:,}; composed weights cached"
    yield (
        f"| scoring one of {scoring.setting['V']:,} words: {scoring.ratio:.0f} times faster; a sample from a million "
        f"words: {sampling.ratio:.0f} times; opening a model of a million words: {opening.ratio:.0f} times "
        f"({mapped.ratio:.0f} with mmap) |"
    )
    rows, xeon_rows = ratios("n-grams, rows")
    words, _ = on_running_text()
    yield f"5-gram, {bench('n-grams, rows').setting['V']:,} words, against KenLM asked word by word |"
    yield f"| {rows} times faster, on a Xeon {xeon_rows}; running text {words} times as fast |"
    yield "three novels, 10,000 words of it, perplexity |"
    yield (
        f"| {novels('adaptor')}; mixed with the same n-grams, fine-tuning {novels('fine-tuning, n-grams')}, LoRA "
        f"{novels('LoRA, n-grams')}, the base {novels('interpolation')}; fine-tuning alone {novels('fine-tuning')}; "
        f"the base as it is {novels('base')} (three seeds) |"
    )
    ours, theirs = bits("fr")
    yield (
        f"| {ours:.3f} against {theirs:.3f} (−{100 * (1 - ours / theirs):.0f} %); without that list, with the "
        f"lexicon, {without_lists():.3f} (−{100 * (1 - without_lists() / theirs):.0f} %) (test1, one seed);"
    )
    more, others = bits("more")
    yield f"other texts and vectors {more:.3f} against {others:.3f} (−{100 * (1 - more / others):.0f} %) (three seeds"
    yield (
        f"| softmax {slot_errors('softmax'):.0f} %, delexicalised {slot_errors('delexicalised'):.1f} %, copied "
        f"{slot_errors('copied'):.2f} %; a value of another slot than is announced: delexicalised "
        f"{misplaced('delexicalised'):.1f} %, copied {misplaced('copied'):.1f} %, with frames "
        f"{misplaced_now():.1f} % (three seeds) |"
    )
    yield "exact match with 20 % of the text, mean of five datasets |"
    yield (
        f"| softmax {parsed('softmax')}, masked in decoding {parsed('masked')}, grammar {parsed('grammar')}, "
        f"with the lexicon {parsed('primed')} (three seeds) |"
    )
    yield (
        f"| {stated('expert', 'test')[0]}, and {stated('expert', 'changed')[0]} after every value was changed without "
        f"training; a softmax {stated('softmax', 'test')[0]} without the table, {stated('reader', 'test')[0]} "
        "reading its rows (three seeds) |"
    )


def index() -> Iterator[str]:
    here, there = ratios("layer, V = 42,592")
    row = bench("layer, V = 42,592")
    yield (
        f"{here} times faster than a dense softmax with {row.setting['V']:,} words in {row.setting['G']:,} classes, "
        f"on a Xeon {there} times"
    )
    yield (
        f"softmax RNN {french('rnn.continuous')}, LL-RNN {french('llrnn-2500.continuous')} with the same body and "
        f"{classes('llrnn-2500.continuous')} classes"
    )
    yield f"{classes('best')} classes, {french('best')} against {french('rnn-bias')} of a softmax RNN with unigram bias"
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
    yield f"llguidance is {1 / first:.1f} times faster there in the first documents; then we are, {new:.1f} times"
    beams = [
        bench(f"beam with knowledge, {way}", file).ratio for way in ("one by one", "side by side") for file in RUNS
    ]
    yield f"takes {min(beams):.2f} to {max(beams):.2f} times as long as without"
    continuous = bench("French training, continuous, cpu")
    yield (
        f"LL-RNN (2500) with {continuous.setting['G']:,} classes: {french('llrnn-2500.continuous')} against "
        f"{french('rnn.continuous')} nats, {continuous.ratio:.1f} times the words per second in training; the best "
        f"model with {classes('best')} classes: {french('best')} against {french('rnn-bias')}, agreement five words "
        f"and more apart {agreement('best')} % against {agreement('rnn-bias')} %"
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
        f"against {misplaced('delexicalised'):.1f} % |"
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
    yield f"| the first documents: llguidance is {1 / first:.1f} times faster |"
    ours, theirs = bits("fr")
    yield f"French {ours:.3f} against {theirs:.3f} bits per character"
    yield f"without lists {without_lists():.3f}"
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
    yield f"times faster than with a dense softmax, on a Xeon {layer[1]} times"
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
    chosen = [one["reranked"]["test"]["placeholder_error_rate"] for one in read("nlg-rivals.json")["delexicalised-100"]]
    framed = [one["tests"]["test"] for one in read("nlg-frames.json")["copied"]]
    own = statistics.fmean(one["placeholder_error_rate"] for one in framed)
    yield f"has {100 * statistics.fmean(chosen):.2f} % of twenty texts, `copied` {100 * own:.2f} % of one (three"
    yield f"in {misplaced_now():.1f} % (slot errors"
    yield f"slot errors {100 * over_seeds(framed, lambda one: one['slot_error_rate']):.2f} %"


def knowledge_base() -> Iterator[str]:
    names = {"softmax": "softmax", "reader": "softmax that reads the rows", "expert": "table as expert"}
    for system, name in names.items():
        cells = [f"{share} of {said}" for share, said in (stated(system, part) for part in ("test", "changed"))]
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
