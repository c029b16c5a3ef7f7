"""``groundwatch otlp``: take spans from apps that already trace."""

from __future__ import annotations

import ipaddress
from typing import Annotated

import typer

from monitor.errors import MissingExtraError, SettingsError
from monitor.settings import Settings, variable
from workers.logs import configure_logs

_MEGABYTE = 1024 * 1024
#: How long requests under way may take to end when the process is told to.
_LONGEST_END_S = 5


def otlp(
    port: Annotated[int, typer.Option(min=1, max=65_535, help="Port to listen on.")] = 4318,
    host: Annotated[
        str, typer.Option(help="Address to listen on; others need GROUNDWATCH_OTLP_TOKEN.")
    ] = "127.0.0.1",
    app: Annotated[
        str | None, typer.Option(help="Name of the app; unset: each span's service.name.")
    ] = None,
    wait: Annotated[
        float, typer.Option(min=0.1, help="Seconds without news after which a trace is whole.")
    ] = 60.0,
    max_mb: Annotated[int, typer.Option(min=1, help="Largest request, unpacked.")] = 16,
) -> None:
    """Receive OTLP/HTTP traces and sample the interactions in them."""
    try:
        import uvicorn  # noqa: PLC0415  # an extra
    except ModuleNotFoundError:
        raise MissingExtraError("the OTLP receiver", "otlp") from None
    from monitor.ingest.receiver import Receiver  # noqa: PLC0415  # an extra
    from monitor.ingest.services import Services  # noqa: PLC0415  # an extra

    settings = Settings.from_env()
    configure_logs(settings)
    token = settings.otlp_token.get_secret_value() if settings.otlp_token else None
    if token is None and not _is_loopback(host):
        raise SettingsError(
            f"{host} is not this machine's own address, and whoever reaches it could send"
            f" interactions: set {variable('otlp_token')}, or listen on 127.0.0.1"
        )
    services = Services(app)
    if app is not None:
        try:
            services.hook({})
        except ValueError as error:
            raise typer.BadParameter(str(error)) from None
    receiver = Receiver(services, wait_s=wait, most_bytes=max_mb * _MEGABYTE, token=token)
    uvicorn.run(
        receiver.app(),
        host=host,
        port=port,
        log_config=None,
        access_log=False,
        timeout_graceful_shutdown=_LONGEST_END_S,
    )


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
