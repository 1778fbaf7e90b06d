"""The verbs `llrnn bench`, `compare`, `experiment` and `pairs`."""

from llrnn_lab.cli.bench import bench_app
from llrnn_lab.cli.experiment import experiment_app

__all__ = ["bench_app", "experiment_app"]
