"""Sources of samples and classes: pictures and texts are encoded, numbers are read as they are."""

from __future__ import annotations

import json
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..encoders import ClassTexts, ImageEncoder, TextEncoder, class_texts
from ..encoders.class_texts import has_column, has_texts, speak_label
from ..encoders.collection import is_pictures
from ..encoders.registry import DEFAULT_IMAGE, DEFAULT_TEXT
from ..encoders.stream import PictureStream
from ..encoders.text_encoder import NAME_TEMPLATES
from ..errors import DataError, Problem, reword
from ..files.classes import examine_prototypes
from ..files.readers import stored_arrays
from ..files.streams import FeatureStream
from ..labels import format_value
from ..prototypes import Prototypes

Stream = FeatureStream | PictureStream

# Entries of the training facts of a model file
ENCODER, TEXT_ENCODER, TEXT_COLUMNS = "encoder", "text_encoder", "text_columns"
# Parameters that pictures do not have
_OF_FEATURES = ("labels", "features_key", "labels_key", "feature_columns", "id_columns")


@dataclass(frozen=True, eq=False)
class Encoders:
    """The encoders of a command, which are loaded at first use.

    With a model, they must be those of its training, which `facts` names. Without one, they may be
    chosen; `facts` then says which were used.
    """

    model: str | None = None  # name of its file
    facts: dict[str, Any] = field(default_factory=dict)
    encoder: str | None = None
    text_encoder: str | None = None
    templates: list[str] | None = None
    text_columns: list[str] | None = None
    on_error: str = "raise"  # or "skip"
    cache: bool = True

    def stream(
        self,
        source: str | Path,
        *,
        with_labels: bool = False,
        label_column: str | None = None,
        n_features: int | None = None,
        **options: Any,
    ) -> Stream:
        """Return the samples of a source; further options are those of `FeatureStream`."""
        wanted = {"with_labels": with_labels, "label_column": label_column}
        if not is_pictures(source):
            if self.model is not None:
                check_encoder(self.encoder, source)
            self._check_embedded(ENCODER, source)
            return FeatureStream(source, n_features=n_features, **wanted, **options)
        given = [name for name in _OF_FEATURES if options.get(name)]
        if given:
            raise Problem(
                f"`{given[0]}`",
                "must be left out for pictures",
                f"got {format_value(str(options[given[0]]))}",
                "Put the pictures of a class into one folder.",
                option=given[0],
            )
        encoder = self.images()
        spec = encoder.spec_
        if n_features not in (None, spec["dimension"]):
            raise Problem(
                "Pictures",
                f"must have the {n_features} features of the other samples",
                f"{spec['name']} gives {spec['dimension']}",
                "Name their encoder with `encoder`.",
                option="encoder",
            )
        return PictureStream(source, encoder, **wanted, on_error=self.on_error)

    def prototypes(
        self, path: Path, label_column: str | None = None, *, of_pictures: bool = False
    ) -> tuple[Prototypes, tuple[str, ...]]:
        """Return the prototypes of a file of classes, and its columns if it is one of numbers."""
        columns = self.text_columns
        if columns is None:
            known = self.facts.get(TEXT_COLUMNS) or []
            columns = known if known and all(has_column(path, name) for name in known) else None
        if columns is None and not has_texts(path):
            self._require_texts(path.name)
            self._check_embedded(TEXT_ENCODER, path)
            found, dimensions, problems = examine_prototypes(path, label_column)
            if problems or found is None:
                raise DataError(problems[0])
            return found, dimensions
        if label_column is not None and not has_column(path, label_column):
            label_column = None  # that of the samples
        texts = class_texts(path, text_columns=columns, label_column=label_column)
        if columns is not None:
            self.facts.setdefault(TEXT_COLUMNS, columns)
        return self._texts(texts, of_pictures).prototypes(texts), ()

    def _require_texts(self, file: str) -> None:
        given = {"text_encoder": self.text_encoder, "templates": self.templates}
        for option in [name for name, value in given.items() if value]:
            raise Problem(
                f"`{option}`",
                "must be left out for prototypes",
                f"{file} holds no texts",
                "Name columns of texts with `text_columns`, or leave it out.",
                option=(option, "text_columns"),
            )

    def images(self) -> ImageEncoder:
        """Return the encoder of pictures; another than that of the training is refused."""
        known = _spec(self.facts.get(ENCODER))
        if known is None and self.model is not None:
            raise ValueError(
                f"Pictures need the encoder of the training; {self.model} was fitted on features, "
                "and names none. Encode them as the training samples were, or fit again on "
                "pictures."
            )
        name = self.encoder or (known or {}).get("name", DEFAULT_IMAGE)
        encoder = ImageEncoder(name, cache=self.cache)
        with name_encoder("encoder", given=self.encoder is not None or known is None):
            spec = encoder.spec_
        self._agree(ENCODER, spec, "`encoder`" if self.encoder else "the one here")
        return encoder

    def _texts(self, texts: ClassTexts, of_pictures: bool) -> TextEncoder:
        known = _spec(self.facts.get(TEXT_ENCODER))
        if known is None and self.model is not None:
            raise ValueError(
                f"Texts of classes need the text encoder of the training; {self.model} was fitted "
                "on prototypes, and names none. Add prototypes, or fit again on texts."
            )
        name, templates = self.text_encoder, self.templates
        if known is not None:
            name, templates = name or known["name"], templates or known.get("templates")
        elif of_pictures:
            images = self.images()
            name = name or (images.model if images.is_joint else None)
            if templates is None and _are_names(texts):
                templates = [*NAME_TEMPLATES]
        encoder = TextEncoder(name or DEFAULT_TEXT, templates=templates)
        with name_encoder("text_encoder", given=self.text_encoder is not None or known is None):
            spec = encoder.spec_
        self._agree(TEXT_ENCODER, spec, "`text_encoder`" if self.text_encoder else "the one here")
        return encoder

    def _check_embedded(self, role: str, source: str | Path) -> None:
        spec = embedded_spec(source)
        if spec is not None and (self.model is None or _spec(self.facts.get(role))):
            self._agree(role, spec, Path(source).name)

    def _agree(self, role: str, spec: dict[str, Any], source: str) -> None:
        """Note the encoder of a source, or refuse another one than that of the training."""
        known = _spec(self.facts.get(role))
        if known is None:
            self.facts[role] = spec
        elif known["revision"] != spec["revision"]:
            samples = "Pictures" if role == ENCODER else "Texts of classes"
            fitted = "the other samples were encoded"
            if self.model is not None:
                fitted = f"{self.model} was fitted"
            raise Problem(
                f"{samples} must be encoded as in training; {fitted} with {_format_spec(known)}, "
                f"and {source} is {_format_spec(spec)}. {_remedy(known, spec)}",
                option=role,
            )


