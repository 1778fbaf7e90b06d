"""Tables of the studies, as docs/experiments.md and the guides show them, from the files of docs/results."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from operator import itemgetter
from typing import Any

from llrnn_lab.studies import added_words as added
from llrnn_lab.studies import compare as compared
from llrnn_lab.studies import frozen_adaptation as frozen
from llrnn_lab.studies import keystrokes, real_lists
from llrnn_lab.studies import open_vocabulary as opened
from llrnn_lab.studies import rescoring as rescored
from llrnn_lab.studies.tables import agreement_table, markdown, mean_and_spread, perplexity_table
from results import DATASETS, RESULTS, RUNS, figures, log_perplexities, log_perplexity, over_seeds, read

SHOWN = (
    *("table4", "experts", "ablations", "by_frequency", "agreement", "agreement_by_kind", "small"),
    *(
        "adaptation",
        "adaptation_rivals",
        "frozen_adaptation",
        "frozen_cost",
        "rescoring",
        "real_lists_dstc2",
        "compare_french",
        "compare_wikitext2",
        "distilled",
        "distilled_files",
        "open_vocabulary",
        "rare_words",
        "added_words",
    ),
    *(
        "nlg",
        "nlg_frames",
        "nlg_frame_trials",
        "nlg_rivals",
        "knowledge_base",
        "semantic_parsing",
        "char_nlg",
        "constraint",
        "constraint_cold",
        "kenlm",
        "objectives",
    ),
    *("campaign", "other_texts", "attack", "bodies", "french_knowledge", "french_trials", "open_classes", "steps_gpu"),
    *("open_more", "fewer_classes", "condensed"),
    *("template_pairs", "suite_pairs", "turkish_pairs", "agreement_coverage", "agreement_rules"),
    *("agreement_gains", "agreement_constructions", "agreement_phenomena", "agreement_estonian"),
    *("agreement_trials", "agreement_factors", "turkish_factors"),
    *(
        "analysers",
        "analysed_estonian",
        "typing",
        "little_text",
        "little_parts",
        "little_spelling",
        "little_recent",
        "little_study",
    ),
)
TESTS = ("test1", "test2")
SIZES = (10000, 5000, 3000, 2500, 2000, 1000, 500, 10)
IN_ORDER = (
    *("rnn.windows", "rnn.continuous", "rnn-bias"),
    *(f"llrnn-{size}.{way}" for way in ("windows", "continuous") for size in SIZES),
    "best",
)
COMPARED = {
    "rnn.continuous": "RNN, continuous",
    "rnn-bias": "RNN with unigram bias",
    "llrnn-2500.continuous": "LL-RNN (2500), continuous",
    "best": "best",
}


FEATURES = ("number", "gender")
KINDS = (
    *("verb-number", "verb-person", "adjective-number", "adjective-gender"),
    *("participle-number", "participle-gender"),
)


def best_in_bold(values: Sequence[float], digits: int) -> list[str]:
    """The smallest in bold."""
    return [f"**{value:.{digits}f}**" if value == min(values) else f"{value:.{digits}f}" for value in values]


# --- French ---------------------------------------------------------------------------------------------------------


def typing() -> str:
    return keystrokes.table(read("typing.json"))


def table4() -> str:
    """All models in the order of the page; the n-grams lie in the file of the experts, without training figures."""
    found = read("table4.json")
    (ngrams,) = (row for row in read("experts.json")["rows"] if row["name"] == "kneser-ney")
    values = [ngrams["valid"], *(ngrams["tests"][test] for test in TESTS)]
    last = ["kneser-ney, 5-gram", *["–"] * 4, *(f"{value:.3f}" for value in values)]
    return perplexity_table({name: found[name] for name in IN_ORDER}, TESTS) + f"| {' | '.join(last)} |\n"


def french_knowledge() -> str:
    """What others have already written down: models, mixtures, and the child of one."""
    best = read("table4.json")["best"]
    rows = [["best", "0", str(len(best)), *_means([one["valid"] for one in best], _tests_of(best))]]
    for one in read("french-knowledge.json")["rows"]:
        if one["kind"] != "trial":
            seeds = str(len(one["seeds"])) if "seeds" in one else "–"
            columns = _means(one["valid"], [one[test] for test in TESTS])
            rows.append([one["name"], f"{one['other_words']:,}", seeds, *columns])
    return markdown(["model", "words of other texts", "seeds", "valid", *TESTS], rows)


def french_trials() -> str:
    """By what the settings were chosen: seed 0, validation only."""
    trials = [one for one in read("french-knowledge.json")["rows"] if one["kind"] == "trial"]
    return markdown(["trial", "valid"], [[one["name"], f"{one['valid'][0]:.3f}"] for one in trials])


def _tests_of(runs: Sequence[Mapping[str, Any]]) -> list[list[float]]:
    return [[run["tests"][test]["log_perplexity"] for run in runs] for test in TESTS]


def _means(valid: Sequence[float], tests: Sequence[Sequence[float]]) -> list[str]:
    return [mean_and_spread(values) for values in (valid, *tests)]


def other_texts() -> str:
    """Other texts for the network, and how near the trigrams of each are to the validation text."""
    header = ("text", "sentences", "words", "valid, as it came", "valid, written as the corpus")
    rows = [
        [name, f"{row['sentences']:,}", f"{row['words']:,}", f"{row['valid, as it came']:.3f}", f"{row['valid']:.3f}"]
        for name, row in read("other-texts.json")["texts"].items()
    ]
    return markdown(header, rows)


def open_classes() -> str:
    """An open vocabulary with a third of its classes, in the way that validation chose; bits per character."""
    how = {"weights": "coarsened by weights", "text": "coarsened by weights and text", "trained": "trained with few"}
    rows = []
    for language in ("fr", "tr", "et"):
        if not (RESULTS / f"open-classes-{language}.json").exists():
            continue
        found = read(f"open-classes-{language}.json")
        models, chosen = found["models"], found["chosen"]
        seeds = [name.removeprefix("fine.") for name in models if name.startswith("fine.")]
        tests = list(models[f"fine.{seeds[0]}"]["tests"])
        symbols = f"{found['words']:,} + {found['cells']:,}"
        for way, classes in (("fine", found["classes"]), (chosen, found["coarsened"])):
            parts = [[models[f"{way}.{seed}"]["valid"] for seed in seeds]]
            parts += [[models[f"{way}.{seed}"]["tests"][test] for seed in seeds] for test in tests]
            bits = [statistics.fmean(one["bits_per_character"] for one in part) for part in parts]
            if way == "fine":
                fine, cells = bits, [f"{one:.4f}" for one in bits]
            else:
                cells = [f"{one:.4f} ({one / own - 1:+.2%})" for one, own in zip(bits, fine, strict=True)]
            label = how.get(way, "every class")
            cells += ["–"] * (3 - len(cells))
            rows.append([language, symbols, found["body"], f"{classes:,}", label, str(len(seeds)), *cells])
    return markdown(["", "words + cells", "LSTM", "classes", "how", "seeds", "valid", *TESTS], rows)


def steps_gpu() -> str:
    """Training steps on a GPU: before experts were heard ahead, heard ahead, and heard once; and with agreement."""
    found, best = read("steps-gpu.json")["found"], "configs/table4/best.toml"
    full = f'{best}@training.objective={{kind="exact", precision="full"}}'
    before = {full: found["half"][full]["seconds"]} | {name: one["seconds"] for name, one in found["experts"].items()}
    agreement = "configs/agreement/best.toml"
    rows = []
    for label, name, asked in (
        ("`best`, half precision", best, ""),
        ("`best`, float32", full, "2 or more"),
        ("`expert`: one 5-gram of the text", "configs/table4/expert.toml", "1.3"),
        ("`experts-more`: four n-grams, words that come again", "configs/table4/experts-more.toml", "2"),
        ("`best` with agreement (`configs/agreement`)", agreement, "1.5"),
    ):
        ahead, now = found["experts in graphs"].get(name), found["heard once"][name]
        cells = [f"{1e3 * one:.1f}" if one else "–" for one in (before.get(name), ahead and ahead["seconds"])]
        rows.append([label, *cells, f"{1e3 * now['seconds']:.1f}", f"{now['ratio']:.2f}", asked])
    return markdown(["", "ms, first", "heard ahead", "heard once", "against `best`", "asked for"], rows)


def fewer_classes() -> str:
    """The best French model with fewer classes, mean of three seeds: what it loses."""
    found = read("coarsening.json")["full"]
    fine = {name: statistics.fmean(found["fine"][name]) for name in ("valid", *TESTS)}
    rows = [["42,313", "every class", *(f"{value:.4f}" for value in fine.values())]]
    for classes, ways in found["coarsened"].items():
        trained = found["trained on, by learning rate"].get(classes, {})
        shown = {**ways, **{f"and {rate} as learning rate for some epochs": one for rate, one in trained.items()}}
        for how, one in shown.items():
            cells = [
                f"{statistics.fmean(one[name]) - value:+.4f}" if name in one else "–" for name, value in fine.items()
            ]
            rows.append([f"{int(classes):,}", how, *cells])
    return markdown(["classes", "how", "valid", *TESTS], rows)


def condensed() -> str:
    """The best French model with condensed features of rare words, mean of three seeds: what it loses."""
    found = read("coarsening.json")["full"]["condensed"]
    fine = {name: statistics.fmean(found["fine"][name]) for name in ("valid", *TESTS)}
    rows = [["1.0", "every feature", *(f"{value:.4f}" for value in fine.values())]]
    for made in found["condensed"].values():
        for how in ("as it is", "trained on"):
            lost = [f"{statistics.fmean(made[how][name]) - value:+.4f}" for name, value in fine.items()]
            rows.append([f"{statistics.fmean(made['fewer']):.1f}", how, *lost])
    return markdown(["times fewer multiplications", "how", "valid", *TESTS], rows)


def experts() -> str:
    about = {
        "expert": "Kneser-Ney 5-gram of the training text, cross-fitted",
        "experts": "2-gram and 5-gram of the training text, cross-fitted; repeated words",
        "experts-more": "as experts, and 3-grams of other texts: ten novels (1.4 million words), seven treebanks "
        "(0.3 million)",
    }
    rows = [["best", "none", *_french("best", "table4.json")]]
    rows += [[name, what, *_french(name, "experts.json")] for name, what in about.items()]
    return markdown(["model", "experts", "seeds", "valid", *TESTS], rows)


def _french(model: str, file: str) -> list[str]:
    found = read(file)
    runs = found[model] if file == "table4.json" else [row for row in found["rows"] if row["name"] == model]
    tests = [mean_and_spread(log_perplexities(model, test, file)) for test in TESTS]
    return [str(len(runs)), f"{over_seeds(runs, lambda run: run['valid']):.3f}", *tests]


def ablations() -> str:
    about = {
        "best-no-spelling": "without affixes, shape, numbers",
        "best-no-lexicon": "without the lexicon",
        "best-no-average": "without averaging",
        "best-untied": "untied",
        "best-no-dropout": "without dropout",
        "best-no-clusters": "without clusters",
        "best-lemmas": "with lemmas beside",
    }
    seeds, valid, *tests = _french("best", "table4.json")
    rows = [[f"**best** ({seeds} seeds)", valid, *(f"**{test}**" for test in tests), ""]]
    for name, what in about.items():
        gain = log_perplexity(name, "test1") - log_perplexity("best", "test1")
        gain = -gain if what.startswith("with ") else gain
        rows.append([what, *_french(name, "table4.json")[1:], f"{gain:.3f}".replace("-", "−")])
    return markdown(["model", "valid", *TESTS, "what the ingredient gives on test1"], rows)


def by_frequency() -> str:
    found = {name: read("table4.json")[name][0]["tests"]["test2"]["by_frequency"] for name in COMPARED}
    bands = [f"{band.replace('-', '–')} ({one['words']:,})" for band, one in found["best"].items()]
    bands[0] = bands[0].replace(")", " words)")
    rows = [
        [COMPARED[name], *(f"{band['log_perplexity']:.2f}" for band in bands_of.values())]
        for name, bands_of in found.items()
    ]
    return markdown(["", *bands], rows)


def agreement() -> str:
    return agreement_table({name: read("table4.json")[name] for name in COMPARED})


def agreement_by_kind() -> str:
    found = {name: read("table4.json")[name][0]["pairs"]["by_group"] for name in COMPARED}
    header = ["", *(f"{kind} ({found['best'][kind]['count']:,})" for kind in KINDS)]
    rows = [[COMPARED[name], *(f"{100 * one[kind]['accuracy']:.1f}" for kind in KINDS)] for name, one in found.items()]
    return markdown(header, rows)


def _cells(share: Mapping[str, Any]) -> list[str]:
    return [
        f"{100 * share['accuracy']:.1f} [{100 * share['low']:.1f}, {100 * share['high']:.1f}]",
        f"{share['count']:,}",
    ]


def template_pairs() -> str:
    """A small French model on constructed pairs: number and gender by construction."""
    groups = read("pairs.json")["french"]["templates"]["by_group"]
    names = list(dict.fromkeys(name.rpartition("-")[0] for name in groups))
    rows = [
        [name, *(f"{100 * groups[one]['accuracy']:.1f}" if (one := f"{name}-{f}") in groups else "" for f in FEATURES)]
        for name in names
    ]
    return markdown(["construction", *FEATURES], rows)


def suite_pairs() -> str:
    """The same model on other pairs: all, and by words between those that agree."""
    rows = []
    for name, found in read("pairs.json")["french"].items():
        bands = ", ".join(f"{band}: {100 * share['accuracy']:.1f}" for band, share in found["by_distance"].items())
        rows.append([name, *_cells(found["overall"]), f"{found['left_out']:,}", f"{found['ties']:,}", bands])
    return markdown(["pairs", "right", "scored", "left out", "ties", "by distance"], rows)


def turkish_pairs() -> str:
    """TurBLiMP without and with knowledge of agreement, and with clashes counted more: means of three seeds."""
    found, counted = read("agreement.json")["turkish"], "turblimp, clashes counted 12 times"
    columns = [(found["without"], "turblimp"), (found["with"], "turblimp"), (found["with"], counted)]

    def cells(of: Callable[[Any], float]) -> list[str]:
        return [mean_and_spread([100 * of(run[name]) for run in runs], 1) for runs, name in columns]

    groups = found["with"][0]["turblimp"]["by_group"]
    rows = [
        [name.replace("_", " "), *cells(partial(_of_group, name)), f"{own['count']:,}"] for name, own in groups.items()
    ]
    overall = found["with"][0]["turblimp"]["overall"]["count"]
    rows.append(["all", *cells(lambda scores: float(scores["overall"]["accuracy"])), f"{overall:,}"])
    valid = [(found["without"], "valid"), (found["with"], "valid"), (found["with"], "valid, clashes counted 12 times")]
    rows.append(["validation", *(mean_and_spread([run[name] for run in runs]) for runs, name in valid), ""])
    return markdown(["phenomenon", *BOTH, "clashes counted 12 times", "pairs"], rows)


def _of_group(name: str, scores: Any) -> float:
    share: float = scores["by_group"][name]["accuracy"]
    return share


def agreement_coverage() -> str:
    """What the rules of French decide without a network, on the half that was not looked at."""
    found = read("agreement.json")["coverage"]
    rows = [
        [band, f"{own['pairs']:,}", f"{found['before'][band]['right']:.1f}", *(f"{own[what]:.1f}" for what in DECIDED)]
        for band, own in found["now"].items()
    ]
    return markdown(["words between", "pairs", "right, before", "right, now", "undecided", "wrong"], rows)


def agreement_rules() -> str:
    """What the rules of French decide, and a small network with them, of templates, where it is no longer the same."""
    found = read("agreement.json")["constructions"]
    before, now = found["before"], found["now"]
    rows = [
        [name, *(f"{one[name][what]:.{digits}f}" for what, digits in _OF_RULES for one in (before, now))]
        for name in now
        if abs(now[name]["mean"] - before[name]["mean"]) >= 0.1 or now[name]["network"] != before[name]["network"]
    ]
    heads = ("rules right", "by how much", "network right")
    return markdown(["construction", *(f"{head}, {when}" for head in heads for when in ("before", "now"))], rows)


_OF_RULES = (("right", 1), ("mean", 2), ("network", 1))
DECIDED = ("right", "undecided", "wrong")
BOTH = ("without", "with")
AGREEING = ("01 past participle agreement", "02 verb inflection", "11 adjective agreement")  # of QFrBLiMP


def agreement_gains() -> str:
    """French without and with knowledge of agreement, three models: means of three seeds, and their spread."""
    found = read("agreement.json")
    columns = [
        (
            f"{called}, {what}" if what == "without" else "with, templates" if what == "templates" else what,
            found[name][what],
        )
        for name, called in (("french", "best"), ("french_vectors", "vectors"), ("french_other", "other texts"))
        for what in (*BOTH, "templates")
        if what in found[name]
    ]
    wanted: dict[str, Callable[[Any], float]] = {
        "log-perplexity, test1": lambda run: run["tests"]["test1"],
        "log-perplexity, test2": lambda run: run["tests"]["test2"],
        "templates, mean of 24 constructions": lambda run: _mean(one["mean_of_groups"] for one in run["templates"]),
        "treebanks": lambda run: run["treebanks"]["overall"]["accuracy"],
        **{
            f"gender at a distance, {band} words": partial(_accuracy, "gender_at_a_distance", "by_distance", band)
            for band in ("0-2", "3-6", "7+")
        },
        "QFrBLiMP, all": lambda run: run["qfrblimp"]["overall"]["accuracy"],
        "QFrBLiMP, agreement": lambda run: _together(run["qfrblimp"]["by_group"], AGREEING),
    }
    rows = []
    for name, value in wanted.items():
        scale, digits = (1, 3) if "perplexity" in name else (100, 1)
        rows.append([name, *(mean_and_spread([scale * value(run) for run in runs], digits) for _, runs in columns)])
    return markdown(["", *(name for name, _ in columns)], rows)


def _accuracy(suite: str, by: str, key: str, run: Any) -> float:
    share: float = run[suite][by][key]["accuracy"]
    return share


def _together(groups: Mapping[str, Any], names: Sequence[str]) -> float:
    """Over the pairs of several groups."""
    right = sum(groups[name]["accuracy"] * groups[name]["count"] for name in names)
    return float(right / sum(groups[name]["count"] for name in names))


def _mean(values: Iterable[float]) -> float:
    return statistics.fmean(values)


def agreement_constructions() -> str:
    """Constructed pairs, three seeds of models and three of pairs: means, and the lowest of the nine with it."""
    found = read("agreement.json")
    best, vectors = found["french"], found["french_vectors"]
    columns = {
        "`best`, without": best["without"],
        "without, templates": best["alone"],
        "with": best["with"],
        "`vectors`, with": vectors["with"],
        "with, templates": vectors["templates"],
    }
    rows = []
    for name in best["with"][0]["templates"][0]["by_group"]:
        cells = list[str]()
        for what, runs in columns.items():
            own = [100 * one["by_group"][name]["accuracy"] for run in runs for one in run["templates"]]
            cells.append(f"{_mean(own):.1f}" if "without" in what else f"{_mean(own):.1f} ({min(own):.1f})")
        rows.append([name, *cells])
    return markdown(["construction", *columns], rows)


def agreement_phenomena() -> str:
    """QFrBLiMP, means of three seeds: the model with other texts."""
    found = read("agreement.json")["french_other"]
    groups = found["with"][0]["qfrblimp"]["by_group"]
    rows = [
        [
            name[3:],
            *(
                f"{100 * _mean(run['qfrblimp']['by_group'][name]['accuracy'] for run in found[what]):.1f}"
                for what in BOTH
            ),
            f"{share['count']}",
        ]
        for name, share in groups.items()
    ]
    return markdown(["phenomenon", *BOTH, "pairs scored"], rows)


BETWEEN = ("0-2", "3-6", "7+")  # words


def agreement_trials() -> str:
    """Ways to make the network follow the rules, after few epochs: means of the seeds."""
    rows = []
    for name, own in read("agreement.json")["trials"]["runs"].items():
        gender = [100 * _mean(run["gender"][factor]["7+"] for run in own) for factor in ("1", "1.5")]
        groups = [run["templates"]["by_group"] for run in own]
        lowest, relatives = (
            100 * _mean(found)
            for found in (
                [min(one.values()) for one in groups],
                [one["across-object-relative-number"] for one in groups],
            )
        )
        templates = [100 * _mean(run["templates"]["mean"] for run in own), lowest, relatives]
        valid = _mean(run["valid_by_epoch"][3] for run in own)
        rows.append([name, f"{len(own)}", f"{valid:.3f}", *(f"{one:.1f}" for one in (*gender, *templates))])
    heads = (
        "seeds",
        "validation, 4 epochs",
        "7+ words",
        "7+, counted 1.5 times",
        "templates",
        "lowest",
        "object relatives",
    )
    return markdown(["", *heads], rows)


def agreement_factors() -> str:
    """What it costs to count agreement more than the text asks for: means of three seeds."""
    found, rows = read("agreement.json")["factors"], []
    for factor in ("1", "1.25", "1.5", "2"):
        cells = list[str]()
        for own in (found["best"], found["vectors"]):
            texts = [_mean(run["tests"][factor][test] for run in own) for test in TESTS]
            cells += [f"{one:.3f}" for one in (_mean(run["valid"][factor] for run in own), *texts)]
            known = all(factor in run["gender"] for run in own)
            cells += [
                f"{100 * _mean(run['gender'][factor][band] for run in own):.1f}" if known else "" for band in BETWEEN
            ]
        rows.append([factor, *cells])
    heads = ("validation", *TESTS, *BETWEEN)
    return markdown(["counted", *(f"{name}, {head}" for name in ("best", "vectors") for head in heads)], rows)


def turkish_factors() -> str:
    """The same of Turkish, one seed: own pairs and those of TurBLiMP."""
    found, rows = read("agreement.json")["turkish_factors"], []
    for name, own in found.items():
        for factor in own["valid"] if name != "command" else ():
            right = [_cells(own[what][factor])[0] if factor in own[what] else "" for what in ("own", "subjects")]
            rows.append([name, factor, f"{own['valid'][factor]:.3f}", *right])
    return markdown(["weights", "counted", "validation", "own pairs", "subjects and verbs"], rows)


def agreement_estonian() -> str:
    """A treebank of Estonian: pairs of its tests, by kind, and perplexities."""
    found = read("agreement.json")["estonian"]
    groups = found["with"][0]["pairs"]["by_group"]
    wanted: dict[str, Callable[[Any], float]] = {
        f"pairs, all {found['with'][0]['pairs']['overall']['count']}": lambda run: run["pairs"]["overall"]["accuracy"],
        **{
            f"{name} ({share['count']})": partial(_accuracy, "pairs", "by_group", name)
            for name, share in groups.items()
        },
        "log-perplexity, test1": lambda run: run["tests"]["test1"],
        "log-perplexity, test2": lambda run: run["tests"]["test2"],
    }
    rows = []
    for name, value in wanted.items():
        scale, digits = (1, 3) if "perplexity" in name else (100, 1)
        rows.append([name, *(mean_and_spread([scale * value(run) for run in found[what]], digits) for what in BOTH)])
    return markdown(["", *BOTH], rows)


def small() -> str:
    rows = []
    for language, found in read("small.json").items():
        both = {"RNN with unigram bias": found["rnn-bias"][0], "LL-RNN": found["best"][0]}
        values = {
            name: [one["valid"], *(one["tests"][test]["log_perplexity"] for test in TESTS)]
            for name, one in both.items()
        }
        for name, one in both.items():
            pairs = one["pairs"]["overall"]
            share = f"{100 * pairs['accuracy']:.1f} % of {pairs['count']:,}"
            rows.append([language.capitalize(), name, *(f"{value:.3f}" for value in values[name]), share])
        gains = [f"{theirs - ours:.3f}" for theirs, ours in zip(*values.values(), strict=True)]
        rows.append([language.capitalize(), "difference", *gains, ""])
    return markdown(["language", "model", "valid", *TESTS, "agreement"], rows)


def analysers() -> str:
    """Turkish with and without an analyser: means over seeds, and what each gains over the softmax."""
    named = {
        "rnn-bias": "RNN with unigram bias",
        "rnn-bias, word dropout": "the same, word dropout 0.5",
        "best": "LL-RNN, two layers",
        "readings": "LL-RNN, two layers, readings of zeyrek",
        "best, one layer": "LL-RNN, one layer",
        "readings, one layer": "LL-RNN, one layer, readings of zeyrek",
        "readings, one layer, expert": "the same, a trigram as expert",
    }
    found = read("analysers.json")["turkish"]
    values = {
        name: [
            [run["valid"] for run in found[name]],
            *([run["tests"][test]["log_perplexity"] for run in found[name]] for test in TESTS),
        ]
        for name in named
    }
    theirs = [statistics.fmean(runs) for runs in values["rnn-bias"]]
    rows = []
    for name, told in named.items():
        gains = [their - statistics.fmean(runs) for their, runs in zip(theirs[1:], values[name][1:], strict=True)]
        shown = ["", ""] if name.startswith("rnn") else [f"{gain:.3f}" for gain in gains]
        rows.append([told, *map(mean_and_spread, values[name]), *shown])
    return markdown(["Turkish, three seeds", "valid", *TESTS, *(f"gain, {test}" for test in TESTS)], rows)


def analysed_estonian() -> str:
    """Estonian with the forms and attributes of an analyser, bits per character on test1."""
    again = ", words come again"
    named = {"llrnn": "LL-RNN, forms and attributes of vabamorf", "softmax": OPEN["softmax"]}
    named |= {name + again: told + again for name, told in named.items()}
    found = read("analysers.json")["estonian"]
    bands = found["llrnn"][0]["test1"]["by_band"]
    rows = []
    for name, told in named.items():
        runs = [run for run in found[name] if "test1" in run]
        parts = [
            [run["valid"] for run in runs],
            [run["test1"] for run in runs],
            *([run["test1"]["by_band"][band] for run in runs] for band in BANDS),
        ]
        bits = (f"{statistics.fmean(one['bits_per_character'] for one in part):.3f}" for part in parts)
        rows.append([told, str(len(runs)), f"{runs[0]['parameters']:,}", *bits])
    header = ["et, test1", "seeds", "parameters", "valid", "test", *(f"{b} ({bands[b]['words']:,})" for b in BANDS)]
    return markdown(header, rows)


# --- adaptation, rescoring, open vocabulary --------------------------------------------------------------------------


def frozen_adaptation() -> str:
    return frozen.table(read("frozen-adaptation.json"))


def frozen_cost() -> str:
    """What an LM costs as background, against the LM alone."""
    rows = [
        [
            *(f"{one['layers']} layers of {one['width']}, {one['tokens']:,} tokens; {one['body']}", what),
            *(f"{one[what]['lm_ms']:.0f}", f"{one[what]['ours_ms']:.0f}", f"{one[what]['ratio']:.2f}"),
        ]
        for one in read("frozen-adaptation.json")["timing"]
        for what in ("scoring", "training", "generation")
    ]
    return markdown(["language model", "task", "LM alone, ms", "ours, ms", "ratio"], rows)


def adaptation(*sizes: str) -> str:
    systems = ("base", "domain", "interpolation", "fine-tuning", "adaptor")
    runs = [run for run in read("adaptation.json") if not sizes or str(run["size"]) in sizes]
    rows = [[f"{run['size']:,}", *best_in_bold([run[name]["test"] for name in systems], 3)] for run in runs]
    warned = [
        f"The file warns of {name} at {run['size']:,} words: {problem}.\n"
        for run in runs
        for name in systems
        for problem in run[name].get("problems", ())
    ]
    return "\n".join([markdown(["words of the domain", *systems], rows), *warned])


def adaptation_rivals() -> str:
    """Rivals that have the n-grams, too: means of three seeds, by novel."""
    runs = read("adaptation-rivals.json")
    systems = ("interpolation", "fine-tuning", "fine-tuning, n-grams", "LoRA", "LoRA, n-grams", "adaptor")
    rows = []
    for novel in dict.fromkeys(run["novel"] for run in runs):
        own = [run for run in runs if run["novel"] == novel]
        rows.append([novel, *(mean_and_spread([run[name]["test"] for run in own]) for name in systems)])
    return markdown(["novel", *systems], rows)


def rescoring() -> str:
    return rescored.table(read("rescoring.json"))


def real_lists_dstc2() -> str:
    return real_lists.table(read("dstc2.json"))


def compare_french() -> str:
    return compared.table(read("compare-french.json"))


def compare_wikitext2() -> str:
    return compared.table(read("compare-wikitext2.json"))


def distilled() -> str:
    return _distilled(read("distilled.json")["seeds"])


def distilled_files() -> str:
    return _distilled([read("distilled-files.json")["rows"]])


def gain_kept(rows: dict[str, Any], name: str, test: str) -> float:
    """The share of the network's gain over Kneser-Ney."""
    own, low, high = (rows[one]["nats"][test] for one in (name, "network", "KN5"))
    return float((high - own) / (high - low))


