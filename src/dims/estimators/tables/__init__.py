"""Tables as people bring them: read a CSV file, decide about its columns, prepare, and evaluate.

The program that `dims init --csv` writes uses these functions. Text is read with pandas, and
columns become numbers with scikit-learn.
"""

from __future__ import annotations

try:
    import pandas
except ImportError as error:
    raise ImportError(
        "tables need pandas and scikit-learn; install them with pip install 'dims[tables]'"
    ) from error

from dims.estimators.tables.columns import (
    Column,
    choose_columns,
    choose_task,
    looks_like_a_row,
)
from dims.estimators.tables.cross_validation import cross_validated
from dims.estimators.tables.described import described
from dims.estimators.tables.evaluation import Evaluation, evaluate
from dims.estimators.tables.figure import picture
from dims.estimators.tables.formats import Format
from dims.estimators.tables.learned import is_learned, learned
from dims.estimators.tables.other_tables import predict_file
from dims.estimators.tables.plainly import in_plain_words, print_briefly
from dims.estimators.tables.preparation import decisions, preparation
from dims.estimators.tables.problem import as_comparison, as_problem, print_notes
from dims.estimators.tables.program import check_settings, made_by, run
from dims.estimators.tables.reading import TextTable, read_text, write
from dims.estimators.tables.signs import other_decimal_sign
from dims.estimators.tables.spelling import did_you_mean
from dims.estimators.tables.typed import Table, read, read_inputs

__all__ = ["Column", "Evaluation", "Format", "Table", "TextTable", "as_comparison", "as_problem"]
__all__ += ["check_settings", "choose_columns", "choose_task", "cross_validated", "decisions"]
__all__ += ["described", "did_you_mean", "evaluate", "in_plain_words", "is_learned", "learned"]
__all__ += ["looks_like_a_row", "made_by", "other_decimal_sign", "picture", "predict_file"]
__all__ += ["preparation", "print_briefly", "print_notes", "read", "read_inputs", "read_text"]
__all__ += ["run", "write"]
