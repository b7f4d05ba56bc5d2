"""Data to learn from: one contract, and loaders that fulfill it."""

from .check_files import check_files
from .dataset import Dataset
from .emoji import EmojiDataset, load_emoji
from .errors import DataError
from .feature_files import read_features
from .fetch import fetch_dataset
from .imnet import load_imnet
from .lazy import LazyMatrix
from .mini_imagenet import load_mini_imagenet
from .own import load_features
from .prototype_files import read_prototypes
from .split import Split
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
    "read_features",
    "read_prototypes",
]
