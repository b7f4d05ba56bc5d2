"""Posterior centers, written as loops over classes and samples straight from the formulas."""

import math

import numpy as np


def kernel_value(kind, y, z, gamma):
    if kind == "linear":
        return sum(a * b for a, b in zip(y, z, strict=True))
    if kind == "rbf":
        return math.exp(-gamma * sum((a - b) ** 2 for a, b in zip(y, z, strict=True)))
    assert kind == "poly"
    return (gamma * sum(a * b for a, b in zip(y, z, strict=True)) + 1) ** 3


def width(Y, kind, gamma):
    """Return gamma as in the formula of the kernel, from one relative to the rows of Y."""
    if kind == "rbf":
        pairs = [(i, j) for i in range(len(Y)) for j in range(i)]
        return gamma / float(np.median([sum((Y[i] - Y[j]) ** 2) for i, j in pairs]))
    if kind == "poly":
        return gamma / (sum(sum(y * y) for y in Y) / len(Y))
    return gamma


def ridge_matrix(K, counts, ridge):
    """Return Lambda: `ridge` times the mean diagonal of K, more for classes of few samples."""
    p = len(K)
    unit = sum(K[j, j] for j in range(p)) / p
    Lambda = np.zeros((p, p))
    for j in range(p):
        Lambda[j, j] = ridge * unit * (1 + 8 / counts[j])
    return Lambda


def predicted(k, K, Lambda, M):
    """Return f(y) = k(y)' (K + Lambda)^-1 M."""
    return k @ np.linalg.solve(K + Lambda, M)


def left_out(j, K, Lambda, M):
    """Return f(y_j) of a regression that never saw class j."""
    others = [i for i in range(len(K)) if i != j]
    if not others:
        return np.zeros(M.shape[1])
    return predicted(
        K[j, others], K[np.ix_(others, others)], Lambda[np.ix_(others, others)], M[others]
    )


def mean_of_others(j, M, counts, values):
    """Return the mean of the other classes' samples, whose class means are M, among the values.

    Centered samples have it on the other side of class j; the origin of others does not move.
    """
    total = sum(counts)
    middle = sum(n * m for n, m in zip(counts, M, strict=True)) / total
    spread = sum(n * (m @ m) for n, m in zip(counts, M, strict=True)) / total
    if middle @ middle > 0.1 * spread or counts[j] == total:
        return np.zeros(values.shape[1])
    return -counts[j] * values[j] / (total - counts[j])


def left_out_of_all(j, K, Lambda, M, counts, values=None):
    """Return f(y_j) of a regression of deviations from the mean of the other classes' samples.

    The class means M may be replaced by other values: the prediction is linear in them.
    """
    values = M if values is None else values
    return left_out(j, K, Lambda, values - mean_of_others(j, M, counts, values))


def score(x, center, offset):
    return float(x @ x - (x - center) @ (x - center) - offset)


def expectation_maximization(
    X, centers, worth, *, offsets, temperature, weight, smoothing, n_steps, shift=False
):
    """Return centers and proportions after some steps, sample by sample and class by class."""
    n, k = len(X), len(centers)
    start, now, shares = centers, centers, [1 / k] * k
    for _ in range(n_steps):
        R = np.empty((n, k))
        for i in range(n):
            odds = [
                math.exp(score(X[i], now[j], offsets[j]) / temperature) * shares[j]
                for j in range(k)
            ]
            R[i] = np.array(odds) / sum(odds)
        moved, common = np.empty_like(start), np.zeros_like(start[0])
        if shift:
            for i in range(n):
                common = common + X[i] - sum(R[i, j] * start[j] for j in range(k))
            common = common / (n + sum(worth) / k)
        for j in range(k):
            total = worth[j] * (start[j] + common)
            for i in range(n):
                total = total + weight * R[i, j] * X[i]
            moved[j] = total / (worth[j] + weight * sum(R[:, j]))
        shares = [(sum(R[:, j]) + smoothing) / (n + k * smoothing) for j in range(k)]
        now = moved
    return now, np.array(shares)
