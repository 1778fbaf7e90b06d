"""The least that each task of the benchmarks has to do: operations of its products, bytes that it reads and writes.

N positions, H numbers each; O outputs (G classes for ours, V words for a dense peer); R rows of weights (m features for
ours, V words); P weights in all. Numbers are float32. A step forward and backward makes three products: the scores,
the gradient of h, the gradient of W. Weights are read once, gradients are written once.
"""

from __future__ import annotations

from llrnn_lab.bench.rows import Count

_FLOAT = 4  # bytes
_FORWARD_AND_BACKWARD = 3  # products


def layer_step(outputs: int, rows: int, hidden: int, positions: int) -> Count:
    """3 · 2NOH operations; h, W and the bias are read and their gradients written: 2 · 4(NH + RH + R) bytes."""
    operations = _FORWARD_AND_BACKWARD * 2 * positions * outputs * hidden
    return Count(operations, 2 * _FLOAT * (positions * hidden + rows * hidden + rows))


def scoring(outputs: int, hidden: int, positions: int) -> Count:
    """2NOH operations; h, the weights and the biases of the outputs are read: 4(NH + OH + O) bytes."""
    return Count(2 * positions * outputs * hidden, _FLOAT * (positions * hidden + outputs * hidden + outputs))


def drawing(outputs: int) -> Count:
    """One weight of each output is read, added up and compared: 2O operations, 4O bytes."""
    return Count(2 * outputs, _FLOAT * outputs)


def opening(outputs: int, hidden: int, positions: int, megabytes: float) -> Count:
    """A sentence is scored by one layer of LSTM and the outputs, and all that is on disk is read."""
    body = 2 * positions * lstm_weights(hidden, hidden, 1)
    return Count(body + scoring(outputs, hidden, positions).operations, megabytes * 1e6)


def lstm_weights(inputs: int, hidden: int, layers: int) -> int:
    """4H(I + H) of each layer: the weights that a word is multiplied with."""
    return sum(4 * hidden * ((inputs if layer == 0 else hidden) + hidden) for layer in range(layers))


def training_step(body: int, outputs: int, hidden: int, weights: int, positions: int, states: int = 1) -> Count:
    """3 · 2N(body + OH) operations; 4P(5 + 2s) bytes with s numbers of the optimizer for each weight.

    A weight is read and its gradient written; then the optimizer reads both and its own numbers, and writes the weight
    and its numbers.
    """
    operations = _FORWARD_AND_BACKWARD * 2 * positions * (body + outputs * hidden)
    return Count(operations, _FLOAT * weights * (5 + 2 * states))


def gradients_added_up(weights: int) -> Count:
    """A process sends all of its gradients and takes in their sum: 2 · 4P bytes."""
    return Count(0, 2 * _FLOAT * weights)


def written_row(words: int) -> Count:
    """A number for every word: 4V bytes."""
    return Count(0, _FLOAT * words)


def added_row(words: int) -> Count:
    """A row of logits read, another written: 8V bytes, V operations."""
    return Count(words, 2 * _FLOAT * words)


def mask(words: int) -> Count:
    """A bit for every word."""
    return Count(0, -(-words // 8))
