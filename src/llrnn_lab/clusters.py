"""Word clusters from plain text: words that keep the same company get features in common.

    M[w, c] = max(0, log p(w, c) / p(w)·p(c))        c: a neighbour at a given offset
    M ≈ U S Vᵀ                                       rows of U √S, made unit length, are clustered by k-means

Clusters of several sizes give each word coarse and fine classes. Estimate them on other text than the corpus: clusters
of the training text would mark the training words, and words that only the test has would lack them.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np
import torch
from torch import Tensor

from llrnn.ground.errors import LexiconError
from llrnn.text.lexicon import Lexicon

_TOKEN = re.compile(r"\w+'|\w+(?:-\w+)*|[^\w\s]")


def tokenise(line: str, *, lowercase: bool = True) -> list[str]:
    """Words, elided words with their apostrophe (`l'`), and signs; lowercased."""
    return _TOKEN.findall((line.lower() if lowercase else line).replace("’", "'"))


def cluster_words(
    lines: Iterable[Sequence[str]],
    *,
    sizes: Sequence[int] = (64, 256, 1024),
    min_count: int = 5,
    contexts: int = 4000,
    window: int = 2,
    dimensions: int = 100,
    seed: int = 0,
) -> Lexicon:
    """A lexicon with an attribute `Cluster64:17`, `Cluster256:3`, ... for words seen at least `min_count` times."""
    sentences = [list(line) for line in lines]
    counts = Counter(word for sentence in sentences for word in sentence)
    words = [word for word, count in counts.most_common() if count >= min_count]
    if len(words) < max(sizes):
        raise LexiconError(
            f"{max(sizes)} clusters need at least as many words seen {min_count} times, found {len(words)}: "
            "give more text, or ask for fewer clusters"
        )
    vectors = _vectors(sentences, words, min(contexts, len(words)), window, dimensions, seed)
    found: dict[str, set[str]] = {word: set() for word in words}
    for size in sizes:
        for word, cluster in zip(words, _k_means(vectors, size, seed).tolist(), strict=True):
            found[word].add(f"Cluster{size}:{cluster}")
    return Lexicon.from_mapping(found)


def _vectors(
    sentences: Sequence[Sequence[str]], words: Sequence[str], contexts: int, window: int, dimensions: int, seed: int
) -> Tensor:
    """One unit vector for each word."""
    ids = {word: index for index, word in enumerate(words)}
    stream = np.array([ids.get(word, -1) for sentence in sentences for word in (*sentence, "")], dtype=np.int64)
    offsets = [offset for offset in range(-window, window + 1) if offset]
    blocks = [_ppmi(_co_occurrence(stream, offset, len(words), contexts)) for offset in offsets]
    torch_seed = torch.random.get_rng_state()
    try:
        torch.manual_seed(seed)  # svd_lowrank takes no generator
        U, S, _ = torch.svd_lowrank(torch.cat(blocks, 1), q=dimensions, niter=4)
    finally:
        torch.random.set_rng_state(torch_seed)
    return torch.nn.functional.normalize(U * S.sqrt(), dim=1)


def _co_occurrence(stream: np.ndarray, offset: int, n_words: int, n_contexts: int) -> Tensor:
    """How often each of the frequent words stands at this offset from each word, (W, C)."""
    centre = stream[max(0, -offset) : len(stream) - max(0, offset)]
    neighbour = stream[max(0, offset) : len(stream) + min(0, offset)]
    kept = (centre >= 0) & (neighbour >= 0) & (neighbour < n_contexts)
    flat = np.bincount(centre[kept] * n_contexts + neighbour[kept], minlength=n_words * n_contexts)
    return torch.from_numpy(flat.astype(np.float32)).view(n_words, n_contexts)


def _ppmi(counts: Tensor) -> Tensor:
    # context frequencies are raised to 0.75, which keeps rare neighbours from dominating
    smoothed = counts.sum(0).pow(0.75)
    expected = counts.sum(1, keepdim=True) * (smoothed / smoothed.sum())
    return torch.where(counts > 0, (counts / expected.clamp(min=1e-9)).log(), 0.0).clamp(min=0.0)


def _k_means(vectors: Tensor, size: int, seed: int, rounds: int = 25) -> Tensor:
    """Spherical k-means from distinct random words; an empty cluster takes the word that fits worst."""
    generator = torch.Generator().manual_seed(seed)
    centres = vectors[torch.randperm(len(vectors), generator=generator)[:size]]
    nearest = torch.zeros(len(vectors), dtype=torch.long)
    for _ in range(rounds):
        similarity = vectors @ centres.t()
        best, nearest = similarity.max(1)
        sums = torch.zeros(size, vectors.shape[1]).index_add(0, nearest, vectors)
        empty = torch.bincount(nearest, minlength=size) == 0
        if empty.any():
            sums[empty] = vectors[best.argsort()[: int(empty.sum())]]
        centres = torch.nn.functional.normalize(sums, dim=1)
    return nearest
