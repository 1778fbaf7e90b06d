"""The demo's models from the command line: trained with progress, and written with their report."""

from __future__ import annotations

from pathlib import Path

from llrnn.cli import demonstration as demonstration
from llrnn.cli import show
from llrnn.cli.options import make_output_folder
from llrnn.cli.progress import StopFlag, follow


def train_demo(out: Path, *, sentences: int, epochs: int, seed: int) -> demonstration.Demo:
    """Train the demo's models and write the report and two of them to a folder."""
    make_output_folder(out)
    with StopFlag().listening() as stop:
        demo = demonstration.run(
            sentences=sentences,
            epochs=epochs,
            seed=seed,
            should_stop=stop,
            follow=lambda name, records: follow(records, name=name),
        )
    demonstration.write_report(demo, out, show.named_features)
    return demo
