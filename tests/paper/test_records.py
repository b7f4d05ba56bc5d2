import json

import numpy as np
import pytest

from zonkey.paper.records import Key, RecordError, Records, pack, unpack, versions

KEY = Key("zero-shot", "cub", "BPL, unscaled", 3)


def test_a_record_is_found_again_by_key_and_settings(tmp_path):
    records = Records(tmp_path)
    assert records.find(KEY, {"a": 1}) is None
    written = records.write(KEY, {"a": 1}, results={"zsl": 0.5}, seconds=1.5)
    assert records.find(KEY, {"a": 1}) == written == records.read(KEY)
    assert records.find(KEY, {"a": 2}) is None
    assert records.find(Key("zero-shot", "cub", "BPL, unscaled", 4), {"a": 1}) is None
    assert [record["model"] for record in records] == ["BPL, unscaled"]


def test_a_record_says_what_it_depends_on(tmp_path):
    record = Records(tmp_path).write(KEY, {"data": "x"}, results={})
    assert record["seed"] == 3
    assert record["settings"] == {"data": "x"}
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


def test_a_record_cut_off_by_a_crash_is_none(tmp_path):
    records = Records(tmp_path)
    records.write(KEY, {}, results={})
    path = tmp_path / KEY.path
    path.write_text(path.read_text()[:40])
    assert records.read(KEY) is None
    assert records.find(KEY, {}) is None
    with pytest.raises(RecordError, match=r"bpl-unscaled\.3\.json must be JSON; it is damaged"):
        list(records)


def test_models_of_different_names_lie_apart():
    names = ["BPL", "BPL0", "BPL1", "BPL (SFSP1)", "BPL (SFSP2)", "BPL (novel)", "BPL, unscaled"]
    assert len({Key("p", "d", name).path for name in names}) == len(names)


@pytest.mark.parametrize("dtype", [np.int16, np.float64, np.uint8])
def test_arrays_survive_as_text(dtype):
    array = np.arange(60).reshape(3, 4, 5).astype(dtype)[:, ::2]
    again = unpack(json.loads(json.dumps(pack(array))))
    assert again.dtype == dtype
    np.testing.assert_array_equal(again, array)
