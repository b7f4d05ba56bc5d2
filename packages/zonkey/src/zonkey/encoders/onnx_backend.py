"""ONNX graphs of pictures and texts, run by onnxruntime; a small JSON says how to prepare input."""

from __future__ import annotations

import json
import math
import mmap
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import DataError
from ..files.dataset import did_you_mean
from ..files.readers import join_lines, read_text, require_existing
from ..optional import require_package
from ..threads import available_threads
from .weights import EXTERNAL, files_revision

_RESAMPLE = ("nearest", "box", "bilinear", "hamming", "bicubic", "lanczos")
_REDUCING_GAP = 3.0  # as good as exact resampling, and faster for large pictures
_LARGEST, _DEFAULT_SIZE = 8192, 224  # pixels
_LONGEST = 200  # characters that are quoted from an error
_TINY = 1e-12
_LOCATION = re.compile(rb"\x0a\x08location\x12([\x01-\x7f])", re.S)  # of external weights
_DTYPES = {"tensor(uint8)": "uint8", "tensor(float)": "float32"}
_MASKS = ("attention_mask", "token_type_ids")
_PAD_TOKENS = ("[PAD]", "<pad>", "<|endoftext|>")
_INTEGERS = {"tensor(int64)": np.int64, "tensor(int32)": np.int32}
_Rules = Mapping[str, tuple[Callable[[Any], bool], str]]


def _external_files(path: Path) -> list[Path]:
    """Return the files that hold weights of a graph, which names them as "location"."""
    named = {Path(f"{path}{ending}") for ending in EXTERNAL}
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        for found in _LOCATION.finditer(content):
            place = content[found.end() : found.end() + found[1][0]]
            named.add(path.parent / place.decode("utf-8", "replace"))
    return sorted(named)


def _allow_values(*values: str) -> tuple[Callable[[Any], bool], str]:
    return lambda value: value in values, f"one of {', '.join(values)}"


def _is_integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: Any) -> bool:
    return isinstance(value, float | int) and not isinstance(value, bool) and math.isfinite(value)


