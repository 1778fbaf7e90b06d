"""The documentation: every block runs and prints what it shows, every link leads somewhere, the site builds."""

from __future__ import annotations

import fcntl
import importlib
import importlib.util
import os
import pkgutil
import re
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
import torch
import typer

import llrnn
from browser import WIDE, chromium, require_browser
from doc_pages import (
    DOCS,
    PROGRAMS,
    ROOT,
    Page,
    Runner,
    check_block,
    check_command,
    commands,
    difference,
    has_verbs,
    pages,
    read_page,
    same_json,
    verb_of,
)
from helpers import HANG
from llrnn import cli
from llrnn.cli import show
from llrnn.ground import rendering

README = read_page(ROOT / "README.md")  # tests/test_structure.py runs it
PAGES = pages()
# Blocks that are not run, with their reasons in the page: they need real corpora, hours, or a server that goes on.
EXEMPT = {
    "index.md": 1,
    "language-model.md": 3,
    "own-network.md": 1,
    "scale.md": 2,
    "server.md": 6,
    "results/adaptation.md": 5,
    "results/french.md": 6,
    "results/generation.md": 6,
    "results/words.md": 6,
}
PUBLIC = """
    llrnn.ground.errors llrnn.inference.hf llrnn.inference.pairs llrnn.inference.rescoring llrnn.knowledge.backgrounds
    llrnn.knowledge.contextual llrnn.knowledge.features llrnn.model.testing llrnn.languages.domains
    llrnn.languages.grammars llrnn.languages.ngrams llrnn.model.controllers llrnn.model.words
    llrnn.text.corpus llrnn.text.french llrnn.text.morphology llrnn.text.built llrnn.text.tables llrnn.text.vectors
    llrnn_agreement llrnn_morphology
""".split()  # noqa: SIM905


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for what is made once for all test processes."""
    folder = tmp_path_factory.getbasetemp()
    folder = (folder.parent if os.environ.get("PYTEST_XDIST_WORKER") else folder) / "documentation"
    folder.mkdir(exist_ok=True)
    return folder


@pytest.fixture(scope="session")
def quick(shared: Path) -> Path:
    """quick.toml and runs/quick of the quick start."""
    with (shared / "quick.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (shared / "runs" / "quick").exists():
            page = read_page(DOCS / "quick-start.md")
            (config,) = (block.text for block in page.blocks if block.title == "quick.toml")
            (shared / "quick.toml").write_text(config, encoding="utf8")
            made = shared / "runs" / "being-made"
            assert cli.run(["train", str(shared / "quick.toml"), "--out", str(made), "--quiet"]) == 0
            made.rename(shared / "runs" / "quick")
    return shared


@pytest.fixture
def folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """As wide as the pages, with the examples and configurations of the repository beside."""
    for name in ("configs", "examples"):
        (tmp_path / name).symlink_to(ROOT / name)
    monkeypatch.chdir(tmp_path)
    for console in (show.out, show.err):
        monkeypatch.setattr(console, "_width", 100)  # else that of the terminal in which the tests run
    threads = torch.get_num_threads()
    yield tmp_path
    torch.set_num_threads(threads)  # `bench` sets them


def _runnable() -> Iterator[Any]:
    """Pages with programs."""
    for page in PAGES:
        if page.blocks:
            yield pytest.param(page, id=page.name)


@pytest.mark.slow  # minutes; CI runs it besides `make test`
@pytest.mark.parametrize("page", list(_runnable()))
def test_every_block_runs(page: Page, folder_of_its_own: Path, request: pytest.FixtureRequest) -> None:
    if page.said.get("needs") == "quick":
        made: Path = request.getfixturevalue("quick")
        (folder_of_its_own / "runs").mkdir()
        (folder_of_its_own / "runs" / "quick").symlink_to(made / "runs" / "quick")
        (folder_of_its_own / "quick.toml").symlink_to(made / "quick.toml")
    Runner(page).run()


def test_the_pages_are_short() -> None:
    """Outside of the reference at most 2,500 words, in all at most 50,000 (`wc -w`)."""
    words = {page.name: len(page.path.read_text(encoding="utf8").split()) for page in PAGES}
    assert {name: n for name, n in words.items() if n > 2500 and not name.startswith("reference/")} == {}
    assert sum(words.values()) <= 50_000


def test_few_blocks_are_exempt_and_each_says_why() -> None:
    exempt = [block for page in (*PAGES, README) for block in page.blocks if block.exempt is not None]
    listed = "\n".join(f"{block}: {block.exempt}" for block in exempt)
    assert all(block.exempt for block in exempt), listed
    assert Counter(block.page for block in exempt) == EXEMPT, listed


def test_every_output_belongs_to_a_program_that_is_run() -> None:
    for page in (*PAGES, README):
        for block in page.blocks:
            assert block.language, f"{block}: a fenced block names its language"
            assert not (block.exempt is not None and block.output), f"{block}: nobody compares this output"


def test_no_command_hides_in_an_indented_block() -> None:
    for page in (*PAGES, README):
        text = re.sub(r"^ *```.*?^ *```$", "", page.path.read_text(encoding="utf8"), flags=re.DOTALL | re.MULTILINE)
        assert not re.search(r"^(    |\t)(\$ )?(llrnn|python|pip|make) ", text, re.MULTILINE), page.name


def test_readme_blocks_can_be_read(folder_of_its_own: Path) -> None:
    for block in README.blocks:
        assert block.language in PROGRAMS, block
        check_block(block)


@pytest.mark.parametrize("page", [*PAGES, README], ids=lambda page: page.name)
def test_commands_in_the_text_exist(page: Page) -> None:
    """`llrnn VERB --option` between backticks: the verb and each option."""
    text = re.sub(r"^ *```.*?^ *```$", "", page.path.read_text(encoding="utf8"), flags=re.DOTALL | re.MULTILINE)
    for said in re.findall(r"`(llrnn [a-z][^`]*)`", text):
        words = said.split()[1:]
        command: Any = typer.main.get_command(cli.app)
        while words and not words[0].startswith("-") and has_verbs(command):
            command = verb_of(command, words.pop(0))
            assert command is not None, f"{page.name}: {said}"
        known = {option for parameter in command.params for option in getattr(parameter, "opts", [])}
        wanted = {word.split("=")[0] for word in words if word.startswith("--")}
        assert wanted <= known | {"--help"}, f"{page.name}: {said}"


@pytest.mark.parametrize("page", [*PAGES, README], ids=lambda page: page.name)
def test_modules_and_programs_in_the_text_exist(page: Page) -> None:
    """`file.py` and `llrnn.module.name` between backticks."""
    text = re.sub(r"^ *```.*?^ *```$", "", page.path.read_text(encoding="utf8"), flags=re.DOTALL | re.MULTILINE)
    for name in re.findall(r"`([\w./-]+\.py)`", text):
        places = (ROOT, ROOT / "src", ROOT / "src" / "llrnn", ROOT / "scripts", ROOT / "examples", ROOT / "tests")
        assert any((place / name).is_file() for place in places), f"{page.name}: {name}"
    for name in re.findall(r"`(llrnn(?:\.\w+)+)[`(]", text):
        assert pkgutil.resolve_name(name) is not None, f"{page.name}: {name}"


@pytest.mark.slow
def test_the_pictures_show_the_model_of_the_quick_start(quick: Path) -> None:
    """Names and numbers; `python scripts/pictures.py` draws them anew."""
    model = llrnn.load(quick / "runs" / "quick")
    found = {
        "waterfall": llrnn.explain(model, prefix="la maison est", word="grande"),
        "rival": llrnn.explain(model, prefix="la maison est", word="grande", rival="grand"),
    }
    for name, why in found.items():
        shown, drawn = (
            "\n".join(re.findall(r"<text[^>]*>([^<]*)<", picture))
            for picture in ((DOCS / "pictures" / f"{name}.svg").read_text(encoding="utf8"), rendering.svg(why.chart()))
        )
        assert difference(shown, drawn, 0.02) is None, name


# --- the site --------------------------------------------------------------------------------------------------------


class Links(HTMLParser):
    """What a page of the site refers to, and what can be referred to."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.loaded: list[str] = []  # scripts, styles, pictures, fonts
        self.linked: list[str] = []
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        found = {name: value or "" for name, value in attributes}
        if "id" in found:
            self.anchors.add(found["id"])
        if tag in ("script", "img", "iframe", "source", "video", "audio") and "src" in found:
            self.loaded.append(found["src"])
        if tag == "link" and found.get("rel") not in ("prev", "next", "canonical"):
            self.loaded.append(found["href"])
        if tag == "a" and "href" in found:
            self.linked.append(found["href"])


