"""One metric a module: what it needs of an interaction, and how it reads a judgement."""

from monitor.scoring.base import Evaluator
from monitor.scoring.evaluators.groundedness import Groundedness
from monitor.scoring.evaluators.relevance import Relevance

#: Every metric by its name; the name is what settings, tables and alerts use.
EVALUATORS: dict[str, Evaluator] = {
    "groundedness": Groundedness(),
    "relevance": Relevance(),
}
