"""Draws new cases for the property tests, for as long as one likes, and prints what fails as a regression test.

    make explore MINUTES=30                                  all of them, in rounds, until the time is up
    python scripts/explore.py --minutes 5 tests/knowledge/test_laws.py -k mask     what pytest takes, pytest is given

`make test` draws the same cases every time (tests/conftest.py), so that it fails for a reason and not by chance; here
every round draws others. What is printed can be pasted above the test. Exit code 1: something was found.
"""

from __future__ import annotations

import argparse
import functools
import math
import os
import re
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TextIO

import pytest
from hypothesis import HealthCheck, is_hypothesis_test, settings

PROFILE = settings(
    derandomize=False,
    deadline=None,
    database=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
_BLOB = re.compile(r"@reproduce_failure\(.*\)")


@dataclass(frozen=True)
class Finding:
    """A test that failed, and what was drawn for it, as small as Hypothesis could make it."""

    test: str
    error: str
    drawn: Mapping[str, str]  # as Python writes it
    notes: tuple[str, ...]  # of Hypothesis
    names: Mapping[str, Any]  # of the module of the test

    def __str__(self) -> str:
        lines = [f"# {self.test}: {self.error}"]
        if self.drawn and all(map(self._can_be_made, self.drawn.values())):
            return "\n".join(
                [*lines, f"@example({', '.join(f'{name}={value}' for name, value in self.drawn.items())})"]
            )
        # drawn piece by piece (st.data), or of a class that does not say how it was made: the same bytes draw it again
        lines += [f"# {name} = {line}" for name, value in self.drawn.items() for line in value.splitlines()]
        return "\n".join([*lines, *(found[0] for note in self.notes if (found := _BLOB.search(note)))])

    def _can_be_made(self, value: str) -> bool:
        """Whether this, pasted into the module of the test, is Python."""
        try:
            eval(value, {"nan": math.nan, "inf": math.inf, **self.names})
        except Exception:  # whatever a constructor raises
            return False
        return True


class Drawn:
    """Stands in the place of a test, and keeps what it was given whenever it failed."""

    def __init__(self, function: Any) -> None:
        handle = function.hypothesis
        self.test, self.given = handle.inner_test, list(handle._given_kwargs)
        self.failed: list[tuple[BaseException, dict[str, str]]] = []
        functools.update_wrapper(self, self.test)
        handle.inner_test = functools.wraps(self.test)(lambda *one, **more: self(*one, **more))

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        try:
            return self.test(*arguments, **named)
        except Exception as error:
            self.failed.append((error, {name: repr(named[name]) for name in self.given if name in named}))
            raise

    def of(self, error: BaseException) -> dict[str, str]:
        return next((drawn for one, drawn in reversed(self.failed) if one is error), {})


class Explorer:
    """A plugin of pytest that keeps the property tests and runs them round after round."""

    def __init__(self, minutes: float, out: TextIO) -> None:
        self.minutes, self.out = minutes, out
        self.findings: list[Finding] = []
        self.tests = self.rounds = 0
        self._told = time.monotonic()
        self._over: set[str] = set()  # tests that have failed, or were skipped
        self._drawn: dict[Any, Drawn] = {}

    def tell(self, text: str) -> None:
        self.out.write(f"{text}\n")
        self.out.flush()

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Tests of frequencies stay as they are: with new cases they would fail by chance, however rarely."""
        items[:] = [item for item in items if self._draws(item)]

    def _draws(self, item: pytest.Item) -> bool:
        function = getattr(item, "obj", None)
        own = getattr(function, "_hypothesis_internal_use_settings", settings.default)
        return is_hypothesis_test(function) and not own.derandomize

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        self.tests, end = len(session.items), time.monotonic() + 60 * self.minutes
        for item in session.items:  # those of one function with other parameters share what is kept of it
            if hasattr(function := item.obj, "hypothesis") and function not in self._drawn:  # type: ignore[attr-defined]
                self._drawn[function] = Drawn(function)
        while self._left(session) and time.monotonic() < end:
            self.rounds += 1
            items = self._left(session)
            for item, following in zip(items, [*items[1:], items[0]], strict=True):
                item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
                if time.monotonic() > end:
                    break
            if time.monotonic() > self._told + 60:
                self._told = time.monotonic()
                self.tell(f"# round {self.rounds}: {len(items)} tests, {len(self.findings)} findings so far")
        return True

    def _left(self, session: pytest.Session) -> list[pytest.Item]:
        return [item for item in session.items if item.nodeid not in self._over]

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
        report = yield
        if report.outcome != "passed":
            self._over.add(item.nodeid)
        if report.outcome == "failed" and call.excinfo is not None:
            for error in _each(call.excinfo.value):
                said = str(error).splitlines() or [""]
                names = vars(sys.modules[item.obj.__module__])  # type: ignore[attr-defined]
                notes = tuple(getattr(error, "__notes__", ()))
                kept = self._drawn.get(item.obj)  # type: ignore[attr-defined]
                drawn = {} if kept is None else kept.of(error)
                finding = Finding(item.nodeid, f"{type(error).__name__}: {said[0]}", drawn, notes, names)
                self.findings.append(finding)
                self.tell(f"\n{finding}\n")
        return report


def _each(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from _each(inner)
    else:
        yield error


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10.0, help="how long new cases are drawn")
    given, chosen = parser.parse_known_args()
    out = os.fdopen(os.dup(1), "w", encoding="utf8")  # pytest captures the other one
    settings.register_profile("explore", PROFILE)
    explorer = Explorer(given.minutes, out)
    # Hypothesis was imported before pytest could rewrite the assertions in its plugin: there is none that we need
    options = ["-W", "ignore::pytest.PytestAssertRewriteWarning"]
    options += ["-p", "no:terminal", "-o", "addopts=--strict-markers", "--hypothesis-profile=explore", *chosen]
    code = pytest.main(options, plugins=[explorer])
    if not explorer.tests:
        explorer.tell(
            f"no property test could be run (pytest ends with {int(code)}): see `python -m pytest` with {chosen}"
        )
        return 2
    explorer.tell(f"{explorer.tests} tests in {explorer.rounds} rounds: {len(explorer.findings)} findings")
    for finding in explorer.findings:
        explorer.tell(f"\n{finding}")
    return 1 if explorer.findings else 0


if __name__ == "__main__":
    sys.exit(main())
