"""Statistics and the stopping rule, against a fake clock."""

import gc
import itertools
import json
import math
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import pytest

from profilerkit import ArgumentError, Measurement, Ratio, Run
from profilerkit.testing import FakeClock
from profilerkit.times.ceiling_work import best_rates
from profilerkit.times.percentiles import is_supported, samples_needed
from profilerkit.times.sampling import Sampling, measure, measure_interleaved


def make_sampling(clock: FakeClock, **options: float) -> Sampling:
    return Sampling(clock=clock, **options)  # type: ignore[arg-type]


def test_statistics_of_known_samples() -> None:
    measurement = Measurement((4.0, 1.0, 3.0, 2.0))
    assert (measurement.median, measurement.mean) == (2.5, 2.5)
    assert (measurement.min, measurement.max) == (1.0, 4.0)
    assert measurement.iqr == pytest.approx(1.5)  # 3.25 - 1.75, linear interpolation
    assert measurement.percentile(90) == pytest.approx(3.7)


def test_percentiles_by_name() -> None:
    measurement = Measurement(tuple(float(value) for value in range(101)))
    assert (measurement.p50, measurement.p90, measurement.p95, measurement.p99) == (50.0, 90.0, 95.0, 99.0)
    assert (measurement.percentile(0), measurement.percentile(100)) == (0.0, 100.0)
    assert Measurement((7.0,)).p99 == 7.0
    assert Measurement((1.0, math.inf, math.inf)).p90 == math.inf
    with pytest.raises(ValueError, match=r"percent=101: give a number from 0 to 100"):
        measurement.percentile(101)


def test_a_measurement_as_plain_data() -> None:
    measurement = Measurement((4.0, 1.0, 3.0, 2.0), warmup=(9.0,), session=5, precision=0.02)
    assert json.loads(json.dumps(measurement.to_dict())) == {
        "std": pytest.approx((5 / 3) ** 0.5),  # of 1 to 4: the root of (2.25 + 0.25 + 0.25 + 2.25) / 3
        "median": 2.5,
        "low": 1.0,
        "high": 4.0,
        "confidence": 0.95,
        "coverage": 0.875,  # all four on one side of the median: 2 of 16
        "is_range": True,
        "effective_samples": 4,
        "mean": 2.5,
        "iqr": 1.5,
        "min": 1.0,
        "max": 4.0,
        "p50": 2.5,
        "p90": pytest.approx(3.7),
        "p95": pytest.approx(3.85),
        "p99": pytest.approx(3.97),
        "noise": 0.6,
        "warning": measurement.warning,
        "adaptive": False,
        "session": 5,
        "samples": [4.0, 1.0, 3.0, 2.0],
        "warmup": [9.0],
        "conditions": None,
    }
    assert Measurement((0.0, 0.0)).to_dict()["noise"] is None, "JSON has no infinity"


def test_no_samples_are_no_measurement() -> None:
    with pytest.raises(ValueError, match="at least one sample"):
        Measurement(())


@pytest.mark.parametrize(
    ("count", "interval", "coverage"),
    [
        (1, (1, 1), 0),
        (3, (1, 3), 1 - 2 / 8),
        (5, (1, 5), 1 - 2 / 32),  # all on one side: 6.2 % > 5 %, the whole range is all there is
        (6, (1, 6), 1 - 2 / 64),  # 3.1 %
        (10, (2, 9), 1 - 2 * 11 / 1024),  # P(Bin(10, 1/2) <= 1) = 11 / 1024 = 1.07 %, <= 2 would be 5.5 %
        (20, (6, 15), 1 - 2 * 21700 / 2**20),  # P(Bin(20, 1/2) <= 5) = 2.07 %, <= 6 would be 5.8 %
    ],
)
def test_the_interval_of_the_median_is_the_sign_tests(count: int, interval: tuple[int, int], coverage: float) -> None:
    measurement = Measurement(shuffle(count))
    assert measurement.interval == interval
    assert measurement.coverage == pytest.approx(coverage, abs=1e-12)
    assert measurement.is_range == (count < 6)
    assert measurement.effective_samples == count