def _is_triple(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 3 and all(map(_is_number, value))


_TEXT = (lambda value: isinstance(value, str) and value != ""), "text"
_POSITIVE = (lambda value: _is_integer(value) and value > 0), "a positive integer"
_COMMON: _Rules = {
    **{"name": _TEXT, "license": _TEXT, "output": _TEXT, "space": _TEXT},
    "dimension": _POSITIVE,
}
_IMAGE_RULES: _Rules = {
    **_COMMON,
    "input": _TEXT,
    "size": (
        lambda value: _is_integer(value) and 0 < value <= _LARGEST,
        f"an integer from 1 to {_LARGEST}",
    ),
    "resize": _allow_values("crop", "squash", "pad"),
    "crop": (lambda value: _is_number(value) and 0 < value <= 1, "a number in (0, 1]"),
    "resample": _allow_values(*_RESAMPLE),
    "layout": _allow_values("nhwc", "nchw"),
    "dtype": _allow_values("uint8", "float32"),
    "scale": (lambda value: _is_number(value) and value > 0, "a positive number"),
    "mean": (_is_triple, "three numbers"),
    "std": (lambda value: _is_triple(value) and min(value) > 0, "three positive numbers"),
}
_TEXT_RULES: _Rules = {
    **_COMMON,
    "pooling": _allow_values("mean", "cls", "none"),
    "normalize": (lambda value: isinstance(value, bool), "true or false"),
    "max_tokens": _POSITIVE,
}


class OnnxImages:
    """Features of pictures by a graph with one input and one vector per picture.

    The JSON beside `model.onnx` is `model.json`; every key may be left out. `size`, `layout` and
    `dtype` are then those of the graph. `resize` is "crop" (a centered square, `crop` of the
    shorter side), "squash" (to a square), or "pad" (the whole picture on black). Values of float32
    are (pixel * `scale` - `mean`) / `std`; uint8 graphs get the pixels. A graph of texts with the
    same `space` gives vectors that can be compared.
    """

    def __init__(self, source: str, device: str, name: str | None = None) -> None:
        path = require_existing(Path(source).expanduser(), [".onnx"]).resolve()
        self.name, self.path = name or f"onnx:{path}", path
        settings = _settings(path, _IMAGE_RULES)
        self.space = settings.get("space")
        self._graph = _EncoderGraph(path, device, settings)
        self._read_layout(settings)
        self._resize = settings.get("resize", "crop")
        self._crop = settings.get("crop", 1.0)
        if self._crop != 1 and self._resize != "crop":
            raise _bad_setting(path, "crop", '1 unless `resize` is "crop"', self._crop)
        if self._dtype == "uint8" and settings.keys() & {"scale", "mean", "std"}:
            raise _bad_setting(path, "scale, mean and std", "left out with uint8 input", "them")
        self.size = math.ceil(self._side / self._crop)
        pillow = require_package("PIL.Image", "Reading pictures")
        self._new = pillow.new
        self._resample = pillow.Resampling[settings.get("resample", "bicubic").upper()]
        self._values = {"scale": 1 / 255, "mean": [0, 0, 0], "std": [1, 1, 1]}
        self._values |= {key: settings[key] for key in self._values.keys() & settings.keys()}
        std = np.array(self._values["std"], np.float64)
        self._factor = (self._values["scale"] / std).astype(np.float32)
        self._shift = (np.array(self._values["mean"]) / std).astype(np.float32)
        self.revision = self._graph.revision
        blank = self.prepare(self._new("RGB", (self._side, self._side)))
        self.n_features = self._graph.n_features(self.encode, np.stack([blank]))

    def _read_layout(self, settings: Mapping[str, Any]) -> None:
        """Read the size, layout and type of the input from the JSON or the graph."""
        node = self._graph.inputs[0]
        shape = node.shape
        alone = len(self._graph.inputs) == 1 and settings.get("input", node.name) == node.name
        if not alone or len(shape) != 4:
            raise self._graph.make_error("one input of shape (n, height, width, 3) or (n, 3, ...)")
        self._nchw = settings.get("layout", "nchw" if shape[1] == 3 else "nhwc") == "nchw"
        sides, channels = (shape[2:], shape[1]) if self._nchw else (shape[1:3], shape[3])
        fixed = {side for side in sides if isinstance(side, int)}
        self._side = settings.get("size", max(fixed, default=_DEFAULT_SIZE))
        self._dtype = _DTYPES.get(node.type)
        if (
            self._dtype is None
            or settings.get("dtype", self._dtype) != self._dtype
            or fixed - {self._side}
            or (isinstance(channels, int) and channels != 3)
        ):
            raise self._graph.make_error("square RGB input in uint8 or float32, as its JSON says")

    @property
    def preprocessing(self) -> dict[str, Any]:
        """What `prepare` does, in the words of the JSON."""
        return {
            "size": self._side,
            "resize": self._resize,
            "crop": self._crop,
            "resample": self._resample.name.lower(),
            "layout": "nchw" if self._nchw else "nhwc",
            "dtype": self._dtype,
            **(self._values if self._dtype == "float32" else {}),
        }

    @property
    def nodes(self) -> tuple[Any, Any]:
        """Input and output of the graph: name, type and shape."""
        return self._graph.inputs[0], self._graph.output

    def prepare(self, image: Any) -> np.ndarray:
        """Return an RGB image resized and laid out as the graph takes it."""
        pixels = np.asarray(self._resize_image(image))  # (size, size, 3)
        if self._dtype == "float32":
            pixels = pixels * self._factor - self._shift
        return np.ascontiguousarray(pixels.transpose(2, 0, 1)) if self._nchw else pixels

    def _resize_image(self, image: Any) -> Any:
        width, height = image.size
        side = self._side
        if self._resize == "pad":
            ratio = side / max(width, height)
            inner = (max(1, round(width * ratio)), max(1, round(height * ratio)))
            square = self._new("RGB", (side, side))
            content = image.resize(inner, self._resample, reducing_gap=_REDUCING_GAP)
            square.paste(content, ((side - inner[0]) // 2, (side - inner[1]) // 2))
            return square
        kept = (width, height) if self._resize == "squash" else (self._crop * min(image.size),) * 2
        left, top = (width - kept[0]) / 2, (height - kept[1]) / 2
        box = (left, top, left + kept[0], top + kept[1])
        return image.resize((side, side), self._resample, box, reducing_gap=_REDUCING_GAP)

    def encode(self, batch: np.ndarray) -> np.ndarray:
        """Return the features of a batch in float32."""
        output = self._graph.run({self._graph.inputs[0].name: batch})
        return output[..., 0, 0] if output.ndim == 4 and output.shape[2:] == (1, 1) else output


class OnnxTexts:
    """Vectors of texts by a graph that takes input_ids, and optionally masks of the same shape.

    The tokenizer is `model.tokenizer.json` or `tokenizer.json` beside `model.onnx`. Keys of
    `model.json`: `pooling` of the tokens ("none" if the graph pools them; by default "mean" if it
    does not), `normalize` to unit length (default true), `max_tokens` (default 256), `space` as for
    pictures.
    """

    def __init__(self, source: str, device: str, name: str | None = None) -> None:
        path = require_existing(Path(source).expanduser(), [".onnx"]).resolve()
        self.name = name or f"onnx:{path}"
        settings = _settings(path, _TEXT_RULES)
        self.space = settings.get("space")
        own, shared = path.with_suffix(".tokenizer.json"), path.with_name("tokenizer.json")
        file = require_existing(own if own.exists() else shared, [".json"])
        longest = settings.get("max_tokens", 256)
        self._tokenizer = _tokenizer(file, longest)
        self.max_tokens = longest - self._tokenizer.num_special_tokens_to_add(False)
        self._graph = _EncoderGraph(path, device, settings, file)
        self._types = {node.name: _INTEGERS.get(node.type) for node in self._graph.inputs}
        known = {"input_ids"} <= set(self._types) <= {"input_ids", *_MASKS}
        if not known or None in self._types.values():
            raise self._graph.make_error("input_ids, attention_mask and token_type_ids as inputs")
        rank = len(self._graph.output.shape)
        self._pooling = settings.get("pooling", "mean" if rank == 3 else "none")
        if rank != (2 if self._pooling == "none" else 3):
            raise self._graph.make_error(f"an output that pooling {self._pooling!r} fits")
        self._normalize = settings.get("normalize", True)
        self.revision = self._graph.revision
        self.n_features = self._graph.n_features(self.encode, ["a"])

    def encode(self, texts: list[str]) -> np.ndarray:
        """Return one vector per text in float32."""
        encoded = self._tokenizer.encode_batch(texts)
        ids = np.array([tokens.ids for tokens in encoded])
        mask = np.array([tokens.attention_mask for tokens in encoded])
        values = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
        vectors = self._graph.run(
            {name: values[name].astype(dtype) for name, dtype in self._types.items()}
        )
        if self._pooling == "cls":
            vectors = vectors[:, 0]
        elif self._pooling == "mean":  # (n, tokens, d)
            weight = mask[:, :, None].astype(np.float32)
            vectors = (vectors * weight).sum(1) / np.maximum(weight.sum(1), 1)
        if self._normalize:
            length = np.linalg.norm(vectors, axis=1, keepdims=True)
            vectors = vectors / np.maximum(length, _TINY)
        return vectors

    def count_tokens(self, texts: list[str]) -> list[int]:
        """Return the number of tokens of each text, without those around it."""
        found = self._tokenizer.encode_batch(texts, add_special_tokens=False)
        # What exceeds the longest text is in further parts.
        parts = ([tokens, *tokens.overflowing] for tokens in found)
        return [sum(sum(part.attention_mask) for part in text) for text in parts]


class _EncoderGraph:
    """A session of a graph on a device, with one output that is used."""

    def __init__(self, path: Path, device: str, settings: Mapping[str, Any], *more: Path) -> None:
        self._path, self._settings = path, settings
        beside = [path.with_suffix(".json"), *_external_files(path), *more]
        self.revision = files_revision([path, *(file for file in beside if file.exists())])
        self._session = _session(path, device)
        self.inputs = self._session.get_inputs()
        outputs = {node.name: node for node in self._session.get_outputs()}
        wanted = settings.get("output", next(iter(outputs)))
        if not self.inputs or wanted not in outputs:
            raise self.make_error(f"an input, and the output {wanted!r} that its JSON names")
        if "output" not in settings and len(outputs) > 1:
            raise self.make_error('one output, or the name of one as "output" in its JSON')
        self.output = outputs[wanted]
        self._batch = self.inputs[0].shape[0] if self.inputs[0].shape else None
        if isinstance(self._batch, int) and self._batch != 1:
            raise self.make_error("a batch of any size; export it with a dynamic first axis")

    def run(self, feeds: dict[str, np.ndarray]) -> np.ndarray:
        """Return the output in float32; a graph for single samples gets them one by one."""
        n_samples = len(next(iter(feeds.values())))
        if self._batch == 1 and n_samples > 1:
            parts = [{name: feeds[name][i : i + 1] for name in feeds} for i in range(n_samples)]
            return np.concatenate([self.run(part) for part in parts])
        return self._session.run([self.output.name], feeds)[0].astype(np.float32, copy=False)

    def n_features(self, encode: Callable[[Any], np.ndarray], probe: Any) -> int:
        """Return the length of the vector of one sample, or refuse the graph."""
        try:
            shape = encode(probe).shape
        except Exception as error:  # the runtime raises errors of any type
            reason = join_lines(error)[:_LONGEST]
            raise self.make_error(f"operators that run on one sample ({reason})") from None
        if len(shape) != 2 or shape[0] != 1:
            raise self.make_error("one vector per sample")
        if self._settings.get("dimension", shape[1]) != shape[1]:
            raise _bad_setting(self._path, "dimension", shape[1], self._settings["dimension"])
        return shape[1]

    def make_error(self, rule: str) -> DataError:
        """Return the error for a graph that breaks a rule."""
        session = self._session
        inputs, outputs = map(_describe_nodes, (session.get_inputs(), session.get_outputs()))
        return DataError(
            f"{self._path} must have {rule}; its inputs are {inputs}, its outputs {outputs}. "
            f"Export the graph so, or change {self._path.stem}.json."
        )


def _describe_nodes(nodes: Any) -> str:
    return ", ".join(
        f"{node.name} {node.type} ({', '.join(map(str, node.shape))})" for node in nodes
    )


def _session(path: Path, device: str) -> Any:
    runtime = require_package("onnxruntime", "An ONNX encoder")
    providers: list[Any] = ["CPUExecutionProvider"]
    available = "CUDAExecutionProvider" in runtime.get_available_providers()
    if device.startswith("cuda") and not available:
        raise ValueError(
            f"`device` must be one that onnxruntime has; got {device!r}, and it has no CUDA. Pass "
            "device='cpu', or install onnxruntime-gpu."
        )
    if device != "cpu" and available:
        number = int(device.partition(":")[2] or 0)
        providers.insert(0, ("CUDAExecutionProvider", {"device_id": number}))
    options = runtime.SessionOptions()
    options.log_severity_level = 3  # errors
    # The default is the number of cores of the machine, which a container may not have.
    options.intra_op_num_threads = available_threads()
    # Threads that wait must not keep a core busy: pictures are decoded at the same time. Without
    # spinning, a picture takes a fifth less CPU time; see benchmarks/results/encode_speed.md.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    try:
        return runtime.InferenceSession(str(path), options, providers=providers)
    except Exception as error:  # the runtime raises errors of any type
        raise DataError(
            f"{path} must be a whole ONNX graph; loading failed ({join_lines(error)[:_LONGEST]}). "
            "Export or download it again."
        ) from None


def _tokenizer(file: Path, max_tokens: int) -> Any:
    tokenizers = require_package("tokenizers", "An ONNX encoder of texts")
    try:
        tokenizer = tokenizers.Tokenizer.from_file(str(file))
    except Exception as error:  # the library raises bare exceptions
        raise DataError(
            f"{file} must be a file of tokenizers; reading failed "
            f"({join_lines(error)[:_LONGEST]}). Save it again."
        ) from None
    tokenizer.enable_truncation(max_tokens)
    padding = {**(tokenizer.padding or {}), "length": None}  # to the longest text of a batch
    if tokenizer.padding is None:
        known = [token for token in _PAD_TOKENS if tokenizer.token_to_id(token) is not None]
        padding["pad_id"] = tokenizer.token_to_id(known[0]) if known else 0
    tokenizer.enable_padding(**padding)
    return tokenizer


def _settings(path: Path, rules: _Rules) -> dict[str, Any]:
    """Return the values of the JSON beside a graph; null means the default."""
    file = path.with_suffix(".json")
    if not file.exists():
        return {}
    try:
        settings = json.loads(read_text(file))
    except json.JSONDecodeError as error:
        raise DataError(
            f"{file} must be JSON; line {error.lineno}: {error.msg}. Correct it."
        ) from None
    if not isinstance(settings, dict):
        raise DataError(f"{file} must be a JSON object; got {settings!r:.80}. Put it in braces.")
    given = {key: value for key, value in settings.items() if value is not None}
    for key, value in given.items():
        if key not in rules:
            remedy = did_you_mean(key, rules, "Remove the key.")
            raise DataError(
                f"{file} must have only the keys {', '.join(rules)}; got {key!r}. {remedy}"
            )
        holds, rule = rules[key]
        if not holds(value):
            raise _bad_setting(path, key, rule, value)
    return given


def _bad_setting(path: Path, key: str, rule: Any, value: Any) -> DataError:
    return DataError(
        f"{path.with_suffix('.json')}: `{key}` must be {rule}; got {value!r:.80}. Change the file."
    )
