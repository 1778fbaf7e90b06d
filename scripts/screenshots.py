"""The pictures of docs/playground.md, and the short sequence of docs/index.md, taken in a real browser:

    PYTHONPATH=src:tests python scripts/screenshots.py [DEMO [NAME...]]

DEMO is the folder of `llrnn demo` (default: demo), whose models are trained where they are not there; NAMEs choose some
of the pictures. Everything is seeded, so they change only where the page or a model does. Needs what
tests/serve/test_page.py needs.
"""

from __future__ import annotations

import io
import json
import sys
import tempfile
from base64 import b64decode
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlencode

from PIL import Image

from browser import Browser, chromium
from llrnn.cli.serve import trained_models
from llrnn.serve.app import create_app
from llrnn.serve.engine import Engine
from llrnn.serve.served import open_served
from web_client import running

PICTURES = Path(__file__).parents[1] / "docs" / "pictures"
PREFIX = "la voiture de mon voisin est très"
WORD = {"prefix": PREFIX, "word": "puissante"}
WORDS = WORD | {"rival": "puissant"}
SCENE = WORDS | {"model2": "softmax", "influence": "Gender:Fem"}
SHARPNESS = 1.5  # pixels of a picture for one of the page
WRITTEN = {
    "model": "ll-rnn",
    "prefix": ["la", "voiture"],
    "background": "own",
    "changes": [],
    "max_words": 40,
    "temperature": 0.7,
    "seed": 4,
    "stream": True,
}
WRITING = {"prefix": "la voiture", "seed": "4", "temperature": "0.7", "written": json.dumps(WRITTEN)}
WRITTEN_ALL = "#writing-summary:not(:empty)"


@dataclass(frozen=True)
class Shot:
    """What is on show, and which part of it is taken: from the top of one element to the bottom of another."""

    name: str
    state: dict[str, str]
    first: str = "header"
    last: str = "footer"
    size: tuple[int, int] = (1180, 1000)
    scheme: str = "light"
    ready: tuple[str, ...] = (".bar", "svg.waterfall")


SHOTS = (
    Shot("playground", SCENE, size=(1366, 1000), last=".desk .next", ready=(".bars.beside", ".moved")),
    Shot("playground-dark", WORDS | {"influence": "Gender:Fem"}, last=".panel-body", scheme="dark", ready=(".moved",)),
    Shot("playground-compare", WORDS, first=".why", last=".why"),
    Shot("playground-weights", WORD | {"change": "1,-2,Gender:Fem"}, first=".next", last=".steering"),
    Shot("playground-influence", WORD | {"influence": "Gender:Fem"}, first=".moves", last=".moves", ready=(".moved",)),
    Shot("playground-two", SCENE, first=".verdict", last=".why", ready=(".bars.beside", ".moved")),
    Shot("playground-unknown", {"prefix": "la voitture de mon voisin est"}, first=".panel", last=".next"),
    Shot("playground-sentence", WRITING, first="#writing", last="#writing", ready=(WRITTEN_ALL,)),
    Shot("playground-phone", WORDS, size=(360, 740), scheme="dark", last=".why"),
)


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path("demo")
    engine = Engine([open_served(path, name=name) for name, path in trained_models(folder).items()])
    with (
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile,
        running(create_app(engine)) as address,
        chromium(Path(profile)) as browser,
    ):
        chosen = sys.argv[2:] or [shot.name for shot in SHOTS]
        for shot in (shot for shot in SHOTS if shot.name in chosen):
            take(browser, f"http://127.0.0.1:{address.port}/#{urlencode(shot.state)}", shot)


def take(browser: Browser, url: str, shot: Shot) -> None:
    width, height = shot.size
    shape = {"width": width, "height": height, "deviceScaleFactor": SHARPNESS, "mobile": False}
    browser.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", shape)
    browser.driver.execute_cdp_cmd("Emulation.setScrollbarsHidden", {"hidden": True})
    browser.prefer(color_scheme=shot.scheme, reduced_motion="reduce")
    browser.open(url)
    for selector in shot.ready:
        browser.one(selector)
    browser.until(lambda: not browser.all("[data-waiting]") or None, "all answers")
    edges = browser.script(
        """const [first, last] = [...arguments].map((one) => document.querySelector(one).getBoundingClientRect());
        const [left, right] = [Math.min(first.left, last.left), Math.max(first.right, last.right)];
        return [left, first.top + scrollY, right - left, last.bottom - first.top]""",
        shot.first,
        shot.last,
    )
    x, y, width, height = edges
    clip = {"x": max(0, x - 8), "y": max(0, y - 8), "width": width + 16, "height": height + 16, "scale": 1}
    taken = browser.driver.execute_cdp_cmd("Page.captureScreenshot", {"clip": clip, "captureBeyondViewport": True})
    picture = Image.open(io.BytesIO(b64decode(taken["data"]))).convert("RGB")
    colours = picture.quantize(256, method=Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)  # rare ones too
    colours.save(PICTURES / f"{shot.name}.png", optimize=True)


if __name__ == "__main__":
    main()
