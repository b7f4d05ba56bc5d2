"""Accuracy of the recommended model on features that are stored as float16 or int8.

int8 has one scale for all features, 127 / (largest absolute value), or one per feature. Features
are rounded and widened to float32 again, as if they were read from such files. Unseen classes of
the embedded emoji, and of CUB where its files are.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np

from recording import save, save_page, show
from zonkey import AnyShotClassifier
from zonkey.files.emoji import load_emoji
from zonkey_lab.datasets.xlsa17 import load_xlsa17


def forms(X: np.ndarray) -> dict[str, Any]:
    """Return what each form of storage makes of samples; scales are those of X."""
    whole = float(np.abs(X).max()) / 127
    each = np.maximum(np.abs(X).max(axis=0), 1e-12) / 127

    def rounded(scale: Any) -> Any:
        return lambda Z: (np.clip(np.rint(Z / scale), -127, 127) * scale).astype(np.float32)

    return {
        "float32": lambda Z: Z.astype(np.float32),
        "float16": lambda Z: Z.astype(np.float16).astype(np.float32),
        "int8, one scale": rounded(whole),
        "int8, scale per feature": rounded(each),
    }


def rows_of(name: str, data: Any) -> list[dict[str, Any]]:
    """Return the accuracy on unseen classes by form; parameters are those chosen on float32."""
    rows, chosen = [], {}
    for form, stored in forms(data.X_train).items():
        model = AnyShotClassifier(data.prototypes, candidates="unseen", **chosen)
        model.fit(stored(data.X_train), data.y_train)
        chosen = model.best_params_
        accuracy = model.score(stored(data.X_test_unseen), data.y_test_unseen)
        rows.append(
            {
                "data": name,
                "stored as": form,
                "bytes per value": {"float32": 4, "float16": 2}.get(form, 1),
                "accuracy (%)": round(100 * accuracy, 2),
            }
        )
        print(rows[-1], flush=True)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, help="folder of the CUB files")
    parser.add_argument("--write", action="store_true", help="write benchmarks/results")
    options = parser.parse_args()
    rows = rows_of("emoji", load_emoji())
    if options.data is not None:
        cub = load_xlsa17(options.data, features="efficientnet_lite0")
        show("CUB", rows_of("CUB", cub))  # research data: shown, not stored
    title = "Recommended model on narrow features"
    show(title, rows)
    save("narrow_features", {"rows": rows})
    if options.write:
        command = "python benchmarks/narrow_features.py --write"
        save_page("narrow_features", title, command, {"": rows})


if __name__ == "__main__":
    main()
