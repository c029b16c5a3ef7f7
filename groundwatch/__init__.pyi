from monitor import Hook as Hook
from monitor import Rule as Rule
from monitor import choose as choose
from monitor import feedback as feedback
from monitor import flush as flush
from monitor import init as init
from monitor import interaction as interaction
from monitor import replayable as replayable
from monitor import sample as sample
from monitor import stats as stats
from monitor import watch as watch

__version__: str
