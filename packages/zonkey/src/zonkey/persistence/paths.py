"""Pictures and texts as samples of a loaded model, whose file names their encoder."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..errors import StorageError, reword


@dataclass(frozen=True)
class PathEncoder:
    """Encode pictures or texts as in training; the encoder is loaded at first use.

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
        """Return features of pictures (one, a list, a folder, an archive, a table) or of texts.

        Texts are a list of them, or the path of a file.
        """
        is_text = self.spec.get("kind") == "text"
        encoder: Any = self.classes["TextEncoder" if is_text else "ImageEncoder"]
        with reword(StorageError, {}):  # its message says what to do
            encoder = encoder.from_spec(dict(self.spec))
        return encoder.transform(os.fspath(paths) if isinstance(paths, os.PathLike) else paths)
