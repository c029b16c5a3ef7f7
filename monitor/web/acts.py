"""What operators may do: label, acknowledge, try a channel; each act is written down."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import Response

from alerts.ledger import incident
from alerts.stored_groups import acknowledge
from alerts.try_channel import send_test
from monitor.errors import DeliveryError
from monitor.store.labels import Label, save_label
from monitor.store.one_sample import StoredEvaluation, StoredSample, read_sample
from monitor.web import names
from monitor.web.forms import Form, act, note, refused, see
from monitor.web.guard import principal_of
from monitor.web.site import Site

_MOST_NOTE_CHARS = 500
#: For how long somebody may look after an incident without being reminded.
ACK_HOURS = (1, 2, 4, 8, 24)


@dataclass(frozen=True, slots=True)
class Acts:
    """The endpoints that change something; all of them POST."""

    site: Site

    async def label(self, request: Request) -> Response:
        """Store what a person says of one evaluation."""
        return await act(self.site, request, self._label)

    async def test_channel(self, request: Request) -> Response:
        """Send a message marked TEST by one channel."""
        return await act(self.site, request, self._test_channel)

    async def acknowledge(self, request: Request) -> Response:
        """Note that somebody looks after an incident."""
        return await act(self.site, request, self._acknowledge)

    def _label(self, request: Request, form: Form) -> Response:
        sample_id = names.unslug(request.path_params["sample_id"])
        with self.site.store.read() as connection:
            found = read_sample(connection, sample_id)
        of = _evaluation(found, form) if found else None
        if found is None or of is None or form.get("judge") not in {"right", "wrong"}:
            return refused(request, 400, "no such evaluation", "nothing was stored")
        judged = bool(of.passed)
        label = Label(
            sample_id=sample_id,
            app=found.sample.interaction.app,
            metric=of.metric,
            evaluator_version=of.evaluator_version,
            labelled_by=principal_of(request).name,
            judge_passed=judged,
            human_passed=judged == (form["judge"] == "right"),
            note=form.get("note", "")[:_MOST_NOTE_CHARS],
            labelled_at=self.site.clock(),
        )
        with self.site.store.write() as connection:
            save_label(connection, label)
        note(self.site, request, f"said the judge was {form['judge']}", f"{sample_id} {of.metric}")
        return see(names.sample_path(sample_id))

    def _acknowledge(self, request: Request, form: Form) -> Response:
        incident_id = names.unslug(request.path_params["incident_id"])
        hours = next((n for n in ACK_HOURS if str(n) == form.get("hours")), None)
        if hours is None:
            return refused(request, 400, "for how long?", "nothing was changed")
        now = self.site.clock()
        with self.site.store.write() as connection:
            found = incident(connection, incident_id)
            if found is None or not acknowledge(
                connection,
                found.group_id or incident_id,
                by=principal_of(request).name,
                note=form.get("note", ""),
                now=now,
                until=now + timedelta(hours=hours),
            ):
                return refused(request, 409, "the incident is over", "nothing was changed")
        note(self.site, request, "acknowledged incident", incident_id)
        return see(names.incident_path(incident_id))

    def _test_channel(self, request: Request, form: Form) -> Response:
        name = form.get("channel", "")
        channel = self.site.wiring.channels.get(name)
        if channel is None:
            return refused(request, 400, "no such channel", "nothing was sent")
        note(self.site, request, "tested channel", name)
        try:
            send_test(channel, self.site.clock())
            how = "sent"
        except DeliveryError as error:
            how = str(error)
        return see(f"/channels?{urlencode({'tried': name, 'how': how})}")


def _evaluation(found: StoredSample, form: Form) -> StoredEvaluation | None:
    """Find the evaluation that a form means, one that passed or failed."""
    wanted = (form.get("metric"), form.get("evaluator_version"))
    return next(
        (
            e
            for e in found.evaluations
            if (e.metric, e.evaluator_version) == wanted and e.passed is not None
        ),
        None,
    )
