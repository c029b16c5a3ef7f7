"""``groundwatch web``: the live page and the JSON API."""

from __future__ import annotations

import getpass
import json
import os
import socket
import sys
from typing import Annotated

import typer

from monitor.cli.console import PRIVATE, err, open_store
from monitor.errors import MissingExtraError, SettingsError
from monitor.settings import Settings, variable
from monitor.settings.addresses import is_loopback
from monitor.web.access import Role, check_address, new_token, password_entry
from workers.context import configure_logs

#: How long requests under way may take to end when the process is told to.
_LONGEST_END_S = 5
_SHORTEST_PASSWORD = 12


def web(
    host: Annotated[str | None, typer.Option(help="Unset: GROUNDWATCH_WEB_HOST.")] = None,
    port: Annotated[
        int | None, typer.Option(min=0, max=65_535, help="Unset: GROUNDWATCH_WEB_PORT.")
    ] = None,
    token_for: Annotated[
        str | None, typer.Option("--new-token", help="NAME:ROLE; make a bearer token, and end.")
    ] = None,
    password_for: Annotated[
        str | None, typer.Option("--new-password", help="NAME:ROLE; hash a password, and end.")
    ] = None,
    document: Annotated[
        bool, typer.Option("--openapi", help="Print the API's OpenAPI document, and end.")
    ] = False,
) -> None:
    """Serve the page on which people see how their apps are, and the JSON API."""
    if token_for or password_for:
        _make_entry(token_for, password_for)
        return
    if document:
        from monitor.web.schema import openapi  # noqa: PLC0415

        typer.echo(json.dumps(openapi(), indent=1, ensure_ascii=False))
        return
    os.umask(PRIVATE)
    settings = Settings.from_env()
    configure_logs(settings)
    host, port = host or settings.web_host, settings.web_port if port is None else port
    check_address(settings, host)
    import uvicorn  # noqa: PLC0415

    from monitor.web.app import make_app  # noqa: PLC0415
    from monitor.web.site import Site  # noqa: PLC0415

    site = Site(open_store(settings), settings)
    listener = _listen(host, port)
    shown = listener.getsockname()
    address = f"http://{f'[{shown[0]}]' if ':' in shown[0] else shown[0]}:{shown[1]}/"
    err.print(f"the page is at {address}", soft_wrap=True)
    config = uvicorn.Config(
        make_app(site),
        log_config=None,
        access_log=False,
        server_header=False,
        # Whose address a proxy names is for monitor.web.access to judge.
        proxy_headers=False,
        timeout_graceful_shutdown=_LONGEST_END_S,
    )
    uvicorn.Server(config).run(sockets=[listener])


def _listen(host: str, port: int) -> socket.socket:
    """
    Open the port before anything is said of it.

    Raises
    ------
    SettingsError
        If it is taken, or the address is not this machine's.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host.strip("[]"), port))
        # Whoever reads the address may come at once, and waits until the server is up.
        listener.listen()
    except OSError as error:
        listener.close()
        raise SettingsError(
            f"cannot listen on {host} port {port}: {error.strerror or error};"
            f" choose another with {variable('web_port')}"
        ) from None
    return listener


def _make_entry(token_for: str | None, password_for: str | None) -> None:
    name, role = _name_and_role(token_for or password_for or "")
    if token_for:
        token, entry = new_token(role, name)
        err.print("the token, shown only now:")
        typer.echo(token)
        err.print(f"add to {variable('web_tokens')}:")
    else:
        password = getpass.getpass() if sys.stdin.isatty() else sys.stdin.readline().rstrip("\n")
        if len(password) < _SHORTEST_PASSWORD:
            raise typer.BadParameter(f"the password needs {_SHORTEST_PASSWORD} characters or more")
        entry = password_entry(name, role, password)
        err.print(f"add to {variable('web_users')}:")
    typer.echo(entry)


def _name_and_role(text: str) -> tuple[str, Role]:
    name, _, role = text.partition(":")
    if not name or "," in name or role.upper() not in Role.__members__:
        raise typer.BadParameter(f"{text!r}: write NAME:ROLE, a role is viewer, reader or operator")
    return name, Role[role.upper()]


# --- otlp ---
# ``groundwatch otlp``: take spans from apps that already trace.


_MEGABYTE = 1024 * 1024


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
    if token is None and not is_loopback(host):
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
