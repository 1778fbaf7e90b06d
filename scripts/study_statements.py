"""What docs/experiments.md, performance.md, objectives.md and context.md say with figures; see `statements.py`."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Sequence

from llrnn_lab.bench.curve import TimeCurve
from llrnn_lab.studies import open_vocabulary as opened
from results import (
    RUNS,
    after_seconds,
    bench,
    bits,
    crossfitted,
    figures,
    french,
    grammar,
    log_perplexities,
    log_perplexity,
    misplaced,
    parsed,
    read,
    trial,
    with_knowledge,
    without_lists,
)
from study_tables import SIZES, TESTS


def span(values: Sequence[float], digits: int = 2) -> str:
    return f"{min(values):.{digits}f} to {max(values):.{digits}f}"


def joined(values: Sequence[float], digits: int) -> str:
    return ", ".join(f"{value:.{digits}f}" for value in values)


def context() -> Iterator[str]:
    fitted, unfitted = crossfitted()
    yield f"| no expert | {min(trial('best.toml')['valid_by_epoch']):.3f} |"
    yield f"| expert, cross-fitted (10 folds) | {fitted:.3f} |"
    yield f"| expert, not cross-fitted | {unfitted:.3f} (best epoch, the first) |"


def other_texts() -> Iterator[str]:
    found = read("other-texts.json")["contractions of valid that would be right"]
    right = ", ".join(f"`{word}` {right} of {count}" for word, (right, count) in found.items())
    yield f"validation text, where the right answer is known: {right}."


def little_study() -> Iterator[str]:
    """By how much the LL-RNN of little text is ahead on test1: of the best other, and of the one with its cache."""
    rivals = {"without": ("softmax", "characters", "bpe"), "with": ("softmax-recent",)}
    found = {
        language: {name: opened.over_seeds(system, "test1")[1] for name, system in of["systems"].items()}
        for language, of in read("open-vocabulary-little.json").items()
    }

    def gain(language: str, against: str, band: str | None = None) -> str:
        bits = {
            name: (one if band is None else one["by_band"][band])["bits_per_character"]
            for name, one in found[language].items()
        }
        below = 100 * (1 - bits["llrnn"] / min(bits[name] for name in rivals[against]))
        return f"{round(below, 1) + 0.0:.1f} %"  # never -0.0

    all_of_it = [" and ".join(gain(language, against) for language in found) for against in rivals]
    yield f"below the best of those without a cache by {all_of_it[0]} (Estonian and Turkish)"
    yield f"by {all_of_it[1]} below the softmax that is given the same cache"
    yield "new words: " + " and ".join(gain(language, "with", "unseen") for language in found)
    for language in found:
        tried = read("open-vocabulary-little.json")[language]["tried"]
        yield " and ".join(f"{one['valid']:.3f}" for one in tried.values())


def analysers() -> Iterator[str]:
    found = read("analysers.json")
    mean = {
        name: [statistics.fmean(run["tests"][test]["log_perplexity"] for run in runs) for test in TESTS]
        for name, runs in found["turkish"].items()
    }
    for name in ("readings, one layer", "best, one layer", "readings", "best"):
        gains = (theirs - ours for theirs, ours in zip(mean["rnn-bias"], mean[name], strict=True))
        yield " and ".join(f"{gain:.3f}" for gain in gains)
    tries = {one["name"]: one["valid"] for one in found["turkish tries"]}
    yield f"one layer of 384 units instead of two of 256 {tries['one-layer']:.3f}"
    yield f"one layer of 512 units with a dropout of 0.65 ({tries['one-512']:.3f})"
    unseen = {
        name: statistics.fmean(
            run["test1"]["by_band"]["unseen"]["bits_per_character"] for run in runs if "test1" in run
        )
        for name, runs in found["estonian"].items()
    }

    def below(name: str, other: str) -> str:
        return f"{100 * (1 - unseen[name] / unseen[other]):.1f} %"

    again = ", words come again"
    yield f"{below('llrnn', 'softmax')} below the softmax on unseen words"
    yield f"{below('llrnn' + again, 'softmax')} below the softmax as it is"
    yield f"{below('llrnn' + again, 'softmax' + again)} below the softmax that has them, too"


def typing() -> Iterator[str]:
    """How many points more the LL-RNN saves than list + trigram: as they are, with words that come again, both."""
    again = ", words come again"
    found = [one["systems"] for one in read("typing.json").values()]
    pairs = (("llrnn", ""), ("llrnn" + again, ""), ("llrnn" + again, again))
    for measure in ("saved", "passed over"):
        for ours, theirs in pairs:
            points = [100 * (one[ours][measure] - one["list + trigram" + theirs][measure]) for one in found]
            yield "{:.1f}, {:.1f} and {:.1f} points".format(*points)
    slowest = max(one["llrnn" + again]["milliseconds"]["p95"] for one in found)
    yield f"up to {slowest:.1f} milliseconds in 19 of 20 cases"


def open_classes() -> Iterator[str]:
    """Of Turkish: what each way costs on the validation text, and the time of training."""
    models = read("open-classes-tr.json")["models"]
    fine, *ways = (models[f"{way}.seed0"] for way in ("fine", "weights", "text", "trained"))
    cost = [100 * (way["valid"]["bits_per_character"] / fine["valid"]["bits_per_character"] - 1) for way in ways]
    yield f"the three ways cost {cost[0]:.2f} % (by weights), {cost[1]:.2f} % (by weights and text) and {cost[2]:.2f} %"
    yield f"that training took {ways[2]['seconds']:.0f} s of the processor instead of {fine['seconds']:.0f} s"


def real_lists() -> Iterator[str]:
    """Shares of the way from the first to the best hypothesis of DSTC2, by three weights."""
    rows = read("dstc2.json")["rows"]
    own, dialogue, ngram = (
        f"{100 * rows[f'{row} +dev']['weights']['test']['recovered']:.0f} %"
        for row in ("question-names", "dialogue-names", "KN5")
    )
    yield f"LL-RNNs with the question and the names go {own} of the way, with the turn before {dialogue} (35 were asked"
    yield f"`KN5` with the same text goes {ngram}, and"
    own, softmax, ngram = (rows[f"{row} +dev"]["learned"] for row in ("question-names", "softmax-question", "KN5"))
    gone = [f"{100 * one['test']['recovered']:.0f} %" for one in (own, ngram, softmax)]
    yield f"LL-RNNs with the question and the names go {gone[0]} of the way and `KN5` with the same text {gone[1]};"
    low, high = (f"−{-100 * bound:.1f}" for bound in own["test"]["against_ngram"])
    yield f"the interval of that difference is {low} to {high} points"
    dev = [100 * one["dev"]["rate"] for one in (own, ngram)]
    yield f"show none ({dev[0]:.1f} and {dev[1]:.1f} %), and a softmax with the question goes {gone[2]}."


def experiments() -> Iterator[str]:
    for part in (
        table4,
        other_texts,
        agreement,
        experts,
        adaptation,
        real_lists,
        open_vocabulary,
        open_more,
        little_study,
        analysers,
        knowledge,
        open_classes,
        rare_words,
        added_words,
        conditions,
        grammars,
    ):
        yield from part()
    yield from kenlm()


def table4() -> Iterator[str]:
    of = {
        name: [log_perplexity(f"{name}.{way}", test) for way in ("windows", "continuous") for test in TESTS]
        for name in ("rnn", "llrnn-2500", "llrnn-10", "llrnn-10000")
    }
    yield f"The softmax RNN lies at {span(of['rnn'])}, the LL-RNN (2500) at {span(of['llrnn-2500'])}"
    for way, text in (("continuous", "{} below the softmax RNN of the same body"), ("windows", "continuous text, {}.")):
        gains = [
            log_perplexity(f"rnn.{way}", test) - log_perplexity(f"llrnn-{size}.{way}", test)
            for size in SIZES
            for test in TESTS
            if size >= 500
        ]
        yield text.format(span(gains))
    yield f"10 words are too few ({span(of['llrnn-10'])}), and 10,000 too many ({span(of['llrnn-10000'])};"
    ours, theirs, best, biased = (
        round(statistics.fmean(run["words_per_second"] for run in read("table4.json")[name]), -2)
        for name in ("llrnn-2500.continuous", "rnn.continuous", "best", "rnn-bias")
    )
    yield f"LL-RNN (2500) had {ours:,.0f} words a second on continuous text and the softmax RNN {theirs:,.0f}"
    yield f"had {best:,.0f}, and the softmax RNN with unigram bias {biased:,.0f}"
    worst = max(log_perplexities("llrnn-2500.continuous", "test2"))
    yield f"({french('llrnn-2500.continuous', 'test2', 3)} against 5.27; one seed of three has {worst:.3f})"
    gap = [f"{log_perplexity('rnn-bias', test) - log_perplexity('best', test):.2f}" for test in ("test1", "test2")]
    fair = f"{french('rnn-bias', digits=3)} / {french('rnn-bias', 'test2', 3)}"
    perplexities = [f"{math.exp(log_perplexity(name, 'test1')):.0f}" for name in ("rnn-bias", "best")]
    yield (
        f"The fair softmax RNN stands at {fair}: {gap[0]} / {gap[1]} nats behind, a perplexity of {perplexities[0]} "
        f"instead of {perplexities[1]} on test1"
    )


def experts() -> Iterator[str]:
    steps = read("steps-gpu.json")["found"]["heard once"]
    ratios = [f"{steps[f'configs/table4/{name}.toml']['ratio']:.2f}" for name in ("expert", "experts-more")]
    yield f"On an H200 it is {ratios[0]} and {ratios[1]} times"
    fitted, unfitted = crossfitted()
    tests = " / ".join(f"{value:.2f}" for value in trial("order 5, folds = 0")["tests"].values())
    yield f"validation {unfitted:.2f} after the best epoch ({tests}), against {fitted:.2f}"
    for name in ("order 3 as background instead of unigrams, 10 folds", "order 5 as background, folds = 0"):
        yield " / ".join(f"{value:.3f}" for value in trial(name)["tests"].values())
    both = (log_perplexity("experts", test, "experts.json") for test in TESTS)
    yield "with the training text alone we are at " + " / ".join(f"{value:.3f}" for value in both)
    pairs = [row["pairs"] for row in read("experts.json")["rows"] if "pairs" in row]
    yield f"`expert` is right on {100 * pairs[0]['accuracy']:.1f} % of the {pairs[0]['count']:,} minimal pairs"
    yield f"For `experts-more` the figure ({100 * pairs[1]['accuracy']:.1f} %) means nothing"


def agreement() -> Iterator[str]:
    """By how many points one model is ahead of another at each distance."""
    for ours, theirs, text in (
        ("best", "rnn-bias", "grows with distance ({} points)"),
        ("llrnn-2500.continuous", "rnn.continuous", "does not ({})"),
    ):
        of, than = (read("table4.json")[name][0]["pairs"]["by_distance"] for name in (ours, theirs))
        yield text.format(joined([100 * (of[band]["accuracy"] - than[band]["accuracy"]) for band in of], 1))


def rivals_of_the_adaptor() -> Iterator[str]:
    """By how much the adaptor is below fine-tuning that is interpolated with the same n-grams, by novel."""
    runs = read("adaptation-rivals.json")
    for novel in dict.fromkeys(run["novel"] for run in runs):
        own = [run for run in runs if run["novel"] == novel]
        means = [statistics.fmean(run[name]["test"] for run in own) for name in ("fine-tuning, n-grams", "adaptor")]
        yield f"{means[0] - means[1]:.3f} nats ({novel.partition('_')[2] or novel})"


def adaptation() -> Iterator[str]:
    """The first design of the adaptor, which was behind."""
    yield from rivals_of_the_adaptor()

    def found(system: str, size: int) -> list[float]:
        return [run[system]["test"] for run in read("adaptation-trials.json")["runs"] if run["size"] == size]

    first = [found(system, 1018)[0] for system in ("adaptor", "interpolation")]
    yield f"({first[0]:.3f} against {first[1]:.3f} at 1,000)"
    means = [statistics.fmean(found(name, size)) for size in (10007, 20015) for name in ("adaptor", "fine-tuning")]
    yield "({:.3f} against {:.3f}, {:.3f} against {:.3f})".format(*means)


def open_vocabulary() -> Iterator[str]:
    alone, lead = bits("fr"), bits("fr", "test2")
    yield f"the French LL-RNN has {without_lists():.3f} and {without_lists('test2'):.3f}"
    for test, best in (("test1", alone[1]), ("test2", lead[1])):
        assert round(100 * (1 - without_lists(test) / best)) == 5
    models = read("open-vocabulary-seeds.json")["models"]
    seeds = {
        f"{name} {test}": joined(
            [models[f"{name}.seed{seed}"]["tests"][test]["bits_per_character"] for seed in (1, 2)], 3
        )
        for name in ("llrnn", "characters")
        for test in TESTS
    }
    yield f"LL-RNN {seeds['llrnn test1']} on test1 and {seeds['llrnn test2']} on test2"
    yield f"character LSTM {seeds['characters test1']} and {seeds['characters test2']} ("


def open_more() -> Iterator[str]:
    """French with other texts and vectors for all."""
    first, second = bits("more"), bits("more", "test2")
    gains = [100 * (1 - ours / theirs) for ours, theirs in (first, second)]
    yield f"**{first[0]:.3f} / {second[0]:.3f} bits per character**, {gains[0]:.1f} and {gains[1]:.1f} % below the best"
    systems = read("open-vocabulary-more.json")["systems"]

    def seeds(runs: Sequence[dict[str, dict[str, dict[str, float]]]], test: str) -> str:
        return joined([run["tests"][test]["bits_per_character"] for run in runs], 3)

    ours, theirs = systems["llrnn"]["more_seeds"], systems["bpe"]["more_seeds_of_the_second_try"]
    yield f"LL-RNN {seeds(ours, 'test1')} on test1 and {seeds(ours, 'test2')} on test2"
    yield f"BPE with dropout 0.35 {seeds(theirs, 'test1')} and {seeds(theirs, 'test2')}"


def knowledge() -> Iterator[str]:
    """French with vectors and other texts, against a softmax that has both."""
    ours, theirs = ([with_knowledge(f"vectors-other{way}", test, 3) for test in TESTS] for way in ("", "-softmax"))
    yield f"**One model at {' / '.join(ours)}**"
    mixed = [with_knowledge("these, LSTM 2 x 512 and 5-grams mixed", test, 3) for test in TESTS]
    yield f"**Three such mixtures, none with a seed of another: {' / '.join(mixed)}**"
    gains = [float(rival) - float(our) for our, rival in zip(ours, theirs, strict=True)]
    yield f"{' / '.join(theirs)},\n  so that {gains[0]:.2f} / {gains[1]:.2f} nats are what the features"


def rare_words() -> Iterator[str]:
    models = [run["models"]["LL-RNN, ψ = φ"] for run in read("rare-words.json")["runs"]]
    place, number, euros = ([one["ratios"][key] for one in models] for key in ("place", "number", "euros"))
    yield f"`37` is {min(place):,.0f} to {max(place):,.0f} times likelier than `grenoble`"
    prior = [one["background"]["37"] / one["background"]["grenoble"] for one in models]
    yield f"the background alone prefers it by {min(prior):.0f} to {max(prior):.0f}"
    yield f"`15` has {span(number)} times the mean probability of the seen numbers"
    yield f"`euros` is {min(euros):,.0f} to {max(euros):,.0f} times likelier after `37` than after `preposterous`"


def added_words() -> Iterator[str]:
    ways = read("added-words.json")["ways"]
    yield f"took {span([one['seconds'] for one in ways.values() if 'seconds' in one], 1)} s"
    gains = [-ways[way]["parts"]["added words"]["change"] for way in ("attributes", "count", "attributes and count")]
    yield "lower the loss on the words themselves by {:.1f} nats, counts by {:.1f}, both by {:.1f}".format(*gains)


def grammars() -> Iterator[str]:
    constraint = figures("constraint")
    yield f"{constraint['documents']} JSON documents ({constraint['tokens']:,} tokens)"
    written, regular = grammar("llguidance", "written"), grammar("outlines-core", "written")
    yield f"llguidance takes {written[0]:.2f} and {written[1]:.2f} times as long"
    yield f"outlines-core {regular[0]:.1f} and {regular[1]:.1f} times"
    first, new = ([f"{1 / value:.1f}" for value in grammar("llguidance", key)] for key in ("first", "new"))
    yield f"llguidance was {first[0]} and {first[1]} times as fast as we were"
    yield f"and {new[0]} and {new[1]} times after 20 documents"
    same = constraint["same tokens"]
    yield f"the same tokens as we do at all {same['llguidance']['equal']:,} steps"
    yield f"fewer tokens at {same['outlines-core']['steps'] - same['outlines-core']['equal']} steps"
    again = read("bench-constraint.json")["same tokens"]["llguidance"]
    yield f"still the same tokens at all {again['equal']:,} steps"
    assert all(one["equal"] == one["steps"] for one in (same["llguidance"], again))


def kenlm() -> Iterator[str]:
    estimation = read("bench-ngram.json")["estimation"]
    yield f"Estimation of a 5-gram on {estimation['words']:,} words"
    yield (
        f"{estimation['seconds']:.0f} s, {round(estimation['words_per_second'], -4):,.0f} words/s on one core. "
        f"The model takes {estimation['model_megabytes'] / 1000:.2f} GB."
    )
    peak = estimation["peak_megabytes"] / 1000
    yield f"it was {peak / 10:.2f} GB, which makes {peak:.1f} GB if it grows with the words"
    off = read("bench-ngram.json")["largest difference, log10"]
    yield f"{off['rows']:.1e} over whole rows, {off['text']:.1e} over the text".replace("e-0", "e-")


def conditions() -> Iterator[str]:
    means = [f"{parsed(system).removesuffix(' %')} ({name})" for system, name in PARSERS]
    yield f"means over the five datasets are {', '.join(means)}"
    yield f"one of another slot follows in {misplaced('copied'):.1f} % of the cases"
    yield f"all of the text; {misplaced('copied', 'unseen'):.1f} % for unseen values)"
    yield from frames()
    errors = {name: _errors(name) for name in ("copied", "softmax", "delexicalised")}
    yield f"`copied` makes {errors['copied']} error in the"
    yield f"the softmax makes {errors['softmax']:,} and the delexicalised model {errors['delexicalised']}"
    for part, text in (("test", "{} % with the table"), ("changed", "{} % with the changed one")):
        counts = [run["tests"][part]["right"]["all"] for run in read("knowledge-base.json")["expert"]]
        yield text.format(joined([100 * one["right"] / one["said"] for one in counts], 1))
    small = [read("small.json")[language]["best"][0] for language in ("turkish", "estonian")]
    yield f"{small[0]['symbols'] - 1:,} types; Estonian EWT: {small[1]['symbols'] - 1:,} types"
    yield f"({small[0]['classes']:,} and {small[1]['classes']:,} classes)"
    step = read("char-nlg.json")["step_cost"]["ratio_of_medians"]
    yield f"A training step takes {step:.2f} times as long with the automaton"


def frames() -> Iterator[str]:
    """What frames as features and as an input do to values in the wrong place, seed by seed."""
    tests = [one["tests"]["test"] for one in read("nlg-frames.json")["copied"]]
    shares = [100 * one["misplaced"] / one["announced"] for one in tests]
    yield f"{joined(shares, 1)} % of the test in the three seeds"
    yield f"slot errors {joined([100 * one['slot_error_rate'] for one in tests], 2)} %"
    yield f"BLEU {joined([one['bleu'] for one in tests], 1)}"
    yield f"{sum(one['misplaced_as_read'] for one in tests)} of them to a reader"


PARSERS = (("softmax", "a"), ("masked", "b"), ("grammar", "c"), ("primed", "d"))


def _errors(system: str) -> int:
    counts = [run["tests"]["test"]["slot_errors"] for run in read("nlg.json")[f"{system}-100"]]
    return sum(count[kind] for count in counts for kind in ("missing", "redundant", "wrong"))


def objectives() -> Iterator[str]:
    found = {file: figures("objectives", file) for file in RUNS}
    yield f"{found['bench.json']['start']:.3f} before training"
    drawn = ("importance", "contrastive")
    speeds = [
        [one["objectives"][name]["words per second"] / one["objectives"]["exact"]["words per second"] for name in drawn]
        for one in found.values()
    ]
    here, there = speeds
    assert f"{min(here):.1f}" == f"{max(here):.1f}"
    yield (
        f"a step is {here[0]:.1f} times as fast as the exact one on the Neoverse N1, {min(there):.1f} to "
        f"{max(there):.1f} times on the Xeon"
    )
    of = {name: one["log-perplexity"] for name, one in found["bench.json"]["objectives"].items()}
    gains = sorted(of["exact"] - of[name] for name in drawn)
    yield f"{gains[0]:.2f} to {gains[1]:.2f} nats better is one seed"
    compared = read("compare-french.json")["rows"]
    tree, plain = (statistics.fmean(compared[row]["test"]) for row in ("hierarchical softmax", "LSTM"))
    yield f"(French: {tree:.3f} nats, a plain LSTM softmax {plain:.3f})"


def performance() -> Iterator[str]:
    trained = read("steps-gpu.json")["expert trained to its end"]["rows"]
    tests = [statistics.fmean(row["tests"][test] for row in trained) for test in TESTS]
    yield "`expert` has {:.3f} / {:.3f} on the tests".format(*tests)
    first = read("steps-gpu.json")["heard once"]["first epoch, milliseconds a step"].values()
    yield "The first epoch is slower ({:.0f}, {:.0f} and {:.0f} ms a step".format(*first)
    for size, calls in read("profile.json")["calls"].items():
        yield f"{size}: {calls:,}"
    plain = {
        way: [figures("french")[way]["contenders"][name]["times ours"] for name in PLAIN]
        for way in ("continuous", "windows")
    }
    yield (
        "the plain torch models take {:.1f} and {:.1f} times as long on continuous text, ".format(*plain["continuous"])
        + "{:.1f} and {:.1f} in windows".format(*plain["windows"])
    )
    epoch = {
        (size, file): bench(f"an epoch, llrnn, {size} identities", file).ratio
        for size in ("500", "2,500")
        for file in RUNS
    }
    yield f"An epoch is {epoch['500', 'bench.json']:.2f} times faster than that of the fastest cutoffs here"
    yield f"and {epoch['500', 'bench-xeon.json']:.2f} times ({epoch['2,500', 'bench-xeon.json']:.2f}) on the Xeon"
    for file, text in (("bench-xeon.json", "better by {} nats"), ("bench-adaptive-gpu.json", "better by {} nats")):
        rows = [bench(f"log-perplexity at equal time, llrnn, {size} identities", file) for size in ("500", "2,500")]
        yield text.format(span([row.theirs - row.ours for row in rows]))
    cards = [bench(f"an epoch, llrnn, {size} identities", "bench-adaptive-gpu.json").ratio for size in ("500", "2,500")]
    yield f"where an epoch is {span(cards, 1)} times faster"
    processes = figures("parallel")
    yield f"{processes['ratio']:.2f} is the median of the rounds' ratios; by the work of a process"
    yield f"without waiting, it is {processes['ratio of work']:.2f}"
    yield from time_curve()


def time_curve() -> Iterator[str]:
    """Perplexity against the time of training on one core."""
    found = read("bench-curve.json")
    first = TimeCurve(found).leads_from() or math.inf
    said = ", ".join(f"{name} {value}" for name, value in after_seconds().items())
    yield f"After {found['seconds']:.0f} s: {said}."
    yield f"an LL-RNN is ahead at every time that was looked at, from the first, {first:.0f} s, on"


PLAIN = ("softmax", "softmax, linear_cross_entropy")
