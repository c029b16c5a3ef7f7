"""What all tables share: one metadata, names for constraints, portable column types."""

from __future__ import annotations

from sqlalchemy import JSON, BigInteger, Integer, MetaData
from sqlalchemy.dialects.postgresql import JSONB

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)

#: JSON, in PostgreSQL's binary form where there is one.
Json = JSON().with_variant(JSONB(), "postgresql")
#: A 64-bit number; SQLite only counts up an INTEGER by itself.
BigInt = BigInteger().with_variant(Integer(), "sqlite")