def _distilled(seeds: list[dict[str, Any]]) -> str:
    """Nats, and what share of the network's gain over Kneser-Ney n-grams keep; the mean of the seeds."""
    made = []
    for name in seeds[0]:
        rows = [one[name] for one in seeds]
        words = f"{statistics.fmean(row['words'] for row in rows):,.0f}" if "words" in rows[0] else ""
        ngrams = f"{statistics.fmean(sum(row['ngrams']) for row in rows):,.0f}" if "ngrams" in rows[0] else ""
        nats = [mean_and_spread([row["nats"][part] for row in rows]) for part in ("valid", *TESTS)]
        kept = (mean_and_spread([100 * gain_kept(one, name, test) for one in seeds], 1) for test in TESTS)
        made.append([name, words, ngrams, *nats, " / ".join(f"{share} %" for share in kept)])
    return markdown(["model", "words written", "n-grams", "valid", *TESTS, "gain kept"], made)


OPEN = {
    "llrnn": "LL-RNN, domains",
    "softmax": "softmax, UNK + spelling",
    "characters": "character LSTM",
    "bpe": "BPE LSTM",
}
BANDS = ("unseen", "1-5", "6-50", "more")


def open_vocabulary(language: str, test: str) -> str:
    """Bits per character by band; the last row is ours against the best other."""
    return _open_table(read("open-vocabulary.json")[language]["systems"], f"{language}, {test}", test)


