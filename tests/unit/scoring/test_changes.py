"""One changed detail in a copied sentence is called contradicted; the true sentence passes."""

# ruff: noqa: E501 - a passage a line reads best
import pytest

from monitor.metrics import evaluate
from monitor.scoring.base import ClaimVerdict
from monitor.scoring.local.reading import CLAIM_FEATURES, read
from monitor.scoring.local.scorer import CONTRADICTED_AT_MOST, LocalJudge
from monitor.testing import make_interaction

BAKERY = "The bakery in Mill Lane opens at 6:30 and sells 14 kinds of bread. It was founded in 1952 by Agnes Holt. Cakes can be ordered until noon on Friday."
GYM = "Members may bring one guest on weekdays. A day pass costs 9 euros. The sauna is closed on Monday, and children must leave the pool before 18:00. Contracts end after 12 months."
SERVER = "The backup runs every 6 hours and is kept for 45 days. Logs are encrypted, but thumbnails are not encrypted. Only administrators can delete a project. The maximum size of an upload is 250 MB."
LETTER = "Dear customer, your parcel weighs 3 kg and left our warehouse in Rotterdam on 8 March. Most of the items are insured. You need not sign for the delivery. The carrier is Falkpost."
RECORD = '{"name": "Lindenhof", "rating": 4.2, "city": "Passau", "attributes": {"WheelchairAccessible": true, "TakesReservations": false, "LiveMusic": false}, "hours": {"Saturday": "10:00-22:00"}}'
PAIRS = {  # a passage, what it says, and the same with one detail changed
    "number": [
        (
            "Opened items can be returned within 30 days if they are complete.",
            "You can return opened items within 30 days.",
            "You can return opened items within 90 days.",
        ),
        (
            "The warranty covers the battery for 24 months after purchase.",
            "The battery is covered for 24 months after purchase.",
            "The battery is covered for 36 months after purchase.",
        ),
        (
            "Standard delivery costs 4.90 euros for orders below 50 euros.",
            "Standard delivery costs 4.90 euros.",
            "Standard delivery costs 9.40 euros.",
        ),
        (
            "About 62 percent of the members voted for the new statute.",
            "62 percent of the members voted for the new statute.",
            "26 percent of the members voted for the new statute.",
        ),
        (
            "A team may have up to 12 members on the basic plan.",
            "On the basic plan a team may have up to 12 members.",
            "On the basic plan a team may have up to 20 members.",
        ),
        (
            "The annual fee for the gold card is $120 and is charged in March.",
            "The annual fee for the gold card is $120.",
            "The annual fee for the gold card is $210.",
        ),
        (
            "Export jobs are limited to 500 rows per request.",
            "Exports are limited to 500 rows per request.",
            "Exports are limited to 5000 rows per request.",
        ),
        (BAKERY, "The bakery sells 14 kinds of bread.", "The bakery sells 41 kinds of bread."),
        (GYM, "A day pass costs 9 euros.", "A day pass costs 19 euros."),
        (GYM, "Contracts end after 12 months.", "Contracts end after 24 months."),
        (SERVER, "Backups are kept for 45 days.", "Backups are kept for 60 days."),
        (SERVER, "The backup runs every 6 hours.", "The backup runs every 8 hours."),
        (LETTER, "Your parcel weighs 3 kg.", "Your parcel weighs 13 kg."),
        (
            "Das Limit der Karte beträgt 50.000 Euro im Jahr.",
            "Das Limit der Karte beträgt 50 000 Euro im Jahr.",
            "Das Limit der Karte beträgt 80000 Euro im Jahr.",
        ),
        (
            "Rents in the old town rose from 20 to 30 euros in May.",
            "Rents in the old town rose from 20 to 30 euros.",
            "Rents in the old town rose from 30 to 20 euros.",
        ),
        ("The term is twenty-one days.", "The term is 21 days.", "The term is 31 days."),
        ("TERM: TWENTY-ONE DAYS.", "The term is 21 days.", "The term is 31 days."),
        (
            "Le billet coûte quatre-vingt-dix-sept euros.",
            "Le billet coûte 97 euros.",
            "Le billet coûte 90 euros.",
        ),
        (
            "Le billet coûte quatre-vingt euros.",
            "Le billet coûte 80 euros.",
            "Le billet coûte 20 euros.",
        ),
        (
            "Le délai est de quatorze jours.",
            "Le délai est de 14 jours.",
            "Le délai est de 15 jours.",
        ),
        (
            "Le prix est de vingt et un euros.",
            "Le prix est de 21 euros.",
            "Le prix est de 20 euros.",
        ),
    ],
    "date": [
        (
            "The bridge was finished in 1987 after six years of work.",
            "The bridge was finished in 1987.",
            "The bridge was finished in 1978.",
        ),
        (
            "The office is closed on Tuesday because of an inventory.",
            "The office is closed on Tuesday.",
            "The office is closed on Thursday.",
        ),
        (
            "Applications for the grant must arrive by 15 June.",
            "Applications for the grant must arrive by 15 June.",
            "Applications for the grant must arrive by 15 July.",
        ),
        (
            "The last tram leaves the harbour at 23:40 every night.",
            "The last tram leaves the harbour at 23:40.",
            "The last tram leaves the harbour at 22:40.",
        ),
        (
            "The museum opens on 4 May with a free concert.",
            "The museum opens on 4 May.",
            "The museum opens on 14 May.",
        ),
        (BAKERY, "It was founded in 1952 by Agnes Holt.", "It was founded in 1962 by Agnes Holt."),
        (
            BAKERY,
            "The bakery in Mill Lane opens at 6:30.",
            "The bakery in Mill Lane opens at 7:30.",
        ),
        (
            BAKERY,
            "Cakes can be ordered until noon on Friday.",
            "Cakes can be ordered until noon on Sunday.",
        ),
        (GYM, "The sauna is closed on Monday.", "The sauna is closed on Tuesday."),
        (
            LETTER,
            "The parcel left the warehouse in Rotterdam on 8 March.",
            "The parcel left the warehouse in Rotterdam on 8 April.",
        ),
    ],
    "unit": [
        (
            "The link in the email is valid for 24 hours.",
            "The link is valid for 24 hours.",
            "The link is valid for 24 days.",
        ),
        (
            "The trail to the lake is 6 miles long and easy.",
            "The trail to the lake is 6 miles long.",
            "The trail to the lake is 6 kilometres long.",
        ),
        (
            "The license costs €300 for each seat.",
            "The license costs €300 for each seat.",
            "The license costs $300 for each seat.",
        ),
        (
            "Uploads are limited to 40 MB for each file.",
            "Uploads are limited to 40 MB for each file.",
            "Uploads are limited to 40 GB for each file.",
        ),
        (SERVER, "The backup runs every 6 hours.", "The backup runs every 6 minutes."),
        (
            SERVER,
            "The maximum size of an upload is 250 MB.",
            "The maximum size of an upload is 250 KB.",
        ),
        (GYM, "A day pass costs 9 euros.", "A day pass costs 9 dollars."),
        (LETTER, "Your parcel weighs 3 kg.", "Your parcel weighs 3 pounds."),
    ],
    "negation": [
        (
            "Shipping costs are not refunded when an order is sent back.",
            "Shipping costs are not refunded.",
            "Shipping costs are refunded.",
        ),
        (
            "The free plan includes access to the archive of old reports.",
            "The free plan includes access to the archive.",
            "The free plan does not include access to the archive.",
        ),
        (
            "Visitors cannot park in the courtyard during the week.",
            "Visitors cannot park in the courtyard.",
            "Visitors can park in the courtyard.",
        ),
        (
            "Dogs are allowed on the upper deck of the ferry.",
            "Dogs are allowed on the upper deck.",
            "Dogs are not allowed on the upper deck.",
        ),
        (SERVER, "Thumbnails are not encrypted.", "Thumbnails are encrypted."),
        (
            GYM,
            "Members may bring one guest on weekdays.",
            "Members may not bring a guest on weekdays.",
        ),
        (LETTER, "You need not sign for the delivery.", "You need to sign for the delivery."),
        ("Guests must show a pass.", "Guests must show a pass.", "Guests need not show a pass."),
        (
            BAKERY,
            "Cakes can be ordered until noon on Friday.",
            "Cakes cannot be ordered until noon on Friday.",
        ),
    ],
    "opposite": [
        (
            "The discount is applied before tax is added to the total.",
            "The discount is applied before tax is added.",
            "The discount is applied after tax is added.",
        ),
        (
            "Sales in the region increased by a tenth last spring.",
            "Sales in the region increased last spring.",
            "Sales in the region decreased last spring.",
        ),
        (
            "The minimum order for wholesale customers is a full pallet.",
            "The minimum order for wholesale customers is a full pallet.",
            "The maximum order for wholesale customers is a full pallet.",
        ),
        (
            "Two-factor login is optional for guest accounts.",
            "Two-factor login is optional for guest accounts.",
            "Two-factor login is required for guest accounts.",
        ),
        (
            "The north entrance is open to the public all year.",
            "The north entrance is open to the public.",
            "The south entrance is open to the public.",
        ),
        (
            GYM,
            "Children must leave the pool before 18:00.",
            "Children must leave the pool after 18:00.",
        ),
        (
            SERVER,
            "The maximum size of an upload is 250 MB.",
            "The minimum size of an upload is 250 MB.",
        ),
        (GYM, "The sauna is closed on Monday.", "The sauna is open on Monday."),
        (
            GYM,
            "Members may bring one guest on weekdays.",
            "Members may bring one guest on weekends.",
        ),
    ],
    "quantity": [
        (
            "Some of the rooms on the second floor have a balcony.",
            "Some of the rooms on the second floor have a balcony.",
            "All of the rooms on the second floor have a balcony.",
        ),
        (
            "Guests sometimes receive a voucher for breakfast.",
            "Guests sometimes receive a voucher for breakfast.",
            "Guests always receive a voucher for breakfast.",
        ),
        (LETTER, "Most of the items are insured.", "All of the items are insured."),
        (LETTER, "Most of the items are insured.", "None of the items are insured."),
    ],
    "name": [
        (
            "The software was developed together with a partner, Norwind Systems, in Bergen.",
            "The software was developed together with Norwind Systems in Bergen.",
            "The software was developed together with Kestrel Systems in Bergen.",
        ),
        (
            "The head office of the company moved to Leipzig last autumn.",
            "The head office moved to Leipzig last autumn.",
            "The head office moved to Dresden last autumn.",
        ),
        (
            "Questions about invoices are answered by Clara Jansen.",
            "Questions about invoices are answered by Clara Jansen.",
            "Questions about invoices are answered by Clara Moreau.",
        ),
        (BAKERY, "It was founded in 1952 by Agnes Holt.", "It was founded in 1952 by Agnes Baker."),
        (
            LETTER,
            "The parcel left the warehouse in Rotterdam on 8 March.",
            "The parcel left the warehouse in Antwerp on 8 March.",
        ),
        (LETTER, "The carrier is Falkpost.", "The carrier is Swiftline."),
    ],
    "roles": [
        (
            "Marta defeated Ilse in the final of the chess cup.",
            "Marta defeated Ilse in the final.",
            "Ilse defeated Marta in the final.",
        ),
        (
            "Orbis sued Tannert over the name of the new drink.",
            "Orbis sued Tannert over the name of the drink.",
            "Tannert sued Orbis over the name of the drink.",
        ),
        (
            "In the spring Hobart acquired Lennox for its patents.",
            "Hobart acquired Lennox for its patents.",
            "Lennox acquired Hobart for its patents.",
        ),
        (
            "The referee said that Dara fouled Miriam near the line.",
            "Dara fouled Miriam near the line.",
            "Miriam fouled Dara near the line.",
        ),
        (
            "Under the contract, Weber Ltd sells the plant to Stone Inc.",
            "Under the contract, Weber Ltd sells the plant to Stone Inc.",
            "Under the contract, Stone Inc sells the plant to Weber Ltd.",
        ),
    ],
    "unit of measure": [
        ("Take 5 mg twice a day.", "Take 5 mg twice a day.", "Take 5 g twice a day."),
        ("Add 3 kg of flour.", "Add 3 kg of flour.", "Add 3 g of flour."),
        (
            "The tank holds 200 litres.",
            "The tank holds 200 liters.",
            "The tank holds 200 millilitres.",
        ),
    ],
    "negation in other languages": [
        (
            "Das Museum ist montags nicht geöffnet.",
            "Das Museum ist montags nicht geöffnet.",
            "Das Museum ist montags geöffnet.",
        ),
        (
            "Le magasin n'est pas ouvert le dimanche.",
            "Le magasin n'est pas ouvert le dimanche.",
            "Le magasin est ouvert le dimanche.",
        ),
        (
            "De winkel is op zondag niet open.",
            "De winkel is op zondag niet open.",
            "De winkel is op zondag open.",
        ),
    ],
    "attribute": [
        (
            '{"name": "Rosa", "OutdoorSeating": false, "WiFi": "free", "city": "Graz"}',
            "Rosa in Graz has no outdoor seating.",
            "Rosa in Graz has outdoor seating.",
        ),
        (
            '{"name": "Blue Door", "attributes": {"AcceptsCreditCards": true, "GoodForKids": true}, "city": "Linz"}',
            "Blue Door in Linz accepts credit cards.",
            "Blue Door in Linz does not accept credit cards.",
        ),
        (
            '{"name": "Mill Cafe", "hours": {"Monday": "8:00-17:00", "Tuesday": "8:00-17:00"}}',
            "Mill Cafe is open on Monday from 8 AM to 5 PM.",
            "Mill Cafe is open on Monday from 8 AM to 9 PM.",
        ),
        (
            '{"name": "Hotel Fink", "DogsAllowed": "True", "stars": 4.5, "city": "Wels"}',
            "Hotel Fink in Wels allows dogs.",
            "Hotel Fink in Wels does not allow dogs.",
        ),
        (
            RECORD,
            "Lindenhof in Passau is wheelchair accessible.",
            "Lindenhof in Passau is not wheelchair accessible.",
        ),
        (RECORD, "Lindenhof does not take reservations.", "Lindenhof takes reservations."),
        (RECORD, "Lindenhof in Passau has no live music.", "Lindenhof in Passau has live music."),
        (
            RECORD,
            "Lindenhof is open on Saturday from 10 AM to 10 PM.",
            "Lindenhof is open on Saturday from 10 AM to 8 PM.",
        ),
    ],
}
LEAST_RIGHT = {"quantity": 0.75, "name": 0.75, "roles": 0.75}  # of all other kinds 0.9


