"""The demo's report: one HTML file that holds everything and opens offline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

from llrnn.ground.charts import LineChart, svg

_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; color: #222; max-width: 46rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.6rem; } h2 { font-size: 1.2rem; margin-top: 2.2rem; }
table { border-collapse: collapse; margin: 1rem 0; } th, td { padding: .25rem .9rem .25rem 0; vertical-align: top; }
th { text-align: left; border-bottom: 2px solid #999; } td { border-bottom: 1px solid #ddd; }
td.number, th.number { text-align: right; font-variant-numeric: tabular-nums; }
tr.best td { font-weight: bold; } .features { color: #555; font-size: .9rem; }
p.note { color: #555; font-size: .9rem; }
"""


def page(title: str, sections: Sequence[str]) -> str:
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{_STYLE}</style></head>\n"
        f"<body><h1>{escape(title)}</h1>\n{''.join(sections)}</body></html>\n"
    )


def section(title: str, *body: str) -> str:
    return f"<h2>{escape(title)}</h2>\n{''.join(body)}\n"


def paragraph(text: str, *, note: bool = False) -> str:
    return f"<p{' class=note' if note else ''}>{escape(text)}</p>\n"


def results_table(header: Sequence[str], rows: Sequence[Sequence[str]], best: int) -> str:
    """The first column text, the others numbers; the best row stands out."""
    head = "".join(f"<th{' class=number' if i else ''}>{escape(name)}</th>" for i, name in enumerate(header))
    body = "".join(
        f"<tr{' class=best' if index == best else ''}>"
        + "".join(f"<td{' class=number' if i else ''}>{escape(cell)}</td>" for i, cell in enumerate(row))
        + "</tr>"
        for index, row in enumerate(rows)
    )
    return f"<table><tr>{head}</tr>{body}</table>\n"


def sentence_table(words: Sequence[tuple[str, Sequence[str]]]) -> str:
    """A generated sentence, word by word, with the features that fire on each."""
    rows = "".join(
        f"<tr><td>{escape(word)}</td><td class=features>{escape(', '.join(names))}</td></tr>" for word, names in words
    )
    return f"<table><tr><th>word</th><th>features</th></tr>{rows}</table>\n"


def learning_curves(curves: Mapping[str, Sequence[float]]) -> str:
    """One curve for each model: its loss after each epoch."""
    points = {name: list(enumerate(curve, 1)) for name, curve in curves.items()}
    return svg(LineChart(points, "learning curves", "epoch", "log-perplexity on validation (nats)"))
