"""Ranks the queries of `cargo xtask relevance` with other search tools.

Reads one JSON object per line on stdin: {"repo", "root", "queries": [...], "chunks": [{"path", "start", "end", "text"}]}.
Writes one per line on stdout: {"repo", "peer", "hits": [[{"path", "start", "end"}, ...] per query]}.
A peer that cannot be imported or run is left out, with a line on stderr.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

TOP = 10
WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def stub_model(folder):
    """Saves a static model of three words, so that semble runs without its own."""
    import numpy
    from model2vec import StaticModel
    from tokenizers import Tokenizer, models, pre_tokenizers

    tokenizer = Tokenizer(models.WordLevel({"[UNK]": 0, "a": 1, "b": 2}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    table = numpy.random.default_rng(0).standard_normal((3, 8)).astype("float32")
    StaticModel(vectors=table, tokenizer=tokenizer, config={}).save_pretrained(folder)
    return folder


def semble(job, model):
    from semble import SembleIndex

    index = SembleIndex.from_path(job["root"], model_path=model)
    for name, rerank in (("semble bm25", False), ("semble ranker", True)):
        hits = []
        for query in job["queries"]:
            found = index.search(query, top_k=TOP, alpha=0.0, rerank=rerank)
            hits.append([hit(r.chunk.file_path, r.chunk.start_line, r.chunk.end_line) for r in found])
        yield name, hits


def bm25s(job, _model):
    import bm25s as lib

    chunks = job["chunks"]
    tokens = lib.tokenize([c["text"] for c in chunks], stopwords="en", show_progress=False)
    index = lib.BM25()
    index.index(tokens, show_progress=False)
    hits = []
    for query in job["queries"]:
        asked = lib.tokenize([query], stopwords="en", show_progress=False)
        rows, scores = index.retrieve(asked, k=min(TOP, len(chunks)), show_progress=False)
        best = [chunks[i] for i, score in zip(rows[0], scores[0]) if score > 0]
        hits.append([hit(c["path"], c["start"], c["end"]) for c in best])
    yield "bm25s", hits


def ripgrep(job, _model):
    """Files by the number of lines with any word of the query, most first."""
    program = shutil.which("rg")
    if program is None:
        raise ImportError("rg is not installed")
    hits = []
    for query in job["queries"]:
        words = sorted({w for w in WORD.findall(query) if len(w) > 2}) or [query]
        args = [program, "-c", "-i", "-F", *(f"-e{w}" for w in words), "."]
        out = subprocess.run(args, cwd=job["root"], capture_output=True, text=True, check=False).stdout
        counts = [line.rsplit(":", 1) for line in out.splitlines()]
        counts.sort(key=lambda row: (-int(row[1]), row[0]))
        hits.append([hit(path.removeprefix("./"), 1, 1 << 30) for path, _ in counts[:TOP]])
    yield "ripgrep", hits


def hit(path, start, end):
    return {"path": str(path), "start": start, "end": end}


def main():
    os.environ["HF_HUB_OFFLINE"] = "1"
    with tempfile.TemporaryDirectory() as folder:
        # semble keeps a cache and statistics in the user's cache folder; not here.
        os.environ["XDG_CACHE_HOME"] = os.path.join(folder, "cache")
        os.environ["HOME"] = folder
        try:
            model = stub_model(os.path.join(folder, "stub"))
        except ImportError:
            model = None
        for line in sys.stdin:
            job = json.loads(line)
            for peer in (semble, bm25s, ripgrep):
                try:
                    for name, hits in peer(job, model):
                        print(json.dumps({"repo": job["repo"], "peer": name, "hits": hits}), flush=True)
                except Exception as error:  # noqa: BLE001: a peer that fails is left out
                    print(f"{peer.__name__} left out for {job['repo']}: {error!r}", file=sys.stderr)


if __name__ == "__main__":
    main()
