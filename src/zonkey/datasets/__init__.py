"""Data to learn from: one contract, and loaders that fulfil it."""

from .dataset import Dataset
from .emoji import EmojiDataset, load_emoji
from .errors import DataError
from .fetch import fetch_dataset
from .imnet import load_imnet
from .lazy import LazyMatrix
from .mini_imagenet import load_mini_imagenet
from .own import load_files
from .split import Split
from .xlsa17 import load_xlsa17

__all__ = [
    "DataError",
    "Dataset",
    "EmojiDataset",
    "LazyMatrix",
    "Split",
    "fetch_dataset",
    "load_emoji",
    "load_files",
    "load_imnet",
    "load_mini_imagenet",
    "load_xlsa17",
]
