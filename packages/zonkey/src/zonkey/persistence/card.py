"""Model cards: a page about a model file."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .model import model_info

_MOST_SHOWN = 5  # entries of a list


def model_card(path: str | os.PathLike[str]) -> str:
    """Return a page about a model file, in Markdown.

    Parameters
    ----------
    path : str or path-like
        Model file.

    Returns
    -------
    str
        The page: what the model is, what it was trained on, how well it does, how to use it.
    """
    info = model_info(path)
    summary, name = info["summary"], Path(path).name
    several = summary["estimator"].endswith("MultiLabelClassifier")
    kinds = "any of {} labels" if several else "one of {} classes"
    lines = [f"# {Path(path).stem}", "", info.get("notes", ""), ""]
    lines += [
        f"- Model: `{summary['estimator']}` of zonkey {info['versions']['zonkey']}",
        f"- License: {_strip_markdown(info.get('license', 'not stated'))}",
        f"- Input: {summary['n_features']} features",
        f"- Answers: {kinds.format(summary['n_candidates'])}",
        f"- Saved: {info['created']}, {info['bytes']:,} bytes, schema {info['schema']}",
        "",
        "## Classes",
        "",
        f"{summary['n_seen']} with training samples, {summary['n_unseen']} known by a description "
        "only.",
        "",
        _list_labels(summary["labels"]),
        "",
        "## Training",
        "",
        *_entries(summary["training"] | info.get("training", {})),
        "",
        "## Parameters",
        "",
        *_entries(summary["chosen"]),
        "",
        "## Accuracy",
        "",
        *(_entries(summary["scores"] | info.get("scores", {})) or ["Not stated."]),
        "",
        "## Use",
        "",
        "```python",
        "import zonkey",
        "",
        f'model = zonkey.load("{name}")',
        "model.predict(X)",
        "```",
        "",
    ]
    return "\n".join(lines)


def _entries(facts: Mapping[str, Any]) -> list[str]:
    return [f"- {_strip_markdown(name)}: {_strip_markdown(value)}" for name, value in facts.items()]


def _strip_markdown(value: Any) -> str:
    """Return one line without Markdown."""
    if isinstance(value, Mapping):
        value = ", ".join(f"{key} {part}" for key, part in value.items() if part is not None)
    if isinstance(value, list) and len(value) > _MOST_SHOWN:
        value = f"{len(value)}, from {value[0]} to {value[-1]}"
    text = f"{value:.4g}" if isinstance(value, float) else str(value)
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")


def _list_labels(labels: list[Any]) -> str:
    shown = [_strip_markdown(label) for label in labels[:100]]
    more = len(labels) - len(shown)
    return ", ".join(shown) + (f", and {more} more" if more else "")
