# presets: data,open
# needs: numpy
import numpy as np

rate = 500
t = np.arange(0, 2, 1 / rate)
signal = 1.5 * np.sin(2 * np.pi * 50 * t) + 0.7 * np.cos(2 * np.pi * 120 * t) + 0.2
rng = np.random.default_rng(0)
noisy = signal + rng.normal(0, 0.5, t.size)

spectrum = np.fft.rfft(noisy)
freqs = np.fft.rfftfreq(t.size, 1 / rate)
amplitude = 2 * np.abs(spectrum) / t.size
amplitude[0] /= 2

top = np.argsort(amplitude)[::-1][:3]
for i in sorted(top):
    print(f"{freqs[i]:6.1f} Hz amplitude {amplitude[i]:.1f}")

clean = spectrum.copy()
clean[amplitude < 0.15] = 0
restored = np.fft.irfft(clean, t.size)
error = np.sqrt(np.mean((restored - signal) ** 2))
print("rms error below 0.1:", bool(error < 0.1), "noise rms above 0.4:", bool(np.sqrt(np.mean((noisy - signal) ** 2)) > 0.4))
print("parseval:", bool(np.isclose(np.sum(noisy**2), np.sum(np.abs(np.fft.fft(noisy)) ** 2) / t.size)))

kernel = np.ones(25) / 25
smooth = np.convolve(noisy, kernel, mode="same")
print("moving average keeps length:", smooth.size == noisy.size)
window = np.hanning(8)
print([f"{w:.3f}" for w in window])
