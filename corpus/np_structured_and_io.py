# presets: data,open
# needs: numpy
import numpy as np

people = np.array(
    [("Ana", 34, 1.71), ("Björn", 28, 1.93), ("Chi", 51, 1.60)],
    dtype=[("name", "U10"), ("age", "i4"), ("height", "f8")],
)
print(people["name"].tolist(), round(float(people["age"].mean()), 3))
print(np.sort(people, order="age")["name"].tolist())
print(people[people["height"] > 1.65]["name"].tolist())

np.save("people.npy", people)
back = np.load("people.npy")
assert (back == people).all()
grid = np.arange(6.0).reshape(2, 3) / 4
np.savetxt("grid.csv", grid, delimiter=",", fmt="%.2f", header="a,b,c", comments="")
print(open("grid.csv").read(), end="")
loaded = np.genfromtxt("grid.csv", delimiter=",", names=True)
print(loaded.dtype.names, loaded["b"].tolist())
np.savez_compressed("bundle.npz", grid=grid, ids=np.arange(3))
with np.load("bundle.npz") as z:
    print(sorted(z.files), z["ids"].tolist())

m = np.memmap("big.dat", dtype="int32", mode="w+", shape=(1000,))
m[:] = np.arange(1000)
m.flush()
del m
print(int(np.memmap("big.dat", dtype="int32", mode="r")[-1]))
dates = np.arange("2024-02-27", "2024-03-02", dtype="datetime64[D]")
print(dates.astype(str).tolist(), int(np.busday_count("2024-02-01", "2024-03-01")))
masked = np.ma.masked_invalid([1.0, np.nan, 3.0])
print(float(masked.mean()), int(masked.count()), np.nanmax([1, np.nan, 5.0]))