def open_more(test: str) -> str:
    """The same where every system has other texts and vectors, French."""
    return _open_table(read("open-vocabulary-more.json")["systems"], f"fr, {test}", test)


def _open_table(systems: Mapping[str, Any], label: str, test: str) -> str:
    bits = {name: _bits(systems[name], test) for name in OPEN}
    bands = systems["llrnn"]["tests"][test]["by_band"]
    header = [label, "parameters", "valid", "test", *(f"{b} ({bands[b]['words']:,})" for b in BANDS)]
    rows = [[OPEN[name], f"{systems[name]['parameters']:,}", *(f"{b:.3f}" for b in bits[name])] for name in OPEN]
    ours, *others = (values[1:] for values in bits.values())
    gains = [f"{100 * (our / min(their) - 1):.1f} %" for our, *their in zip(ours, *others, strict=True)]
    return markdown(header, [*rows, ["*against the best other*", "", "", *gains]])


def _bits(system: Mapping[str, Any], test: str) -> list[float]:
    found = system["tests"][test]
    parts = [system["tries"][system["chosen"]]["valid"], found, *(found["by_band"][band] for band in BANDS)]
    return [part["bits_per_character"] for part in parts]


def little_study(language: str) -> str:
    """Little text, tests: means over seeds; against the best other as it is, and against one that has a cache, too."""
    systems = read("open-vocabulary-little.json")[language]["systems"]
    named = OPEN | {"llrnn": "LL-RNN, words come again", "softmax-recent": f"{OPEN['softmax']}, words come again"}
    bits = {name: _mean_bits(systems[name]) for name in named}
    bands = systems["llrnn"]["tests"]["test1"]["by_band"]
    header = [f"{language}, test1", "parameters", "valid", "test", *(f"{b} ({bands[b]['words']:,})" for b in BANDS)]
    rows = [[named[name], f"{systems[name]['parameters']:,}", *(f"{b:.3f}" for b in bits[name])] for name in named]
    ours, *others, cached = bits.values()
    for told, rivals in (("against the best other", others), ("with words that come again, too", [*others, cached])):
        gains = [f"{100 * (our / min(their) - 1):.1f} %" for our, *their in zip(ours, *rivals, strict=True)]
        rows.append([f"*{told}*", "", *gains])
    return markdown(header, rows)


