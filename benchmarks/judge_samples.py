"""Made-up interactions of a made-up shop: answers of one to six sentences, one to four passages."""

from itertools import cycle, islice

_PASSAGES = {
    "refunds": (
        "Refunds are paid back to the original card within five working days. Gift cards are"
        " refunded as store credit on the same day. A refund above 500 euros needs the approval of"
        " a team lead, which takes two more days. Shipping is refunded only if the whole order"
        " comes back. Customers get an email when the money is on its way."
    ),
    "shipping": (
        "Parcels leave the warehouse in Graz at four in the afternoon. Standard delivery takes two"
        " to four days within the country and up to nine days abroad. Express parcels arrive on the"
        " next working day if they are ordered before noon. Islands are served twice a week. Every"
        " parcel up to 30 kilograms is insured for 800 euros."
    ),
    "bikes": (
        "The Lerche is a folding bicycle of 11 kilograms with eight gears. It folds in twelve"
        " seconds and fits under a train seat. Its battery lasts for 60 kilometres and charges in"
        " three hours. The frame carries riders of up to 110 kilograms. Spare parts are kept for"
        " ten years after the last one is sold."
    ),
    "membership": (
        "Members pay 40 euros a year and get free shipping on all orders. The membership begins on"
        " the day of payment and ends after twelve months unless it is renewed. Students pay half."
        " Members may return worn shoes within 100 days. A membership can be given away once."
    ),
}
_ANSWERS = """
How long does a refund take?
refunds: Refunds reach the card within five working days.
Is my gift card refunded?
refunds: Yes. Gift cards are refunded as store credit on the same day. You get an email about it.
When will my parcel arrive abroad?
shipping: Abroad it takes up to nine days. Parcels leave Graz at four in the afternoon. \
Express parcels arrive within an hour. Each parcel is insured for 800 euros.
Tell me about the Lerche.
bikes: The Lerche is a folding bicycle of 11 kilograms. It has eight gears. It folds in twelve \
seconds. The battery lasts for 90 kilometres. It charges in three hours. Spare parts are kept for \
ten years.
What do students pay?
membership: Students pay 20 euros a year, half of the full price.
What does a membership give me?
membership: Members get free shipping on all orders. They may return worn shoes within 100 days. \
The membership costs 40 euros a year. It can be given away once. It never ends.
"""


def make_samples(count: int, more_passages: int = 0) -> list[dict[str, object]]:
    """Make *count* records with one to four passages, and *more_passages* beside the point."""
    names, lines = list(_PASSAGES), _ANSWERS.strip().splitlines()
    days = list(enumerate(islice(cycle(("repair", "advice", "returns")), 6), start=1))
    branches = [
        " ".join(
            f"Branch {n} opens at {day + 5} on day {day}, and its {desk} desk closes {day} hours"
            f" later unless the {desk} team of branch {n + day} takes over."
            for day, desk in days
        )
        for n in range(more_passages)
    ]
    made: list[dict[str, object]] = []
    for number in range(count):
        query, said = lines[2 * number % len(lines) :][:2]
        topic, output = said.split(": ", 1)
        others = [name for name in names if name != topic][: number % len(names)]
        # The number makes each record one of its own, as the server must tell them apart.
        made.append({
            "id": f"sample-{number}",
            "query": f"{query} (case {number:03})",
            "contexts": [*(_PASSAGES[name] for name in (topic, *others)), *branches],
            "output": f"About case {number:03}: {output[0].lower()}{output[1:]}",
        })  # fmt: skip
    return made
