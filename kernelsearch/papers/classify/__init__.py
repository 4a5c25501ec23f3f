"""Text classification over multi-scale kernels: multiple kernel learning, a classifier, and the verb `classify`."""
