"""Pictures to features: decoding in threads beside inference, and a cache on disk."""

from __future__ import annotations

import hashlib
import threading
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.pipeline import Pipeline

from ..labels import format_value, warn_user
from ..parameters import Constraint, Count, Options, check_parameters
from ..threads import available_threads
from .cache import FeatureCache, check_cache, content_key, file_place, open_cache
from .registry import DEFAULT_IMAGE, ImageBackend
from .stored import StoredByNameMixin
from .weights import file_state

if TYPE_CHECKING:
    from .collection import Pictures
    from .pictures import PictureError

_MOST_THREADS = 8  # by default; more than a model of pictures can use
_BATCHES_AHEAD = 2  # decoded while another one is encoded
_MOST_LATE = 32  # batches from the cache after which a picture that is not in it is encoded
_PROBE = 224  # pixels of the picture that shows the number of features

_backends: dict[tuple[str, str], tuple[Any, ImageBackend]] = {}  # with the state of their files
_loading = threading.Lock()


@dataclass(frozen=True)
class PictureBlock:
    """Features of some pictures of a collection."""

    rows: np.ndarray  # positions of the pictures
    X: np.ndarray  # float32, (n, n_features)
    errors: list[PictureError]  # of pictures that could not be read, which have no row
    n_cached: int  # number of features that came from the cache
    failed: np.ndarray = field(default_factory=lambda: np.empty(0, np.intp))  # positions of those


class _Source(NamedTuple):
    """What threads need to prepare a picture."""

    pictures: Pictures
    backend: Any
    cache: FeatureCache | None


class _Ready(NamedTuple):
    """A picture that was read: its features if they were stored, else a sample of a batch."""

    key: bytes = b""  # without a cache
    row: np.ndarray | None = None
    sample: Any = None
    error: PictureError | None = None


class _Pending(NamedTuple):
    position: int
    place: bytes | None
    future: Future[_Ready]


