"""The reranking methods, one package each: the reranker, its settings, its fitted state, its explanation."""
