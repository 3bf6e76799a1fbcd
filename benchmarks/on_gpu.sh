#!/bin/sh
# What a recorder and `evaluate` cost on a GPU, and the tests of a recorder that need one: under four minutes, one line each.
# Every part runs even if one before it fails.
#
#     sh benchmarks/on_gpu.sh [PYTHON]

cd "$(dirname "$0")/.." || exit 1
export PYTHONPATH=".:codecs:corpora${PYTHONPATH:+:$PYTHONPATH}" PYTHONUNBUFFERED=1
python=${1:-python3}

part() {
    seconds=$1
    shift
    if ! timeout "$seconds" "$python" "$@" 2>part.log; then
        printf '{"failed": "%s", "because": "%s"}\n' "$*" "$(tail -n 3 part.log | tr '\n"\\' "  '" | cut -c 1-400)"
    fi
    rm -f part.log
}

part 40 benchmarks/recorder.py --device cuda --models 10M 10M-bytes --turns 3
part 60 benchmarks/recorder.py --device cuda --models 120M --turns 2 --steps 64
part 30 benchmarks/evaluator_cost.py --device cuda --cases d --turns 1
part 30 benchmarks/evaluator_cost.py --device cuda --cases e --turns 1
part 30 benchmarks/evaluator_cost.py --device cuda --cases b --turns 1
part 45 -m pytest -q -m gpu -p no:cacheprovider -o filterwarnings= tests/recording/test_on_gpu.py