def shuffle(count: int) -> tuple[float, ...]:
    """1, 2, 3, ... in an order in which neighbors are not alike: from the two ends in turn."""
    return tuple(float(place // 2 + 1 if place % 2 else count - place // 2) for place in range(count))


def test_the_interval_of_many_samples() -> None:
    measurement = Measurement(shuffle(2001))
    # Normal approximation: 2001 / 2 -+ 1.96 * sqrt(2001) / 2 = 956.7 and 1044.3
    assert measurement.interval == (956.0, 1046.0)
    # 1 - 2 * Phi(-(1000.5 - 956) * 2 / sqrt(2001)), from the error function
    assert measurement.coverage == pytest.approx(math.erf(89 / math.sqrt(2001) / math.sqrt(2)))


@pytest.mark.parametrize(("count", "name"), [(1, "range of 1 sample, 0 %"), (3, "range of 3 samples, 75 %")])
def test_too_few_samples_have_a_range(count: int, name: str) -> None:
    measurement = Measurement(tuple(1.0 + place for place in range(count)), precision=0.5)
    assert measurement.is_range
    assert measurement.interval_name == name
    assert measurement.is_noisy, "whatever the range is"


def test_an_interval_has_the_name_of_its_confidence() -> None:
    assert Measurement(shuffle(6)).interval_name == "95 % interval"
    assert Measurement((1.0, 3.0, 2.0), confidence=0.7).interval_name == "70 % interval", "three samples reach 75 %"
    assert Measurement(shuffle(6), confidence=0.99).interval_name == "range of 6 samples, 96.88 %"


def test_samples_that_hang_together_have_a_wider_interval() -> None:
    """The same hundred values, in the order in which they were drawn and in stretches of ten that are alike."""
    draw = random.Random(0)
    values = [draw.gauss(10, 1) for _ in range(100)]
    apart = Measurement(tuple(values))
    stretches = Measurement(tuple(value for start in range(0, 100, 10) for value in alike(values, start)))
    assert (apart.median, apart.mean) == pytest.approx((stretches.median, stretches.mean))
    assert apart.effective_samples == 100
    assert stretches.effective_samples < 50
    assert stretches.interval[0] < apart.interval[0] < apart.interval[1] < stretches.interval[1]


def alike(values: list[float], start: int) -> list[float]:
    """Return the values whose ranks are alike: the smallest ten, then the largest ten, and so on."""
    ordered, place = sorted(values), start // 10
    return ordered[10 * (place // 2) :][:10] if place % 2 else ordered[90 - 10 * (place // 2) :][:10]


def test_samples_that_rise_all_the_time_have_a_range_only() -> None:
    rising = Measurement(tuple(float(place) for place in range(10, 30)), precision=0.01)
    assert rising.is_range
    assert rising.interval == (10, 29)
    assert rising.effective_samples < 6
    assert rising.warning is not None
    assert rising.warning.startswith("noisy: 20 dependent samples, worth ")
    assert rising.warning.endswith(" independent ones; ±1.0% was requested")


def test_what_is_shown_of_a_mere_range_is_its_middle_half() -> None:
    """The quartiles of 10, 11 ... 29 are 14.75 and 24.25, its median 19.5; a slow pass changes neither."""
    values = [float(place) for place in range(10, 30)]
    rising, slow = Measurement(tuple(values)), Measurement((*values[:-1], 1000.0))
    assert rising.uncertainty == pytest.approx((24.25 - 14.75) / 2 / 19.5)
    assert slow.uncertainty == rising.uncertainty
    assert (rising.interval, slow.interval) == ((10, 29), (10, 28)), "the one that stands apart is no end"
    few = Measurement((1.0, 2.0, 3.0))
    assert (few.is_range, few.uncertainty) == (True, few.noise)
    known = Measurement((1.0, 2.0, 1.0, 2.0, 1.5, 2.0, 1.0, 1.5))
    assert (known.is_range, known.uncertainty) == (False, known.noise)


def test_the_interval_covers_the_median_as_often_as_it_says() -> None:
    draw = random.Random(0)
    trials = 400
    covered = 0
    for _ in range(trials):
        low, high = Measurement(tuple(draw.expovariate(1.0) for _ in range(25))).interval
        covered += low <= math.log(2) <= high  # the median of an exponential distribution
    assert covered / trials > 0.93


def test_a_measurement_stands_for_its_median() -> None:
    measurement = Measurement((2.0, 2.0, 2.0))
    assert float(measurement) == 2.0
    assert measurement < 2.5
    assert measurement > 1
    assert 2 <= measurement <= 2.0
    assert measurement >= 2
    assert f"{measurement:.1f}" == "2.0"
    assert f"{measurement}" == repr(measurement) == "Measurement(median=2, interval=(2, 2), samples=3)"
    assert round(Measurement((1.26,)), 1) == 1.3
    assert Measurement([1.0, 2.0]) == Measurement((1.0, 2.0))  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="unsupported operand"):
        measurement - "x"  # type: ignore[operator]


def test_a_number_and_a_measurement_make_a_measurement() -> None:
    measurement = Measurement((1.0, 2.0, 4.0), session=7, precision=0.1)
    assert (measurement / 4).samples == (0.25, 0.5, 1.0)
    assert (8 / measurement).samples == (8.0, 4.0, 2.0)
    assert (3 * measurement).samples == (measurement * 3).samples == (3.0, 6.0, 12.0)
    assert (measurement + 1).samples == (1 + measurement).samples == (2.0, 3.0, 5.0)
    assert (measurement - 1).samples == (0.0, 1.0, 3.0)
    assert (5 - measurement).samples == (4.0, 3.0, 1.0)
    assert (8 / measurement).session == 7, "a rate of paired times is paired as well"
    assert measurement / Measurement((4.0,)) == 0.5
    assert measurement * Measurement((4.0,)) == 8.0


def test_a_rate_whose_time_was_zero_is_infinite() -> None:
    """A clock may stand still for the whole of a short call."""
    rate = 8 / Measurement((0.0, 2.0, 4.0))
    assert (rate.samples, rate.median) == ((math.inf, 4.0, 2.0), 4.0)


def test_mapping_keeps_pairs_and_drops_the_warning() -> None:
    measurement = Measurement((1.0, 4.0), warmup=(8.0,), session=3, precision=0.01)
    rate = measurement.map(lambda seconds: 8 / seconds)
    assert (rate.samples, rate.warmup, rate.session) == ((8.0, 2.0), (1.0,), 3)
    assert measurement.warning is not None
    assert rate.warning is None


def test_a_noisy_measurement_says_so() -> None:
    few = Measurement((1.0, 2.0, 3.0), precision=0.02)
    assert few.noise == pytest.approx(0.5)  # (3 - 1) / 2 / 2
    assert few.warning == "noisy: 3 samples are too few for an interval; ±2.0% was requested"
    noisy = Measurement((1.0, 3.0, 2.0, 2.0, 3.0, 1.0), precision=0.02)
    assert noisy.warning == "noisy: the median is precise to ±50.0%, ±2.0% was requested"
    assert Measurement((1.0, 2.0, 3.0)).warning is None


def test_steady_calls_stop_at_the_fewest_samples() -> None:
    clock = FakeClock()
    result = measure(clock.make_call([0.001]), make_sampling(clock))
    assert len(result.samples) == 12
    assert result.samples == pytest.approx((0.001,) * 12)
    # The first call is the best so far, the next three bring nothing new.
    assert len(result.warmup) == 4


def test_warm_up_goes_on_while_calls_get_faster() -> None:
    clock = FakeClock()
    times = [0.008, 0.004, 0.002, 0.001, 0.001, 0.001, 0.001]
    result = measure(clock.make_call(times + [0.001] * 100), make_sampling(clock))
    assert result.warmup == pytest.approx(times)


def test_warm_up_ends_after_a_quarter_of_the_time() -> None:
    clock = FakeClock()
    shrinking = [2.0**-n for n in range(40)]
    result = measure(clock.make_call(shrinking), make_sampling(clock, max_seconds=4.0))
    assert result.warmup == (1.0,)


def test_noisy_calls_stop_at_the_time_limit() -> None:
    clock = FakeClock()
    draw = random.Random(1)
    result = measure(
        clock.make_call([draw.uniform(0.01, 0.1) for _ in range(997)]), make_sampling(clock, max_seconds=1.0)
    )
    assert 1.0 <= sum(result.samples) + sum(result.warmup) < 1.3
    assert result.warning is not None


def test_slow_calls_are_sampled_three_times_at_least() -> None:
    clock = FakeClock()
    assert len(measure(clock.make_call([10.0]), make_sampling(clock, max_seconds=1.0)).samples) == 3


def test_fixed_numbers_are_kept() -> None:
    clock = FakeClock()
    result = measure(clock.make_call([5.0, 1.0]), make_sampling(clock, num_iters=7, warmup=2, max_seconds=0.1))
    assert (len(result.samples), len(result.warmup)) == (7, 2)
    assert result.warning is None, "who fixes the number of samples knows what he gets"
    assert not result.adaptive
    assert measure(clock.make_call([1.0]), make_sampling(clock)).adaptive
    assert measure(clock.make_call([1.0]), make_sampling(clock, num_iters=1, warmup=0)).warmup == ()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_iters": 0}, "num_iters=0: give a whole number from 1"),
        ({"warmup": -1}, "warmup=-1: give zero or more"),
        ({"min_samples": 0}, "min_samples=0: give a whole number from 1"),
        ({"confidence": 95}, "confidence=95: give a probability"),
        ({"relative_precision": 0}, "relative_precision=0: give a number above zero"),
        ({"max_seconds": -2}, "max_seconds=-2: give a number above zero"),
    ],
)
def test_a_plan_that_cannot_be_followed(options: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Sampling(**options)  # type: ignore[arg-type]


def test_nothing_to_time_is_said() -> None:
    with pytest.raises(ArgumentError, match=r"calls=\[\]: give at least one call to time"):
        measure_interleaved([])
    with pytest.raises(ArgumentError, match=r"work=\[\]: give at least one operator to run"):
        best_rates([], 1e9)


def test_three_samples_are_taken_even_where_the_first_may_be_checked() -> None:
    clock = FakeClock()
    assert len(measure(clock.make_call([2.0]), make_sampling(clock, max_seconds=1.0, min_samples=1)).samples) == 3


def test_several_calls_take_turns_in_an_order_that_is_drawn() -> None:
    clock = FakeClock()
    order: list[str] = []

    def named(name: str) -> None:
        order.append(name)
        clock.advance(0.001)

    calls = [lambda: named("a"), lambda: named("b"), lambda: named("c")]
    measure_interleaved(calls, make_sampling(clock, num_iters=600, warmup=0, seed=1))
    rounds = ["".join(order[start : start + 3]) for start in range(0, 1800, 3)]
    counts = Counter(rounds)
    assert sorted(counts) == ["abc", "acb", "bac", "bca", "cab", "cba"]
    # Each comes 100 times, with a standard deviation of sqrt(600 * 1/6 * 5/6) = 9.1.
    assert all(60 <= count <= 140 for count in counts.values())
    # The next round does not depend on the last one: the same comes again in a sixth of them, 9.1 either way.
    assert 60 <= sum(one == other for one, other in itertools.pairwise(rounds)) <= 140


def test_the_order_is_another_each_time_and_the_users_random_numbers_stay() -> None:
    def order() -> str:
        names: list[str] = []
        calls = [lambda: names.append("a"), lambda: names.append("b")]
        measure_interleaved(calls, Sampling(num_iters=64, warmup=0))
        return "".join(names)

    random.seed(5)
    expected = random.random()
    random.seed(5)
    assert order() != order()
    assert random.random() == expected


def test_the_ratio_comes_from_the_pairs() -> None:
    """A machine that slows down tenfold half-way changes neither model's share of each round."""
    clock = FakeClock()
    drift = [1.0] * 10 + [10.0] * 10
    first = clock.make_call([0.002 * slow for slow in drift])
    second = clock.make_call([0.001 * slow for slow in drift])
    a, b = measure_interleaved([first, second], make_sampling(clock, num_iters=20, warmup=0))
    ratio = Ratio.of(a, b)
    assert (ratio.value, ratio.low, ratio.high) == pytest.approx((0.5, 0.5, 0.5))
    assert ratio.paired
    assert ratio.is_real


@pytest.mark.parametrize(("spread", "samples"), [(0.005, 12), (0.025, 15)])
def test_a_ratio_is_to_be_known_twice_as_well_as_a_median(spread: float, samples: int) -> None:
    """Ratios of 1 and 1 + 2 * spread in turn: the interval is as wide as they differ, and must be within 2 %."""
    clock = FakeClock()
    first, second = clock.make_call([0.001]), clock.make_call([0.001, 0.001 * (1 + 2 * spread)])
    a, b = measure_interleaved([first, second], make_sampling(clock, warmup=0, max_seconds=0.030))
    ratio = Ratio.of(a, b)
    assert ratio.high - ratio.low == pytest.approx(2 * spread)
    # 0.5 % either way is known well enough at once; 2.5 % never is, until 0.030 s for both together have gone.
    assert len(a.samples) == samples


def test_several_calls_share_the_time() -> None:
    clock = FakeClock()
    draw = random.Random(4)
    noisy = [draw.uniform(0.01, 0.1) for _ in range(997)]
    measured = measure_interleaved([clock.make_call(noisy)] * 3, make_sampling(clock, max_seconds=3.0))
    assert all(value.warmup for value in measured)
    assert 3.0 <= clock.now < 3.4, "the last round is finished"
    assert clock.now == pytest.approx(sum(sum((*value.samples, *value.warmup)) for value in measured))


def test_the_warm_up_of_several_calls_takes_a_quarter_of_the_time() -> None:
    clock = FakeClock()
    faster = [0.25 * 0.94**place for place in range(40)]  # each pass is new, so that warm-up does not end by itself
    first, second = measure_interleaved(
        [clock.make_call(faster), clock.make_call(faster)], make_sampling(clock, max_seconds=8.0)
    )
    assert 1.0 <= sum(first.warmup) < 1.25
    assert 2.0 <= sum(first.warmup) + sum(second.warmup) < 2.25


def test_a_slow_comparison_has_three_pairs_and_no_verdict() -> None:
    clock = FakeClock()
    plan = make_sampling(clock, max_seconds=1.0)
    a, b = measure_interleaved([clock.make_call([2.0]), clock.make_call([3.0])], plan)
    ratio = Ratio.of(a, b)
    assert (len(a.samples), ratio.value, ratio.low, ratio.high) == (3, 1.5, 1.5, 1.5)
    assert ratio.is_range
    assert ratio.coverage == 0.75
    assert not ratio.is_real
    assert ratio.interval_name == "range of 3 pairs, 75 %"
    assert ratio.warning == "noisy: 3 pairs are too few for an interval; ±1.0% was requested"


def test_a_call_that_times_itself_is_believed() -> None:
    clock = FakeClock()

    class Timed(Run):
        def seconds(self, host: Callable[[], float] = clock) -> float:
            clock.advance(1.0)
            return 0.25

    def run() -> None:
        raise AssertionError("it is to time itself")

    result = measure(Timed(run), make_sampling(clock, num_iters=3, warmup=2))
    assert (result.samples, result.warmup) == ((0.25,) * 3, (0.25,) * 2)


def test_several_calls_stop_when_their_ratio_is_known() -> None:
    clock = FakeClock()
    draw = random.Random(2)
    speeds = [draw.uniform(0.5, 2.0) for _ in range(997)]
    a, b = measure_interleaved(
        [clock.make_call([0.002 * s for s in speeds]), clock.make_call([0.001 * s for s in speeds])],
        make_sampling(clock),
    )
    assert len(a.samples) == len(b.samples)
    assert a.is_noisy, "each alone is"
    assert Ratio.of(a, b).warning is None, "the ratio is not"


def test_a_noisy_ratio_says_so() -> None:
    a = Measurement((1.0,) * 8, session=1, precision=0.02)
    b = Measurement((1.0, 1.2, 1.1, 1.1, 1.2, 1.0, 1.1, 1.1), session=1, precision=0.02)
    # The interval of 8 pairs is from the first to the last: P(all on one side) = 2 / 256; (1.2 - 1) / 2 / 1.1 = 9.1 %.
    assert Ratio.of(a, b).warning == "noisy: the ratio is precise to ±9.1%, ±1.0% was requested"
    assert Ratio.of(replace(a, precision=None), b).warning is None, "nothing was requested"


def test_ratio_of_exact_values_and_of_unpaired_measurements() -> None:
    assert Ratio.of(4.0, 2.0) == Ratio(0.5, 0.5, 0.5)
    assert math.isnan(Ratio.of(0.0, 0.0).value)
    assert Ratio.of(0.0, 2.0).value == math.inf
    a, b = Measurement((1.0, 2.0, 3.0)), Measurement((10.0, 20.0, 30.0))
    ratio = Ratio.of(a, b)
    assert (ratio.value, ratio.low, ratio.high) == (10.0, 10 / 3, 30.0)
    assert not ratio.paired
    assert ratio.is_range, "three samples have no interval"
    assert not ratio.is_real
    assert ratio.coverage == 0.75
    six = Measurement((10.0, 30.0, 20.0, 20.0, 30.0, 10.0))
    assert Ratio.of(1.0, six).is_real
    assert Ratio.of(a, six).is_range


@pytest.mark.parametrize(
    ("reference", "other", "ends"),
    [
        ((2.0, 4.0), (-1.0, 8.0), (-0.5, 4.0)),
        ((-4.0, -2.0), (1.0, 8.0), (-4.0, -0.25)),
        ((-1.0, 2.0), (1.0, 8.0), (-math.inf, math.inf)),
        ((0.0, 2.0), (0.0, 0.0), (0.0, math.inf)),  # both may be 0, and equal
        ((0.0, 2.0), (1.0, 8.0), (0.5, math.inf)),
    ],
)
def test_the_ends_of_a_ratio_hold_every_quotient_of_zeros_and_negative_numbers_too(
    reference: tuple[float, ...], other: tuple[float, ...], ends: tuple[float, float]
) -> None:
    ratio = Ratio.of(Measurement(reference), Measurement(other))
    assert (ratio.low, ratio.high) == ends


@pytest.mark.parametrize(
    ("other", "value"),
    [((-2.0,) * 4, -2.0), ((-3.0, -1.0), -2.0), ((-1.0, 3.0), 1.0), ((2.0, 8.0), 4.0), ((0.0, 1.0), 0)],
)
def test_the_ratio_of_pairs_lies_between_the_two_in_the_middle_whatever_their_signs(
    other: tuple[float, ...], value: float
) -> None:
    """Over ones: of two quotients the geometric mean, such as 4 of 2 and 8, or with a negative one the mean."""
    assert Ratio.of(Measurement((1.0,) * len(other), session=1), Measurement(other, session=1)).value == value


def test_a_sample_of_zero_has_a_ratio() -> None:
    rates = [Measurement(samples, session=1) for samples in ((1.0, 2.0, 4.0), (0.0, 2.0, 4.0))]
    assert Ratio.of(*rates).value == 1.0
    assert Ratio.of(rates[1], rates[0]).high == math.inf
    assert not Ratio.of(0.0, 0.0).is_real, "nothing over nothing says nothing"


def test_pairs_of_zeros_say_nothing() -> None:
    """The other pairs are twice the reference, wherever the zeros stand among them."""
    for start in range(7):
        reference, other = [1.0] * 6, [2.0] * 6
        reference[start:start] = other[start:start] = [0.0] * 3
        ratio = Ratio.of(Measurement(tuple(reference), session=1), Measurement(tuple(other), session=1))
        assert (ratio.value, ratio.low, ratio.high, ratio.pairs) == (2, 2, 2, 6)
    zeros = Measurement((0.0,) * 8, session=1)
    assert math.isnan(Ratio.of(zeros, zeros).value)
    assert Ratio.of(zeros, zeros).is_single


def test_samples_of_one_session_that_differ_in_number_are_not_pairs() -> None:
    ratio = Ratio.of(Measurement((1.0, 2.0, 4.0), session=1), Measurement((8.0, 16.0), session=1))
    assert (ratio.paired, ratio.value, ratio.low, ratio.high) == (False, 6.0, 2.0, 16.0)


def test_no_difference_is_not_called_real() -> None:
    assert not Ratio(1.01, 0.99, 1.03).is_real
    assert Ratio(1.05, 1.01, 1.09).is_real


def test_the_collector_is_paused_and_comes_back_after_errors() -> None:
    seen = []

    def fail() -> None:
        seen.append(gc.isenabled())
        raise RuntimeError("the model failed")

    assert gc.isenabled()
    with pytest.raises(RuntimeError, match="the model failed"):
        measure(fail)
    assert seen == [False]
    assert gc.isenabled()
    gc.disable()
    try:
        measure(lambda: None, Sampling(num_iters=1))
        assert not gc.isenabled(), "it was off before"
    finally:
        gc.enable()


def test_the_standard_deviation_of_samples() -> None:
    assert Measurement((2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0)).std == pytest.approx((32 / 7) ** 0.5)
    assert math.isnan(Measurement((1.0,)).std)
    assert math.isnan(Measurement((1.0, math.inf)).std)
    assert Measurement((1.0,)).to_dict()["std"] is None


@pytest.mark.parametrize(
    "samples",
    [[1.0] * 78 + [2.0] * 22, [1 + index / 100 for index in range(100)], [1 + index / 20 for index in range(20)]],
    ids=["throttled", "drifting", "drifting shortly"],
)
def test_samples_that_depend_on_each_other_are_worth_one_at_the_least(samples: list[float]) -> None:
    """Then their range holds the median with no probability that is known, and not with a negative one."""
    measurement = Measurement(tuple(samples))
    assert measurement.is_range
    assert measurement.effective_samples >= 1
    assert 0 <= measurement.coverage < 1
    assert "-" not in measurement.interval_name


@pytest.mark.parametrize(
    ("percent", "needed"),
    [(0, 1), (100, 1), (50, 1), (90, 10), (10, 10), (95, 20), (99, 100), (99.9, 1000), (75, 4), (60, 3)],
)
def test_at_least_one_sample_is_expected_beyond_a_percentile(percent: float, needed: int) -> None:
    """One in a hundred lies above the 99th: a hundred samples; of the 60th one in 2.5: three."""
    assert samples_needed(percent) == needed
    assert is_supported(percent, needed)
    assert not is_supported(percent, needed - 1)
