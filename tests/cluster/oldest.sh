#!/bin/sh
# Runs every cluster test against the oldest Kubernetes that is supported (docs/install.md).
#
#   KUBEBUILDER_ASSETS=FOLDER tests/cluster/oldest.sh [ARGUMENTS OF cargo test]
#
# FOLDER holds etcd, kube-apiserver and kubectl of that version, as its releases have them. A test that
# finds no cluster fails rather than being skipped.
set -eu
oldest=1.30
folder=${KUBEBUILDER_ASSETS:?names a folder with etcd, kube-apiserver and kubectl of Kubernetes $oldest}
version=$("$folder/kube-apiserver" --version)
case $version in
"Kubernetes v$oldest."*) ;;
*)
	echo "the oldest supported version is $oldest, and $folder has $version" >&2
	exit 1
	;;
esac
cd "$(dirname "$0")/../.."
for file in crates/*/tests/cluster*.rs; do
	name=${file##*/}
	set -- --test "${name%.rs}" "$@"
done
CI=true exec cargo test -p modgate-testkit -p modgate-e2e "$@"