def _mean_bits(system: Mapping[str, Any]) -> list[float]:
    valid, test = opened.over_seeds(system, "test1")
    return [part["bits_per_character"] for part in (valid, test, *(test["by_band"][band] for band in BANDS))]


def little_text(language: str) -> str:
    """Bits per character of the validation text by band: models of little text, one seed."""
    found = [one for one in read("little-text.json")["models"] if one["language"] == language]
    bands = found[0]["valid"]["by_band"]
    header = [f"{language}, validation", "all", *(f"{b} ({bands[b]['words']:,})" for b in BANDS)]
    rows = []
    for one in found:
        parts = [one["valid"], *(one["valid"]["by_band"][band] for band in BANDS)]
        rows.append([one["model"], *(f"{part['bits_per_character']:.3f}" for part in parts)])
    return markdown(header, rows)


def little_parts() -> str:
    """Bits a word of what a model says: new or not, which word or cell, which letters."""
    rows = []
    first, *others = BANDS
    for model, bands in read("little-text.json")["parts"].items():
        for band in (first, *(["unseen, again"] if "unseen, again" in bands else []), *others):
            named = ("new or listed", "which of these", "letters")
            rows.append([model, f"{band} ({bands[band]['words']:,})", *(f"{bands[band][part]:.2f}" for part in named)])
    return markdown(["et-20k, validation", "words", "new or listed", "which of these", "letters"], rows)


