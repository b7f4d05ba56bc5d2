"""Records: one JSON file per run, found again by what was run, and checked when read."""

from __future__ import annotations

import base64
import json
import math
import os
import re
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Any

from zonkey.environment import environment

if TYPE_CHECKING:
    import numpy as np

Record = dict[str, Any]
_MOST_BYTES = 1 << 28  # of a packed array
_POINTS_ASKED = ("grid", "n_points_more")  # settings that change no score of a point


class RecordError(ValueError):
    """Records that are missing or damaged; the message is one line with a remedy."""


@dataclass(frozen=True, order=True)
class Key:
    """Identity of a run."""

    protocol: str
    data: str
    model: str
    seed: int = 0

    @property
    def path(self) -> Path:
        """Path of the record, relative to the folder of all records."""
        return Path(self.protocol) / slug(self.data) / f"{slug(self.model)}.{self.seed}.json"


class Records:
    """A folder of records."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)

    def require_writable(self) -> None:
        """Make the folder, and fail before the work if nothing can be written to it."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            with TemporaryFile(dir=self.folder):
                pass
        except OSError as error:
            raise RecordError(
                f"The folder of records must be one to write to; {self.folder} is not "
                f"({error.strerror}). Choose another with --runs."
            ) from None

    def read(self, key: Key) -> Record | None:
        """Return the record of a run, if there is one."""
        try:
            record = json.loads((self.folder / key.path).read_text(encoding="utf-8"))
        except (
            FileNotFoundError,
            NotADirectoryError,
            ValueError,
        ):  # a record truncated by a crash counts as none
            return None
        return record if isinstance(record, dict) else None

    def find(self, key: Key, settings: dict[str, Any]) -> Record | None:
        """Return the record of a run, if it was made with these settings."""
        record = self.read(key)
        asked = json.loads(json.dumps(settings))
        return record if record is not None and record.get("settings") == asked else None

    def find_points(self, key: Key, settings: dict[str, Any]) -> Record | None:
        """Return the record of a selection that differs at most in the points it scored."""
        record = self.read(key)
        asked, made = (
            {name: value for name, value in found.items() if name not in _POINTS_ASKED}
            for found in (json.loads(json.dumps(settings)), (record or {}).get("settings", {}))
        )
        return record if asked == made else None

    def write_points(self, key: Key, settings: dict[str, Any], **content: Any) -> None:
        """Write what a selection has scored so far: `find_points` finds it, `find` does not."""
        known = {name: value for name, value in settings.items() if name not in _POINTS_ASKED}
        self.write(key, known, **content)

    def write(self, key: Key, settings: dict[str, Any], **content: Any) -> Record:
        """Write a record; the file is complete or absent."""
        record = {
            "protocol": key.protocol,
            "data_name": key.data,
            "model": key.model,
            "seed": key.seed,
            "settings": settings,
            **environment(),
            **content,
        }
        return self._put(key, record)

    def keep_for_citing(self, key: Key, record: Record, command: str) -> None:
        """Let a full run reuse the record of a quick run with the same settings."""
        if record.get("quick"):
            self._put(key, {**record, "command": command, "quick": False})

    def _put(self, key: Key, record: Record) -> Record:
        from zonkey.persistence.container import (
            write_whole,  # with NumPy, which `zonkey --help` does without
        )

        path = self.folder / key.path
        text = json.dumps(record, indent=1) + "\n"
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_whole(path, text.encode())
        except OSError as error:
            raise RecordError(
                f"A record must be written after each run; {path} cannot be ({error.strerror}). "
                "Free space, or choose another folder with --runs; the other records are kept."
            ) from None
        return json.loads(text)

    def __iter__(self) -> Iterator[Record]:
        return (record for _, record in self.items())

    def items(self) -> Iterator[tuple[Path, Record]]:
        """Yield the path and the content of every record."""
        for path in sorted(self.folder.glob("*/*/*.json")):
            try:
                yield path, json.loads(path.read_text(encoding="utf-8"))
            except ValueError:
                raise RecordError(
                    f"The record {path} must be JSON; it is damaged. Delete it, and run the bench "
                    "again."
                ) from None