@pytest.fixture(scope="session")
def site(shared: Path) -> Path:
    """The site, built as `make docs` builds it: a warning is an error."""
    made = shared / "site"
    with (shared / "site.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not made.exists():
            done = subprocess.run(
                [ROOT / "scripts" / "docs", shared / "being-built"],
                env=os.environ | {"BIN": str(Path(sys.executable).parent)},
                capture_output=True,
                text=True,
                check=False,
                timeout=HANG,
            )
            assert done.returncode == 0, done.stdout + done.stderr
            assert not done.stdout + done.stderr
            (shared / "being-built").rename(made)
    return made


@pytest.fixture(scope="session")
def links(site: Path) -> dict[Path, Links]:
    return {path: Links(path.read_text(encoding="utf8")) for path in sorted(site.rglob("*.html"))}


needs_mkdocs = pytest.mark.skipif(
    importlib.util.find_spec("mkdocstrings") is None, reason="needs mkdocs: pip install 'llrnn[docs]'"
)


@pytest.mark.slow
@needs_mkdocs
def test_the_site_asks_no_other_host(site: Path, links: dict[Path, Links]) -> None:
    for path, found in links.items():
        assert not [one for one in found.loaded if re.match(r"(https?:)?//", one)], path
    for path in site.rglob("*.css"):
        style = re.sub(r"/\*.*?\*/", "", path.read_text(encoding="utf8"), flags=re.DOTALL)
        assert not re.search(r"(url\(|@import)\s*['\"]?(https?:)?//", style), path


@pytest.mark.slow
@needs_mkdocs
def test_the_site_opens_from_its_folder_with_search_and_in_both_colours(site: Path, tmp_path: Path) -> None:
    require_browser()
    with chromium(tmp_path) as browser:
        browser.resize(WIDE)
        browser.prefer(color_scheme="dark", reduced_motion="reduce")
        browser.open((site / "index.html").as_uri())
        shown = browser.script("return document.querySelector('picture img').currentSrc")
        assert shown.endswith("decision-still.svg")
        browser.type(".md-search__input", "cross-fitted")
        found = browser.until(lambda: browser.texts(".md-search-result__item h1") or None, "results of the search")
        assert any("Context" in title for title in found), found
        browser.open((site / "pictures" / "decision.svg").as_uri())
        paper, moving = browser.script(
            "return [getComputedStyle(document.querySelector('rect')).fill, document.getAnimations().length]"
        )
        assert (paper, moving) == ("rgb(30, 33, 41)", 0)
        browser.prefer(color_scheme="light", reduced_motion="no-preference")
        browser.open((site / "pictures" / "decision.svg").as_uri())
        paper, moving = browser.script(
            "return [getComputedStyle(document.querySelector('rect')).fill, document.getAnimations().length]"
        )
        assert paper == "rgb(255, 255, 255)"
        assert moving > 5


def test_the_parts_of_the_moving_picture_add_up() -> None:
    said = re.findall(r">([^<]*)</text>", (DOCS / "pictures" / "decision.svg").read_text(encoding="utf8"))
    *parts, total = (float(one.replace("−", "-")) for one in said if re.fullmatch(r"[+−]\d\.\d\d", one))
    assert len(parts) == 5
    assert sum(parts) == pytest.approx(total, abs=0.03)  # rounded


@pytest.mark.slow
@needs_mkdocs
def test_every_link_picture_and_anchor_exists(site: Path, links: dict[Path, Links]) -> None:
    for path, found in links.items():
        for target in (*found.linked, *found.loaded):
            if re.match(r"(https?:)?//|mailto:|data:|javascript:", target) or path.name == "404.html":
                continue
            file, _, anchor = target.partition("#")
            there = (path.parent / file).resolve() if file else path
            there = there / "index.html" if there.is_dir() else there
            assert there.is_file(), f"{path.relative_to(site)}: {target}"
            if anchor and there.suffix == ".html":
                assert anchor in links[there].anchors, f"{path.relative_to(site)}: {target}"


@pytest.mark.slow
@needs_mkdocs
def test_every_public_name_is_in_the_reference(links: dict[Path, Links]) -> None:
    anchors = {anchor for path, found in links.items() if path.parent.name == "reference" for anchor in found.anchors}
    for module in PUBLIC:
        for name in importlib.import_module(module).__all__:
            # a function may be called after its module: llrnn.evaluate is llrnn.evaluate.evaluate
            own = {f"{module}.{name}", f"{module}.{name}.{name}"}
            is_module = importlib.util.find_spec(f"{module}.{name}") is not None if module == "llrnn" else False
            assert anchors & (own if not is_module else own | {f"llrnn.{name}"}), f"{module}.{name}"
    last = {anchor.rsplit(".", 1)[-1] for anchor in anchors}
    for room in llrnn.ROOMS:
        assert last >= {*getattr(importlib.import_module(f"llrnn.{room}"), "__all__", ())} or room == "cli", room


@pytest.mark.slow
@needs_mkdocs
def test_every_verb_is_in_the_reference(links: dict[Path, Links]) -> None:
    anchors = next(found.anchors for path, found in links.items() if path.name == "cli.html")

    def below(path: tuple[str, ...], command: Any) -> list[str]:
        if not has_verbs(command):
            return ["-".join(path)]
        return [one for name in command.list_commands(None) for one in below((*path, name), verb_of(command, name))]

    missing = set(below(("llrnn",), typer.main.get_command(cli.app))) - anchors
    assert not missing


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md"])
def test_links_of_pages_outside_of_the_site_exist(name: str) -> None:
    text = (ROOT / name).read_text(encoding="utf8")
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)|`((?:docs|configs|examples|scripts)/[\w./-]+)`", text):
        path = target[0] or target[1]
        assert path.startswith("http") or (ROOT / path).exists(), f"{name}: {path}"


