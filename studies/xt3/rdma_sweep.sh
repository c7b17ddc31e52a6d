#!/bin/sh
# The sweep of M. Minich, "Running Infiniband on the Cray XT3" (listing 1), with today's names of its two programs: one message size at
# a time, 2 to 2^23 bytes for bandwidth, in one direction and in both, and 2 to 2^8 for latency.
#
#   rdma_sweep.sh            on the server
#   rdma_sweep.sh SERVER     on the client, which prints the tables
#
# ITERATIONS, BANDWIDTH_TO and LATENCY_TO in the environment make it shorter; both sides must have the same.

server=$1
iterations=${ITERATIONS:-1000}

# The last line of a table, without its first two columns: what the program says of this size.
figures() {
    awk '/^ *[0-9]+ +[0-9]+ / { $1 = $2 = ""; line = $0 } END { print line }'
}

# sweep TO COMMAND...: each size in turn; columns of figures are picked on the client by `pick`.
sweep() {
    to=$1
    shift
    size=2
    while [ "$size" -le "$to" ]; do
        if [ "$server" ]; then
            # shellcheck disable=SC2046,SC2086
            pick "$size" $("$@" -F -n "$iterations" -s "$size" "$server" | figures)
        else
            echo "$size"
            "$@" -F -n "$iterations" -s "$size" >/dev/null
        fi || exit 1
        size=$((size * 2))
    done
}

for both in "" -b; do
    if [ "$both" ]; then echo "Bidirectional Bandwidth Test"; else echo "Bandwidth Test"; fi
    [ "$server" ] && printf '%-9s%-19s%s\n' '#bytes' 'BW peak[MB/sec]' 'BW average[MB/sec]'
    pick() {
        [ "$3" ] && printf '%-9d%-19.2f%.2f\n' "$1" "$2" "$3"
    }
    # shellcheck disable=SC2086
    sweep "${BANDWIDTH_TO:-8388608}" ib_write_bw $both
done

echo "Latency Test"
[ "$server" ] && printf '%-9s%-15s%-12s%s\n' '#bytes' 'typical[usec]' 'best[usec]' 'worst[usec]'
# perftest prints the least, the greatest, the typical, and then others.
pick() {
    [ "$4" ] && printf '%-9d%-15.2f%-12.2f%.2f\n' "$1" "$4" "$2" "$3"
}
sweep "${LATENCY_TO:-256}" ib_write_lat