@pytest.fixture(scope="module")
def judge():
    return LocalJudge()


def judged(judge, output, context):
    judgement = judge.judge(make_interaction(query="", contexts=[context], output=output))
    return judgement.claims[0], judgement.groundedness


def told_apart(judge, context, true, altered):
    (right, _), (wrong, score) = (judged(judge, each, context) for each in (true, altered))
    return right.verdict is ClaimVerdict.SUPPORTED and (
        wrong.verdict is ClaimVerdict.CONTRADICTED and score <= CONTRADICTED_AT_MOST
    )


@pytest.mark.parametrize("change", PAIRS)
def test_changed_detail_is_contradicted_and_the_true_one_is_not(judge, change):
    right = [told_apart(judge, *pair) for pair in PAIRS[change]]
    assert sum(right) >= LEAST_RIGHT.get(change, 0.9) * len(right) - 1e-9


def test_reason_names_both_details_when_one_is_changed(judge):
    context = "Opened items can be returned within 30 days if they are complete."
    claim, _ = judged(judge, "Opened items can be returned within 90 days.", context)
    assert claim.reason == 'it says "90 days", the passage "30 days"'
    assert claim.support <= CONTRADICTED_AT_MOST


@pytest.mark.parametrize(("said", "told"), [("insured", "uninsured"), ("uninsured", "insured")])
def test_word_and_its_denial_contradict_each_other_either_way(judge, said, told):
    sentence = "Most of the parcels are {} on the way."
    claim, _ = judged(judge, sentence.format(said), sentence.format(told))
    assert claim.verdict is ClaimVerdict.CONTRADICTED