def pack(array: np.ndarray) -> dict[str, Any]:
    """Return an array as compressed text for JSON."""
    import numpy as np

    array = np.ascontiguousarray(array)
    data = base64.b64encode(zlib.compress(array.tobytes(), 9)).decode()
    return {"dtype": array.dtype.str, "shape": list(array.shape), "data": data}


def unpack(packed: dict[str, Any]) -> np.ndarray:
    """Return the array that was packed."""
    import numpy as np

    dtype = np.dtype(packed["dtype"])
    n_bytes = math.prod(packed["shape"]) * dtype.itemsize
    if not 0 <= n_bytes <= _MOST_BYTES:
        raise ValueError(f"an array of {n_bytes} bytes")
    unzip = zlib.decompressobj()
    data = unzip.decompress(base64.b64decode(packed["data"]), n_bytes + 1)
    return np.frombuffer(data, dtype=dtype).reshape(packed["shape"])


# What a record must hold


@dataclass(frozen=True)
class Kind:
    """A kind of value: its name, and how to recognize it."""

    name: str
    accepts: Callable[[Any], bool]


def _is_number(value: Any, low: float = -math.inf, high: float = math.inf) -> bool:
    is_real = isinstance(value, int | float) and not isinstance(value, bool)
    return is_real and -1e300 < value < 1e300 and low <= value <= high


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and _is_number(value, 0, 2**53)


def _is_array(value: Any, low: float, high: float) -> bool:
    """Whether a value is a packed vector of numbers in an interval."""
    try:
        array = unpack(value)
    except (KeyError, TypeError, ValueError, OverflowError, MemoryError, zlib.error):
        return False
    is_vector = array.dtype.kind in "iuf" and array.ndim == 1 and array.size > 0
    return is_vector and bool(((array >= low) & (array <= high)).all())


def _is_list(value: Any, n: int) -> bool:
    return isinstance(value, list) and len(value) == n and all(map(_is_number, value))


def _is_choice(value: Any) -> bool:
    if not isinstance(value, dict):
        return False
    return all(math.isfinite(v) for v in value.values() if isinstance(v, int | float))


def _is_choice_by_shots(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and all(map(str.isdecimal, value))
        and all(map(_is_choice, value.values()))
    )


_SHARE = Kind("a number from 0 to 1", lambda value: _is_number(value, 0, 1 + 1e-9))
_COUNT = Kind("a whole number of at least 0", _is_count)
_NUMBER = Kind("a finite number", _is_number)
_POSITIVE = Kind("a number of at least 0", lambda value: _is_number(value, 0))
_TEXT = Kind("text", lambda value: isinstance(value, str))
_CODE = Kind("text or a number", lambda value: isinstance(value, str) or _is_number(value))
_OBJECT = Kind("an object", lambda value: isinstance(value, dict))
_CHOICE = Kind("an object without NaN and infinity", _is_choice)
_CHOICES = Kind("an object of objects, by number of shots", _is_choice_by_shots)
_POINT = Kind("two finite numbers", lambda value: _is_list(value, 2))
_NO = Kind("null", lambda value: value is None)
_BOOL = Kind("true or false", lambda value: isinstance(value, bool))
_SHARES = Kind("a packed array of numbers from 0 to 1", lambda value: _is_array(value, 0, 1 + 1e-9))
_CODES = Kind("a packed array of whole numbers", lambda value: _is_array(value, 0, 2**15))

