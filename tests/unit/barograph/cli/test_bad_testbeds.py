"""Machines of somebody else's, on the command line: what is wrong there is one line before anything is rented.

Each provider is a fake that answers as the real one does: the test cloud (moto's server), Emulab's portal and ops host,
and, of machines that one has already, ports that nobody listens on.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path

import paramiko
import pytest

from barograph import cli
from barograph.testbeds import checks
from inventory.leases import registry
from tests.conftest import AT_NIGHT
from tests.support.cloud.cloud import Cloud
from tests.support.cloud.trouble import Refusal, Trouble
from tests.support.emulab.world import World, world

MACHINES = 6  # of stela/star: the master, four workers, and the one that joins


pytestmark = pytest.mark.usefixtures("strangers_box")


@pytest.fixture(params=["run", "check"] if AT_NIGHT else ["run"])
def command(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def refused(command: str, testbed: str, options: Mapping[str, object], capsys: pytest.CaptureFixture[str]) -> str:
    """What the one line says."""
    pairs = [f"--option={name}={json.dumps(value)}" for name, value in options.items()]
    code = cli.main([command, "stela/star", "--testbed", testbed, *pairs])
    screen = capsys.readouterr()
    assert code == 2, screen.out + screen.err
    assert screen.err.startswith("configuration: ") and screen.err.count("\n") == 1, screen.err
    assert registry.read_all() == ()
    return screen.err


# --- ec2 -------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def started(control_plane: Cloud) -> Cloud:
    return control_plane.anew()


@pytest.fixture
def cloud(started: Cloud, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cloud]:
    """Whatever a test does to it, nothing may have been rented, and nobody may have tried."""
    for name, value in started.environment().items():
        monkeypatch.setenv(name, value)
    started.expect(Trouble())
    yield started
    started.expect(Trouble())
    assert not started.left() and not started.launches()


EC2: list[tuple[dict[str, object], str]] = [
    ({"region": "us-east-9"}, "no price for region us-east-9; it has"),
    ({"region": "Ireland"}, "testbed.options.ec2.region is 'Ireland'"),
    ({"instance_types": {"type_1": "z9.huge"}}, "no price for z9.huge in us-east-1; it has"),
    ({"instance_types": {"type_1": "nonsense"}}, "testbed.options.ec2.instance_types.type_1 is 'nonsense'"),
    ({"image": "ami-0ffffff"}, "ami-0ffffff"),
    ({"image": "no-such-*"}, "image is no-such-*; us-east-1 has no such image"),
    ({"zones": ["us-east-1f"]}, "zones has us-east-1f; with a subnet are us-east-1a"),
    ({"vpc": "vpc-0"}, "vpc is vpc-0, which has no subnet in us-east-1"),
    ({"budget_usd": 0}, "testbed.options.ec2.budget_usd is 0: Input should be greater than 0"),
    ({"budget_usd": 0.001}, "not even one repetition fits: raise it to"),
]


@pytest.mark.parametrize(("options", "said"), EC2)
def test_what_ec2_does_not_have(
    command: str,
    options: dict[str, object],
    said: str,
    cloud: Cloud,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    assert said in refused(command, "ec2", cloud.options(**{"budget_usd": 500.0, **options}), capsys)
    assert not (tmp_path / "results").exists()


@pytest.mark.parametrize(
    ("action", "code", "advice"),
    [
        ("GetCallerIdentity", "ExpiredToken", "the session's credentials have expired; get new ones"),
        ("DescribeRegions", "RequestExpired", "the session's credentials have expired, or this box's clock is wrong"),
        ("GetCallerIdentity", "InvalidClientTokenId", "the access key is not known to AWS; see AWS_ACCESS_KEY_ID"),
        ("DescribeRegions", "AuthFailure", "not valid in this region; is the region enabled for the account?"),
        ("RunInstances", "UnauthorizedOperation", "docs/testbeds.md has the permissions that are needed"),
    ],
)
def test_credentials_that_aws_refuses(
    command: str, action: str, code: str, advice: str, cloud: Cloud, capsys: pytest.CaptureFixture[str]
) -> None:
    cloud.expect(Trouble(refusals=(Refusal(action, code, status=403),)))
    said = refused(command, "ec2", cloud.options(budget_usd=500.0), capsys)
    assert code in said and advice in said


def test_no_credentials(
    command: str, cloud: Cloud, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    said = refused(command, "ec2", cloud.options(budget_usd=500.0), capsys)
    assert "Unable to locate credentials; set AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY" in said


# --- emulab ----------------------------------------------------------------------------------------------------------


@pytest.fixture(params=["portal", "classic"])
def emulab(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    with world(request.param, tmp_path) as made:
        if request.param == "classic":
            made.options["hardware"] = {}
        yield made
        assert made.empty, "something was started"


def only(emulab: World, access: str) -> None:
    if emulab.options["access"] != access:
        pytest.skip(f"only of {access}")


def test_a_token_that_the_portal_refuses(
    command: str, emulab: World, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    only(emulab, "portal")
    monkeypatch.setenv("BAROGRAPH_EMULAB_TOKEN", "a-token-of-last-year")
    said = refused(command, "emulab", emulab.options, capsys)
    assert (
        "the portal refuses the token in BAROGRAPH_EMULAB_TOKEN (401: Unauthorized); if it expired, get another" in said
    )
    assert "last-year" not in said
    monkeypatch.delenv("BAROGRAPH_EMULAB_TOKEN")
    checks._cached_testbed.cache_clear()
    assert "BAROGRAPH_EMULAB_TOKEN is not set; set it to your token" in refused(
        command, "emulab", emulab.options, capsys
    )


EMULAB: list[tuple[str, dict[str, object], str]] = [
    ("portal", {"profile": "large-lan"}, "profile is 'large-lan'; known in PortalProfiles: small-lan"),
    ("portal", {"endpoint": "http://boss.example.org"}, "must be https://host:port; the token must not travel"),
    ("portal", {"access": "portla"}, "access is 'portla'; allowed are portal, classic"),
    ("classic", {"hardware": {"type_1": "pc9999"}}, "pc9999"),
    ("classic", {"project": "stormy"}, "project is 'stormy': ann sees no /proj/stormy on 127.0.0.1"),
    ("classic", {"ssh_key": "/none/id"}, "ssh_key is '/none/id': there is no such file; name one"),
]


@pytest.mark.parametrize(("access", "options", "said"), EMULAB)
def test_what_emulab_does_not_have(
    command: str, access: str, options: dict[str, object], said: str, emulab: World,
    capsys: pytest.CaptureFixture[str], tmp_path: Path,
) -> None:  # fmt: skip
    only(emulab, access)
    assert said in refused(command, "emulab", {**emulab.options, **options}, capsys)
    assert not (tmp_path / "results").exists()


# --- existing --------------------------------------------------------------------------------------------------------


@pytest.fixture
def closed() -> Iterator[list[int]]:
    """Ports of this machine that are taken and that nobody listens on."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(MACHINES)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        yield [one.getsockname()[1] for one in sockets]


