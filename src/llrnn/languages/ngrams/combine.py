"""n-gram models made of others: mixed, pruned by relative entropy, or projected from exact distributions.

All of them choose which n-grams are listed and with what probability; what back-off weights then have to be follows:

    backoff(c) = (1 − Σ_{x listed} p(x | c)) / (1 − Σ_{x listed} p(x | suffix of c))            `normalised`

mixture     p(x | c) = Σ_i λ_i p_i(x | c) where any model lists c x (SRILM's -mix-lm)
pruning     n-grams leave where that changes the model least (Stolcke 1998): with p' without the words R of a context c,

    D(p ‖ p') = p(c) { Σ_{x∈R} p(x|c) log(p(x|c) / p'(x|c)) + log(backoff(c) / backoff'(c)) Σ_{y not listed} p(y|c) }
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from llrnn.ground.arrays import Bools, Floats, Ints
from llrnn.ground.errors import BackgroundError, ConfigError, quoted
from llrnn.languages.ngrams.table import Level, NGramTable, backed_off, renumbered, written_out

_LEAST = 1e-12  # mass that rounding may leave where nothing is left
_NO_MASS = -99.0 * np.log(10.0)


def normalised(table: NGramTable) -> NGramTable:
    """Return the model with back-off weights recomputed so that p sums to 1 in every context; listed p do not change.

    The weight of a context is (1 − Σ p of its listed words) / (1 − Σ p of these words in the context without its first
    word); 1 for a context that lists no n-gram. p of unigrams must sum to 1 already.

        write_arpa(normalised(pruned), "small.arpa")
    """
    levels = [replace(table.levels[0], log_backoff=np.zeros(len(table.words)))]
    for n, level in enumerate(table.levels[1:], 2):
        below = replace(table, levels=tuple(levels))
        history = below.history(n - 1)[level.context]
        lower = backed_off(below, history[:, 1:], level.word)
        weights = _backoffs(level.context, level.log_prob, lower, len(levels[-1]))
        levels[-1] = replace(levels[-1], log_backoff=weights)
        levels.append(replace(level, log_backoff=np.zeros(len(level))))
    return replace(table, levels=tuple(levels))


def _backoffs(context: Ints, log_prob: Floats, lower: Floats, n_contexts: int) -> Floats:
    """Return the log back-off weight of each context, (n_contexts,): log of (1 − Σ p) / (1 − Σ lower-order p).

    The sums are over the words that the context lists. 0 where it lists nothing; log 10^-99 where one of the two
    differences is less than 1e-12.

    context     (m,) the context of each listed n-gram, by index, 0 to n_contexts - 1
    log_prob    (m,) log p of its last word in that context
    lower       (m,) log p of its last word in the context without its first word
    """
    listed = np.bincount(context, weights=np.exp(log_prob), minlength=n_contexts)
    covered = np.bincount(context, weights=np.exp(lower), minlength=n_contexts)
    left, open_below = 1.0 - listed, 1.0 - covered
    found = np.full(n_contexts, _NO_MASS)  # all of the mass is listed
    some = (left > _LEAST) & (open_below > _LEAST)
    found[some] = np.log(left[some]) - np.log(open_below[some])
    return np.where(np.bincount(context, minlength=n_contexts) == 0, 0.0, np.minimum(found, -_NO_MASS))


def interpolated(
    tables: Sequence[NGramTable], weights: Sequence[float], *, names: Sequence[str] | None = None
) -> NGramTable:
    """Return one back-off n-gram model that approximates the mixture Σ λ_i p_i of models over the same words.

    tables      two models or more
    weights     λ, one for each model, above 0, with sum 1, else a ConfigError
    names       what to call the models in errors; None: model 1, model 2, …

    Where any model lists an n-gram, the probability is that of the mixture; elsewhere it is backed off, with weights
    such that p sums to 1. Words are numbered as in the first model. A BackgroundError if the models do not have the
    same words.

        interpolated([read_arpa("news.arpa"), read_arpa("talk.arpa")], [0.7, 0.3])
    """
    names = names or [f"model {n}" for n in range(1, len(tables) + 1)]
    if len(tables) < 2 or len(weights) != len(tables):
        raise ConfigError(f"two models or more and a weight for each are required, found {len(tables)}, {len(weights)}")
    if not all(0 < weight < 1 for weight in weights) or abs(sum(weights) - 1.0) > 1e-6:
        raise ConfigError(f"weights must be above 0 and sum to 1, found {', '.join(f'{w:g}' for w in weights)}")
    first = written_out(tables[0])
    parts = [
        first,
        *(_over_words_of(first, names[0], written_out(t), n) for t, n in zip(tables[1:], names[1:], strict=True)),
    ]
    V, log_weights = len(first.words), np.log(np.asarray(weights) / np.sum(weights))
    levels, places = list[Level](), [np.zeros(1, dtype=np.int64) for _ in parts]  # where contexts are in the new levels
    for n in range(1, max(part.order for part in parts) + 1):
        own = [part.levels[n - 1] if n <= part.order else None for part in parts]
        keys = [
            np.zeros(0, np.int64) if one is None else place[one.context] * V + one.word
            for one, place in zip(own, places, strict=True)
        ]
        union = np.unique(np.concatenate(keys))
        places = [np.searchsorted(union, key) for key in keys]
        context, word = union // V, union % V
        below = NGramTable(first.words, tuple(levels)).history(n - 1)[context] if levels else context[:, None][:, :0]
        mixed = np.logaddexp.reduce(
            [log_weight + backed_off(part, below, word) for log_weight, part in zip(log_weights, parts, strict=True)]
        )
        levels.append(Level(context, word, mixed, np.zeros(len(union))))
    return normalised(NGramTable(first.words, tuple(levels)))


def _over_words_of(first: NGramTable, name: str, table: NGramTable, other: str) -> NGramTable:
    """Return `table` with its words numbered as in `first`; a word that only one of them has is a BackgroundError.

    `table` must have no shared words (`NGramTable.shared`); probabilities do not change.

    name, other     what to call `first` and `table` in the error
    """
    for here, its, there, others in ((first, name, table, other), (table, other, first, name)):
        more = [word for word in there.words if word not in here.index]
        if more:
            raise BackgroundError(
                f"models over the same words are required, but {others} lists {len(more):,} that {its} does not, such "
                f"as {quoted(more[0])}; estimate both with one list: llrnn ngram estimate --words FILE"
            )
    number = np.array([first.index[word] for word in table.words])
    unigrams = replace(table.levels[0].selected(np.argsort(number)), word=np.arange(len(number)))
    return NGramTable(first.words, (unigrams, *renumbered(table, number, np.zeros(len(number)))))


def pruned(table: NGramTable, threshold: float) -> NGramTable:
    """Return the model pruned by relative entropy (after Stolcke 1998): without n-grams that change it least.

    Only n-grams of order 2 and more are pruned.

    table       the model
    threshold   largest cost of a pruned n-gram, in nats a word, such as 1e-8

    Orders are pruned from the highest down; contexts of remaining n-grams stay. The n-grams pruned from one context
    cost together at most `threshold` times their number (Stolcke considers each alone). The cost is the relative
    entropy D(p ‖ p') of the model before and after. Back-off weights are recomputed so that p sums to 1. A ConfigError
    if `threshold` is not above 0.

        pruned(read_arpa("corpus.arpa"), 1e-8)
    """
    if not threshold > 0:
        raise ConfigError(f"a threshold above 0 is required, such as 1e-8, found {threshold}")
    table = normalised(written_out(table))
    for n in range(table.order, 1, -1):
        needed = np.zeros(len(table.levels[n - 1]), dtype=bool)
        if n < table.order:
            needed[table.levels[n].context] = True
        table = _keeping(table, n, ~_cheapest(table, n, ~needed, threshold))
    return normalised(table)


def _cheapest(table: NGramTable, n: int, may_leave: Bools, threshold: float) -> Bools:
    """Return which n-grams of order n to prune, (n-grams,), bool: in each context those that cost least.

    may_leave   (n-grams,) which of them may be pruned at all
    threshold   in nats a word

    In each context they are taken by rising cost (relative entropy of the model before and after), as long as the joint
    cost of those taken is at most `threshold` times their number.
    """
    level, below = table.levels[n - 1], table.levels[n - 2]
    history = table.history(n - 1)[level.context]
    lower = backed_off(replace(table, levels=table.levels[: n - 1]), history[:, 1:], level.word)
    p, q = np.exp(level.log_prob), np.exp(lower)
    left = np.maximum(1.0 - np.bincount(level.context, p, len(below)), _LEAST)[level.context]
    free = np.maximum(1.0 - np.bincount(level.context, q, len(below)), _LEAST)[level.context]
    joint, surprise = np.exp(_log_joint(table, history)), p * (level.log_prob - lower)

    def cost(leaving: Floats, its_lower: Floats, its_surprise: Floats) -> Floats:
        """Return D(p ‖ p') when n-grams with these sums of p, lower-order p and p · log ratio leave a context."""
        rise = np.log((left + leaving) / (free + its_lower))  # log of the new back-off weight
        found: Floats = joint * (its_surprise - leaving * rise + left * (np.log(left / free) - rise))
        return found

    alone = np.where(may_leave, cost(p, q, surprise), np.inf)
    order = np.lexsort((alone, level.context))
    begins = np.searchsorted(level.context, level.context)  # where the n-grams of each context begin
    sums = [np.cumsum(np.where(may_leave, column, 0.0)[order]) for column in (p, q, surprise)]
    within = [total - np.append(0.0, total)[begins] for total in sums]  # begins: the same in both orders
    place = np.arange(len(order)) - begins + 1
    left, free, joint = left[order], free[order], joint[order]
    fits = (cost(*within) <= place * threshold) & np.isfinite(alone[order])
    failed = np.cumsum(~fits)
    leaves = failed - np.append(0, failed)[begins] == 0  # none before it fails
    found = np.zeros(len(order), dtype=bool)
    found[order] = leaves
    return found


def _log_joint(table: NGramTable, history: Ints) -> Floats:
    """Return the log-probability of each of m word sequences of length k by the chain rule, (m, k) -> (m,).

    The first word has its unigram probability, each other one that after the words before it; zeros if k is 0.

    history     (m, k) word numbers, the first word first; EOS may be the first, for the beginning of a sentence
    """
    total = np.zeros(len(history))
    for k in range(history.shape[1]):
        total += backed_off(table, history[:, :k], history[:, k])
    return total


def _keeping(table: NGramTable, n: int, keep: Bools) -> NGramTable:
    """Return the model with only those n-grams of order n where `keep`, (n-grams,), is True; other orders stay.

    None that is dropped may be the context of a longer n-gram. Back-off weights are not recomputed.
    """
    levels, kept = list(table.levels), np.flatnonzero(keep)
    place = np.full(len(keep), -1)
    place[kept] = np.arange(len(kept))
    levels[n - 1] = levels[n - 1].selected(kept)
    if n < table.order:
        levels[n] = replace(levels[n], context=place[levels[n].context])
    return replace(table, levels=tuple(levels))
