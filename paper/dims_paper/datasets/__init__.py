"""Data: loaders with checksums.

Files are found in the folder that `DIMS_DATA` names, then in the user's cache; `fetch` downloads
those that have a public home.
"""
