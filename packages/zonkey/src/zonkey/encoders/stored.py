"""What encoders share: files hold name, revision and dimension of the model, not its weights."""

from __future__ import annotations

from typing import Any, ClassVar, Self, cast

from ..errors import StorageError, reword
from ..persistence.checks import require_that
from .registry import check_spec, require_same_model
from .weights import may_download


class StoredByNameMixin:
    """An encoder that learns nothing; a file keeps its `spec_` and a few parameters."""

    stored_parameters: ClassVar[tuple[str, ...]]  # of those that also change the features
    spec_: Any

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def __sklearn_tags__(self) -> Any:
        tags = cast(Any, super()).__sklearn_tags__()
        tags.requires_fit = False
        tags.input_tags.two_d_array = False
        tags.no_validation = True
        tags.transformer_tags.preserves_dtype = []
        return tags

    def __zonkey_parts__(self) -> dict[str, Any]:
        """Return the name and revision of the model, without its weights or the device."""
        encoder: Any = self
        if not isinstance(encoder.model, str):
            raise TypeError(
                f"An {type(self).__name__} in a file must have a model that has a name; got "
                f"{type(encoder.model).__name__}. Save the classifier without the encoder."
            )
        kept = {name: getattr(self, name) for name in self.stored_parameters}
        return {"spec": self.spec_, **kept}

    @classmethod
    def __zonkey_make__(cls, parts: dict[str, Any]) -> Self:
        # A file must not choose a cache, or what to download.
        unknown = {*parts} - {"spec", *cls.stored_parameters}
        require_that(not unknown, f"{cls.__name__} has no part {sorted(unknown)}.")
        token = may_download.set(False)
        try:
            with reword(StorageError, {}):  # its message says what to do
                return cls.from_spec(**parts)
        finally:
            may_download.reset(token)

    @classmethod
    def from_spec(cls, spec: Any, **parameters: Any) -> Self:
        """Return the encoder that a `spec_` is of, and load its model.

        Parameters
        ----------
        spec : dict
            Name, revision and dimension, such as a model file keeps; of texts also the templates.
        **parameters : dict
            Parameters of the encoder except `model` and `templates`.

        Returns
        -------
        ImageEncoder or TextEncoder
            An encoder whose features are those of the given one.

        Raises
        ------
        ValueError
            If the model is another revision now, or the name is unknown.
        """
        make: Any = cls
        templates = check_spec(spec).get("templates")
        if templates is not None:  # of texts
            parameters["templates"] = templates
        encoder = make(spec["name"], **parameters)
        encoder.check_parameters()
        require_same_model(encoder.spec_, spec)
        return encoder
