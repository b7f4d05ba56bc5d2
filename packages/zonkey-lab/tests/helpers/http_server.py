"""A local web server that misbehaves on demand, for the tests of fetching."""

import io
import threading
import zipfile
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import requests


class Server(ThreadingHTTPServer):
    """Serves `content` at every path; the attributes say how badly."""

    daemon_threads = False  # so that closing it closes all of its sockets

    def __init__(self, content):
        super().__init__(("127.0.0.1", 0), _Handler)
        self.content = content
        self.ranges = True  # send a part if one is requested
        self.cut_at = None  # close after that many bytes of the body
        self.stall = 0  # seconds before it closes
        self.length = True  # send the length
        self.status = None  # an error to answer with
        self.delay = 0  # seconds until the answer
        self.redirects = {}  # path: path
        self.seen = []  # headers of each request
        self.stopped = threading.Event()

    def url(self, path):
        return f"http://127.0.0.1:{self.server_port}/{path}"

    def seen_ranges(self):
        return [headers.get("Range") for headers in self.seen]

    def handle_error(self, request, client_address):
        """Keep quiet about clients that leave early."""


class _Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self):
        server = self.server
        server.seen.append(dict(self.headers))
        server.stopped.wait(server.delay)
        if self.path in server.redirects:
            self._answer(302, b"", {"Location": server.redirects[self.path]})
        elif server.status:
            self._answer(server.status, b"sorry", {})
        else:
            self._send_content()

    def _send_content(self):
        content, asked = self.server.content, self.headers.get("Range")
        if not (asked and self.server.ranges):
            self._answer(200, content, {})
            return
        start = int(asked.removeprefix("bytes=").removesuffix("-"))
        if start >= len(content):
            self._answer(416, b"", {"Content-Range": f"bytes */{len(content)}"})
            return
        headers = {"Content-Range": f"bytes {start}-{len(content) - 1}/{len(content)}"}
        self._answer(206, content[start:], headers)

    def _answer(self, status, body, headers):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        if self.server.length:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body[: self.server.cut_at])
        self.server.stopped.wait(self.server.stall)

    def log_message(self, *arguments):
        """Keep quiet."""


@contextmanager
def serving(content):
    with Server(content) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            server.stopped.set()
            server.shutdown()
            thread.join()


def zip_of(members):
    """Return a zip archive, stored and not compressed, of {name or ZipInfo: bytes}."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in members.items():
            # Without the time of day: the bytes must be the same in every test process.
            entry = name if isinstance(name, zipfile.ZipInfo) else zipfile.ZipInfo(name)
            archive.writestr(entry, content)
    return buffer.getvalue()


def names_in(folder):
    """Return all that lies in a folder, hidden files as well."""
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*"))


def interrupt_downloads(monkeypatch):
    """Let every download be interrupted, as by Ctrl-C, after its first block."""
    original = requests.Response.iter_content

    def interrupted(self, chunk_size):
        yield next(original(self, chunk_size))
        raise KeyboardInterrupt

    monkeypatch.setattr(requests.Response, "iter_content", interrupted)
