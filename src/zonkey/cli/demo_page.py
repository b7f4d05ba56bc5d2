"""The page of the demonstration: what was guessed, what was confused, and how it all adds up."""

from __future__ import annotations

import json
from collections import Counter
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from ..core.storage import write_whole
from ..datasets import EmojiDataset
from ..datasets.emoji import THUMBNAIL
from ..report.figures import draw_trade_off
from ..report.html import Page, data_address, figure_html, paragraph, table_html
from .demo import DemoResult
from .demo_figures import MAPPED_GROUPS, draw_any_shot, draw_map

_SHOWN = 32  # pixels a side, of thumbnails that are larger for fine screens
_N_CLASSES, _N_GUESSES, _N_CONFUSIONS = 18, 5, 18
_STYLE = """
.e {{ display: inline-block; width: {side}px; height: {side}px; flex: none; border-radius: 4px;
     background: url({sheet}) 0 0 / {size}; }}
.grid {{ display: grid; gap: .75rem;
        grid-template-columns: repeat(auto-fill, minmax(17rem, 1fr)); }}
.card {{ border: 1px solid var(--line); border-radius: 8px; padding: .6rem .8rem; }}
.card b {{ display: flex; align-items: center; gap: .5rem; font-weight: 600; }}
.card ol {{ list-style: none; margin: .4rem 0 0; padding: 0; font-size: .88rem; }}
.card li {{ display: flex; align-items: center; gap: .5rem; padding: .1rem 0; color: var(--dim); }}
.card li.right {{ color: var(--good); font-weight: 600; }}
.card li.right::after {{ content: "\\2713"; }}
.pair {{ display: flex; align-items: center; gap: .5rem; font-size: .9rem; }}
"""


def write_demo(result: DemoResult, folder: Path) -> tuple[Path, Path]:
    """Write page and record into a folder; each file appears whole or not at all."""
    page = write_page(result, folder / "index.html")
    record = folder / "record.json"
    write_whole(record, (json.dumps(result.record, indent=2) + "\n").encode())
    return page, record


def write_page(result: DemoResult, path: Path) -> Path:
    """Write the page; it needs nothing but itself."""
    record, data = result.record, result.data
    width, height = (_SHOWN * size / THUMBNAIL for size in data.sheet_size)
    size = f"{width:g}px {height:g}px"
    style = _STYLE.format(sheet=data_address("image/webp", data.sheet), size=size, side=_SHOWN)
    page = Page("Emoji nobody showed the model", style)
    sizes = record["data"]["n_samples"]
    page.add(
        "In short",
        paragraph(
            f"The model learned from {sizes['train']} pictures of {record['data']['n_seen']} "
            f"emoji. Then it had to name pictures of {record['data']['n_unseen']} other emoji, "
            "which it knows by their Unicode name and keywords only. Parameters were chosen on "
            "validation classes; test classes had no say."
        ),
        table_html(["model", "chosen", *HEADINGS.values()], model_rows(record), numbers_from=2),
        paragraph(
            "unseen: mean per-class accuracy (%) among the unseen classes alone, chance is "
            f"{100 / record['data']['n_unseen']:.1f}. acc_s, acc_u: seen and unseen test pictures, "
            "among all classes; HM: their harmonic mean; AUSUC: area under the curve below.",
            dim=True,
        ),
    )
    page.add(
        "Never seen, still guessed",
        paragraph(
            f"{_N_CLASSES} unseen classes drawn by lot, two from each group. The five best guesses "
            f"among all {record['data']['n_unseen']} unseen classes for the picture in the style "
            "named; thumbnails show each class in one style."
        ),
        _guesses(result),
    )
    page.add("Confusions", *_confusions(result))
    page.add("The zonkey", *_zonkey(result))
    page.add(
        "From no shot to four",
        paragraph(
            f"All {record['any_shot']['n_novel']} unseen classes at once. Shots are drawn in other "
            "styles than queries. The point at 0 is zero-shot learning, by the same model. The "
            "recommended model weighs the mean of the shots against the projected prototype."
        ),
        figure_html(
            draw_any_shot(record["any_shot"]),
            "Share of queries whose class is the best guess (left) or among five (right).",
        ),
    )
    page.add(
        "Seen against unseen",
        figure_html(
            draw_trade_off(
                {
                    f"{name} (area {100 * curve.area:.1f} %)": (curve.unseen, curve.seen)
                    for name, curve in result.curves.items()
                }
            ),
            "A penalty on seen classes trades accuracy on them for accuracy on unseen ones.",
        ),
    )
    page.add(
        "A map of new classes",
        figure_html(
            draw_map(data, result.model, result.X_unseen),
            f"t-SNE of test pictures of unseen classes ({', '.join(MAPPED_GROUPS)}) and of their "
            "projected prototypes (crosses), each picture joined to the prototype of its class.",
        ),
    )
    page.add(
        "How to repeat this",
        f"<pre>{escape(record['command'])}</pre>",
        paragraph(
            f"{record['seconds']} s of computation on {record['machine']['cpus']} cores; sha256 "
            f"{record['data']['sha256'][:16]}; "
            + ", ".join(f"{name} {number}" for name, number in record["versions"].items()),
            dim=True,
        ),
        f"<details><summary>Sources and licenses</summary><pre>{escape(data.attribution)}</pre>"
        "</details>",
    )
    return page.write(path)


