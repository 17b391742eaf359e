# expect: error no child processes
import multiprocessing as mp


def square(n):
    return n * n


if __name__ == "__main__":
    with mp.Pool(processes=4) as pool:
        print(pool.map(square, range(10)))
