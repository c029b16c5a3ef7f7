"""
The judge behind an OpenAI-compatible endpoint, for verdicts and for criteria.

Read `Conversation.ask` for when it is asked again, `OpenAIJudge.judge` for how verdicts become
a judgement: a verdict of "supported" counts only with a quote that is really in the passages.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any, Self, TypeVar
from urllib.parse import urlsplit

from monitor.errors import (
    BudgetReachedError,
    JudgeError,
    JudgeOutageError,
    JudgeRateLimitedError,
    JudgeRefusedError,
    JudgeReplyError,
    JudgeUnavailableError,
)
from monitor.models import Interaction
from monitor.scoring.base import Claim, ClaimVerdict, Judgement, storable
from monitor.scoring.declaration import Criterion, CriterionAnswer, Reply
from monitor.scoring.judges.openai_client import ChatEndpoint, RetryPolicy, Spent, access_from
from monitor.scoring.judges.openai_errors import ContextTooLongError
from monitor.scoring.judges.prices import Prices
from monitor.scoring.judges.reply import (
    CanaryMissedError,
    JudgeReply,
    Quotable,
    RetryDifferentlyError,
    TruncatedReplyError,
    VerdictRow,
)
from monitor.scoring.judges.request import Case, Request, reference_of
from monitor.scoring.language import words
from monitor.scoring.limits.meter import Meter
from monitor.scoring.prompts import load_prompt
from monitor.settings import Settings

PROMPT, CRITERIA_PROMPT = "judge.v4", "criteria.v3"
USUAL_INPUT_TOKENS = 16_000
_LONGEST_NAME = 120  # the column of evaluator_version holds 200, a metric's own version included
_MOST_SPLITS = 3  # halvings: eight parts
_MOST_CANARIES_MISSED = 2
_ANSWERED = {"yes": 1.0, "partial": 0.5, "no": 0.0, "refusal": 0.0}
_ANSWERED_REASON = {
    "yes": "It answers the question",
    "partial": "It answers a part of the question",
    "no": "It does not answer the question",
    "refusal": "It declines to answer",
}
_NOT_PROVEN = "the judge's quote is not in the passages, or too short to prove anything"
_MAX_REASON_CHARS = 300
_MAX_QUOTE_CHARS = 500

#: What leaves answers to other calls as they are; an outage does not, as nobody can be asked.
_OF_ONE_CALL = (
    BudgetReachedError,
    JudgeRateLimitedError,
    JudgeRefusedError,
    JudgeReplyError,
    JudgeUnavailableError,
)

T = TypeVar("T")
A = TypeVar("A")


class OpenAIJudge:
    """
    Asks an LLM for verdicts on every sentence, and for answers to criteria.

    *input_tokens* are the most of texts in one request, *pieces* those of passages for each
    sentence beyond the first thousand tokens; *meter* pays for each request. The endpoint is by
    default OpenAI's own.
    """

    def __init__(
        self,
        model: str,
        *,
        api_key: str | None = None,
        base_url: str | None = None,
        policy: RetryPolicy | None = None,
        prices: Prices | None = None,
        input_tokens: int = USUAL_INPUT_TOKENS,
        pieces: int = 8,
        meter: Meter | None = None,
    ) -> None:
        self._endpoint = ChatEndpoint(
            model, api_key=api_key, base_url=base_url, policy=policy or RetryPolicy(), meter=meter
        )
        self._model = model
        self._prices = prices or Prices()
        self._prompt, self._criteria_prompt = load_prompt(PROMPT), load_prompt(CRITERIA_PROMPT)
        self._input_tokens = input_tokens
        self._pieces = pieces
        where = f"{model_name(model)}{endpoint_mark(base_url)}"
        # How much of the texts is sent, where that is not the usual, shapes the answers.
        room = "" if input_tokens == USUAL_INPUT_TOKENS else f"t{input_tokens}"
        sent = (f"p{pieces}" if pieces else "") + room
        self.version = f"judge-{where}-{PROMPT.rpartition('.')[2]}{sent}"
        self.criteria_version = f"criteria-{where}-{CRITERIA_PROMPT.rpartition('.')[2]}{room}"

    @classmethod
    def from_settings(cls, settings: Settings, *, meter: Meter | None = None) -> Self:
        """Make the judge that the settings describe; *meter* pays for its requests."""
        return cls(
            settings.judge_model,
            **access_from(settings),
            prices=Prices.from_settings(settings),
            input_tokens=settings.judge_limits.judge_input_tokens,
            pieces=settings.judge_limits.judge_pieces,
            meter=meter,
        )

    def judge(self, interaction: Interaction) -> Judgement:
        """Judge all sentences with one call, or raise a ``JudgeError`` that says what it cost."""
        passages = Quotable([context.text for context in interaction.contexts])
        case = Case.for_verdicts(interaction, self._input_tokens, self._pieces)
        talk = Conversation(self._endpoint, case)
        with self._billed(talk):
            whole, rows = self._verdicts(talk, passages)
        case = talk.case
        claims = tuple(
            _claim(text, row, passages)
            for number, text in case.judged_sentences.items()
            for row in rows[number]
        )
        # There were passages, and the output states nothing and declines to answer.
        silent = all(claim.verdict is ClaimVerdict.NO_CLAIM for claim in claims)
        refused = bool(claims) and silent and whole.answered == "refusal"
        # The reason of a refusal is the place that holds the answer; in other words it proves none.
        held = whole.answered_reason.strip()
        place = passages.find(held) if refused else None
        if place is not None:
            wrong = replace(
                claims[0],
                verdict=ClaimVerdict.WRONG_REFUSAL,
                evidence=storable(held, _MAX_QUOTE_CHARS),
                context_index=place,
                reason="it declines to answer, but the passages hold the answer",
            )
            claims = (wrong, *claims[1:])
        reason = storable(whole.answered_reason, _MAX_REASON_CHARS)
        packed = case.packed
        kept = f"contexts_packed: kept {packed.chars_kept} of {packed.chars} characters"
        return Judgement(
            **self._bill(talk),
            claims=claims,
            declined_rightly=refused and place is None,
            claims_not_judged=case.sentences_left_out if case.contexts else 0,
            relevance=_ANSWERED[whole.answered],
            relevance_reason=_ANSWERED_REASON[whole.answered] + (f": {reason}" if reason else "."),
            details=talk.details() | self._details(talk.spent),
            notes=(kept,) if packed.cut else (),
        )

    def ask(
        self, interaction: Interaction, criteria: Sequence[Criterion], fields: frozenset[str]
    ) -> Reply:
        """
        Answer all criteria with one call, or raise a ``JudgeError`` that says what it cost.

        Only *fields* are sent: what no metric needs costs no tokens. Answers that are wrong in
        themselves are asked for once more, without the others.
        """
        reference = reference_of(interaction)
        case = Case.for_criteria(interaction, fields, reference, self._input_tokens)
        talk = Conversation(self._endpoint, case)
        found: dict[str, CriterionAnswer | JudgeReplyError] = {}
        with self._billed(talk):

            def ask(asked: Sequence[Criterion], *, once: bool) -> None:
                for part in talk.ask(
                    asked,
                    lambda case, items: case.criteria_request(self._criteria_prompt, items),
                    once=once,
                ):
                    found.update(part)

            ask(tuple(criteria), once=False)
            case = talk.case  # to which numbers refer, also where less is sent again
            again = [each for each in criteria if isinstance(found[each.name], JudgeReplyError)]
            if again:
                talk.asked_again = len(again)
                with suppress(*_OF_ONE_CALL):  # then only the metrics that need them fail
                    ask(again, once=True)
        bill = self._bill(talk)
        return Reply(
            answers=case.answers(found, reference),
            duration_ms=bill.pop("duration_ms"),
            cost_usd=bill.pop("cost_usd"),
            details=talk.details()
            | bill
            | {"criteria_asked": len(criteria)}
            | self._details(talk.spent),
        )

    def close(self) -> None:
        """Close the connections."""
        self._endpoint.close()

    def _verdicts(
        self, talk: Conversation, passages: Quotable
    ) -> tuple[JudgeReply, dict[int, list[VerdictRow]]]:
        """
        Ask until every sentence has its verdict.

        Return the answer that counts for what is about the whole, and the rows by number.
        Sentences without a verdict, and those with a quote that is in no passage, are asked
        about once more; with marked texts if no quote is in one.
        """

        def ask(numbers: Sequence[int], doubted: Sequence[int] = ()) -> list[JudgeReply]:
            return talk.ask(
                numbers,
                lambda case, asked: case.verdict_request(self._prompt, asked, doubted),
                # Those that no longer fit once the texts are squeezed are left off.
                lambda case, asked: [n for n in asked if n in case.judged_sentences],
            )

        def by_number(replies: Sequence[JudgeReply]) -> dict[int, list[VerdictRow]]:
            found: dict[int, list[VerdictRow]] = {}
            for reply in replies:
                for row in reply.verdicts:
                    found.setdefault(row.number, []).append(row)
            return found

        replies = ask(list(talk.case.judged_sentences))
        rows = by_number(replies)
        missing = [number for number in talk.case.judged_sentences if number not in rows]
        doubted = [
            number
            for number, found in rows.items()
            if any(
                row.verdict == "supported" and passages.find((row.quote or "").strip()) is None
                for row in found
            )
        ]
        if missing or doubted:
            if doubted and len(doubted) == len(rows):
                # Not one true quote: perhaps the texts spoke, and then about the whole as well.
                talk.begin_again_with_marks()
                replies = []
            again = sorted((*missing, *doubted))
            talk.asked_again = len(again)
            later = ask(again, doubted)
            replies += later
            rows |= by_number(later)
            if not talk.case.judged_sentences.keys() <= rows.keys():
                raise JudgeReplyError("the judge gave no verdict on some sentences, twice")
        return replies[0], rows

    @contextmanager
    def _billed(self, talk: Conversation) -> Iterator[None]:
        """Put on an error how it was asked, and what it cost as far as that is known."""
        try:
            yield
        except JudgeError as error:
            bill = self._bill(talk)
            if not bill["model"]:  # there was no answer
                bill |= {"input_tokens": None, "output_tokens": None}
            known = {name: value for name, value in bill.items() if value is not None}
            error.context |= talk.details() | self._details(talk.spent) | known
            raise

    def _bill(self, talk: Conversation) -> dict[str, Any]:
        spent = talk.spent
        return {
            "model": spent.model,
            "input_tokens": spent.input_tokens,
            "output_tokens": spent.output_tokens,
            "duration_ms": spent.duration_ms,
            "cost_usd": self._cost_usd(spent),
        }

    def _cost_usd(self, spent: Spent) -> float | None:
        model = self._prices.known_as(spent.model, self._model)
        return self._prices.cost_usd(
            model, spent.input_tokens, spent.output_tokens, spent.cached_tokens
        )

    def _details(self, spent: Spent) -> dict[str, Any]:
        """Return what the call used, for the record, beside tokens and cost."""
        model = self._prices.known_as(spent.model, self._model)
        unknown = None
        if self._cost_usd(spent) is None and spent.model:
            unknown = self._prices.unknown(model) or "the endpoint does not count tokens"
        found: dict[str, Any] = {
            "system_fingerprint": spent.fingerprint,
            "cached_input_tokens": spent.cached_tokens,
            "prices_as_of": self._prices.as_of(model) if spent.model else None,
            "tries_without_usage": spent.unanswered,
            "cost_unknown": unknown,
        }
        return {"tries": spent.tries} | {key: value for key, value in found.items() if value}


class Conversation:
    """
    The requests about one interaction: one when all goes well, and more only for a reason.

    A request that fails for a passing reason, or whose answer is not as asked, is sent again
    while tries and time are left. One that is too long for the model is sent with shorter
    texts, one whose answer is cut off in two halves, one whose answer lacks the canary with
    marked texts, and one whose thoughts were cut off with more room for them.
    """

    def __init__(self, endpoint: ChatEndpoint, case: Case) -> None:
        self._endpoint = endpoint
        self.case = case  #: as it is asked about next, or was asked about last
        self.spent = endpoint.begin()
        self.asked_again = 0  #: sentences, or criteria
        self._answers = self._splits = self._canaries_missed = 0

    def ask(
        self,
        items: Sequence[T],
        write: Callable[[Case, Sequence[T]], Request[A]],
        left: Callable[[Case, Sequence[T]], Sequence[T]] = lambda _, items: items,
        *,
        depth: int = 0,
        once: bool = False,
    ) -> list[A]:
        """
        Ask about *items* until all are answered; return the answers, one unless it was split.

        *write* makes the request, again for every try; *left* returns those of *items* that the
        case still holds. Raises ``JudgeError`` if there is no usable answer; with *once* no error
        is a reason to ask again.
        """
        tries = 0
        while (items := left(self.case, items)) or not self._answers:
            tries += 1
            try:
                request = write(self.case, items)
                answer = request.read(self._endpoint.answer(request, self.spent))
            except TruncatedReplyError:
                if len(items) < 2 or depth >= _MOST_SPLITS:  # noqa: PLR2004 - one has no halves
                    raise
                self._splits += 1
                middle = len(items) // 2
                first = self.ask(items[:middle], write, left, depth=depth + 1)
                return first + self.ask(items[middle:], write, left, depth=depth + 1)
            except (ContextTooLongError, RetryDifferentlyError) as error:
                self.case, tries = self._adapted(error), 0
            except JudgeError as error:
                if once:
                    raise
                self._wait_or_raise(error, tries)
            else:
                self._answers += 1
                return [answer]
        return []

    def begin_again_with_marks(self) -> None:
        """Disregard the answers so far: something in the texts spoke to the judge."""
        self.case, self._answers = self.case.with_marks(), 0

    def details(self) -> dict[str, Any]:
        """Return how it was asked, for the record; what is as usual is left out."""
        found = {
            "canary_missed": self._canaries_missed,
            "answer_split": self._splits,
            "asked_again": self.asked_again,
        }
        return self.case.details() | {key: value for key, value in found.items() if value}

    def _adapted(self, error: JudgeError) -> Case:
        """Return the case changed so that *error* need not come again, or raise it."""
        case: Case | None = None
        if isinstance(error, ContextTooLongError):
            case = self.case.squeezed_more()
        elif isinstance(error, CanaryMissedError):
            self._canaries_missed += 1
            if self._canaries_missed < _MOST_CANARIES_MISSED:
                case = self.case.with_marks()
        elif self._endpoint.arguments.leave_room_for_thoughts():
            case = self.case
        if case is None:
            raise error
        return case

    def _wait_or_raise(self, error: JudgeError, tries: int) -> None:
        """Wait before the next try, or raise *error* where there is none."""
        policy, wait_s = self._endpoint.policy, 0.0
        if not isinstance(error, JudgeReplyError):  # the endpoint is well, only its answer is not
            if not error.transient:
                raise error
            wait_s = self._endpoint.pause_s(error, tries)
        if wait_s > policy.longest_wait_s:
            outage = JudgeOutageError(
                f"{error}; it asks callers to wait for {wait_s:g} s", retry_after_s=wait_s
            )
            outage.context |= error.context
            raise outage from None
        if tries >= policy.attempts or not self._endpoint.may_ask_again(self.spent, wait_s=wait_s):
            raise error
        time.sleep(wait_s)


def model_name(model: str) -> str:
    """Shorten a model's name for the version; different models keep different names."""
    name = storable(model, _LONGEST_NAME)
    if name == model:
        return name
    return f"{name}~{hashlib.sha256(model.encode(errors='replace')).hexdigest()[:8]}"


