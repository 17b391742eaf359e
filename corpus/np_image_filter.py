# presets: data,open
# needs: numpy
import numpy as np

# A synthetic grey image: a bright disc on a dark ground.
yy, xx = np.mgrid[0:24, 0:48]
image = ((yy - 12) ** 2 + ((xx - 24) / 2) ** 2 < 64).astype(float) * 200 + 20

SHADES = " .:-=+*#%@"


def show(img):
    scaled = (img - img.min()) / (img.max() - img.min()) * (len(SHADES) - 1)
    for row in scaled[::2].astype(int):
        print("".join(SHADES[v] for v in row).rstrip())


def convolve(img, kernel):
    k = kernel.shape[0] // 2
    padded = np.pad(img, k, mode="edge")
    out = np.zeros_like(img)
    for dy in range(kernel.shape[0]):
        for dx in range(kernel.shape[1]):
            out += kernel[dy, dx] * padded[dy : dy + img.shape[0], dx : dx + img.shape[1]]
    return out


show(image)
blurred = convolve(image, np.ones((5, 5)) / 25)
print("blurred range", round(float(blurred.min()), 2), round(float(blurred.max()), 2))
sobel = np.array([[-1, 0, 1], [-2, 0, 2], [-1, 0, 1]])
edges = np.hypot(convolve(image, sobel), convolve(image, sobel.T))
show(edges)
print("edge pixels:", int((edges > 100).sum()), "bright pixels:", int((image > 100).sum()))
print("mean brightness per quadrant:", [round(float(q.mean()), 2) for half in np.split(image, 2) for q in np.split(half, 2, axis=1)])
