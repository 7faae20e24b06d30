"""The paper's experiments: `dims reproduce NAME`.

Each experiment is one file with a frozen config; its runs are small JSON files, one for each seed,
so that an interrupted run goes on where it stopped.
"""
