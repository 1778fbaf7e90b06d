"""Pages of print, made from the running text of a treebank, with three levels of damage.

    python scripts/print_pages.py FILE OUT [--level 1] [--seed 0] [--pages 30] [--skip 0]

The comments `# text` of a CoNLL-U file, one after the other, are broken into lines, 30 to a page; fonts take turns. A
page is drawn large, turned by a little, made small, blurred, and gets grey noise, so that a reader is to have about 1,
2 and 5 % of the characters wrong at levels 1, 2 and 3. OUT/000.png is a page, OUT/000.txt what stands on it, line by
line; the same seed gives the same pages. `--skip`: pages of text that are passed over first.

It needs Pillow and Debian's fonts-dejavu-core, fonts-liberation and fonts-freefont-ttf (scripts/system-packages).
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFilter, ImageFont

from llrnn.text.readers import read_lines

# how small the letters of each font become at each level: its x-height and strokes decide what a reader makes of it
FONTS = {
    "dejavu/DejaVuSerif.ttf": (0.50, 0.45, 0.41),
    "liberation/LiberationSerif-Regular.ttf": (0.58, 0.545, 0.515),
    "freefont/FreeSans.ttf": (0.55, 0.52, 0.48),
}
FOLDER = Path("/usr/share/fonts/truetype")
WIDTH, LINES, SIZE = 62, 30, 24  # characters of a line, lines of a page, pixels of a letter before it is made small
TURN, BLUR, NOISE = 0.3, 0.5, 20.0  # degrees, pixels, grey levels


def sentences(path: Path) -> Iterator[str]:
    """Yield the running text of each sentence of a CoNLL-U file."""
    marked = (line.partition("# text = ") for _, line in read_lines(path))
    return (text.strip() for before, mark, text in marked if mark and not before)


def lines(texts: Iterable[str], width: int = WIDTH) -> Iterator[str]:
    """Yield running text in lines of at most `width` characters; a longer word has a line of its own."""
    line = ""
    for word in (word for text in texts for word in text.split()):
        if line and len(line) + 1 + len(word) > width:
            yield line
            line = ""
        line = f"{line} {word}".strip()
    if line:
        yield line


def page(text: Sequence[str], font: str, level: int, seed: str) -> Image.Image:
    """Return the picture of a page."""
    dice, noise = random.Random(seed), np.random.default_rng(list(seed.encode()))
    face, high = ImageFont.truetype(FOLDER / font, SIZE), SIZE * 3 // 2
    size = int(max(map(face.getlength, text))) + 4 * SIZE, len(text) * high + 4 * SIZE
    image = Image.new("L", size, 255)
    for number, line in enumerate(text):
        ImageDraw.Draw(image).text((2 * SIZE, 2 * SIZE + number * high), line, font=face, fill=0)
    image = image.rotate(dice.uniform(-TURN, TURN), Image.Resampling.BICUBIC, expand=True, fillcolor=255)
    shrink = FONTS[font][level - 1]
    small = image.resize((int(image.width * shrink), int(image.height * shrink)), Image.Resampling.BICUBIC)
    grey = np.asarray(small.filter(ImageFilter.GaussianBlur(BLUR)), np.float64)
    return Image.fromarray(np.clip(grey + noise.normal(0, NOISE, grey.shape), 0, 255).astype(np.uint8))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--level", type=int, choices=(1, 2, 3), default=1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--pages", type=int, default=30)
    parser.add_argument("--skip", type=int, default=0)
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    every = list(lines(sentences(given.file)))[given.skip * LINES :]
    for number in range(min(given.pages, -(-len(every) // LINES))):
        text = every[number * LINES : (number + 1) * LINES]
        font = list(FONTS)[number % len(FONTS)]
        page(text, font, given.level, f"{given.seed} {given.level} {given.skip + number}").save(
            given.out / f"{number:03}.png"
        )
        (given.out / f"{number:03}.txt").write_text("".join(f"{line}\n" for line in text), encoding="utf8")


if __name__ == "__main__":
    main()
