"""The fixed addresses inside a cluster; only the pair of links varies between clusters."""

from __future__ import annotations

import ipaddress
import json

from tests.cluster.commands import run

PODS = "10.244.0.0/16"
NODE_PODS = "10.244.0.0/24"
SERVICES = "10.96.0.0/16"
API_SERVICE = "10.96.0.1"
DOMAIN = "cluster.local"
NODE = "runnerq-node"
_FIRST_SUBNET = 1


def machine_address(subnet: int) -> str:
    """The machine's end of the pair of links."""
    return f"10.213.{subnet}.1"


def node_address(subnet: int) -> str:
    """The node's end: the API server, cluster DNS and node ports answer there."""
    return f"10.213.{subnet}.2"


def free_subnet(taken: set[int]) -> int:
    """The first subnet number that no other cluster and no route of this machine uses."""
    routes = json.loads(run(["ip", "-json", "-4", "route", "show"]))
    used = [ipaddress.ip_network(route["dst"]) for route in routes if route["dst"] != "default"]
    for subnet in range(_FIRST_SUBNET, 255):
        wanted = ipaddress.ip_network(f"10.213.{subnet}.0/30")
        if subnet not in taken and not any(wanted.overlaps(net) for net in used):
            return subnet
    raise RuntimeError("no free network in 10.213.0.0/16; `python -m tests.cluster down --all`")