def test_every_decision_is_listed_and_has_its_three_parts() -> None:
    listed = re.findall(
        r"^- \[(\d{4})\]\((\1-[\w-]+\.md)\) (.+)$", (DOCS / "decisions/index.md").read_text("utf8"), re.M
    )
    records = sorted(path for path in (DOCS / "decisions").glob("*.md") if path.name != "index.md")
    assert [name for _, name, _ in listed] == [path.name for path in records]
    for (number, name, title), path in zip(listed, records, strict=True):
        text = path.read_text(encoding="utf8")
        assert text.startswith(f"# {int(number)}. {title}\n"), name
        assert re.findall(r"^\*\*(\w+)\.\*\*", text, re.MULTILINE) == ["Context", "Decision", "Why"], name


def test_the_version_is_the_same_everywhere() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf8"))["project"]
    assert project["version"] == llrnn.__version__
    assert f"version: {llrnn.__version__}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf8")
    assert f"\n## {llrnn.__version__}" in (ROOT / "CHANGELOG.md").read_text(encoding="utf8")


# --- the machinery itself --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("expected", "actual", "tolerance", "same"),
    [
        ("a\n", "a \n\n", 0, True),
        ("a\n", "b\n", 0, False),
        ("a\n", "a\nb\n", 0, False),
        ("a\n…\nc\n", "a\nx\ny\nc\n", 0, True),
        ("a\n…\nc\n", "a\nc\n", 0, True),
        ("a\n…\nc\n", "a\nx\n", 0, False),
        ("in … s\n", "in 3.2 s\n", 0, True),
        ("loss  1.50\n", "loss 1.52\n", 0, False),
        ("loss  1.50\n", "loss 1.52\n", 0.05, True),
        ("loss  1.50\n", "loss 1.58\n", 0.05, False),
        ("p 200.0\n", "p 205.0\n", 0.05, True),
        ("3 steps, 1.50\n", "4 steps, 1.50\n", 0.05, False),
        ("x −1.50\n", "x -1.51\n", 0.05, True),
    ],
)
def test_what_is_shown_is_compared_with_what_is_printed(
    expected: str, actual: str, tolerance: float, same: bool
) -> None:
    assert (difference(expected, actual, tolerance) is None) == same


