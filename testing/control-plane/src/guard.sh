# Runs a program as long as the other end of standard input is open, which is a pipe without data.
# When the parent process closes it or exits for any reason, the read below ends and the program is killed. This script has a
# separate process group, so that a signal to the parent's group does not kill it first. A program that
# leads a process group is killed with the whole group.
exec 3<&0 </dev/null
"$@" 3<&- &
program=$!
{ read -r _ <&3; kill -KILL "-$program" || kill -KILL "$program"; } 2>/dev/null &
watcher=$!
exec 3<&-
wait "$program"
status=$?
kill "$watcher" 2>/dev/null
exit "$status"
