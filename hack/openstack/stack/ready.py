# Waits until what servers need has reported since we began: Nova's compute host, Neutron's agent and Cinder's volume host.
import time

import openstack

began = time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime())
cloud = openstack.connect(interface='internal')


def since(began, time):
    # A host that was just made known has not reported.
    return time is not None and time.replace(' ', 'T') > began


def reported():
    compute = cloud.compute.get('/os-services').json()['services']
    agents = cloud.network.get('/agents').json()['agents']
    volume = cloud.block_storage.get('/os-services').json()['services']
    return (
        any(s['binary'] == 'nova-compute' and s['state'] == 'up' and since(began, s['updated_at']) for s in compute)
        and any(a['alive'] and since(began, a['heartbeat_timestamp']) for a in agents)
        and any(s['binary'] == 'cinder-volume' and s['state'] == 'up' and since(began, s['updated_at']) for s in volume)
    )


while True:
    try:
        if reported():
            break
    except Exception as error:  # not there yet; the starter gives up, not we
        print(error, flush=True)
    time.sleep(0.5)