def check_encoder(encoder: str | None, *sources: str | Path | None) -> None:
    """Refuse an encoder of pictures if no source holds any."""
    given = [source for source in sources if source is not None]
    if encoder is not None and not any(map(is_pictures, given)):
        raise Problem(
            "`encoder`",
            "must be left out for features",
            f"{given[0]} holds no pictures",
            "Leave it out, or pass the pictures.",
            option="encoder",
        )


def _format_spec(spec: dict[str, Any]) -> str:
    return f"{spec['name']} (revision {spec['revision']})"


def _remedy(known: dict[str, Any], other: dict[str, Any]) -> str:
    if known["name"] != other["name"]:
        return f"Use {known['name']}, or fit again."
    if ":" in known["name"]:
        return "Use the files of the training, or fit again."
    return "Use the version of zonkey that it was fitted with, or fit again."


def name_encoder(option: str, *, given: bool) -> AbstractContextManager[None]:
    """Name the option in errors of an encoder: it may be wrong, or say where the encoder is."""
    hint = "" if given else f"If it is in another place now, pass `{option}`."
    return reword(Problem, {"`model`": f"`{option}`"}, hint, (option, "templates", "device"))


def embedded_spec(path: str | Path) -> dict[str, Any] | None:
    """Return the encoder of an npz file that `zonkey embed` wrote; None for other files."""
    if Path(path).suffix.lower() != ".npz":
        return None
    try:
        arrays = {array.name: array for array in stored_arrays(path)}
        return _spec(json.loads(str(arrays["encoder"].read())))
    except (DataError, KeyError, ValueError):  # its reader says what is wrong
        return None


def _spec(value: Any) -> dict[str, Any] | None:
    """Return a value if it names an encoder and its revision: anyone may write training facts."""
    if not isinstance(value, dict):
        return None
    named = all(isinstance(value.get(key), str) for key in ("name", "revision"))
    return value if named else None


def _are_names(texts: ClassTexts) -> bool:
    """Whether classes have no text but their names."""
    pairs = zip(texts.labels.tolist(), texts.texts, strict=True)
    return all(found == [speak_label(label)] for label, found in pairs)
