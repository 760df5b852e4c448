#!/usr/bin/env bash
# All that is to be known of the canonical kernels on a GPU, within ten minutes; run on a machine that has one:
#
#     bench/device.sh                 builds the extension, then every part; a second call goes on where the first was cut
#     bench/device.sh bits engine     these parts
#     bench/device.sh --dry           over an emulated grid, with this checkout's own .venv: proves the script
#     bench/device.sh --dry isas      real models' shapes over it, every instruction set: the sweep before a change of kernels
#
# Without a network: put wheels of msgspec, gguf and nanobind for its Python into .whl/ first. Results: $OUT, or bench/out.
set -uo pipefail
cd "$(dirname "$0")/.."
results=${OUT:-bench/out}
mkdir -p "$results"
export PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
if [ "${1:-}" = --dry ]; then
  shift
  exec .venv/bin/python bench/device.py --dry --results "$results/device-dry.txt" "$@"
fi
nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader
g++ --version | head -1
if [ -d .whl ]; then python3 -m pip install -q --no-index --no-deps --no-compile --upgrade --target /tmp/site .whl/*.whl; fi
export PYTHONPATH=$PWD/src:/tmp/site${PYTHONPATH:+:$PYTHONPATH} TINSMITH_HOME=${TINSMITH_HOME:-/tmp/tinsmith-home}
if ! python3 -c 'import tinsmith._native' 2>/dev/null; then
  cmake -S . -B /tmp/tinsmith-build -G Ninja -DCMAKE_BUILD_TYPE=Release -Dnanobind_DIR="$(python3 -m nanobind --cmake_dir)" \
    -DPython_EXECUTABLE="$(command -v python3)" > /tmp/tinsmith-cmake.log || { tail -5 /tmp/tinsmith-cmake.log; exit 1; }
  cmake --build /tmp/tinsmith-build > /tmp/tinsmith-build.log || { tail -20 /tmp/tinsmith-build.log; exit 1; }
  cp /tmp/tinsmith-build/_native*.so src/tinsmith/
fi
python3 bench/device.py --results "$results/device.txt" "$@"
code=$?
if [ $# -eq 0 ] && command -v compute-sanitizer > /dev/null; then
  for tool in memcheck racecheck; do
    echo "== $tool"
    timeout 120 compute-sanitizer --tool $tool --print-limit 5 python3 bench/device.py --results /tmp/sanitized.txt small \
      2>&1 | tail -8 | tee "$results/$tool.txt"
  done
fi
exit $code
