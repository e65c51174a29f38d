"""All that touches the API server: what is watched, what is written, who may write.

The control loop knows none of this; it meets Kubernetes only through the ports of `fleet` and `control`.
"""