def little_spelling() -> str:
    """Bits per character of unseen words by spelling alone."""
    found = read("little-text.json")["spelling"]
    rows = [[name, *(f"{one[name]:.3f}" for one in found.values())] for name in next(iter(found.values()))]
    return markdown(["unseen words, by their letters alone", *found], rows)


def little_recent() -> str:
    """Bits per character without a network, by what is known of the text before."""
    found = read("little-text.json")["recent"]
    rows = [[name, *(f"{one[name]:.3f}" for one in found.values())] for name in next(iter(found.values()))]
    return markdown(["a unigram that spells new words", *found], rows)


def rare_words() -> str:
    asked = ("37", "15", "grenoble")
    rows = [
        [name, *(f"{one['p'][word]:.2g}" for word in asked), *(f"{p:.2g}" for p in one["euros"].values())]
        for name, one in read("rare-words.json")["runs"][0]["models"].items()
    ]
    after = [f"p(euros \\| {word})" for word in ("37", "preposterous")]
    return markdown(["model", *(f"p({word})" for word in asked), *after], rows)


def added_words() -> str:
    return "\n".join(line for line in added.report(read("added-words.json")).splitlines() if line.startswith("|"))


# --- conditions, tables, grammars ------------------------------------------------------------------------------------


def nlg() -> str:
    """Means over seeds; of each share of the text, the best of each column in bold."""
    rows: list[list[str]] = []
    for share in ("100", "20", "5"):
        found = {name: _nlg(read("nlg.json")[f"{name}-{share}"]) for name in NLG}
        best = found["copied"]
        for name, cells in found.items():
            bold = [
                f"**{cell}**" if name == "copied" and cell == b else cell for cell, b in zip(cells, best, strict=True)
            ]
            rows.append([f"{share} %", name, *bold])
    parts = [
        f"slot errors, {part}" if n == 0 else n for part in ("test", "unseen") for n in (0, "BLEU", "log-perplexity")
    ]
    return markdown(["text", "system", *map(str, parts)], rows)


