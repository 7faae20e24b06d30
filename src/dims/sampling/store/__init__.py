"""A sampling run in a folder: chunks of draws that survive whatever stops the run.

    manifest.json             what the run is: settings, seed, fingerprints, versions
    chunk_00000.safetensors   draws 0 … n − 1, and so on
    retry_00000.safetensors   those of them that failed, tried again with more care
    partial_00001.safetensors the state of a chunk that takes long, once a minute and at Ctrl-C
    trajectories.json         the trajectories of the first draws, by `dims sample --follow`
    lock                      held by the one process that writes

A chunk is a function of (manifest, its rows) alone: size, precision and number of threads are in
the manifest, so it is bitwise identical whoever computes it on the same kind of machine. A call
with a store computes what is missing or damaged, and nothing else.
"""
