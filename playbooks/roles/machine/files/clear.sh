#!/bin/sh
# Ends this cluster's workers on this machine and clears what they left; says `changed` if a worker had to be killed. Arguments:
#   wait     first give the supervisor time: it stops its workers when it hears that their topology is gone
#   state    forget what the supervisor knew of its workers (it is stopped)
#   records  empty samples and logs
set -eu
log=/var/log/barograph
state=/var/lib/barograph/storm

workers() {
  [ ! -x /opt/barograph/processes ] || /opt/barograph/processes list org.apache.storm.daemon.worker.Worker
}

asked() {
  case " $wanted " in *" $1 "*) true ;; *) false ;; esac
}

as() { # USER PROGRAM ARGUMENT…: what it removes may be a link by now, and then is only what that user may remove
  user=$1
  shift
  setpriv --reuid="$user" --regid="$user" --clear-groups -- "$@"
}

open_folders_as() { # USER FOLDER…: a folder in there may keep out even its owner, whom rm needs to be let in
  user=$1
  shift
  # chmod would follow a link that it is given; find gives it none. What cannot be opened is rm's to report.
  as "$user" find "$@" -type d -prune -exec chmod -R u+rwX -- {} + 2>/dev/null || true
}

wanted=$*
if asked wait; then
  for _ in $(seq 60); do
    [ -n "$(workers)" ] || break
    sleep 0.25
  done
fi
for worker in $(workers); do
  kill -9 "$worker" 2>/dev/null || continue
  echo changed
done
if asked state; then
  open_folders_as storm $state/workers $state/workers-users $state/supervisor
  # Not isupervisor: it holds the supervisor's id, by which Nimbus knows the machine again.
  as storm rm -rf $state/workers $state/workers-users $state/supervisor/stormdist $state/supervisor/localstate $state/supervisor/tmp
fi
if asked records; then
  # Open logs are emptied where they are: the daemons append. The probe opens its file for every line.
  open_folders_as storm $log/workers $log/workers-artifacts
  open_folders_as barograph $log/machines
  as storm rm -rf $log/workers/* $log/workers-artifacts/*
  as barograph rm -rf $log/machines/*
  rm -rf $log/*.log.[0-9]* $log/output/*.out.[0-9]*
  for open in $log/*.log $log/output/*.out $log/*.jsonl; do
    # What runs as storm may put a link here, to a file that only root can write; also between the look and the opening,
    # which therefore follows none, and waits for no reader of a pipe.
    [ ! -f "$open" ] || [ -L "$open" ] || dd if=/dev/null of="$open" oflag=nofollow,nonblock conv=nocreat status=none ||
      [ ! -f "$open" ] || [ -L "$open" ]
  done
fi
