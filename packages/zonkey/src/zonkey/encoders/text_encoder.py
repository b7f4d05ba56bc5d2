"""Texts to vectors, and classes described by texts to prototypes."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin

from ..arrays import to_numpy
from ..labels import format_value
from ..parameters import Constraint, Count, check_parameters
from ..prototypes import Prototypes
from .cache import check_cache, content_key, open_cache
from .class_texts import class_texts, warn_of_scripts
from .long_texts import Part, join_parts, split_texts, tell_split
from .registry import DEFAULT_TEXT
from .stored import StoredByNameMixin
from .texts import as_texts
from .weights import file_state

NAME_TEMPLATES = ("{}", "a photo of a {}")  # for pictures of classes that only have names

_loading = threading.Lock()


class TextEncoder(
    StoredByNameMixin, ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator
):
    """Turn texts into vectors of unit length, and descriptions of classes into prototypes.

    The weights are loaded at first use, shared by all encoders of the process, and never part of a
    pickle. The vector of a text that is longer than the model takes is the mean over its parts.

    The embedded model knows English only. "multilingual-minilm" knows 50 languages.

    Parameters
    ----------
    model : str or object, default="minilm-l6"
        Name of an encoder, see `list_encoders`; `onnx:PATH`, `transformers:NAME_OR_PATH` or
        `sentence-transformers:NAME_OR_PATH`; or any object whose method `encode` or `transform`
        turns a list of texts into a matrix.
    templates : str or list of str, default=None
        Sentences in which `{}` is replaced by the text, such as "a photo of a {}". The vector of a
        text is the mean over the templates.
    device : str, default="auto"
        "cpu", "cuda", "cuda:1", or "auto": CUDA if the runtime has it.
    batch_size : int, default=64
        Number of texts that are encoded at once.
    cache : bool, str or Path, default=None
        Folder of vectors that were computed before, by text and revision of the model. True:
        `features` in `$ZONKEY_CACHE`, else in the user's cache folder. None or False: no cache.

    Attributes
    ----------
    spec_ : dict
        What a model file keeps: name, revision, dimension and templates; `kind` "text"; and
        `space`, a name that the encoder of pictures of a pair such as CLIP has as well, else None.

    See Also
    --------
    zonkey.Prototypes : What `prototypes` returns.
    zonkey.encoders.class_texts.class_texts : Reads the texts of classes.

    Examples
    --------
    >>> import numpy as np
    >>> from zonkey.encoders.text_encoder import TextEncoder
    >>> class Letters:
    ...     def encode(self, texts):
    ...         return np.array([[text.count(letter) for letter in "aes"] for text in texts])
    >>> encoder = TextEncoder(Letters(), templates="a sea {}")
    >>> encoder.prototypes(["horse", "star"]).labels.tolist()
    ['horse', 'star']
    >>> print(encoder.transform(["star"]).round(2))
    [[0.8  0.27 0.53]]
    """

    __constraints__: ClassVar[dict[str, Constraint]] = {"batch_size": Count(1)}
    stored_parameters = ("batch_size",)

    def __init__(
        self,
        model: Any = DEFAULT_TEXT,
        *,
        templates: str | Sequence[str] | None = None,
        device: str = "auto",
        batch_size: int = 64,
        cache: bool | str | Path | None = None,
    ) -> None:
        self.model = model
        self.templates = templates
        self.device = device
        self.batch_size = batch_size
        self.cache = cache

    def fit(self, X: Any, y: Any = None) -> Self:  # noqa: ARG002
        """Check parameters and texts; nothing is learned.

        Parameters
        ----------
        X : array-like of str
            Texts.
        y : None
            Ignored.

        Returns
        -------
        TextEncoder
            The encoder itself.
        """
        self.check_parameters()
        as_texts(X)
        return self

    def check_parameters(self) -> None:
        """Refuse parameters of a wrong type or out of range."""
        self._check_templates()
        check_parameters(self)
        check_cache(self.cache)

    def transform(self, X: Any) -> np.ndarray:
        """Return the vectors of texts.

        Parameters
        ----------
        X : array-like of str, or path
            Texts: a list, an array, a Series, or one column of them; or a file of them, see
            `zonkey.encoders.texts.Texts`.

        Returns
        -------
        ndarray of shape (n_texts, n_features)
            Vectors of unit length, float32.
        """
        vectors, is_split = self.encode_texts(X)
        self.tell_split(int(is_split.sum()), len(vectors))
        return vectors

    def encode_texts(self, X: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return the vectors of texts, and which of them were split.

        Parameters
        ----------
        X : array-like of str
            Texts, as for `transform`.

        Returns
        -------
        vectors : ndarray of shape (n_texts, n_features)
            Vectors of unit length, float32.
        is_split : ndarray of bool, shape (n_texts,)
            Whether a text is longer than the model takes.
        """
        self.check_parameters()
        templates, backend, texts = self._check_templates(), self._backend(), as_texts(X)
        parts = [split_texts(texts, backend, template) for template in templates]
        by_text = zip(*parts, strict=True)
        is_split = np.array([any(len(found) > 1 for found in text) for text in by_text])
        cache = open_cache(self.cache, backend)
        if cache is None:
            return self._encode_parts(parts), is_split
        keys = [content_key(text.encode(), "text", templates) for text in texts]
        found, known = cache.get_many(keys)
        vectors = np.empty((len(texts), known.shape[1]), np.float32)
        vectors[found] = known
        rows = np.flatnonzero(~found)
        if len(rows):
            vectors[rows] = self._encode_parts([[one[row] for row in rows] for one in parts])
            cache.put_many([keys[row] for row in rows], vectors[rows])
        return vectors, is_split

    def _encode_parts(self, parts: list[list[list[Part]]]) -> np.ndarray:
        """Return vectors of texts, given the parts of each for every template."""
        encode, size = _encode_method(self._backend()), int(self.batch_size)
        total = 0.0
        for template, texts in zip(self._check_templates(), parts, strict=True):
            # Not with str.format: a text may hold braces.
            filled = [template.replace("{}", part) for text in texts for part, _ in text]
            vectors = _scale_to_unit(_encode_batches(encode, filled, size))
            total = total + _scale_to_unit(join_parts(vectors, texts))
        return _scale_to_unit(np.asarray(total))

    def tell_split(self, n: int, total: int) -> None:
        """Warn in one line that texts were split.

        Parameters
        ----------
        n : int
            How many; nothing is said of none.
        total : int
            Number of texts.
        """
        tell_split(n, total, self._backend())

    def prototypes(self, classes: Any) -> Prototypes:
        """Return prototypes of classes that texts describe.

        Parameters
        ----------
        classes : str, list, mapping, DataFrame, Path or ClassTexts
            Names, `{label: text or list of texts}`, a table, or a file of classes; see
            `class_texts`. Several texts of a class are averaged.

        Returns
        -------
        Prototypes
            A vector of unit length per class. With parents, inner nodes without a text have the
            mean of their children.
        """
        found = class_texts(classes)
        if getattr(self._backend(), "name", "") == DEFAULT_TEXT:
            warn_of_scripts(found)
        vectors = self.transform([text for texts in found.texts for text in texts])
        ends = np.cumsum([len(texts) for texts in found.texts])
        means = [part.mean(axis=0) for part in np.split(vectors, ends[:-1])]
        matrix = _scale_to_unit(np.stack(means))
        return Prototypes(found.labels, matrix, parents=found.parents).at_nodes()

    @property
    def spec_(self) -> dict[str, Any]:
        """Name, revision, dimension, templates, kind and space."""
        backend = self._backend()
        templates = None if self.templates is None else self._check_templates()
        return {
            "name": getattr(backend, "name", type(backend).__name__),
            "revision": getattr(backend, "revision", ""),
            "dimension": self._n_features_out,
            "templates": templates,
            "kind": "text",
            "space": getattr(backend, "space", None),
        }

    @property
    def _n_features_out(self) -> int:
        n_features = getattr(self._backend(), "n_features", None)
        return self.transform(["a"]).shape[1] if n_features is None else int(n_features)

    def _backend(self) -> Any:
        if not isinstance(self.model, str):
            return self.model
        with _loading:  # of several threads, one loads
            return _load_backend(self.model, self.device, file_state(self.model))

    def _check_templates(self) -> list[str]:
        given = self.templates
        templates = ["{}"] if given is None else [given] if isinstance(given, str) else list(given)
        for template in templates:
            if not isinstance(template, str) or template.count("{}") != 1:
                raise ValueError(
                    "`templates` must hold {} exactly once each, where the text goes; got "
                    f'{format_value(template)}. Write, for example, "a photo of a {{}}".'
                )
        if not templates:
            raise ValueError("`templates` must hold at least one; got none. Pass None for none.")
        return templates

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.string = tags.input_tags.one_d_array = True
        return tags


