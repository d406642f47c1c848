"""What the portal may answer, and what is made of it."""

import logging
import math
import ssl
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from barograph.errors import BarographError, CapacityError, ConfigurationError, InfrastructureError
from inventory.emulab import portal
from inventory.emulab.portal import TOKEN_VARIABLE as VARIABLE
from inventory.leases import registry
from inventory.machines import MACHINE_TYPES, MachineRequest
from tests.support.emulab.portal import TOKEN, Dropped
from tests.support.emulab.portal import manifest as written
from tests.support.emulab.world import IMPATIENT, World, world

WANTED = [MachineRequest(name, MACHINE_TYPES["type_1"]) for name in ("master", "m1")]
HURRIED = replace(IMPATIENT, busy_s=0.2)


@pytest.fixture
def there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    monkeypatch.setenv("BAROGRAPH_STATE", str(tmp_path / "state"))
    with world("portal", tmp_path) as made:
        yield made


def take(there: World, ttl_s: float = 3600) -> registry.Lease:
    return registry.take("ann", "series", "emulab", ttl_s, site=there.testbed().site(), shared=True)


@pytest.mark.parametrize(
    ("token", "message"),
    [
        ("", rf"{VARIABLE} is not set; set it to your token \(the portal's page"),
        ("an-old-one", rf"refuses the token in {VARIABLE} \(401: Unauthorized\); if it expired, get another"),
        ("two\nlines", "characters that no token has"),
    ],
)
def test_a_token_that_is_missing_or_expired(
    there: World, monkeypatch: pytest.MonkeyPatch, token: str, message: str
) -> None:
    monkeypatch.setenv(VARIABLE, token)
    with pytest.raises(ConfigurationError, match=message):
        there.testbed().check(WANTED)
    assert not any(method == "POST" for method, _ in there.portal.seen)


