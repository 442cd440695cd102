"""Files that replay into traces: FLASH events, FedScale pickles, plain files and tables of intervals."""

from fedparity.traces.intervals import Intervals
from fedparity.traces.plain import save_trace
from fedparity.traces.readers import load_trace, open_file

__all__ = ["Intervals", "load_trace", "open_file", "save_trace"]