def test_score_falls_when_one_of_many_claims_is_contradicted(judge):
    fine = "The bakery in Mill Lane sells 14 kinds of bread. It was founded by Agnes Holt."
    good, bad = (
        judged(judge, f"{fine} {last}", BAKERY)[1]
        for last in ("It opens at 6:30 in Mill Lane.", "The bakery in Mill Lane opens at 7:30.")
    )
    assert good >= 0.7
    assert bad <= CONTRADICTED_AT_MOST


@pytest.mark.parametrize(
    ("context", "output"),
    [
        ("The hall holds 1, 000 guests at most.", "The hall holds 1,000 guests at most."),
        ("The hall held 116 guests on that day.", "The hall held more than 100 guests that day."),
        ("The hall held 998 guests on that day.", "The hall held about 1,000 guests that day."),
        ("The tour took place in the 2007-08 season.", "The tour took place in the 2007-2008 season."),
        ("4 Churn the cream with ice and water.", "Step 3: Churn the cream with ice and water."),
        ("Adults pay 12 euros. Children pay 8 euros.", "Adults pay 12 euros, children pay 8 euros."),
        ("The shop closes at 5. The shop closes at 6.", "The shop closes at 6."),
        ("In Mexico the longest working week has 48 hours. In Chile it has 44 hours.", "In Chile the longest working week has 44 hours."),
        ("Will the shop open on Monday?", "The shop will not open on Monday."),
        ("No, the shop sells bread and cakes.", "The shop sells bread and cakes."),
        ("Bolt was bought by Acme in the summer.", "Acme bought Bolt in the summer."),
        ("The office is in the United States of America.", "The office is in the USA."),
        ("It has free Wi-Fi in the lounge.", "It has free WiFi in the lounge."),
        ("The hall is not open on Sunday.", "The hall is closed on Sunday."),
        ("The plan will not be final until Friday.", "The plan will be final Friday."),
        ("Sacs enable birds to breathe by allowing a flow of air.", "Sacs allow birds to breathe by enabling a flow of air."),
        ("4 Select a planting site with full sun.", "Location: Choose a planting site with full sun."),
        ("Harbour of Lights (1987 film) .", 'There are two films titled "Harbour of Lights".'),
    ],
)  # fmt: skip
def test_possible_paraphrase_is_never_a_certain_contradiction(context, output):
    [claim] = read("", [context], output).claims
    assert claim.changes == ()


