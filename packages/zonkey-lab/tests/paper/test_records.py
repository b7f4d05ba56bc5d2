import json
from contextlib import suppress
from functools import reduce

import numpy as np
import pytest
from made_up_records import MadeUp

from zonkey.environment import versions
from zonkey_lab.paper.records import Key, RecordError, Records, pack, problem_of, unpack
from zonkey_lab.paper.report.blocks import markdown_text
from zonkey_lab.paper.report.collection import read_collection
from zonkey_lab.paper.report.sections import build_report

KEY = Key("zero-shot", "cub", "BPL, unscaled", 3)


def test_a_record_is_found_again_by_key_and_settings(tmp_path):
    records = Records(tmp_path)
    assert records.find(KEY, {"a": 1}) is None
    written = records.write(KEY, {"a": 1}, results={"zsl": 0.5}, seconds=1.5)
    assert records.find(KEY, {"a": 1}) == written == records.read(KEY)
    assert records.find(KEY, {"a": 2}) is None
    assert records.find(Key("zero-shot", "cub", "BPL, unscaled", 4), {"a": 1}) is None
    (record,) = records
    assert (record["model"], record["seed"], record["settings"]) == ("BPL, unscaled", 3, {"a": 1})
    assert record["versions"] == versions()
    assert {"zonkey", "numpy", "python"} <= set(record["versions"])
    assert record["machine"]["cpus"] >= 1


def test_records_are_whole_or_absent(tmp_path, monkeypatch):
    records = Records(tmp_path)
    records.write(KEY, {}, results={"zsl": 0.5})
    with pytest.raises(TypeError):
        records.write(KEY, {}, results=object())
    assert records.read(KEY)["results"] == {"zsl": 0.5}
    assert [path.name for path in tmp_path.rglob("*.*")] == ["bpl-unscaled.3.json"]


@pytest.mark.parametrize("content", ['{"protocol": ', "[]", "3", "null"])
def test_a_record_that_is_cut_off_or_no_object_counts_as_none(tmp_path, content):
    records = Records(tmp_path)
    (tmp_path / KEY.path).parent.mkdir(parents=True)
    (tmp_path / KEY.path).write_text(content)
    assert records.read(KEY) is None
    assert records.find(KEY, {}) is None


def test_a_damaged_record_is_told_where_all_are_read(tmp_path):
    records = Records(tmp_path)
    records.write(KEY, {}, results={})
    (tmp_path / KEY.path).write_text("{")
    with pytest.raises(RecordError, match=r"bpl-unscaled\.3\.json must be JSON; it is damaged"):
        list(records)


@pytest.mark.parametrize("dtype", [np.int16, np.float64, np.uint8])
def test_arrays_survive_as_text(dtype):
    array = np.arange(60).reshape(3, 4, 5).astype(dtype)[:, ::2]
    again = unpack(json.loads(json.dumps(pack(array))))
    assert again.dtype == dtype
    np.testing.assert_array_equal(again, array)


# Folders


@pytest.mark.parametrize("folder", ["file", "file/below"])
def test_a_folder_that_cannot_be_written_is_told_before_the_work(tmp_path, folder):
    (tmp_path / "file").write_text("x")
    with pytest.raises(
        RecordError, match=r"must be one to write to; .* is not .*\. Choose another"
    ):
        Records(tmp_path / folder).require_writable()


def test_the_probe_leaves_nothing_behind(tmp_path):
    records = Records(tmp_path / "new" / "runs")
    records.require_writable()
    assert list(records.folder.iterdir()) == []


def test_a_record_that_cannot_be_written_is_one_line(tmp_path):
    records = Records(tmp_path)
    (tmp_path / KEY.protocol).write_text("in the way")
    with pytest.raises(RecordError, match=r"must be written after each run; .* cannot be"):
        records.write(KEY, {}, results={})


# Edited records


@pytest.fixture(scope="module")
def every_record(made):
    """Return one complete record of every protocol."""
    # Of the choices of parameters, those with a grid.
    records = sorted(made.records, key=lambda record: bool(record["results"].get("points")))
    return {record["protocol"]: record for record in records}


def edited(record, path, value):
    """Return a copy of a record with the entry at a path replaced; ... removes it."""
    record = json.loads(json.dumps(record))
    *way, last = path
    holder = reduce(lambda part, key: part[key], way, record)
    if value is ...:
        del holder[last]
    else:
        holder[last] = value
    return record


