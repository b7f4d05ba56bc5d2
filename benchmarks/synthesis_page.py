"""Tables and pictures of docs/synthesis.md, made from the summary of when_synthesis_helps.py."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from zonkey.metrics import mean_confidence_interval

NAME = "when_synthesis_helps"
FACTOR = {
    "n_seen": "seen classes",
    "n_dimensions": "semantic dimensions",
    "prototypes": "prototypes",
    "common": "common part",
    "noise": "noise",
    "offset": "class offsets",
    "shift": "shift to unseen",
    "rectified": "rectified features",
}
ABLATION_ROWS = (
    "BPL0, ridge chosen",
    "BPL",
    "BPL1",
    "without ambiguity handling",
    "BPL, unscaled",
    "BPL1, unscaled",
    "without ambiguity handling, unscaled",
    "BPL0, constant",
    "BPL, unscaled, constant",
    "BPL0, centered",
    "BPL, unscaled, centered",
    "RPL",
    "RPL, centered",
    "recommended",
)
GEOMETRY_ROWS = (
    "BPL0",
    "BPL",
    "BPL1",
    "BPL, unscaled",
    "BPL1, unscaled",
    "without ambiguity handling, unscaled",
    "BPL0, centered",
    "RPL",
)
FACTOR_COLUMNS = (
    "BPL0, ridge chosen",
    "BPL",
    "BPL, unscaled",
    "BPL0, centered",
    "RPL",
    "recommended",
)
SHOWN = {"True": "yes", "False": "no"}
COLUMNS = 4  # of panels
PAIRS = (
    ("BPL, unscaled", "BPL0"),
    ("BPL", "BPL0"),
    ("BPL0, ridge chosen", "BPL0"),
    ("BPL0, centered", "BPL, unscaled"),
    ("BPL, unscaled, centered", "BPL0, centered"),
    ("recommended", "BPL0"),
    ("recommended", "BPL, unscaled"),
)
LINES = ("BPL0", "BPL", "BPL, unscaled", "BPL0, centered", "RPL", "recommended")

Summary = dict[str, Any]


@dataclass(frozen=True)
class Places:
    """Where the summary, the page and its pictures are."""

    results: Path
    page: Path
    images: Path


def write_page(summary: Summary, places: Places) -> None:
    """Store the summary, draw the pictures, and fill the tables of the page."""
    places.results.mkdir(parents=True, exist_ok=True)
    places.images.mkdir(parents=True, exist_ok=True)
    text = json.dumps(summary, separators=(",", ":")).replace('"setting":', '\n"setting":')
    (places.results / f"{NAME}.json").write_text(text + "\n", encoding="utf-8")
    for name, draw in {"map": draw_map, "factors": draw_factors, "rule": draw_rule}.items():
        _save(draw(summary), places.images / f"synthesis-{name}.png")
    page = places.page.read_text("utf-8")
    places.page.write_text(filled(page, tables(summary)), encoding="utf-8")


def filled(page: str, contents: dict[str, str]) -> str:
    """Return the page with what stands between ``<!-- NAME -->`` and ``<!-- end -->`` replaced."""
    for name, content in contents.items():
        pattern = re.compile(rf"(<!-- {name} -->\n).*?(<!-- end -->)", re.S)
        if not pattern.search(page):
            raise ValueError(
                f"The page must have a place for each table; got none for {name!r}. "
                f"Add <!-- {name} --> and <!-- end -->."
            )
        page = pattern.sub(lambda found, new=content: f"{found[1]}{new}\n{found[2]}", page)
    return page


def tables(summary: Summary) -> dict[str, str]:
    """Return every table of the page as Markdown, by name."""
    return {
        "run": run_line(summary),
        "pairs": _markdown(pairs_table(summary)),
        "law": law_line(summary),
        "ablation": _markdown(ablation_table(summary)),
        "geometry": _markdown(geometry_table(summary)),
        "samples": _markdown(samples_table(summary)),
        "bias": _markdown(bias_table(summary)),
        "rule": _markdown(rule_table(summary)),
        "factors": _markdown(factors_table(summary)),
    }


def run_line(summary: Summary) -> str:
    """Return where the figures come from."""
    versions = ", ".join(f"{name} {v}" for name, v in summary["versions"].items())
    problems = " to ".join(map(str, summary["n_seeds"]))
    return (
        f"Run of {summary['date'][:10]}: {len(summary['cells'])} cells, {problems} problems each "
        f"(most in the cells of the ablation), {summary['minutes']:.0f} minutes of one core "
        f"({summary['machine']['processor']}); Python {summary['python']}, {versions}."
    )


def law_line(summary: Summary) -> str:
    """Return how the bias of BPL0 compares with its estimate, where prototypes are random."""
    ratios = []
    for cell in summary["cells"].values():
        setting = cell["setting"]
        plain = setting["prototypes"] == "gaussian" and not setting["common"]
        if plain and setting["rectified"] and not setting["shift"]:
            estimate = 4 / np.sqrt(setting["n_seen"] * setting["n_dimensions"])
            ratios.append(cell["models"]["BPL0"]["bias"] / estimate)
    return (
        f"Over all {len(ratios)} cells with rectified features and Gaussian prototypes without "
        f"common part and shift, the bias\nis {np.median(ratios):.2f} times this estimate "
        f"(median; range {min(ratios):.2f} to {max(ratios):.2f})."
    )


def pairs_table(summary: Summary) -> list[dict[str, str]]:
    """Return differences between models over all cells that have both."""
    rows = []
    for name, other in PAIRS:
        cells = [c for c in summary["cells"].values() if {name, other} <= {*c["models"]}]
        found = [gain(cell, name, over=other) for cell in cells]
        intervals = [_interval(one) for one in found]
        rows.append(
            {
                "difference": f"{name} minus {other}",
                "cells": f"{len(cells)}",
                "points": _range([100 * float(one.mean()) for one in found]),
                "above zero": f"{sum(low > 0 for low, _ in intervals)}",
                "below zero": f"{sum(high < 0 for _, high in intervals)}",
            }
        )
    return rows


def ablation_table(summary: Summary) -> list[dict[str, str]]:
    """Return the accuracy of BPL0 and the gain of every other model over it."""
    cells = {title: summary["cells"][slug] for title, slug in summary["ablations"].items()}
    rows = [{"model": "BPL0 (accuracy)", **{t: _accuracy(c, "BPL0") for t, c in cells.items()}}]
    for name in ABLATION_ROWS:
        rows.append({"model": name, **{t: _shown_gain(c, name) for t, c in cells.items()}})
    return rows


def geometry_table(summary: Summary) -> list[dict[str, str]]:
    """Return where projected prototypes of unseen classes lie, in the first ablated cell."""
    models = summary["cells"][next(iter(summary["ablations"].values()))]["models"]
    return [
        {
            "model": name,
            "accuracy": _percent(np.mean(models[name]["score"])),
            "largest class": f"{models[name]['largest class']:.1f}",
            "bias": f"{models[name]['bias']:.3f}",
            "size": f"{models[name]['size']:.2f}",
            "tilt": f"{models[name]['tilt']:.3f}",
            "alignment": f"{models[name]['alignment']:.3f}",
            "accuracy without bias": _percent(models[name]["balanced"]),
        }
        for name in GEOMETRY_ROWS
    ]


def samples_table(summary: Summary) -> list[dict[str, str]]:
    """Return what the synthesized samples of the ablated cells are like, with rho = 1."""
    rows = []
    for title, slug in summary["ablations"].items():
        data, row = summary["cells"][slug]["data"], {"cell": title}
        for reading in ("printed", "unscaled"):
            row[f"length of the move, {reading}"] = f"{data[f'length, {reading}']:.3f}"
            row[f"own class (%), {reading}"] = f"{100 * data[f'own share, {reading}']:.0f}"
            row[f"largest class, {reading}"] = f"{data[f'largest share, {reading}']:.1f}"
        rows.append(row)
    return rows


def bias_table(summary: Summary) -> list[dict[str, str]]:
    """Return the bias of BPL0 in the ablated cells, beside the expected one."""
    rows = []
    for title, slug in summary["ablations"].items():
        cell = summary["cells"][slug]
        p, k = cell["setting"]["n_seen"], cell["setting"]["n_dimensions"]
        of_samples, of_prototypes = cosines(cell)
        model = cell["models"]["BPL0"]
        rows.append(
            {
                "cell": title,
                "p": f"{p}",
                "k": f"{k}",
                "rank of seen prototypes": f"{cell['data']['rank']:.0f}",
                "cosine of samples": f"{of_samples:.2f}",
                "cosine of prototypes": f"{of_prototypes:.2f}",
                "bias": f"{model['bias']:.3f}",
                "4 / sqrt(p k)": f"{4 / np.sqrt(p * k):.3f}",
                "tilt": f"{model['tilt']:.3f}",
            }
        )
    return rows


def factors_table(summary: Summary) -> list[dict[str, str]]:
    """Return one row per value of each factor."""
    rows = []
    for base, factors in summary["factors"].items():
        for name, values in factors.items():
            for value, slug in values.items():
                cell = summary["cells"][slug]
                row = {"base": base, "factor": FACTOR[name], "value": SHOWN.get(value, value)}
                row["BPL0"] = _accuracy(cell, "BPL0")
                rows.append(row | {model: _shown_gain(cell, model) for model in FACTOR_COLUMNS})
    return rows


def cosines(cell: dict[str, Any]) -> tuple[float, float]:
    """Return the mean cosine between two training samples, and between two seen prototypes."""
    p = cell["setting"]["n_seen"]
    of_prototypes = (p * cell["data"]["prototype mean share"] - 1) / (p - 1)
    return cell["data"]["mean share"], of_prototypes  # of very many samples, it is the share


def rule_table(summary: Summary) -> list[dict[str, str]]:
    """Return gains by three numbers that a user can compute before trying synthesis."""
    rows = []
    for number, name in enumerate(GROUPS):
        cells = [cell for cell in summary["cells"].values() if group_of(cell) == number]
        if not cells:
            continue
        gains = {
            model: [100 * float(gain(cell, model).mean()) for cell in cells]
            for model in ("BPL, unscaled", "BPL0, centered", "recommended")
        }
        intervals = [_interval(gain(cell, "BPL, unscaled")) for cell in cells]
        better, worse = sum(low > 0 for low, _ in intervals), sum(high < 0 for _, high in intervals)
        rows.append(
            {
                "cells with": name,
                "number": f"{len(cells)}",
                "better / worse": f"{better} / {worse}",
                "folds agree": folds_agree(cells),
                **{f"gain of {model}": _range(found) for model, found in gains.items()},
            }
        )
    return rows


def folds_agree(cells: list[dict[str, Any]]) -> str:
    """Return how often folds tell the sign of a gain or loss of at least one point.

    The score on folds is that of the chosen parameters, for unscaled BPL and for BPL0.
    """
    found = []
    for cell in cells:
        test = gain(cell, "BPL, unscaled").mean()
        fold = gain(cell, "BPL, unscaled", measure="fold score").mean()
        if abs(test) >= 0.01:
            found.append(np.sign(test) == np.sign(fold))
    return f"{sum(found)} of {len(found)}"


LEAST_OF_SAMPLES, MOST_OF_PROTOTYPES, TILTS = 0.1, 0.3, (0.1, 0.2)
GROUPS = (
    "samples below 0.1",
    "prototypes above 0.3",
    "else, tilt below 0.1",
    "else, tilt 0.1 to 0.2",
    "else, tilt above 0.2",
)


def group_of(cell: dict[str, Any]) -> int:
    """Return the group of a cell: a condition of a gain that is not met, or else its tilt."""
    of_samples, of_prototypes = cosines(cell)
    if of_samples < LEAST_OF_SAMPLES:
        return 0
    if of_prototypes > MOST_OF_PROTOTYPES:
        return 1
    return 2 + int(np.searchsorted(TILTS, cell["models"]["BPL0"]["tilt"]))


def gain(
    cell: dict[str, Any], name: str, *, over: str = "BPL0", measure: str = "score"
) -> np.ndarray:
    """Return the paired differences between two models, one per seed."""
    models = cell["models"]
    return np.subtract(models[name][measure], models[over][measure])


def draw_map(summary: Summary) -> Any:
    """Draw gains over BPL0 against the numbers of seen classes and of semantic dimensions."""
    from zonkey.display.drawing import new_figure

    seen, dimensions = summary["map"]["n_seen"], summary["map"]["n_dimensions"]
    cells = [[summary["cells"][slug] for slug in row] for row in summary["map"]["cells"]]
    figure = new_figure(13, 4.6)
    axes = figure.subplots(1, 3, sharey=True)
    titles = {
        "BPL, unscaled": "synthesis and competition, unscaled",
        "BPL0, centered": "no synthesis, features centered",
        "recommended": "recommended model",
    }
    images = []
    for axis, (model, title) in zip(axes, titles.items(), strict=True):
        found = np.array([[100 * gain(cell, model).mean() for cell in row] for row in cells])
        colors = {"cmap": "PuOr", "vmin": -60, "vmax": 60}
        images.append(axis.imshow(found, origin="lower", aspect="auto", **colors))
        for i, row in enumerate(cells):
            for j, cell in enumerate(row):
                base = 100 * np.mean(cell["models"]["BPL0"]["score"])
                text = f"{found[i, j]:+.1f}\n({base:.0f})"
                dark = abs(found[i, j]) > 38
                axis.text(
                    j, i, text, ha="center", va="center", fontsize=8, color="w" if dark else "k"
                )
        axis.set_xticks(range(len(seen)), [str(p) for p in seen])
        axis.set_yticks(range(len(dimensions)), [str(k) for k in dimensions])
        axis.set_xlabel("seen classes")
        axis.set_title(title, fontsize=11)
    axes[0].set_ylabel("semantic dimensions")
    figure.colorbar(images[0], ax=axes, label="gain over BPL0 (points)", shrink=0.9)
    figure.suptitle("Gain over BPL0 in points; in brackets, the accuracy of BPL0 in percent")
    return figure


def draw_factors(summary: Summary) -> Any:
    """Draw the accuracy of the models against each factor, one panel per base cell and factor."""
    from zonkey.display.drawing import add_grid, line_style, new_figure

    panels = [
        (base, name, values)
        for base, factors in summary["factors"].items()
        for name, values in factors.items()
    ]
    n_rows = -(-len(panels) // COLUMNS)
    figure = new_figure(11, 2.9 * n_rows)
    axes = figure.subplots(n_rows, COLUMNS, sharey=True, squeeze=False)
    for axis in axes.flat[len(panels) :]:
        axis.axis("off")
    for axis, (base, name, values) in zip(axes.flat, panels, strict=False):
        cells = [summary["cells"][slug] for slug in values.values()]
        for number, model in enumerate(LINES):
            # As many problems in every cell: cells of a panel share their random numbers.
            means = [100 * _scores(cell, model)[: summary["n_seeds"][0]].mean() for cell in cells]
            axis.plot(range(len(cells)), means, label=model, **line_style(number))
        axis.set_xticks(range(len(cells)), [SHOWN.get(value, value) for value in values])
        axis.set_title(f"shape of {base}: {FACTOR[name]}", fontsize=10)
        axis.set_ylim(0, 104)
        add_grid(axis)
    for axis in axes[:, 0]:
        axis.set_ylabel("accuracy on unseen classes (%)", fontsize=9)
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=6)
    return figure


def draw_rule(summary: Summary) -> Any:
    """Draw the gain of synthesis against the tilt of BPL0, one point per cell."""
    from zonkey.display.drawing import COLORS, MARKERS, add_grid, new_figure

    figure = new_figure(7.5, 4.4)
    axis = figure.subplots()
    kinds = ("samples without a common mean", "prototypes with a common part", "neither")
    for number, kind in enumerate(kinds):
        cells = [c for c in summary["cells"].values() if kinds[min(group_of(c), 2)] == kind]
        tilts = [cell["models"]["BPL0"]["tilt"] for cell in cells]
        gains = [100 * gain(cell, "BPL, unscaled").mean() for cell in cells]
        color, marker = COLORS[number], MARKERS[number]
        axis.plot(tilts, gains, marker, color=color, markeredgecolor="k", label=kind)
    axis.axhline(0, color="k", linewidth=0.8)
    for bound in TILTS:
        axis.axvline(bound, color="gray", linewidth=0.8, linestyle="--")
    axis.set_xscale("log")
    ticks = (0.05, 0.1, 0.2, 0.5, 1.0)
    axis.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axis.minorticks_off()
    axis.set_xlabel("tilt of BPL0")
    axis.set_ylabel("gain of BPL, unscaled (points over BPL0)")
    axis.legend(fontsize=8)
    add_grid(axis)
    return figure


def _save(figure: Any, path: Path) -> None:
    figure.savefig(path, dpi=80, metadata={"Software": None}, pil_kwargs={"optimize": True})


def _scores(cell: dict[str, Any], name: str) -> np.ndarray:
    return np.asarray(cell["models"][name]["score"])


def _mean_and_half(values: Any) -> tuple[float, float]:
    found = mean_confidence_interval(values)
    return found.mean, found.half_width


def _interval(values: Any) -> tuple[float, float]:
    mean, half = _mean_and_half(values)
    return mean - half, mean + half


def _percent(value: Any) -> str:
    return f"{100 * float(value):.1f}"


def _accuracy(cell: dict[str, Any], name: str) -> str:
    mean, half = _mean_and_half(100 * _scores(cell, name))
    return f"{mean:.1f} ± {half:.1f}"


def _shown_gain(cell: dict[str, Any], name: str) -> str:
    """Return the paired gain over BPL0, in bold if its interval excludes zero."""
    mean, half = _mean_and_half(100 * gain(cell, name))
    text = f"{mean:+.1f} ± {half:.1f}"
    return f"**{text}**" if abs(mean) > half else text


def _range(values: list[float]) -> str:
    return f"{np.median(values):+.1f} ({min(values):+.1f} to {max(values):+.1f})"


def _markdown(rows: list[dict[str, str]]) -> str:
    lines = ["| " + " | ".join(rows[0]) + " |", "|" + "---|" * len(rows[0])]
    return "\n".join(lines + ["| " + " | ".join(row.values()) + " |" for row in rows])
