"""The harness's side of the policy service's HTTP, on the control LAN."""

from __future__ import annotations

import http.client
import json
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from dags.errors import DagError
from dags.service_state import ServiceState, read_state

PORT = 8700


class ServiceUnreachable(DagError):
    """No answer: the machine, the network or the service is down. Worth asking again."""

    blame = "infrastructure"


class ServiceRefused(DagError):
    """An answer, but not the one that the contract promises."""

    blame = "harness"


class ServiceClient(Protocol):
    def configure(self, run_id: str, policy: str, parameters: Mapping[str, Any], seed: int, window_s: float) -> None:
        """Forget the last run and begin this one."""
        ...

    def scale(self, event_id: str, kind: str, joined: Sequence[str], leave: int) -> None: ...

    def input_rate(self, factor: float) -> None:
        """From now on spouts emit `factor` times the rate that the topology was submitted with."""
        ...

    def state(self) -> ServiceState: ...


class HttpService:
    """`address` is the master's control address; the token is the content of the file (0600)."""

    def __init__(self, address: str, token_file: Path, *, port: int = PORT, timeout_s: float = 5.0) -> None:
        self._url = f"http://{address}:{port}"
        self._token_file = token_file
        self._timeout_s = timeout_s
        # A proxy from the environment must never see the control LAN.
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    def configure(self, run_id: str, policy: str, parameters: Mapping[str, Any], seed: int, window_s: float) -> None:
        body = {"run_id": run_id, "policy": policy, "parameters": dict(parameters), "seed": seed, "window_s": window_s}
        self._call("/configure", body)

    def scale(self, event_id: str, kind: str, joined: Sequence[str], leave: int) -> None:
        self._call("/scale", {"event_id": event_id, "kind": kind, "joined": list(joined), "leave": leave})

    def input_rate(self, factor: float) -> None:
        self._call("/input_rate", {"factor": factor})

    def state(self) -> ServiceState:
        data = self._call("/state", None)
        try:
            return read_state(data)
        except (KeyError, TypeError, ValueError) as error:
            raise ServiceRefused(f"GET {self._url}/state is not the contract's JSON: {error!r}") from error

    def _call(self, path: str, body: Mapping[str, Any] | None) -> Any:
        request = urllib.request.Request(self._url + path, headers=self._headers())
        if body is not None:
            request.data = json.dumps(body).encode()
            request.add_header("Content-Type", "application/json")
        try:
            with self._opener.open(request, timeout=self._timeout_s) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            said = error.read(2000).decode(errors="replace").strip()
            raise ServiceRefused(f"{path} of the policy service answered {error.code}: {said}") from error
        except json.JSONDecodeError as error:
            raise ServiceRefused(f"{path} of the policy service did not answer JSON: {error}") from error
        except (OSError, http.client.HTTPException) as error:
            raise ServiceUnreachable(f"the policy service at {self._url} does not answer: {error}") from error

    def _headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self._token_file.read_text().strip()}"}
