"""Learning to rank from files of features (LETOR), the verb `ltr`, and the learners that the product's defaults do not use.

Bu, Niu, Ma & Long, "Listwise Multi-Kernel Similarity Learning Algorithm for Similar Mobile App Recommendation", and its
baselines. setup.cfg declares the learners as entry points in the group `kernelsearch.learners`.
"""
