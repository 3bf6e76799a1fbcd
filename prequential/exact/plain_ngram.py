"""The primitives of the direct n-gram connections in plain torch (model/ngram.py says what they are for).

Rows are int32 in units of 2**-16 nat and hashes wrap at 64 bits, so gathers, scatter-adds and dot products are exact in any
order. Letters: S sources, R rows of all sources, B streams, T columns, N = B*T positions, V symbols, L symbols of history.
"""

import torch

Tensor = torch.Tensor

WORD, WORD_PAIR = -1, -2  # in place of a first lag
N_BUCKETS = 16  # of the bit length of a row's count
ROW_UNIT = 2.0**-16  # nats
TOTAL = 1 << 24  # of the frequencies

# odd 64-bit multipliers of the hashes: fractional parts of the golden ratio and of the square root of 2
SPREAD = 0x9E3779B97F4A7C15 - (1 << 64)
STEP = 0x6A09E667F3BCC909


def ngram_contexts(
    symbols: Tensor, history: Tensor, words: Tensor, lags: Tensor, row_bits: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Row numbers (S, B, T) int64 of the contexts ending with each of `symbols` (B, T) int64, and the new past.

    history (B, L) int64: the last L symbols of each stream; words (B, 2) int64: the hashes of the current and the previous
    word; both are returned as they stand after `symbols`. lags (S, at most L) int64: the lags of the symbols of each source,
    1 = the last one, filled up with 0; or WORD or WORD_PAIR first. h = (h + symbol + 1) * STEP over the symbols of a context.
    """
    n_streams, n_columns = symbols.shape
    n_history = history.shape[1]
    past = torch.cat((history, symbols), 1)
    word, pair, words = _word_hashes(symbols, words)
    hashes = []
    for source in lags.tolist():
        if source[0] == WORD:
            h = word
        elif source[0] == WORD_PAIR:
            h = pair
        else:
            used = [lag for lag in source if lag]
            h = torch.full((n_streams, n_columns), len(used), dtype=torch.int64)
            for lag in used:
                first = n_history + 1 - lag
                h = (h + past[:, first : first + n_columns] + 1) * STEP
        hashes.append((h * SPREAD >> (64 - row_bits)) & ((1 << row_bits) - 1))
    index = torch.stack(hashes) + (torch.arange(len(hashes)) << row_bits)[:, None, None]
    return index, past[:, -n_history:], words


def _word_hashes(symbols: Tensor, words: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """After each symbol, hashes of the letters since the last non-letter, alone and with the previous word: (B, T) each."""
    capital = (symbols >= 65) & (symbols <= 90)
    letter = capital | ((symbols >= 97) & (symbols <= 122)) | (symbols >= 128)
    folded = torch.where(capital, symbols + 32, symbols)
    word, previous = words.unbind(1)
    one, two = torch.empty_like(symbols), torch.empty_like(symbols)
    for t in range(symbols.shape[1]):
        previous = torch.where(letter[:, t] | (word == 0), previous, word)
        word = torch.where(letter[:, t], (word + folded[:, t] + 1) * STEP, 0)
        between = torch.where(word == 0, symbols[:, t], 0)
        one[:, t] = word * 5 + between
        two[:, t] = (word ^ (previous * 3)) * STEP + 1 + between
    return one, two, torch.stack((word, previous), 1)


def ngram_add(logits: Tensor, rows: Tensor, counts: Tensor, gates: Tensor, index: Tensor) -> tuple[Tensor, Tensor]:
    """Logits (N, V) float32 plus the gated rows of `index` (S, N) int64, source by source, and buckets (S, N) int64.

    rows (R, V) int32, counts (R,) int32, gates (S, 16) float32. A row's bucket is the bit length of its count, at most 15;
    gates[s, bucket] scales it.
    """
    thresholds = torch.tensor([1 << k for k in range(N_BUCKETS - 1)], dtype=counts.dtype)
    bucket = torch.bucketize(counts[index], thresholds, right=True)
    for s in range(len(index)):
        gate = gates[s][bucket[s]] * ROW_UNIT
        logits = logits + rows[index[s]].float() * gate[:, None]
    return logits, bucket


def ngram_update(
    rows: Tensor, counts: Tensor, gates: Tensor, index: Tensor, bucket: Tensor, frequency: Tensor, symbols: Tensor,
    row_step: float, row_step_floor: float,
) -> Tensor:  # fmt: skip
    """Learns from N coded positions, in place in `rows` and `counts`; returns the gates' gradient.

    index, bucket (S, N) int64 as in `ngram_add`, frequency (N, V) int32, symbols (N,) int64. The gradient (S, 16) int64, in
    units of 2**-24 nat, uses the rows from before. All counts are raised before any step is taken, of row_step / sqrt(count) +
    row_step_floor. |frequency - 2**24| <= 2**24 is exact in float32.
    """
    excess = frequency.long()  # 2**24 * gradient in nats at the logits
    excess[torch.arange(len(symbols)), symbols] -= TOTAL
    gradient = torch.zeros(gates.shape, dtype=torch.int64)
    for s in range(len(index)):
        gradient[s].index_add_(0, bucket[s], (rows[index[s]] * excess).sum(1) >> 16)
    counts.index_add_(0, index.reshape(-1), torch.ones(index.numel(), dtype=torch.int32))
    for s in range(len(index)):
        root = counts[index[s]].float().double().sqrt().float()
        step = (row_step / root + row_step_floor) * -(2.0**-8)
        rows.index_add_(0, index[s], (excess.float() * step[:, None]).round_().to(torch.int32))
    return gradient
