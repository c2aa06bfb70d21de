"""The folder that `fedvalue flower deploy` writes, looked at with the tools that will read it."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import stat
import subprocess
import tomllib
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("flwr", reason="needs the extra flower")

import yaml
from cryptography import x509
from cryptography.x509.verification import PolicyBuilder, Store
from flower_fakes import public_line
from flwr.cli.build import build_fab_from_disk
from flwr.supercore.fab import Fab
from flwr.supernode.start_client_internal import _verify_fab
from typer.testing import CliRunner

from fedvalue.agreement import make_key, read_public_line
from fedvalue.cli import app
from fedvalue.errors import FedvalueError, InputError
from fedvalue.flower import Deployment, Settings, deploy, join, leave, register, renew, run_deployment
from fedvalue.flower._registered import RegisteredClient, read_roster, write_roster
from fedvalue.flower.deployment._checklist import clients_part
from fedvalue.flower.deployment._signing import make_signing_key, signatures, trusted_entities

RUNNER = CliRunner()
HOST = "link.example.org"
# Names that would do harm in a shell, a unit, TOML or Markdown if they were not quoted there.
NAMES = ["Hospital A", 'Sø\'n "$(touch x)" `id` %i |', "👩\u200d⚕️ Praxis; rm -rf ~"]
NGINX = shutil.which("nginx", path=os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin"]))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("deployed") / "consortium"
    deploy(home, HOST, NAMES, also=("192.0.2.7",), port=4443, client_home=str(home / "clients"))
    return home


def client_folders(folder: Path) -> list[Path]:
    return sorted((folder / "clients").iterdir())


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


class TestKeys:
    def test_the_certificate_is_for_the_host_and_comes_from_the_authority(self, folder: Path) -> None:
        root, server = (
            x509.load_pem_x509_certificate((folder / "tls" / name).read_bytes())
            for name in ("ca.crt", "server.crt")
        )
        for name in (HOST, "localhost"):
            verifier = PolicyBuilder().store(Store([root])).build_server_verifier(x509.DNSName(name))
            assert verifier.verify(server, []) == [server, root]
        names = server.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        assert [str(n) for n in names.get_values_for_type(x509.IPAddress)] == ["192.0.2.7", "127.0.0.1"]
        left = server.not_valid_after_utc - datetime.now(UTC)
        assert timedelta(days=364) < left <= timedelta(days=365)
        assert root.extensions.get_extension_for_class(x509.BasicConstraints).value.path_length == 0

    def test_only_the_owner_reads_keys_and_none_is_given_to_clients(self, folder: Path) -> None:
        assert mode(folder / "private") == 0o700
        secret = [folder / "private/ca.key", folder / "private/app-signing", folder / "tls/server.key"]
        assert [mode(path) for path in secret] == [0o600] * 3
        keys = [path.read_text(encoding="utf-8").splitlines()[1] for path in secret]
        for path in (folder / "clients").rglob("*"):
            if path.is_file():
                text = path.read_text(encoding="utf-8")
                assert "PRIVATE KEY" not in text
                assert not any(key in text for key in keys)
        public = [
            p for p in folder.rglob("*") if p.is_file() and "PRIVATE KEY" in p.read_text(encoding="utf-8")
        ]
        assert sorted(public) == sorted(secret)

    def test_renewing_makes_another_key_for_the_same_names(self, tmp_path: Path) -> None:
        deploy(tmp_path / "d", HOST, ["A"], days=10)
        before = {p: p.read_bytes() for p in (tmp_path / "d").rglob("*") if p.is_file()}
        done = RUNNER.invoke(app, ["flower", "deploy", str(tmp_path / "d"), "--renew", "--days", "90"])
        assert done.exit_code == 0, done.output
        changed = {
            p.name for p in (tmp_path / "d").rglob("*") if p.is_file() and before.get(p) != p.read_bytes()
        }
        assert changed == {"server.key", "server.crt"}
        server = x509.load_pem_x509_certificate((tmp_path / "d/tls/server.crt").read_bytes())
        names = server.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        assert names.get_values_for_type(x509.DNSName) == [HOST, "localhost"]
        assert mode(tmp_path / "d/tls/server.key") == 0o600
        (tmp_path / "d/private/ca.key").unlink()  # as the checklist asks for
        with pytest.raises(InputError, match=r"Cannot read .*ca\.key"):
            renew(tmp_path / "d")

    @pytest.mark.filterwarnings("ignore:GitWildMatchPattern")  # of Flower's own
    def test_nodes_take_apps_with_the_operators_signature_and_no_others(
        self, folder: Path, tmp_path: Path
    ) -> None:
        content = build_fab_from_disk(folder / "valuation")
        trusted = yaml.safe_load((client_folders(folder)[0] / "trusted.yaml").read_text(encoding="utf-8"))
        signed = signatures(content, folder / "private/app-signing")
        assert _verify_fab(Fab("", content, signed), dict(trusted))
        assert not _verify_fab(Fab("", content + b"x", signed), dict(trusted))
        make_signing_key(tmp_path / "other")
        assert not _verify_fab(Fab("", content, signatures(content, tmp_path / "other")), dict(trusted))
        assert not _verify_fab(Fab("", content, {"valid_license": "Valid"}), dict(trusted))
        assert trusted != yaml.safe_load(trusted_entities(tmp_path / "other"))


class TestFiles:
    def test_a_client_is_told_who_it_is_whatever_its_name(self, folder: Path) -> None:
        for place, mine in enumerate(client_folders(folder)):
            told = tomllib.loads((mine / "node.toml").read_text(encoding="utf-8"))
            assert (told["partition-id"], told["name"]) == (place, NAMES[place])
            assert re.fullmatch(r"[0-9]-[a-z0-9-]+", mine.name)
            assert {p.name for p in mine.iterdir()} == {
                "README.md", "ca.crt", "fedvalue-node@.service", "node.sh", "node.toml", "trusted.yaml",
            }  # fmt: skip
            for word in ("--trusted-entities trusted.yaml", "--root-certificates ca.crt", f"{HOST}:4443"):
                assert word in (mine / "node.sh").read_text(encoding="utf-8")
        assert [client.name for client in read_roster(folder / "roster.json")] == NAMES
        lines = (folder / "CHECKLIST.md").read_text(encoding="utf-8").splitlines()
        commands = [
            shlex.split(line) for line in lines if line.strip().startswith("fedvalue flower register")
        ]
        assert [command[4] for command in commands] == NAMES

    def test_scripts_are_shell(self, folder: Path) -> None:
        for script in (folder / "superlink.sh", *(mine / "node.sh" for mine in client_folders(folder))):
            assert mode(script) == 0o755
            subprocess.run(["sh", "-n", str(script)], check=True, capture_output=True)
        text = (folder / "superlink.sh").read_text(encoding="utf-8")
        assert "--host 127.0.0.1 --port 8000" in text
        assert "--enable-supernode-auth" in text
        assert "FLWR_TELEMETRY_ENABLED=0" in text
        missing = subprocess.run(
            [client_folders(folder)[0] / "node.sh"], capture_output=True, text=True, check=False
        )
        assert (missing.returncode, "no node.key" in missing.stderr) == (2, True)

    @pytest.mark.skipif(NGINX is None, reason="needs nginx")
    def test_nginx_takes_its_configuration(self, folder: Path) -> None:
        assert NGINX is not None
        done = subprocess.run(
            [NGINX, "-t", "-p", ".", "-c", "nginx.conf"],
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr

    @pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
    def test_systemd_takes_its_units(self, folder: Path, tmp_path: Path) -> None:
        mine = client_folders(folder)[0]
        units = [*sorted((folder / "systemd").iterdir()), tmp_path / f"fedvalue-node@{mine.name}.service"]
        shutil.copy(mine / "fedvalue-node@.service", units[-1])
        for unit in units:
            if NGINX is None and "proxy" in unit.name:
                continue
            done = subprocess.run(
                ["systemd-analyze", "verify", str(unit)], capture_output=True, text=True, check=False
            )
            assert (done.returncode, done.stderr) == (0, ""), unit.name
            assert "Restart=on-failure" in unit.read_text(encoding="utf-8")

    def test_the_app_takes_the_clients_of_the_roster(self, folder: Path) -> None:
        project = tomllib.loads((folder / "valuation/pyproject.toml").read_text(encoding="utf-8"))
        settings = Settings.from_config(
            project["tool"]["flwr"]["app"]["config"], ("task", "classes", "test", "data")
        )
        assert (settings.clients, settings.roster, settings.evaluate) == (0, Path("roster.json"), "server")
        assert project["project"]["dependencies"] == []


class TestRefusals:
    @pytest.mark.parametrize(
        ("options", "says"),
        [
            ({"host": "link example"}, "The host must be"),
            ({"host": "a;b"}, "The host must be"),
            ({"also": ("x y",)}, "The host must be"),
            ({"port": 0}, "port must be a whole number from 1 to 65,535"),
            ({"port": 8000}, "need a port each"),
            ({"listen": "eth0"}, "listen must be an address"),
            ({"home": "relative"}, "home must be an absolute path"),
            ({"client_home": "/opt/with space"}, "client_home must be an absolute path"),
            ({"user": "a b"}, "user must be the name"),
            ({"days": 0}, "days must be"),
            ({"clients": []}, "needs the names"),
            ({"clients": ["A", "Ａ"]}, "too much alike"),
            ({"clients": ["a\x1b[31m"]}, "line of text"),
            ({"settings": {"colour": "red"}}, "Unknown settings"),
        ],
    )
    def test_wrong_options(self, options: dict[str, Any], says: str, tmp_path: Path) -> None:
        given = {"host": HOST, "clients": ["A", "B"], **options}
        with pytest.raises(InputError, match=says):
            deploy(tmp_path / "d", given.pop("host"), given.pop("clients"), **given)
        assert not (tmp_path / "d").exists()

    def test_nothing_is_written_over(self, folder: Path) -> None:
        before = (folder / "private/ca.key").read_bytes()
        done = RUNNER.invoke(app, ["flower", "deploy", str(folder), "--host", HOST, "--clients", "A"])
        assert done.exit_code == 2
        assert "not empty" in done.output
        assert (folder / "private/ca.key").read_bytes() == before

    def test_the_command_says_what_it_needs(self, tmp_path: Path) -> None:
        done = RUNNER.invoke(app, ["flower", "deploy", str(tmp_path / "d")])
        assert done.exit_code == 2
        assert "--host and --clients" in done.output
        for command in (["register", str(tmp_path), "A", "a.pub"], ["run", str(tmp_path)]):
            done = RUNNER.invoke(app, ["flower", *command])
            assert done.exit_code == 2
            assert "not the folder of a deployment" in done.output

    def test_keys_of_others_and_unknown_clients(self, tmp_path: Path) -> None:
        folder, key = tmp_path / "d", tmp_path / "node.key.pub"
        deploy(folder, HOST, ["Hospital A", "Hospital B"], link_port=1)  # where nobody listens
        with pytest.raises(InputError, match=r"no client 'Hospital C'. Did you mean"):
            register(folder, "Hospital C", key)
        with pytest.raises(InputError, match="Cannot read"):
            register(folder, "Hospital A", key)
        key.write_text("ssh-rsa AAAA", encoding="utf-8")
        with pytest.raises(InputError, match="ssh-keygen -t ecdsa"):
            register(folder, "Hospital A", key)
        key.write_text(public_line(), encoding="utf-8")
        with pytest.raises(FedvalueError, match=r"does not answer on 127\.0\.0\.1:1\. Start it"):
            register(folder, "Hospital A", key)
        assert not read_roster(folder / "roster.json")[
            0
        ].key  # what the SuperLink does not know is not written down
        entries = json.loads((folder / "roster.json").read_text(encoding="utf-8"))
        entries["clients"][1]["key"] = key.read_text(encoding="utf-8")
        (folder / "roster.json").write_text(json.dumps(entries), encoding="utf-8")
        with pytest.raises(InputError, match="This is the key of 'Hospital B'"):
            register(folder, "Hospital A", key)
        key.write_text(public_line(), encoding="utf-8")
        with pytest.raises(InputError, match=r"has another key already.*--replace"):
            register(folder, "hospital  b", key)

    def test_keys_for_signing_are_checked_before_anybody_is_let_in(self, tmp_path: Path) -> None:
        folder, key = tmp_path / "d", tmp_path / "node.key.pub"
        key.write_text(public_line(), encoding="utf-8")
        mine, other = (make_key(tmp_path / name) for name in ("mine", "other"))
        clients = [
            RegisteredClient("Hospital A"),
            RegisteredClient("Hospital B", signs=read_public_line(mine)),
        ]
        deploy(folder, HOST, ["Hospital A", "Hospital B"], link_port=1)
        write_roster(folder / "roster.json", clients)
        with pytest.raises(InputError, match="key for signing is that of another client"):
            register(folder, "Hospital A", key, signs=mine)
        with pytest.raises(InputError, match=r"another key for signing already.*--replace"):
            register(folder, "Hospital B", key, signs=other)
        with pytest.raises(InputError, match="Ed25519"):
            register(folder, "Hospital A", key, signs=key)

    def test_runs_are_checked_before_anything_is_started(self, tmp_path: Path) -> None:
        deploy(tmp_path / "d", HOST, ["A"], link_port=1)
        with pytest.raises(InputError, match=r"Unknown setting 'metod'\. Did you mean 'method'"):
            run_deployment(tmp_path / "d", {"metod": "ipss"})
        with pytest.raises(InputError, match="The setting metric must be a text"):
            run_deployment(tmp_path / "d", {"metric": None})  # type: ignore[dict-item]
        with pytest.raises(InputError, match="Start the SuperLink"):
            run_deployment(tmp_path / "d")
        (tmp_path / "d/valuation/pyproject.toml").write_text("x = ", encoding="utf-8")
        with pytest.raises(InputError, match="is not an app"):
            run_deployment(tmp_path / "d")

    def test_a_folder_that_was_changed_by_hand(self, tmp_path: Path) -> None:
        deploy(tmp_path / "d", HOST, ["A"])
        (tmp_path / "d/deployment.json").write_text("{}", encoding="utf-8")
        with pytest.raises(InputError, match="is not as `fedvalue flower deploy` wrote it"):
            Deployment.read(tmp_path / "d")


class TestMembers:
    def test_who_joins_comes_last_and_who_leaves_keeps_its_number(self, tmp_path: Path) -> None:
        folder = tmp_path / "d"
        deploy(folder, HOST, ["Hospital A", "Hospital B"], link_port=1)
        before = [sorted(mine.iterdir()) for mine in client_folders(folder)]
        found = RUNNER.invoke(app, ["flower", "join", str(folder), "Hospital C"])
        assert found.exit_code == 0, found.output
        assert "2-hospital-c" in found.output
        node = tomllib.loads((folder / "clients/2-hospital-c/node.toml").read_text(encoding="utf-8"))
        assert (node["partition-id"], node["name"]) == (2, "Hospital C")
        assert [sorted(mine.iterdir()) for mine in client_folders(folder)[:2]] == before
        assert leave(folder, "hospital a") == "Hospital A"  # without a key nobody has to be asked
        assert read_roster(folder / "roster.json") == [
            RegisteredClient("Hospital A", left=True),
            RegisteredClient("Hospital B"),
            RegisteredClient("Hospital C"),
        ]
        for says, wrong in (
            ("has left already", lambda: leave(folder, "Hospital A")),
            ("no client 'Hospital D'", lambda: leave(folder, "Hospital D")),
            ("Hospital A", lambda: join(folder, "Hospital  A")),
        ):
            with pytest.raises(InputError, match=says):
                wrong()

    def test_the_checklist_follows_the_roster(self, tmp_path: Path) -> None:
        folder = tmp_path / "d"
        deploy(folder, HOST, ["Hospital A", "Hospital B"], link_port=1)
        path = folder / "CHECKLIST.md"
        ticked = path.read_text(encoding="utf-8").replace("- [ ] Nobody else", "- [x] Nobody else")
        path.write_text(ticked, encoding="utf-8")
        join(folder, "Hospital C")
        assert leave(folder, "Hospital A")
        text = path.read_text(encoding="utf-8")
        before, clients, after = re.split(r"^## Clients$|^## Value$", text, flags=re.MULTILINE)
        assert (before, after) == (
            ticked.split("## Clients\n")[0],
            ticked.split("## Value")[1],
        )  # as they were ticked
        assert re.findall(r"^- \[(.)\] (Hospital .)", clients, re.MULTILINE) == [
            ("x", "Hospital A"),
            (" ", "Hospital B"),
            (" ", "Hospital C"),
        ]
        assert "Hospital A has left" in clients
        assert "shows 2 that are online" in clients
        assert "- [x] Hospital B (`clients/0-hospital-b`) is registered" in clients_part(
            [RegisteredClient("Hospital B", key="ssh-ed25519 …")]
        )
        path.write_text("my own list", encoding="utf-8")
        join(folder, "Hospital D")
        assert path.read_text(encoding="utf-8") == "my own list"
