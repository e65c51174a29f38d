"""`runnerq operator`: what the chart runs."""

from __future__ import annotations

import asyncio
import logging

import click

from runnerq.errors import ConfigurationError


@click.command()
@click.option(
    "--log-level",
    envvar="RUNNERQ_LOG_LEVEL",
    type=click.Choice(["debug", "info", "warning", "error"]),
    default="info",
    show_default=True,
    show_envvar=True,
    help="What is logged.",
)
def operator(log_level: str) -> None:
    """Run the operator against a Kubernetes cluster; the chart installs it.

    Settings come from the environment: RUNNERQ_OPERATOR_NAMESPACE (where its Lease is),
    RUNNERQ_OPERATOR_NAMESPACES (what it watches; empty = all), RUNNERQ_OPERATOR_IMAGE (of the
    consoles), RUNNERQ_METRICS_PORT, POD_NAME; outside of a cluster KUBECONFIG.
    """
    logging.basicConfig(
        level=log_level.upper(), format="%(asctime)s %(levelname)-7s %(name)s: %(message)s"
    )
    # kopf narrates every event that it passes on.
    logging.getLogger("kopf").setLevel(max(logging.WARNING, logging.getLogger().level))
    try:
        from runnerq_operator.kube.connection import NoCluster
        from runnerq_operator.kube.program import OperatorProgram
        from runnerq_operator.kube.settings import settings_from
    except ModuleNotFoundError as error:
        raise click.ClickException(
            f'{error.name} is missing; install "runnerq[operator]"'
        ) from error

    async def run() -> None:
        await OperatorProgram(settings_from()).run()

    try:
        asyncio.run(run())
    except (ConfigurationError, NoCluster) as error:
        raise click.ClickException(str(error)) from error
