# Nova's fake hypervisor, and a hook: where /stack/shared/machines exists, a server is a machine that somebody outside makes and deletes.
#
# A server is a file <uuid>.json there. Whoever makes machines answers with <uuid>.up, or <uuid>.failed with the reason; a file <uuid>.delete asks for the end,
# which is answered by removing all of them.
import base64
import json
import os
import time

from nova import exception
from nova.virt import fake

FOLDER = '/stack/shared/machines'
PATIENCE = 120


def path(instance, kind):
    return os.path.join(FOLDER, f'{instance.uuid}.{kind}')


def write(target, text):
    # Renamed when it is whole: the reader looks at any moment.
    with open(target + '.part', 'w') as file:
        file.write(text)
    os.rename(target + '.part', target)


def wait(done, what):
    end = time.monotonic() + PATIENCE
    while not done():
        if time.monotonic() > end:
            raise exception.NovaException(f'nobody {what} the machine within {PATIENCE} seconds')
        time.sleep(0.1)


class LabDriver(fake.FakeDriver):
    def spawn(self, context, instance, image_meta, injected_files, admin_password, allocations, network_info=None, *args, **kwargs):
        if os.path.isdir(FOLDER):
            write(path(instance, 'json'), json.dumps({
                'name': instance.display_name,
                'uuid': instance.uuid,
                'userData': base64.b64decode(instance.user_data or '').decode(),
                'addresses': [ip['address'] for vif in network_info or [] for subnet in vif['network']['subnets'] for ip in subnet['ips']],
                'metadata': dict(instance.metadata),
            }))
            wait(lambda: os.path.exists(path(instance, 'up')) or os.path.exists(path(instance, 'failed')), 'made')
            if os.path.exists(path(instance, 'failed')):
                with open(path(instance, 'failed')) as file:
                    raise exception.InstanceDeployFailure(reason=file.read())
        return super().spawn(context, instance, image_meta, injected_files, admin_password, allocations, network_info, *args, **kwargs)

    def destroy(self, context, instance, network_info, *args, **kwargs):
        if os.path.exists(path(instance, 'json')):
            write(path(instance, 'delete'), '')
            wait(lambda: not os.path.exists(path(instance, 'json')), 'deleted')
        return super().destroy(context, instance, network_info, *args, **kwargs)