class ImageEncoder(
    StoredByNameMixin, ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator
):
    """Turn pictures into features with a pretrained model.

    There is nothing to fit. The model is loaded at first use, shared by all encoders of the
    process, and never part of a pickle.

    Parameters
    ----------
    model : str or object, default="efficientnet-lite0"
        Name from `list_encoders`, "onnx:PATH", "transformers:NAME_OR_PATH", or any object whose
        method `transform` turns a list of RGB images (PIL) into an array with one row per image.
        Its features can be cached if it has an attribute `revision`, a text that differs whenever
        its results do.
    device : str, default="auto"
        "cpu", "cuda", "cuda:1", or "auto": CUDA if available. Ignored for objects.
    batch_size : int, default=32
        Number of pictures that are encoded at once. Memory holds about three batches.
    cache : bool, str or Path, default=None
        Folder of features that were computed before, by content of the picture and revision of
        the model. True: `features` in `$ZONKEY_CACHE`, else in the user's cache folder. None or
        False: no cache.
    n_jobs : int, default=None
        Number of threads that read and decode pictures. None: one per CPU, at most 8. -1: one per
        CPU.
    on_error : {"raise", "nan"}, default="raise"
        What happens if a picture cannot be read. "nan": its features are NaN, and one warning
        counts them.

    Attributes
    ----------
    spec_ : dict
        Name, revision and dimension of the model, `kind` "image", and `space`: a name that the
        encoder of texts of a pair such as CLIP has as well, else None.

    See Also
    --------
    zonkey.encoders.list_encoders : Names of models.

    Notes
    -----
    While a batch is encoded, threads read and decode the next ones. Memory does not depend on the
    number of pictures, except for the features themselves, which `blocks` gives in parts.

    The cache finds a file that has not changed since (path, size, times of change) without
    reading it, and any other picture by a hash of its content. Features are written after each
    batch. Several processes can use one folder.

    Examples
    --------
    >>> import numpy as np
    >>> from zonkey.encoders.image_encoder import ImageEncoder
    >>> class MeanColor:
    ...     def transform(self, images):
    ...         return np.array([np.asarray(image).mean(axis=(0, 1)) for image in images])
    >>> red = np.zeros((8, 8, 3), np.uint8)
    >>> red[:, :, 0] = 255
    >>> ImageEncoder(MeanColor()).transform([red])
    array([[255.,   0.,   0.]], dtype=float32)
    """

    __constraints__: ClassVar[dict[str, Constraint]] = {
        "batch_size": Count(1),
        "n_jobs": Count(1, also=(None, -1)),
        "on_error": Options("raise", "nan"),
    }
    stored_parameters = ("batch_size", "on_error")

    def __init__(
        self,
        model: Any = DEFAULT_IMAGE,
        *,
        device: str = "auto",
        batch_size: int = 32,
        cache: bool | str | Path | None = None,
        n_jobs: int | None = None,
        on_error: str = "raise",
    ) -> None:
        self.model = model
        self.device = device
        self.batch_size = batch_size
        self.cache = cache
        self.n_jobs = n_jobs
        self.on_error = on_error

    @property
    def spec_(self) -> dict[str, Any]:
        """Name, revision and dimension of the model, which is loaded if it was not yet."""
        backend = self._backend()
        return {
            "name": backend.name,
            "revision": backend.revision,
            "dimension": backend.n_features,
            "kind": "image",
            "space": getattr(backend, "space", None),
        }

    @property
    def _n_features_out(self) -> int:
        return self._backend().n_features

    def fit(self, X: Any = None, y: Any = None) -> ImageEncoder:  # noqa: ARG002
        """Check the parameters.

        Parameters
        ----------
        X : None
            Ignored; present for API consistency.
        y : None
            Ignored; present for API consistency.

        Returns
        -------
        ImageEncoder
            The encoder itself.
        """
        self.check_parameters()
        return self

    def transform(self, X: Any) -> np.ndarray:
        """Return the features of pictures.

        Parameters
        ----------
        X : Pictures, path, list of pictures or Dask bag
            Anything that `Pictures.of` accepts: a folder, an archive, a table with paths, or a
            list of paths, bytes, PIL images or arrays. Or a Dask bag of such pictures, whose
            partitions are encoded where they live; each worker loads the model itself.

        Returns
        -------
        ndarray of shape (n_pictures, n_features)
            Features, float32; of a bag, a lazy Dask array.
        """
        from .collection import Pictures

        self.check_parameters()
        if type(X).__module__.startswith("dask.bag"):
            return self._transform_bag(X)
        pictures, backend = Pictures.of(X), self._backend()
        features = np.full((len(pictures), backend.n_features), np.nan, np.float32)
        errors: list[PictureError] = []
        for block in self._blocks(pictures, backend):
            features[block.rows] = block.X
            errors += block.errors
        if errors:
            warn_user(
                f"Pictures should be readable; {len(errors)} of {len(pictures)} are not, and their "
                f"features are NaN. The first: {errors[0]}"
            )
        return features

    def _transform_bag(self, bag: Any) -> Any:
        """Return the features of a Dask bag, with as many chunks as it has partitions."""
        import dask.array as da
        from dask.delayed import delayed

        d = self._backend().n_features
        once = delayed(self, traverse=False)
        encoded = delayed(_partition)
        parts = [encoded(once, part, d) for part in bag.to_delayed()]
        blocks = [da.from_delayed(part, (np.nan, d), np.float32) for part in parts]
        return da.concatenate(blocks, allow_unknown_chunksizes=True)

    def blocks(self, pictures: Pictures) -> Iterator[PictureBlock]:
        """Yield features in parts; each picture is in one of them.

        Features from the cache may come before those of earlier pictures, but not before more
        than 34 batches of them.

        Parameters
        ----------
        pictures : Pictures
            The pictures.

        Yields
        ------
        PictureBlock
            Features of at most `batch_size` pictures. With `on_error="nan"`, it lists pictures
            that cannot be read, which have no row.
        """
        self.check_parameters()
        yield from self._blocks(pictures, self._backend())

    def _blocks(self, pictures: Pictures, backend: Any) -> Iterator[PictureBlock]:
        source = _Source(pictures, backend, open_cache(self.cache, backend))
        positions, size = range(len(pictures)), int(self.batch_size)
        ahead: deque[_Pending] = deque()
        pool = ThreadPoolExecutor(self._n_threads(), thread_name_prefix="zonkey-pictures")
        try:
            for start in range(0, len(pictures), size):
                stored, missing = _submit(source, positions[start : start + size], pool)
                ahead += missing
                if stored is not None:
                    yield stored
                while len(ahead) > _BATCHES_AHEAD * size or (
                    ahead and start - ahead[0].position >= _MOST_LATE * size
                ):
                    yield self._encode_batch(source, _pop_first(ahead, size))
            while ahead:
                yield self._encode_batch(source, _pop_first(ahead, size))
        finally:  # also after an error, on Ctrl-C, and if the caller stops early
            pool.shutdown(cancel_futures=True)

    def _encode_batch(self, source: _Source, batch: list[_Pending]) -> PictureBlock:
        """Wait for pictures, encode those whose features were not stored, and store them."""
        backend, cache = source.backend, source.cache
        errors: list[PictureError] = []
        failed: list[int] = []
        known: list[tuple[_Pending, _Ready]] = []
        new: list[tuple[_Pending, _Ready]] = []
        for pending in batch:
            ready = pending.future.result()
            if ready.error is not None:
                if self.on_error == "raise":
                    raise ready.error
                errors.append(ready.error)
                failed.append(pending.position)
            else:
                (new if ready.row is None else known).append((pending, ready))
        X = np.empty((len(known) + len(new), backend.n_features), np.float32)
        for i, (_, ready) in enumerate(known):
            X[i] = ready.row
        if new:
            samples = [ready.sample for _, ready in new]
            is_array = isinstance(samples[0], np.ndarray)
            X[len(known) :] = backend.encode(np.stack(samples) if is_array else samples)
        done = [*known, *new]
        if cache is not None:
            places = {pending.place: ready.key for pending, ready in done if pending.place}
            cache.put_many([ready.key for _, ready in new], X[len(known) :], places)
        rows = np.array([pending.position for pending, _ in done], dtype=np.intp)
        order = np.argsort(rows)
        return PictureBlock(rows[order], X[order], errors, len(known), np.array(failed, np.intp))

    def check_parameters(self) -> None:
        """Refuse parameters of a wrong type or out of range."""
        is_object = hasattr(self.model, "transform") and not isinstance(self.model, type)
        if not (isinstance(self.model, str) or is_object):
            raise TypeError(
                "`model` must be the name of an encoder, or an object with `transform`; got "
                f"{format_value(self.model)}. Choose a name from list_encoders()."
            )
        check_parameters(self)
        check_cache(self.cache)

    def _n_threads(self) -> int:
        if self.n_jobs is None:
            return min(_MOST_THREADS, available_threads())
        return available_threads() if self.n_jobs == -1 else int(self.n_jobs)

    def _backend(self) -> ImageBackend | _ObjectBackend:
        is_named = isinstance(self.model, str)
        return load_backend(self.model, self.device) if is_named else _ObjectBackend(self.model)


