"""Parquet."""

from __future__ import annotations

from pathlib import Path

from kernelsearch.core.errors import OptionError
from kernelsearch.core.installed import install_command
from kernelsearch.core.reading import open_file, report_damage
from kernelsearch.trec.delimited import refuse_repeated
from kernelsearch.trec.formats import Format, Records


def read_parquet(path: Path, encoding: str) -> Records:
    """Rows of the Parquet file `path`, read in batches, without null cells; `encoding` isn't used. Needs pyarrow."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise OptionError(f"a Parquet file, which needs pyarrow; {install_command('parquet')}", path=path) from None
    count = 0
    with (
        report_damage(path, "Parquet file", pyarrow.ArrowException, OSError, UnicodeDecodeError),
        open_file(path) as stream,
        pyarrow.parquet.ParquetFile(stream) as file,
    ):
        refuse_repeated(file.schema_arrow.names, str(path))
        for batch in file.iter_batches():
            for record in batch.to_pylist():
                count += 1
                yield f"row {count}", {name: value for name, value in record.items() if value is not None}


FORMAT = Format("parquet", read_parquet, suffixes=(".parquet",), magic=b"PAR1")
