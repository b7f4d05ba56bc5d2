"""Formulas by plain loops, to compare peers with."""

import numpy as np


def relu(z):
    return np.array([max(0.0, a) for a in z])


def leaky(z):
    return np.array([a if a > 0 else 0.2 * a for a in z])


def same(z):
    return z


def sigmoid(z):
    return 1 / (1 + np.exp(-z))


def softmax(scores):
    powers = np.array([np.exp(score - max(scores)) for score in scores])
    return powers / sum(powers)


def unit(x):
    return x / np.sqrt(sum(a * a for a in x))


def cosine(a, b):
    return float(unit(a) @ unit(b))


def forward(arrays, activations, x):
    """Return the output of layers for one sample, in double precision."""
    for i, activation in enumerate(activations):
        x = [sum(a * w for a, w in zip(x, column, strict=True)) for column in arrays[f"W{i}"].T]
        x = activation(np.array(x, float) + arrays[f"b{i}"])
    return x


def slope(function, x, step=1e-6):
    """Return the gradient at an array by central differences."""
    x = x.astype(float)
    return slope_in_place(lambda: function(x), x, step)


def slope_in_place(objective, array, step=1e-5):
    """Return the gradient by central differences of an objective that reads the array."""
    found = np.empty(array.shape)
    for index in np.ndindex(array.shape):
        kept, values = array[index], []
        for change in (step, -step):
            array[index] = kept + change
            values.append(objective())
        array[index] = kept
        found[index] = (values[0] - values[1]) / (2 * step)
    return found
