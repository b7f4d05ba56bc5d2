"""Records grouped by what was run, each group with the same settings."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ..experiments import EXPERIMENTS, Experiment, selection_of, zero_selection_of
from ..records import Key, Record, RecordError, Records, is_unfinished, problem_of


@dataclass(frozen=True, eq=False)
class Study:
    """An experiment on a data set: its runs by model, sorted by protocol and seed."""

    experiment: Experiment
    data: str
    runs: dict[str, list[Record]]
    collection: Collection

    @cached_property
    def firsts(self) -> dict[str, Record]:
        """The first run of every model."""
        return {model: runs[0] for model, runs in self.runs.items()}

    @cached_property
    def run(self) -> Record:
        """The first run of the first model."""
        return next(iter(self.firsts.values()))

    @cached_property
    def by_protocol(self) -> dict[str, dict[str, list[Record]]]:
        """The runs of every model, by protocol."""
        found: dict[str, dict[str, list[Record]]] = {name: {} for name in self.experiment.protocols}
        for model, runs in self.runs.items():
            for run in runs:
                found[run["protocol"]].setdefault(model, []).append(run)
        return {protocol: runs for protocol, runs in found.items() if runs}

    @cached_property
    def is_quick(self) -> bool:
        """Whether some of its runs are quick ones."""
        return any(run.get("quick") for runs in self.runs.values() for run in runs)


class Collection:
    """Records by protocol, data set and model.

    Runs of a model whose settings differ from those of its lowest seed are left out, and so are
    selections that go on.
    """

    def __init__(self, records: Iterable[Record]) -> None:
        self._runs: dict[tuple[str, str, str], list[Record]] = {}
        self.n_left_out = self.n_unfinished = 0
        for record in sorted(records, key=lambda record: record["seed"]):
            if is_unfinished(record):
                self.n_unfinished += 1
                continue
            key = (record["protocol"], record["data_name"], record["model"])
            runs = self._runs.setdefault(key, [])
            if runs and runs[0]["settings"] != record["settings"]:
                self.n_left_out += 1
            else:
                runs.append(record)
        self.data_names = sorted({data for _, data, _ in self._runs})

    def runs(self, protocol: str, data: str, model: str) -> list[Record]:
        """Return the runs of a model, sorted by seed."""
        return self._runs.get((protocol, data, model), [])

    def first(self, protocol: str, data: str, model: str) -> Record | None:
        """Return the run of the lowest seed."""
        return next(iter(self.runs(protocol, data, model)), None)

    def firsts(self, protocol: str, data: str) -> dict[str, Record]:
        """Return the run of the lowest seed of every model."""
        return {
            model: runs[0]
            for (name, of, model), runs in self._runs.items()
            if (name, of) == (protocol, data)
        }

    def of_data(self, data: str) -> list[Record]:
        """Return all runs of a data set."""
        return [run for (_, of, _), runs in self._runs.items() if of == data for run in runs]

    def is_quick(self, protocol: str, data: str) -> bool:
        """Whether a protocol, named by its start, has quick runs of a data set."""
        return any(
            run.get("quick")
            for (name, of, _), runs in self._runs.items()
            if name.startswith(protocol) and of == data
            for run in runs
        )

    def study(self, name: str, data: str) -> Study:
        """Return an experiment on a data set."""
        experiment = EXPERIMENTS[name]
        found = {
            model: [run for name in experiment.protocols for run in self.runs(name, data, model)]
            for model in experiment.models
        }
        runs = {model: runs for model, runs in found.items() if runs}
        return Study(experiment, data, runs, self)

    def studies(self) -> dict[str, list[Study]]:
        """Return the reportable studies: by experiment, one per data set.

        An experiment needs runs of its subject, and of at least two models if it compares models by
        a metric.
        """
        found: dict[str, list[Study]] = {}
        for name, experiment in EXPERIMENTS.items():
            least, subject = 2 if experiment.metrics else 1, experiment.subject
            for study in (self.study(name, data) for data in self.data_names):
                if len(study.runs) >= least and (not subject or subject in study.runs):
                    found.setdefault(name, []).append(study)
        return found

    def selection_of(self, run: Record) -> Record | None:
        """Return the record in which the parameters of a run were chosen, if there is one."""
        return self._choice(selection_of(_key(run)), parameters_of(run))

    def selection_at(self, run: Record, n_shot: str) -> Record | None:
        """Return the record in which the parameters for a number of shots were chosen."""
        chosen = run["settings"]["parameters_by_shots"][n_shot]
        keys = (
            Key(f"selection-{task}", run["data_name"], run["model"])
            for task in (f"all-{n_shot}", "1")  # models that choose themselves do so once
        )
        found = (self._choice(key, chosen) for key in keys)
        return next((each for each in found if each is not None), None)

    def zero_selection_of(self, run: Record) -> Record | None:
        """Return the record in which the parameters at K = 0 were chosen, if there is one."""
        return self._choice(zero_selection_of(_key(run)), run["settings"]["zero_parameters"])

    def _choice(self, key: Key | None, parameters: dict[str, Any] | None) -> Record | None:
        """Return a selection if it chose these parameters."""
        found = None if key is None else self.first(key.protocol, key.data, key.model)
        return found if found is not None and found["results"]["chosen"] == parameters else None


def _key(run: Record) -> Key:
    return Key(run["protocol"], run["data_name"], run["model"])


def parameters_of(run: Record) -> dict[str, Any] | None:
    """Return the parameters that a run used or chose."""
    return run["settings"].get("parameters", run["results"].get("chosen"))


def read_collection(
    folder: str | os.PathLike[str], data_names: Iterable[str] | None = None
) -> Collection:
    """Read all records of a folder, or those of some data sets."""
    records = []
    for path, record in Records(folder).items():
        problem = problem_of(record)
        if problem:
            raise RecordError(
                f"The record {path} must be one of `zonkey bench`; {problem}. Delete it, and run "
                "the bench again."
            )
        records.append(record)
    if not records:
        raise RecordError(
            f"There must be records to report on; {os.fspath(folder)} holds none. Make some with "
            "`zonkey bench all`, or name their folder with --runs; quick ones are in runs-quick."
        )
    known = sorted({record["data_name"] for record in records})
    wanted = set(known if data_names is None else data_names)
    if wanted - set(known):
        raise RecordError(
            f"The data set must have records: {', '.join(known)}; got "
            f"{sorted(wanted - set(known))[0]!r}. Run `zonkey bench` on it first."
        )
    return Collection(record for record in records if record["data_name"] in wanted)