def endpoint_mark(base_url: str | None) -> str:
    """
    Tell endpoints apart that serve a model under the same name; empty for OpenAI's own.

    A hash, because a version is stored and shown, and an address may be confidential.
    """
    parts = urlsplit(base_url or "")
    host = parts.hostname or ""
    if not host or host == "api.openai.com" or host.endswith(".api.openai.com"):
        return ""
    # Without user, password and query: those may be secrets, and do not name a model.
    place = f"{host}:{parts.port or ''}{parts.path.rstrip('/')}"
    return f"@{hashlib.sha256(place.lower().encode()).hexdigest()[:6]}"


def _claim(text: str, row: VerdictRow, passages: Quotable) -> Claim:
    quote = (row.quote or "").strip()
    index = passages.find(quote)
    verdict = ClaimVerdict(row.verdict)
    missing = storable(row.unsupported, _MAX_REASON_CHARS)
    reason = f"no passage says: {missing}" if missing else ""
    if verdict is ClaimVerdict.SUPPORTED and index is None:
        verdict = ClaimVerdict.UNVERIFIED
        reason = _NOT_PROVEN if quote else "the judge gave no quote"
    said, known = (
        {word.stem for word in words(each) if word.content} for each in (row.claim, text)
    )
    return Claim(
        # The sentence, where most words of the claim are not in it.
        text=storable(row.claim, len(text)) if 2 * len(said & known) > len(said) else text,
        verdict=verdict,
        support=float(verdict is ClaimVerdict.SUPPORTED),
        evidence=storable(quote, _MAX_QUOTE_CHARS) if index is not None else None,
        context_index=index,
        reason=reason,
        sentence=text,
    )