_SHARE = "must be a number from 0 to 1; it is"
EDITS = [
    ("zero-shot", ("results", "zsl"), 99, f"`results.zsl` {_SHARE} 99"),
    ("zero-shot", ("results", "hm"), "0.4", f"`results.hm` {_SHARE} '0.4'"),
    ("zero-shot", ("results", "zsl"), True, f"`results.zsl` {_SHARE} True"),
    ("zero-shot", ("results", "curve", "seen", 1), -1, "`results.curve.seen[1]` must be a number"),
    ("zero-shot", ("results", "truth", "data"), "x", "`results.truth` must be a packed array"),
    ("zero-shot", ("results", "truth", "shape"), [10**12], "`results.truth` must be a packed"),
    ("zero-shot", ("results", "truth", "dtype"), "O", "`results.truth` must be a packed array"),
    ("zero-shot", ("results", "classes", 4), ..., "must be positions in `results.classes`"),
    ("zero-shot", ("results",), [], "`results` must be an object; it is []"),
    ("zero-shot", ("results", "classes"), "ant", "`results.classes` must be a list; it is 'ant'"),
    ("zero-shot", ("seed",), -1, "`seed` must be a whole number of at least 0; it is -1"),
    ("zero-shot", ("seconds",), ..., "it has no `seconds`"),
    ("zero-shot", ("data", "sha256"), None, "`data.sha256` must be text; it is None"),
    ("zero-shot", ("data", "n_samples", "train"), ..., "it has no `data.n_samples.train`"),
    ("zero-shot", ("versions", "zonkey"), 1, "`versions.zonkey` must be text; it is 1"),
    ("zero-shot", ("settings", "parameters", "mu"), float("nan"), "`settings.parameters` must be"),
    ("trials-5", ("results", "n_way"), 5.5, "`results.n_way` must be a whole number"),
    ("trials-5", ("results", "accuracies"), [0.5], "`results.accuracies` must be a packed array"),
    ("trials-1", ("results", "queries_fixed"), "no", "`results.queries_fixed` must be true or"),
    ("trials-1", ("results", "steps"), {"n": 3}, "`results.steps` must be an object with counts"),
    ("selection-5", ("results", "chosen"), None, "`results.chosen` must be an object"),
    ("selection", ("results", "points", 0, "scores", 0), 7, "`results.points[0].scores[0]` must"),
    ("selection-all", ("settings", "n_trials"), ..., "it has no `settings.n_trials`"),
    ("selection", ("results", "edges"), "mu", "`results.edges` must be a list; it is 'mu'"),
    ("selection", ("results", "limits"), [1], "`results.limits[0]` must be text; it is 1"),
    ("selection", ("results", "n_start"), -1, "`results.n_start` must be a whole number"),
    ("selection", ("results", "failed"), [{}], "it has no `results.failed[0].parameters`"),
    (
        "all-classes",
        ("settings", "parameters_by_shots"),
        {"one": {}},
        "`settings.parameters_by_shots` must be an object of objects, by number of shots",
    ),
    (
        "all-classes",
        ("settings", "parameters_by_shots"),
        {"\N{SUPERSCRIPT TWO}": {}},
        "`settings.parameters_by_shots` must be an object of objects, by number of shots",
    ),
    ("runtime", ("machine", "gpu"), 1, "`machine.gpu` must be text or null; it is 1"),
    ("all-classes", ("results", "hit@1", 1), [0.1], "`results.hit@1[1]` must be as long as"),
    ("all-classes", ("results", "hit@5", 2, 0), 1.5, "`results.hit@5[2][0]` must be a number"),
    ("all-classes", ("results", "steps"), [None], "`results.steps` must be as long as"),
    ("runtime", ("results", "seconds"), [1.0], "`results.seconds` must be as long as"),
    ("runtime", ("results", "seconds", 0), -1.0, "`results.seconds[0]` must be a number of at"),
    ("runtime", ("results", "n_timings"), [3], "`results.n_timings` must be as long as"),
    ("runtime", ("results", "peak_mb"), -1.0, "must be a number of at least 0 or null"),
    ("map", ("results", "samples", 0), [1.0], "`results.samples[0]` must be two finite numbers"),
    ("convergence", ("results", "objective"), [], "`results.objective` must have one entry more"),
    ("unlabeled", ("results", "zsl_unlabeled"), ..., "it has no `results.zsl_unlabeled`"),
    ("unlabeled-trials-1", ("results", "balanced"), {}, "`results.balanced` must be a packed"),
]


