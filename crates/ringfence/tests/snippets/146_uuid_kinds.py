# expect: ok
import uuid

page = uuid.uuid5(uuid.NAMESPACE_URL, "https://example.com/page")
print(page, page == uuid.uuid5(uuid.NAMESPACE_URL, "https://example.com/page"))
print(uuid.uuid3(uuid.NAMESPACE_DNS, "example.com").version)

ids = [uuid.uuid4() for _ in range(1000)]
print("unique:", len(set(ids)) == 1000, "version:", ids[0].version, "length:", len(str(ids[0])))

by_time = uuid.uuid1()
print(by_time.version, by_time.variant == uuid.RFC_4122, uuid.getnode() > 0)
try:
    uuid.UUID("not-a-uuid")
except ValueError as e:
    print("ValueError:", e)
print(uuid.UUID(int=5).hex[-4:], uuid.UUID("{12345678-1234-5678-1234-567812345678}").fields[0])
