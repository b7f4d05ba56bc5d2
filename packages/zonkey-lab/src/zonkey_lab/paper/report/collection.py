"""Records grouped by what was run, each group with the same settings."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ..experiments import EXPERIMENTS, Experiment, is_selection, selection_of, zero_selection_of
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
    selections that go on, and runs with other parameters than those that were chosen since.
    """

    def __init__(self, records: Iterable[Record]) -> None:
        self._runs: dict[tuple[str, str, str], list[Record]] = {}
        self.n_left_out = self.n_unfinished = self.n_outdated = 0
        records = sorted(records, key=lambda record: record["seed"])
        selections = (record for record in records if is_selection(_key(record)))
        latest = {_key(record): record["results"]["chosen"] for record in selections}
        for record in records:
            if is_unfinished(record):
                self.n_unfinished += 1
                continue
            if any(latest.get(key, chosen) != chosen for _, key, chosen in choices_of(record)):
                self.n_outdated += 1
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

    def selection_of(self, key: Key) -> Record | None:
        """Return the record of a selection, if there is one."""
        return self.first(key.protocol, key.data, key.model)


def _key(run: Record) -> Key:
    return Key(run["protocol"], run["data_name"], run["model"])


def choices_of(run: Record) -> Iterator[tuple[int | None, Key, dict[str, Any]]]:
    """Yield the selections that chose the parameters of a run, and what it took from each.

    The first entry is the number of shots for which it chose them; None: any.
    """
    key, settings = _key(run), run["settings"]
    if is_selection(key):
        return
    for K, chosen in settings.get("parameters_by_shots", {}).items():
        yield int(K), selection_of(key, int(K)), chosen
    if "parameters" in settings:
        most = run["results"]["shots"][-1:] if key.protocol == "runtime" else ()
        yield None, selection_of(key, *most), settings["parameters"]
    zero = zero_selection_of(key)
    if zero is not None and settings.get("zero_parameters") is not None:
        yield 0, zero, settings["zero_parameters"]


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
