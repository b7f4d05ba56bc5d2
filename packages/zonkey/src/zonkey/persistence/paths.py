"""Pictures of a path as samples of a loaded model, whose file names their encoder."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..errors import StorageError, reword


@dataclass(frozen=True)
class PathEncoder:
    """Encode pictures as in training; the encoder is loaded at first use.

    Parameters
    ----------
    spec : dict
        Name, revision and dimension of the encoder.
    classes : mapping of {str: type}
        Classes by name, among them that of the encoder.
    """

    spec: Mapping[str, Any]
    classes: Mapping[str, type]

    def __call__(self, paths: Any) -> Any:
        """Return features of one picture, a list of pictures, a folder, an archive or a table."""
        encoder: Any = self.classes["ImageEncoder"]
        with reword(StorageError, {}):  # its message says what to do
            encoder = encoder.from_spec(dict(self.spec))
        return encoder.transform(os.fspath(paths) if isinstance(paths, os.PathLike) else paths)