@pytest.fixture
def lab(closed: list[int], tmp_path: Path) -> dict[str, object]:
    """An inventory of machines that are all off, with their host keys and somebody's own key."""
    key = paramiko.ECDSAKey.generate()
    key.write_private_key_file(str(tmp_path / "id"))
    lines = [f"[127.0.0.1]:{port} {key.get_name()} {key.get_base64()}\n" for port in closed]
    (tmp_path / "known_hosts").write_text("".join(lines))
    hosts = [f"node{n} ansible_host=127.0.0.1 ansible_port={port} ansible_user=ann\n" for n, port in enumerate(closed)]
    (tmp_path / "hosts").write_text("".join(hosts))
    return {"inventory": str(tmp_path / "hosts"), "known_hosts": str(tmp_path / "known_hosts"),
            "ssh_key": str(tmp_path / "id")}  # fmt: skip


def test_machines_that_do_not_answer_are_all_named(
    command: str, lab: dict[str, object], closed: list[int], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    said = refused(command, "existing", lab, capsys)
    assert f"existing: {MACHINES} to mend with {tmp_path}/hosts: " in said
    assert all(f"node{n} (ann@127.0.0.1:{port})" in said for n, port in enumerate(closed))
    assert not (tmp_path / "results").exists()


def test_a_machine_whose_host_key_nobody_knows(
    command: str, lab: dict[str, object], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "known_hosts").write_text("")
    said = refused(command, "existing", lab, capsys)
    assert "log in once with ssh and compare its fingerprint" in said
