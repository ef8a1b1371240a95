# Functions that wait for what was begun; the starter gives up, not we.
database() { until mariadb-admin -S /stack/mysql/s.sock -uroot ping >/dev/null 2>&1; do sleep 0.2; done; }
port() { until (echo >"/dev/tcp/127.0.0.1/$1") 2>/dev/null; do sleep 0.2; done; }