HEADINGS = {
    "unseen_only": "unseen",
    "hit@5": "hit@5",
    "acc_s": "acc_s",
    "acc_u": "acc_u",
    "hm": "HM",
    "ausuc": "AUSUC",
}


def model_rows(record: dict[str, Any]) -> list[list[str]]:
    """Return the table of models as text, one row a model."""
    rows = []
    for row in record["models"]:
        chosen = ", ".join(f"{name} {_short(value)}" for name, value in row["chosen"].items())
        figures = [f"{100 * row[key]:.1f}" for key in HEADINGS]
        rows.append([row["model"], chosen or "-", *figures])
    return rows


def _short(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def emoji_html(data: EmojiDataset, label: str) -> str:
    """Return the thumbnail of a class."""
    left, top = (_SHOWN * place / THUMBNAIL for place in data.place(label))
    return (
        f'<span class="e" role="img" aria-label="{escape(label)}" title="{escape(label)}" '
        f'style="background-position:-{left:g}px -{top:g}px"></span>'
    )


def _guesses(result: DemoResult) -> str:
    data, rng = result.data, np.random.default_rng(result.record["seed"])
    groups = sorted(set(data.groups.values()))
    members = {
        group: [c for c in data.unseen_classes if data.groups[c] == group] for group in groups
    }
    each = -(-_N_CLASSES // len(groups))
    chosen = [c for group in groups for c in rng.permutation(members[group])[:each]]
    cards = []
    for label in chosen[:_N_CLASSES]:
        position = rng.choice(np.flatnonzero(data.y_test_unseen == label))
        best = result.model.predict_top(result.X_unseen[[position]], _N_GUESSES)[0]
        style = data.styles[data.split.test_unseen[position]]
        items = "".join(
            f"<li{' class=right' if guess == label else ''}>{emoji_html(data, guess)}"
            f"{escape(guess)}</li>"
            for guess in best.tolist()
        )
        head = f"<b>{emoji_html(data, str(label))}{escape(str(label))}</b>"
        words = ", ".join(data.keywords[str(label)][:6])
        note = f'<span class="dim">{escape(style)}; known as: {escape(words)}</span>'
        cards.append(f'<div class="card">{head}{note}<ol>{items}</ol></div>')
    return f'<div class="grid">{"".join(cards)}</div>'


def _confusions(result: DemoResult) -> list[str]:
    data, truth = result.data, result.data.y_test_unseen
    predicted = result.model.predict(result.X_unseen)
    wrong = Counter(
        (str(a), str(b)) for a, b in zip(truth, predicted, strict=True) if a != b
    ).most_common(_N_CONFUSIONS)
    pairs = "".join(
        f'<div class="pair">{emoji_html(data, a)}&rarr;{emoji_html(data, b)}'
        f"<span>{escape(a)} taken for {escape(b)}, {n} of {int(np.sum(truth == a))}</span></div>"
        for (a, b), n in wrong
    )
    text = "The most frequent mistakes among unseen classes: most are relatives."
    return [paragraph(text), f'<div class="grid">{pairs}</div>']


def _zonkey(result: DemoResult) -> list[str]:
    data, zonkey = result.data, result.zonkey
    source = f'<div class="pair">{emoji_html(data, zonkey.source)}{escape(zonkey.source)}</div>'
    wanted = f'<div class="pair">{emoji_html(data, zonkey.label)}{escape(zonkey.label)}</div>'
    cards = [f'<div class="card"><b>wanted</b>{wanted}<b>made of</b>{source}</div>']
    for how, shares in zonkey.looks_like.items():
        items = "".join(
            f"<li{' class=right' if name == zonkey.label else ''}>{emoji_html(data, name)}"
            f"{escape(name)} {100 * share:.0f} %</li>"
            for name, share in shares.items()
        )
        cards.append(f'<div class="card"><b>looks like ({escape(how)})</b><ol>{items}</ol></div>')
    text = (
        f"The paper's own example: a {zonkey.label} made of a {zonkey.source} may come out a "
        "donkey. Here the pictures of one emoji are moved toward another that was taken out of "
        "training (Eq. generate with rho = 1). Which class does the result resemble, the one it "
        "was made of aside? Such samples must not be trusted, which is what competition is for."
    )
    return [paragraph(text), f'<div class="grid">{"".join(cards)}</div>']
