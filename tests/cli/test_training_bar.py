"""What a training says of itself where no terminal is: in a log."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from llrnn.cli import options


@pytest.mark.parametrize("quiet", [False, True])
def test_a_log_has_a_line_every_fifteen_seconds(
    quiet: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    clock = [0.0]
    monkeypatch.setattr(options, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    bar = options.TrainingBar(quiet=quiet, epochs=3)
    for batch in range(1, 41):
        clock[0] += 2.0
        bar.step(0, batch, 40)
    lines = capsys.readouterr().err.splitlines()
    if quiet:
        assert lines == []
        return
    assert [line.split(";")[0] for line in lines] == [
        f"training: epoch 1 of 3 at most, batch {batch} of 40" for batch in (8, 16, 24, 32, 40)
    ]
    assert lines[0].endswith("; 4 minutes to go at most")  # 112 batches of two seconds
    assert lines[-1].endswith("; 3 minutes to go at most")
