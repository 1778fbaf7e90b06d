"""The LL-RNN: ψ → controller → log-linear layer.

    h_t = f(ψ_t, h_{t-1})               ψ_t = Σ_{f fires on x_t} E_f + v(C, x_1…x_t) U: words, and contextual inputs
    p_t(x) ∝ b(K, x) · exp(a(h_t)·φ(K, x))          or w_0(h_t) times that, and w_k(h_t) times what `mixed` parts say

A model is one vocabulary, one background, one set of input and of output features and one controller. `log_prob` scores
a batch by teacher forcing; `start` and `step` go symbol by symbol: the same numbers (a law of the tests).

`train()` and `eval()` switch dropout as everywhere in torch. In train mode `scan`, `log_prob` and `forward` draw it
from the `generator` that they are given, and without one from torch's global generator (`torch.manual_seed`); in eval
mode there is none. `step` never drops. A new model is in train mode, one that was loaded or trained by `llrnn.train` in
eval mode; whatever scores, generates or explains does it in eval mode, and leaves the model in the mode that it had.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from llrnn.ground.errors import ConfigError, InputError, NumericalError, VocabularyError, ZeroMassError, require_kind
from llrnn.ground.rendering import TextTable
from llrnn.knowledge.backgrounds.base import Background, Uniform
from llrnn.knowledge.contextual.base import ContextualFeature
from llrnn.knowledge.contextual.inputs import ContextualInput
from llrnn.knowledge.features import Features, compile_features
from llrnn.knowledge.process import Batch, ModelState, PackedStates, Process, State
from llrnn.layer import costs
from llrnn.layer.chunked import product
from llrnn.layer.distribution import Distribution
from llrnn.layer.loglinear import LogLinear
from llrnn.layer.matrix import FeatureMatrix, SparseMatrix, WeightCache, can_be_cached
from llrnn.layer.mixed import MixedDistribution
from llrnn.layer.priors import AnyValues, ContextValues, LinearValues, Prior, join
from llrnn.layer.weights import WeightChange
from llrnn.model.controllers import LSTM, Controller, Silent, initialise, mode_generator, uniform, untouched_init
from llrnn.model.saving import Persistent
from llrnn.text.encoded import TrainingSummary
from llrnn.text.tokenisers import Blanks, Tokeniser
from llrnn.text.tokenisers import restore as restore_tokeniser
from llrnn.text.vocabulary import Vocabulary

_WINDOW = 8  # words that decide how the next one is written
_HALF = "\ufffd"  # what stands for a character of which bytes are missing yet
_FEW = 4  # times as many classes as words in a batch: then their rows alone are composed


class FeatureEmbedding(nn.Module):
    """Module that embeds a word as the sum of the embeddings of its input features, word ids (…) -> (…, size).

    `features`: the `FeatureMatrix` Ψ; its rows are classes, sets of words with equal features, which have one
    embedding. The weight W (m, size) has a row for each of m features and is 0 at first.
    """

    class_of: Tensor

    def __init__(self, features: FeatureMatrix, size: int) -> None:
        super().__init__()
        self.psi = SparseMatrix(features)
        self.weight = nn.Parameter(torch.zeros(features.n_features, size))
        self.register_buffer("class_of", torch.from_numpy(features.class_of), persistent=False)
        self._table = WeightCache[Tensor]()  # Ψ W, while no gradient is needed

    def table(self) -> Tensor:
        """Return the embeddings Ψ W of all G classes of words, (G, size); cached while no gradient is needed.

        Ψ is the matrix of input features; a class is a set of words with equal features.
        """
        if self._caches:
            return self._table.get(partial(product, self.psi, self.weight), self.weight)
        self.clear_cache()
        return product(self.psi, self.weight)

    @property
    def _caches(self) -> bool:
        return can_be_cached(self.psi.n_classes * self.weight.shape[1], self.weight)

    def _composes_few(self, classes: Tensor) -> bool:
        """Return whether to compute embeddings of the given classes of words alone, and not of all classes.

        True if `classes` has at most a quarter as many entries as there are classes, is on a CPU, and embeddings of all
        classes cannot be cached now; False where each class has one feature of its own. `classes`: class indices of any
        shape; a class is a set of words with equal features.
        """
        few = _FEW * classes.numel() <= self.psi.n_classes and not self.psi.is_identity
        return few and classes.device.type == "cpu" and not self._caches

    def clear_cache(self) -> None:
        """Drop the cached embeddings of all words, so that the next call computes them anew.

        It is needed only after a write to the weights that torch does not count, as through `weight.data`.
        """
        self._table.clear()

    def forward(self, words: Tensor) -> Tensor:
        """Return the embeddings of words, ids (…) -> (…, size), differentiable."""
        classes = self.class_of[words]
        if self._composes_few(classes):
            used, at = torch.unique(classes, return_inverse=True)
            return F.embedding(at, self.psi.rows(self.weight, used))
        table = self.table()
        if table.is_cuda:  # the gradient of an embedding would sort the words first, which takes five times as long
            return table.index_select(0, classes.flatten()).view(*words.shape, -1)
        return F.embedding(classes, table)

    def few(self, words: Tensor) -> Tensor:
        """Return the embeddings of a few words, ids (B,) -> (B, size); cheaper than `forward` for a decoding step."""
        if self._caches:
            return self.table()[self.class_of[words]]
        return self.psi.rows(self.weight, self.class_of[words])


Followed = dict[object, tuple[Sequence[State], tuple[State, ...]]]  # by state_key: states at positions, and the last


class LLRNN(Persistent):
    """A log-linear recurrent language model over a vocabulary, log p(x | K) = log b(K, x) + a(h)·φ(K, x) − log Z(K).

    b is a prior over the next word x in context K, φ are features of words, a(h) their weights by a network. Calling it
    returns the loss of a batch; `log_prob` returns log p of the targets, `scan` the distributions, `step` the
    distribution of the next word. `llrnn.train` trains it, `save` and `llrnn.load` write and read it.

        model = LLRNN(vocabulary, output_features=features.Identity(), controller=LSTM(64))
        records = list(train(model, corpus, epochs=5))
    """

    def __init__(
        self,
        vocabulary: Vocabulary,
        *,
        output_features: Features | FeatureMatrix,
        input_features: Features | FeatureMatrix | None = None,
        background: Background | None = None,
        controller: Controller | None = None,
        contextual: Sequence[ContextualFeature] = (),
        contextual_inputs: Sequence[ContextualInput] = (),
        mixed: Sequence[Background] = (),
        tied: bool = False,
        word_dropout: float = 0.0,
        seed: int | None = 0,
    ) -> None:
        """Make an untrained model over a vocabulary from its features, its prior and its network.

        `output_features`: φ, of the words to predict; `input_features`: ψ, of the words read (by default the same);
        `background`: the prior b(K, x) over the next word, uniform by default; `controller`: the network that computes
        h, by default `LSTM()`; `contextual`: output features that depend on the text before; `contextual_inputs`:
        numbers that do, which the network reads beside the word; `mixed`: distributions p_k that are mixed in with
        weights w_k(h) by the network; `tied`: one weight matrix for ψ and φ; `word_dropout`: the share of input words
        whose embedding is set to 0 in training; `seed`: the seed of the initial weights, None skips initialisation. A
        controller that has weights already (trained, loaded, of a class of your own) keeps them. Raises ConfigError for
        names that clash, or sizes that do not fit.

            LLRNN(vocabulary, output_features=features.Identity(), controller=LSTM(64))
        """
        super().__init__()
        self.vocabulary, self.tied, self.word_dropout = vocabulary, tied, word_dropout
        output_features, input_features = _with_static(contextual, output_features, input_features, tied)
        self.output_features = _compiled(output_features, vocabulary)
        same = input_features is None or input_features is output_features
        self.input_features = self.output_features if same else _compiled(input_features, vocabulary)
        self.background: Background = (background or Uniform()).bind(vocabulary)
        self.contextual = tuple(
            one.bind(vocabulary).on(self.output_features).beside(self.background) for one in contextual
        )
        self.contextual_inputs = tuple(one.bind(vocabulary).beside(self.background) for one in contextual_inputs)
        self.mixed = tuple(one.bind(vocabulary) for one in mixed)
        if controller is not None:
            require_kind(controller, Controller, "from_module(...) makes one of a module of torch")
        self.controller = controller or LSTM()
        self.provenance: dict[str, Any] = {}  # how it came about: configuration, data
        self.training_summary: TrainingSummary | None = None  # what it was trained on
        self.embedding = FeatureEmbedding(self.input_features, self.controller.inputs)
        self.layer = LogLinear(self.output_features, self.controller.hidden, len(self.context_names), zero=True)
        self.input_weight: nn.Parameter | None = None  # U: 0 at first, as if there were no contextual inputs
        if self.contextual_inputs:
            shape = len(self.input_names), self.controller.inputs
            is_h = isinstance(self.controller, Silent)  # h is the numbers as they are, and U the identity
            self.input_weight = nn.Parameter(torch.eye(*shape) if is_h else torch.zeros(shape), requires_grad=not is_h)
        self.gate_weight: nn.Parameter | None = None  # U and u of the mixture's weights
        self.gate_bias: nn.Parameter | None = None
        if self.mixed:
            parts = 1 + len(self.mixed)
            self.gate_weight = nn.Parameter(torch.zeros(parts, self.controller.hidden))
            self.gate_bias = nn.Parameter(torch.zeros(parts))
        self._flat: list[LogLinear] = []  # made when it is needed, and no part of the weights
        self._check_names()
        self._initialise(seed)

    def _initialise(self, seed: int | None) -> None:
        if self.tied:
            same = self.input_features.names == self.output_features.names  # the values may differ: φ may be coarser
            if not same or self.controller.inputs != self.controller.hidden:
                raise ConfigError(
                    "tied weights need the same features on both sides and as many inputs as hidden units; found "
                    f"{self.input_features} and {self.output_features}, "
                    f"{self.controller.inputs} inputs and {self.controller.hidden} hidden units"
                )
            self.layer.weight = self.embedding.weight
        if seed is not None:
            drawn = {id(parameter) for parameter in untouched_init(self.controller)}
            given = {id(parameter) for parameter in self.controller.parameters()} - drawn | {id(self.input_weight)}
            initialise([(name, p) for name, p in self.named_parameters() if id(p) not in given], seed)
        context_independent = [one.context_independent for one in self.contextual for _ in one.names]
        with torch.no_grad():
            self.layer.context_weight[torch.tensor(context_independent, dtype=torch.bool)] = 0.0

    def _check_names(self) -> None:
        if not 0.0 <= self.word_dropout < 1.0:
            raise ConfigError(f"word_dropout must be at least 0 and below 1, found {self.word_dropout}")
        names = self.context_names
        clash = sorted({name for name in names if names.count(name) > 1} | ({*names} & {*self.output_features.names}))
        if clash:
            raise ConfigError(f"every feature needs a name of its own, but {clash[0]!r} is used twice")
        twice = [name for name, count in Counter(self.input_names).items() if count > 1]
        if twice:
            raise ConfigError(
                f"every number of a contextual input needs a name of its own, but {twice[0]!r} comes twice"
            )

    def __repr__(self) -> str:
        features = self.output_features
        sizes = f"{len(self.vocabulary.words):,} words in {features.n_classes:,} classes, {len(self.feature_names):,}"
        return f"LLRNN({sizes} features, background={self.background!r}, controller={self.controller!r})"

    def _repr_html_(self) -> str:
        """Return what a notebook shows of the model: a table of its sizes, knowledge, network and parameters."""
        features, groups = self.output_features, Counter(self.output_features.groups)
        rows = {
            "words": f"{len(self.vocabulary.words):,} in {features.n_classes:,} classes of equal features",
            "features": ", ".join(f"{count:,} {group}" for group, count in groups.items()),
            **{
                name: ", ".join(map(repr, getattr(self, name))) for name in ("contextual", "contextual_inputs", "mixed")
            },
            "domains": ", ".join(map(repr, self.vocabulary.domains)),
            "background": repr(self.background),
            "controller": repr(self.controller),
            "parameters": f"{sum(parameter.numel() for parameter in self.parameters()):,}",
        }
        told = tuple((name.replace("_", " "), said) for name, said in rows.items() if said)
        return TextTable(("LLRNN", ""), told, text_columns=2)._repr_html_()

    @property
    def device(self) -> torch.device:
        return self.layer.weight.device

    @property
    def reads_lowercase(self) -> bool:
        """Whether the model's training text was lowercased, by its configuration; texts given to it should be so."""
        return bool(self.corpus_settings.get("lowercase", False))

    @property
    def tokeniser(self) -> Tokeniser:
        """The tokeniser that cuts text into the model's words and joins words to text.

        It is the one saved with the model, or else `Blanks`, which cuts at white space.
        """
        saved, known = self.provenance.get("tokeniser"), self.__dict__.get("_tokeniser")
        if known is None or known[0] is not saved:
            known = self.__dict__["_tokeniser"] = (saved, restore_tokeniser(saved or {"kind": Blanks.kind}))
        made: Tokeniser = known[1]
        return made

    @property
    def cuts_text(self) -> bool:
        """Whether the model takes files of raw text, which its tokeniser cuts into words, as its training text was cut.

        False if it was trained on tokenised text: words then stand between blanks.
        """
        return self.corpus_settings.get("tokeniser") != "tokenised" and not isinstance(self.tokeniser, Blanks)

    @property
    def cut_by(self) -> str:
        """The kind of the model's saved tokeniser, such as "learnt"; "given" where text is only cut at white space."""
        kind = (self.provenance.get("tokeniser") or {"kind": Blanks.kind})["kind"]
        return "given" if kind == Blanks.kind else str(kind)

    def read(self, text: str | Sequence[str]) -> tuple[str, ...]:
        """Return the words of a text as the model reads them: cut by its tokeniser, and lowercased if its text is.

        A sequence of words is not cut again.

        model.read("L'homme dort.") # ("l'", "homme", "dort", ".")
        """
        words = self.tokeniser.tokenise(text) if isinstance(text, str) else text
        return tuple(map(self.tokeniser.lower, words) if self.reads_lowercase else words)

    def read_word(self, word: str) -> str:
        """Return one word as the model reads it: lowercased if its text is.

        Raises a VocabularyError where the vocabulary does not list it and the tokeniser cuts it into several.
        """
        if self.cuts(word):
            parts = self.read(word)
            raise VocabularyError(
                f"one word is required, found {word!r}, which this model reads as {len(parts)}: {' '.join(parts)}; "
                f"ask for {parts[-1]!r} after a text that ends in {' '.join(parts[:-1])!r}"
            )
        return self.read(word if self.tokeniser.has_blanks and word not in self.vocabulary else [word])[0]

    def cuts(self, word: str) -> bool:
        """Return whether the model's tokeniser cuts `word` into several words; False if its vocabulary lists it."""
        listed = self.vocabulary.find(self.read([word]))[0][0] in range(self.vocabulary.n_words)
        return not listed and len(self.read(word)) > 1

    def write(self, words: Sequence[str]) -> str:
        """Return words joined to text by the model's tokeniser; capitals are added if its text is lowercased."""
        return self.tokeniser.detokenise(self.tokeniser.capitalised(words) if self.reads_lowercase else words)

    def before(self, words: Sequence[str]) -> str:
        """Return words as the beginning of a heading that the next word goes on: with a blank after each, or as text.

        As text where words have their blanks within them, as the tokens of a language model have.
        """
        return self.write(words) if self.tokeniser.has_blanks else "".join(f"{word} " for word in words)

    def piece(self, words: Sequence[str]) -> str:
        """Return what the last of `words` adds to the text of those before it, as the model writes it, with its blank.

        " dort" for ["il", "dort"]; "." for ["il", "dort", "."] where the model writes no blank before a full stop.
        """
        before, whole = (self.write(words[-_WINDOW:end]).rstrip(_HALF) for end in (-1, None))
        return whole[len(before) :] if whole.startswith(before) else f" {words[-1]}"

    def written(self, words: Iterable[str]) -> dict[str, str]:
        """Return {token: what it adds to a text, with its blank} of tokens of a language model; {} of other words.

        {"ĠParis": " Paris"}
        """
        return {word: self.piece(("", word)) for word in words} if self.tokeniser.has_blanks else {}

    @property
    def processes(self) -> tuple[Process, ...]:
        """All parts of the model that depend on the text before, other than the network.

        In this order: the prior, contextual features, contextual inputs, and the distributions that are mixed in.
        """
        return (self.background, *self.contextual, *self.contextual_inputs, *self.mixed)

    @property
    def needs_conditions(self) -> bool:
        """Whether every sequence needs a condition (the input that a text is written from): some part must read one."""
        return self.controller.reads_conditions or any(process.needs_condition for process in self.processes)

    def start(self, conditions: Sequence[object] = (None,), *, generator: torch.Generator | None = None) -> ModelState:
        """Return the state of B sequences before any symbol, one for each condition; the first symbol to feed is EOS.

        A condition is the input that a text is written from, None for models without. `generator`: what dropout draws
        from, None for no dropout.

            p, state = model.step(model.start(), [model.vocabulary.id(EOS)])
        """
        begun, known = dict[object, tuple[State, ...]](), list[tuple[State, ...]]()
        for process in self.processes:
            key = process.state_key
            if key not in begun:
                begun[key] = tuple(map(process.initial, conditions))
            known.append(begun[key])
        return ModelState(self.controller.initial(conditions, generator=generator), tuple(known))

    def step(
        self, state: ModelState, words: Sequence[int], *, change: WeightChange | None = None
    ) -> tuple[Distribution, ModelState]:
        """Feed one word to each of B sequences; return the distributions of the next words (N = B), and the new state.

        `state`: the state of the B sequences, from `start` or the last step; `words`: B symbol ids; `change`: a
        `WeightChange` of the feature weights, for this call alone, None for no change. There is no dropout, even in
        train mode.
        """
        fed = torch.tensor(list(words), dtype=torch.long, device=self.device)
        one = fed[:, None]
        batch = Batch(one, one, torch.ones_like(one, dtype=torch.bool))
        psi, followed = self._joined(self.embedding.few(fed)[:, None], batch, state)
        h, controller = self.controller.step(psi[:, 0], state.controller)
        prior, values, mixed, known = self._follow(batch, state, followed)
        own = self.layer.distribution(h, prior, values, change=change)
        return self._with_mixed(own, h, mixed), ModelState(controller, known)

    def scan(
        self,
        batch: Batch,
        state: ModelState | None = None,
        *,
        generator: torch.Generator | None = None,
        change: WeightChange | None = None,
    ) -> tuple[Distribution, ModelState]:
        """Read a batch; return the distributions at its N unmasked positions, row by row, and the state after it.

        `state`: the state of the rows before the batch, None to begin afresh; `generator`: what dropout draws from in
        train mode, None for torch's global one; `change`: a `WeightChange` of the feature weights, for this call alone,
        None for none. Raises InputError for an empty batch.
        """
        if batch.inputs.dim() != 2 or not batch.inputs.shape[1]:
            raise InputError(
                f"a batch of rows of one symbol or more, (B, T), is required, found {tuple(batch.inputs.shape)}; leave "
                "empty batches out"
            )
        rows, generator = len(batch.inputs), mode_generator(self, generator, self.device)
        given = batch.conditions if batch.conditions is not None else [None] * rows
        state = state or self.start(given, generator=generator)
        psi, followed = self._joined(self._drop_words(self.embedding(batch.inputs), generator), batch, state)
        h, controller = self.controller.scan(psi, state.controller, generator=generator)
        prior, values, mixed, known = self._follow(batch, state, followed)
        h = batch.picked(h)
        own = self.layer.distribution(h, prior, values, change=change)
        return self._with_mixed(own, h, mixed), ModelState(controller, known)

    def precompute(self, batch: Batch, room: Callable[[int], int] = int) -> Batch:
        """Return a copy of the batch with the values of contextual inputs and features as tensors, for a fast step.

        It is for a model whose prior does not depend on the context, and for batches without masked positions. Rows
        begin afresh, from their conditions. The (position, word) pairs with contextual values of their own are listed,
        and the list is padded to the length `room(its length)`. Where it is then longer than a quarter of positions ×
        classes of words, the batch is returned as it came. The tensors are in `batch.precomputed`.
        """
        placed = batch if all(one.linear_in for one in self.contextual) else batch.to(self.device)
        given = batch.conditions if batch.conditions is not None else [None] * len(batch.inputs)
        followed: dict[object, Sequence[State]] = {}
        for process in (*self.contextual, *self.contextual_inputs):
            if process.state_key not in followed:
                followed[process.state_key] = process.follow([process.initial(one) for one in given], placed)[0]
        numbers = [one.numbers(followed[one.state_key]) for one in self.contextual_inputs]
        values: list[AnyValues] = [one.values(followed[one.state_key]) for one in self.contextual]
        slopes = [part.slope.flatten(1) for part in values if isinstance(part, LinearValues)]
        others = [part for part in values if isinstance(part, ContextValues)]
        exceptions, differences = self._exceptions(others, batch.n_positions, room) if others else (None, None)
        most = batch.n_positions * self.layer.classes.count // costs.MANY_WORDS
        if differences is not None and len(differences) > most:
            return batch
        like = self.layer.weight.dtype
        ahead = replace(
            batch.precomputed,
            numbers=torch.cat(numbers, 1).view(*batch.inputs.shape, -1).to(like) if numbers else None,
            slopes=torch.cat(slopes, 1).to(like) if slopes else None,
            exceptions=exceptions,
            differences=differences,
        )
        return replace(batch, precomputed=ahead)

    def _exceptions(self, values: Sequence[ContextValues], n: int, room: Callable[[int], int]) -> tuple[Tensor, Tensor]:
        """Return the (position, word) pairs that have contextual values of their own, (2, E), and these values, (E, k).

        From the values those that the features have on all other words at the position are subtracted. `values`: of
        each contextual feature; `n`: the number of positions; `room(E)`: the length to pad to, with pairs at position
        n, which does not exist.
        """
        like = self.layer.weight
        placed = [part.to(like.device, like.dtype) for part in values]
        known = placed[0] if len(placed) == 1 else join(self.background.prior([]).to(like.device), placed, n)
        differences = known.value - known.rest.expand(n, -1)[known.position]
        more = room(len(differences)) - len(differences)
        last = torch.tensor([[n], [0]], device=like.device).expand(2, more)  # at a position that is not there
        return torch.cat([torch.stack([known.position, known.word]), last], 1), F.pad(differences, (0, 0, 0, more))

    def _precomputed_values(self, batch: Batch) -> list[AnyValues]:
        """Return the values of the contextual features, in the order of `contextual`, from tensors in the batch.

        They are `batch.precomputed`, where `precompute` has put them: a `LinearValues` for a linear feature, else a
        `ContextValues` whose value on words in general is 0.
        """
        n, found, ahead = batch.n_positions, list[AnyValues](), batch.precomputed
        slopes, differences = ahead.slopes, ahead.differences
        shared = () if ahead.exceptions is None else ahead.exceptions.unbind()  # the same two tensors for all
        for one in self.contextual:
            k, J = len(one.names), len(one.linear_in)
            if J and slopes is not None:
                own, slopes = slopes[:, : k * J], slopes[:, k * J :]
                found.append(LinearValues(own.contiguous().view(n, k, J), one.linear_in, one.context_independent))
            elif differences is not None:
                own, differences = differences[:, :k], differences[:, k:]
                position, word = shared
                found.append(ContextValues(own.new_zeros(n, k), position, word, own, filled=True))
        return found

    def _with_mixed(self, own: Distribution, h: Tensor, mixed: Sequence[Prior]) -> Distribution:
        """Return the mixture of `own` and the priors `mixed`, weighted by the network; `own` where nothing is mixed in.

        `own`: the distributions at N positions; `mixed`: for each further distribution its prior there, which is
        normalised; `h` (N, H): hidden vectors, from which a softmax layer computes the mixture weights at each
        position.
        """
        if self.gate_weight is None:
            return own
        log_weights = torch.log_softmax(F.linear(h, self.gate_weight, self.gate_bias), -1)
        return MixedDistribution(
            own, [prior.to(h.device) for prior in mixed], log_weights, self._flat_layer().weights()
        )

    def _flat_layer(self) -> LogLinear:
        """Return a log-linear layer over the model's words whose scores are all 0, so that p is the prior; cached.

        It has no hidden units, needs no gradient, and is on the device of the model.
        """
        like = self.layer.weight
        if not self._flat or (self._flat[0].bias.device, self._flat[0].bias.dtype) != (like.device, like.dtype):
            made = LogLinear(self.output_features, 0, 0, zero=True).to(like.device, like.dtype).requires_grad_(False)
            self._flat[:] = [made]
        return self._flat[0]

    def forward(
        self,
        inputs: Batch | Tensor,
        targets: Tensor | None = None,
        *,
        generator: torch.Generator | None = None,
        ignore_index: int = -100,
    ) -> Tensor:
        """Return the loss, the mean of −log p over the targets, a scalar in nats, as training loops and DDP expect.

        `inputs` (B, T): symbol ids, the first of each row EOS; `targets` (B, T): the symbol that follows each of them;
        those equal to `ignore_index` are left out, as in `torch.nn.functional.cross_entropy`. Or one `Batch` without
        `targets`; in an open vocabulary its loss includes, as a constant, log p of unlisted strings given the symbol
        that stands for them. `generator`: what dropout draws from in train mode, None for torch's. No logits are
        returned: over V words they would cost more than all the rest. `log_prob` has log p of every target, `scan` the
        distributions.

            loss = model(inputs, targets)
            loss.backward()
        """
        return -self.log_prob(as_batch(inputs, targets, ignore_index), generator=generator).mean()

    def log_prob(
        self, batch: Batch, state: ModelState | None = None, *, generator: torch.Generator | None = None
    ) -> Tensor:
        """Return log p of every unmasked target of the batch, row by row, (N,), in nats.

        `state`: the state of the rows before the batch, None to begin afresh; `generator`: what dropout draws from in
        train mode, None for torch's global one. Raises ZeroMassError for a target that the prior forbids.

            model.eval().log_prob(batch).sum()
        """
        distribution, _ = self.scan(batch, state, generator=generator)
        return self.targets_log_prob(distribution, batch)

    def targets_log_prob(self, distribution: Distribution, batch: Batch) -> Tensor:
        """Return log p of a batch's N unmasked targets, (N,), in nats, under what `scan` returned for it.

        For an unlisted string it includes its log p given the symbol that stands for it. Raises ZeroMassError, with the
        word, for a target that the prior forbids; NumericalError where log p is not finite.
        """
        targets = batch.picked(batch.targets)
        log_p = distribution.log_prob(targets)
        if not torch.isfinite(log_p.detach()).all():
            self.refuse_zero_mass(distribution, targets)
            self._refuse_numbers(log_p.detach(), targets)
        return log_p if batch.inside is None else log_p + batch.picked(batch.inside)

    def refuse_zero_mass(self, distribution: Distribution, targets: Tensor) -> None:
        """Raise ZeroMassError, with the word, if some of the target ids (N,) has prior b = 0; the first such is named.

        `distribution`: that of the N positions.
        """
        zero = torch.nonzero(distribution.log_b(targets) == float("-inf")).view(-1)
        if len(zero):
            word = self.vocabulary.symbol(int(targets[zero[0]]))
            raise ZeroMassError(
                f"the background {self.background!r} gives the observed word {word!r} no mass, so its probability is 0 "
                "whatever the network does; smooth the background, or take the word out of the text"
            )

    def _refuse_numbers(self, log_p: Tensor, targets: Tensor) -> None:
        """Raise NumericalError that names the first of the target ids (N,) whose `log_p` (N,) is not finite.

        There must be such a target.
        """
        n = int(torch.nonzero(~torch.isfinite(log_p))[0])
        raise NumericalError(
            f"log p of {self.vocabulary.symbol(int(targets[n]))!r} must be a finite number, found {float(log_p[n])} at "
            f"position {n} of {len(targets)}: log b or a·φ there is NaN or too large; look for such values in the "
            "weights, the background and the contextual features"
        )

    def _drop_words(self, psi: Tensor, generator: torch.Generator | None) -> Tensor:
        """Return the embeddings (B, T, D) with those of random words zeroed, at the rate `word_dropout`.

        `generator`: what is drawn from; None drops nothing.
        """
        if generator is None or self.word_dropout == 0.0:
            return psi
        kept = uniform(*psi.shape[:2], generator=generator, device=psi.device) >= self.word_dropout
        return psi * kept.unsqueeze(-1)

    def input_numbers(self, batch: Batch, state: ModelState) -> tuple[Tensor, Followed]:
        """Return the numbers of all contextual inputs at every position, masked ones too, (B, T, k), and their states.

        The states are a dict {`state_key` of an input: (states after all B · T positions, row by row; a tuple of the
        last state of each row)}; inputs with equal keys share states. `state`: the state of the rows before the batch.
        k is the number of names in `input_names`, in that order.
        """
        followed: Followed = {}
        whole, found = batch.everywhere(), list[Tensor]()
        known = state.knowledge[1 + len(self.contextual) :]
        for one, states in zip(self.contextual_inputs, known[: len(self.contextual_inputs)], strict=True):
            if one.state_key not in followed:
                here, last = one.follow(states, whole)
                followed[one.state_key] = here, tuple(last)
            found.append(one.numbers(followed[one.state_key][0]))
        like = self.layer.weight
        v = torch.cat([numbers.to(like.device, like.dtype) for numbers in found], 1)
        return v.view(*batch.inputs.shape, -1), followed

    def _joined(self, psi: Tensor, batch: Batch, state: ModelState) -> tuple[Tensor, Followed]:
        """Return the network's input: words embedded, `psi`, plus projected contextual inputs, (B, T, D), and states.

        D is the input size of the network; `psi` (B, T, D). The states are those of the contextual inputs, as
        `input_numbers` returns them; {} where there are no contextual inputs, or the batch has their values already.
        `state`: the state of the rows before the batch.
        """
        if self.input_weight is None:
            return psi, {}
        if batch.precomputed.numbers is not None:
            return psi + batch.precomputed.numbers @ self.input_weight, {}
        v, followed = self.input_numbers(batch, state)
        return psi + v @ self.input_weight, followed

    def _follow(
        self, batch: Batch, state: ModelState, followed: Followed
    ) -> tuple[Prior, list[AnyValues], list[Prior], tuple[tuple[State, ...], ...]]:
        """Return prior, contextual feature values and `mixed` priors at the N unmasked positions, and the states after.

        The second result has the values of each of `contextual`, the third the prior of each of `mixed`. The states are
        those of `processes`, in their order, each a tuple with a state for each row; where the batch has precomputed
        values they are those before the batch. `state`: the state of the rows before the batch; `followed`: states that
        contextual inputs have computed already, as `input_numbers` returns them.
        """
        if batch.precomputed.has_knowledge:
            return self.background.prior([]), self._precomputed_values(batch), [], state.knowledge
        counting = {key: (_counting(here, batch), last) for key, (here, last) in followed.items()}
        known: Followed = {key: (here, last) for key, (here, last) in counting.items() if here is not None}
        inputs = {id(one) for one in self.contextual_inputs}
        keys = [process.state_key for process in self.processes]
        for process, key, states in zip(self.processes, keys, state.knowledge, strict=True):
            if id(process) not in inputs and key not in known:
                here, last = process.follow(states, batch)
                known[key] = here, tuple(last)
        values: list[AnyValues] = [feature.values(known[feature.state_key][0]) for feature in self.contextual]
        after = tuple((followed if key in followed else known)[key][1] for key in keys)
        mixed = [one.prior(known[one.state_key][0]) for one in self.mixed]
        return self.background.prior(known[keys[0]][0]), values, mixed, after