def test_the_token_is_never_told(there: World, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    testbed, lease = there.testbed(), take(there)
    testbed.acquire(lease, WANTED)
    testbed.release(lease)
    there.close()
    with pytest.raises(BarographError) as failure:
        there.testbed(HURRIED).check(WANTED)
    state = "".join(path.read_text() for path in registry.state_dir().rglob("*") if path.is_file())
    assert TOKEN not in caplog.text + str(failure.value) + repr(failure.value.__cause__) + state


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"profile": "smal-lan"}, r"profile is 'smal-lan'; known in PortalProfiles: small-lan"),
        ({"project": "strom"}, r"project is 'strom': the portal knows none"),
    ],
)
def test_an_unknown_project_or_profile(there: World, changed: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        there.testbed(**changed).check(WANTED)


def test_a_profile_that_is_not_listed_is_tried_and_told(there: World) -> None:
    testbed = there.testbed(profile_project="Others")
    testbed.check(WANTED)
    there.portal.profile = "another"
    with pytest.raises(ConfigurationError, match="knows no profile Others/small-lan"):
        testbed.acquire(take(there), WANTED)
    assert there.empty


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("endpoint", "http://boss.emulab.net:43794", r"endpoint is .* must not travel in the clear"),
        ("project", "a b; rm -rf", r"project is 'a b; rm -rf': String should match"),
        ("user", "-oProxyCommand=x", r"user is '-oProxyCommand=x'"),
        ("ssh_key", "/nowhere/id", r"ssh_key is '/nowhere/id': there is no such file"),
        ("ops_known_hosts", "/nowhere", r"ops_known_hosts is '/nowhere': there is no such file"),
        ("ops_host", None, "neither ops_host nor known_hosts"),
        ("access", "telnet", "access is 'telnet'; allowed are portal, classic"),
        ("hardware", {}, r"options\.emulab\.hardware is not known; known are .*profile"),
        ("longest_hours", 0, "longest_hours is 0: Input should be greater than 0"),
    ],
)
def test_a_wrong_option_is_named(there: World, field: str, value: object, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        there.testbed(**{field: value}).check(WANTED)


def test_a_portal_that_does_not_answer(there: World) -> None:
    there.portal.close()
    begun = time.monotonic()
    with pytest.raises(InfrastructureError, match=r"portal at http://127.0.0.1:\d+ does not answer .*check"):
        there.testbed(HURRIED).check(WANTED)
    assert time.monotonic() - begun < 60


def test_busy_is_asked_again_for_a_while(there: World) -> None:
    there.portal.hook = lambda n, *_: (503, {"Retry-After": "0"}) if n <= 3 else None
    there.testbed().check(WANTED)
    assert len(there.portal.seen) == 5
    there.portal.hook = lambda *_: (429, {})
    with pytest.raises(CapacityError, match=r"too busy \(429: made by a test\); try later"):
        there.testbed(HURRIED).check(WANTED)


def test_a_creation_is_not_asked_twice_but_is_found_again(there: World) -> None:
    def lose_the_answer(n: int) -> None:
        if there.portal.seen[n - 1] == ("POST", "/experiments/"):
            raise Dropped

    there.portal.after = lose_the_answer
    with pytest.raises(InfrastructureError, match="does not answer"):
        there.testbed().acquire(take(there), WANTED)
    assert sum(path == "/experiments/" for _method, path in there.portal.seen) == 1
    assert there.empty


def test_a_redirect_to_another_host_gets_no_token(there: World) -> None:
    there.portal.hook = lambda *_: (307, {"Location": "http://elsewhere.example/experiments"})
    with pytest.raises(ConfigurationError, match=r"redirects to elsewhere\.example; the token is not carried there"):
        there.testbed().check(WANTED)


def test_a_failure_of_the_portal_is_not_ours(there: World) -> None:
    there.portal.hook = lambda *_: (500, {})
    with pytest.raises(InfrastructureError, match=r"the portal failed at GET .* \(500"):
        there.testbed(HURRIED).check(WANTED)


def test_slow_provisioning_is_waited_for_and_has_a_limit(there: World) -> None:
    there.portal.slowness = 20
    testbed, lease = there.testbed(), take(there)
    assert len(testbed.acquire(lease, WANTED)) == 2
    testbed.release(lease)
    there.portal.slowness = 10**6
    again, hurried = take(there), there.testbed(replace(IMPATIENT, end_s=0.2), ready_minutes=0.005)
    with pytest.raises(InfrastructureError, match=r"is created after .*ready_minutes") as failure:
        hurried.acquire(again, WANTED)
    assert "could not be ended: " in failure.value.__notes__[0]
    there.portal.slowness = 1
    there.reaper().release(again)
    assert there.empty


def test_the_profile_makes_another_number_of_nodes(there: World) -> None:
    testbed = there.testbed(count_binding=None, bindings={"phystype": "d710", "nodeCount": 3})
    with pytest.raises(ConfigurationError, match=r"made 3 nodes \(node0, .*node2\), 2 are needed; set their number"):
        testbed.acquire(take(there), WANTED)
    assert there.empty


def test_it_ends_itself_and_lasts_longer_when_told(there: World) -> None:
    testbed, lease = there.testbed(), take(there, 5400)
    machines = testbed.acquire(lease, WANTED)
    (made,) = there.portal.experiments.values()
    assert made.body["duration"] == math.ceil(1.5)
    ends = made.expires_at
    testbed.prolong(registry.renew(lease, 5400), machines)
    assert made.expires_at == ends  # an hour was begun that covers it
    later = registry.renew(lease, 5 * 3600)
    there.reaper().prolong(later, machines)
    assert abs(made.expires_at.timestamp() - later.expires_s) < 2


def test_an_extension_that_wants_approval(there: World) -> None:
    testbed, lease = there.testbed(), take(there)
    machines = testbed.acquire(lease, WANTED)
    there.portal.most_hours = 10
    with pytest.raises(CapacityError, match=r"lasts until .*an administrator may have to approve"):
        testbed.prolong(registry.renew(lease, 20 * 3600), machines)
    (made,) = there.portal.experiments.values()
    assert made.expires_at < datetime.now(UTC) + timedelta(hours=2)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("<rspec", "is no XML"),
        ('<!DOCTYPE x [<!ENTITY a "b">]><rspec/>', "defines entities"),
        (written(["127.0.0.11"], 22, logins=False), "node0 has no login"),
        (written(["127.0.0.11"], 22).replace("<ip ", "<no "), "node0 has no address on the experiment LAN"),
        (written(["{{ lookup('pipe', 'id') }}"], 22), r"node0 has the address \"\{\{ lookup"),
        (written(["-oProxyCommand=id"], 22), "node0 has the address '-oProxyCommand=id'"),
        (written(["127.0.0.11"], 22).replace('port="22"', 'port="ssh"'), "node0 has the port 'ssh'"),
    ],
)
def test_a_manifest_that_says_too_little(text: str, message: str) -> None:
    with pytest.raises(BarographError, match=message):
        portal.manifest_nodes([text], "ann")