def test_json_is_compared_by_value() -> None:
    assert same_json('{\n"a": [1.0, null]\n}', '{"a": [1.001, null]}', 0.01) is None
    assert same_json('{"a": [1.0]}', '{"a": [1.1]}', 0.01) is not None
    assert same_json('{"a": 1}', '{"b": 1}') is not None


def page_of(text: str, folder: Path) -> Page:
    path = folder / "page.md"
    path.write_text(text, encoding="utf8")
    return read_page(path)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("```python\nprint(1)\n```\n```text\n2\n```\n", "the page shows"),
        ("```python\n1 / 0\n```\n", "ZeroDivisionError"),
        ("```sh\nllrnn trian x\n```\n", "ended with 2"),
        ("<!-- not run: because -->\n```sh\nllrnn train x --otu y\n```\n", "otu"),
        ("<!-- not run: because -->\n```sh\nllrnn trian x\n```\n", "no verb trian"),
        ("```sh\nmake nonsense\n```\n", "make nonsense"),
        ("```sh\npip install 'llrnn[nonsense]'\n```\n", "no extra nonsense"),
        ("```toml\nnonsense = 1\n```\n", "nonsense"),
        ("```json\n{,}\n```\n", "JSONDecodeError"),
        ("```lark\nstart: nothing\n```\n", "nothing"),
        ("```text\nnobody prints this\n```\n", "show no output"),
        ("```klingon\nqo'\n```\n", "klingon"),
        ("```console\n$ llrnn data french --sentences 2 --out a.conllu\n3 sentences\n```\n", "2 sentences"),
    ],
)
def test_a_page_that_is_wrong_is_found(text: str, complaint: str, folder_of_its_own: Path) -> None:
    with pytest.raises(AssertionError, match=re.escape(complaint)):
        Runner(page_of(text, folder_of_its_own)).run()


def test_blocks_of_a_page_share_names_and_files(folder_of_its_own: Path) -> None:
    text = (
        '```json title="a.json"\n[1, 2]\n```\n'
        "```python\nimport json\nfrom pathlib import Path\n```\n"
        '```python\nprint(json.loads(Path("a.json").read_text()))\n```\n\n```text\n[1, 2]\n```\n'
    )
    Runner(page_of(text, folder_of_its_own)).run()
    assert commands("# note\nllrnn a \\\n  b\n\nllrnn c\n") == ["llrnn a    b", "llrnn c"]
    with pytest.raises(AssertionError, match="what is rm"):
        check_command(read_page(DOCS / "quick-start.md").blocks[0], "rm -rf /")
