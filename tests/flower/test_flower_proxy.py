"""The deployment of docs/flower.md, with its very configuration: nginx lets the Fleet API through and nothing else."""

from __future__ import annotations

import os
import re
import shutil
import ssl
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

pytest.importorskip("flwr", reason="needs the extra flower")

from federations import digits
from flower_processes import IMPATIENT, Authority, flwr, until

import fedvalue as fv
from fedvalue.flower._demo import lay_out, node_config, run_app
from fedvalue.flower._processes import LOOPBACK, Federation, _free_port, _listens
from fedvalue.games import FederatedGame
from fedvalue.training import Training

NGINX = shutil.which("nginx", path=os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin"]))
PAGE = Path(__file__).parents[2] / "docs" / "flower.md"
RULES = {"rounds": 2, "epochs": 1, "batch": 16, "rate": 0.01, "seed": 3}

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("one_thread")]


def configuration(authority: Authority, port: int, link: int) -> str:
    """What the page says, with the ports and paths of this test."""
    (block,) = re.findall(r"```nginx\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    changes = {
        "listen 443 ssl": f"listen {LOOPBACK}:{port} ssl",
        "/path/to/": f"{authority.folder}/",
        "https://127.0.0.1:8000": f"https://{LOOPBACK}:{link}",
    }
    for said, here in changes.items():
        assert said in block
        block = block.replace(said, here)
    # Where nginx keeps what it holds for a moment; a packaged one has folders of its own for that.
    kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    paths = "".join(f"{kind}_temp_path {authority.folder}/{kind};\n" for kind in kinds)
    return (
        f"daemon off; pid {authority.folder}/nginx.pid; error_log stderr;\nevents {{}}\n"
        f"http {{ access_log off;\n{paths}{block} }}\n"
    )


@contextmanager
def proxy(authority: Authority, link: int) -> Iterator[str]:
    """nginx before the SuperLink; its address."""
    assert NGINX is not None
    port = _free_port()
    file = authority.folder / "nginx.conf"
    file.write_text(configuration(authority, port, link), encoding="utf-8")
    with (authority.folder / "nginx.log").open("wb") as log:
        process = subprocess.Popen([NGINX, "-c", str(file), "-p", str(authority.folder)], stderr=log)
    try:
        until(lambda: _listens(port) or process.poll() is not None, "nginx", 20)
        assert process.poll() is None, (authority.folder / "nginx.log").read_text(encoding="utf-8")
        yield f"{LOOPBACK}:{port}"
    finally:
        process.terminate()
        process.wait()


def answer(address: str, path: str, authority: Authority) -> int:
    """The status that somebody gets who has the address and the consortium's public certificate."""
    trust = ssl.create_default_context(cafile=str(authority.root))
    kind = {"Content-Type": "application/protobuf"}
    request = urllib.request.Request(f"https://{address}{path}", b"", kind, method="POST")
    try:
        with urllib.request.urlopen(request, context=trust, timeout=20) as reply:
            return int(reply.status)
    except urllib.error.HTTPError as error:
        return error.code


def stranger(federation: Federation, address: str, *arguments: str) -> str:
    """What `flwr` says to somebody who uses the proxy's address; it must fail."""
    link = federation.address
    federation.address = address
    try:
        federation.start("stranger", "flwr", *arguments)
    finally:
        federation.address = link
    federation.wait("stranger", 120.0)
    assert federation.processes.pop("stranger").returncode != 0, federation.log("stranger")
    return federation.log("stranger")


@pytest.mark.skipif(NGINX is None, reason="needs nginx")
@pytest.mark.skipif(
    shutil.which("openssl") is None or shutil.which("ssh-keygen") is None,
    reason="needs openssl and ssh-keygen",
)
def test_nodes_come_in_and_strangers_do_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text(IMPATIENT, encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "site"), prepend=os.pathsep)
    authority = Authority(tmp_path / "tls")
    game = FederatedGame(digits((40, 30)), "mlp", Training(**RULES))  # type: ignore[arg-type]
    app = lay_out(tmp_path, game.scenario, {"method": "exact", **RULES})
    for name in ("key-0", "key-1", "stranger"):
        key = ["ssh-keygen", "-q", "-t", "ecdsa", "-b", "384", "-N", "", "-f", str(tmp_path / name)]
        subprocess.run(key, check=True, capture_output=True)
    with Federation(tmp_path) as federation:
        authority.secure(federation)
        federation.start_link()
        link = federation.address
        with proxy(authority, int(link.rpartition(":")[2])) as address:
            # The Control API is open to whoever reaches the SuperLink itself, which is why nobody may.
            assert answer(link, "/v1/control/list-runs", authority) == 200
            for path in (
                "/v1/control/list-runs",
                "/v1/control/register-node",
                "/v1/control/start-run",
                "/v1/runtime/acquire-task",
                "/v1/fleet/../control/list-runs",
                "/v1/fleet/%2e%2e/control/list-runs",
                "/v1/fleet/..%2fcontrol/list-runs",
                "//v1/control/list-runs",
                "/",
            ):
                assert answer(address, path, authority) == 403, path
            # Through the Fleet API nothing else is reached either, however the path is written.
            for path in (
                "/v1/control/../fleet/list-runs",
                "/v1/fleet/%252e%252e/control/list-runs",
                "/v1/fleet/x",
            ):
                assert answer(address, path, authority) >= 400, path
            for command in (
                ("supernode", "register", str(tmp_path / "stranger.pub"), "demo"),
                ("list", "demo"),
                ("run", str(app), "demo"),
            ):
                assert "403" in stranger(federation, address, *command)

            for place, key in enumerate(("key-0", "key-1")):
                federation.address = link
                flwr(federation, "supernode", "register", str(tmp_path / f"{key}.pub"), "demo")
                federation.address = address
                keys = ["--auth-supernode-private-key", str(tmp_path / key)]
                config = node_config(tmp_path, game.scenario, place)
                federation.start_node(f"node-{place}", config, *federation.trust, *keys)
            keys = ["--auth-supernode-private-key", str(tmp_path / "stranger"), "--max-retries", "1"]
            config = node_config(tmp_path, game.scenario, 0)
            federation.start_node("unregistered", config, *federation.trust, *keys)
            federation.address = link
            values = run_app(federation, app, tmp_path / "out", {}, 400.0)
            assert "SuperNode ID" not in federation.log("unregistered", 10**6)
            assert "SuperNode ID" in federation.log("node-0", 10**6)
    assert values.mean == pytest.approx(fv.value(game, "exact").mean, abs=1e-6)
