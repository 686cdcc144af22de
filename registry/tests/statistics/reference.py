"""Makes reference.json: what numpy and scipy say of samples, for registry/tests/statistics.rs.

    python3 -m venv venv && venv/bin/pip install -r registry/tests/statistics/requirements.txt
    venv/bin/python registry/tests/statistics/reference.py            # writes reference.json beside it
    venv/bin/python registry/tests/statistics/reference.py --check    # says whether that would change it

The samples are rates of the real llama-bench outputs in tests/fixtures/llama-bench, and a few made ones with ties, an
even and an odd number and one wild value.

Intervals are given twice. `exact` comes from the same generator and the same method as in the crate, written here in
plain Python from their descriptions: the crate has to agree but for rounding. `scipy` comes from scipy.stats.bootstrap
with numpy's own generator and a hundred times as many resamples: other draws of the same distribution, so that
agreement is a matter of a tolerance, which the test states.
"""

import json
import pathlib
import sys

import numpy
import scipy

HERE = pathlib.Path(__file__).resolve().parent
FIXTURES = HERE.parents[2] / "tests/fixtures/llama-bench"
SEED = 20_260_809
RESAMPLES = 10_000
SCIPY_RESAMPLES = 1_000_000
MASK = (1 << 64) - 1


def rates(name):
    """Rates in tokens per second of every row, by test."""
    found = {}
    for row in json.loads((FIXTURES / name).read_text()):
        tokens = row["n_prompt"] + row["n_gen"]
        test = f"pp{row['n_prompt']}" if row["n_prompt"] else f"tg{row['n_gen']}"
        found[f"{name} {test}"] = [tokens * 1e9 / ns for ns in row["samples_ns"]]
    return found


def samples():
    """Every sample by its name."""
    made = {
        "odd": [8.71, 8.70, 8.66, 8.21, 7.40, 6.83, 6.11, 5.94, 5.90],
        "even": [4.0, 1.0, 2.0, 3.0],
        "ties": [2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0],
        "wild": [10.0, 10.1, 9.9, 10.2, 9.8, 10.0, 100.0],
    }
    return rates("small-512-128-10x.json") | rates("small-10x.json") | rates("contended.json") | made


def splitmix64(seed):
    """Steele, Lea and Flood's generator: 64-bit numbers for ever."""
    state = seed
    while True:
        state = (state + 0x9E3779B97F4A7C15) & MASK
        mixed = state
        mixed = ((mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & MASK
        yield mixed ^ (mixed >> 31)


def resampled(values, random):
    """As many values as there are, drawn with replacement from the ascending sample."""
    return [values[(next(random) * len(values)) >> 64] for _ in values]


def exact(numerator, denominator, resamples, seed):
    """The interval as the crate takes it."""
    random = splitmix64(seed)
    above, below = sorted(numerator), sorted(denominator)
    ratios = []
    for _ in range(resamples):
        top = numpy.median(resampled(above, random))
        ratios.append(top / numpy.median(resampled(below, random)))
    return [float(end) for end in numpy.percentile(ratios, [2.5, 97.5], method="linear")]


def by_scipy(numerator, denominator):
    """The interval as scipy takes it."""

    def ratio(above, below, axis=-1):
        return numpy.median(above, axis=axis) / numpy.median(below, axis=axis)

    done = scipy.stats.bootstrap(
        (numerator, denominator),
        ratio,
        n_resamples=SCIPY_RESAMPLES,
        batch=10_000,
        vectorized=True,
        confidence_level=0.95,
        method="percentile",
        rng=numpy.random.default_rng(SEED),
    )
    return [float(done.confidence_interval.low), float(done.confidence_interval.high)]


def of_one(values):
    """Statistics of one sample."""
    order = range(len(values))
    return {
        "values": values,
        "median": float(numpy.median(values)),
        "median_deviation": float(scipy.stats.median_abs_deviation(values, scale=1.0)),
        "mean": float(numpy.mean(values)),
        "deviation": float(numpy.std(values, ddof=1)),
        "variation": float(scipy.stats.variation(values, ddof=1)),
        "spearman": float(scipy.stats.spearmanr(order, values).statistic),
    }


def of_two(known, numerator, denominator):
    """The ratio of two samples' medians with its intervals."""
    above, below = known[numerator], known[denominator]
    return {
        "numerator": numerator,
        "denominator": denominator,
        "ratio": float(numpy.median(above) / numpy.median(below)),
        "exact": exact(above, below, RESAMPLES, SEED),
        "scipy": by_scipy(above, below),
    }


def main():
    known = samples()
    names = list(known)
    pairs = [(one, other) for one, other in zip(names, names[1:] + names[:1])]
    reference = {
        "made_by": "registry/tests/statistics/reference.py",
        "numpy": numpy.__version__,
        "scipy": scipy.__version__,
        "seed": SEED,
        "resamples": RESAMPLES,
        "scipy_resamples": SCIPY_RESAMPLES,
        "samples": {name: of_one(values) for name, values in known.items()},
        "ratios": [of_two(known, *pair) for pair in pairs],
    }
    text = json.dumps(reference, indent=1) + "\n"
    path = HERE / "reference.json"
    if "--check" in sys.argv[1:]:
        same = path.read_text() == text
        print("reference.json is what this makes" if same else "reference.json is something else")
        sys.exit(0 if same else 1)
    path.write_text(text)


if __name__ == "__main__":
    main()