@lru_cache(maxsize=4)
def _load_backend(model: str, device: str, state: Any) -> Any:  # noqa: ARG001 - key of the cache
    from .registry import text_backend

    return text_backend(model, device)


def _encode_method(backend: Any) -> Any:
    for name in () if isinstance(backend, type) else ("encode", "transform"):
        if callable(getattr(backend, name, None)):
            return getattr(backend, name)
    raise TypeError(
        "`model` must be the name of an encoder, or an object with a method `encode` or "
        f"`transform`; got {format_value(backend)}. Pass a name such as 'minilm-l6'."
    )


def _encode_batches(encode: Any, texts: list[str], size: int) -> np.ndarray:
    """Encode texts of about the same length together: a batch is as long as its longest text."""
    order = sorted(range(len(texts)), key=lambda row: len(texts[row]))
    parts = []
    for start in range(0, len(texts), size):
        rows = order[start : start + size]
        part = to_numpy(encode([texts[row] for row in rows])).astype(np.float32)
        if part.ndim != 2 or len(part) != len(rows):
            raise ValueError(
                f"An encoder must return one vector per text; got shape {part.shape} for "
                f"{len(rows)} texts. Correct `model`."
            )
        bad = ~np.isfinite(part).all(axis=1)
        if bad.any():
            raise ValueError(
                f"Vectors must be finite; that of {format_value(texts[rows[int(np.argmax(bad))]])} "
                "is not. Shorten the text, or use another `model`."
            )
        parts.append(part)
    found = np.concatenate(parts)
    vectors = np.empty_like(found)
    vectors[order] = found
    return vectors


def _scale_to_unit(vectors: np.ndarray) -> np.ndarray:
    """Scale rows to unit length; zero rows stay zero."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors / np.where(lengths == 0, 1, lengths)
