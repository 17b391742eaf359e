# expect: ok
import resource
import sys
import time
import tracemalloc

tracemalloc.start()
data = [str(i) * 10 for i in range(20_000)]
current, peak = tracemalloc.get_traced_memory()
tracemalloc.stop()
print(f"peak above 1 MB: {peak > 1_000_000}")

usage = resource.getrusage(resource.RUSAGE_SELF)
print("CPU time known:", usage.ru_utime > 0, "- peak memory known:", usage.ru_maxrss > 0)
for name in ("RLIMIT_NOFILE", "RLIMIT_AS", "RLIMIT_CPU", "RLIMIT_STACK"):
    soft, hard = resource.getrlimit(getattr(resource, name))
    print(f"{name} is readable: {soft == resource.RLIM_INFINITY or soft > 0}")

soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft, 32) if soft > 0 else 32, hard))
print("files now:", resource.getrlimit(resource.RLIMIT_NOFILE)[0])
print(sys.getsizeof(data) > 0, time.process_time() > 0)