# A list holds values of its first kind, a tuple names alternatives; "?" ends an optional name.
_RECORD: dict[str, Any] = {
    **dict.fromkeys(("protocol", "data_name", "model"), _TEXT),
    "seed": _COUNT,
    "settings": {
        "preset": _TEXT,
        "parameters?": _CHOICE,
        "parameters_by_shots?": _CHOICES,
        "zero_parameters?": (_CHOICE, _NO),
        "n_folds?": _COUNT,
        "n_points_more?": _COUNT,
        "n_trials?": (_COUNT, _NO),
        "start_of?": _TEXT,
    },
    "results": _OBJECT,
    "data": {
        **dict.fromkeys(("name", "sha256", "split"), _TEXT),
        **dict.fromkeys(("n_features", "n_seen", "n_unseen"), _COUNT),
        "n_samples": {"train": _COUNT, "test_unseen": _COUNT},
        **dict.fromkeys(("features?", "features_file?", "backbone_file?"), _TEXT),
    },
    "seconds": _POSITIVE,
    "peak_memory_mb?": (_POSITIVE, _NO),
    "command?": _TEXT,
    "versions": {"zonkey": _TEXT, "torch?": _TEXT},
    "machine": {"system": _TEXT, "cpus": (_COUNT, _NO), "gpu?": (_TEXT, _NO)},
}
_QUERIES = {"queries_fixed?": _BOOL}  # records that were made before lack it
_TRIALS = {**dict.fromkeys(("n_way", "n_shot", "n_query", "n_trials"), _COUNT), **_QUERIES}
_STEPS = {
    **dict.fromkeys(("n", "n_lowered", "n_indefinite"), _COUNT),
    **dict.fromkeys(("least_mu", "mean_mu"), _POSITIVE),
}
_COUNTED = Kind(
    "an object with counts and mu of steps", lambda value: not _fault(value, _STEPS, "")
)
_RESULTS: dict[str, dict[str, Any]] = {
    "zero-shot": {
        "zsl": _SHARE,
        **dict.fromkeys(("hit@5?", "acc_s?", "acc_u?", "hm?", "ausuc?", "hm_calibrated?"), _SHARE),
        "classes": [_CODE],
        "truth": _CODES,
        "predicted": _CODES,
        "mu?": [_POSITIVE],
        **dict.fromkeys(("n_lowered?", "n_indefinite?"), _COUNT),
        "moved?": _POSITIVE,
        "curve?": {"seen": [_SHARE], "unseen": [_SHARE]},
    },
    "selection": {
        "chosen": _CHOICE,
        "points": [{"parameters": _CHOICE, "scores": [_SHARE]}],
        "n_start?": _COUNT,
        "edges?": [_TEXT],
        "limits?": [_TEXT],
        "failed?": [{"parameters": _CHOICE, "error": _TEXT}],
    },
    "trials": {"accuracies": _SHARES, **_TRIALS, "steps?": _COUNTED},
    "unlabeled-trials": {
        **_TRIALS,
        **dict.fromkeys(("balanced?", "balanced_unlabeled?"), _SHARES),
        **dict.fromkeys(("unbalanced?", "unbalanced_unlabeled?"), _SHARES),
    },
    "unlabeled": {
        "zsl_unlabeled": _SHARE,
        **dict.fromkeys(("zsl?", "hm?", "hm_unlabeled?"), _SHARE),
    },
    "all-classes": {
        "shots": [_COUNT],
        "hit@1": [[_SHARE]],
        "hit@5": [[_SHARE]],
        "n_novel": _COUNT,
        **_QUERIES,
        "steps?": [(_COUNTED, _NO)],
    },
    "runtime": {
        "shots": [_COUNT],
        "seconds": [_POSITIVE],
        "n_timings?": [_COUNT],
        **dict.fromkeys(("base_mb?", "peak_mb?"), (_POSITIVE, _NO)),
    },
    "map": {
        "classes": [_CODE],
        "samples": [_POINT],
        "prototypes": [_POINT],
        "truth": [_COUNT],
        "predicted": [_COUNT],
        **dict.fromkeys(("compactness?", "centering?"), (_POSITIVE, _NO)),
    },
    "convergence": {
        "objective": [_NUMBER],
        "change": [_NUMBER],
        "steps?": [_COUNT],
        "zsl": [_SHARE],
    },
}
_RESULTS["sensitivity"] = _RESULTS["selection"]
# Lists of one length.
_TOGETHER: dict[str, tuple[tuple[str, ...], ...]] = {
    "runtime": (("shots", "seconds", "n_timings"),),
    "map": (("samples", "truth", "predicted"), ("classes", "prototypes")),
    "convergence": (("steps", "zsl"),),
    "all-classes": (("hit@1", "hit@5"), ("shots", "steps")),
}


