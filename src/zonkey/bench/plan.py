"""Which runs experiments need, and which of them must be done before others."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .catalog import FEW_SHOT, ZERO_SHOT
from .experiments import Experiment, Scale, is_zero_shot
from .models import FewShotModel, ZeroShotModel
from .records import Key

N_STAGES = 3
_TRIAL_SHOTS = (1, 5)


def is_selection(key: Key) -> bool:
    """Say whether a run chooses parameters for others."""
    return key.protocol.startswith("selection")


def selection_of(key: Key) -> Key:
    """Return the run that chooses the parameters of this one, on the task that it will be asked."""
    if is_selection(key):
        return key
    if is_zero_shot(key.protocol):
        return Key("selection", key.data, key.model)
    task = key.protocol.split("-")[1] if key.protocol.startswith("trials-") else "all"
    return Key(f"selection-{task}", key.data, key.model)


def zero_selection_of(key: Key) -> Key | None:
    """Return the run that chooses what few-shot models are given where there is no shot."""
    if key.protocol != "all-classes" or not FEW_SHOT[key.model].from_zero:
        return None
    model = FEW_SHOT[key.model].zero_shot
    return Key("selection", key.data, model) if model else None


def start_of(key: Key) -> Key | None:
    """Return the choice that another one, of a model that extends the first, starts from."""
    if key.protocol != "selection" or not ZERO_SHOT[key.model].extends:
        return None
    return Key("selection", key.data, ZERO_SHOT[key.model].extends)


def stage_of(key: Key) -> int:
    """Return when a run can be done: a choice before what starts from it, all of them first."""
    if is_selection(key):
        return 0 if start_of(key) is None else 1
    return 2


def model_of(key: Key) -> ZeroShotModel | FewShotModel:
    """Return the model of a run; a name may stand for one of each kind."""
    return ZERO_SHOT[key.model] if is_zero_shot(key.protocol) else FEW_SHOT[key.model]


def wanted_runs(
    experiments: list[Experiment], data_names: list[str], scale: Scale
) -> Iterator[tuple[Key, dict[str, Any]]]:
    """Yield every run once."""
    wanted: dict[Key, dict[str, Any]] = {}
    for name in data_names:
        for experiment in experiments:
            for key in _keys(experiment, name, scale):
                choice = selection_of(key)
                for needed in (start_of(choice), choice, zero_selection_of(key)):
                    if needed is not None:
                        wanted[needed] = {}
                if not is_selection(key):
                    wanted[key] = scale.options(key.protocol)
    yield from wanted.items()


def _keys(experiment: Experiment, data: str, scale: Scale) -> Iterator[Key]:
    for model in experiment.models:
        if experiment.protocol == "trials":
            for n_shot in _TRIAL_SHOTS:
                yield Key(f"trials-{n_shot}", data, model)
        elif experiment.protocol == "zero-shot" and ZERO_SHOT[model].is_random:
            for seed in range(scale.n_seeds):
                yield Key("zero-shot", data, model, seed)
        else:
            yield Key(experiment.protocol, data, model)
