"""Certificates, tokens and kubeconfigs of one cluster.

Made anew for each cluster and thrown away with it; nothing here is worth protecting.
"""

from __future__ import annotations

import json
import secrets
from dataclasses import dataclass
from pathlib import Path

from tests.cluster.commands import run
from tests.cluster.local.addresses import API_SERVICE, DOMAIN, NODE, node_address

_KEY = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "3650"]

# Name of the kubeconfig, user, groups. The audit policy knows these users.
_USERS = [
    ("admin", "runnerq:admin", "system:masters"),
    ("controller-manager", "system:kube-controller-manager", ""),
    ("scheduler", "system:kube-scheduler", ""),
    ("proxy", "system:kube-proxy", ""),
    ("kubelet", f"system:node:{NODE}", "system:nodes"),
    ("dns", "system:coredns", "system:masters"),
]


@dataclass(frozen=True, slots=True)
class Credentials:
    """Where the files of one cluster's credentials are."""

    folder: Path

    @property
    def authority(self) -> Path:
        """Certificate that signs the API server's."""
        return self.folder / "ca.crt"

    @property
    def tokens(self) -> Path:
        """The API server's list of tokens."""
        return self.folder / "tokens.csv"

    def certificate(self, name: str) -> Path:
        """Certificate of `apiserver` or `kubelet-client`; the key is beside it."""
        return self.folder / f"{name}.crt"

    def key(self, name: str) -> Path:
        """Private key of `apiserver`, `kubelet-client` or `service-accounts`."""
        return self.folder / f"{name}.key"

    def kubeconfig(self, name: str) -> Path:
        """Access of `admin`, `controller-manager`, `scheduler`, `proxy`, `kubelet` or `dns`."""
        return self.folder / f"{name}.kubeconfig"


def make_credentials(folder: Path, subnet: int) -> Credentials:
    """Write all files into the folder; the API server is the one of this subnet's node."""
    folder.mkdir(mode=0o700)
    made = Credentials(folder)
    address = node_address(subnet)
    _make_authority(made)
    services = ["kubernetes", "kubernetes.default", "kubernetes.default.svc"]
    names = [f"DNS:{name}" for name in [*services, f"{services[-1]}.{DOMAIN}", "localhost"]]
    addresses = [f"IP:{ip}" for ip in (address, API_SERVICE, "127.0.0.1")]
    _sign(made, "apiserver", "/CN=kube-apiserver", "serverAuth", ",".join(names + addresses))
    _sign(made, "kubelet-client", "/O=system:masters/CN=apiserver-to-kubelet", "clientAuth", None)
    key = made.key("service-accounts")
    run(["openssl", "genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256",
         "-out", key])  # fmt: skip
    run(["openssl", "pkey", "-in", key, "-pubout", "-out", folder / "service-accounts.pub"])

    rows: list[str] = []
    for name, user, groups in _USERS:
        token = secrets.token_hex(16)
        rows.append(f'{token},{user},{user},"{groups}"')
        made.kubeconfig(name).write_text(_kubeconfig(made.authority, address, user, token))
    made.tokens.write_text("\n".join(rows) + "\n")
    return made


def _make_authority(made: Credentials) -> None:
    # Without a configuration of our own openssl would mark every certificate as an authority.
    config = made.folder / "openssl.cnf"
    config.write_text("[req]\ndistinguished_name = name\n[name]\n")
    run(["openssl", "req", "-x509", *_KEY, "-config", config, "-subj", "/CN=runnerq-test-cluster",
         "-addext", "basicConstraints=critical,CA:TRUE", "-addext", "keyUsage=keyCertSign",
         "-addext", "subjectKeyIdentifier=hash",
         "-keyout", made.key("ca"), "-out", made.authority])  # fmt: skip


def _sign(made: Credentials, name: str, subject: str, usage: str, alternatives: str | None) -> None:
    extensions = ["-addext", f"extendedKeyUsage={usage}", "-addext", "authorityKeyIdentifier=keyid"]
    if alternatives:
        extensions += ["-addext", f"subjectAltName={alternatives}"]
    run(["openssl", "req", "-x509", *_KEY, "-config", made.folder / "openssl.cnf",
         "-CA", made.authority, "-CAkey", made.key("ca"), "-subj", subject, *extensions,
         "-keyout", made.key(name), "-out", made.certificate(name)])  # fmt: skip


def _kubeconfig(authority: Path, address: str, user: str, token: str) -> str:
    """A kubeconfig as JSON, which is YAML too."""
    cluster = {"server": f"https://{address}:6443", "certificate-authority": str(authority)}
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "runnerq", "cluster": cluster}],
        "users": [{"name": user, "user": {"token": token}}],
        "contexts": [{"name": "runnerq", "context": {"cluster": "runnerq", "user": user}}],
        "current-context": "runnerq",
    }
    return json.dumps(content, indent=1)
