"""A client of Kubernetes' Container Runtime Interface: calls over gRPC, streams over WebSocket.

cri.proto is compiled when it is first needed: no generated file is kept. A request is written as
keyword arguments and dictionaries, which protobuf checks against its message.
"""

import functools
import json
import socket
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import grpc
import websocket
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from grpc_tools import protoc

from minirun.core.kernel import namespaces

PROTO = Path(__file__).with_name("cri.proto")
SERVICE = "runtime.v1.RuntimeService"


@functools.cache
def service() -> Any:
    """The descriptor of the service, compiled from cri.proto."""
    with tempfile.NamedTemporaryFile() as file:
        argv = ["protoc", f"-I{PROTO.parent}", f"--descriptor_set_out={file.name}", str(PROTO)]
        assert protoc.main(argv) == 0
        files = descriptor_pb2.FileDescriptorSet.FromString(file.read())
    pool = descriptor_pool.DescriptorPool()
    for each in files.file:
        pool.Add(each)
    return pool.FindServiceByName(SERVICE)


class Refused(AssertionError):
    """The service answered a call with an error; its text."""


class Calls:
    """Each call of the service is a method: `calls.StopContainer(container_id=…, timeout=1)`.

    Each raises Refused.
    """

    def __init__(self, path: str) -> None:
        self.channel = grpc.insecure_channel(f"unix:{path}")

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method = service().methods_by_name[name]
        request = message_factory.GetMessageClass(method.input_type)
        answer = message_factory.GetMessageClass(method.output_type)
        call = self.channel.unary_unary(
            f"/{SERVICE}/{name}",
            request_serializer=request.SerializeToString,
            response_deserializer=answer.FromString,
        )

        def send(**fields: Any) -> Any:
            try:
                return call(request(**fields), timeout=30)
            except grpc.RpcError as error:
                raise Refused(error.details()) from None

        return send

    def close(self) -> None:
        self.channel.close()


class Stream:
    """What a URL of Exec or Attach leads to: channels on one WebSocket (v4.channel.k8s.io).

    The first byte of a message is its channel: 0 input, 1 output, 2 errors, 3 the result as a
    Status of Kubernetes, 4 the window's size.
    """

    def __init__(self, url: str, pid: int) -> None:
        parts = urlsplit(url)
        self._connection = _connect(pid, (str(parts.hostname), int(parts.port or 80)))
        try:
            self._socket = websocket.create_connection(
                url.replace("http:", "ws:"), subprotocols=["v4.channel.k8s.io"], timeout=20,
                socket=self._connection,
            )  # fmt: skip
        except BaseException:
            self._connection.close()
            raise
        self.seen = dict.fromkeys(range(4), "")

    def send(self, text: str, channel: int = 0) -> None:
        self._socket.send_binary(bytes([channel]) + text.encode())

    def resize(self, rows: int, columns: int) -> None:
        self.send(json.dumps({"Width": columns, "Height": rows}), 4)

    def expect(self, text: str) -> str:
        """Read until `text` appears in the output."""
        while text not in self.seen[1]:
            assert self._read(), f"no {text!r} in {self.seen}"
        return self.seen[1]

    def end(self) -> int:
        """Read to the end; return the exit status that the server tells."""
        while self._read():
            pass
        self.close()
        status = json.loads(self.seen[3])
        if status["status"] == "Success":
            return 0
        return int(status["details"]["causes"][0]["message"])

    def close(self) -> None:
        with suppress(OSError, websocket.WebSocketException):
            self._socket.close()
        self._connection.close()

    def _read(self) -> bool:
        """Read one message; False at the end."""
        try:
            data = self._socket.recv()
        except websocket.WebSocketConnectionClosedException:
            return False
        if data:
            self.seen[data[0]] += data[1:].decode(errors="replace")
        return bool(data)


def _connect(pid: int, address: tuple[str, int]) -> socket.socket:
    """A connection made in a process's network namespace: a thread of its own goes there."""

    def there() -> socket.socket:
        with open(f"/proc/{pid}/ns/net") as namespace:
            namespaces.setns(namespace.fileno(), namespaces.CLONE_NEWNET)
        return socket.create_connection(address, timeout=20)

    with ThreadPoolExecutor(1) as pool:
        return pool.submit(there).result()