def test_version_changes_with_the_contradiction_rule(judge, monkeypatch):
    monkeypatch.setattr("monitor.scoring.local.scorer.CONTRADICTED_AT_MOST", 0.2)
    assert LocalJudge().version != judge.version


DRILLS = ["The Vantro 300 has a torque of 45 Nm and weighs 1.4 kg.",
          "The Vantro 400 has a torque of 62 Nm. It costs 119 euros."]  # fmt: skip


@pytest.mark.parametrize(
    ("query", "claim", "change"),
    [
        (None, "With 68 Nm, the 400 is far stronger.", ("68 Nm", "62 Nm")),
        (None, "The 400 costs 140 euros.", ("140 euros", "119 euros")),
        (None, "You would have to pay 140 euros for it.", None),
        (None, "With about 63 Nm, the 400 is far stronger.", None),
        (None, "You would get it for 119 euros.", None),
        ("Is it worth 140 euros?", "You would have to pay 140 euros for it.", None),
        (None, "It came out in 2019 in three colours.", None),
    ],
)
def test_figure_from_nowhere_is_a_change_when_the_sentence_has_one_with_its_unit(
    query, claim, change
):
    [found] = read(query, DRILLS, claim).claims
    assert [each[:2] for each in found.changes] == ([change] if change else [])
    assert not any(each.certain for each in found.changes)


