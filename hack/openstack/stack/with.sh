# with.sh <program> <argument>…: runs a program with the variables of the administrator.
. /stack/admin.rc
exec "$@"
