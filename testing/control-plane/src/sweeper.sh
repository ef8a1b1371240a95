# Removes a folder once nobody holds the other end of our standard input. The programs that write there are being killed at
# the same moment by their own guards, so a removal can meet a file that was just made: try again, for ten seconds at most.
read -r _
tries=0
while [ "$tries" -lt 100 ]; do
  rm -rf -- "$1" 2>/dev/null
  [ -e "$1" ] || exit 0
  tries=$((tries + 1))
  sleep 0.1
done
exit 1
