"""Messages sent about alerts, read from the outbox."""

from sqlalchemy import Connection, func, select

from alerts.model import Snapshot
from monitor.models.alerting import DIGEST
from monitor.store.alert_tables import outbox


def messages(connection: Connection) -> list[Snapshot]:
    """Return the evidence of each message about alerts, once a message, the newest first."""
    seen = select(func.min(outbox.c.delivery_id)).group_by(outbox.c.incident_id, outbox.c.sequence)
    query = (
        select(outbox.c.snapshot)
        .where(outbox.c.delivery_id.in_(seen), outbox.c.event != DIGEST)
        .order_by(outbox.c.created_at.desc(), outbox.c.sequence.desc())
    )
    return [Snapshot.model_validate(found) for found in connection.execute(query).scalars()]