class _ObjectBackend:
    """A backend made of any object with `transform`; its samples are RGB images."""

    def __init__(self, model: Any) -> None:
        self._model = model
        self.name = type(model).__name__
        self.has_revision = isinstance(getattr(model, "revision", None), str)
        described = repr(model).encode()
        found = hashlib.blake2b(described, digest_size=8).hexdigest()
        self.revision: str = model.revision if self.has_revision else found

    @cached_property
    def n_features(self) -> int:
        from PIL import Image

        return self.encode([Image.new("RGB", (_PROBE, _PROBE))]).shape[1]

    def prepare(self, image: Any) -> Any:
        return image

    def encode(self, batch: Any) -> np.ndarray:
        X = np.asarray(self._model.transform(list(batch)), dtype=np.float32)
        if X.ndim != 2 or len(X) != len(batch):
            raise ValueError(
                f"{self.name}.transform must return one row per image; got shape {X.shape} for "
                f"{len(batch)} images. Flatten the features of each image."
            )
        return X


def split_encoder(model: Any) -> tuple[ImageEncoder | None, Any]:
    """Return the encoder that a pipeline starts with, None if it does not, and the rest."""
    if isinstance(model, Pipeline) and isinstance(model.steps[0][1], ImageEncoder):
        if len(model.steps) == 1:
            raise ValueError(
                "A pipeline must have a classifier behind its encoder; got the encoder alone. Add "
                "one."
            )
        return model.steps[0][1], model[1:]
    return None, model