NLG = ("softmax", "delexicalised", "features", "primed", "copied")


def _nlg(runs: list[dict[str, Any]]) -> list[str]:
    cells = []
    for part in ("test", "unseen"):
        tests = [run["tests"][part] for run in runs]
        cells.append(f"{100 * over_seeds(tests, lambda one: one['slot_error_rate']):.2f} %")
        cells.append(f"{over_seeds(tests, lambda one: one['bleu']):.1f}")
        known = [one["log_perplexity"] for one in tests if one["log_perplexity"] is not None]
        cells.append(f"{statistics.fmean(known):.3f}" if known else "–")
    return cells


def nlg_frames() -> str:
    """Values in another slot's frame, sums and means over seeds; without frames, and with them."""
    found = {"as in the table above": read("nlg.json")["copied-100"], "with frames": read("nlg-frames.json")["copied"]}
    header = ["copied", "seeds", *(f"{what}, {part}" for part in ("test", "unseen") for what in NLG_FRAMES)]
    rows = [
        [name, str(len(runs)), *(cell for part in ("test", "unseen") for cell in _placed(runs, part))]
        for name, runs in found.items()
    ]
    return markdown(header, rows)


NLG_FRAMES = ("in another slot's frame", "slot errors", "BLEU")


def _placed(runs: Sequence[Mapping[str, Any]], part: str) -> list[str]:
    tests = [run["tests"][part] for run in runs]
    misplaced, announced = (sum(one[key] for one in tests) for key in ("misplaced", "announced"))
    rate, score = (over_seeds(tests, itemgetter(key)) for key in ("slot_error_rate", "bleu"))
    return [f"{misplaced} of {announced} ({100 * misplaced / announced:.1f} %)", f"{100 * rate:.2f} %", f"{score:.1f}"]


