"""What few need, each behind an extra: exports, adapters of other libraries, further judges."""
