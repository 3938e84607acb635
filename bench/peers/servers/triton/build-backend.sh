#!/usr/bin/env bash
# Builds Triton's ONNX Runtime back end, which is in no registry, for the server inside PyTriton's wheel:
#   build-backend.sh SOURCES HEADERS OUT
# SOURCES has checkouts of onnxruntime_backend, backend, core and common of triton-inference-server, all at r24.10; HEADERS has
# onnxruntime_c_api.h and what it includes; OUT becomes the folder for --triton-backends. The library of ONNX Runtime is that of
# the wheel. rapidjson's headers have to be installed (Debian: rapidjson-dev), or lie in HEADERS.
set -euo pipefail
sources=$(realpath "$1") headers=$(realpath "$2") out=$(realpath -m "$3")
peers=$(realpath "$(dirname "$0")/../../../../.cache/peers")
library=$(echo "$peers"/pytriton/venv/lib/python3*/site-packages/onnxruntime/capi/libonnxruntime.so.*)
objects=$(mktemp -d)
trap 'rm -rf "$objects"' EXIT

mkdir -p "$out/onnxruntime" "$out/include"
cp "$library" "$out/onnxruntime/libonnxruntime.so.1"
cp -r "$sources/core/include/triton" "$out/include/" # for the program that calls its C API
compile() {
  "${CXX:-c++}" -std=c++17 -O2 -fPIC -w -DTRITON_ENABLE_STATS=1 -DTRITON_ENABLE_LOGGING=1 -I"$headers" \
    -I"$sources/core/include" -I"$sources/backend/include" -I"$sources/common/include" -c "$1" -o "$objects/$(basename "$1").o"
}
export -f compile
export headers sources objects
# All but what is of GPUs.
printf '%s\n' "$sources"/onnxruntime_backend/src/*.cc "$sources"/backend/src/*.cc "$sources"/common/src/{async_work_queue,error,thread_pool}.cc |
  grep -v device_memory_tracker | xargs -P "$(nproc)" -I{} bash -c 'compile {}'
# What it calls of the server is found in the process that loads it.
"${CXX:-c++}" -shared -o "$out/onnxruntime/libtriton_onnxruntime.so" "$objects"/*.o "$out/onnxruntime/libonnxruntime.so.1" \
  -Wl,-rpath,'$ORIGIN' -Wl,--version-script "$sources/onnxruntime_backend/src/libtriton_onnxruntime.ldscript"
echo "$out"