def nlg_frame_trials() -> str:
    """What was tried with seed 0, on the validation acts and on those with names and numbers that nobody has seen."""
    rows = []
    for name, tests in read("nlg-frames.json")["trials"].items():
        cells = [name, f"{tests['valid']['log_perplexity']:.3f}"]
        for part in ("valid", "valid-unseen"):
            one = tests[part]
            errors = sum(one["slot_errors"][kind] for kind in ("missing", "redundant", "wrong"))
            cells += [f"{one['misplaced']} of {one['announced']}", str(errors), f"{one['bleu']:.1f}"]
        rows.append(cells)
    parts = [f"{what}, {part}" for part in ("valid", "unseen") for what in (NLG_FRAMES[0], "errors", "BLEU")]
    return markdown(["copied", "log-perplexity", *parts], rows)


def nlg_rivals() -> str:
    """By the measure of the corpus's authors: placeholders missing or there once too often, test."""
    rows = []
    for name, runs in (
        ("delexicalised", read("nlg-rivals.json")["delexicalised-100"]),
        ("copied, with frames", read("nlg-frames.json")["copied"]),
    ):
        plain, chosen = ([run[key]["test"] for run in runs] for key in ("tests", "reranked"))
        rows.append([f"{name}, the best of a beam of 5", str(len(runs)), *_by_authors(plain)])
        rows.append([f"{name}, of twenty the one with the fewest errors", str(len(runs)), *_by_authors(chosen)])
    rows += [[f"{name} (Wen et al. 2015), of twenty", "", f"{rate:.2f} %", "–"] for name, rate in PUBLISHED.items()]
    return markdown(["system", "seeds", "slot errors by the authors' measure", "BLEU"], rows)


PUBLISHED = {"enc-dec": 2.78, "hlstm": 0.74, "sclstm": 0.38}


def _by_authors(tests: Sequence[Mapping[str, Any]]) -> list[str]:
    rate = 100 * statistics.fmean(one["placeholder_error_rate"] for one in tests)
    return [f"{rate:.2f} %", f"{statistics.fmean(one['bleu'] for one in tests):.1f}"]


def knowledge_base() -> str:
    rows = []
    for name, consults in (("softmax", "nothing; {}"), ("reader", "rows in its condition; {}"), ("expert", "{}")):
        for part, what in (("test", "the table"), ("changed", "the changed table")):
            tests = [run["tests"][part] for run in read("knowledge-base.json")[name]]
            shares = [_right(tests, column) for column in COLUMNS]
            rows.append([name, consults.format(what), *shares, f"{over_seeds(tests, lambda one: one['bleu']):.1f}"])
    return markdown(["system", "consults, and is judged by", *COLUMNS.values(), "BLEU"], rows)


COLUMNS = {
    "all": "all",
    "phone": "phone",
    "address": "address",
    "postcode": "postcode",
    "pricerange": "price range",
    "area": "area",
}


def _right(tests: Sequence[Mapping[str, Any]], column: str) -> str:
    right, said = (sum(one["right"][column][key] for one in tests) for key in ("right", "said"))
    return f"{100 * right / said:.1f} % of {said}"


def semantic_parsing() -> str:
    """Exact match on the test, and of the softmax the share of well-formed output."""
    found = read("semantic-parsing.json")
    rows = [
        [f"{share} %", system, *(_parsed(found.get(f"{data}-{system}-{share}"), system) for data in DATASETS)]
        for share in ("20", "50", "100")
        for system in ("softmax", "masked", "strict", "grammar", "state", "primed")
        if any(f"{data}-{system}-{share}" in found for data in DATASETS)
    ]
    names = {"primed": "primed", "typed": "primed, typed", "softmax": "softmax", "masked": "masked"}
    for system, name in names.items():
        cell = _parsed(found[f"geo-{system}-all"], system)
        rows.append(["train + dev, for longer", name, cell, *[""] * (len(DATASETS) - 1)])
    return markdown(["text", "system", *DATASETS], rows)


def _parsed(runs: list[dict[str, Any]] | None, system: str) -> str:
    if runs is None:
        return "not run"
    exact = [100 * run["tests"]["test"]["exact"] for run in runs]
    cell = f"{statistics.fmean(exact):.1f}" + (f" ± {statistics.stdev(exact):.1f}" if len(exact) > 1 else "")
    if system == "softmax":
        cell += f" ({100 * over_seeds(runs, lambda run: run['tests']['test']['well_formed']):.0f})"
    return cell + {1: ", one seed", 2: ", two seeds"}.get(len(runs), "")


def char_nlg() -> str:
    rows = []
    for part, what in (("test", "test"), ("unseen", "unseen names and numbers")):
        for system, runs in read("char-nlg.json")["systems"].items():
            tests = [run["tests"][part] for run in runs]
            shares = [100 * one["non_word_share"] for one in tests]
            cells = [
                mean_and_spread(shares) if any(shares) else "0",
                mean_and_spread([100 * one["slot_error_rate"] for one in tests], 2),
                mean_and_spread([one["bleu"] for one in tests], 1),
                f"{over_seeds(tests, lambda one: one['log_perplexity']):.4f}",
            ]
            rows.append([what, system, *cells])
    return markdown(["text", "system", "non-words, %", "slot errors, %", "BLEU", "log-perplexity of a character"], rows)


