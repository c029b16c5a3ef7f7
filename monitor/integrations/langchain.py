"""LangChain callback handler: a root run's question, retrieved documents, tools and answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Unpack
from uuid import UUID

from ..errors import MissingExtraError
from ..hook.interaction import HookProtocol, RecordFields
from . import app_hook
from .messages import answer_in, as_list, part_of, question_in, turns_in
from .runs import Run, Runs

try:
    from langchain_core.callbacks import BaseCallbackHandler
except ModuleNotFoundError:
    raise MissingExtraError("the LangChain handler", "langchain") from None


class InteractionHandler(BaseCallbackHandler):
    """
    Records one interaction for each root run that has an answer.

    Give it to a run, ``chain.invoke(..., config={"callbacks": [handler]})``, sync or async,
    streamed or not. One handler serves any number of runs at once. Documents of every retriever
    below the root are the contexts; a tool's calls and results are on the record.
    *hook* and *fields* are as in `monitor.integrations.openai.watch_openai`; ``session_id`` and
    ``user_id`` are also read from the run's metadata.
    """

    #: Called where the run is, not in a pool of threads: it takes microseconds.
    run_inline = True

    def __init__(self, *, hook: HookProtocol | None = None, **fields: Unpack[RecordFields]) -> None:
        self._runs = Runs(app_hook(hook), dict(fields))

    def on_chain_start(
        self,
        serialized: Any,  # noqa: ARG002
        inputs: Any,
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        metadata: Mapping[str, Any] | None = None,
        **_: Any,
    ) -> None:
        """Note a run, and the question if it is a root."""
        run = self._runs.start(run_id, parent_run_id)
        if run is not None and parent_run_id is None:
            _note_question(run, inputs)
            for field in ("session_id", "user_id"):
                known = self._runs.guard(lambda name: str(part_of(metadata, name) or ""), field)
                if known:
                    run.fields[field] = known

    def on_chat_model_start(self, serialized: Any, messages: list[list[Any]], **more: Any) -> None:
        """Note a model's run; its last message is the question if it is a root."""
        self.on_chain_start(serialized, messages[0] if messages else [], **more)

    def on_llm_start(self, serialized: Any, prompts: list[str], **more: Any) -> None:
        """Note a model's run; its prompt is the question if it is a root."""
        self.on_chain_start(serialized, prompts[0] if prompts else "", **more)

    def on_chain_end(self, outputs: Any, *, run_id: UUID, inputs: Any = None, **_: Any) -> None:
        """Record the interaction when the root ends."""
        run = self._runs.get(run_id)
        if run is not None and run.root == run_id and inputs is not None:
            _note_question(run, inputs)  # a streamed run knows its input only now
        self._runs.end(run_id, lambda: answer_in(outputs))

    def on_llm_end(self, response: Any, *, run_id: UUID, **_: Any) -> None:
        """Note which model answered, and record the interaction when it is the root."""
        run = self._runs.get(run_id)
        if run is not None:
            self._runs.guard(_note_model, run, response)
        self._runs.end(run_id, lambda: answer_in({"generations": part_of(response, "generations")}))

    def on_retriever_start(
        self, *_: Any, run_id: UUID, parent_run_id: UUID | None = None, **__: Any
    ) -> None:
        """Note a retriever's run; alone it is not an interaction."""
        run = self._runs.start(run_id, parent_run_id) if parent_run_id is not None else None
        if run is not None:
            run.retrievers.add(run_id)
            if parent_run_id in run.retrievers:
                run.inner.add(run_id)

    def on_retriever_end(self, documents: Sequence[Any], *, run_id: UUID, **_: Any) -> None:
        """Keep what was retrieved, by the outermost if retrievers call retrievers."""
        run = self._runs.get(run_id)
        if run is not None and run_id not in run.inner:
            run.found(documents)
        self._runs.forget(run_id)

    def on_tool_start(
        self,
        serialized: Mapping[str, Any] | None,
        input_str: str,
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        inputs: Mapping[str, Any] | None = None,
        **_: Any,
    ) -> None:
        """Keep which tool was called, and with what."""
        run = self._runs.start(run_id, parent_run_id) if parent_run_id is not None else None
        if run is not None:
            run.called(run_id, part_of(serialized, "name"), inputs or input_str)

    def on_tool_end(self, output: Any, *, run_id: UUID, **_: Any) -> None:
        """Keep what the tool gave back."""
        run = self._runs.get(run_id)
        if run is not None:
            content = part_of(output, "content")
            run.returned(run_id, output if content is None else content)
            self._runs.forget(run_id)

    def on_chain_error(
        self, error: BaseException, *, run_id: UUID, parent_run_id: UUID | None = None, **_: Any
    ) -> None:
        """Forget a run that failed; a root's failure is the request's."""
        self._runs.fail(run_id, error, is_root=parent_run_id is None)

    def on_tool_error(self, error: BaseException, *, run_id: UUID, **_: Any) -> None:
        """Keep that a tool failed."""
        self.on_tool_end(f"<{type(error).__name__}>", run_id=run_id)

    def on_retriever_error(self, error: BaseException, *, run_id: UUID, **_: Any) -> None:
        """Forget a run that failed; its root may still answer."""
        self._runs.fail(run_id, error, is_root=False)

    on_llm_error = on_chain_error


def _note_model(run: Run, response: object) -> None:
    """Put the model's name on the record; of several models the last counts."""
    generations = as_list(part_of(response, "generations"))
    message = part_of(next(iter(as_list(generations[0])), None), "message") if generations else None
    sources = (part_of(message, "response_metadata"), part_of(response, "llm_output"))
    model = next(filter(None, (part_of(each, "model_name", "model") for each in sources)), None)
    if isinstance(model, str):
        run.fields["metadata"] = {**(run.fields.get("metadata") or {}), "model": model}


def _note_question(run: Run, inputs: object) -> None:
    """Have question and earlier turns read out of a root's inputs when it is recorded."""

    def messages() -> object:
        to_messages: Callable[[], Any] | None = getattr(inputs, "to_messages", None)
        return to_messages() if to_messages else inputs

    run.query = lambda: question_in(messages())
    run.history = lambda: turns_in(messages())
