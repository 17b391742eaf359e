from code_api import search, filtering
from code_api.reranking import rerank
import json

hits = search.query("rust sandbox", limit=50)
recent = filtering.by(hits, lambda hit: hit["year"] >= 2023 and "draft" not in hit["tags"])
best = rerank(recent, "what stops a fork bomb?")[:5]
answer = {"n": len(hits), "kept": len(recent), "titles": [hit["title"] for hit in best]}
print(json.dumps(answer, ensure_ascii=False))