@pytest.mark.parametrize(
    ("context", "right", "wrong"),
    [
        ("Delivery takes 2 to 4 working days.", "Delivery takes 2 to 4 days.", "Delivery takes 2 to 6 working days."),
        ("Orders over 50 euros ship free.", "Orders above 50 euros ship free.", "Orders below 50 euros ship free."),
        ("Unused days expire on 31 March.", "Unused days expire on March 31.", "Unused days expire on 31 May."),
        ("Dr. Mora leads the clinic. Her deputy is Dr. Stein.", "Dr. Mora leads the clinic.", "Dr. Stein leads the clinic."),
        ("Premium costs $19 a month. The setup fee is 9 dollars.", "Premium costs 19 dollars a month.", "Premium costs $9 a month."),
        ("Hotel: Harbour. Location: Rome. Chef: Anna Keller.", "Location: Rome.", "Location: Paris."),
        ("Breakfast is included and served until ten.", "Breakfast is included.", "Breakfast is not included."),
        ("The lift is not safe until Friday.", "The lift is safe on Friday.", "The lift is safe until Friday."),
        ("The clinic is open Monday to Friday.", "The clinic is open on Thursday.", "The clinic is not open Monday to Friday."),
    ],
)  # fmt: skip
def test_everyday_detail_that_is_changed_is_found_and_the_right_one_passes(context, right, wrong):
    found = [read("", [context], claim).claims[0].changes for claim in (right, wrong)]
    assert [bool(changes) for changes in found] == [False, True]


@pytest.mark.parametrize(
    ("passage", "claim", "changed"),
    [
        ("The plan covers repairs. Water damage is not covered.", "Repairs are not covered.", True),
        (
            "The plan covers repairs. Water damage is not covered.",
            "Water damage is not covered.",
            False,
        ),
        ("Dogs are accepted in all rooms.", "Dogs are not accepted.", True),
        ("Repairs are covered only in the first year.", "Later, repairs are not covered.", False),
    ],
)
def test_denial_of_what_a_passage_states_in_another_order_is_a_change(passage, claim, changed):
    [found] = read("", [passage], claim).claims
    assert bool(found.changes) is changed
    assert all(each.said.startswith("not ") for each in found.changes)


