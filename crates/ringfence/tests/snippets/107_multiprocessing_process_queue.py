# expect: error no child processes
from multiprocessing import Process, Queue


def worker(numbers, queue):
    queue.put(sum(numbers))


def main():
    queue = Queue()
    chunks = [range(0, 50), range(50, 100)]
    processes = [Process(target=worker, args=(chunk, queue)) for chunk in chunks]
    for p in processes:
        p.start()
    total = sum(queue.get() for _ in processes)
    for p in processes:
        p.join()
    print("total:", total)


if __name__ == "__main__":
    main()