def two_lans(*addresses: tuple[str, ...]) -> str:
    text = written([f"127.0.0.{number + 10}" for number in range(len(addresses))], 22)
    for number, of_node in enumerate(addresses):
        interfaces = "".join(f'<ip address="{each}" netmask="255.255.255.0" type="ipv4"/>' for each in of_node)
        text = text.replace(f'<ip address="10.10.1.{number + 1}" type="ipv4" netmask="255.255.255.0"/>', interfaces)
    return text


def test_of_two_lans_the_one_with_all_machines_is_taken() -> None:
    text = two_lans(("10.10.1.1", "10.10.2.1"), ("10.10.2.2", "10.10.1.2"), ("10.10.1.3",))
    addresses = [node.experiment_address for node in portal.manifest_nodes([text], "ann")]
    assert addresses == ["10.10.1.1", "10.10.1.2", "10.10.1.3"]
    apart = two_lans(("10.10.3.1",), ("10.10.4.1",))
    with pytest.raises(
        ConfigurationError, match=r"no LAN has all machines \(node0: 10\.10\.3\.0/24; node1: 10\.10\.4\.0/24"
    ):
        portal.manifest_nodes([apart], "ann")


def test_nodes_are_taken_in_natural_order_or_by_our_names() -> None:
    many = [f"127.0.0.{number}" for number in range(10, 22)]
    found = portal.manifest_nodes([written(many, 2222)], "ann")
    assert [node.name for node in found] == [f"node{number}" for number in range(12)]
    assert (found[11].inside_address, found[11].ssh_port, found[11].experiment_address) == (
        "127.0.0.21",
        2222,
        "10.10.1.12",
    )
    ours = written(many[:2], 22).replace('"node0"', '"m1"').replace('"node1"', '"master"')
    seated = portal.assign_nodes(portal.manifest_nodes([ours], "ann"), ["master", "m1"])
    assert [(node.name, node.inside_address) for node in seated] == [("master", "127.0.0.11"), ("m1", "127.0.0.10")]


def test_a_certificate_that_nobody_vouches_for_is_for_the_user_to_mend(there: World, tmp_path: Path) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "127.0.0.1")])
    end = datetime.now(UTC) + timedelta(days=1)
    certificate = x509.CertificateBuilder(name, name, key.public_key(), 1, end - timedelta(days=2), end).sign(
        key, SHA256()
    )
    pem = certificate.public_bytes(Encoding.PEM) + key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    (tmp_path / "server.pem").write_bytes(pem)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "server.pem")
    with HTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        Thread(target=server.serve_forever, daemon=True).start()
        client = portal.PortalClient(f"https://127.0.0.1:{server.server_port}", HURRIED)
        with pytest.raises(ConfigurationError, match=r"certificate of https://127\.0\.0\.1:\d+ is not trusted \(self"):
            client.call("GET", "/experiments")
        server.shutdown()