@pytest.mark.parametrize(
    ("passage", "claim"),
    [
        ("Service is due every 18 months.", "Service is due every one and a half years."),
        ("The crossing takes 90 minutes.", "The crossing takes 1\u00bd hours."),
        ("The contract runs for two years.", "The contract runs for 24 months."),
        ("The bag weighs 1500 g.", "The bag weighs 1.5 kg."),
        ("La traversée dure 90 minutes.", "La traversée dure une heure et demie."),
        ("Evidence must be shown every twelve months.", "Evidence must be shown once a year."),
        ("You get a 30-minute briefing.", "You get a half-hour briefing."),
        ("The contract runs for two years.", "The contract runs for 18 months."),
        ("Der Aufbau dauert 30 Minuten.", "Der Aufbau dauert eine halbe Stunde."),
    ],
)
def test_amount_in_another_unit_is_no_change(passage, claim):
    [found] = read("", [passage], claim).claims
    assert found.changes == ()


@pytest.mark.parametrize(
    ("claim", "rounds"),
    [
        ("The tour is 1,268 km long.", True),
        ("The tour is 1,267.8 km long.", True),
        ("The tour is 1,267 km long.", False),
        ("The guide has 5 stars.", False),
        ("The guide is for version 3.1.", False),
    ],
)
def test_rounded_decimals_are_no_change(claim, rounds):
    passages = [
        "The tour is 1,267.83 km long.",
        "The guide has 4.6 stars.",
        "The guide is for version 3.12.",
    ]
    [found] = read("", passages, claim).claims
    made_up = found.values[CLAIM_FEATURES.index("number_conflict")]
    assert (found.changes == ()) is (made_up == 0) is rounds


def test_denial_that_a_longer_sentence_states_as_well_is_no_change():
    passages = ["The refund takes five days.", "The refund does not take five days."]
    [found] = read("", passages, "The refund does not take five days.").claims
    assert found.changes == ()


def test_figure_of_another_sentence_is_none_of_it_where_the_claim_names_no_subject():
    passages = ["The basic plan costs 5 euros a month.", "The premium plan is 9 euros a month."]
    said = make_interaction(
        query="How much is the premium plan?", contexts=passages, output="It costs 9 euros a month."
    )
    [claim] = LocalJudge().judge(said).claims
    assert claim.verdict is ClaimVerdict.SUPPORTED


PAN = ["Use wood utensils. Heat it slowly. Never use spray oil. Do not put it in the dishwasher."]


@pytest.mark.parametrize(
    ("output", "right"),
    [
        ("**Do** ✅\n- Heat it slowly\n\n**Don't** ❌\n- Use spray oil", True),
        (
            "Don't:\n1. Put it in the dishwasher.\n2. Use spray oil.\n\nDo:\n- Use wood utensils",
            True,
        ),
        ("**Do**\n- Use spray oil\n\n**Don't**\n- Put it in the dishwasher", False),
        ("**Don't**\n- Use wood utensils\n- Use spray oil", False),
    ],
)
def test_items_below_a_heading_that_denies_are_read_as_denied(output, right):
    record = {"query": "What must I know?", "contexts": PAN, "output": output}
    [[found]] = evaluate([record], ["groundedness"])
    assert (found.score > 0.2) is right


RULES = ["No pets. Quiet hours are from 22:00. The office opens at 9:00. Cats are allowed."]


@pytest.mark.parametrize(
    "output",
    [
        "House rules:\n- No pets\n- Quiet hours are from 22:00",
        "1. No pets\n2. Cats are allowed",
        "No.\n\n- The office opens at 9:00\n- Cats are allowed",
        "**Not really.**\n- The office opens at 9:00",
        "❌ No pets\n✅ Cats are allowed",
        "**Not allowed**\n- Pets\n\nBut:\n- Cats are allowed",
    ],
)
def test_denial_that_is_no_heading_does_not_deny_the_items_below(output):
    record = {"query": "What are the rules?", "contexts": RULES, "output": output}
    [[found]] = evaluate([record], ["groundedness"])
    verdicts = [claim["verdict"] for claim in found.metadata["claims"]]
    assert "contradicted" not in verdicts
