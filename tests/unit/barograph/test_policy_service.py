"""The harness's client and the policy service over TLS, with the certificate that a cluster gets."""

import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from barograph.policy_service import HttpService, ServiceRefused, ServiceUnreachable
from playbooks import cluster
from scheduler_plugins.model import Decision
from scheduler_plugins.service.server import PolicyServer, tls_context
from scheduler_plugins.service.state import ServiceState
from tests.support.on_machine import load
from tests.support.rounds import PLACED, request

probe = load("probe", "probe")


def with_certificate(folder: Path, address: str) -> Path:
    folder.mkdir()
    inventory, hosts = folder / "inventory.yml", {"master": {"ansible_host": address, "inside_address": "10.0.0.10"}}
    inventory.write_text(yaml.safe_dump({"all": {"hosts": hosts, "children": {"master": {"hosts": {"master": None}}}}}))
    cluster.certificate(inventory, folder)
    cluster.token(folder)
    return folder


@contextmanager
def serving(folder: Path, token: str, state: ServiceState | None = None) -> Iterator[int]:
    tls = tls_context(str(folder / "service.crt"), str(folder / "service.key"))
    server = PolicyServer(("127.0.0.1", 0), token, state or ServiceState(folder), tls=tls)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def test_the_harness_speaks_with_the_service_of_its_cluster_only(tmp_path: Path) -> None:
    ours, other = with_certificate(tmp_path / "ours", "127.0.0.1"), with_certificate(tmp_path / "other", "127.0.0.1")
    with serving(ours, cluster.token(ours)) as port:
        HttpService("127.0.0.1", ours / "token", port=port).configure("r1", "stela", {}, 1, 60.0)
        assert HttpService("127.0.0.1", ours / "token", port=port).state().run_id == "r1"
        with pytest.raises(ServiceUnreachable, match="certificate verify failed"):
            HttpService("127.0.0.1", other / "token", port=port).state()


def test_a_certificate_of_another_address_is_not_believed(tmp_path: Path) -> None:
    folder = with_certificate(tmp_path / "ours", "192.0.2.1")
    with serving(folder, cluster.token(folder)) as port, pytest.raises(ServiceUnreachable, match="not valid for"):
        HttpService("127.0.0.1", folder / "token", port=port).state()


def test_whoever_speaks_in_clear_is_not_answered_and_the_others_are(tmp_path: Path) -> None:
    folder = with_certificate(tmp_path / "ours", "127.0.0.1")
    with serving(folder, cluster.token(folder)) as port:
        plain = tmp_path / "plain"
        plain.mkdir()
        (plain / "token").write_text(cluster.token(folder))
        with pytest.raises(ServiceUnreachable):
            HttpService("127.0.0.1", plain / "token", port=port).state()
        assert HttpService("127.0.0.1", folder / "token", port=port).state().policy == "even"


def test_the_probe_posts_over_tls(tmp_path: Path) -> None:
    folder = with_certificate(tmp_path / "ours", "127.0.0.1")
    with serving(folder, cluster.token(folder)) as port:
        service = probe.SampleSink(f"https://127.0.0.1:{port}", cluster.token(folder), str(folder / "service.crt"))
        service.take('{"machine": "m1", "t": 1.0, "dt_s": 1.0, "cpu_cores": 0.1}')
        service.post()
        assert service.waiting == [] and not service.silent


def test_the_harness_hears_what_a_policy_asks_for_and_says_what_became_of_it(tmp_path: Path) -> None:
    """Over the wire, with the harness's own token, as in a run."""
    folder = with_certificate(tmp_path / "ours", "127.0.0.1")
    state = ServiceState(folder)
    with serving(folder, cluster.token(folder), state) as port:
        service = HttpService("127.0.0.1", folder / "token", port=port)
        service.configure("r1", "even", {}, 1, 60.0)
        service.decide_every(10.0, (1, 3))
        state.policy = lambda observation, memory: Decision(acquire=int(observation.may_act), memory=memory)
        state.schedule(request(time.time(), PLACED))
        (asked,) = service.state().machine_requests
        assert (asked.kind, asked.number, asked.ready, asked.outcome) == ("acquire", 1, True, "under_way")
        assert service.state().open_request() == asked
        with pytest.raises(ServiceRefused, match=r"400.*request q1 allows the names of 1 that joined"):
            service.end_machine_request("q1", "done")
        service.end_machine_request("q1", "failed", why="no zone has one")
        (over,) = service.state().machine_requests
        assert (over.outcome, over.why, over.ready) == ("failed", "no zone has one", False)
        assert service.state().open_request() is None


class LostAnswers(HttpService):
    """A network that loses the answers of the next calls; the service has heard them."""

    lost = 0

    def _call(self, path: str, body: Mapping[str, Any] | None) -> Any:
        answer = super()._call(path, body)
        if self.lost:
            self.lost -= 1
            raise ServiceUnreachable(f"the answer of {path} is lost")
        return answer


def test_an_answer_that_was_lost_does_not_end_the_run(tmp_path: Path) -> None:
    """Machines have booted for it: to say so again must be as to say it once."""
    folder = with_certificate(tmp_path / "ours", "127.0.0.1")
    state = ServiceState(folder)
    with serving(folder, cluster.token(folder), state) as port:
        service = LostAnswers("127.0.0.1", folder / "token", port=port)
        service.configure("r1", "even", {}, 1, 60.0)
        service.decide_every(10.0, (1, 4))
        state.policy = lambda observation, memory: Decision(acquire=int(observation.may_act), memory=memory)
        state.schedule(request(time.time(), PLACED, machines=3))
        service.lost = 2
        service.end_machine_request("q1", "done", ["m4"])
        (over,) = service.state().machine_requests
        assert (over.outcome, over.machines, over.times) == ("done", ("m4",), 1)
        service.lost = 1
        with pytest.raises(ServiceUnreachable, match="the answer of /scale is lost"):
            service.scale("e1", "scale_out", ["m3"], 0)
