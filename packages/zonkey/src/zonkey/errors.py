"""Errors that users can fix: what is wrong, the rule, what was received, what to do."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Self

STREAM_NAME = "standard output"  # of an open file in errors of writing


class Problem(ValueError):
    """An error that a user can fix; its message is a single line.

    The message reads "SUBJECT RULE; RECEIVED. REMEDY"; a subject alone is the whole message. It
    names parameters of Python as `` `parameter` ``. Callers with other names for them, such as the
    command line, print `tell`.

    Parameters
    ----------
    subject : str
        What is wrong, or the whole message.
    rule : str, default=""
        What it must be, such as "must be a file".
    received : str, default=""
        What it is. Names in it are never changed.
    remedy : str, default=""
        What to do, as a sentence.
    option : str or iterable of str, default=()
        Python parameters that the message names.

    Examples
    --------
    >>> from zonkey.errors import Problem
    >>> error = Problem("`top`", "must be at most 3", "got 5", "Ask for fewer.", option="top")
    >>> print(error)
    `top` must be at most 3; got 5. Ask for fewer.
    >>> print(error.tell("--{}".format))
    --top must be at most 3; got 5. Ask for fewer.
    """

    def __init__(
        self,
        subject: str,
        rule: str = "",
        received: str = "",
        remedy: str = "",
        *,
        option: str | Iterable[str] = (),
    ) -> None:
        self.subject, self.rule, self.received, self.remedy = subject, rule, received, remedy
        self.options = (option,) if isinstance(option, str) else tuple(option)
        super().__init__(self.tell("`{}`".format))

    def tell(self, name: Callable[[str], str]) -> str:
        """Return the message with other names of parameters, such as options of a command.

        Parameters
        ----------
        name : callable
            Takes a parameter of Python, and returns its other name.

        Returns
        -------
        str
            The message.
        """
        subject, rule, remedy = self._parts({option: name(option) for option in self.options})
        return f"{subject} {rule}; {self.received}. {remedy}".strip() if rule else subject

    def rename(self, hint: str = "", **parameters: str) -> Self:
        """Return the error with other names of parameters.

        Parameters
        ----------
        hint : str, default=""
            Text to add to the remedy.
        **parameters : str
            New names by the names in this error.

        Returns
        -------
        Problem
            An error of the same class.
        """
        new = {option: parameters.get(option, option) for option in self.options}
        subject, rule, remedy = self._parts({option: f"`{new[option]}`" for option in new})
        if hint:
            subject, remedy = (subject, f"{remedy} {hint}") if rule else (f"{subject} {hint}", "")
        return type(self)(subject, rule, self.received, remedy, option=[*new.values()])

    def _parts(self, names: dict[str, str]) -> list[str]:
        """Return subject, rule and remedy with these names of parameters."""
        parts = [self.subject, self.rule, self.remedy]
        for option, name in names.items():
            parts = [part.replace(f"`{option}`", name) for part in parts]
        return parts


class DataError(Problem):
    """Data that cannot be used.

    The message is a single line that states the problem and the remedy.

    Parameters
    ----------
    subject, rule, received, remedy : str
        Parts of the message, see `Problem`.
    option : str or iterable of str, default=()
        Parameters of Python that the message names.

    See Also
    --------
    check_files : List all problems of your own files.

    Examples
    --------
    >>> from zonkey.datasets import DataError, load_features
    >>> try:
    ...     load_features("nowhere.csv", "prototypes.csv")
    ... except DataError as error:
    ...     print(error)
    nowhere.csv does not exist. Check the path.
    """


class StorageError(Problem):
    """A stored file that cannot be used.

    The message is a single line that states the problem and the remedy.

    Parameters
    ----------
    subject, rule, received, remedy : str
        Parts of the message, see `Problem`.
    option : str or iterable of str, default=()
        Parameters of Python that the message names.

    See Also
    --------
    zonkey.load : Raises it for damaged, altered, too new or inconsistent model files.

    Examples
    --------
    >>> from zonkey import StorageError
    >>> issubclass(StorageError, ValueError)
    True
    """


class MissingFileError(StorageError, FileNotFoundError):
    """A stored file that does not exist."""


class NoRoomError(StorageError, OSError):
    """A file that could not be written because the disk is full."""


@contextmanager
def reword(
    kind: type[Problem], words: Mapping[str, str], hint: str = "", option: str | Iterable[str] = ()
) -> Iterator[None]:
    """Raise errors in the words of the caller: what is a parameter here may be an option there.

    Errors are of a new `kind`, with new words for old ones and a `hint` at their end. `option` are
    the parameters of Python that the new message names.
    """
    try:
        yield
    except ValueError as error:
        text = str(error)
        for old, new in words.items():
            text = text.replace(old, new)
        raise kind(f"{text} {hint}".strip(), option=option) from None
