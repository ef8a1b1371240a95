#!/bin/sh
# Compiles a static binary and lays out what the image holds: assemble.sh FOLDER [TARGET]
#
# FEATURES are the cargo features that are compiled in. Those of production are the default; `otel,dev` has the virtual cloud instead of AWS, for
# deploy/virtual-cloud. PROGRAM is millwright, or millwright-driver-aws or millwright-driver-openstack, which have no features to choose.
#
# The recipe calls it in its first stage, where the host's own target links statically (Alpine). `cargo xtask image` calls it on any other
# machine, with a musl target of the compiler, so that what is shown there is what the recipe does.
set -eu
image=${1:?which folder to fill}
target=${2:-}

program=${PROGRAM:-millwright}
case $program in
  millwright) set -- --package millwright --no-default-features --features "${FEATURES:-otel,aws}" ;;
  millwright-driver-aws | millwright-driver-openstack) 
    set -- --package driver-programs --bin "$program" --no-default-features --features "${program#millwright-driver-}" ;;
  *) echo "there is no program $program" >&2; exit 1 ;;
esac

cargo build --profile production --locked "$@" ${target:+--target "$target"}
binary=${CARGO_TARGET_DIR:-target}/${target:+$target/}production/$program

# A binary that asks for an interpreter would not start in an empty image: better to fail here.
if readelf --program-headers "$binary" | grep -q INTERP; then
  echo "$binary is not static" >&2
  exit 1
fi

rm -rf "$image"
install -D -m 0555 "$binary" "$image/$program"
if [ "$program" = millwright ]; then
  # The names by which deployers of the reference call it; it behaves as it is called.
  ln -s millwright "$image/machine-controller-manager"
  ln -s millwright "$image/machine-controller"
fi
# For servers whose authority nobody names: a cloud, a kubeconfig without one, a collector of traces.
install -D -m 0444 /etc/ssl/certs/ca-certificates.crt "$image/etc/ssl/certs/ca-certificates.crt"
