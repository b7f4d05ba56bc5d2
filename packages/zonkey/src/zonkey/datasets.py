"""Data sets: one contract, and the functions that read it from files."""

from .errors import DataError
from .files.check import check_files
from .files.chunks import open_chunks
from .files.classes import read_prototypes
from .files.dataset import Dataset, LazyMatrix, Split
from .files.emoji import EmojiDataset, load_emoji
from .files.own import load_features
from .files.tables import read_features

__all__ = [
    "DataError",
    "Dataset",
    "EmojiDataset",
    "LazyMatrix",
    "Split",
    "check_files",
    "load_emoji",
    "load_features",
    "open_chunks",
    "read_features",
    "read_prototypes",
]
