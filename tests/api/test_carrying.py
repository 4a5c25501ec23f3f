"""What `index --force` keeps: clicks can't be made again."""

import numpy as np

import kernelsearch
from kernelsearch import index as index_verb
from kernelsearch.clicks.importing import import_log
from kernelsearch.clicks.store import ClickLog
from kernelsearch.core import artefacts
from kernelsearch.rerankers.fusion import model as models
from tests.conftest import TINY, write_jsonl


def test_clicks_are_carried_over_and_what_is_dropped_is_named(tmp_path, capsys):
    source = write_jsonl(tmp_path / "c.jsonl", TINY)
    flags = ["--input", str(source), "--index", str(tmp_path / "i")]
    index_verb.main(flags)
    added = tmp_path / "i" / "kernelsearch"
    write_jsonl(tmp_path / "log.jsonl", [{"session": "s", "query": "tap", "items": [{"docid": "d2", "clicked": True}]}])
    import_log([tmp_path / "log.jsonl"], added / "clicks.db")
    before = list(ClickLog(added / "clicks.db").all_queries())
    artefacts.save(added / "fusion", models.KIND, models.VERSION, arrays={"weights": np.ones(2)}, parameters={})
    artefacts.save(added / "klsa", "latent basis", 1, arrays={"rows": np.ones((2, 2))})
    capsys.readouterr()
    index_verb.main([*flags, "--force"])
    messages = capsys.readouterr().err
    assert before and list(ClickLog(added / "clicks.db").all_queries()) == before
    assert (added / "replaced" / "fusion" / "weights.npy").exists()
    assert not (added / "klsa").exists() and not (added / "fusion").exists()
    assert "recorded clicks are carried over" in messages
    assert "the trained model fusion is kept in kernelsearch/replaced" in messages
    assert "dropped with the old index, to be made again: klsa" in messages
    index_verb.main([*flags, "--force"])
    assert (added / "replaced" / "fusion" / "weights.npy").exists() and (added / "clicks.db").exists()
    assert len(kernelsearch.open(tmp_path / "i").forward) == 6
