# service.sh start|stop <service>…: begins a service and waits for nothing, or ends it with all it has begun.
. /stack/ports
wsgi() {
  port=$1 program=$2
  exec uwsgi_python3 --need-app --die-on-term --master --processes 1 --threads 4 --lazy-apps --enable-threads --buffer-size 65535 \
    --add-header Connection:close --http-socket "127.0.0.1:$port" --wsgi-file "/usr/bin/$program"
}
run() {
  case $1 in
    mariadb) exec mariadbd --no-defaults --user=mysql --datadir=/stack/mysql --socket=/stack/mysql/s.sock --skip-networking \
      --innodb-flush-log-at-trx-commit=0 --innodb-buffer-pool-size=64M --innodb-log-file-size=16M --max-connections=400 --pid-file=/stack/mysql/pid ;;
    rabbitmq)
      # What a broker that was killed has left keeps the next one from starting.
      rm -rf /stack/rabbit
      mkdir -p /stack/rabbit
      export ERL_EPMD_PORT=$EPMD ERL_EPMD_ADDRESS=127.0.0.1 RABBITMQ_NODE_IP_ADDRESS=127.0.0.1 RABBITMQ_NODE_PORT=$RABBIT RABBITMQ_DIST_PORT=$DISTRIBUTION \
        RABBITMQ_NODENAME=rabbit@localhost RABBITMQ_MNESIA_BASE=/stack/rabbit RABBITMQ_LOG_BASE=/stack/log RABBITMQ_PID_FILE=/stack/rabbit.pid \
        HOME=/stack/rabbit RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS="+S 1:1 +sbwt none"
      exec /usr/lib/rabbitmq/bin/rabbitmq-server ;;
    keystone) OS_KEYSTONE_CONFIG_FILES=/stack/keystone.conf wsgi "$KEYSTONE" keystone-wsgi-public ;;
    placement) OS_PLACEMENT_CONFIG_DIR=/stack wsgi "$PLACEMENT" placement-api ;;
    glance-api) exec glance-api --config-file /stack/glance-api.conf ;;
    # Its package brings qemu and libvirt along; what runs is in Nova's library.
    nova-compute) exec python3 -c 'import sys; from nova.cmd.compute import main; sys.argv[0] = "nova-compute"; main()' --config-file /stack/nova.conf --log-file nova-compute.log ;;
    nova-*) exec "$1" --config-file /stack/nova.conf ;;
    neutron-server) exec neutron-server --config-file /stack/neutron.conf --config-file /stack/ml2.ini ;;
    neutron-agent)
      until (echo >"/dev/tcp/127.0.0.1/$NEUTRON") 2>/dev/null; do sleep 0.2; done
      exec python3 /stack/agent.py ;;
    cinder-*) OS_CINDER_CONFIG_DIR=/stack exec "$1" --config-file /stack/cinder.conf ;;
    *) echo "there is no service $1" >&2; exit 1 ;;
  esac
}
case $1 in
  run) run "$2" ;;
  start)
    shift
    for name in "$@"; do
      # A session of its own, so that all that a service begins can be ended with it.
      setsid bash /stack/service.sh run "$name" >>"/stack/log/$name.out" 2>&1 </dev/null &
      echo $! >"/stack/run/$name"
    done ;;
  stop)
    shift
    for name in "$@"; do
      kill -KILL -- "-$(cat "/stack/run/$name")"
      rm "/stack/run/$name"
    done ;;
esac