# --- benchmarks that docs/experiments.md and docs/objectives.md show -------------------------------------------------


def constraint() -> str:
    """Microseconds of the engines in both runs."""
    of = {
        "warm": "warm, in the engine's own form (log b of all tokens; a mask of bits)",
        "warm, in strings": "warm, within strings",
        "warm, elsewhere": "warm, elsewhere",
        "written": "warm, added to a float32 row of logits",
        "advance": "the step after a token",
    }
    found = {name: figures("constraint", file)["engines"] for file, name in RUNS.items()}
    engines = ("llrnn", "llguidance", "outlines-core")
    rows = [
        [what, *(_microseconds(one[engine][key]) for one in found.values() for engine in engines)]
        for key, what in of.items()
    ]
    for key, what in (("first", "right after building"), ("new", "after 20 others")):
        means = [f"{one[engine][key]['mean_us']:.0f}" for one in found.values() for engine in engines]
        rows.append([f"documents never seen, {what}, mean", *means])
    seconds = [f"{one[engine]['build_seconds']:.1f} s" for one in found.values() for engine in engines]
    rows.append(["building", *seconds])
    return markdown(["", *(f"{engine}, {name}" for name in found for engine in engines)], rows)


def constraint_cold() -> str:
    """Documents never seen, in rounds with engines built anew."""
    found = read("bench-constraint.json")
    engines, ratio = found["engines"], found["ratio"]["llguidance"]
    after = {"first": "right after building", "new": f"after {found['documents'] // 2} others"}
    rows = []
    for key, what in after.items():
        for own, shown in ((key, what), (f"{key}, with the step", f"{what}, and the step after the token")):
            means = [f"{engines[engine][own]['mean_us']:.0f}" for engine in ("llrnn", "llguidance")]
            rows.append([shown, *means, f"{ratio[own]:.2f}"])
    return markdown(["documents never seen", "llrnn", "llguidance", "llguidance's time by ours"], rows)


def _microseconds(one: Mapping[str, float]) -> str:
    median, tail = one["median_us"], one["p90_us"]
    return f"{median:.{0 if median >= 10 else 1}f} ({tail:,.{0 if tail >= 10 else 1}f})"


def kenlm() -> str:
    runs = {"Xeon, one core, a run of its own": read("bench-ngram.json")}
    runs |= {f"{name}, as a part of `llrnn bench`": figures("ngram", file) for file, name in RUNS.items()}
    rows = []
    for what, key, ours in (
        ("a whole next-word distribution, V = 20,000", "rows", "rows"),
        ("one word of running text", "text", "text"),
        ("the same, KenLM's sums of sentences", "sentences", "text"),
    ):
        for name, run in runs.items():
            if key not in run["ratio"]:
                continue
            older = ours == "text" and "sentences" not in run["ratio"]
            seconds, ratio = run["seconds_each"], run["ratio"][key]
            times = [
                f"{1e6 * seconds[side]:,.{0 if side == 'kenlm rows' else 1}f} µs" for side in (ours, f"kenlm {key}")
            ]
            name = f"{name}, before n-grams were hashed" if older else name
            rows.append([what, name, *times, f"{ratio:.0f}" if ratio > 100 else f"{ratio:.2f}"])
    return markdown(["", "machine", "llrnn", "KenLM", "KenLM's time by ours"], rows)


def objectives() -> str:
    names = {
        "exact": "exact",
        "importance": "importance, 256 samples",
        "contrastive": "contrastive, 256 samples",
        "factored, frequency": "class-factored, 100 bins by frequency",
        "factored, clusters": "class-factored, 64 clusters",
    }
    found = {file: figures("objectives", file)["objectives"] for file in RUNS}
    fewer = read("bench-objectives-32.json")["objectives"]
    rows = []
    for name, shown in names.items():
        one = found["bench.json"][name]
        fewer_drawn = f"{fewer[name]['log-perplexity']:.3f}" if name in ("importance", "contrastive") else ""
        speeds = [f"{of[name]['words per second']:,.0f}" for of in found.values()]
        gap = f"{one['log Z']:.2f} ± {one['deviation']:.2f}" if "log Z" in one else ""
        rows.append([shown, f"{one['log-perplexity']:.3f}", fewer_drawn, *speeds, gap])
    speeds = [f"words/s, {name}" for name in RUNS.values()]
    return markdown(
        ["objective", "log-perplexity", "with 32 samples", *speeds, "log Z − log B after the last epoch"], rows
    )


def campaign() -> str:
    """The parts of the fault campaign: how many cases, and what was found."""
    found = read("campaign.json")
    rows = [
        [name, f"{part['cases']:,}", f"{part['findings']:,}", f"{part['scale']:g}", part["commit"]]
        for name, part in found["parts"].items()
    ]
    return markdown([f"part (seed {found['seed']})", "cases", "findings", "scale", "commit"], rows)


def bodies() -> str:
    """Bodies of the best French model: perplexity on an H200, speed in training (llrnn bench bodies)."""
    found, speed = read("bodies.json"), read("bench-bodies.json")
    rows = []
    for row in found["rows"]:
        body = row.get("body", row["name"])
        times = [where[which].get(body) for where in (speed, speed["h200"]) for which in ("alone", "model")]
        rows.append(
            [
                row["name"],
                f"{row['parameters'] / 1e6:.1f} M" if row["parameters"] else "–",
                str(row["epochs"]),
                *(f"{row[part]:.3f}" if part in row else "–" for part in ("valid", "test1", "test2")),
                *(f"{one['words_per_second']:,.0f} ({one['times the first']:.2f} ×)" if one else "–" for one in times),
            ]
        )
    speeds = [f"{where}: {what}" for where in ("one core", "H200") for what in ("body alone", "with a small layer")]
    return markdown(["body", "parameters", "epochs", "valid", "test1", "test2", *speeds], rows)


OTHERS = ("user of the model", "user of the other model", "health")


def attack() -> str:
    """How long others wait while eight clients send the worst requests of a kind (scripts/attack.py)."""
    rows = [[one["attack"], *(f"{one[who]['p99_ms']:,.0f} ms" for who in OTHERS)] for one in read("attack.json")]
    return markdown(["attack", "p99 of another user of the model", "of a user of the other model", "of health"], rows)