def require_model(given: object) -> None:
    """Raise InputError if `given` is no `LLRNN`, with advice on how to get one; else return None."""
    cure = "llrnn.load(folder) opens one; a model of transformers can be its background, backgrounds.HuggingFace"
    require_kind(given, LLRNN, cure)


def as_batch(inputs: Batch | Tensor, targets: Tensor | None, ignore_index: int) -> Batch:
    """Return inputs and targets (B, T), symbol ids, as a `Batch`; targets equal to `ignore_index` are masked.

    A `Batch` is returned as it is, and `targets` must then be None. Raises ConfigError for other shapes, or if no
    target is left.
    """
    if isinstance(inputs, Batch):
        if targets is not None:
            raise ConfigError("a Batch has its targets, found others beside it; give one of them")
        return inputs
    if targets is None or targets.shape != inputs.shape or inputs.dim() != 2:
        found = f"{tuple(inputs.shape)} and {'none' if targets is None else tuple(targets.shape)}"
        raise ConfigError(f"inputs and targets of one shape (B, T) are required, found {found}; or give one Batch")
    mask = targets != ignore_index
    if not bool(mask.any()):
        raise ConfigError(
            f"one target at least must count, found nothing but {ignore_index} among {targets.numel()}; leave such "
            "batches out"
        )
    return Batch(inputs, targets.masked_fill(~mask, 0), mask)


