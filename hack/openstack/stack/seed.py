# seed.py users: the services' users and the catalogue, and a tenant as a driver sees it. seed.py tenant: what the tenant needs to make servers; a server
# is made and deleted, which also shows that all services work together.
import json
import sys
import time

import openstack
from openstack import exceptions

USERS = ('glance', 'nova', 'placement', 'neutron', 'cinder')
CATALOGUE = (
    ('placement', 'placement', ':31003'),
    ('glance', 'image', ':31001'),
    ('nova', 'compute', ':31002/v2.1'),
    ('neutron', 'network', ':31004'),
    ('cinder', 'block-storage', ':31005/v3'),
    ('cinderv3', 'volumev3', ':31005/v3/%(project_id)s'),
)
admin = openstack.connect(interface='internal')


def users():
    identity = admin.identity
    roles = {role.name: role for role in identity.roles()}
    roles['service'] = roles.get('service') or identity.create_role(name='service')
    services = identity.create_project(name='service', domain_id='default')
    for name in USERS:
        user = identity.create_user(name=name, password='secret', domain_id='default')
        for role in ('admin', 'service'):
            identity.assign_project_role_to_user(services, user, roles[role])
    for name, kind, url in CATALOGUE:
        service = identity.create_service(name=name, type=kind)
        for interface in ('public', 'internal', 'admin'):
            identity.create_endpoint(service_id=service.id, interface=interface, url='http://127.0.0.1' + url, region_id='RegionOne')
    tenant = identity.create_project(name='shoot', domain_id='default')
    user = identity.create_user(name='mcm', password='mcm-secret', domain_id='default', default_project_id=tenant.id)
    identity.assign_project_role_to_user(tenant, user, roles['member'])
    # Who may look and nothing else, for tests of roles.
    user = identity.create_user(name='looker', password='looker-secret', domain_id='default', default_project_id=tenant.id)
    identity.assign_project_role_to_user(tenant, user, roles['reader'])


def tenant():
    admin.compute.create_flavor(name='m1.small', ram=1024, vcpus=1, disk=10)
    admin.compute.create_flavor(name='m1.medium', ram=2048, vcpus=2, disk=20)
    # No host has as much memory, so Nova finds none.
    admin.compute.create_flavor(name='m1.huge', ram=99999999, vcpus=1, disk=10)
    admin.block_storage.create_type(name='fake')
    project = admin.identity.find_project('shoot')
    # The huge flavour has to fail for want of a host, not of quota.
    admin.compute.put(f'/os-quota-sets/{project.id}', json={'quota_set': {'ram': -1, 'cores': -1}})
    cloud = admin.connect_as(username='mcm', password='mcm-secret', project_name='shoot', user_domain_name='Default', project_domain_name='Default')
    image = cloud.image.create_image(name='img', data=b'x' * 4096, disk_format='raw', container_format='bare', visibility='private', wait=True)
    network = cloud.network.create_network(name='shoot')
    subnet = cloud.network.create_subnet(name='nodes', network_id=network.id, ip_version=4, cidr='10.250.0.0/16')
    other = cloud.network.create_network(name='other')
    cloud.network.create_subnet(name='other-nodes', network_id=other.id, ip_version=4, cidr='10.251.0.0/16')
    cloud.compute.create_keypair(name='k')
    with open('/stack/tenant.json', 'w') as file:
        json.dump({'networkID': network.id, 'subnetID': subnet.id}, file)
    group = cloud.network.create_security_group(name='sg')
    cloud.network.create_security_group_rule(security_group_id=group.id, direction='ingress', remote_group_id=group.id)
    flavor = cloud.compute.find_flavor('m1.small')
    server = cloud.compute.create_server(name='first', image_id=image.id, flavor_id=flavor.id, networks=[{'uuid': network.id}])
    server = cloud.compute.wait_for_server(server, wait=600)
    cloud.compute.delete_server(server)
    end = time.monotonic() + 600
    while time.monotonic() < end:
        try:
            cloud.compute.get_server(server.id)
        except exceptions.ResourceNotFound:
            return
        time.sleep(0.2)
    sys.exit('the first server is not gone after ten minutes')


{'users': users, 'tenant': tenant}[sys.argv[1]]()
