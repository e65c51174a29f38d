"""A Kubernetes of one node, started on this machine as root, without Docker and without systemd.

The node is a set of Linux namespaces of its own, held open by one process: pods' mounts, links,
packet-filter rules and processes exist only in there and end with that process. One pair of links
leads from the machine to it.
"""