def _counting(states: Sequence[State], batch: Batch) -> Sequence[State] | None:
    """Return the states at the unmasked positions of a batch, row by row, from `states` at all its B · T positions.

    It returns None where `states` are packed in a form from which single ones cannot be taken; they must then be
    computed again.
    """
    if batch.read.counting is None:
        return states
    if isinstance(states, PackedStates):
        return states.taken(batch.read.counting)
    return [states[place] for place in batch.read.counting]


Given = Features | FeatureMatrix | None


def _with_static(contextual: Sequence[ContextualFeature], output: Any, inputs: Given, tied: bool) -> tuple[Any, Given]:
    """Return output and input features, with the static features added that linear contextual features are made of.

    `contextual`: all contextual features, of which those that are linear have a `static`. They are added to `inputs`,
    too, if weights are `tied`. The second result is None if inputs are to have the features of the first (`inputs`
    None, or the same object as `output`). A `FeatureMatrix` is returned as it is: only `Features` are added to.
    """
    same = inputs is None or inputs is output
    for feature in contextual:
        static = feature.static
        if static is not None and isinstance(output, Features):
            output = output + static
            inputs = inputs + static if tied and isinstance(inputs, Features) and not same else inputs
    return output, None if same else inputs


def _compiled(features: Features | FeatureMatrix | None, vocabulary: Vocabulary) -> FeatureMatrix:
    """Return features compiled to a matrix over the vocabulary; a `FeatureMatrix` is returned as it is.

    Raises ConfigError for None.
    """
    if features is None:
        raise ConfigError("output features are required")
    return features if isinstance(features, FeatureMatrix) else compile_features(features, vocabulary)
