"""Data sets: one contract, and loaders that return it."""

from .check import check_files
from .chunks import open_chunks
from .dataset import DataError, Dataset, LazyMatrix, Split
from .emoji import EmojiDataset, load_emoji
from .fetch import fetch_dataset
from .imnet import load_imnet
from .mini_imagenet import load_mini_imagenet
from .own import load_features
from .tables import read_features, read_prototypes
from .xlsa17 import load_xlsa17

__all__ = [
    "DataError",
    "Dataset",
    "EmojiDataset",
    "LazyMatrix",
    "Split",
    "check_files",
    "fetch_dataset",
    "load_emoji",
    "load_features",
    "load_imnet",
    "load_mini_imagenet",
    "load_xlsa17",
    "open_chunks",
    "read_features",
    "read_prototypes",
]
