# The first process of a started OpenStack: begins all services, says how far they are, and makes /stack/shared/ready when a server can be made.
# What ends it ends them all.
set -eu
hostname stack
cd /stack
. /stack/conf.sh
. /stack/wait.sh
rm -f run/* log/*
bash service.sh start mariadb rabbitmq
database
# The catalogue and Nova's cell name the ports of whoever made the databases.
for pair in keystone:$KEYSTONE glance:$GLANCE nova:$NOVA placement:$PLACEMENT neutron:$NEUTRON cinder:$CINDER cinderv3:$CINDER; do
  mariadb -S mysql/s.sock -uroot keystone -e "update endpoint join service on service.id = endpoint.service_id set url = regexp_replace(url, ':[0-9]+', ':${pair#*:}') where service.extra like '%\"name\": \"${pair%:*}\"%'"
done
mariadb -S mysql/s.sock -uroot nova_api -e "update cell_mappings set transport_url = '$BROKER' where name = 'cell1'"
port "$RABBIT"
echo "database and broker run"
bash service.sh start keystone placement glance-api nova-conductor nova-scheduler nova-compute nova-api neutron-server neutron-agent cinder-api cinder-scheduler cinder-volume
for pair in Keystone:$KEYSTONE Placement:$PLACEMENT Glance:$GLANCE Nova:$NOVA Cinder:$CINDER Neutron:$NEUTRON; do
  port "${pair#*:}"
  echo "${pair%:*} listens"
done
. /stack/admin.rc
python3 /stack/ready.py
touch /stack/shared/ready
echo "a server can be made"
# Whoever loses its parent is ours to wait for.
while :; do wait -n || sleep 1; done
