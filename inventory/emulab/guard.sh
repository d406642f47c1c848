#!/bin/sh
# Ends a classic Emulab experiment at the time (epoch seconds) that stands in a file, whatever became of the harness.
# Runs on the project's ops host; renewing the lease rewrites the file, removing it ends the guard.
# usage: guard.sh END_FILE PROJECT EXPERIMENT BIN [POLL_S]
end=$1 project=$2 experiment=$3 bin=$4 poll=${5:-60}
while [ -f "$end" ]; do
    if [ "$(date +%s)" -ge "$(cat "$end")" ]; then
        # In transition it cannot be ended: asked again at the next round.
        said=$("$bin/endexp" -w -N -e "$project,$experiment" 2>&1) && rm -f "$end"
        case $said in *[Nn]"o experiment"* | *[Nn]"o such experiment"*) rm -f "$end" ;; esac
    fi
    [ -f "$end" ] && sleep "$poll"
done
exit 0
