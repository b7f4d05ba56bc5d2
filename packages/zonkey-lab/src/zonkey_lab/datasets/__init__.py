"""Benchmark data sets of the literature."""

from .emoji_pictures import load_emoji_pictures
from .fetch import fetch_dataset
from .imnet import load_imnet
from .mini_imagenet import load_mini_imagenet
from .xlsa17 import load_xlsa17

__all__ = [
    "fetch_dataset",
    "load_emoji_pictures",
    "load_imnet",
    "load_mini_imagenet",
    "load_xlsa17",
]
