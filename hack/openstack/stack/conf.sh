# Writes the configuration of all services from /stack/ports. Sourced; run again at every start, because ports are given out anew.
. /stack/ports
K=http://127.0.0.1:$KEYSTONE/v3
db() { echo "mysql+pymysql://root@localhost/$1?unix_socket=/stack/mysql/s.sock"; }
BROKER=rabbit://guest:guest@127.0.0.1:$RABBIT/
# How a service finds out who calls. What Keystone says of a token is believed for ten seconds, so a token that was revoked is refused soon. A service that does
# not know its own type refuses every token with access rules.
auth() { cat <<END
[keystone_authtoken]
www_authenticate_uri = $K
$(client "$1")
service_type = $2
token_cache_time = 10
END
}
# How a service calls another one.
client() { cat <<END
auth_url = $K
auth_type = password
project_domain_name = Default
user_domain_name = Default
project_name = service
username = $1
password = secret
region_name = RegionOne
valid_interfaces = internal
END
}
cat >/stack/keystone.conf <<END
[DEFAULT]
log_file = /stack/log/keystone.log
[database]
connection = $(db keystone)
[token]
provider = fernet
[fernet_tokens]
key_repository = /stack/fernet
[credential]
key_repository = /stack/credentials
[identity]
# Passwords here are no secrets, and hashing them well takes a quarter of a second each time.
password_hash_rounds = 4
[cache]
enabled = true
backend = dogpile.cache.memory
END
cat >/stack/placement.conf <<END
[DEFAULT]
log_file = /stack/log/placement.log
[api]
auth_strategy = keystone
[placement_database]
connection = $(db placement)
$(auth placement placement)
END
cat >/stack/glance-api.conf <<END
[DEFAULT]
bind_host = 127.0.0.1
bind_port = $GLANCE
workers = 0
log_file = /stack/log/glance.log
enabled_backends = store:file
[database]
connection = $(db glance)
[glance_store]
default_backend = store
[store]
filesystem_store_datadir = /stack/glance
[os_glance_staging_store]
filesystem_store_datadir = /stack/glance-staging
[os_glance_tasks_store]
filesystem_store_datadir = /stack/glance-tasks
[paste_deploy]
flavor = keystone
config_file = /etc/glance/glance-api-paste.ini
$(auth glance image)
END
cat >/stack/nova.conf <<END
[DEFAULT]
host = stack
my_ip = 127.0.0.1
log_dir = /stack/log
state_path = /stack/nova
enabled_apis = osapi_compute
osapi_compute_listen = 127.0.0.1
osapi_compute_listen_port = $NOVA
osapi_compute_workers = 1
compute_driver = millwright_lab.LabDriver
transport_url = $BROKER
rpc_response_timeout = 20
[api]
auth_strategy = keystone
[wsgi]
api_paste_config = /etc/nova/api-paste.ini
[conductor]
workers = 1
[scheduler]
workers = 1
[api_database]
connection = $(db nova_api)
[database]
connection = $(db nova)
[oslo_concurrency]
lock_path = /stack/locks
[glance]
api_servers = http://127.0.0.1:$GLANCE
[cinder]
catalog_info = volumev3::internalURL
$(client nova)
[neutron]
$(client neutron)
[placement]
$(client placement)
[service_user]
send_service_user_token = true
$(client nova)
[quota]
instances = 20
# As later releases have it by default: a reader reads.
[oslo_policy]
enforce_scope = true
enforce_new_defaults = true
[filter_scheduler]
track_instance_changes = false
[vnc]
enabled = false
$(auth nova compute)
END
cat >/stack/neutron.conf <<END
[DEFAULT]
bind_host = 127.0.0.1
bind_port = $NEUTRON
api_workers = 1
rpc_workers = 1
core_plugin = ml2
service_plugins =
transport_url = $BROKER
auth_strategy = keystone
log_file = /stack/log/neutron.log
notify_nova_on_port_status_changes = true
notify_nova_on_port_data_changes = true
state_path = /stack/neutron
api_paste_config = /etc/neutron/api-paste.ini
[database]
connection = $(db neutron)
[nova]
$(client nova | sed s/valid_interfaces/endpoint_type/)
[oslo_concurrency]
lock_path = /stack/locks
$(auth neutron network)
END
cat >/stack/ml2.ini <<END
[ml2]
type_drivers = local,flat,vxlan
tenant_network_types = local
mechanism_drivers = openvswitch
extension_drivers = port_security
[securitygroup]
enable_security_group = true
END
cat >/stack/cinder.conf <<END
[DEFAULT]
transport_url = $BROKER
auth_strategy = keystone
log_dir = /stack/log
state_path = /stack/cinder
enabled_backends = fake
default_volume_type = fake
quota_volumes = 100
quota_gigabytes = -1
osapi_volume_listen = 127.0.0.1
osapi_volume_listen_port = $CINDER
osapi_volume_workers = 1
api_paste_config = /etc/cinder/api-paste.ini
glance_api_servers = http://127.0.0.1:$GLANCE
host = stack
my_ip = 127.0.0.1
[fake]
volume_driver = cinder.volume.drivers.millwright_volumes.LabVolumes
volume_backend_name = fake
[database]
connection = $(db cinder)
[service_user]
send_service_user_token = true
$(client cinder)
[oslo_concurrency]
lock_path = /stack/locks
$(auth cinder volumev3)
END
cat >/stack/admin.rc <<END
export OS_AUTH_URL=$K OS_USERNAME=admin OS_PASSWORD=secret OS_PROJECT_NAME=admin OS_USER_DOMAIN_NAME=Default OS_PROJECT_DOMAIN_NAME=Default
export OS_REGION_NAME=RegionOne OS_IDENTITY_API_VERSION=3 OS_INTERFACE=internal PYTHONWARNINGS=ignore
END
