"""Files are written whole or not at all, and changed by one process at a time."""

import errno
import os
import signal
import subprocess
import sys
import textwrap
import threading

import numpy as np
import pytest
from safetensors.numpy import load_file

from zonkey.errors import StorageError
from zonkey.persistence.container import read_arrays, whole_file, write_arrays, write_whole
from zonkey.persistence.lock import hold_lock, lock_model

ARRAYS = {
    "a": np.arange(6.0).reshape(2, 3),
    "b": np.array([True, False, True]),
    "c": np.array(7, np.int16),
    "d": np.empty((0, 4), np.float32),
    "e": np.asfortranarray(np.arange(6, dtype=">i4").reshape(2, 3)),
}


def run(code, *arguments, **options):
    code = textwrap.dedent(code)
    return subprocess.Popen(
        [sys.executable, "-c", code, *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )


def test_arrays_are_written_as_the_safetensors_library_reads_them(tmp_path):
    write_arrays(tmp_path / "a", "kind", {"x": "é"}, ARRAYS)
    header, found = read_arrays(tmp_path / "a", "kind")
    assert header["x"] == "é"
    for other in (found, load_file(tmp_path / "a")):
        assert other.keys() == ARRAYS.keys()
        for name, array in ARRAYS.items():
            np.testing.assert_array_equal(other[name], array, strict=name != "e")


@pytest.mark.parametrize("error", [OSError("broken"), KeyboardInterrupt(), SystemExit()], ids=repr)
def test_writing_that_fails_leaves_the_old_file(error, tmp_path):
    def write():
        with whole_file(tmp_path / "a") as file:
            file.write(b"half of it")
            raise error

    write_whole(tmp_path / "a", b"before")
    with pytest.raises(type(error)):
        write()
    assert [entry.name for entry in tmp_path.iterdir()] == ["a"]
    assert (tmp_path / "a").read_bytes() == b"before"


@pytest.mark.skipif(sys.platform == "win32", reason="has no limit of file sizes")
def test_a_full_disk_is_one_clear_error(tmp_path):
    write_whole(tmp_path / "a", b"before")
    code = """
        import resource, sys
        import numpy as np
        from zonkey import StorageError
        from zonkey.persistence.container import write_arrays
        resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))
        try:
            write_arrays(sys.argv[1], "kind", {}, {"x": np.ones(100_000)})
        except StorageError as error:
            print(error)
    """
    process = run(code, tmp_path / "a")
    text, errors = process.communicate(timeout=60)
    assert not errors
    assert text.startswith(f"{tmp_path / 'a'} must fit on the disk; it could not be written (")
    assert "MB free. Nothing was changed. Make room, or pass another path.\n" in text
    assert [entry.name for entry in tmp_path.iterdir()] == ["a"]
    assert (tmp_path / "a").read_bytes() == b"before"


@pytest.mark.skipif(sys.platform == "win32", reason="has no limit of file sizes")
def test_commands_tell_of_a_full_disk_in_one_line(tmp_path):
    """Fit in memory and in chunks, and change a model."""
    rng = np.random.default_rng(0)
    prototypes, looks = rng.normal(size=(12, 5)), rng.normal(size=(5, 60))
    codes = np.repeat(np.arange(9), 8)
    samples = prototypes[codes] @ looks + rng.normal(size=(72, 60))
    write_table(tmp_path / "x.csv", samples, codes)
    write_table(tmp_path / "p.csv", prototypes, range(12))
    write_table(tmp_path / "q.csv", prototypes[:1] + 1, ["new"])
    code = """
        import os, resource, sys
        from typer.testing import CliRunner
        from zonkey.cli import app
        os.chdir(sys.argv[1])
        def run(command):
            return CliRunner().invoke(app, command.split())
        assert run("fit x.csv p.csv -o m").exit_code == 0
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
        fit = "fit x.csv p.csv -o n"
        for command in (fit, f"{fit} --chunks", "classes add m q.csv"):
            done = run(command)
            assert done.exit_code == 2, done.output
            assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
            print(done.stderr.splitlines()[-1])
    """
    text, errors = run(code, tmp_path).communicate(timeout=120)
    assert not errors
    told = text.splitlines()
    assert len(told) == 3
    assert all("must fit on the disk" in line and "Make room" in line for line in told)
    assert not [*tmp_path.glob("*.part"), *tmp_path.glob("n")]


def write_table(path, rows, labels):
    names = [*(f"f{i}" for i in range(len(rows[0]))), "label"]
    lines = [[*map(str, row), str(label)] for row, label in zip(rows, labels, strict=True)]
    path.write_text("\n".join(",".join(line) for line in [names, *lines]) + "\n")


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_room_that_ends_while_writing_is_told(number, tmp_path):
    with pytest.raises(StorageError, match="must fit on the disk"), whole_file(tmp_path / "a"):
        raise OSError(number, os.strerror(number))
    assert not [*tmp_path.iterdir()]


@pytest.mark.skipif(sys.platform == "win32", reason="has no signals")
def test_a_process_that_is_told_to_end_leaves_neither_part_nor_lock(tmp_path):
    code = """
        import sys, time
        from zonkey.persistence.container import whole_file
        from zonkey.persistence.lock import lock_model
        with lock_model(sys.argv[1]), whole_file(sys.argv[1]) as file:
            file.write(b"half of it")
            print("writing", flush=True)
            time.sleep(60)
    """
    with run(code, tmp_path / "a") as process:
        assert process.stdout.readline() == "writing\n"
        assert len([*tmp_path.iterdir()]) == 2
        process.terminate()
        assert process.wait(timeout=60) == -signal.SIGTERM
    assert not [*tmp_path.iterdir()]


def test_the_handler_of_a_program_is_left_alone(tmp_path):
    seen = []
    before = signal.signal(signal.SIGTERM, lambda *_: seen.append("ended"))
    try:
        with whole_file(tmp_path / "a"):
            signal.raise_signal(signal.SIGTERM)
    finally:
        signal.signal(signal.SIGTERM, before)
    assert seen == ["ended"]
    write_whole(tmp_path / "a", b"")
    assert signal.getsignal(signal.SIGTERM) is before


def test_a_lock_is_held_by_one_at_a_time(tmp_path):
    lock = tmp_path / "lock"
    with hold_lock(lock, "busy"):
        with pytest.raises(StorageError, match="busy"), hold_lock(lock, "busy"):
            pass
        assert lock.exists()
    assert not lock.exists()
    with hold_lock(lock, "busy"):
        pass


def test_changes_of_one_model_by_several_processes_are_all_kept(tmp_path):
    """Each adds one line; without the lock, some are lost."""
    path = tmp_path / "a.zonkey"
    path.write_text("")
    code = """
        import sys, time
        from pathlib import Path
        from zonkey.persistence.container import write_whole
        from zonkey.persistence.lock import lock_model
        for i in range(5):
            with lock_model(sys.argv[1]):
                content = Path(sys.argv[1]).read_bytes()
                time.sleep(0.01)
                write_whole(sys.argv[1], content + f"{sys.argv[2]} {i}\\n".encode())
    """
    processes = [run(code, path, name) for name in "abc"]
    for process in processes:
        assert process.communicate(timeout=60)[1] == ""
    assert sorted(path.read_text().split("\n")[:-1]) == [
        f"{n} {i}" for n in "abc" for i in range(5)
    ]
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.zonkey"]


def test_a_model_that_another_thread_changes_is_waited_for(tmp_path):
    held, done = threading.Event(), threading.Event()

    def change():
        with lock_model(tmp_path / "a"):
            held.set()
            done.wait(60)

    thread = threading.Thread(target=change)
    thread.start()
    held.wait(60)
    busy = pytest.raises(StorageError, match="a must be changed by one process")
    with busy, lock_model(tmp_path / "a", wait=0.1):
        pass
    done.set()
    with lock_model(tmp_path / "a"):
        thread.join()
