import argparse
import logging
import os
import sqlite3
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from operator import attrgetter, itemgetter
from pathlib import Path

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from scipy import signal, stats
from sklearn.linear_model import LinearRegression
from types import SimpleNamespace

matplotlib.use("Agg")
logging.basicConfig(level=logging.INFO, stream=sys.stderr)
log = logging.getLogger(__name__)


def read(path: Path) -> pd.DataFrame:
    with open(path, encoding="utf-8") as f:
        frame = pd.read_csv(f, parse_dates=["day"])
    log.info("read %d rows from %s", len(frame), os.path.basename(path))
    return frame.query("amount > 0").assign(week=lambda d: d.day.dt.isocalendar().week)


def fit(frame):
    x = frame[["week"]].to_numpy(dtype=np.float64)
    model = LinearRegression().fit(x, frame["amount"])
    return model.coef_[0], stats.pearsonr(frame["week"], frame["amount"]).statistic


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("plot.png"))
    args = parser.parse_args(argv if argv is not None else sys.argv[1:])
    with tempfile.TemporaryDirectory() as directory:
        source = Path(directory) / "orders.csv"
        source.write_text("day,amount\n2024-01-01,3\n2024-01-09,5\n")
        frame = read(source)
    slope, r = fit(frame)
    with sqlite3.connect(":memory:") as db:
        frame.to_sql("orders", db, index=False)
        print(db.execute("select count(*), sum(amount) from orders").fetchone())
    fig, ax = plt.subplots(figsize=(6, 4))
    ax.plot(frame.day, signal.detrend(frame.amount), marker="o")
    ax.set_title(f"slope {slope:.2f}, r {r:.2f}")
    fig.savefig(args.out)
    with ThreadPoolExecutor(max_workers=2) as pool:
        print(list(pool.map(lambda n: n * n, range(4))))
    rows = [SimpleNamespace(name="b", n=2), SimpleNamespace(name="a", n=1)]
    print(sorted(rows, key=attrgetter("name")), sorted([(2, 1)], key=itemgetter(1)))
    return 0


if __name__ == "__main__":
    sys.exit(main([]))
