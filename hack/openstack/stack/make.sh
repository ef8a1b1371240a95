# Run once, in the new root: databases, users, the catalogue and what a tenant needs to make servers. Everything is ended again in good order.
set -eu
export PYTHONWARNINGS=ignore
ip link set lo up
cd /stack
mkdir -p log run shared fernet credentials glance glance-staging glance-tasks nova/instances neutron cinder locks mysql
chmod 0700 fernet credentials
chown mysql mysql
cat >ports <<END
KEYSTONE=31000 GLANCE=31001 NOVA=31002 PLACEMENT=31003 NEUTRON=31004 CINDER=31005 RABBIT=31007 EPMD=31008 DISTRIBUTION=31009
END
. /stack/conf.sh
. /stack/wait.sh
echo "making databases"
mariadb-install-db --user=mysql --datadir=/stack/mysql --auth-root-authentication-method=normal --skip-test-db >log/mariadb-install.log 2>&1
bash service.sh start mariadb rabbitmq
database
for name in keystone placement glance nova_api nova nova_cell0 neutron cinder; do
  mariadb -S mysql/s.sock -uroot -e "create database $name character set utf8mb3"
done
{
  keystone() { keystone-manage --config-file /stack/keystone.conf "$@"; }
  keystone db_sync
  keystone fernet_setup --keystone-user root --keystone-group root
  keystone credential_setup --keystone-user root --keystone-group root
  keystone bootstrap --bootstrap-password secret --bootstrap-admin-url "$K" --bootstrap-public-url "$K" --bootstrap-internal-url "$K" --bootstrap-region-id RegionOne
  OS_PLACEMENT_CONFIG_DIR=/stack placement-manage --config-file /stack/placement.conf db sync
  glance-manage --config-file /stack/glance-api.conf db_sync
  nova() { nova-manage --config-file /stack/nova.conf "$@"; }
  nova api_db sync
  nova cell_v2 map_cell0 --database_connection "$(db nova_cell0)"
  nova db sync
  port "$RABBIT"
  nova cell_v2 create_cell --name=cell1
  neutron-db-manage --config-file /stack/neutron.conf --config-file /stack/ml2.ini upgrade heads
  cinder-manage --config-file /stack/cinder.conf db sync
} >log/make.log 2>&1 || { tail -n 20 log/make.log >&2; exit 1; }
echo "making users and the catalogue"
bash service.sh start keystone
port "$KEYSTONE"
. /stack/admin.rc
python3 /stack/seed.py users
echo "starting the services for the first time"
bash service.sh start placement glance-api nova-conductor nova-scheduler nova-compute nova-api neutron-server neutron-agent cinder-api cinder-scheduler cinder-volume
for number in $PLACEMENT $GLANCE $NOVA $CINDER $NEUTRON; do port "$number"; done
python3 /stack/ready.py
nova-manage --config-file /stack/nova.conf cell_v2 discover_hosts >>log/make.log 2>&1
echo "making a flavour, an image, a network and a server"
python3 /stack/seed.py tenant
bash service.sh stop nova-api nova-compute nova-conductor nova-scheduler neutron-agent neutron-server cinder-api cinder-scheduler cinder-volume glance-api placement keystone
mariadb-admin -S mysql/s.sock -uroot shutdown
rm -rf run/* log/* rabbit
