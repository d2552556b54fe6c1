#!/bin/sh
# Makes a stub of NVIDIA's driver library, so that the feature `cust` links on a machine without
# one:
#
#     host/scripts/cuda-stub.sh target/cuda-stub
#     CUDA_LIBRARY_PATH=$PWD/target/cuda-stub cargo test -p warpsmith --features cust --no-run
#
# Every function of the stub fails with CUDA_ERROR_STUB_LIBRARY. Programs that were linked with it
# load the real libcuda.so.1 where there is one.
set -eu

if [ $# -ne 1 ]; then
    echo "usage: $0 FOLDER" >&2
    exit 2
fi
out=$1
root=$(dirname "$0")/../..

# The names that cust may call are those that its bindings declare.
manifest=$(cargo metadata --format-version 1 --all-features --manifest-path "$root/Cargo.toml" |
    sed 's/"manifest_path":"/\n/g' | sed -n 's|^\([^"]*/cust_raw-[^"]*/Cargo.toml\)".*|\1|p' | head -n 1)
if [ -z "$manifest" ]; then
    echo "$0: cargo metadata does not list cust_raw" >&2
    exit 1
fi

stubs=$out/lib64/stubs
mkdir -p "$stubs"
sed -n 's/^ *pub fn \(cu[A-Z][A-Za-z0-9_]*\).*/\1/p' "$(dirname "$manifest")"/src/*.rs | sort -u |
    sed 's/.*/int &(void) { return 34; }/' > "$stubs/stub.c"
"${CC:-cc}" -shared -fPIC -Wl,-soname,libcuda.so.1 -o "$stubs/libcuda.so" "$stubs/stub.c"
echo "$stubs/libcuda.so: $(wc -l < "$stubs/stub.c") functions"
