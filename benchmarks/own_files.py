"""Walk from your own files to answers through the command line, and print times and sizes.

    python benchmarks/own_files.py [--data cub|emoji] [--folder FOLDER]

Writes features.parquet and prototypes.csv of CUB (from $ZONKEY_DATA) or of the embedded emoji, then
calls nothing but `zonkey`: check, fit, info, predict, evaluate, explain, classes, export. Finally,
onnxruntime must give the labels and probabilities of `zonkey predict`.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from mini_imagenet import folder
from recording import show
from zonkey.files.dataset import Dataset
from zonkey.files.emoji import load_emoji
from zonkey_lab.datasets.xlsa17 import load_xlsa17

_TOLERANCE = 1e-5  # of probabilities, which are written with six digits
_CLOSE = 1e-4  # margin of two best classes below which float32 may prefer either


def load(name: str) -> Dataset:
    if name == "emoji":
        return load_emoji()
    cub = folder().parent / "xlsa17" / "data" / "CUB"
    for features in ("res101", "efficientnet_lite0"):
        if (cub / f"{features}.mat").exists():
            return load_xlsa17(cub, features=features)
    raise SystemExit(f"No CUB features in {cub}; set ZONKEY_DATA, or run with --data emoji.")


def write_files(data: Dataset, place: Path) -> None:
    """Write the data as a user would have it: one table of samples, one of prototypes."""
    names = [f"f{i}" for i in range(data.shape[1])]
    frame = pd.DataFrame(np.asarray(data.X, dtype=np.float32), columns=names)
    marks = np.full(len(frame), "", dtype=object)
    marks[data.split.train] = "train"
    for part in (data.split.test_seen, data.split.test_unseen):
        marks[part] = "test"
    frame.insert(0, "id", [f"image {i}" for i in range(len(frame))])
    frame.insert(1, "label", data.y)
    frame.insert(2, "split", marks)
    frame = frame[marks != ""]
    frame.to_parquet(place / "features.parquet", index=False)
    unlabeled = frame[frame["split"] == "test"].drop(columns=["label", "split"])
    unlabeled.to_parquet(place / "new.parquet", index=False)
    prototypes = data.prototypes
    frame = pd.DataFrame(prototypes.matrix, columns=prototypes.dimension_names)
    frame.columns = [f"attribute {name}" for name in frame.columns]
    frame.insert(0, "class", prototypes.labels)
    frame.to_csv(place / "prototypes.csv", index=False)


def steps() -> list[tuple[str, list[str], str]]:
    """Return the name, the command and the file of every step."""
    model = "model.zonkey"
    return [
        ("check", ["data", "check", "features.parquet", "prototypes.csv", "--json"], ""),
        ("fit", ["fit", "features.parquet", "prototypes.csv", "--candidates", "all",
                 "-o", model, "--json"], model),
        ("info", ["info", model, "--card", "card.md", "--json"], "card.md"),
        ("predict", ["predict", model, "new.parquet", "--top", "5", "--proba",
                     "-o", "predictions.csv", "--json"], "predictions.csv"),
        ("evaluate", ["evaluate", model, "features.parquet", "--html", "page.html", "--json"],
         "page.html"),
        ("explain", ["explain", model, "new.parquet", "--row", "17", "--plot", "why.png",
                     "--json"], "why.png"),
        ("add a class", ["classes", "add", model, "more.csv", "-o", "more.zonkey", "--json"],
         "more.zonkey"),
        ("export", ["export", model, "--onnx", "model.onnx", "--json"], "model.onnx"),
    ]  # fmt: skip


def run(place: Path, arguments: list[str]) -> tuple[Any, float]:
    """Return what a command answers in JSON, and its seconds, start of Python included."""
    started = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", "zonkey", *arguments],
        cwd=place,
        stdout=subprocess.PIPE,  # stderr stays here, with the progress
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"zonkey {' '.join(arguments)} failed with {done.returncode}.")
    return json.loads(done.stdout), time.perf_counter() - started


def check_graph(place: Path) -> tuple[str, float]:
    """Compare the exported graph with the predictions in the table."""
    import onnxruntime

    started = time.perf_counter()
    X = pd.read_parquet(place / "new.parquet").filter(regex=r"^f\d+$").to_numpy(np.float32)
    session = onnxruntime.InferenceSession(place / "model.onnx")
    names = [output.name for output in session.get_outputs()]
    found = dict(zip(names, session.run(None, {"features": X}), strict=True))
    seconds = time.perf_counter() - started
    table = pd.read_csv(place / "predictions.csv", keep_default_na=False)
    P = table[[f"proba_{i}" for i in range(1, 6)]].to_numpy()
    worst = float(np.abs(found["top_probabilities"] - P).max())
    differ = found["label"] != table["predicted"].to_numpy(dtype=str)
    tied = P[:, 0] - P[:, 1] < _CLOSE
    if worst > _TOLERANCE or (differ & ~tied).any():
        raise SystemExit(f"onnxruntime differs: {differ.sum()} labels, probabilities by {worst}.")
    return f"{len(X)} rows, {differ.sum()} other labels, {worst:.0e} in probabilities", seconds


def described(name: str, answer: Any) -> str:
    """Return what is worth saying of the answer of a step."""
    if name == "fit":
        summary = answer["summary"]
        scores = ", ".join(f"{value:.3f}" for value in summary["scores"].values())
        return f"{summary['n_seen']} seen, {summary['n_unseen']} unseen, held-out score {scores}"
    if name == "predict":
        return f"{answer['rows']} rows"
    if name == "evaluate":
        figures = {key: answer["scores"].get(key) for key in ("accuracy_unseen", "hm")}
        return ", ".join(
            f"{key} {value:.3f}" for key, value in figures.items() if value is not None
        )
    if name == "add a class":
        return f"{answer['classes']} classes"
    return ""


def walk(data: Dataset, place: Path) -> None:
    write_files(data, place)
    first = pd.read_csv(place / "prototypes.csv").iloc[:1].assign(**{"class": "one more"})
    first.iloc[:, 1:] *= 1.01
    first.to_csv(place / "more.csv", index=False)
    rows = []
    for name, arguments, file in steps():
        answer, seconds = run(place, arguments)
        size = (place / file).stat().st_size / 1e6 if file else 0.0
        row = {"step": name, "seconds": round(seconds, 1), "file": file}
        rows.append(row | {"MB": round(size, 2), "what": described(name, answer)})
    what, seconds = check_graph(place)
    rows.append(
        {"step": "onnxruntime", "seconds": round(seconds, 1), "file": "", "MB": 0.0, "what": what}
    )
    show(f"{data.name}: {data.shape[0]} samples of {data.shape[1]} features", rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", choices=("cub", "emoji"), default="cub")
    parser.add_argument("--folder", type=Path, help="keep the files there")
    options = parser.parse_args()
    data = load(options.data)
    place = options.folder or Path(tempfile.mkdtemp())
    place.mkdir(parents=True, exist_ok=True)
    try:
        walk(data, place)
    finally:
        if options.folder is None:
            shutil.rmtree(place)


if __name__ == "__main__":
    main()
