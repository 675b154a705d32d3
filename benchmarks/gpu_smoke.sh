#!/usr/bin/env bash
# Every strategy once on this computer's GPU, small, verified: a minute before longer measurements.
set -u
export PLANNER_CACHE_DIR="${PLANNER_CACHE_DIR:-$(mktemp -d)}"
run() { echo "== $*"; python3 -m planner execute "$@" --no-progress; }
python3 -m planner calibrate -o "${OUT:-.}/machine.yaml"
run plans/llm_load.yaml --set weights=2GB
run plans/pinned_vs_pageable.yaml
run plans/checkpoint_save.yaml --set "weights=2GB"