def is_unfinished(record: Record) -> bool:
    """Whether a record holds the points that a selection has scored so far."""
    selects = record["protocol"].startswith("selection") or record["protocol"] == "sensitivity"
    return selects and not record["settings"].keys() & {*_POINTS_ASKED}


def problem_of(record: Any) -> str:
    """Return the fault of a record in one phrase; "" if a report can use it."""
    problem = _fault(record, _RECORD, "")
    if problem:
        return problem
    protocol = re.sub(r"(-all|-\d+)+$", "", record["protocol"])
    known = _RESULTS.get(protocol, {})
    return _fault(record["results"], known, "results.") or _find_inconsistency(record, protocol)


def _fault(value: Any, expected: Any, path: str) -> str:
    """Compare a value with what is expected; name the first field that differs."""
    name = path.rstrip(".")
    if isinstance(expected, dict):
        if not isinstance(value, dict):
            rule = f"`{name}` must be an object; it is {_format_value(value)}"
            return rule if name else "it is not a JSON object"
        for key, part in expected.items():
            plain = key.removesuffix("?")
            if plain not in value and plain == key:
                return f"it has no `{path}{plain}`"
            problem = _fault(value[plain], part, f"{path}{plain}.") if plain in value else ""
            if problem:
                return problem
        return ""
    if isinstance(expected, list):
        if not isinstance(value, list):
            return f"`{name}` must be a list; it is {_format_value(value)}"
        found = (_fault(v, expected[0], f"{name}[{i}].") for i, v in enumerate(value))
        return next((problem for problem in found if problem), "")
    kinds = expected if isinstance(expected, tuple) else (expected,)
    if any(kind.accepts(value) for kind in kinds):
        return ""
    rule = " or ".join(kind.name for kind in kinds)
    return f"`{name}` must be {rule}; it is {_format_value(value)}"


def _find_inconsistency(record: Record, protocol: str) -> str:
    """Name fields that contradict each other."""
    results = record["results"]
    settings = record["settings"]
    if protocol == "selection" and results["points"] and not {"n_folds", "n_trials"} & {*settings}:
        return "it has no `settings.n_trials`"
    if protocol == "zero-shot":
        truth, predicted = unpack(results["truth"]), unpack(results["predicted"])
        n = len(results["classes"])
        if len(truth) != len(predicted) or max(truth.max(), predicted.max()) >= n:
            return "`results.truth` and `results.predicted` must be positions in `results.classes`"
    if protocol == "convergence" and len(results["objective"]) != len(results["change"]) + 1:
        return "`results.objective` must have one entry more than `results.change`"
    for names in _TOGETHER.get(protocol, ()):
        lengths = {name: len(results[name]) for name in names if name in results}
        if "hit@1" not in lengths and protocol == "all-classes":  # a column per number of shots
            for name in ("hit@1", "hit@5"):
                lengths |= {f"{name}[{i}]": len(row) for i, row in enumerate(results[name])}
        first, *others = lengths
        odd = next((name for name in others if lengths[name] != lengths[first]), None)
        if odd is not None:
            return (
                f"`results.{odd}` must be as long as `results.{first}`, {lengths[first]}; it has "
                f"{lengths[odd]} entries"
            )
    return ""


def _format_value(value: Any) -> str:
    text = " ".join(repr(value).split())
    return text if len(text) <= 40 else f"{text[:37]}..."


def slug(name: str) -> str:
    """Return a name as part of a path."""
    return re.sub(r"[^a-z0-9@=]+", "-", name.lower()).strip("-")
