"""Weights of the mixer: log-odds as sums of inputs, and their steps. docs/FORMAT.md has every number, docs/EXACT.md the bounds.

A step is proportional to an error and to the centred input. It is divided by the mean square of the inputs where that is large
(normalised steps; Nagumo and Noda 1967). A row takes larger steps until it has been used a few thousand times, and where its
errors are small on average: the code length curves less there. The factor is the power -1/4 of the mean error.

The error is the mean of two. By its own error, each set learns to predict alone. By the error of the mixture, times the set's
share of it, the sets learn what the others do not know. The last sets use the mean of their own error and the mixture's.

Inputs mostly agree. Their common part limits how large a step may be, so five eighths of their mean are taken away for a step. In
the last sets, whose inputs are the log-odds of the first, the mean and the differences from it have rates of their own.

The weights of the first sets start at one half, divided by the number of contexts. Arrays hold what they have changed since, at
most 2, so memory that is not used stays zero.
"""

from math import isqrt
from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]

from prequential.machine.atomics import call
from prequential.machine.compiled import IS_INTERPRETED, Array, cgutils, inlined, intrinsic, kernel, span, types
from prequential.model.mixer.nodes import LOG_ODDS_LIMIT, clamp, log_odds_tables
from prequential.model.mixer.sets import N_LAST

SQUASH = log_odds_tables()[1]  # (6143,) int32: the probability in 2**-16 of log-odds from -LOG_ODDS_LIMIT on
LANES = 32  # the number of columns is a multiple of it: whole cache lines
WEIGHT_BITS, LAST_WEIGHT_BITS = 14, 16
MAX_WEIGHT, MAX_LAST_WEIGHT = (1 << 15) - 1, 1 << 24
SUM_SHIFT, STEP_SHIFT = 7, 18
SMALLEST_ERROR = 1 << (STEP_SHIFT - 1 - 12)  # smaller ones change no weight, because centred inputs are below 2**12
LEAST_RATE, SHARED_RATE, FIRST_FACTOR, NEW_ROW_FACTOR = 36, 1900, 3, 3
LAST_MEAN_RATE, LAST_DIFFERENCE_RATE = 4, 180
MAX_SHARE = 4 << LAST_WEIGHT_BITS
MAX_ROW_AGE = (1 << 16) - 1
FIRST_ROW_ERROR, MEAN_SHIFT = 10000 << 8, 6  # the mean error of a row, in 2^-24, is over its last 2**MEAN_SHIFT uses


