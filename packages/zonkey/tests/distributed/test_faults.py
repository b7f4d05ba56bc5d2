"""Faults in the middle of a reduction: the same bits as without, or one clear error, never a hang.

Each test injects its fault while chunks are read.
"""

import contextlib
import os
import select
import signal
import socket
import sys
import threading
import time
from functools import partial

import cloudpickle
import dask
import dask.array as da
import numpy as np
import pytest

import distributed
from zonkey import Moments
from zonkey.streaming import dask as engine

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # workers cannot import tests
pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")

N_CHUNKS, N_ROWS = 18, 40
PROTOTYPES = {j: [float(j), 1.0] for j in range(4)}
LABELS = np.arange(N_CHUNKS * N_ROWS) % 3


def read(number, fault=None, seconds=0.03):
    """Return the samples of a chunk, after what happens while they are read."""
    time.sleep(seconds)
    if fault is not None:
        fault(number)
    return np.random.default_rng(number).normal(size=(N_ROWS, 6))


def learned(fault=None, seconds=0.03):
    """Return everything that moments of the chunks hold."""
    numbers = da.arange(N_CHUNKS, chunks=1)
    X = numbers.map_blocks(
        lambda block: read(int(block[0]), fault, seconds),
        new_axis=1,
        chunks=((N_ROWS,) * N_CHUNKS, (6,)),
        meta=np.empty((0, 0)),
    )
    found = Moments(PROTOTYPES, n_reserve=2).update(X, LABELS)
    kept = [found.samples_of(label) for label in (0, 1, 2)]
    return [part.tobytes() for part in (found.A0, found.class_sums, found.counts, *kept)]


@pytest.fixture(scope="module")
def expected():
    with dask.config.set(scheduler="sync"):
        return learned(seconds=0)


@pytest.fixture(scope="module")
def broken(start):
    """Return a cluster to break; its nannies start workers again."""
    with start() as cluster:
        yield cluster


@pytest.fixture
def whole(broken):
    """Return the cluster with all its workers."""
    broken.scale(2)
    broken.wait_for_workers(2, timeout=30)
    return broken


@pytest.fixture
def own(whole):
    """Return the cluster and its client."""
    with distributed.Client(whole) as client:
        yield whole, client


def first_time(path):
    """Whether no process has been here before."""
    with contextlib.suppress(FileExistsError):
        path.touch(exist_ok=False)
        return True
    return False


def kill(path, at, number):
    if number in at and first_time(path / f"killed-{number}"):
        os.kill(os.getpid(), signal.SIGKILL)


def wait_at(path, at, number):
    if number == at:
        (path / "reached").touch()


def slow(path, number):
    """The process that comes first needs much longer for each of its chunks."""
    if first_time(path / "slow"):
        (path / "slow").write_text(str(os.getpid()))
    time.sleep(0.3 * ((path / "slow").read_text() == str(os.getpid())))


def hog(at, number):
    """Take more memory than there is, in steps that the nanny can see."""
    taken = []
    for _ in range(60 * (number == at)):
        taken.append(np.ones(5_000_000))
        time.sleep(0.05)


def too_large(at, number):
    if number == at:
        np.ones(1 << 57)


@contextlib.contextmanager
def meanwhile(path, action):
    """Do something once the chunk that `wait_at` knows is reached."""

    def run():
        while not (path / "reached").exists():
            time.sleep(0.01)
        action()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    yield
    thread.join(60)
    assert not thread.is_alive()


