# Runs a program for as long as somebody holds the other end of our standard input, which is a pipe that nobody writes to.
# When the starter lets go of it, or dies in whatever way, the read below ends and the program is killed. We live in a
# process group of our own, so that what kills the starter's group does not kill us before we have done so. A program that
# leads a group is killed with all of it.
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