@pytest.mark.parametrize(
    ("protocol", "path", "value", "said"), EDITS, ids=[str(e[:3]) for e in EDITS]
)
def test_edited_records_name_the_field(every_record, tmp_path, protocol, path, value, said):
    record = edited(every_record[protocol], path, value)
    problem = problem_of(record)
    assert said in problem
    file = tmp_path / protocol / "cub" / "edited.0.json"
    file.parent.mkdir(parents=True)
    file.write_text(json.dumps(record))
    with pytest.raises(RecordError) as caught:
        read_collection(tmp_path)
    message = str(caught.value)
    assert message.startswith(f"The record {file} must be one of `zonkey bench`; ")
    assert len(message.splitlines()) == 1
    assert len(message) < 400 + len(str(file))


def test_complete_records_have_no_problem(every_record):
    assert len(every_record) > 9
    assert {problem_of(record) for record in every_record.values()} == {""}
    assert problem_of({**every_record["runtime"], "protocol": "of a later version"}) == ""
    for protocol, results in (
        ("all-classes", {"steps": [None] * len(every_record["all-classes"]["results"]["shots"])}),
        ("runtime", {"base_mb": None, "peak_mb": 0.5}),
        ("selection", {"n_start": 1, "edges": ["mu"], "limits": [], "failed": []}),
    ):
        record = every_record[protocol]
        assert problem_of({**record, "results": {**record["results"], **results}}) == ""


def test_values_of_any_kind_give_a_report_or_one_line(every_record, tmp_path):
    """Replace every entry of two small records by values of other kinds."""
    made = MadeUp(tmp_path)
    made.runtime("BPL (SFSP1)")
    made.convergence()
    for protocol in ("runtime", "convergence"):
        file = next((tmp_path / protocol / "cub").iterdir())
        record = json.loads(file.read_text())
        for path in entries(record):
            for value in (None, "x", [], {}, -1, 0, 1e300, 10**30, ...):
                file.write_text(json.dumps(edited(record, path, value)))
                with suppress(RecordError):
                    text = markdown_text(build_report(read_collection(tmp_path)))
                    assert "nan" not in text.lower()
        file.write_text(json.dumps(record))


def entries(part, path=()):
    """Yield the paths of all entries of nested objects, and of the first of each list."""
    items = part.items() if isinstance(part, dict) else enumerate(part[:1])
    for key, value in items:
        yield (*path, key)
        if isinstance(value, dict | list):
            yield from entries(value, (*path, key))


def test_a_packed_array_never_expands_beyond_its_shape():
    packed = pack(np.zeros(10**6))
    with pytest.raises(ValueError, match=r"cannot reshape|buffer"):
        unpack({**packed, "shape": [3]})
    with pytest.raises(ValueError, match="an array of"):
        unpack({**packed, "shape": [2**40]})


def test_points_are_found_whatever_was_asked_for_and_scored_ones_are_no_finished_run(tmp_path):
    records, key = Records(tmp_path), Key("selection-all-3", "cub", "BPL (SFSP1)")
    settings = {"data": "x", "grid": {"mu": [0.1]}, "n_points_more": 3}
    assert records.find_points(key, settings) is None
    records.write_points(key, settings, results={"points": [1]}, seconds=2.0)
    assert records.find(key, settings) is None
    assert records.find_points(key, settings)["results"] == {"points": [1]}
    records.write(key, settings, results={"points": [1, 2]}, seconds=3.0)
    assert records.find(key, settings)["results"] == {"points": [1, 2]}
    wider = {"data": "x", "grid": [{"mu": [0.1, 0.3]}], "n_points_more": 9}
    assert records.find(key, wider) is None
    assert records.find_points(key, wider)["seconds"] == 3.0
    assert records.find_points(key, {**wider, "data": "y"}) is None
    assert records.find_points(key, {**wider, "start": {"beta": 1}}) is None


def test_what_a_run_says_of_its_machine_goes_before_that_of_the_writer(tmp_path):
    machine = {"system": "Linux", "cpus": 16, "gpu": "NVIDIA H200"}
    record = Records(tmp_path).write(Key("map", "cub", "BPL"), {}, machine=machine)
    assert record["machine"] == machine
    assert record["versions"] == versions()
