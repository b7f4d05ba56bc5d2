"""Use an installed zonkey in a few seconds: packaged data, a fit, a prediction.

The wheel job of the CI runs this outside the source tree, with no optional dependency installed.
"""

from __future__ import annotations

from pathlib import Path

import zonkey
from zonkey import ZeroShotClassifier
from zonkey.datasets import load_emoji


def main() -> None:
    data = load_emoji()
    model = ZeroShotClassifier(data.prototypes, synthesis=None).fit(data.X_train, data.y_train)
    accuracy = model.score(data.X_test_unseen, data.y_test_unseen)
    chance = 1 / len(model.unseen_classes_)
    if accuracy < 10 * chance:
        raise SystemExit(
            f"Accuracy on unseen classes is {accuracy:.3f}, near chance ({chance:.3f})."
        )
    folder = Path(zonkey.__file__).parent
    if not list((folder / "demo" / "templates").glob("*.html")):
        raise SystemExit(f"{folder} has no templates: no page could be written.")
    if not (folder / "py.typed").exists():
        raise SystemExit(f"{folder} has no py.typed: type checkers would ignore the annotations.")
    print(f"zonkey in {folder}: accuracy on unseen classes {accuracy:.3f}, chance {chance:.3f}")


if __name__ == "__main__":
    main()
