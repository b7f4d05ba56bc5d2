"""Trained peers by flat parameters: those of a `Training` are given among the others."""

from zonkey_lab.peers import Training


def nest(parameters):
    """Return parameters by their names in `set_params`."""
    known = vars(Training())
    return {f"training__{name}" if name in known else name: v for name, v in parameters.items()}


def made(kind, *given, **parameters):
    """Return a peer."""
    return kind(*given).set_params(**nest(parameters))


def make_clone(problem, peer, **parameters):
    """Return a changed copy of a peer for a problem."""
    return problem.make_clone(peer, **nest(parameters))


def fit_clone(problem, peer, **parameters):
    """Return a changed copy of a peer, fitted on a problem."""
    return problem.fit_clone(peer, **nest(parameters))
