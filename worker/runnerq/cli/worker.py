"""`runnerq worker APP`: one engine process, told by its environment; what a worker pod runs."""

from __future__ import annotations

import logging
import sys
from typing import TYPE_CHECKING

import click

from runnerq.cli.options import Target, run_async, target_options
from runnerq.errors import ConfigurationError

if TYPE_CHECKING:
    from runnerq.engine import WorkerEngine
    from runnerq.engine.health import HealthServer
    from runnerq.metrics import MetricsSink

LEVELS = ("debug", "info", "warning", "error")


@click.command()
@click.argument("app", envvar="RUNNERQ_APP")
@target_options
@click.option(
    "--types",
    envvar="RUNNERQ_ACTIVITY_TYPES",
    show_envvar=True,
    metavar="LIST",
    help="Only these activity types, separated by commas: exact, one trailing star, or *.",
)
@click.option(
    "--concurrency",
    envvar="RUNNERQ_CONCURRENCY",
    show_envvar=True,
    type=click.IntRange(min=1),
    default=10,
    show_default=True,
    help="Activities that run at once.",
)
@click.option("--pool", envvar="RUNNERQ_POOL", show_envvar=True, default="", help="Pool it is of.")
@click.option(
    "--pod-name", envvar="RUNNERQ_POD_NAME", show_envvar=True, default="", help="Pod it runs in."
)
@click.option(
    "--build-id",
    envvar="RUNNERQ_BUILD_ID",
    show_envvar=True,
    default="",
    help="Version of the app, as consoles show it.",
)
@click.option(
    "--drain-seconds",
    envvar="RUNNERQ_DRAIN_SECONDS",
    show_envvar=True,
    type=click.FloatRange(min=0),
    default=25.0,
    show_default=True,
    help="How long running activities may finish after SIGTERM.",
)
@click.option(
    "--metrics-port",
    envvar="RUNNERQ_METRICS_PORT",
    show_envvar=True,
    type=click.IntRange(0, 65535),
    default=9090,
    show_default=True,
    help="Port of /metrics, /healthz and /readyz; 0 takes a free one.",
)
@click.option(
    "--max-connections",
    envvar="RUNNERQ_MAX_CONNECTIONS",
    show_envvar=True,
    type=click.IntRange(min=1),
    default=4,
    show_default=True,
    help="Connections to Postgres.",
)
@click.option(
    "--log-level",
    envvar="RUNNERQ_LOG_LEVEL",
    show_envvar=True,
    type=click.Choice(LEVELS),
    default="info",
    show_default=True,
    help="What is logged to stderr.",
)
@run_async
async def worker(
    *,
    app: str,
    target: Target,
    types: str | None,
    concurrency: int,
    pool: str,
    pod_name: str,
    build_id: str,
    drain_seconds: float,
    metrics_port: int,
    max_connections: int,
    log_level: str,
) -> None:
    """Run activities of APP until SIGTERM or Ctrl-C.

    APP is a module with decorated functions (`shop.activities`), or `module:name` of a registry or a
    list; several are separated by commas. The current directory is searched too.
    """
    from runnerq.engine import WorkerEngine
    from runnerq.registry import load_activities

    logging.basicConfig(
        level=log_level.upper(), format="%(asctime)s %(levelname)-7s %(name)s: %(message)s"
    )
    if "" not in sys.path:
        sys.path.insert(0, "")
    registry = load_activities(app)
    metrics = _metrics()
    async with target.opened(max_connections=max_connections) as backend:
        engine = WorkerEngine(
            backend,
            activities=registry,
            queue_name=target.queue,
            activity_types=_listed(types),
            metrics=metrics,
            max_workers=concurrency,
            drain_timeout=drain_seconds,
            pool=pool,
            pod=pod_name,
            build_id=build_id,
        )
        health = _health(engine, metrics, metrics_port)
        health.start()
        click.echo(f"health and metrics on port {health.port}", err=True)
        try:
            await engine.run_until_signal()
        finally:
            health.stop()


def _listed(types: str | None) -> list[str] | None:
    """Patterns from a comma-separated list; None for all."""
    if types is None:
        return None
    found = [part.strip() for part in types.split(",") if part.strip()]
    return found or None


def _metrics() -> MetricsSink:
    from runnerq.metrics import NoopMetrics, PrometheusMetrics

    try:
        return PrometheusMetrics()
    except ConfigurationError as error:
        logging.getLogger(__name__).warning("measuring nothing: %s", error)
        return NoopMetrics()


def _health(engine: WorkerEngine, metrics: MetricsSink, port: int) -> HealthServer:
    from runnerq.engine.health import HealthServer

    try:
        return HealthServer(engine, metrics, port=port)
    except OSError as error:
        raise ConfigurationError(
            f"cannot listen on {port}: {error.strerror or error}; give another, or 0 for a free one",
            field="metrics_port",
        ) from error
