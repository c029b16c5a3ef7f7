"""What few need, each behind an extra: exports to other systems, adapters of other libraries."""
