#!/bin/sh
# What `cargo xtask fuzz` compiles modgate's own crates with: coverage counts edges, and what comparisons
# compare. Crates of others are those of every other build.
case " $* " in
*" build_script_build "*) exec "$@" ;;
esac
exec "$@" --cfg fuzzing -Cpasses=sancov-module \
    -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
    -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares
