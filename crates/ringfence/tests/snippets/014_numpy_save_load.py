# expect: ok; needs numpy
import numpy as np

grid = np.arange(24).reshape(4, 6)
np.save("grid.npy", grid)
np.savez_compressed("bundle.npz", grid=grid, mask=grid % 2 == 0)
np.savetxt("grid.csv", grid, delimiter=",", fmt="%d")

loaded = np.load("grid.npy")
bundle = np.load("bundle.npz")
text = np.loadtxt("grid.csv", delimiter=",", dtype=int)
assert (loaded == text).all()

print("even numbers:", bundle["grid"][bundle["mask"]])
print("column sums:", loaded.sum(axis=0))
print("blocks:", loaded.reshape(2, 2, 3, 2).sum(axis=(1, 3)).tolist())
