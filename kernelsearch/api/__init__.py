"""The Python API: an opened index, pipelines, results, and the function that takes topics to ranked lists."""