class Proxy:
    """A connection to the scheduler that can be cut, held up and restored."""

    def __init__(self, address):
        host, port = address.removeprefix("tcp://").rsplit(":", 1)
        self._target = host, int(port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"tcp://127.0.0.1:{self._listener.getsockname()[1]}"
        self._pairs = {}
        self.is_cut = self.is_held = self.is_closed = False
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def hold_for(self, seconds):
        self.is_held = True
        time.sleep(seconds)
        self.is_held = False

    def close(self):
        self.is_closed = True
        self._thread.join(10)

    def _run(self):
        while not self.is_closed:
            if self.is_cut:
                self._drop(*self._pairs)
            if self.is_held:
                time.sleep(0.02)
                continue
            ready, _, _ = select.select([self._listener, *self._pairs], [], [], 0.02)
            for one in ready:
                self._accept() if one is self._listener else self._forward(one)
        self._drop(*self._pairs)
        self._listener.close()

    def _accept(self):
        one, _ = self._listener.accept()
        if self.is_cut:
            one.close()
            return
        other = socket.create_connection(self._target)
        self._pairs[one], self._pairs[other] = other, one

    def _forward(self, one):
        if one not in self._pairs:
            return
        try:
            data = one.recv(1 << 16)
            self._pairs[one].sendall(data)
        except OSError:
            data = b""
        if not data:
            self._drop(one)

    def _drop(self, *sockets):
        for one in sockets:
            other = self._pairs.pop(one, None)
            for end in (one, other) if other is not None else ():
                self._pairs.pop(end, None)
                end.close()


@pytest.fixture
def through_proxy(whole):
    """Return a proxy between the current client and its scheduler."""
    proxy = Proxy(whole.scheduler_address)
    client = distributed.Client(proxy.address, timeout=30)
    try:
        yield proxy
    finally:
        proxy.is_held = False
        client.close(timeout=5)
        proxy.close()


def test_a_worker_is_killed_in_the_middle(own, expected, tmp_path):
    assert learned(partial(kill, tmp_path, {9})) == expected
    assert (tmp_path / "killed-9").exists()


@pytest.mark.faults
def test_workers_are_killed_again_and_again(own, expected, tmp_path, monkeypatch):
    """Also in the last chunks, when only merges are left elsewhere."""
    # A task that waits on a worker when it ends is suspected too.
    monkeypatch.setattr(own[0].scheduler, "allowed_failures", 10)
    killed = {2, 7, 11, 15, 17}
    assert learned(partial(kill, tmp_path, killed)) == expected
    assert len(list(tmp_path.iterdir())) == len(killed)


@pytest.mark.exhaustive
def test_a_worker_is_restarted_in_the_middle(own, expected, tmp_path):
    _, client = own
    address, *_ = client.scheduler_info()["workers"]
    with meanwhile(tmp_path, lambda: client.restart_workers([address], timeout=60)):
        assert learned(partial(wait_at, tmp_path, 6)) == expected


@pytest.mark.faults
def test_all_workers_are_restarted_in_the_middle(own, tmp_path):
    """This cancels everything the client waits for."""
    _, client = own
    error = pytest.raises(ConnectionError, match=r"was lost, or its work was cancelled.*again")
    with meanwhile(tmp_path, lambda: client.restart(timeout=60)), error:
        learned(partial(wait_at, tmp_path, 6))


def test_a_worker_is_slow(own, expected, tmp_path):
    assert learned(partial(slow, tmp_path)) == expected


def test_a_chunk_beyond_the_memory_of_the_system_is_one_clear_error(own):
    with pytest.raises(MemoryError, match=r"memory of a worker; got: .*X\.rechunk\({0: 10}\)"):
        learned(partial(too_large, 5))


@pytest.mark.faults
def test_a_chunk_beyond_the_memory_of_workers_is_one_clear_error(start):
    few = dask.config.set({"distributed.scheduler.allowed-failures": 1})
    with few, start(memory_limit="600MB") as cluster, distributed.Client(cluster):
        with pytest.raises(MemoryError, match=r"2 workers ended on one\. Pass smaller chunks"):
            learned(partial(hog, 5))
        # Workers start again, and smaller chunks do.
        learned(seconds=0)


def test_the_connection_is_held_up_for_seconds(through_proxy, expected, tmp_path, monkeypatch):
    monkeypatch.setattr(engine, "_POLL", 0.3)
    with meanwhile(tmp_path, lambda: through_proxy.hold_for(1.2)):
        assert learned(partial(wait_at, tmp_path, 6), seconds=0.1) == expected


@pytest.mark.parametrize(
    "attribute", ["is_cut", pytest.param("is_held", marks=pytest.mark.exhaustive)]
)
def test_the_scheduler_is_lost_for_good(through_proxy, tmp_path, monkeypatch, attribute):
    """Its connection ends, or it stays and nothing is answered."""
    monkeypatch.setattr(engine, "_POLL", 0.3)
    monkeypatch.setattr(engine, "_PATIENCE", 1.5)
    error = pytest.raises(ConnectionError, match=r"must stay reachable.*new Client")
    with meanwhile(tmp_path, lambda: setattr(through_proxy, attribute, True)), error:
        learned(partial(wait_at, tmp_path, 6), seconds=0.1)


@pytest.mark.faults
def test_the_scheduler_is_stopped_for_seconds(start, expected, tmp_path):
    """A scheduler in a process of its own, as under an overloaded or frozen machine."""
    import subprocess

    place = tmp_path / "scheduler.json"
    command = [sys.executable, "-m", "distributed.cli.dask_scheduler", "--port", "0"]
    scheduler = subprocess.Popen(
        [*command, "--no-dashboard", "--scheduler-file", str(place)], stderr=subprocess.DEVNULL
    )
    workers = []
    try:
        with distributed.Client(scheduler_file=str(place), timeout=20) as client:
            command = [sys.executable, "-m", "distributed.cli.dask_worker", "--nthreads", "1"]
            options = ["--no-dashboard", "--local-directory", str(tmp_path)]
            for _ in range(2):
                line = [*command, *options, client.scheduler.address]
                workers.append(subprocess.Popen(line, stderr=subprocess.DEVNULL))
            client.wait_for_workers(2, timeout=20)

            def stop():
                os.kill(scheduler.pid, signal.SIGSTOP)
                time.sleep(4)
                os.kill(scheduler.pid, signal.SIGCONT)

            with meanwhile(tmp_path, stop):
                assert learned(partial(wait_at, tmp_path, 6), seconds=0.1) == expected
    finally:
        for process in (*workers, scheduler):
            process.terminate()
        for process in (*workers, scheduler):
            process.wait(20)
