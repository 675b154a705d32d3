#!/usr/bin/env bash
# The GPU session of a release: tests on the device, then the main job three times over.
#     benchmarks/gpu_smoke.sh RESULTS_FOLDER
set -u
results=${1:-benchmarks/results}
export PLANNER_CACHE_DIR="${PLANNER_CACHE_DIR:-$(mktemp -d)}" PYTHONUNBUFFERED=1
python3 -m pytest -q -m gpu tests/gpu -p no:cacheprovider -o addopts="" 2>&1 | tail -4
for turn in 1 2 3; do
    python3 benchmarks/spine.py --size 8GB --out "$results/spine-h200-$turn.json"
done
