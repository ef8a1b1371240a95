# serve.py <file>: a newer Nova as one process, by the fixtures of its own functional tests: its API, conductor, scheduler, compute service with the fake
# hypervisor, Placement, and databases in memory. Keystone, Glance and Neutron are what those fixtures have of them, behind the few routes that a driver asks.
# Writes where it listens and what there is for servers into <file> when a server can be made, and serves until it is killed.
import json
import os
import sys
import urllib.parse
import warnings
from socketserver import ThreadingMixIn
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

TARGET = sys.argv[1]
# Threads, as Nova runs from this release on.
os.environ['OS_NOVA_DISABLE_EVENTLET_PATCHING'] = 'true'


def without_errors(install):
    # The fixtures of Nova and Placement turn warnings into exceptions, for their developers. A service then answers HTTP 500.
    return lambda action, *args, **kwargs: install('ignore' if action == 'error' else action, *args, **kwargs)


# Before anything of Nova is imported: no filter that is installed from here on raises.
warnings.filterwarnings = without_errors(warnings.filterwarnings)
warnings.simplefilter = without_errors(warnings.simplefilter)

import nova.tests.functional  # noqa: E402, F401 (first: it decides between threads and eventlet)
from nova.tests.fixtures.nova import PROJECT_ID  # noqa: E402
from nova.tests.functional import integrated_helpers  # noqa: E402

PROJECT, USER, PASSWORD, REGION = PROJECT_ID, 'fake', 'mcm-secret', 'RegionOne'
TOKEN = 'token-of-tests'


class Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True
    request_queue_size = 64


class Handler(WSGIRequestHandler):
    def log_message(self, *args):
        pass


class Front:
    """All services under one address, by the first part of the path."""

    def __init__(self, nova, neutron):
        self.nova, self.neutron = nova, neutron

    def __call__(self, environ, start):
        path = environ['PATH_INFO']
        query = dict(urllib.parse.parse_qsl(environ.get('QUERY_STRING', '')))
        if path == '/v3/auth/tokens':
            return self.keystone(environ, start)
        if environ.get('HTTP_X_AUTH_TOKEN') != TOKEN:
            return answer(start, 401, {'error': {'code': 401, 'message': 'no token'}})
        service, rest = path.split('/', 2)[1:]
        if service == 'compute':
            environ.update(PATH_INFO='/' + rest, HTTP_X_AUTH_USER=USER, HTTP_X_AUTH_PROJECT_ID=PROJECT, HTTP_X_ROLES='reader,member')
            return self.nova(environ, start)
        if rest == 'v2/images':
            return answer(start, 200, {'images': [{'id': '155d900f-4e14-4e4c-a73d-069cbf4541e6', 'name': query.get('name', 'img')}]})
        return self.network(environ['REQUEST_METHOD'], rest.split('/')[1:], query, environ, start)

    def keystone(self, environ, start):
        user = body(environ)['auth']['identity'].get('password', {}).get('user', {})
        if (user.get('name'), user.get('password')) != (USER, PASSWORD):
            return answer(start, 401, {'error': {'code': 401, 'message': 'The request you have made requires authentication.'}})
        here = 'http://' + environ['HTTP_HOST']
        kinds = (('identity', '/v3'), ('compute', '/compute/v2.1'), ('network', '/network'), ('image', '/image'))
        catalog = [{'type': kind, 'name': kind, 'endpoints': [
            {'interface': 'public', 'region': REGION, 'region_id': REGION, 'url': here + path}]} for kind, path in kinds]
        token = {'expires_at': '2099-01-01T00:00:00.000000Z', 'project': {'id': PROJECT}, 'catalog': catalog}
        return answer(start, 201, {'token': token}, ('X-Subject-Token', TOKEN))

    def network(self, method, words, query, environ, start):
        query.pop('fields', None)
        match method, words:
            case 'GET', ['ports']:
                return answer(start, 200, self.neutron.list_ports(True, **query))
            case 'POST', ['ports']:
                wanted = body(environ)['port']
                port = self.neutron.create_port()['port']['id']
                # The fixture makes the same port for everybody; its address is as good as another.
                wanted.pop('fixed_ips', None)
                self.neutron._ports[port].update(wanted, device_id='')
                return answer(start, 201, self.neutron.show_port(port))
            case 'GET', ['ports', port] if port in self.neutron._ports:
                return answer(start, 200, self.neutron.show_port(port))
            case 'DELETE', ['ports', port]:
                self.neutron.delete_port(port)
                return answer(start, 204, None)
            case 'PUT', ['ports', port, 'tags']:
                self.neutron._ports[port].update(body(environ))
                return answer(start, 200, {})
            case 'GET', ['security-groups']:
                group = {'id': self.neutron.security_group['id'], 'name': query.get('name')}
                return answer(start, 200, {'security_groups': [group]})
            case 'GET', ['networks']:
                return answer(start, 200, self.neutron.list_networks(**query))
            case 'PUT', ['ports', port] if port in self.neutron._ports:
                self.neutron._ports[port].update(body(environ)['port'])
                return answer(start, 200, self.neutron.show_port(port))
        return answer(start, 404, {'NeutronError': {'type': 'NotFound', 'message': f'{method} {words} is not here'}})


def body(environ):
    return json.loads(environ['wsgi.input'].read(int(environ.get('CONTENT_LENGTH') or 0)) or '{}')


def answer(start, status, value, *headers):
    text = b'' if value is None else json.dumps(value).encode()
    start(f'{status} as asked', [('Content-Type', 'application/json'), ('Content-Length', str(len(text))), *headers])
    return [text]


class Serve(integrated_helpers._IntegratedTestBase):
    CAST_AS_CALL = False

    def test(self):
        self.admin_api.post_flavor({'flavor': {'name': 'm1.huge', 'ram': 99999999, 'vcpus': 1, 'disk': 10, 'id': 'huge'}})
        self.api.api_post('/os-keypairs', {'keypair': {'name': 'k'}})
        # Whoever asks while the fixture's first port is not there is given that one, also while its last server is still letting go of it.
        self.neutron.create_port()
        server = make_server('127.0.0.1', 0, Front(self.api_fixture.app(), self.neutron), Server, Handler)
        target = {
            'authURL': f'http://127.0.0.1:{server.server_port}/v3', 'region': REGION, 'domainName': 'Default',
            'username': USER, 'password': PASSWORD, 'tenantName': PROJECT, 'availabilityZone': 'nova',
            'flavorName': 'm1.small', 'otherFlavorName': 'm1.medium', 'hugeFlavorName': 'm1.huge', 'imageName': 'img',
            'networkID': self.neutron.network_1['id'], 'subnetID': self.neutron.subnet_1['id'], 'keyName': 'k', 'securityGroup': 'default',
        }
        with open(TARGET + '.part', 'w') as file:
            json.dump(target, file)
        os.rename(TARGET + '.part', TARGET)
        server.serve_forever()


if __name__ == '__main__':
    import unittest
    result = unittest.TextTestRunner(stream=sys.stderr).run(Serve('test'))
    os._exit(0 if result.wasSuccessful() else 1)