# (4096,) int64 in 2^-8: the factor of a row's steps, by its mean error in 2^-12: its power -1/4, and 1 at an eighth.
STEP_FACTOR = np.array([isqrt(isqrt((8192 << 32) // (16 * error + 8))) for error in range(4096)], np.int64)


@inlined
def squash(log_odds: Any) -> Any:
    return np.int64(SQUASH[np.uint64(log_odds + LOG_ODDS_LIMIT)])


# The sums of a share of the inputs, one for each set and these after them; int32, whose overflows wrap around.
OF_INPUTS, OF_NONZERO, OF_SQUARES, N_SUMS = 0, 1, 2, 3


# ---- vectors of a row: with 16 bits where LLVM would take 32


VECTOR, WIDE = (ir.VectorType(ir.IntType(bits), LANES) for bits in (16, 32))


def _each_vector(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    """Generates a loop over the vectors of a row. Yields where one is, the weights there, and the inputs that belong to it."""
    weights, inputs = (context.make_array(signature.args[i])(context, builder, arguments[i]) for i in (0, 2))
    row, size = builder.gep(weights.data, [arguments[1]]), context.get_value_type(types.intp)
    with cgutils.for_range(builder, builder.udiv(inputs.nitems, size(LANES))) as loop:
        first = builder.mul(loop.index, size(LANES))
        at = [builder.bitcast(builder.gep(start, [first]), VECTOR.as_pointer()) for start in (row, inputs.data)]
        yield at[0], *(builder.load(place, align=2) for place in at)


@intrinsic
def _dot(typing_context: Any, weights: Any, place: Any, inputs: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        half = ir.VectorType(ir.IntType(32), LANES // 2)
        total = cgutils.alloca_once_value(builder, ir.Constant(half, None))
        for _, row, x in _each_vector(context, builder, signature, arguments):
            product = builder.mul(builder.sext(row, WIDE), builder.sext(x, WIDE))
            for k in (0, 1):  # one instruction multiplies, and adds neighbours
                lanes = ir.Constant(half, list(range(k, LANES, 2)))
                builder.store(builder.add(builder.load(total), builder.shuffle_vector(product, product, lanes)), total)
        return call(builder, f"llvm.vector.reduce.add.v{half.count}i32", half.element, builder.load(total))

    return types.int32(weights, types.uint64, inputs), generate


@intrinsic
def _learn_row(typing_context: Any, weights: Any, place: Any, centred: Any, error: Any) -> Any:
    """The upper half h of a product p is enough: p / 2**18, rounded, is (h + 2) >> 2 (STEP_SHIFT = 18). error: int16."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        undefined = ir.Constant(VECTOR, ir.Undefined)
        error = builder.insert_element(undefined, arguments[3], ir.IntType(32)(0))
        error = builder.sext(builder.shuffle_vector(error, undefined, ir.Constant(WIDE, None)), WIDE)
        two, sixteen, least = (
            ir.Constant(kind, [n] * LANES) for kind, n in ((VECTOR, 2), (WIDE, 16), (VECTOR, -MAX_WEIGHT))
        )
        for at, row, x in _each_vector(context, builder, signature, arguments):
            upper = builder.trunc(builder.ashr(builder.mul(builder.sext(x, WIDE), error), sixteen), VECTOR)
            step = builder.ashr(builder.add(upper, two), two)
            moved = call(builder, f"llvm.sadd.sat.v{LANES}i16", VECTOR, row, step)
            builder.store(call(builder, f"llvm.smax.v{LANES}i16", VECTOR, moved, least), at, align=2)
        return context.get_dummy_value()

    return types.void(weights, types.uint64, centred, types.int16), generate


@kernel
def dot(weights: Array, place: Any, inputs: Array) -> Any:
    """The sum of products of the inputs and of the weights from a place on, int32. Inputs: a multiple of LANES."""
    if not IS_INTERPRETED:
        return _dot(weights, np.uint64(place), inputs)
    total = np.int32(0)
    for j in span(0, inputs.size):
        total = np.int32(total + np.int32(np.int32(weights[place + j]) * np.int32(inputs[j])))
    return total


@kernel
def describe_inputs(inputs: Array, sums: Array) -> None:
    """sums (N_SUMS,) int32: of the inputs, of those that are not 0, and of their squares in 1/16."""
    total, n, square = np.int32(0), np.int32(0), np.int32(0)
    for j in range(inputs.size):
        total = np.int32(total + np.int32(inputs[j]))
        n = np.int32(n + np.int32(inputs[j] != 0))
        square = np.int32(square + np.int32(np.int32(np.int32(inputs[j]) * np.int32(inputs[j])) >> 4))
    sums[OF_INPUTS], sums[OF_NONZERO], sums[OF_SQUARES] = total, n, square


class Columns(NamedTuple):
    """The weights, and which columns of them a thread looks after: groups of columns, from `first` to before `stop`."""

    first: int
    stop: int
    n_rows: int  # of all sets
    bounds: Array  # (groups + 1,) int64: the first column of each group
    weights: Array  # int16: one group after the other, each (rows of all sets, its columns)
    rows: Array  # (S,) int64: the row of each set
    sums: Array  # (S + N_SUMS,) int32: of these columns; of the coding thread, then of all
    errors: Array  # (S,) int32: by which the rows learn
    centred: Array  # (I,) int16: the inputs less a part of their mean


@inlined
def place_of(columns: Columns, left: Any, right: Any, s: int) -> Any:
    """Where the weights of the row of set s begin, in the group of columns from left to before right."""
    return np.uint64(columns.n_rows * left + columns.rows[s] * (right - left))


@inlined
def sum_columns(inputs: Array, columns: Columns, sums: Array) -> None:
    """sums (S + N_SUMS,) int32: those of each row of weights, and `describe_inputs`."""
    for s in range(columns.rows.size):
        sums[s] = 0
    for group in span(columns.first, columns.stop):
        left, right = columns.bounds[group], columns.bounds[group + 1]
        own = inputs[left:right]
        for s in range(columns.rows.size):
            sums[s] = np.int32(sums[s] + dot(columns.weights, place_of(columns, left, right, s), own))
    own = inputs[columns.bounds[columns.first] : columns.bounds[columns.stop]]
    describe_inputs(own, sums[columns.rows.size :])


@inlined
def mix(n_contexts: int, sums: Array, outputs: Array, last: Array, last_rows: Array, finals: Array) -> Any:
    """The log-odds of the mixer. outputs (S,), finals (N_LAST,) receive those of each set and each last set.

    sums: those of `sum_columns`, of all columns.
    """
    n_sets = outputs.size
    first = np.int64(sums[n_sets + OF_INPUTS]) * ((1 << (WEIGHT_BITS - 1)) // n_contexts) >> SUM_SHIFT  # at the start
    for s in range(n_sets):
        output = (np.int64(sums[s]) >> SUM_SHIFT) + first >> (WEIGHT_BITS - SUM_SHIFT)
        outputs[s] = clamp(output, -LOG_ODDS_LIMIT, LOG_ODDS_LIMIT)
    total = np.int64(0)
    for f in range(N_LAST):
        mixed = np.int64(0)
        for s in range(n_sets):
            mixed += np.int64(last[np.uint64(last_rows[f]), s]) * np.int64(outputs[s])
        finals[f] = clamp(mixed >> LAST_WEIGHT_BITS, -LOG_ODDS_LIMIT, LOG_ODDS_LIMIT)
        total += finals[f]
    return total // N_LAST


@inlined
def lasting_rate(n_contexts: int) -> Any:
    """The rate of the weight sets after the beginning: few contexts take larger steps."""
    return LEAST_RATE + SHARED_RATE // n_contexts


def new_row_rates(n_contexts: int) -> Array:
    """(256,) int64: what the rate of a row has in addition, by its age in 256 uses."""
    return NEW_ROW_FACTOR * lasting_rate(n_contexts) // np.arange(1, 2 + (MAX_ROW_AGE >> 8))


@inlined
def step_size(n_bits: int, square: Any, n_contexts: int) -> Any:
    """The step size of the weight sets: smaller after the first 2**18 bits, and where the inputs are large."""
    t = n_bits >> 13
    rate = lasting_rate(n_contexts)
    if t < 32:
        rate += (FIRST_FACTOR - 1) * rate // (1 + t)
    return rate * 8 // (8 + (np.int64(square) >> 12) // n_contexts)  # the square in nats, for each context


@inlined
def error_of(bit: int, log_odds: Any) -> Any:
    """The error of these log-odds of a one, in 2**-16."""
    return (bit << 16) - squash(np.int64(log_odds))


@inlined
def share_of_set(s: int, n_sets: int, last: Array, last_rows: Array) -> Any:
    """How much the mixture follows set s: its mean last weight times the number of sets, in 2**-16, from 0 to 4."""
    total = np.int64(0)
    for f in range(N_LAST):
        total += np.int64(last[np.uint64(last_rows[f]), s])
    return clamp(total * n_sets // N_LAST, 0, MAX_SHARE)


@inlined
def find_errors(
    bit: int, mixed: Any, n_contexts: int, n_bits: int, columns: Columns, ages: Array, mean_errors: Array, new_rates: Array,
    outputs: Array, last: Array, last_rows: Array, finals: Array,
) -> None:  # fmt: skip
    """columns.errors: by which each row takes its gradient step; 0: none. n_bits: learned from before.

    The rows get older, and the last weights learn. new_rates: `new_row_rates`.
    """
    error_of_mixture, rows = error_of(bit, mixed), columns.rows
    rate = step_size(n_bits, columns.sums[rows.size + OF_SQUARES], n_contexts)
    for s in span(0, rows.size):
        row = np.uint64(rows[s])
        age = np.int64(ages[row])
        ages[row] = min(age + 1, MAX_ROW_AGE)
        error = error_of(bit, outputs[s])
        mean = np.int64(mean_errors[row])
        mean_errors[row] = mean + (((abs(error) << 8) - mean) >> min(2 + (age >> 2), MEAN_SHIFT))
        factor = STEP_FACTOR[clamp(mean >> 12, 0, 4095)]
        error = (error + (error_of_mixture * share_of_set(s, rows.size, last, last_rows) >> LAST_WEIGHT_BITS)) >> 1
        error = error * (rate + new_rates[np.uint64(age >> 8)]) * factor >> 16
        columns.errors[s] = clamp(error, -(1 << 17), 1 << 17) if abs(error) >= SMALLEST_ERROR else 0
    learn_last(bit, error_of_mixture, outputs, last, last_rows, finals)  # last: shares are those of the prediction


@inlined
def common_part(sums: Array, n_sets: int) -> Any:
    """The part of all inputs that is taken away for a step: 5/8 of the mean of those that are not 0."""
    return np.int64(sums[n_sets + OF_INPUTS]) // max(np.int64(sums[n_sets + OF_NONZERO]), np.int64(1)) * 5 >> 3


@inlined
def learn_columns(common: Any, inputs: Array, columns: Columns) -> None:
    """One gradient step of each row in these columns."""
    left, right = columns.bounds[columns.first], columns.bounds[columns.stop]
    centre(inputs[left:right], np.int32(common), columns.centred[left:right])
    for group in span(columns.first, columns.stop):
        left, right = columns.bounds[group], columns.bounds[group + 1]
        own = columns.centred[left:right]
        for s in range(columns.rows.size):
            if columns.errors[s] != 0:
                learn_row(np.int32(columns.errors[s]), own, columns.weights, place_of(columns, left, right, s))


@inlined
def learn_last(bit: int, error_of_mixture: Any, outputs: Array, last: Array, last_rows: Array, finals: Array) -> None:
    """One gradient step of each last set, by the mean of its own error and that of the mixture."""
    mean = np.int64(0)
    for s in range(outputs.size):
        mean += np.int64(outputs[s])
    mean = mean // outputs.size
    for f in range(N_LAST):
        row = np.uint64(last_rows[f])
        error = (error_of(bit, finals[f]) + error_of_mixture) >> 1
        for s in range(outputs.size):
            direction = LAST_MEAN_RATE * mean + LAST_DIFFERENCE_RATE * (np.int64(outputs[s]) - mean)
            moved = last[row, s] + ((direction * error + (1 << 21)) >> 22)
            last[row, s] = clamp(moved, -MAX_LAST_WEIGHT, MAX_LAST_WEIGHT)


@kernel
def centre(inputs: Array, common: Any, centred: Array) -> None:
    """centred[j] = inputs[j] less their common part; 0 where the input is 0."""
    for j in range(inputs.size):
        centred[j] = np.int16(np.int32(inputs[j]) - common if inputs[j] != 0 else np.int32(0))


@kernel
def learn_row(error: Any, centred: Array, weights: Array, place: Any) -> None:
    """One gradient step of the weights from a place on. centred: a multiple of LANES."""
    if not IS_INTERPRETED and -(1 << 15) <= error < 1 << 15:  # a larger one is rare
        _learn_row(weights, np.uint64(place), centred, np.int16(error))
        return
    for j in span(0, centred.size):
        step = np.int32(np.int32(np.int32(centred[j]) * error) + np.int32(1 << (STEP_SHIFT - 1))) >> STEP_SHIFT
        moved = np.int32(np.int32(weights[place + j]) + np.int32(step))
        weights[place + j] = np.int16(max(np.int32(-MAX_WEIGHT), min(np.int32(MAX_WEIGHT), moved)))
