from code_api import search, filtering
from code_api.reranking import mmr
import json

hits = search("what stops a fork bomb?", limit=50)
kept = filtering.without_tests(filtering.by_path(hits, "*.rs", "*.md"))
best = mmr(kept, "fork bomb", limit=5)
answer = {"n": len(hits), "kept": len(kept), "places": [f"{hit.path}:{hit.start_line}" for hit in best]}
print(json.dumps(answer, ensure_ascii=False))
