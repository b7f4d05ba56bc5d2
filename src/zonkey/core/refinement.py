"""Refine an initial projection on synthesized samples, by whichever form of competition."""

from __future__ import annotations

from typing import Literal

from ..linalg.arrays import Array
from .assignment import Rule
from .competition import Competition, OnStep, Path, learn
from .entropy import EntropyObjective, minimize_entropy
from .projection import NormalEquations
from .synthesis import Synthesized

Form = Literal["second-best", "assigned", "entropy"]

RULES: dict[str | None, Rule] = {
    "second-best": "second-best",
    "assigned": "assigned",
    None: "best",
}
ALGORITHM_1_STEPS = 5  # "converges very quickly (t <= 5)"
GRADIENT_STEPS = 100


def refine(
    equations: NormalEquations,
    W: Array,
    synthesized: Synthesized,
    Y_u: Array,
    *,
    form: Form | None,
    alpha: float,
    mu: float,
    beta: float,
    tie_tol: float,
    max_iter: int | None,
    tol: float,
    forward: float = 0.5,
    on_step: OnStep | None = None,
) -> Path:
    """Return the path from W to the refined projection.

    `form` is "second-best" (the paper's BPL), None (mu = 0: BPL1), "assigned" (without
    ambiguity handling) or "entropy" (minimum entropy, where alpha stays constant). `forward` is
    the share of the error from features to semantics.
    """
    if form == "entropy":
        if forward != 0.5:
            raise ValueError(
                f"Minimum entropy weighs both errors equally; got forward={forward}. Use 0.5."
            )
        objective = EntropyObjective(equations, synthesized.features, Y_u, alpha=alpha, beta=beta)
        steps = GRADIENT_STEPS if max_iter is None else max_iter
        return minimize_entropy(objective, W, max_iter=steps, tol=tol, on_step=on_step)
    competition = Competition(
        equations,
        synthesized,
        Y_u,
        beta=beta,
        tie_tol=tie_tol,
        rule=RULES[form],
        forward=forward,
    )
    steps = ALGORITHM_1_STEPS if max_iter is None else max_iter
    return learn(
        competition,
        W,
        alpha=alpha,
        mu=mu,
        max_iter=steps,
        tol=tol,
        on_step=on_step,
    )