def _partition(encoder: ImageEncoder, pictures: Any, n_features: int) -> np.ndarray:
    """Return the features of some pictures of a bag (possibly none)."""
    pictures = list(pictures)
    return encoder.transform(pictures) if pictures else np.empty((0, n_features), np.float32)


def load_backend(model: str, device: str) -> ImageBackend:
    """Return the backend of a model, loaded once per process while its files stay the same."""
    from .registry import image_backend

    name, state = (model, device), file_state(model)
    with _loading:  # two threads must not load the same weights
        if name not in _backends or _backends[name][0] != state:
            _backends[name] = state, image_backend(*name)
        return _backends[name][1]


def _pop_first(ahead: deque[_Pending], size: int) -> list[_Pending]:
    return [ahead.popleft() for _ in range(min(size, len(ahead)))]


def _submit(
    source: _Source, positions: range, pool: ThreadPoolExecutor
) -> tuple[PictureBlock | None, list[_Pending]]:
    """Return features of files that have not changed since; let threads read the others."""
    places: list[bytes | None] = [None] * len(positions)
    found, block = np.zeros(len(positions), dtype=bool), None
    if source.cache is not None:
        places = [_place(source.pictures, i) for i in positions]
        found, X = source.cache.get_many(source.cache.keys_of(places))
        if found.any():
            block = PictureBlock(np.array(positions)[found], X, [], len(X))
    missing = [
        _Pending(i, place, pool.submit(_read, source, i))
        for i, place, is_stored in zip(positions, places, found, strict=True)
        if not is_stored
    ]
    return block, missing


def _place(pictures: Pictures, i: int) -> bytes | None:
    key, source = pictures.keys[i], getattr(pictures.files, "path", None)
    if not isinstance(key, str | Path):  # bytes or pixels
        return None
    if source is None:
        return file_place(Path(key))
    return file_place(source / key) if source.is_dir() else file_place(source, str(key))


def _read(source: _Source, i: int) -> _Ready:
    """Read a picture, and decode it unless its features are stored."""
    from .pictures import PictureError, open_picture

    pictures, backend, cache = source
    key = b""
    try:
        content = pictures.read(i)
        if cache is not None and isinstance(content, bytes | bytearray | memoryview):
            key = content_key(content)
            row = _look_up(cache, key)
            if row is not None:
                return _Ready(key, row)
        image = open_picture(content, pictures.names[i], at_least=getattr(backend, "size", None))
    except PictureError as error:
        return _Ready(error=error)
    if cache is not None and not key:  # the content is pixels
        key = content_key(image.tobytes(), image.size)
        row = _look_up(cache, key)
        if row is not None:
            return _Ready(key, row)
    return _Ready(key, sample=backend.prepare(image))


def _look_up(cache: FeatureCache, key: bytes) -> np.ndarray | None:
    found, rows = cache.get_many([key])
    return rows[0] if found[0] else None
