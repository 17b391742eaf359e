# expect: ok
import time
from concurrent.futures import ThreadPoolExecutor, as_completed


def download(page):
    time.sleep(0.02)  # stands in for a slow request
    if page == 7:
        raise RuntimeError("page 7 is damaged")
    return page, page * 100


sizes, errors = {}, []
with ThreadPoolExecutor(max_workers=5) as pool:
    futures = {pool.submit(download, page): page for page in range(10)}
    for future in as_completed(futures):
        try:
            page, size = future.result()
            sizes[page] = size
        except RuntimeError as e:
            errors.append(str(e))

print(dict(sorted(sizes.items())))
print("errors:", errors)
